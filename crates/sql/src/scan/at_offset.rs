//! Reading a file at offsets, from several threads at once.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use datafusion::parquet::errors::Result;
use datafusion::parquet::file::reader::{ChunkReader, Length};

/// Octets read at a time while a footer is parsed.
const BUFFER_OCTETS: usize = 8 << 10;

/// A file that is read without moving its cursor.
///
/// The library reads a plain `File` by seeking in a duplicate of its descriptor, and duplicates share one cursor: two
/// threads that parse the same file at once read each other's octets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtOffset<'f> {
    pub(crate) file: &'f File,
    pub(crate) octets: u64,
}

/// Reads on from an offset of its own.
#[derive(Debug)]
pub(crate) struct Onwards<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for Onwards<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(to, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Length for AtOffset<'_> {
    fn len(&self) -> u64 {
        self.octets
    }
}

impl<'f> ChunkReader for AtOffset<'f> {
    type T = BufReader<Onwards<'f>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(BUFFER_OCTETS, Onwards { file: self.file, offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut octets = vec![0; length];
        self.file.read_exact_at(&mut octets, start)?;
        Ok(octets.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_do_not_move_each_others_cursor() {
        let mut file = tempfile::tempfile().expect("a file");
        let content: Vec<u8> = (0..200_000_u32).map(|number| (number / 1000) as u8).collect();
        io::Write::write_all(&mut file, &content).expect("written");
        let reader = AtOffset { file: &file, octets: content.len() as u64 };
        std::thread::scope(|scope| {
            for start in [0, 50_000, 150_000] {
                let expected = &content[start..];
                scope.spawn(move || {
                    for _ in 0..100 {
                        let mut read = Vec::new();
                        reader.get_read(start as u64).expect("readable").read_to_end(&mut read).expect("read");
                        assert!(read == expected, "octets of another thread");
                    }
                });
            }
        });
    }
}
