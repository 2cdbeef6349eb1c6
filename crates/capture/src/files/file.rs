//! One capture file that is being read.
//!
//! Octets are read straight into the block that is delivered, in large pieces, and packets refer to their place there;
//! no octet of a packet is copied but those of the record that is only half there when a block is full. A mapping of the
//! file into memory would save the one copy that is left, and would end the process when another program truncates the file.

use std::io::{self, ErrorKind, Read};
use std::mem;

use super::FileEnds;
use super::error::{CaptureDamage, CaptureError};
use super::input::Input;
use super::interfaces::Interfaces;
use super::left_out::LeftOutLinks;
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::sink::{Sink, Stop};
use crate::filter::Filter;
use crate::source::{PacketBlock, SourceCounts};

/// Octets of a file in one block: few enough that packets, and their digests, which take about as much memory, are still
/// in the second level cache of a core when they are dissected and taken in.
pub(super) const BLOCK_OCTETS: usize = 128 << 10;

/// What the readers of all files share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counts: SourceCounts,
    pub(super) interfaces: Interfaces,
    pub(super) left_out: LeftOutLinks,
    /// Which packets are delivered, `None` for all.
    pub(super) filter: Option<Filter>,
    pub(super) ends: FileEnds,
}

/// An open capture file.
pub(super) struct CaptureFile<'a> {
    reader: Box<dyn Read + Send + 'a>,
    format: Format,
    /// Octets that were read and not walked over.
    rest: Vec<u8>,
    /// Octets of the file before `rest`.
    position: u64,
    /// Octets that follow and are of no use.
    skip: u64,
    /// Octets of a block.
    block_octets: usize,
    /// Whether reading never waits for a writer.
    is_regular: bool,
    takes_much_memory: bool,
    has_ended: bool,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl<'a> CaptureFile<'a> {
    /// Reads the header of a file. Blocks will have this many octets.
    pub(super) fn open(mut input: Input<'a>, block_octets: usize, shared: &mut Shared) -> Result<Self, CaptureError> {
        input.first_octets()?;
        let (is_regular, takes_much_memory) = (input.is_regular(), input.takes_much_memory());
        let (mut rest, reader) = input.into_parts();
        shared.counts.octets_read += rest.len() as u64;
        let mut position = 0;
        let format = match rest.first_chunk::<4>() {
            None if rest.is_empty() => return Err(CaptureError::Empty),
            None => return Err(CaptureError::HeaderCutShort),
            Some(&pcapng::MAGIC) => Format::Pcapng(Pcapng::default()),
            Some(&magic) if pcap::is_magic(magic) => {
                let header = rest.first_chunk().ok_or(CaptureError::HeaderCutShort)?;
                // only interfaces are found while the header is read
                let mut nothing = PacketBlock::default();
                let pcap = Pcap::open(header, &mut shared.sink(&mut nothing))?;
                position = rest.len() as u64;
                rest.clear();
                Format::Pcap(pcap)
            }
            Some(&magic) => return Err(CaptureError::NotACapture(u32::from_be_bytes(magic))),
        };
        Ok(Self {
            reader,
            format,
            rest,
            position,
            skip: 0,
            block_octets,
            is_regular,
            takes_much_memory,
            has_ended: false,
        })
    }

    /// From now on blocks have this many octets.
    pub(super) fn set_block_octets(&mut self, octets: usize) {
        self.block_octets = octets;
    }

    /// Whether it can be closed and opened again.
    pub(super) fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Whether decompressing it may take tens of MiB of memory.
    pub(super) fn takes_much_memory(&self) -> bool {
        self.takes_much_memory
    }

    /// Whether all was read.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Fills a block, which is empty afterwards only when the file has ended. An error ends the file as well; what was
    /// read before it is in the block.
    pub(super) fn fill(&mut self, block: &mut PacketBlock, shared: &mut Shared) -> Result<(), CaptureError> {
        // The octets keep their length while the block is emptied, so that they need not be set to zero again.
        let mut octets = mem::take(block.octets_mut());
        block.clear();
        let mut piece = Piece { octets: &mut octets, filled: 0, at: 0 };
        let result = self.fill_octets(&mut piece, block, shared);
        let (at, filled) = (piece.at, piece.filled);
        self.has_ended |= result.is_err();
        self.rest.clear();
        self.rest.extend_from_slice(octets.get(at..filled).unwrap_or_default());
        self.position += at as u64;
        octets.truncate(filled);
        *block.octets_mut() = octets;
        result
    }

    fn fill_octets(
        &mut self,
        piece: &mut Piece<'_>,
        block: &mut PacketBlock,
        shared: &mut Shared,
    ) -> Result<(), CaptureError> {
        piece.octets.resize(self.block_octets.max(self.rest.len()), 0);
        piece.append(&self.rest);
        let mut record_octets = 0;
        while !self.has_ended && block.packets().is_empty() {
            let end = self.read_more(piece, shared);
            let skipped = self.skip.min((piece.filled - piece.at) as u64);
            piece.at += skipped as usize;
            self.skip -= skipped;
            let stop = match self.skip {
                0 => self.walk(piece, block, shared),
                octets => Stop::Skip(octets),
            };
            let damaged = |damage| Err(CaptureError::Damaged { offset: self.position + piece.at as u64, damage });
            match (stop, end) {
                (Stop::Damaged(damage), _) => return damaged(damage),
                (_, End::Failed(error)) => return self.failed(piece, error),
                (Stop::Skip(_), End::OfFile) => return damaged(CaptureDamage::CutShort),
                (Stop::Record(_), End::OfFile) if piece.at < piece.filled => return damaged(CaptureDamage::CutShort),
                (_, End::OfFile) => self.has_ended = true,
                (Stop::Skip(octets), End::OfBlock) => self.skip = octets,
                (Stop::Record(octets), End::OfBlock) => record_octets = octets,
            }
            if block.packets().is_empty() {
                self.position += piece.at as u64;
                piece.move_rest_to_begin();
                piece.grow(record_octets);
            }
        }
        Ok(())
    }

    fn walk(&mut self, piece: &mut Piece<'_>, block: &mut PacketBlock, shared: &mut Shared) -> Stop {
        let octets = &piece.octets[..piece.filled];
        let mut sink = shared.sink(block);
        match &mut self.format {
            Format::Pcap(pcap) => pcap.read(octets, &mut piece.at, &mut sink),
            Format::Pcapng(pcapng) => pcapng.read(octets, &mut piece.at, &mut sink),
        }
    }

    /// Reads until the block is full, or, where that may wait for a writer, once.
    fn read_more(&mut self, piece: &mut Piece<'_>, shared: &mut Shared) -> End {
        loop {
            let free = &mut piece.octets[piece.filled..];
            if free.is_empty() {
                return End::OfBlock;
            }
            let read = match self.reader.read(free) {
                Ok(0) => return End::OfFile,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return End::Failed(error),
            };
            piece.filled += read;
            shared.counts.octets_read += read as u64;
            if !self.is_regular {
                return End::OfBlock;
            }
        }
    }

    fn failed(&self, piece: &Piece<'_>, error: io::Error) -> Result<(), CaptureError> {
        Err(CaptureError::Read { offset: self.position + piece.filled as u64, error })
    }
}

/// Why reading stopped.
enum End {
    OfBlock,
    OfFile,
    Failed(io::Error),
}

impl Shared {
    fn sink<'a>(&'a mut self, block: &'a mut PacketBlock) -> Sink<'a> {
        Sink {
            block,
            counts: &mut self.counts,
            interfaces: &mut self.interfaces,
            left_out: &mut self.left_out,
            filter: self.filter.as_mut(),
        }
    }
}

/// The octets of a block that is being filled.
struct Piece<'a> {
    octets: &'a mut Vec<u8>,
    /// How many of them are from the file.
    filled: usize,
    /// How many of these were walked over.
    at: usize,
}

impl Piece<'_> {
    fn grow(&mut self, octets: usize) {
        if self.octets.len() < octets {
            self.octets.resize(octets, 0);
        }
    }

    fn append(&mut self, octets: &[u8]) {
        self.octets[self.filled..self.filled + octets.len()].copy_from_slice(octets);
        self.filled += octets.len();
    }

    /// Makes space, which must not be done while packets refer to these octets.
    fn move_rest_to_begin(&mut self) {
        self.octets.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
    }
}
