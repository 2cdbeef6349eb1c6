//! The frames of a tail, each of which is read when it is asked for.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use weir_flow::{Column, Table};

use super::stream::read_at;
use super::{TailContents, number_of, read_octets};
use crate::caches::Caches;
use crate::frame::{FoundFrame, FrameDigest, FrameHeader, HEADER_OCTETS, TailEnd, decode, decode_flows};
use crate::position::TailNumber;
use crate::{Action, ArchiveError, Position};

/// A frame of a tail: where it is, and what its header and digest say.
#[derive(Debug, Clone)]
pub struct TailFrame {
    file: Arc<OpenTail>,
    found: FoundFrame,
    digest: Option<Arc<FrameDigest>>,
    caches: Option<Arc<Caches>>,
}

/// A tail that can be read although it is removed.
#[derive(Debug)]
struct OpenTail {
    path: PathBuf,
    octets: TailOctets,
}

#[derive(Debug)]
enum TailOctets {
    File(File),
    Memory(Buffer),
}

/// What a tail holds, as far as its headers tell.
#[derive(Debug, Clone)]
pub(crate) struct TailFrames {
    file: Arc<OpenTail>,
    pub(crate) frames: Vec<TailFrame>,
    pub(crate) end: TailEnd,
    /// Octets behind the last whole frame.
    pub(crate) octets_left: u64,
}

impl TailFrames {
    /// Nothing yet of a tail that is kept open.
    pub(crate) fn of_file(path: PathBuf, file: File) -> Self {
        Self::of(OpenTail { path, octets: TailOctets::File(file) })
    }

    /// Nothing yet of a tail that is complete, and is read into memory now.
    pub(crate) fn of_memory(path: PathBuf, file: &File) -> Result<Self, ArchiveError> {
        let octets = read_octets(file).map_err(Action::ReadTail.failed(&path))?;
        Ok(Self::of(OpenTail { path, octets: TailOctets::Memory(octets) }))
    }

