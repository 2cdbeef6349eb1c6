//! Where the octets of a capture file come from: a file or standard input, as it is or compressed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::error::FileError;

/// Octets that tell how a file is compressed, if it is.
const MAGIC_OCTETS: usize = 4;
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Compressed octets read at a time.
const COMPRESSED_OCTETS: usize = 128 << 10;

/// An open file, decompressed.
pub(super) struct Input {
    /// What was read of it to see what it is; belongs before the octets of `reader`.
    pub(super) start: Vec<u8>,
    pub(super) reader: Box<dyn Read + Send>,
    /// Whether it is a file on disk: reading does not wait for somebody to write, and it may be opened again.
    pub(super) is_regular: bool,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        if path.as_os_str() == "-" {
            return Self::of(Box::new(io::stdin()), false);
        }
        let file = File::open(path).map_err(FileError::Open)?;
        let kind = file.metadata().map_err(FileError::Open)?.file_type();
        if kind.is_dir() {
            return Err(FileError::Open(io::ErrorKind::IsADirectory.into()));
        }
        Self::of(Box::new(file), kind.is_file())
    }

    fn of(mut reader: Box<dyn Read + Send>, is_regular: bool) -> Result<Self, FileError> {
        let mut start = Vec::with_capacity(MAGIC_OCTETS);
        let read = reader.by_ref().take(MAGIC_OCTETS as u64).read_to_end(&mut start);
        read.map_err(|error| FileError::Read { offset: 0, error })?;
        let is_gzip = start.starts_with(&GZIP);
        if !is_gzip && start != ZSTD {
            return Ok(Self { start, reader, is_regular });
        }
        let whole = BufReader::with_capacity(COMPRESSED_OCTETS, Cursor::new(start).chain(reader));
        let reader: Box<dyn Read + Send> = if is_gzip {
            Box::new(MultiGzDecoder::new(whole))
        } else {
            let decoder = zstd::stream::read::Decoder::with_buffer(whole);
            Box::new(decoder.map_err(|error| FileError::Read { offset: 0, error })?)
        };
        Ok(Self { start: Vec::new(), reader, is_regular })
    }
}
