//! One capture by itself, with typed errors.

use super::error::CaptureError;
use super::file::{BLOCK_OCTETS, CaptureFile, Shared};
use super::input::Input;
use crate::source::{Interface, PacketBlock, SourceCounts};

/// Reads one capture, from anything that can be read, block by block.
pub struct CaptureReader<'a> {
    file: CaptureFile<'a>,
    shared: Shared,
}

impl<'a> CaptureReader<'a> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    ///
    /// What begins as neither pcap nor pcapng does, or whose header is not valid.
    pub fn open(input: Input<'a>) -> Result<Self, CaptureError> {
        let mut shared = Shared::default();
        Ok(Self { file: CaptureFile::open(input, BLOCK_OCTETS, &mut shared)?, shared })
    }

    /// Empties the block and fills it with packets, of which there are none only at the end of the capture.
    ///
    /// # Errors
    ///
    /// What ends the capture before its end; the packets read before that are in the block.
    pub fn fill(&mut self, block: &mut PacketBlock) -> Result<(), CaptureError> {
        self.file.fill(block, &mut self.shared)
    }

    /// The interfaces so far.
    pub fn interfaces(&self) -> &[Interface] {
        self.shared.interfaces.list()
    }

    /// What was counted so far. Octets are those of the content without compression.
    pub fn counts(&self) -> SourceCounts {
        self.shared.counts
    }
}
