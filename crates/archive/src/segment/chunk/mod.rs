//! Column chunks: the values of one column in one row group, encoded page by page.
//!
//! The general writer of the library takes every value of every column through levels, an interner, an encoder and a
//! compressor that it makes anew for each page. What flows have is simpler: numbers and IPv4 addresses, one value a row
//! or none. Here a page is gathered once, and its smallest and largest value, its zone map, its entries in the index
//! and its octets are made while it is in the processor's cache. Each page carries the checksum of its frame, so that a
//! reader of single pages finds a flipped bit. The library still writes the footer. What speaks against it is a second
//! writer of the format; lists are left to the library.

mod dictionary;
mod header;
mod nulls;
mod page;
mod values;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::schema::types::ColumnDescPtr;

use crate::index::PageEncoding;
use dictionary::Dictionary;
use header::{PageHeader, put_header};

pub(super) use nulls::nulls;
pub(super) use page::Page;
pub(super) use values::{Address, BufferedValue, Buffers, Ipv4, Value, Values};

/// How the values of a column are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// By a dictionary, as long as it has few values.
    Dictionary,
    /// Octet by octet, for numbers; lengths and octets, for addresses.
    Direct,
}

/// Octets of a smallest or largest value in the footer, at most.
const FOOTER_OCTETS_MAX: usize = 64;

/// A chunk that is written.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) octets: Bytes,
    pub(super) close: ColumnCloseResult,
    pub(super) encoding: PageEncoding,
    /// Octets of the dictionary page.
    pub(super) dictionary: u32,
    /// Octets of each data page.
    pub(super) pages: Vec<u32>,
}

/// Memory and contexts that all chunks of a segment share.
pub(super) struct PageCompressor {
    zstd: zstd::bulk::Compressor<'static>,
    level: i32,
    body: Vec<u8>,
    packed: Vec<u8>,
    codes: Vec<u16>,
}

impl PageCompressor {
    pub(super) fn new(level: i32) -> Result<Self, ParquetError> {
        let mut zstd = zstd::bulk::Compressor::new(level)?;
        // So that decompressing a page finds a flipped bit: readers of single pages check no other sum.
        zstd.include_checksum(true)?;
        Ok(Self { zstd, level, body: Vec::new(), packed: Vec::new(), codes: Vec::new() })
    }

    /// Compresses the body and writes it behind its header.
    fn put_page(&mut self, out: &mut Vec<u8>, page: PageHeader) -> Result<(), ParquetError> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.body.len()));
        self.zstd.compress_to_buffer(&self.body, &mut self.packed)?;
        put_header(out, page, self.body.len(), self.packed.len());
        out.extend_from_slice(&self.packed);
        Ok(())
    }
}

/// A chunk being encoded.
pub(super) struct ChunkEncoder<T> {
    descriptor: ColumnDescPtr,
    /// `None` when the column has none, or has too many values for one.
    dictionary: Option<Dictionary<T>>,
    /// Values that the dictionary had when it was full.
    full: Option<Dictionary<T>>,
    has_direct: bool,
    octets: Vec<u8>,
    /// Octets of the pages, headers included, before compression.
    unpacked: usize,
    pages: Vec<u32>,
    rows: usize,
    nulls: u64,
    range: Option<(T, T)>,
    /// Some value is too long for the footer.
    is_long: bool,
    column_index: ColumnIndexBuilder,
    offset_index: OffsetIndexBuilder,
}

impl<T: Value> ChunkEncoder<T> {
    pub(super) fn new(descriptor: ColumnDescPtr, layout: Layout) -> Self {
        Self {
            column_index: ColumnIndexBuilder::new(descriptor.physical_type()),
            offset_index: OffsetIndexBuilder::new(),
            dictionary: (layout == Layout::Dictionary).then(Dictionary::default),
            full: None,
            has_direct: false,
            octets: Vec::new(),
            unpacked: 0,
            pages: Vec::new(),
            rows: 0,
            nulls: 0,
            range: None,
            is_long: false,
            descriptor,
        }
    }

