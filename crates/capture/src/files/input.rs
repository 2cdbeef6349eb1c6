//! Where the octets of a file come from: a file or standard input, as it is or compressed.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use super::error::CaptureError;
use super::packed::{self, Packed};
use super::pcap::HEADER_OCTETS;

/// An open file, decompressed if it begins as files of gzip, zstd, xz, bzip2 or lz4 do.
pub struct Input<'a> {
    /// What was read of it to see what it is; belongs before the octets of `reader`.
    start: Vec<u8>,
    reader: Box<dyn Read + Send + 'a>,
    /// Whether it is a file on disk: reading does not wait for a writer, and it may be opened again.
    is_regular: bool,
    packed: Option<Packed>,
}

impl Input<'static> {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        if path.as_os_str() == "-" {
            return Self::new(io::stdin());
        }
        let file = File::open(path).map_err(CaptureError::Open)?;
        let kind = file.metadata().map_err(CaptureError::Open)?.file_type();
        if kind.is_dir() {
            return Err(CaptureError::Open(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Self { is_regular: kind.is_file(), ..Self::new(file)? })
    }
}

impl<'a> Input<'a> {
    /// Begins to read; waits for the first octets.
    pub fn new(reader: impl Read + Send + 'a) -> Result<Self, CaptureError> {
        let mut input = Self { start: Vec::new(), reader: Box::new(reader), is_regular: false, packed: None };
        input.read_start(packed::MAGIC_OCTETS)?;
        let Some(packed) = Packed::of(&input.start) else { return Ok(input) };
        let whole = Cursor::new(input.start).chain(input.reader);
        let reader = packed.unpack(whole).map_err(|error| CaptureError::Read { offset: 0, error })?;
        Ok(Self { start: Vec::new(), reader, is_regular: false, packed: Some(packed) })
    }

    /// The first octets of the content, at most as many as a header of pcap has; they are read again. Fewer where the
    /// content ends.
    pub fn first_octets(&mut self) -> Result<&[u8], CaptureError> {
        self.read_start(HEADER_OCTETS)?;
        Ok(&self.start)
    }

    /// Whether it is decompressed while it is read.
    pub fn is_compressed(&self) -> bool {
        self.packed.is_some()
    }

    /// Whether it is decompressed in tens of MiB of memory, or may be.
    pub(super) fn takes_much_memory(&self) -> bool {
        self.packed.is_some_and(Packed::takes_much_memory)
    }

    /// Whether it can be closed and opened again.
    pub(super) fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// The first octets, and a reader of what follows them.
    pub(super) fn into_parts(self) -> (Vec<u8>, Box<dyn Read + Send + 'a>) {
        (self.start, self.reader)
    }

    fn read_start(&mut self, octets: usize) -> Result<(), CaptureError> {
        let more = octets.saturating_sub(self.start.len()) as u64;
        let read = self.reader.by_ref().take(more).read_to_end(&mut self.start);
        read.map_err(|error| CaptureError::Read { offset: self.start.len() as u64, error })?;
        Ok(())
    }
}

impl Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start.is_empty() {
            return self.reader.read(into);
        }
        let octets = self.start.len().min(into.len());
        into[..octets].copy_from_slice(&self.start[..octets]);
        self.start.drain(..octets);
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn first_octets_are_read_again_whatever_the_compression() {
        let content: Vec<u8> = (0..200).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&content).expect("compressed");
        let gzip = gzip.finish().expect("compressed");
        let zstd = zstd::encode_all(content.as_slice(), 1).expect("compressed");
        for octets in [&content, &gzip, &zstd] {
            let mut input = Input::new(octets.as_slice()).expect("an input");
            assert_eq!(input.is_compressed(), octets != &content);
            assert_eq!(input.first_octets().expect("octets"), &content[..HEADER_OCTETS]);
            let mut read = Vec::new();
            input.read_to_end(&mut read).expect("octets");
            assert_eq!(read, content);
        }
    }

    #[test]
    fn short_content_has_fewer_first_octets() {
        for length in 0..6 {
            let octets = &[7; 6][..length];
            let mut input = Input::new(octets).expect("an input");
            assert_eq!(input.first_octets().expect("octets"), octets);
        }
    }

    #[test]
    fn broken_compression_is_a_read_error() {
        let mut input = Input::new(&[0x1f, 0x8b, 8, 0, 1][..]).expect("an input");
        assert!(matches!(input.first_octets(), Err(CaptureError::Read { .. })));
    }
}
