//! How each column is encoded. What was measured is in `docs/decisions/0002-archive-layout.md`.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use weir_flow::{Column, Table};

/// Rows of a data page: what a reader must decode at least when an index leads it to one row.
pub(crate) const PAGE_ROWS: usize = 8192;

/// Properties of a segment's columns. `received_repeats` tells whether many flows share each time of reception, so that
/// a dictionary holds them in few bits.
pub(super) fn properties(table: Table, metadata: Vec<KeyValue>, received_repeats: bool) -> WriterProperties {
    let mut builder =
        base(PAGE_ROWS).set_statistics_enabled(EnabledStatistics::Page).set_key_value_metadata(Some(metadata));
    if table == Table::Flows {
        for &column in Column::ALL {
            if column == Column::Received && received_repeats {
                continue;
            }
            builder = encode(builder, column);
        }
    }
    builder.build()
}

/// Properties of a column without a value: one page, and nothing about it in the index.
pub(super) fn properties_of_nulls() -> WriterProperties {
    base(usize::MAX).set_statistics_enabled(EnabledStatistics::Chunk).build()
}

fn base(page_rows: usize) -> WriterPropertiesBuilder {
    let level = ZstdLevel::default();
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(PAGE_ROWS)
        .set_data_page_size_limit(4 << 20)
        .set_max_row_group_row_count(None)
        .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned())
}

fn encode(builder: WriterPropertiesBuilder, column: Column) -> WriterPropertiesBuilder {
    let encoding = match column {
        // Nearly as many values as rows, in no order, spread over the minutes of a segment: the lower two octets are
        // random, the upper ones nearly constant.
        Column::Received | Column::Start | Column::End => Encoding::BYTE_STREAM_SPLIT,
        // In boxes of few networks, ordered within a page by network and by the other side.
        Column::SrcAddr | Column::DstAddr => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        // Numbers whose upper octets say little: split by octet they compress better than through a dictionary.
        Column::SrcPort | Column::DstPort | Column::Packets | Column::Bytes | Column::InIf | Column::OutIf => {
            Encoding::BYTE_STREAM_SPLIT
        }
        // Everything else has few values, or few rows that have one: the dictionary, which is the default.
        _ => return builder,
    };
    let path = ColumnPath::from(column.name());
    builder.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding)
}
