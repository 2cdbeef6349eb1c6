//! Chunks of columns that have no value.

use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::header::PageHeader;
use super::page::put_run;
use super::{Chunk, PageCompressor};
use crate::index::PageEncoding;

/// A chunk of so many nulls of a column that is no list: one page for all of them.
pub(in crate::segment) fn nulls(
    descriptor: ColumnDescPtr,
    rows: usize,
    press: &mut PageCompressor,
) -> Result<Chunk, ParquetError> {
    press.body.clear();
    put_run(rows, false, &mut press.body);
    let mut octets = Vec::new();
    press.put_page(&mut octets, PageHeader::Data { rows, encoding: Encoding::PLAIN })?;
    let nulls = Some(rows as u64);
    let statistics = match descriptor.physical_type() {
        Type::INT32 => Statistics::int32(None, None, None, nulls, false),
        Type::INT64 => Statistics::int64(None, None, None, nulls, false),
        _ => Statistics::byte_array(None, None, None, nulls, false),
    };
    let mut offset_index = OffsetIndexBuilder::new();
    offset_index.append_row_count(rows as i64);
    offset_index.append_offset_and_size(0, octets.len() as i32);
    let metadata = ColumnChunkMetaData::builder(descriptor)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(press.level)?))
        .set_encodings(vec![Encoding::RLE, Encoding::PLAIN])
        .set_total_compressed_size(octets.len() as i64)
        .set_total_uncompressed_size((octets.len() + press.body.len() - press.packed.len()) as i64)
        .set_num_values(rows as i64)
        .set_statistics(statistics);
    let close = ColumnCloseResult {
        bytes_written: octets.len() as u64,
        rows_written: rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: Some(offset_index.build()),
    };
    let pages = vec![octets.len() as u32];
    Ok(Chunk { octets: octets.into(), close, encoding: PageEncoding::Plain, dictionary: 0, pages })
}
