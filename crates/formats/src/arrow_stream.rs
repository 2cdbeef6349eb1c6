//! Arrow IPC streams that a program sends, columns by our names.
//!
//! Whoever sends is there and can be answered, so nothing is guessed: a column of another name, a type that is not
//! converted and a value that does not fit are errors that name them, and of such a stream nothing is kept. What speaks
//! against it is that one bad value refuses a whole stream; a sender that wants less cuts its stream smaller.
//!
//! Types that say a value once and mean it many times (dictionaries, runs, views) are refused, and so is compression:
//! what is decoded is about as large as what was sent, and a small body cannot fill the memory.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Schema, TimestampMillisecondType};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType, FlowBatch};

use crate::columnar::convert;
use crate::panics;

/// Names of columns that an error lists.
const NAMES_MAX: usize = 10;
/// Characters of a name in a message.
const NAME_CHARS_MAX: usize = 100;

/// Why a stream is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// It is none, or ends too early.
    #[error("the body is no Arrow IPC stream: {0}")]
    Damaged(String),
    /// It is no Parquet file whose numbers can be true, or one that is not read.
    #[error("the body is no Parquet file that can be read: {0}")]
    Parquet(String),
    /// It has no column.
    #[error("the stream has no columns")]
    NoColumns,
    /// Columns that flows do not have.
    #[error("not columns of flows: {}", listed(.0))]
    Unknown(Vec<String>),
    /// A column that is there twice.
    #[error("column '{0}' is there twice")]
    Twice(Column),
    /// A column of a type that is not converted.
    #[error("column '{column}' has type {found}, and {expected} is needed")]
    Type {
        /// The column.
        column: Column,
        /// Its type in the stream.
        found: String,
        /// Its type in an archive.
        expected: String,
    },
    /// Values that a column cannot have: addresses of other lengths, numbers that are too large.
    #[error("column '{column}' has values that do not fit into {expected}: {count}")]
    Values {
        /// The column.
        column: Column,
        /// How many.
        count: usize,
        /// What they should be.
        expected: String,
    },
    /// A line of text that cannot be read.
    #[error("line {number}: {what}")]
    Line {
        /// Its number, from 1.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The flows take too much memory.
    #[error("the flows of the body take more than {octets_max} octets")]
    TooLarge {
        /// How much they may take.
        octets_max: usize,
    },
}

impl StreamError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged(_) => {
                "send an uncompressed Arrow IPC stream, as pyarrow.ipc.new_stream writes it; Parquet has a Content-Type of its own"
            }
            Self::Parquet(_) => {
                "send flat columns, plain or with dictionaries, compressed with zstd or not at all, as pyarrow.parquet.write_table(…, compression='zstd') writes them; weir import reads other files"
            }
            Self::NoColumns | Self::Unknown(_) | Self::Twice(_) => {
                "GET /api/v1/columns lists the columns; docs/reference/columns.md has their types"
            }
            Self::Type { .. } => {
                "send plain numbers, timestamps, binary or text; dictionaries, runs and views are to be decoded first"
            }
            Self::Values { .. } => "nothing of the stream was taken; correct the values or send null",
            Self::Line { .. } => {
                "nothing of the body was taken; a line is one object of numbers and texts, or has as many fields as the header"
            }
            Self::TooLarge { .. } => "send fewer flows at once, or set 'queue' in [ingest]",
        }
    }
}

/// The first names between commas.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| shortened(name)).collect();
    let mut text = shown.join(", ");
    if names.len() > NAMES_MAX {
        // writing to a text does not fail
        let _ = write!(text, " and {} more", names.len() - NAMES_MAX);
    }
    text
}

/// A name as it can be printed, without what is behind its first characters.
fn shortened(name: &str) -> String {
    let mut text: String = name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
    if name.chars().nth(NAME_CHARS_MAX).is_some() {
        text.push('…');
    }
    text
}

/// Reads a whole stream. Flows without a time of reception get `received_ms`, milliseconds since the epoch.
pub fn read(body: impl Into<Buffer>, received_ms: i64) -> Result<Vec<FlowBatch>, StreamError> {
    let body = body.into();
    match panics::caught(|| batches(body, received_ms)) {
        Ok(read) => read,
        // the library panics on some streams that are damaged
        Err(message) => Err(StreamError::Damaged(message)),
    }
}

fn batches(mut body: Buffer, received_ms: i64) -> Result<Vec<FlowBatch>, StreamError> {
    let damaged = |error: ArrowError| StreamError::Damaged(error.to_string());
    let mut decoder = StreamDecoder::new();
    let mut flows = Vec::new();
    while !body.is_empty() {
        let Some(rows) = decoder.decode(&mut body).map_err(damaged)? else { break };
        let batch = batch(&rows, received_ms)?;
        if batch.rows() > 0 {
            flows.push(batch);
        }
    }
    decoder.finish().map_err(damaged)?;
    // a stream without rows has columns as well
    let schema = decoder.schema().ok_or_else(|| StreamError::Damaged("it has no schema".to_owned()))?;
    columns(&schema)?;
    Ok(flows)
}

