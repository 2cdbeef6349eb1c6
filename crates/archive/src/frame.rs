//! Frames: deliveries as they lie in a tail.
//!
//! A frame is a header of 64 octets, then Arrow IPC streams: flows when there are any, then one for each batch of
//! the side tables. Each is padded with zeros to a multiple of 64 octets, so that columns can be used where they were
//! read, and each beside the flows has a heading of 64 octets. Columns are packed (see `pack`). All numbers are
//! little-endian:
//!
//! ```text
//!  0  magic "WEIRTAIL"      8 octets
//!  8  version               4
//! 12  rows of flows         4
//! 16  position              8
//! 24  octets of flows       8   without padding, 0 when there are none
//! 32  octets beside flows   8   headings and padding included
//! 40  batches beside flows  4
//! 44  CRC-32C of payload    4   padding included
//! 48  zeros                 8
//! 56  octets of the digest  4   without padding, 0 when there is none
//! 60  CRC-32C of header     4   of the 60 octets before it
//! ```
//!
//! A heading is the name of the table, filled up with zeros to 48 octets, then the octets of the stream (8, without
//! padding) and zeros. What the frame says about its flows comes last (see `digest`).

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamEncoder;
use weir_flow::{Delivery, FlowBatch, Table};

use crate::Position;

mod digest;
mod pack;

pub use digest::FrameDigest;
pub(crate) use pack::unpack;

/// Octets of a header, and what payloads are padded to.
pub(crate) const HEADER_OCTETS: usize = 64;
const MAGIC: &[u8; 8] = b"WEIRTAIL";
const VERSION: u32 = 2;
/// Where a heading has the octets of its stream; the name of the table comes before.
const HEADING_OCTETS_AT: usize = 48;
static ZEROS: [u8; HEADER_OCTETS] = [0; HEADER_OCTETS];

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) position: Position,
    pub(crate) flows_octets: u64,
    pub(crate) side_octets: u64,
    pub(crate) flows_rows: u32,
    pub(crate) side_batches: u32,
    pub(crate) payload_crc: u32,
    pub(crate) digest_octets: u32,
}

const fn padded(octets: u64) -> u64 {
    octets.next_multiple_of(HEADER_OCTETS as u64)
}

fn u32_at(octets: &[u8; HEADER_OCTETS], at: usize) -> u32 {
    u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

fn u64_at(octets: &[u8; HEADER_OCTETS], at: usize) -> u64 {
    u64::from(u32_at(octets, at)) | u64::from(u32_at(octets, at + 4)) << 32
}

impl FrameHeader {
    /// Reads a header. `None` unless magic, version and checksum are right and its lengths make sense.
    pub(crate) fn parse(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; HEADER_OCTETS] = octets.first_chunk()?;
        if !octets.starts_with(MAGIC) || u32_at(octets, 8) != VERSION {
            return None;
        }
        if crc32c::crc32c(&octets[..60]) != u32_at(octets, 60) {
            return None;
        }
        let header = Self {
            flows_rows: u32_at(octets, 12),
            position: Position::new(u64_at(octets, 16)),
            flows_octets: u64_at(octets, 24),
            side_octets: u64_at(octets, 32),
            side_batches: u32_at(octets, 40),
            payload_crc: u32_at(octets, 44),
            digest_octets: u32_at(octets, 56),
        };
        // Lengths of this size cannot be added up without care, and no frame has them.
        let sane = header.flows_octets < 1 << 48 && header.side_octets < 1 << 48;
        sane.then_some(header)
    }

    fn to_octets(self) -> [u8; HEADER_OCTETS] {
        let mut octets = [0; HEADER_OCTETS];
        octets[..8].copy_from_slice(MAGIC);
        octets[8..12].copy_from_slice(&VERSION.to_le_bytes());
        octets[12..16].copy_from_slice(&self.flows_rows.to_le_bytes());
        octets[16..24].copy_from_slice(&self.position.get().to_le_bytes());
        octets[24..32].copy_from_slice(&self.flows_octets.to_le_bytes());
        octets[32..40].copy_from_slice(&self.side_octets.to_le_bytes());
        octets[40..44].copy_from_slice(&self.side_batches.to_le_bytes());
        octets[44..48].copy_from_slice(&self.payload_crc.to_le_bytes());
        octets[56..60].copy_from_slice(&self.digest_octets.to_le_bytes());
        let crc = crc32c::crc32c(&octets[..60]);
        octets[60..].copy_from_slice(&crc.to_le_bytes());
        octets
    }

    /// Octets of the payload, padding included.
    pub(crate) fn payload_octets(&self) -> u64 {
        self.digest_at() + padded(self.digest_octets.into())
    }

    /// Where in the payload the digest begins.
    pub(crate) fn digest_at(&self) -> u64 {
        padded(self.flows_octets) + padded(self.side_octets)
    }

    /// Octets of the frame.
    pub(crate) fn frame_octets(&self) -> u64 {
        HEADER_OCTETS as u64 + self.payload_octets()
    }
}

