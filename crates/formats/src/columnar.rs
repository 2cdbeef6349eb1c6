//! Parquet files, columns by their names: segments of another archive, and what other programs write.
//!
//! A column of a name that is ours, or of a program that we know, becomes that column; its type is converted where that
//! loses nothing that a value says. Addresses may be text or octets, times may be of any unit, or text. A value that
//! does not fit becomes null and is counted, because a row of a file has no number that anybody could look up.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, RecordBatch, StringArray, TimestampMillisecondArray,
    UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType, UInt32Type};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType, FlowBatch};

use crate::text::cell::{self, Cell};
use crate::text::fields;
use crate::{FormatError, panics};

/// The first and the last octets of every file.
pub(crate) const MAGIC: &[u8] = b"PAR1";
/// Rows in a batch.
const BATCH_ROWS: usize = 16_384;

/// Reads a file. As an iterator it yields batches of flows; an error is the last item.
pub struct Reader {
    path: PathBuf,
    batches: ParquetRecordBatchReader,
    /// Where each column of the file goes, by its position.
    columns: Vec<Option<Column>>,
    ignored: Vec<String>,
    values_refused: u64,
    rows_refused: u64,
    ended: bool,
}

impl Reader {
    /// Opens a file. `mapping` names columns for fields whatever their names say, or none for those to leave out.
    pub fn open(path: impl AsRef<Path>, mapping: &[(String, Option<Column>)]) -> Result<Self, FormatError> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| FormatError::open(&path, error))?;
        let failed = |error: ParquetError| FormatError::read(&path, std::io::Error::other(error));
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file)).map_err(failed)?;
        let schema = Arc::clone(builder.schema());
        let (mut columns, mut ignored) = (Vec::new(), Vec::new());
        for field in schema.fields() {
            let mapped = mapping.iter().find(|(name, _)| name == field.name()).map(|(_, column)| *column);
            let column = mapped.unwrap_or_else(|| of_name(field.name(), field.data_type()));
            let column = column.filter(|column| !columns.contains(&Some(*column)));
            if column.is_none() && mapped != Some(None) {
                ignored.push(field.name().clone());
            }
            columns.push(column);
        }
        if columns.iter().flatten().count() == 0 {
            return Err(FormatError::NotThis { path, expected: "a Parquet file of flows: no column has a known name" });
        }
        let batches = guarded(|| builder.with_batch_size(BATCH_ROWS).build()).map_err(failed)?;
        Ok(Self { path, batches, columns, ignored, values_refused: 0, rows_refused: 0, ended: false })
    }

    /// Names of columns that are not kept.
    pub fn ignored(&self) -> impl Iterator<Item = &str> {
        self.ignored.iter().map(String::as_str)
    }

    /// Values that fit into no value of their column, and became null.
    pub fn values_refused(&self) -> u64 {
        self.values_refused
    }

    /// Rows without any time, which are not kept.
    pub fn rows_refused(&self) -> u64 {
        self.rows_refused
    }

    fn batch(&mut self, rows: &RecordBatch) -> Result<FlowBatch, FormatError> {
        let mut found: Vec<(Column, ArrayRef)> = Vec::new();
        for (position, column) in self.columns.iter().enumerate() {
            let Some(column) = *column else { continue };
            let values = rows.column(position);
            let converted = convert(column, values).map_err(|error| {
                let what = format!("column '{column}' of type {} ({error})", values.data_type());
                FormatError::Unsupported { path: self.path.clone(), what }
            })?;
            self.values_refused += converted.null_count().saturating_sub(values.logical_null_count()) as u64;
            found.push((column, converted));
        }
        self.received(&mut found)?;
        found.sort_by_key(|(column, _)| *column);
        let batch = FlowBatch::from_columns(rows.num_rows(), found);
        let batch =
            batch.map_err(|error| FormatError::Unsupported { path: self.path.clone(), what: error.to_string() })?;
        Ok(self.with_times(batch))
    }

    /// What has no time of reception was received when the flow had ended, or when it began.
    fn received(&self, found: &mut Vec<(Column, ArrayRef)>) -> Result<(), FormatError> {
        if found.iter().any(|(column, _)| *column == Column::Received) {
            return Ok(());
        }
        let time = [Column::End, Column::Start].iter().find_map(|time| found.iter().find(|(column, _)| column == time));
        let Some((_, time)) = time else {
            return Err(FormatError::Unsupported { path: self.path.clone(), what: "a file without times".to_owned() });
        };
        found.push((Column::Received, Arc::clone(time)));
        Ok(())
    }

    /// Only the rows that say when they were received.
    fn with_times(&mut self, batch: FlowBatch) -> FlowBatch {
        let Some(received) = batch.column(Column::Received).filter(|times| times.null_count() > 0) else {
            return batch;
        };
        self.rows_refused += received.null_count() as u64;
        let kept = arrow::compute::is_not_null(received)
            .and_then(|kept| arrow::compute::filter_record_batch(batch.record_batch(), &kept));
        kept.ok().and_then(|kept| FlowBatch::try_new(kept).ok()).unwrap_or(batch)
    }
}

