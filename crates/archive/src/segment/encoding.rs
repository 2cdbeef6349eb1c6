//! How each column is encoded. What was measured is in `docs/decisions/0002-archive-layout.md`.

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use weir_flow::Column;

use super::chunk::{BufferedValue, Layout, Values};
use crate::ArchiveOptions;

/// Rows of a data page: what a reader must decode at least when an index leads it to one row.
pub(crate) const PAGE_ROWS: usize = 8192;

/// The level of compression of a segment that was a tail. Higher ones find little more but in addresses.
const SEALING_LEVEL: i32 = 1;

/// The level of compression of a merged segment.
const MERGING_LEVEL: i32 = 6;

/// How much is done for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Lists of hosts, and rollups that keep so many keys at least (see
    /// [`ArchiveOptions::heavy_keys_min`](crate::ArchiveOptions::heavy_keys_min)), which take as long as a third of
    /// writing; `None` for neither. Zone maps and lists of short columns there always are.
    pub(crate) heavy_keys_min: Option<usize>,
    /// The level of compression.
    pub(crate) zstd_level: i32,
}

impl Effort {
    /// Of a tail, which waits.
    pub(crate) fn sealing(options: &ArchiveOptions) -> Self {
        let heavy_keys_min = options.summaries_when_sealing.then_some(options.heavy_keys_min as usize);
        Self { heavy_keys_min, zstd_level: SEALING_LEVEL }
    }

    /// Of a merge: written once, read for as long as it is kept.
    pub(crate) fn merging(options: &ArchiveOptions) -> Self {
        Self { heavy_keys_min: Some(options.heavy_keys_min as usize), zstd_level: MERGING_LEVEL }
    }
}

/// Rows for each millisecond of a range of times, from which on a dictionary holds these times in few bits.
const ROWS_PER_MS: usize = 200;

/// Properties of the columns that the library encodes.
pub(super) fn properties(metadata: Vec<KeyValue>) -> WriterProperties {
    base(PAGE_ROWS).set_statistics_enabled(EnabledStatistics::Page).set_key_value_metadata(Some(metadata)).build()
}

/// Properties of a column without a value: one page, and nothing about it in the index.
pub(super) fn properties_of_nulls() -> WriterProperties {
    base(usize::MAX).set_statistics_enabled(EnabledStatistics::Chunk).build()
}

fn base(page_rows: usize) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(PAGE_ROWS)
        .set_data_page_size_limit(4 << 20)
        .set_max_row_group_row_count(None)
        .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned())
}

/// How the values of a column of flows are laid out. `are_few` answers whether many rows share each value.
pub(super) fn layout(column: &str, are_few: impl FnOnce() -> bool) -> Layout {
    match Column::by_name(column) {
        Some(Column::Received) if are_few() => Layout::Dictionary,
        // Times: nearly as many values as rows, in no order, spread over the minutes of a segment; the lower two octets
        // are random, the upper ones nearly constant. Addresses: in boxes of few networks, ordered within a page by
        // network and by the other side. The others: numbers whose upper octets say little; split by octet they
        // compress better than through a dictionary.
        Some(
            Column::Received
            | Column::Start
            | Column::End
            | Column::SrcAddr
            | Column::DstAddr
            | Column::SrcPort
            | Column::DstPort
            | Column::Packets
            | Column::Bytes
            | Column::InIf
            | Column::OutIf,
        ) => Layout::Direct,
        // Everything else has few values, or few rows that have one.
        _ => Layout::Dictionary,
    }
}

/// Whether many rows share each time.
pub(super) fn are_few<T: BufferedValue>(values: &Values<T>) -> bool {
    let keys = || values.values.iter().map(|value| value.key());
    let span = keys().max().zip(keys().min()).map_or(0, |(last, first)| last - first);
    span.saturating_mul(ROWS_PER_MS as u64) < values.values.len() as u64
}