/// A frame ready to be written: a header, then the buffers in their order.
#[derive(Debug)]
pub(crate) struct EncodedFrame {
    pub(crate) header: FrameHeader,
    pub(crate) header_octets: [u8; HEADER_OCTETS],
    /// The columns themselves as far as possible: what is written is not copied first.
    pub(crate) payload: Vec<Buffer>,
}

impl EncodedFrame {
    /// Encodes a delivery as the frame of this position.
    pub(crate) fn new(position: Position, delivery: &Delivery) -> Result<Self, ArrowError> {
        let mut payload = Vec::new();
        let flows = delivery.flows.as_ref().map(FlowBatch::record_batch);
        let flows_octets = flows.map_or(Ok(0), |flows| encode_stream(flows, &mut payload))?;
        let (mut side_octets, mut side_batches) = (0, 0);
        for (table, batch) in delivery.side_tables.batches() {
            let at = payload.len();
            let octets = encode_stream(batch, &mut payload)?;
            payload.insert(at, heading(table, octets));
            side_octets += HEADER_OCTETS as u64 + padded(octets);
            side_batches += 1;
        }
        let digest = delivery.flows.as_ref().map(|flows| FrameDigest::of(flows).encode());
        let digest_octets = digest.as_ref().map_or(0, Buffer::len) as u32;
        payload.extend(digest);
        payload.push(padding(digest_octets.into()));
        let payload_crc = payload.iter().fold(0, |crc, buffer| crc32c::crc32c_append(crc, buffer));
        let header = FrameHeader {
            position,
            flows_octets,
            side_octets,
            flows_rows: flows.map_or(0, RecordBatch::num_rows) as u32,
            side_batches,
            payload_crc,
            digest_octets,
        };
        Ok(Self { header, header_octets: header.to_octets(), payload })
    }
}

/// What precedes the stream of a side table.
fn heading(table: Table, octets: u64) -> Buffer {
    let mut heading = [0; HEADER_OCTETS];
    let name = table.name().as_bytes();
    let length = name.len().min(HEADING_OCTETS_AT);
    heading[..length].copy_from_slice(&name[..length]);
    heading[HEADING_OCTETS_AT..HEADING_OCTETS_AT + 8].copy_from_slice(&octets.to_le_bytes());
    Buffer::from(&heading[..])
}

/// Table and octets of a heading.
fn parse_heading(heading: &[u8; HEADER_OCTETS]) -> Result<(Table, usize), ArrowError> {
    let name = heading[..HEADING_OCTETS_AT].split(|octet| *octet == 0).next().unwrap_or_default();
    let table = Table::ALL.iter().copied().find(|table| table.name().as_bytes() == name);
    let unknown = || ArrowError::IpcError(format!("unknown table '{}'", name.escape_ascii()));
    Ok((table.ok_or_else(unknown)?, u64_at(heading, HEADING_OCTETS_AT) as usize))
}

