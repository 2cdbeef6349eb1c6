//! Edits and whole states as bytes.
//!
//! A file of the manifest is a header and a payload:
//!
//! ```text
//!  0  magic "weir.man"        8 octets
//!  8  version                 4
//! 12  sequence                8
//! 20  octets of the payload   8
//! 28  CRC-32C of the payload  4
//! 32  CRC-32C of the header   4   of the 32 octets before it
//! 36  payload
//! ```
//!
//! Header numbers are little-endian. In the payload numbers are LEB128, those that may be negative in zigzag; so a
//! segment takes some 45 octets.

use std::path::Path;
use std::sync::Arc;

use weir_flow::Table;

use super::edit::Edit;
use super::key::SegmentKey;
use super::state::{ArchiveState, Epoch, PendingDeletion, PendingFile, PendingReason, WriterState};
use crate::index::octets::{CorruptIndex, OctetReader, put_u32, put_u64, put_varint, zigzag};
use crate::tail_set::TailSet;
use crate::{Position, Segment, SegmentSummary};

const MAGIC: &[u8; 8] = b"weir.man";
const VERSION: u32 = 1;
pub(super) const HEADER_OCTETS: usize = 36;

/// Why octets are no file of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFile {
    /// They are not what was written.
    Corrupt,
    /// A later program has written them.
    Version(u32),
}

impl From<CorruptIndex> for BadFile {
    fn from(CorruptIndex: CorruptIndex) -> Self {
        Self::Corrupt
    }
}

/// A file of this payload.
pub(super) fn file(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_OCTETS + payload.len());
    out.extend(MAGIC);
    put_u32(&mut out, VERSION);
    put_u64(&mut out, sequence);
    put_u64(&mut out, payload.len() as u64);
    put_u32(&mut out, crc32c::crc32c(payload));
    let crc = crc32c::crc32c(&out);
    put_u32(&mut out, crc);
    out.extend(payload);
    out
}

/// The sequence number in a header, and the octets and checksum of the payload.
fn header(octets: &[u8]) -> Result<(u64, u64, u32), BadFile> {
    let (signed, rest) = octets.split_at_checked(HEADER_OCTETS - 4).ok_or(BadFile::Corrupt)?;
    let crc = OctetReader::new(rest).u32()?;
    let mut reader = OctetReader::new(signed);
    if reader.take(MAGIC.len())? != MAGIC || crc != crc32c::crc32c(signed) {
        return Err(BadFile::Corrupt);
    }
    let version = reader.u32()?;
    if version != VERSION {
        return Err(BadFile::Version(version));
    }
    Ok((reader.u64()?, reader.u64()?, reader.u32()?))
}

/// The sequence number in the header of a file.
pub(super) fn sequence_of(octets: &[u8]) -> Result<u64, BadFile> {
    header(octets).map(|(sequence, ..)| sequence)
}

/// Sequence number and payload of a file.
pub(super) fn payload_of(octets: &[u8]) -> Result<(u64, &[u8]), BadFile> {
    let (sequence, length, crc) = header(octets)?;
    let payload = octets.get(HEADER_OCTETS..).unwrap_or_default();
    if payload.len() as u64 != length || crc32c::crc32c(payload) != crc {
        return Err(BadFile::Corrupt);
    }
    Ok((sequence, payload))
}

/// Writes numbers and what is made of them.
#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn number(&mut self, number: u64) {
        put_varint(&mut self.0, number);
    }

    fn signed(&mut self, number: i64) {
        self.number(zigzag(number));
    }

    fn all<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut put: impl FnMut(&mut Self, T)) {
        self.number(items.len() as u64);
        for item in items {
            put(self, item);
        }
    }

    fn tails(&mut self, tails: &TailSet) {
        let mut before = 0;
        self.all(tails.ranges().iter(), |out, (first, last)| {
            out.number(first - before);
            out.number(last - first);
            before = *last;
        });
    }

    fn key(&mut self, key: &SegmentKey) {
        self.number(key.table as u64);
        self.signed(key.day);
        self.number(key.writer.into());
        self.number(key.first_tail);
    }

    fn segment(&mut self, segment: &Segment) {
        self.number(segment.table as u64);
        self.signed(segment.day);
        self.number(segment.writer.into());
        self.tails(&segment.tails);
        self.number(segment.generation.into());
        self.number(segment.first.get());
        self.number(segment.last.get().wrapping_sub(segment.first.get()));
        self.number(segment.rows);
        self.number(segment.octets);
        match segment.time_range_ms {
            None => self.number(0),
            Some((first, last)) => {
                self.number(1);
                self.signed(first);
                self.signed(last.wrapping_sub(first));
            }
        }
        self.number(segment.header_crc.map_or(0, |crc| u64::from(crc) + 1));
    }

    fn summary(&mut self, summary: &SegmentSummary) {
        self.segment(summary.segment());
        self.number(summary.octets());
    }

    fn writer(&mut self, writer: &WriterState) {
        self.number(writer.position.get());
        self.number(writer.first_tail);
        self.tails(&writer.skipped);
        self.tails(&writer.gone);
        self.all(writer.epochs.iter(), |out, epoch| {
            out.number(epoch.number.into());
            out.number(epoch.after.get());
        });
    }

    fn pending(&mut self, pending: &PendingDeletion) {
        self.number(pending.since);
        self.number(pending.reason as u64);
        match &pending.file {
            PendingFile::Segment(segment) => {
                self.number(0);
                self.segment(segment);
            }
            PendingFile::Summary(summary) => {
                self.number(1);
                self.summary(summary);
            }
        }
    }
}