    fn of(tail: OpenTail) -> Self {
        Self { file: Arc::new(tail), frames: Vec::new(), end: TailEnd::Clean, octets_left: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(crate) fn number(&self) -> TailNumber {
        number_of(self.path())
    }

    /// Position of the last whole frame.
    pub(crate) fn last(&self) -> Option<Position> {
        self.frames.last().map(TailFrame::position)
    }

    /// Looks for frames behind those that are known. Only headers and digests are read, and the whole last frame; when
    /// that is not all there is, the rest of the tail is read to find out why.
    pub(crate) fn look_further(&mut self) -> Result<(), ArchiveError> {
        let length = self.file.length()?;
        let mut at = self.frames.last().map_or(0, TailFrame::end);
        let known = self.frames.len();
        while let Some(frame) = self.frame_at(at, length)? {
            at = frame.end();
            self.frames.push(frame);
        }
        let is_whole = self.frames.len() == known || self.frames.last().is_none_or(|last| last.payload().is_ok());
        if at == length && is_whole {
            (self.end, self.octets_left) = (TailEnd::Clean, 0);
            return Ok(());
        }
        let contents = self.file.contents()?;
        self.frames.truncate(contents.scan.frames.len());
        let more = contents.scan.frames.iter().skip(self.frames.len());
        self.frames.extend(more.map(|found| TailFrame {
            file: Arc::clone(&self.file),
            found: *found,
            digest: None,
            caches: None,
        }));
        self.end = contents.scan.end;
        self.octets_left = contents.octets() - contents.scan.whole_octets as u64;
        Ok(())
    }

    /// The frame at `at`, if the header says that it follows and lies within the file.
    fn frame_at(&self, at: u64, length: u64) -> Result<Option<TailFrame>, ArchiveError> {
        let payload_at = at + HEADER_OCTETS as u64;
        if payload_at > length {
            return Ok(None);
        }
        let Some(header) = FrameHeader::parse(&self.file.read(at, HEADER_OCTETS)?) else { return Ok(None) };
        let follows = match self.frames.last() {
            Some(last) => last.position().next() == header.position && last.found.header.mark == header.mark,
            None => header.mark.may_be_of(number_of(&self.file.path)),
        };
        if !follows || at + header.frame_octets() > length {
            return Ok(None);
        }
        let digest = match header.digest_octets as usize {
            0 => None,
            octets => {
                let octets = self.file.read(payload_at + header.digest_at(), octets)?;
                // one that is damaged is not used; whether the frame is, too, is seen when it is read
                FrameDigest::decode(&octets).map(Arc::new)
            }
        };
        let found = FoundFrame { header, payload_at: payload_at as usize };
        Ok(Some(TailFrame { file: Arc::clone(&self.file), found, digest, caches: None }))
    }
}

impl OpenTail {
    /// Octets that it has now.
    fn length(&self) -> Result<u64, ArchiveError> {
        match &self.octets {
            TailOctets::File(file) => {
                file.metadata().map(|metadata| metadata.len()).map_err(Action::ReadTail.failed(&self.path))
            }
            TailOctets::Memory(octets) => Ok(octets.len() as u64),
        }
    }

    fn read(&self, at: u64, octets: usize) -> Result<Buffer, ArchiveError> {
        let read = match &self.octets {
            TailOctets::File(file) => read_at(file, at, octets),
            TailOctets::Memory(all) if at as usize + octets <= all.len() => {
                Ok(all.slice_with_length(at as usize, octets))
            }
            TailOctets::Memory(_) => Err(ErrorKind::UnexpectedEof.into()),
        };
        read.map_err(Action::ReadTail.failed(&self.path))
    }

    /// All of it, every checksum verified.
    fn contents(&self) -> Result<TailContents, ArchiveError> {
        match &self.octets {
            TailOctets::File(file) => TailContents::read(file, &self.path),
            TailOctets::Memory(octets) => Ok(TailContents::of(octets.clone(), &self.path)),
        }
    }
}

impl TailFrame {
    /// Its position.
    pub fn position(&self) -> Position {
        self.found.header.position
    }

    /// Flows in it.
    pub fn flows(&self) -> usize {
        self.found.header.flows_rows as usize
    }

    /// Octets that reading it reads.
    pub fn octets(&self) -> u64 {
        self.found.header.frame_octets()
    }

    /// What it says about its flows; `None` when it was written before frames said anything.
    pub fn digest(&self) -> Option<&FrameDigest> {
        self.digest.as_deref()
    }

    /// Reads its flows, of which the batch has those of the columns that the delivery had; `None` when it has no flows.
    pub fn read_flows(&self, columns: &[Column]) -> Result<Option<RecordBatch>, ArchiveError> {
        if self.found.header.flows_octets == 0 {
            return Ok(None);
        }
        let is_wanted = |name: &str| Column::by_name(name).is_some_and(|column| columns.contains(&column));
        let flows = decode_flows(&self.found.header, &self.payload()?, is_wanted);
        flows.map(Some).map_err(|source| self.failed(source))
    }

    /// Reads its rows of a table, every column of them.
    pub fn read(&self, table: Table) -> Result<Vec<RecordBatch>, ArchiveError> {
        let FrameHeader { flows_octets, side_batches, .. } = self.found.header;
        if if table == Table::Flows { flows_octets == 0 } else { side_batches == 0 } {
            return Ok(Vec::new());
        }
        let in_payload = FoundFrame { payload_at: 0, ..self.found };
        let decoded = decode(&in_payload, &self.payload()?).map_err(|source| self.failed(source))?;
        Ok(decoded.into_iter().filter(|(of, _)| *of == table).map(|(_, batch)| batch).collect())
    }

    /// Where the next frame begins.
    fn end(&self) -> u64 {
        self.found.payload_at as u64 + self.found.header.payload_octets()
    }

    /// The same, which looks for its payload in these caches first.
    pub(crate) fn with_caches(&self, caches: Option<&Arc<Caches>>) -> Self {
        Self { caches: caches.map(Arc::clone), ..self.clone() }
    }

    fn payload(&self) -> Result<Buffer, ArchiveError> {
        match &self.caches {
            Some(caches) => caches.payload(self.position(), || self.read_payload()),
            None => self.read_payload(),
        }
    }

    /// Reads the payload and sees that it is what was written.
    fn read_payload(&self) -> Result<Buffer, ArchiveError> {
        let header = &self.found.header;
        let octets = self.file.read(self.found.payload_at as u64, header.payload_octets() as usize)?;
        if crc32c::crc32c(&octets) != header.payload_crc {
            return Err(ArchiveError::DamagedTail { path: self.file.path.clone(), octets: header.frame_octets() });
        }
        Ok(octets)
    }

    fn failed(&self, source: ArrowError) -> ArchiveError {
        ArchiveError::DecodeFrame { path: self.file.path.clone(), source }
    }
}
