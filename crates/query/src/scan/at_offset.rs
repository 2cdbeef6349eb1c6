//! Reading a file at offsets, from several threads at once.

use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

/// Octets read at a time while a footer is parsed.
const BUFFER_OCTETS: usize = 8 << 10;

/// A file that is read without moving its cursor.
///
/// The library reads a plain `File` by seeking in a duplicate of its descriptor, and duplicates share one cursor: two
/// threads that parse the same file at once read each other's octets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtOffset<F> {
    /// The file, borrowed or shared.
    pub file: F,
    /// Its length.
    pub octets: u64,
}

/// Reads from an offset of its own, which other readers of the file do not move.
#[derive(Debug)]
pub(crate) struct OffsetReader<F> {
    file: F,
    offset: u64,
}

impl<F: Borrow<File>> Read for OffsetReader<F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.file.borrow().read_at(to, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl<F: Send + Sync> Length for AtOffset<F> {
    fn len(&self) -> u64 {
        self.octets
    }
}

impl<F: Borrow<File> + Clone + Send + Sync> ChunkReader for AtOffset<F> {
    type T = BufReader<OffsetReader<F>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(BUFFER_OCTETS, OffsetReader { file: self.file.clone(), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut octets = vec![0; length];
        self.file.borrow().read_exact_at(&mut octets, start)?;
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