    /// The next page.
    pub(super) fn add(&mut self, page: &Page<T>, press: &mut PageCompressor) -> Result<(), ParquetError> {
        press.body.clear();
        page.put_levels(&mut press.body);
        let encoding = self.put_values(page, press);
        let start = self.octets.len();
        press.put_page(&mut self.octets, PageHeader::Data { rows: page.rows(), encoding })?;
        let octets = (self.octets.len() - start) as u32;
        self.unpacked += press.body.len() + octets as usize - press.packed.len();
        self.note(page, start, octets);
        Ok(())
    }

    fn put_values(&mut self, page: &Page<T>, press: &mut PageCompressor) -> Encoding {
        let Some(range) = page.range() else { return Encoding::PLAIN };
        if let Some(dictionary) = &mut self.dictionary {
            if dictionary.put(page.values(), range, &mut press.codes, &mut press.body) {
                return Encoding::RLE_DICTIONARY;
            }
            self.full = self.dictionary.take();
        }
        self.has_direct = true;
        T::put_direct(page.values(), range, &mut press.body);
        T::DIRECT
    }

    fn note(&mut self, page: &Page<T>, start: usize, octets: u32) {
        self.pages.push(octets);
        self.rows += page.rows();
        self.nulls += page.nulls() as u64;
        self.offset_index.append_row_count(page.rows() as i64);
        self.offset_index.append_offset_and_size(start as i64, octets as i32);
        let (low, high) = page.range().map_or_else(Default::default, |(low, high)| (low.octets(), high.octets()));
        self.is_long |= low.len().max(high.len()) > FOOTER_OCTETS_MAX;
        self.column_index.append(page.range().is_none(), low, high, page.nulls() as i64);
        self.range = match (self.range, page.range()) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, other) => one.or(other),
        };
    }

    /// The chunk.
    pub(super) fn finish(mut self, press: &mut PageCompressor) -> Result<Chunk, ParquetError> {
        let mut first = Vec::new();
        let (mut encodings, mut encoding) = (vec![Encoding::RLE, Encoding::PLAIN], PageEncoding::Mixed);
        let is_mixed = self.full.is_some() && self.has_direct;
        if let Some(dictionary) = self.dictionary.take().or(self.full.take()).filter(|found| !found.is_empty()) {
            press.body.clear();
            dictionary.put_values(&mut press.body);
            press.put_page(&mut first, PageHeader::Dictionary { values: dictionary.len() })?;
            self.unpacked += press.body.len() + first.len() - press.packed.len();
            encodings.push(Encoding::RLE_DICTIONARY);
            encoding = PageEncoding::Dictionary;
        }
        if self.has_direct {
            encodings.push(T::DIRECT);
            encoding = if is_mixed { PageEncoding::Mixed } else { T::page_encoding() };
        }
        let dictionary = first.len() as u32;
        first.append(&mut self.octets);
        let compression = Compression::ZSTD(ZstdLevel::try_new(press.level)?);
        let metadata = ColumnChunkMetaData::builder(self.descriptor)
            .set_compression(compression)
            .set_encodings(encodings)
            .set_total_compressed_size(first.len() as i64)
            .set_total_uncompressed_size(self.unpacked as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(dictionary.into())
            .set_dictionary_page_offset((dictionary > 0).then_some(0))
            .set_statistics(T::statistics(self.range.filter(|_| !self.is_long), self.nulls));
        let mut offset_index = self.offset_index.build();
        for page in &mut offset_index.page_locations {
            page.offset += i64::from(dictionary);
        }
        let close = ColumnCloseResult {
            bytes_written: first.len() as u64,
            rows_written: self.rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: if self.is_long { None } else { Some(self.column_index.build()?) },
            offset_index: Some(offset_index),
        };
        Ok(Chunk { octets: first.into(), close, encoding, dictionary, pages: self.pages })
    }
}

#[cfg(test)]
mod tests;
