//! A file whose parts are summed up while they are written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};

/// Writes to a file and takes the CRC-32C of each part of it. How long parts are is told before they are written,
/// because what lies above may hold octets back.
#[derive(Debug)]
pub(super) struct ChecksumWriter<'a> {
    file: &'a File,
    /// Octets left of each part to come.
    parts: VecDeque<u64>,
    /// Checksums of the parts that are whole.
    sums: Vec<u32>,
    crc: u32,
}

impl<'a> ChecksumWriter<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self { file, parts: VecDeque::new(), sums: Vec::new(), crc: 0 }
    }

    /// The next part after those announced so far will have this many octets.
    pub(super) fn expect(&mut self, octets: u64) {
        if octets == 0 && self.parts.is_empty() {
            self.sums.push(0);
        } else {
            self.parts.push_back(octets);
        }
    }

    /// Checksums of the parts written, of which no later call tells again.
    pub(super) fn take_sums(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.sums)
    }

    /// Checksum of what came behind all parts.
    pub(super) fn rest(&self) -> u32 {
        self.crc
    }

    fn sum(&mut self, mut octets: &[u8]) {
        while let Some(left) = self.parts.front_mut() {
            let (part, rest) = octets.split_at((*left).min(octets.len() as u64) as usize);
            self.crc = crc32c::crc32c_append(self.crc, part);
            *left -= part.len() as u64;
            octets = rest;
            if *left > 0 {
                return;
            }
            self.parts.pop_front();
            self.sums.push(std::mem::take(&mut self.crc));
        }
        self.crc = crc32c::crc32c_append(self.crc, octets);
    }
}

impl Write for ChecksumWriter<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut file = self.file;
        let written = file.write(octets)?;
        self.sum(octets.get(..written).unwrap_or(octets));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
