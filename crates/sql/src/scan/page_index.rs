//! The page index, for the columns that a question touches.
//!
//! A segment has some sixty columns and its page index an entry per column and page, so that decoding all of it takes
//! longer than answering a selective question. Parquet keeps the index apart from the footer, column by column; this
//! decodes the entries of the columns of the filters (to prune) and of the answer (to find pages), and leaves the
//! others empty.

use std::sync::Arc;

use datafusion::parquet::errors::Result;
use datafusion::parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, RowGroupMetaData,
};
use datafusion::parquet::file::page_index::column_index::ColumnIndexMetaData;
use datafusion::parquet::file::page_index::offset_index::OffsetIndexMetaData;
use datafusion::parquet::schema::types::{SchemaDescriptor, Type};

use super::AtOffset;

/// Positions in the table's schema of the columns whose page index a scan reads; none when it has no filters.
#[derive(Debug, Default)]
pub(crate) struct IndexColumns(pub(crate) Vec<usize>);

impl IndexColumns {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The metadata of `footer` with the page index of some columns.
pub(crate) fn with_page_index(
    file: AtOffset<'_>,
    footer: &ParquetMetaData,
    wanted: &IndexColumns,
) -> Result<ParquetMetaData> {
    let full = footer.file_metadata().schema_descr();
    let leaves: Vec<usize> =
        (0..full.num_columns()).filter(|&leaf| wanted.0.contains(&full.get_column_root_idx(leaf))).collect();
    let narrow = narrow_metadata(footer, wanted, &leaves)?;
    let mut reader = ParquetMetaDataReader::new_with_metadata(narrow).with_page_index_policy(PageIndexPolicy::Optional);
    reader.read_page_indexes(&file)?;
    let narrow = reader.finish()?;
    let (Some(columns), Some(offsets)) = (narrow.column_index(), narrow.offset_index()) else {
        return Ok(footer.clone());
    };
    let columns = columns.iter().map(|group| scatter(group, &leaves, full.num_columns(), || ColumnIndexMetaData::NONE));
    let empty = || OffsetIndexMetaData { page_locations: Vec::new(), unencoded_byte_array_data_bytes: None };
    let offsets = offsets.iter().map(|group| scatter(group, &leaves, full.num_columns(), empty));
    let builder = ParquetMetaDataBuilder::new_from_metadata(footer.clone());
    Ok(builder.set_column_index(Some(columns.collect())).set_offset_index(Some(offsets.collect())).build())
}

/// The same file as if it had the wanted columns only.
fn narrow_metadata(footer: &ParquetMetaData, wanted: &IndexColumns, leaves: &[usize]) -> Result<ParquetMetaData> {
    let full = footer.file_metadata().schema_descr();
    let fields = full.root_schema().get_fields().iter().enumerate();
    let fields = fields.filter(|(position, _)| wanted.0.contains(position)).map(|(_, field)| Arc::clone(field));
    let root = Type::group_type_builder(full.root_schema().name()).with_fields(fields.collect()).build()?;
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(root)));
    let groups = footer.row_groups().iter().map(|group| {
        let chunks = leaves.iter().map(|&leaf| group.column(leaf).clone()).collect();
        RowGroupMetaData::builder(Arc::clone(&schema))
            .set_num_rows(group.num_rows())
            .set_total_byte_size(group.total_byte_size())
            .set_column_metadata(chunks)
            .build()
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    Ok(ParquetMetaData::new(footer.file_metadata().clone(), groups))
}

/// Puts the entries of `leaves` at their places among all `count` leaves.
fn scatter<T: Clone>(entries: &[T], leaves: &[usize], count: usize, absent: impl Fn() -> T) -> Vec<T> {
    let mut all: Vec<T> = (0..count).map(|_| absent()).collect();
    for (&leaf, entry) in leaves.iter().zip(entries) {
        all[leaf] = entry.clone();
    }
    all
}
