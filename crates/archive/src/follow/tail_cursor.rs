//! A place in a tail, from which frames are read one after another.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use weir_flow::{FlowBatch, Table};

use crate::frame::{FoundFrame, FrameHeader, HEADER_OCTETS, decode};
use crate::position::TailNumber;
use crate::{Action, ArchiveError};

/// A place between two frames of a tail that may still be written.
#[derive(Debug)]
pub(super) struct TailCursor {
    pub(super) number: TailNumber,
    path: PathBuf,
    file: File,
    at: u64,
}

/// What was read of a frame.
#[derive(Debug)]
pub(super) struct TakenFrame {
    pub(super) flows: Option<FlowBatch>,
}

impl TailCursor {
    /// The start of a tail; `None` when it is gone.
    pub(super) fn open(path: PathBuf, number: TailNumber) -> Result<Option<Self>, ArchiveError> {
        match File::open(&path) {
            Ok(file) => Ok(Some(Self { number, path, file, at: 0 })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Action::ReadTail.failed(&path)(source)),
        }
    }

    /// The header of the frame that is here; `None` while there is none.
    pub(super) fn header(&self) -> Result<Option<FrameHeader>, ArchiveError> {
        let mut octets = [0; HEADER_OCTETS];
        Ok(if self.read(self.at, &mut octets)? { FrameHeader::parse(&octets) } else { None })
    }

    /// Goes behind the frame of this header, which is here; false, and stays, while the file ends before it does.
    /// Another frame may take the place of one that is cut back.
    pub(super) fn skip(&mut self, header: &FrameHeader) -> Result<bool, ArchiveError> {
        let is_there = self.rest()? >= header.frame_octets();
        if is_there {
            self.at += header.frame_octets();
        }
        Ok(is_there)
    }

    /// Whether the frame of this header, which is here, has all its octets.
    pub(super) fn is_whole(&self, header: &FrameHeader) -> Result<bool, ArchiveError> {
        self.payload(header).map(|payload| payload.is_some())
    }

    fn payload(&self, header: &FrameHeader) -> Result<Option<Buffer>, ArchiveError> {
        if self.rest()? < header.frame_octets() {
            return Ok(None);
        }
        let mut octets = MutableBuffer::from_len_zeroed(header.payload_octets() as usize);
        let is_there = self.read(self.at + HEADER_OCTETS as u64, octets.as_slice_mut())?;
        let octets = Buffer::from(octets);
        Ok((is_there && crc32c::crc32c(&octets) == header.payload_crc).then_some(octets))
    }

    /// The flows of the frame of this header, which is here; `None` while it is not whole. Then goes behind it.
    pub(super) fn take(&mut self, header: &FrameHeader) -> Result<Option<TakenFrame>, ArchiveError> {
        let Some(octets) = self.payload(header)? else { return Ok(None) };
        let failed = |source| ArchiveError::DecodeFrame { path: self.path.clone(), source };
        let batches = decode(&FoundFrame { header: *header, payload_at: 0 }, &octets).map_err(failed)?;
        let flows = batches.into_iter().find(|(table, _)| *table == Table::Flows).map(|(_, batch)| batch);
        let unknown = |error: weir_flow::BatchError| failed(ArrowError::SchemaError(error.to_string()));
        let flows = flows.map(|batch| FlowBatch::try_new(batch).map_err(unknown)).transpose()?;
        self.at += header.frame_octets();
        Ok(Some(TakenFrame { flows }))
    }

    /// Octets of the file from here on.
    pub(super) fn rest(&self) -> Result<u64, ArchiveError> {
        let metadata = self.file.metadata().map_err(Action::ReadTail.failed(&self.path))?;
        Ok(metadata.len().saturating_sub(self.at))
    }

    /// What is here is no frame, and the tail is complete.
    pub(super) fn damaged(&self, octets: u64) -> ArchiveError {
        ArchiveError::DamagedTail { path: self.path.clone(), octets }
    }

    /// Fills octets from a place on; false when there are not so many.
    fn read(&self, at: u64, octets: &mut [u8]) -> Result<bool, ArchiveError> {
        match self.file.read_exact_at(octets, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(source) => Err(Action::ReadTail.failed(&self.path)(source)),
        }
    }
}
