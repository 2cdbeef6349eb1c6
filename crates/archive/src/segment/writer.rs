//! Segments as Parquet files.
//!
//! Columns are encoded one after another, each over all row groups, and the encoded pieces are put together at the
//! end. So one column at a time is gathered into the order of the segment, instead of all of them, and what else is in
//! memory is already compressed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::datatypes::{Field, TimestampMillisecondType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::encoding::{properties, properties_of_nulls};
use super::gather::Gather;
use super::{Columns, SegmentName};
use crate::ArchiveError;
use crate::layout::TailNumber;
use crate::position::Position;

/// Where the rows of a segment come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentRange {
    pub(crate) tails: (TailNumber, TailNumber),
    pub(crate) first: Position,
    pub(crate) last: Position,
}

/// Writes the rows `order` of `columns`, in that order, to a new file and syncs it. Tells the name that it must get.
pub(crate) fn write_segment(
    path: &Path,
    columns: &Columns<'_>,
    order: &[u32],
    range: SegmentRange,
    row_group_rows_max: usize,
) -> Result<SegmentName, ArchiveError> {
    let created = |source| ArchiveError::CreateSegment { path: path.to_owned(), source };
    let failed = |source| ArchiveError::WriteSegment { path: path.to_owned(), source };
    let file = File::create(path).map_err(created)?;
    let mut encoder = Encoder::new(columns, range, order, row_group_rows_max).map_err(failed)?;
    let mut time_range_ms = None;
    for field in columns.table().schema().fields() {
        let Some(pieces) = columns.pieces(field)? else {
            encoder.encode_nulls(field).map_err(failed)?;
            continue;
        };
        let gather = Gather::new(pieces).map_err(|source| columns.failed(field, source))?;
        for group in 0..encoder.groups.len() {
            let taken = gather.rows(&encoder.groups[group].rows);
            let taken = taken.map_err(|source| columns.failed(field, source))?;
            time_range_ms = wider(time_range_ms, times(field, &taken));
            encoder.encode(group, field, &taken).map_err(failed)?;
        }
    }
    encoder.write_to(&file).map_err(failed)?;
    file.sync_all().map_err(created)?;
    let SegmentRange { tails, first, last } = range;
    Ok(SegmentName { tails, first, last, rows: order.len() as u64, time_range_ms })
}

/// Smallest and largest time of a column that counts for the range of times in a segment's name.
fn times(field: &Field, values: &ArrayRef) -> Option<(i64, i64)> {
    if !matches!(field.name().as_str(), "start" | "end" | "minute") {
        return None;
    }
    let values = values.as_primitive_opt::<TimestampMillisecondType>()?;
    arrow::compute::min(values).zip(arrow::compute::max(values))
}

fn wider(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// A row group being encoded.
struct Group {
    rows: UInt32Array,
    /// Writers of the leaf columns still to come.
    writers: std::vec::IntoIter<ArrowColumnWriter>,
    /// The same for columns without a value.
    null_writers: std::vec::IntoIter<ArrowColumnWriter>,
    chunks: Vec<ArrowColumnChunk>,
}

struct Encoder {
    schema: arrow::datatypes::SchemaRef,
    properties: Arc<WriterProperties>,
    groups: Vec<Group>,
}

impl Encoder {
    fn new(
        columns: &Columns<'_>,
        range: SegmentRange,
        order: &[u32],
        row_group_rows_max: usize,
    ) -> Result<Self, ParquetError> {
        let schema = columns.table().schema();
        let mut properties = properties(columns.table(), key_values(columns, range));
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let properties = Arc::new(properties);
        let with_values = factory(&schema, Arc::clone(&properties))?;
        let of_nulls = factory(&schema, Arc::new(properties_of_nulls()))?;
        let groups = order.chunks(row_group_rows_max.max(1)).enumerate().map(|(index, rows)| {
            Ok(Group {
                rows: UInt32Array::from(rows.to_vec()),
                writers: with_values.create_column_writers(index)?.into_iter(),
                null_writers: of_nulls.create_column_writers(index)?.into_iter(),
                chunks: Vec::new(),
            })
        });
        let groups = groups.collect::<Result<_, ParquetError>>()?;
        Ok(Self { schema, properties, groups })
    }

    fn encode_nulls(&mut self, field: &Field) -> Result<(), ParquetError> {
        for group in &mut self.groups {
            let nulls = new_null_array(field.data_type(), group.rows.len());
            group.encode(field, &nulls, true)?;
        }
        Ok(())
    }

    fn encode(&mut self, group: usize, field: &Field, values: &ArrayRef) -> Result<(), ParquetError> {
        self.groups[group].encode(field, values, false)
    }

    fn write_to(self, file: &File) -> Result<(), ParquetError> {
        let schema = parquet_schema(&self.schema)?;
        let mut writer = SerializedFileWriter::new(file, schema, self.properties)?;
        for group in self.groups {
            let mut row_group = writer.next_row_group()?;
            for chunk in group.chunks {
                chunk.append_to_row_group(&mut row_group)?;
            }
            row_group.close()?;
        }
        writer.close().map(|_| ())
    }
}

impl Group {
    fn encode(&mut self, field: &Field, values: &ArrayRef, null: bool) -> Result<(), ParquetError> {
        for leaf in compute_leaves(field, values)? {
            let writers = (self.writers.next(), self.null_writers.next());
            let (Some(with_values), Some(of_nulls)) = writers else {
                return Err(ParquetError::General("more leaf columns than the schema has".to_owned()));
            };
            let mut writer = if null { of_nulls } else { with_values };
            writer.write(&leaf)?;
            self.chunks.push(writer.close()?);
        }
        Ok(())
    }
}

fn parquet_schema(schema: &arrow::datatypes::Schema) -> Result<parquet::schema::types::TypePtr, ParquetError> {
    Ok(ArrowSchemaConverter::new().convert(schema)?.root_schema_ptr())
}

/// Makes column writers. The library ties them to a file, but they write to memory, so the file goes nowhere.
fn factory(
    schema: &arrow::datatypes::SchemaRef,
    properties: Arc<WriterProperties>,
) -> Result<ArrowRowGroupWriterFactory, ParquetError> {
    let nowhere = SerializedFileWriter::new(io::sink(), parquet_schema(schema)?, properties)?;
    Ok(ArrowRowGroupWriterFactory::new(&nowhere, Arc::clone(schema)))
}

fn key_values(columns: &Columns<'_>, range: SegmentRange) -> Vec<KeyValue> {
    let order = if columns.table() == weir_flow::Table::Flows {
        "protocol, smaller port, side of it, address of that side, start"
    } else {
        "as received"
    };
    [
        ("weir.table", columns.table().name().to_owned()),
        ("weir.tail.first", range.tails.0.to_string()),
        ("weir.tail.last", range.tails.1.to_string()),
        ("weir.position.first", range.first.to_string()),
        ("weir.position.last", range.last.to_string()),
        ("weir.order", order.to_owned()),
    ]
    .map(|(key, value)| KeyValue::new(key.to_owned(), value))
    .to_vec()
}