/// The columns of a stream, in its order.
pub(crate) fn columns(schema: &Schema) -> Result<Vec<Column>, StreamError> {
    let mut found: Vec<Column> = Vec::new();
    let mut unknown = Vec::new();
    for field in schema.fields() {
        match Column::by_name(field.name()) {
            None => unknown.push(field.name().clone()),
            Some(column) if found.contains(&column) => return Err(StreamError::Twice(column)),
            Some(column) => {
                check_type(column, field.data_type())?;
                found.push(column);
            }
        }
    }
    match (unknown.is_empty(), found.is_empty()) {
        (false, _) => Err(StreamError::Unknown(unknown)),
        (true, true) => Err(StreamError::NoColumns),
        (true, false) => Ok(found),
    }
}

/// Refuses types of which a value may be meant many times, and nested ones that are not those of the column.
fn check_type(column: Column, data_type: &DataType) -> Result<(), StreamError> {
    let expected = arrow_type(column.column_type());
    let is_plain = match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Timestamp(..) => true,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            matches!(column.column_type(), ColumnType::Address | ColumnType::Mac | ColumnType::Octets)
        }
        other => other.is_integer(),
    };
    let is_fit = *data_type == expected || is_plain && column != Column::Elements;
    if is_fit {
        return Ok(());
    }
    Err(StreamError::Type { column, found: data_type.to_string(), expected: expected.to_string() })
}

/// The flows of rows of plain types.
pub(crate) fn batch(rows: &RecordBatch, received_ms: i64) -> Result<FlowBatch, StreamError> {
    let columns = columns(rows.schema_ref())?;
    let mut found: Vec<(Column, ArrayRef)> = Vec::with_capacity(columns.len() + 1);
    for (column, values) in columns.into_iter().zip(rows.columns()) {
        found.push((column, converted(column, values)?));
    }
    if let Some((_, times)) = found.iter_mut().find(|(column, _)| *column == Column::Received) {
        *times = with_received(times, received_ms);
    } else {
        let times = TimestampMillisecondArray::from_value(received_ms, rows.num_rows());
        found.push((Column::Received, Arc::new(times.with_timezone("UTC"))));
    }
    found.sort_by_key(|(column, _)| *column);
    FlowBatch::from_columns(rows.num_rows(), found).map_err(|error| StreamError::Damaged(error.to_string()))
}

/// The values as an archive has them; none is lost.
fn converted(column: Column, values: &ArrayRef) -> Result<ArrayRef, StreamError> {
    let expected = arrow_type(column.column_type());
    let of_type =
        |_| StreamError::Type { column, found: values.data_type().to_string(), expected: expected.to_string() };
    let converted = convert(column, values).map_err(of_type)?;
    let nulls = converted.null_count().saturating_sub(values.logical_null_count());
    let (count, expected) = match column.column_type() {
        // a text without letters is null
        ColumnType::Text => return Ok(converted),
        ColumnType::Address => (nulls + wrong_lengths(&converted, &[4, 16]), "addresses of 4 or 16 octets".to_owned()),
        ColumnType::Mac => (nulls + wrong_lengths(&converted, &[6]), "MAC addresses of 6 octets".to_owned()),
        _ => (nulls, expected.to_string()),
    };
    if count == 0 { Ok(converted) } else { Err(StreamError::Values { column, count, expected }) }
}

/// Values of another number of octets.
fn wrong_lengths(values: &ArrayRef, octets: &[usize]) -> usize {
    let Some(values) = values.as_binary_opt::<i32>() else { return 0 };
    values.iter().flatten().filter(|value| !octets.contains(&value.len())).count()
}