/// An edit as the payload of a file.
pub(super) fn encode_edit(edit: &Edit) -> Vec<u8> {
    let mut out = Encoder::default();
    match edit {
        Edit::Opened { writer, epoch, position } => {
            out.number(1);
            out.number((*writer).into());
            out.number((*epoch).into());
            out.number(position.get());
        }
        Edit::Sealed { writer, tails, last, segments } => {
            out.number(2);
            out.number((*writer).into());
            out.number(tails.0);
            out.number(tails.1);
            out.number(last.get());
            out.all(segments.iter(), Encoder::segment);
        }
        Edit::Skipped { writer, tail } => {
            out.number(3);
            out.number((*writer).into());
            out.number(*tail);
        }
        Edit::Merged { inputs, output } => {
            out.number(4);
            out.all(inputs.iter(), Encoder::key);
            out.segment(output);
        }
        Edit::Expired { segments, written, summaries } => {
            out.number(5);
            out.all(segments.iter(), Encoder::key);
            out.all(written.iter(), Encoder::summary);
            out.all(summaries.iter(), Encoder::key);
        }
        Edit::SetAside { segments, summaries } => {
            out.number(6);
            out.all(segments.iter(), Encoder::key);
            out.all(summaries.iter(), Encoder::key);
        }
        Edit::Summarised { written } => {
            out.number(7);
            out.all(written.iter(), Encoder::summary);
        }
        Edit::Deleted { through } => {
            out.number(8);
            out.number(*through);
        }
    }
    out.0
}

/// A whole state as the payload of a file.
pub(super) fn encode_state(state: &ArchiveState) -> Vec<u8> {
    let mut out = Encoder::default();
    out.all(state.writers.iter(), |out, (id, writer)| {
        out.number((*id).into());
        out.writer(writer);
    });
    out.all(state.segments.values(), Encoder::segment);
    out.all(state.summaries.values(), Encoder::summary);
    out.all(state.pending.iter(), Encoder::pending);
    out.number(state.rows_expired);
    out.number(state.rows_set_aside);
    out.0
}

/// Reads what [`Encoder`] has written; every segment gets the folder of the archive.
struct Decoder<'a> {
    reader: OctetReader<'a>,
    root: &'a Arc<Path>,
}

type Decoded<T> = Result<T, CorruptIndex>;

impl<'a> Decoder<'a> {
    fn new(octets: &'a [u8], root: &'a Arc<Path>) -> Self {
        Self { reader: OctetReader::new(octets), root }
    }

    fn number(&mut self) -> Decoded<u64> {
        self.reader.varint()
    }

    fn signed(&mut self) -> Decoded<i64> {
        self.reader.signed()
    }

    fn narrow(&mut self) -> Decoded<u32> {
        self.number()?.try_into().map_err(|_| CorruptIndex)
    }

    fn position(&mut self) -> Decoded<Position> {
        self.number().map(Position::new)
    }

