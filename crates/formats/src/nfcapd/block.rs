//! Blocks as they are in the file: headers, decompression, and the limits on both.

use std::io::{self, Read};

use super::header::Compression;
use super::octets::{le_u16, le_u32};
use crate::lzo;

/// Octets of the header of a block, in both layouts.
pub(super) const BLOCK_HEADER_OCTETS: usize = 12;
/// Octets that a block has at most when it is decompressed: nfdump's own buffer, which no writer exceeds.
pub const BLOCK_OCTETS_MAX: usize = 5 << 20;
/// A compressed block may be a little longer than what is in it.
pub(super) const COMPRESSED_OCTETS_MAX: usize = BLOCK_OCTETS_MAX + BLOCK_OCTETS_MAX / 16 + 4096;

/// The header of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockHeader {
    /// Records in the block.
    pub(super) records: u32,
    /// Octets that follow the header in the file.
    pub(super) octets: u32,
    /// 1, 2: layout 1; 3: records of layout 2; 4: arrays.
    pub(super) kind: u16,
    pub(super) flags: u16,
}

impl BlockHeader {
    pub(super) fn of(octets: &[u8]) -> Self {
        Self {
            records: le_u32(octets, 0),
            octets: le_u32(octets, 4),
            kind: le_u16(octets, 8),
            flags: le_u16(octets, 10),
        }
    }

    /// How this block is compressed in a file of that layout and compression.
    pub(super) fn compression(self, layout: u16, of_file: Compression) -> Compression {
        // layout 1 has 1 for a block that is not compressed, layout 2 a bit
        let plain = if layout == 1 { self.flags == 1 } else { self.flags & 1 != 0 };
        if plain { Compression::None } else { of_file }
    }
}

/// Decompresses a block.
pub(super) struct Decompressor {
    /// As long as a block can be; taken when the first compressed block comes.
    output: Vec<u8>,
}

impl Decompressor {
    pub(super) fn new() -> Self {
        Self { output: Vec::new() }
    }

    /// What was decompressed last, and what stands behind it.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// How many octets came out, `None` when those given are damaged or hold more than a block can.
    pub(super) fn decompress(&mut self, compression: Compression, octets: &[u8]) -> Option<usize> {
        if self.output.is_empty() {
            self.output = vec![0; BLOCK_OCTETS_MAX];
        }
        let output = &mut self.output[..];
        match compression {
            Compression::None => {
                output.get_mut(..octets.len())?.copy_from_slice(octets);
                Some(octets.len())
            }
            Compression::Lzo => lzo::decompress(octets, output).ok(),
            Compression::Lz4 => lz4_flex::block::decompress_into(octets, output).ok(),
            Compression::Bzip2 => read_to_end(bzip2::read::BzDecoder::new(octets), output),
            Compression::Zstd => zstd::bulk::decompress_to_buffer(octets, output).ok(),
        }
    }
}

/// Reads all there is; `None` when that fails or does not fit.
fn read_to_end(mut input: impl Read, output: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        match input.read(&mut output[length..]) {
            Ok(0) if length < output.len() => return Some(length),
            Ok(0) => return None,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