/// Times of reception, where there is none this one.
fn with_received(times: &ArrayRef, received_ms: i64) -> ArrayRef {
    if times.null_count() == 0 {
        return Arc::clone(times);
    }
    let Some(known) = times.as_primitive_opt::<TimestampMillisecondType>() else { return Arc::clone(times) };
    let filled: TimestampMillisecondArray = known.iter().map(|time| time.or(Some(received_ms))).collect();
    Arc::new(filled.with_timezone("UTC"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, DictionaryArray, Int64Array, StringArray, UInt16Array, UInt64Array};
    use arrow::datatypes::Int32Type;
    use arrow::ipc::writer::StreamWriter;

    use super::*;

    /// 2026-01-01T00:00:00Z, by `date -d`.
    const NOW_MS: i64 = 1_767_225_600_000;

    fn stream(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
        let rows = RecordBatch::try_from_iter(columns).expect("a batch");
        let mut octets = Vec::new();
        let mut writer = StreamWriter::try_new(&mut octets, rows.schema_ref()).expect("a stream");
        writer.write(&rows).expect("written");
        writer.finish().expect("finished");
        drop(writer);
        octets
    }

    fn refused(columns: Vec<(&str, ArrayRef)>) -> StreamError {
        read(stream(columns), NOW_MS).expect_err("an error")
    }

    fn texts(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    fn bytes() -> ArrayRef {
        Arc::new(Int64Array::from(vec![100, 200]))
    }

    #[test]
    fn columns_have_their_types_and_a_time_of_reception() {
        let received: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![None, Some(7)]));
        let flows = read(
            stream(vec![
                ("bytes", bytes()),
                ("src_addr", texts(&["192.0.2.1", "2001:db8::1"])),
                ("dst_addr", Arc::new(BinaryArray::from(vec![&[192, 0, 2, 2][..], &[192, 0, 2, 3][..]]))),
                ("dst_port", Arc::new(UInt16Array::from(vec![53, 443]))),
                ("received", received),
            ]),
            NOW_MS,
        );
        let flows = flows.expect("flows");
        let [flows] = flows.as_slice() else { panic!("one batch: {flows:?}") };
        let times = flows.primitive::<TimestampMillisecondType>(Column::Received).expect("times");
        assert_eq!(times.values(), &[NOW_MS, 7]);
        assert_eq!(flows.column(Column::Bytes).expect("bytes").as_ref(), &UInt64Array::from(vec![100, 200]));
        let sources = flows.binary(Column::SrcAddr).expect("addresses");
        assert_eq!((sources.value(0), sources.value(1).len()), (&[192, 0, 2, 1][..], 16));
        assert_eq!(flows.binary(Column::DstAddr).expect("addresses").value(1), [192, 0, 2, 3]);
        let none = read(stream(vec![("bytes", Arc::new(Int64Array::from(Vec::<i64>::new())))]), NOW_MS);
        assert!(none.expect("no flows").is_empty());
        let without = read(stream(vec![("bytes", bytes())]), NOW_MS).expect("flows");
        let times = without[0].primitive::<TimestampMillisecondType>(Column::Received).expect("times");
        assert_eq!(times.values(), &[NOW_MS, NOW_MS]);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_its_name() {
        let unknown = refused(vec![("bytes", bytes()), ("octets", bytes()), ("sip", bytes())]);
        assert_eq!(unknown.to_string(), "not columns of flows: octets, sip");
        let dictionary: DictionaryArray<Int32Type> = ["192.0.2.1"].into_iter().collect();
        let error = refused(vec![("src_addr", Arc::new(dictionary))]).to_string();
        assert!(error.starts_with("column 'src_addr' has type Dictionary("), "{error}");
        let error = refused(vec![("dst_port", Arc::new(Int64Array::from(vec![1, 65_536, -1])))]).to_string();
        assert_eq!(error, "column 'dst_port' has values that do not fit into UInt16: 2");
        let error = refused(vec![("src_addr", Arc::new(BinaryArray::from(vec![&[1, 2, 3][..]])))]).to_string();
        assert_eq!(error, "column 'src_addr' has values that do not fit into addresses of 4 or 16 octets: 1");
        let error = refused(vec![("src_addr", texts(&["here"]))]).to_string();
        assert_eq!(error, "column 'src_addr' has values that do not fit into addresses of 4 or 16 octets: 1");
        let error = refused(vec![("elements", bytes())]);
        assert!(matches!(error, StreamError::Type { column: Column::Elements, .. }), "{error}");
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        let whole = stream(vec![("bytes", bytes())]);
        for body in [&b""[..], b"PAR1 is no stream", &[0xff; 64], &whole[..whole.len() / 2]] {
            let error = read(body, NOW_MS).expect_err("an error");
            assert!(matches!(error, StreamError::Damaged(_)), "{error}");
        }
        // each octet changed: an error or flows, and no panic
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            let _ = read(damaged, NOW_MS);
        }
    }

    #[test]
    fn names_of_an_error_are_few_and_clean() {
        let names: Vec<String> = (0..12).map(|number| format!("a{number}\u{1b}")).collect();
        let text = StreamError::Unknown(names).to_string();
        assert!(text.contains("a0\\u{1b}, a1") && text.ends_with(" and 2 more"), "{text}");
        assert!(!text.contains('\u{1b}'));
        let text = StreamError::Unknown(vec!["é".repeat(1 << 20)]).to_string();
        assert_eq!(text, format!("not columns of flows: {}…", "é".repeat(100)));
    }
}
