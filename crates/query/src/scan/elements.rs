//! Lists of elements, which the library decodes: they are nested, and few flows have any.
//!
//! They are read row by row of a page, so that a question about few pages reads few pages of lists, too. What speaks
//! against it is that the library sets up a reader for each page.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::statistics::Statistics;
use weir_flow::Column;
use weir_flow::elements::without_empty_lists;

use super::AtOffset;
use super::footer::footer;
use crate::decode::page_locations;

/// Reads the elements of a segment.
#[derive(Debug)]
pub(super) struct ElementsReader {
    metadata: ArrowReaderMetadata,
    /// Which row groups have any.
    groups: Vec<bool>,
}

impl ElementsReader {
    pub(super) fn open(file: &AtOffset<Arc<File>>) -> Result<Self> {
        let footer = footer(file)?;
        let groups = footer.row_groups().iter().map(|group| has_elements(&footer, group)).collect();
        let places =
            footer.row_groups().iter().map(|group| places(file, &footer, group)).collect::<Result<Vec<_>>>()?;
        let footer = footer.into_builder().set_offset_index(places.into_iter().collect()).build();
        Ok(Self { metadata: ArrowReaderMetadata::try_new(Arc::new(footer), ArrowReaderOptions::new())?, groups })
    }

    /// Whether any row of the segment has some.
    pub(super) fn has_any(&self) -> bool {
        self.groups.contains(&true)
    }

    /// The elements of some rows of a row group; `None` when none of the group has any.
    pub(super) fn read(
        &self,
        file: &AtOffset<Arc<File>>,
        group: usize,
        rows: Range<usize>,
    ) -> Result<Option<ArrayRef>> {
        if !self.groups.get(group).copied().unwrap_or(false) {
            return Ok(None);
        }
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), self.metadata.clone());
        let mask = ProjectionMask::columns(builder.parquet_schema(), [Column::Elements.name()]);
        let selected = RowSelection::from(vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())]);
        let batches = builder
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_row_selection(selected)
            .with_batch_size(rows.len())
            .build()?;
        let lists: Vec<ArrayRef> =
            batches.map(|batch| Ok(without_empty_lists(batch?.column(0)))).collect::<Result<_>>()?;
        let lists = match &lists[..] {
            [only] => Arc::clone(only),
            several => arrow::compute::concat(&several.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?,
        };
        if lists.len() != rows.len() {
            return Err(ParquetError::General("a page has other rows than its index says".to_owned()));
        }
        Ok(Some(lists))
    }
}

fn is_of_elements(footer: &ParquetMetaData, leaf: usize) -> bool {
    footer.file_metadata().schema_descr().get_column_root(leaf).name() == Column::Elements.name()
}

fn has_elements(footer: &ParquetMetaData, group: &RowGroupMetaData) -> bool {
    let Some(leaf) = (0..group.num_columns()).find(|leaf| is_of_elements(footer, *leaf)) else { return false };
    let nulls = group.column(leaf).statistics().and_then(Statistics::null_count_opt);
    nulls != Some(group.num_rows() as u64)
}

/// Where the pages of the lists are; nothing of other columns. `None` when the file does not say.
fn places(
    file: &AtOffset<Arc<File>>,
    footer: &ParquetMetaData,
    group: &RowGroupMetaData,
) -> Result<Option<Vec<OffsetIndexMetaData>>> {
    let nothing = || OffsetIndexMetaData { page_locations: Vec::new(), unencoded_byte_array_data_bytes: None };
    let of_leaf = |leaf: usize| {
        if is_of_elements(footer, leaf) { leaf_places(file, group.column(leaf)) } else { Ok(Some(nothing())) }
    };
    (0..group.num_columns()).map(of_leaf).collect()
}

fn leaf_places(file: &AtOffset<Arc<File>>, chunk: &ColumnChunkMetaData) -> Result<Option<OffsetIndexMetaData>> {
    let (Some(at), Some(octets)) = (chunk.offset_index_offset(), chunk.offset_index_length()) else { return Ok(None) };
    if at as u64 > file.octets || octets as u64 > file.octets - at as u64 {
        return Err(ParquetError::EOF("the index of pages is outside of the file".to_owned()));
    }
    let mut index = vec![0; octets as usize];
    file.file.read_exact_at(&mut index, at as u64)?;
    let pages = page_locations(&index).map_err(|damage| ParquetError::General(damage.to_string()))?;
    let page_locations = pages.into_iter().map(|page| PageLocation {
        offset: page.offset as i64,
        compressed_page_size: page.octets as i32,
        first_row_index: page.first_row as i64,
    });
    Ok(Some(OffsetIndexMetaData { page_locations: page_locations.collect(), unencoded_byte_array_data_bytes: None }))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, BinaryArray, ListArray, RecordBatch, StructArray, UInt16Array, UInt32Array};
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::{DataType, Schema};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    use weir_flow::schema::field;

    use super::*;

    /// Rows with these numbers of elements; `None` is null, 0 an empty list.
    fn lists(rows: &[Option<usize>]) -> RecordBatch {
        let field = field(Column::Elements);
        let DataType::List(item) = field.data_type() else { panic!("no list") };
        let DataType::Struct(fields) = item.data_type() else { panic!("no entries") };
        let entries: usize = rows.iter().flatten().sum();
        let ids: UInt16Array = (0..entries as u16).collect::<Vec<_>>().into();
        let entries = StructArray::new(
            fields.clone(),
            vec![
                Arc::new(UInt32Array::from(vec![32473; entries])),
                Arc::new(ids),
                Arc::new(BinaryArray::from_vec(vec![b"x"; entries])),
                Arc::new(UInt16Array::new_null(entries)),
                Arc::new(UInt16Array::new_null(entries)),
            ],
            None,
        );
        let lengths = OffsetBuffer::from_lengths(rows.iter().map(|row| row.unwrap_or(0)));
        let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
        let lists = ListArray::new(Arc::clone(item), lengths, Arc::new(entries), Some(nulls));
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(lists)]).expect("a batch")
    }

    #[test]
    fn empty_lists_that_were_written_are_null_on_every_page() {
        let rows: Vec<Option<usize>> =
            (0..100).map(|row| (row % 7 != 0).then_some(if row % 10 == 3 { 2 } else { 0 })).collect();
        let file = tempfile::tempfile().expect("a file");
        let properties = WriterProperties::builder().set_data_page_row_count_limit(20).set_write_batch_size(20).build();
        let batch = lists(&rows);
        let mut writer = ArrowWriter::try_new(&file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
        let octets = file.metadata().expect("a length").len();
        let file = AtOffset { file: Arc::new(file), octets };
        let reader = ElementsReader::open(&file).expect("opened");
        for first in (0..100).step_by(20) {
            let read = reader.read(&file, 0, first..first + 20).expect("read").expect("lists");
            let read = read.as_list::<i32>();
            for (row, expected) in rows[first..first + 20].iter().enumerate() {
                let found = read.is_valid(row).then(|| read.value_length(row) as usize);
                assert_eq!(found, expected.filter(|entries| *entries > 0), "row {}", first + row);
            }
        }
    }
}