impl Iterator for Reader {
    type Item = Result<FlowBatch, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let batches = &mut self.batches;
        let batch = match guarded(|| batches.next().transpose()) {
            Ok(None) => return None,
            Ok(Some(rows)) => self.batch(&rows),
            Err(error) => Err(FormatError::read(&self.path, std::io::Error::other(error))),
        };
        self.ended = batch.is_err();
        Some(batch)
    }
}

/// Reads something of a file with the library, which panics on some that are damaged: that is an error like others.
/// Whatever was being read is not used again, so nothing half done is seen.
fn guarded<T, E: Into<ParquetError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, ParquetError> {
    match panics::caught(read) {
        Ok(result) => result.map_err(Into::into),
        Err(message) => Err(ParquetError::General(format!("the file is damaged: {message}"))),
    }
}

/// The column that a name means, where the type can be one of it.
fn of_name(name: &str, data_type: &DataType) -> Option<Column> {
    match Column::by_name(name) {
        Some(Column::Elements) => (*data_type == arrow_type(ColumnType::Elements)).then_some(Column::Elements),
        Some(column) => Some(column),
        None => match fields::part(name) {
            fields::Part::Column(column) => Some(column),
            fields::Part::DirectionOrArrow => Some(Column::Direction),
            _ => None,
        },
    }
}

/// The values as a column has them; what does not fit is null.
pub(crate) fn convert(column: Column, values: &ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    let wanted = arrow_type(column.column_type());
    // text is cleaned, whoever wrote it
    if *values.data_type() == wanted && column.column_type() != ColumnType::Text {
        return Ok(Arc::clone(values));
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let values = match values.data_type() {
        DataType::Dictionary(_, inner) => &cast_with_options(values, inner, &options)?,
        _ => values,
    };
    let is_text = matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let texts = if is_text { Some(cast_with_options(values, &DataType::Utf8, &options)?) } else { None };
    if let Some(texts) = texts {
        return of_texts(column, texts.as_string::<i32>(), &wanted, &options);
    }
    match (column.column_type(), values.data_type()) {
        // a time without a zone is one of UTC
        (ColumnType::Time, data_type) => {
            let zone = match data_type {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            };
            let ms = cast_with_options(values, &DataType::Timestamp(TimeUnit::Millisecond, zone), &options)?;
            let ms = ms.as_primitive::<TimestampMillisecondType>().clone();
            Ok(Arc::new(ms.with_timezone("UTC")))
        }
        (ColumnType::Address, DataType::UInt32 | DataType::Int64) => {
            let numbers = cast_with_options(values, &DataType::UInt32, &options)?;
            let mut octets = BinaryBuilder::new();
            for number in numbers.as_primitive::<UInt32Type>() {
                octets.append_option(number.map(u32::to_be_bytes));
            }
            cast_with_options(&(Arc::new(octets.finish()) as ArrayRef), &wanted, &options)
        }
        _ => cast_with_options(values, &wanted, &options),
    }
}

/// Texts, each read as a value of the column.
fn clean_texts(texts: &StringArray) -> ArrayRef {
    let clean = |text: &str| {
        let mut clean = String::with_capacity(text.len());
        weir_flow::text::push_clean(text.as_bytes(), &mut clean);
        (!clean.is_empty()).then_some(clean)
    };
    Arc::new(texts.iter().map(|text| text.and_then(clean)).collect::<StringArray>())
}

fn of_texts(
    column: Column,
    texts: &StringArray,
    wanted: &DataType,
    options: &CastOptions<'_>,
) -> Result<ArrayRef, arrow::error::ArrowError> {
    if column.column_type() == ColumnType::Text {
        return Ok(clean_texts(texts));
    }
    let cells = texts.iter().map(|text| text.and_then(|text| cell::read(column, text.trim())));
    let values: ArrayRef = match column.column_type() {
        ColumnType::Time => {
            let times = cells.map(|cell| match cell {
                Some(Cell::Time(ms)) => Some(ms),
                _ => None,
            });
            return Ok(Arc::new(times.collect::<TimestampMillisecondArray>().with_timezone("UTC")));
        }
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => {
            let numbers = cells.map(|cell| match cell {
                Some(Cell::Number(number)) => Some(number),
                _ => None,
            });
            Arc::new(numbers.collect::<UInt64Array>())
        }
        _ => {
            let octets = cells.map(|cell| match cell {
                Some(Cell::Octets(octets)) => Some(octets),
                _ => None,
            });
            Arc::new(octets.collect::<BinaryArray>())
        }
    };
    cast_with_options(&values, wanted, options)
}
