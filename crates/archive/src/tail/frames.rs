//! The frames of a tail, each of which is read when it is asked for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use weir_flow::{Column, Table};

use super::TailContents;
use super::stream::read_at;
use crate::frame::{FoundFrame, FrameDigest, FrameHeader, HEADER_OCTETS, TailEnd, decode, decode_flows};
use crate::{Action, ArchiveError, Position};

/// A frame of a tail: where it is, and what its header and digest say.
#[derive(Debug, Clone)]
pub struct TailFrame {
    file: Arc<OpenTail>,
    found: FoundFrame,
    digest: Option<Arc<FrameDigest>>,
}

/// The file of a tail.
#[derive(Debug)]
struct OpenTail {
    path: PathBuf,
    /// `None` when it is opened each time.
    file: Option<Arc<File>>,
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
    /// Nothing yet of a tail. One that is open can be read although it is removed meanwhile.
    pub(crate) fn new(path: PathBuf, file: Option<File>) -> Self {
        let file = Arc::new(OpenTail { path, file: file.map(Arc::new) });
        Self { file, frames: Vec::new(), end: TailEnd::Clean, octets_left: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Position of the last whole frame.
    pub(crate) fn last(&self) -> Option<Position> {
        self.frames.last().map(TailFrame::position)
    }

    /// Looks for frames behind those that are known. Only headers and digests are read, and the whole last frame; when
    /// that is not all there is, the rest of the tail is read to find out why.
    pub(crate) fn look_further(&mut self) -> Result<(), ArchiveError> {
        let file = self.file.open()?;
        let failed = Action::ReadTail.failed(&self.file.path);
        let length = file.metadata().map_err(failed)?.len();
        let mut at = self.frames.last().map_or(0, TailFrame::end);
        let known = self.frames.len();
        while let Some(frame) = self.frame_at(&file, at, length)? {
            at = frame.end();
            self.frames.push(frame);
        }
        let is_whole = self.frames.len() == known || self.frames.last().is_none_or(|last| last.payload().is_ok());
        if at == length && is_whole {
            (self.end, self.octets_left) = (TailEnd::Clean, 0);
            return Ok(());
        }
        let contents = TailContents::read(&file, &self.file.path)?;
        self.frames.truncate(contents.scan.frames.len());
        let more = contents.scan.frames.iter().skip(self.frames.len());
        self.frames.extend(more.map(|found| TailFrame { file: Arc::clone(&self.file), found: *found, digest: None }));
        self.end = contents.scan.end;
        self.octets_left = contents.octets() - contents.scan.whole_octets as u64;
        Ok(())
    }

    /// The frame at `at`, if the header says that it follows and lies within the file.
    fn frame_at(&self, file: &File, at: u64, length: u64) -> Result<Option<TailFrame>, ArchiveError> {
        let payload_at = at + HEADER_OCTETS as u64;
        if payload_at > length {
            return Ok(None);
        }
        let failed = |source| Action::ReadTail.failed(&self.file.path)(source);
        let Some(header) = FrameHeader::parse(&read_at(file, at, HEADER_OCTETS).map_err(failed)?) else {
            return Ok(None);
        };
        let follows = self.last().is_none_or(|last| last.next() == header.position);
        if !follows || at + header.frame_octets() > length {
            return Ok(None);
        }
        let digest = match header.digest_octets as usize {
            0 => None,
            octets => {
                let octets = read_at(file, payload_at + header.digest_at(), octets).map_err(failed)?;
                // one that is damaged is not used; whether the frame is, too, is seen when it is read
                FrameDigest::decode(&octets).map(Arc::new)
            }
        };
        let found = FoundFrame { header, payload_at: payload_at as usize };
        Ok(Some(TailFrame { file: Arc::clone(&self.file), found, digest }))
    }
}

impl OpenTail {
    fn open(&self) -> Result<Arc<File>, ArchiveError> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => File::open(&self.path).map(Arc::new).map_err(Action::ReadTail.failed(&self.path)),
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

    /// The payload, once it is certain that it is what was written.
    fn payload(&self) -> Result<Buffer, ArchiveError> {
        let header = &self.found.header;
        let file = self.file.open()?;
        let octets = read_at(&file, self.found.payload_at as u64, header.payload_octets() as usize);
        let octets = octets.map_err(Action::ReadTail.failed(&self.file.path))?;
        if crc32c::crc32c(&octets) != header.payload_crc {
            return Err(ArchiveError::DamagedTail { path: self.file.path.clone(), octets: header.frame_octets() });
        }
        Ok(octets)
    }

    fn failed(&self, source: ArrowError) -> ArchiveError {
        ArchiveError::DecodeFrame { path: self.file.path.clone(), source }
    }
}