/// Appends a padded stream of one batch; returns its octets without padding.
fn encode_stream(batch: &RecordBatch, out: &mut Vec<Buffer>) -> Result<u64, ArrowError> {
    let batch = &pack::pack(batch)?;
    let mut encoder = StreamEncoder::try_new(batch.schema_ref())?;
    let first = out.len();
    out.extend(encoder.encode(batch)?);
    out.extend(encoder.finish()?);
    let octets = out[first..].iter().map(|buffer| buffer.len() as u64).sum();
    out.push(padding(octets));
    Ok(octets)
}

/// Zeros up to a multiple of 64 octets.
fn padding(octets: u64) -> Buffer {
    Buffer::from(&ZEROS[..(padded(octets) - octets) as usize])
}

/// Where the streams of a frame begin, and their octets, each with its table. `heading_at` reads a heading.
pub(crate) fn streams<E: From<ArrowError>>(
    frame: &FoundFrame,
    mut heading_at: impl FnMut(usize) -> Result<[u8; HEADER_OCTETS], E>,
) -> Result<Vec<(Table, usize, usize)>, E> {
    let FoundFrame { header, payload_at } = frame;
    let mut streams = Vec::with_capacity(1 + header.side_batches as usize);
    if header.flows_octets > 0 {
        streams.push((Table::Flows, *payload_at, header.flows_octets as usize));
    }
    let mut at = payload_at + padded(header.flows_octets) as usize;
    for _ in 0..header.side_batches {
        let (table, length) = parse_heading(&heading_at(at)?)?;
        at += HEADER_OCTETS;
        streams.push((table, at, length));
        at += padded(length as u64) as usize;
    }
    Ok(streams)
}

/// The batches of a frame that was checked before, each with its table.
pub(crate) fn decode(frame: &FoundFrame, octets: &Buffer) -> Result<Vec<(Table, RecordBatch)>, ArrowError> {
    let heading_at = |at: usize| octets.get(at..).and_then(|rest| rest.first_chunk().copied()).ok_or_else(cut_short);
    let streams = streams(frame, heading_at)?;
    streams
        .into_iter()
        .map(|(table, at, length)| Ok((table, unpacked(table, &decode_stream(octets, at, length)?)?)))
        .collect()
}

/// Flows of a frame that was checked before, with the columns that are wanted. `payload` is that of the frame alone.
pub(crate) fn decode_flows(
    header: &FrameHeader,
    payload: &Buffer,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<RecordBatch, ArrowError> {
    let batch = decode_stream(payload, 0, header.flows_octets as usize)?;
    let fields = batch.schema_ref().fields().iter().enumerate();
    let wanted: Vec<usize> = fields.filter(|(_, field)| is_wanted(field.name())).map(|(place, _)| place).collect();
    unpacked(Table::Flows, &batch.project(&wanted)?)
}

/// The batch as it was before it was packed. A column that the table does not have stays as it is.
fn unpacked(table: Table, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = unpacked_schema(table, batch.schema_ref());
    let fields = batch.schema_ref().fields().iter().zip(batch.columns()).zip(schema.fields());
    let columns = fields.map(|((packed, column), field)| unpack(packed, column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(&schema), columns.collect::<Result<_, _>>()?, &options)
}

/// The schema of a batch before it was packed.
pub(crate) fn unpacked_schema(table: Table, schema: &Schema) -> SchemaRef {
    let known = table.schema();
    let fields = schema.fields().iter().map(|field| match known.field_with_name(field.name()) {
        Ok(known) => Arc::new(known.clone()),
        Err(_) => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn cut_short() -> ArrowError {
    ArrowError::IpcError("frame is shorter than its streams".to_owned())
}

fn decode_stream(octets: &Buffer, at: usize, length: usize) -> Result<RecordBatch, ArrowError> {
    if at.checked_add(length).is_none_or(|end| end > octets.len()) {
        return Err(cut_short());
    }
    let mut stream = octets.slice_with_length(at, length);
    let mut decoder = StreamDecoder::new();
    decoder.decode(&mut stream)?.ok_or_else(|| ArrowError::IpcError("stream without a batch".to_owned()))
}

/// A whole frame found in a tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFrame {
    pub(crate) header: FrameHeader,
    /// Where its payload begins.
    pub(crate) payload_at: usize,
}

/// What follows the whole frames of a tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailEnd {
    /// Nothing.
    Clean,
    /// Octets that are no whole frame, with no frame after them: a write that did not finish.
    Torn,
    /// Octets that are no whole frame, with frames after them: the file was changed after it was written.
    Damaged {
        /// Headers found after them.
        frames: u64,
        /// Flows in these frames.
        rows: u64,
        /// Position of the last of them.
        last: Position,
    },
}

/// The frames of a tail.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Whole frames, without a gap.
    pub(crate) frames: Vec<FoundFrame>,
    /// Octets that they take.
    pub(crate) whole_octets: usize,
    pub(crate) end: TailEnd,
}

impl Scan {
    /// Position of the last whole frame.
    pub(crate) fn last(&self) -> Option<Position> {
        self.frames.last().map(|frame| frame.header.position)
    }

    /// Flows in the whole frames.
    pub(crate) fn rows(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.header.flows_rows)).sum()
    }
}

