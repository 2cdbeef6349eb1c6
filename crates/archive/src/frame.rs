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
//! 40  batches beside flows  2
//! 42  digest                2   in units of 64 octets, padding included
//! 44  CRC-32C of payload    4   padding included
//! 48  nonce of the tail     8   random, 0 in tails of older programs
//! 56  number of the tail    4   its low 32 bits
//! 60  CRC-32C of header     4   of the 60 octets before it
//! ```
//!
//! The nonce and the number say which tail a frame is of: one that an older file left on the disk, or that lies in another
//! tail, is not taken for one of this tail, nor is one that a sender put into the octets of a flow. A frame without any
//! payload stands for one that was lost to damage (see `scan`).
//!
//! A heading is the name of the table, filled up with zeros to 48 octets, then the octets of the stream (8, without
//! padding) and zeros. What the frame says about its flows comes last (see `digest`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamEncoder;
use weir_flow::{Delivery, FlowBatch, Table};

use crate::Position;
use crate::position::TailNumber;

mod digest;
mod pack;
mod scan;

pub use digest::FrameDigest;
pub(crate) use pack::unpack;
pub(crate) use scan::{Octets, Scan, TailEnd, scan};

/// Octets of a header, and what payloads are padded to.
pub(crate) const HEADER_OCTETS: usize = 64;
const MAGIC: &[u8; 8] = b"WEIRTAIL";
const VERSION: u32 = 2;
/// Where a heading has the octets of its stream; the name of the table comes before.
const HEADING_OCTETS_AT: usize = 48;
static ZEROS: [u8; HEADER_OCTETS] = [0; HEADER_OCTETS];

/// No position is as large: one that is was not given out by a writer.
const POSITIONS_END: u64 = 1 << 56;

/// What the frames of one tail have in common, and those of no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct TailMark {
    /// 0 in tails of older programs, which have no mark.
    pub(crate) nonce: u64,
    /// The low 32 bits of the tail's number.
    pub(crate) number: u32,
}

impl TailMark {
    /// The mark of a new tail. Its nonce cannot be guessed without reading the file.
    pub(crate) fn random(number: TailNumber) -> Self {
        // The keys of this hash are random numbers of the system.
        let nonce = RandomState::new().hash_one((number, std::process::id(), SystemTime::now()));
        Self { nonce: nonce.max(1), number: number as u32 }
    }

    /// Whether a tail of this number may have it.
    pub(crate) fn may_be_of(self, number: TailNumber) -> bool {
        self == Self::default() || (self.nonce != 0 && self.number == number as u32)
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) position: Position,
    /// Of the tail that it was written to.
    pub(crate) mark: TailMark,
    pub(crate) flows_octets: u64,
    pub(crate) side_octets: u64,
    pub(crate) flows_rows: u32,
    pub(crate) side_batches: u16,
    pub(crate) payload_crc: u32,
    /// Octets of the digest, padding included.
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
            side_batches: u32_at(octets, 40) as u16,
            digest_octets: (u32_at(octets, 40) >> 16) * HEADER_OCTETS as u32,
            payload_crc: u32_at(octets, 44),
            mark: TailMark { nonce: u64_at(octets, 48), number: u32_at(octets, 56) },
        };
        // Lengths of this size cannot be added up without care, and no frame has them.
        let sane =
            header.flows_octets < 1 << 48 && header.side_octets < 1 << 48 && header.position.get() < POSITIONS_END;
        sane.then_some(header)
    }

    /// The header of a frame that takes the place of a lost one.
    pub(crate) fn lost(position: Position, mark: TailMark) -> Self {
        Self {
            position,
            mark,
            flows_octets: 0,
            side_octets: 0,
            flows_rows: 0,
            side_batches: 0,
            digest_octets: 0,
            payload_crc: 0,
        }
    }

    pub(crate) fn to_octets(self) -> [u8; HEADER_OCTETS] {
        let mut octets = [0; HEADER_OCTETS];
        octets[..8].copy_from_slice(MAGIC);
        octets[8..12].copy_from_slice(&VERSION.to_le_bytes());
        octets[12..16].copy_from_slice(&self.flows_rows.to_le_bytes());
        octets[16..24].copy_from_slice(&self.position.get().to_le_bytes());
        octets[24..32].copy_from_slice(&self.flows_octets.to_le_bytes());
        octets[32..40].copy_from_slice(&self.side_octets.to_le_bytes());
        octets[40..42].copy_from_slice(&self.side_batches.to_le_bytes());
        let digest_units = self.digest_octets / HEADER_OCTETS as u32;
        octets[42..44].copy_from_slice(&(digest_units as u16).to_le_bytes());
        octets[44..48].copy_from_slice(&self.payload_crc.to_le_bytes());
        octets[48..56].copy_from_slice(&self.mark.nonce.to_le_bytes());
        octets[56..60].copy_from_slice(&self.mark.number.to_le_bytes());
        let crc = crc32c::crc32c(&octets[..60]);
        octets[60..].copy_from_slice(&crc.to_le_bytes());
        octets
    }

    /// Whether the frame takes the place of a lost one: no delivery is empty.
    pub(crate) fn is_lost(&self) -> bool {
        self.payload_octets() == 0
    }

    /// Octets of the payload, padding included.
    pub(crate) fn payload_octets(&self) -> u64 {
        self.digest_at() + u64::from(self.digest_octets)
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
    /// Without a mark, which it gets from the tail that it is written to.
    pub(crate) header: FrameHeader,
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
        let digest_octets = digest.as_ref().map_or(0, |digest| padded(digest.len() as u64)) as u32;
        if let Some(digest) = digest {
            let padding = padding(digest.len() as u64);
            payload.extend([digest, padding]);
        }
        let payload_crc = payload.iter().fold(0, |crc, buffer| crc32c::crc32c_append(crc, buffer));
        let header = FrameHeader {
            position,
            flows_octets,
            side_octets,
            flows_rows: flows.map_or(0, RecordBatch::num_rows) as u32,
            side_batches,
            payload_crc,
            digest_octets,
            mark: TailMark::default(),
        };
        Ok(Self { header, payload })
    }

    /// The header as a tail of this mark has it.
    pub(crate) fn header_octets(&self, mark: TailMark) -> [u8; HEADER_OCTETS] {
        FrameHeader { mark, ..self.header }.to_octets()
    }
}

/// A whole frame found in a tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFrame {
    pub(crate) header: FrameHeader,
    /// Where its payload begins.
    pub(crate) payload_at: usize,
}

impl FoundFrame {
    /// Where it begins.
    pub(crate) fn at(&self) -> usize {
        self.payload_at - HEADER_OCTETS
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> usize {
        self.at() + self.header.frame_octets() as usize
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

#[cfg(test)]
mod tests;
