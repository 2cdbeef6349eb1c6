//! Where the parts of a segment's file lie.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::octets::{CorruptIndex, OctetReader, put_narrow, put_u32, put_u64, width_of};
use crate::{Action, ArchiveError};

/// Where the header is: behind Parquet's magic number, before the first row group.
pub(crate) const HEADER_AT: u64 = 4;
pub(crate) const HEADER_OCTETS: usize = 40;
const MAGIC: &[u8; 8] = b"weir.idx";

/// The section of the blocks of hosts.
pub(crate) const HOSTS: u8 = 0;
/// The section that says which delivery each row came in, see [`positions`](super::positions).
pub(crate) const POSITIONS: u8 = 1;
/// Sections of rollups are numbered from here on.
pub(crate) const ROLLUPS: u8 = 16;

/// A part of the file with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: u8,
    pub(crate) offset: u64,
    pub(crate) octets: u64,
    /// CRC-32C.
    pub(crate) crc: u32,
}

impl Section {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        put_u64(out, self.offset);
        put_u64(out, self.octets);
        put_u32(out, self.crc);
    }

    pub(crate) fn parse(reader: &mut OctetReader<'_>) -> Result<Self, CorruptIndex> {
        Ok(Self { kind: reader.u8()?, offset: reader.u64()?, octets: reader.u64()?, crc: reader.u32()? })
    }

    /// The octets of a part, once their checksum is right.
    pub(crate) fn read(&self, file: &File, path: &Path, part: &str) -> Result<Vec<u8>, ArchiveError> {
        let damaged = || ArchiveError::DamagedSegment { path: path.to_owned(), part: part.to_owned() };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::UnexpectedEof => damaged(),
            _ => Action::OpenSegment.failed(path)(source),
        };
        let length = file.metadata().map_err(failed)?.len();
        if self.offset.checked_add(self.octets).is_none_or(|end| end > length) {
            return Err(damaged());
        }
        let mut octets = vec![0; self.octets as usize];
        file.read_exact_at(&mut octets, self.offset).map_err(failed)?;
        if crc32c::crc32c(&octets) != self.crc {
            return Err(damaged());
        }
        Ok(octets)
    }
}

/// Where a column chunk is, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPlaces {
    pub(crate) offset: u64,
    pub(crate) octets: u64,
    /// CRC-32C.
    pub(crate) crc: u32,
}

impl ChunkPlaces {
    pub(crate) const OCTETS: usize = 20;

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.offset);
        put_u64(out, self.octets);
        put_u32(out, self.crc);
    }

    pub(crate) fn parse(octets: &[u8]) -> Result<Self, CorruptIndex> {
        let mut reader = OctetReader::new(octets);
        Ok(Self { offset: reader.u64()?, octets: reader.u64()?, crc: reader.u32()? })
    }
}

/// What is at the start of the file: where the index is, and the checksum of all that comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) index: Section,
    /// CRC-32C of Parquet's page index and footer.
    pub(crate) footer_crc: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_OCTETS] {
        let mut out = MAGIC.to_vec();
        put_u64(&mut out, self.index.offset);
        put_u64(&mut out, self.index.octets);
        put_u32(&mut out, self.index.crc);
        put_u32(&mut out, self.footer_crc);
        put_u32(&mut out, 0);
        let crc = crc32c::crc32c(&out);
        put_u32(&mut out, crc);
        out.try_into().unwrap_or([0; HEADER_OCTETS])
    }

    /// Its checksum, which covers those of everything else in the file.
    pub(crate) fn crc(&self) -> u32 {
        let octets = self.encode();
        octets.last_chunk().map_or(0, |crc| u32::from_le_bytes(*crc))
    }

    /// Reads the header; `None` when the file has none.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Option<Self>, ArchiveError> {
        let mut octets = [0; HEADER_OCTETS];
        match file.read_exact_at(&mut octets, HEADER_AT) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(source) => return Err(Action::OpenSegment.failed(path)(source)),
        }
        let damaged = |CorruptIndex| ArchiveError::DamagedSegment { path: path.to_owned(), part: "header".to_owned() };
        if !octets.starts_with(MAGIC) {
            return Ok(None);
        }
        Self::parse(&octets).map(Some).map_err(damaged)
    }

    fn parse(octets: &[u8; HEADER_OCTETS]) -> Result<Self, CorruptIndex> {
        let (signed, crc) = octets.split_at(HEADER_OCTETS - 4);
        if OctetReader::new(crc).u32()? != crc32c::crc32c(signed) {
            return Err(CorruptIndex);
        }
        let mut reader = OctetReader::new(signed);
        reader.take(MAGIC.len())?;
        let index = Section { kind: 0, offset: reader.u64()?, octets: reader.u64()?, crc: reader.u32()? };
        Ok(Self { index, footer_crc: reader.u32()? })
    }
}

/// How the values of a column's data pages are encoded; the names are Parquet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageEncoding {
    /// `PLAIN`.
    Plain,
    /// `RLE_DICTIONARY`: numbers of values in the dictionary page of the row group.
    Dictionary,
    /// `DELTA_BINARY_PACKED`.
    DeltaBinaryPacked,
    /// `DELTA_LENGTH_BYTE_ARRAY`.
    DeltaLengthByteArray,
    /// `DELTA_BYTE_ARRAY`.
    DeltaByteArray,
    /// `BYTE_STREAM_SPLIT`.
    ByteStreamSplit,
    /// Pages of several encodings: each page's header names its own.
    Mixed,
}

impl PageEncoding {
    const ALL: [Self; 7] = [
        Self::Plain,
        Self::Dictionary,
        Self::DeltaBinaryPacked,
        Self::DeltaLengthByteArray,
        Self::DeltaByteArray,
        Self::ByteStreamSplit,
        Self::Mixed,
    ];

    pub(crate) fn octet(self) -> u8 {
        self as u8
    }

    pub(super) fn of_octet(octet: u8) -> Option<Self> {
        Self::ALL.get(usize::from(octet)).copied()
    }
}

/// Writes the end of a column's entry: encoding, leaf, octets of the dictionaries, octets of the pages.
pub(crate) fn put_places(out: &mut Vec<u8>, encoding: PageEncoding, leaf: u32, dictionaries: &[u32], pages: &[u32]) {
    out.push(encoding.octet());
    put_u32(out, leaf);
    for octets in dictionaries {
        put_u32(out, *octets);
    }
    let width = width_of(pages.iter().copied().max().unwrap_or(0).into());
    out.push(width as u8);
    for octets in pages {
        put_narrow(out, (*octets).into(), width);
    }
}