/// Octets in which frames are looked for: in memory, or a file of which little should be in memory.
pub(crate) trait Octets {
    /// How many there are.
    fn length(&self) -> usize;
    /// Up to [`HEADER_OCTETS`] octets at `at`, fewer when there are no more.
    fn header_at(&self, at: usize) -> impl AsRef<[u8]>;
    /// The checksum of `length` octets at `at`, or `None` when there are fewer.
    fn crc_at(&self, at: usize, length: usize) -> Option<u32>;
}

impl Octets for [u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn header_at(&self, at: usize) -> impl AsRef<[u8]> {
        self.get(at..).unwrap_or_default()
    }

    fn crc_at(&self, at: usize, length: usize) -> Option<u32> {
        self.get(at..at.checked_add(length)?).map(crc32c::crc32c)
    }
}

/// Finds the whole frames of a tail: all checksums right, positions one after another.
pub(crate) fn scan(octets: &(impl Octets + ?Sized)) -> Scan {
    let mut frames: Vec<FoundFrame> = Vec::new();
    let mut at = 0;
    while let Some(frame) = frame_at(octets, at) {
        let follows = |before: &FoundFrame| before.header.position.next() == frame.header.position;
        if !frames.last().is_none_or(follows) {
            break;
        }
        at += frame.header.frame_octets() as usize;
        frames.push(frame);
    }
    let end = if at == octets.length() { TailEnd::Clean } else { end_after(octets, at) };
    Scan { frames, whole_octets: at, end }
}

fn frame_at(octets: &(impl Octets + ?Sized), at: usize) -> Option<FoundFrame> {
    let header = FrameHeader::parse(octets.header_at(at).as_ref())?;
    let payload_at = at + HEADER_OCTETS;
    let crc = octets.crc_at(payload_at, header.payload_octets() as usize)?;
    (crc == header.payload_crc).then_some(FoundFrame { header, payload_at })
}

fn end_after(octets: &(impl Octets + ?Sized), bad: usize) -> TailEnd {
    let mut found = TailEnd::Torn;
    let mut at = bad + HEADER_OCTETS;
    while at < octets.length() {
        // A header counts only with its whole frame: the columns of a torn frame may hold anything a sender likes.
        if let Some(frame) = frame_at(octets, at) {
            let (frames, rows) = match found {
                TailEnd::Damaged { frames, rows, .. } => (frames, rows),
                _ => (0, 0),
            };
            found = TailEnd::Damaged {
                frames: frames + 1,
                rows: rows + u64::from(frame.header.flows_rows),
                last: frame.header.position,
            };
            at += frame.header.frame_octets() as usize;
        } else {
            at += HEADER_OCTETS;
        }
    }
    found
}

#[cfg(test)]
mod tests;