    fn all<T>(&mut self, mut take: impl FnMut(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let count = self.number()?;
        // each takes an octet at least, so no number of them makes us allocate more than the file has
        if count > self.reader.left() as u64 {
            return Err(CorruptIndex);
        }
        (0..count).map(|_| take(self)).collect()
    }

    fn end<T>(&self, value: T) -> Result<T, BadFile> {
        if self.reader.left() == 0 { Ok(value) } else { Err(BadFile::Corrupt) }
    }

    fn table(&mut self) -> Decoded<Table> {
        let number = self.number()?;
        Table::ALL.iter().copied().find(|table| *table as u64 == number).ok_or(CorruptIndex)
    }

    fn tails(&mut self) -> Decoded<TailSet> {
        let mut before = 0u64;
        let ranges = self.all(|from| {
            let first = before.checked_add(from.number()?).ok_or(CorruptIndex)?;
            before = first.checked_add(from.number()?).ok_or(CorruptIndex)?;
            Ok((first, before))
        })?;
        Ok(TailSet::of_ranges(ranges))
    }

    fn key(&mut self) -> Decoded<SegmentKey> {
        let (table, day) = (self.table()?, self.signed()?);
        Ok(SegmentKey { table, day, writer: self.narrow()?, first_tail: self.number()? })
    }

    fn segment(&mut self) -> Decoded<Segment> {
        let (table, day, writer) = (self.table()?, self.signed()?, self.narrow()?);
        let (tails, generation, first) = (self.tails()?, self.narrow()?, self.number()?);
        let last = first.wrapping_add(self.number()?);
        let (rows, octets) = (self.number()?, self.number()?);
        let time_range_ms = match self.number()? {
            0 => None,
            1 => {
                let first = self.signed()?;
                Some((first, first.wrapping_add(self.signed()?)))
            }
            _ => return Err(CorruptIndex),
        };
        let header_crc = match self.number()? {
            0 => None,
            crc => Some(u32::try_from(crc - 1).map_err(|_| CorruptIndex)?),
        };
        let (first, last) = (Position::new(first), Position::new(last));
        let root = Arc::clone(self.root);
        Ok(Segment {
            table,
            day,
            rows,
            octets,
            first,
            last,
            time_range_ms,
            writer,
            tails,
            generation,
            header_crc,
            root,
        })
    }

    fn summary(&mut self) -> Decoded<SegmentSummary> {
        let segment = self.segment()?;
        Ok(SegmentSummary::of(segment, self.number()?))
    }

    fn writer(&mut self) -> Decoded<WriterState> {
        let (position, first_tail) = (self.position()?, self.number()?);
        let (skipped, gone) = (self.tails()?, self.tails()?);
        let epochs = self.all(|from| Ok(Epoch { number: from.narrow()?, after: from.position()? }))?;
        Ok(WriterState { position, first_tail, skipped, gone, epochs })
    }

    fn pending(&mut self) -> Decoded<PendingDeletion> {
        let since = self.number()?;
        let reason = match self.number()? {
            0 => PendingReason::Merged,
            1 => PendingReason::Expired,
            _ => return Err(CorruptIndex),
        };
        let file = match self.number()? {
            0 => PendingFile::Segment(self.segment()?),
            1 => PendingFile::Summary(self.summary()?),
            _ => return Err(CorruptIndex),
        };
        Ok(PendingDeletion { since, file, reason })
    }

    fn edit(&mut self) -> Decoded<Edit> {
        Ok(match self.number()? {
            1 => Edit::Opened { writer: self.narrow()?, epoch: self.narrow()?, position: self.position()? },
            2 => Edit::Sealed {
                writer: self.narrow()?,
                tails: (self.number()?, self.number()?),
                last: self.position()?,
                segments: self.all(Self::segment)?,
            },
            3 => Edit::Skipped { writer: self.narrow()?, tail: self.number()? },
            4 => Edit::Merged { inputs: self.all(Self::key)?, output: self.segment()? },
            5 => Edit::Expired {
                segments: self.all(Self::key)?,
                written: self.all(Self::summary)?,
                summaries: self.all(Self::key)?,
            },
            6 => Edit::SetAside { segments: self.all(Self::key)?, summaries: self.all(Self::key)? },
            7 => Edit::Summarised { written: self.all(Self::summary)? },
            8 => Edit::Deleted { through: self.number()? },
            _ => return Err(CorruptIndex),
        })
    }
}

/// The edit of a payload.
pub(super) fn decode_edit(payload: &[u8], root: &Arc<Path>) -> Result<Edit, BadFile> {
    let mut decoder = Decoder::new(payload, root);
    let edit = decoder.edit()?;
    decoder.end(edit)
}

/// The state of a payload, which is that after the commit of this number.
pub(super) fn decode_state(payload: &[u8], sequence: u64, root: &Arc<Path>) -> Result<ArchiveState, BadFile> {
    let mut decoder = Decoder::new(payload, root);
    let writers = decoder.all(|from| Ok((from.narrow()?, from.writer()?)))?;
    let segments = decoder.all(Decoder::segment)?;
    let summaries = decoder.all(Decoder::summary)?;
    let pending = decoder.all(Decoder::pending)?;
    let state = ArchiveState {
        sequence,
        writers: writers.into_iter().collect(),
        segments: segments.into_iter().map(|segment| (segment.key(), segment)).collect(),
        summaries: summaries.into_iter().map(|summary| (summary.key(), summary)).collect(),
        pending,
        rows_expired: decoder.number()?,
        rows_set_aside: decoder.number()?,
    };
    decoder.end(state)
}
