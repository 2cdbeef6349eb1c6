//! Reports as rows, with what their acknowledgements say now.
//!
//! Rows come in the order of the journal, a batch at a time, so a question needs no memory for all of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use serde_json::{Map, Value};

use crate::journal::REPORTS;
use crate::log::LogReader;
use crate::{Acknowledgements, JournalError};

/// Name of the table.
pub const NAME: &str = "reports";
/// What its rows are.
pub const ROWS: &str = "what watches reported, one row each";
/// Rows of a batch.
const BATCH_ROWS: usize = 1_024;

/// The kind of a column, and where its value comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    /// A time that a member has.
    Time(&'static str),
    /// A member that is a text.
    Text(&'static str),
    /// A member that is a number.
    Number(&'static str),
    /// A member of any kind, as JSON.
    Json(&'static str),
    /// `open` or `acknowledged`.
    State,
    /// Whether it is acknowledged.
    IsAcknowledged,
    /// A member that is true or false, and false when it is not there.
    Flag(&'static str),
    /// Whether no record was lost and none left out; null when that is not known.
    IsComplete,
}

/// The columns: name, content, meaning.
const COLUMNS: [(&str, Content, &str); 19] = [
    ("reported", Content::Time("reported"), "when the report was written"),
    ("watch", Content::Text("watch"), "name of the watch"),
    ("window_start", Content::Time("window_start"), "begin of the window"),
    ("window_end", Content::Time("window_end"), "end of the window"),
    ("severity", Content::Text("severity"), "info, notice, warning or critical"),
    ("state", Content::State, "open or acknowledged"),
    ("acknowledged", Content::IsAcknowledged, "whether its key is acknowledged"),
    ("key", Content::Text("key"), "values of the key columns, name=value"),
    ("title", Content::Text("title"), "what the watch finds"),
    ("rows", Content::Number("rows"), "rows of the answer"),
    ("evidence", Content::Json("evidence"), "the first of them, as JSON"),
    (
        "complete",
        Content::IsComplete,
        "whether no record was lost around the window, and none left out; null when unknown",
    ),
    ("records_lost", Content::Number("records_lost"), "records lost around the window; null when unknown"),
    ("rows_left_out", Content::Number("rows_left_out"), "flows of the window that the watch had no room for"),
    (
        "saturated",
        Content::Flag("saturated"),
        "whether a sum does not fit into 64 bits, so that the largest number stands for it",
    ),
    (
        "correction",
        Content::Flag("correction"),
        "whether late flows changed an earlier report; with no rows it is withdrawn",
    ),
    ("suppressed", Content::Number("suppressed"), "reports of the key left out since the one before"),
    ("next", Content::Text("next"), "command to run next"),
    ("id", Content::Text("id"), "identifies the report"),
];

/// The schema of the table.
pub fn schema() -> SchemaRef {
    let fields = COLUMNS.iter().map(|(name, content, _)| {
        let data_type = match content {
            Content::Time(_) => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            Content::Text(_) | Content::Json(_) | Content::State => DataType::Utf8,
            Content::Number(_) => DataType::UInt64,
            Content::IsAcknowledged | Content::Flag(_) | Content::IsComplete => DataType::Boolean,
        };
        Field::new(*name, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// What the column of a name means.
pub fn meaning(column: &str) -> Option<&'static str> {
    COLUMNS.iter().find(|(name, _, _)| *name == column).map(|(_, _, meaning)| *meaning)
}

/// Why rows cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A batch.
    #[error("reports do not make a batch")]
    Batch(#[from] ArrowError),
}

/// Reports as batches.
#[derive(Debug)]
pub struct ReportRows {
    path: PathBuf,
    log: Option<LogReader>,
    acknowledgements: Acknowledgements,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl ReportRows {
    /// All reports of a journal, with these columns of the [schema]. There are none where no watch has run.
    pub fn read(folder: &Path, columns: &[usize]) -> Result<Self, TableError> {
        let path = folder.join(REPORTS);
        let log = LogReader::open(&path).map_err(JournalError::at(&path))?;
        let schema = Arc::new(schema().project(columns)?);
        let acknowledgements = Acknowledgements::of(folder);
        Ok(Self { path, log, acknowledgements, columns: columns.to_vec(), schema })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, TableError> {
        let Some(log) = &mut self.log else { return Ok(None) };
        let mut rows = Vec::with_capacity(BATCH_ROWS);
        while rows.len() < BATCH_ROWS {
            let Some(report) = log.next_report().map_err(JournalError::at(&self.path))? else { break };
            rows.extend(report.members);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let columns = self.columns.iter().filter_map(|column| COLUMNS.get(*column));
        let arrays = columns.map(|(_, content, _)| array(*content, &rows, &self.acknowledgements)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?))
    }
}

impl Iterator for ReportRows {
    type Item = Result<RecordBatch, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch().transpose();
        // what failed once is not read again
        if next.as_ref().is_none_or(Result::is_err) {
            self.log = None;
        }
        next
    }
}

fn text<'a>(row: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    row.get(name)?.as_str()
}

fn time(row: &Map<String, Value>, name: &str) -> Option<i64> {
    text(row, name)?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

fn array(content: Content, rows: &[Map<String, Value>], acknowledgements: &Acknowledgements) -> ArrayRef {
    let is_acknowledged = |row: &Map<String, Value>| {
        let end_ms = time(row, "window_end").unwrap_or(i64::MIN);
        let of = |name| text(row, name).unwrap_or_default();
        acknowledgements.has(of("watch"), of("key"), end_ms)
    };
    let number = |row: &Map<String, Value>, name: &str| row.get(name).and_then(Value::as_u64);
    match content {
        Content::Time(name) => {
            let times = rows.iter().map(|row| time(row, name));
            Arc::new(times.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
        }
        Content::Text(name) => Arc::new(rows.iter().map(|row| text(row, name)).collect::<StringArray>()),
        Content::Number(name) => Arc::new(rows.iter().map(|row| number(row, name)).collect::<UInt64Array>()),
        Content::Json(name) => {
            let texts = rows.iter().map(|row| row.get(name).map(Value::to_string));
            Arc::new(texts.collect::<StringArray>())
        }
        Content::State => {
            let states = rows.iter().map(|row| Some(if is_acknowledged(row) { "acknowledged" } else { "open" }));
            Arc::new(states.collect::<StringArray>())
        }
        Content::IsAcknowledged => {
            Arc::new(rows.iter().map(|row| Some(is_acknowledged(row))).collect::<BooleanArray>())
        }
        Content::IsComplete => {
            let complete = rows.iter().map(|row| match number(row, "rows_left_out") {
                Some(1..) => Some(false),
                _ => number(row, "records_lost").map(|lost| lost == 0),
            });
            Arc::new(complete.collect::<BooleanArray>())
        }
        Content::Flag(name) => {
            let flags = rows.iter().map(|row| Some(row.get(name) == Some(&Value::Bool(true))));
            Arc::new(flags.collect::<BooleanArray>())
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use serde_json::json;

    use super::*;
    use crate::{Journal, Retention, acknowledge};

    #[test]
    fn reports_are_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let every: Vec<usize> = (0..COLUMNS.len()).collect();
        assert_eq!(ReportRows::read(folder.path(), &every).expect("a table").count(), 0);
        let mut journal = Journal::open(folder.path(), Retention::default()).expect("a journal");
        let report = |key: &str, lost: Option<u64>, left_out: u64| {
            let report = json!({
                "rows_left_out": left_out, "correction": key == "b", "saturated": key == "c",
                "id": format!("scan/{key}"), "watch": "scan", "key": key, "severity": "warning", "rows": 2,
                "window_start": "2026-01-01T00:00:00.000Z", "window_end": "2026-01-01T00:00:10.000Z",
                "evidence": [{ "flows": 7 }], "records_lost": lost, "next": "weir query",
            });
            report.as_object().expect("an object").clone()
        };
        // date -u -d '2026-01-01 00:00:11' +%s
        let reported_ms = 1_767_225_611_000;
        let reports = [report("a", Some(0), 0), report("b", Some(3), 0), report("c", None, 0), report("d", None, 7)];
        journal.append(reports, reported_ms).expect("appended");
        acknowledge(folder.path(), "scan", Some("b"), reported_ms).expect("acknowledged");
        let batches = ReportRows::read(folder.path(), &every).expect("a table").collect::<Result<Vec<_>, _>>();
        let batch = &batches.expect("batches")[0];
        assert_eq!(batch.num_rows(), 4);
        let text = |name: &str, row| batch.column_by_name(name).expect(name).as_string::<i32>().value(row).to_owned();
        assert_eq!([0, 1, 2].map(|row| text("state", row)), ["open", "acknowledged", "open"]);
        assert_eq!(text("evidence", 1), r#"[{"flows":7}]"#);
        let complete = batch.column_by_name("complete").expect("complete").as_boolean();
        assert_eq!(complete.iter().collect::<Vec<_>>(), [Some(true), Some(false), None, Some(false)]);
        let saturated = batch.column_by_name("saturated").expect("saturated").as_boolean();
        assert_eq!(saturated.iter().collect::<Vec<_>>(), [false, false, true, false].map(Some));
        let corrections = batch.column_by_name("correction").expect("correction").as_boolean();
        assert_eq!(corrections.iter().collect::<Vec<_>>(), [false, true, false, false].map(Some));
        let reported = batch.column_by_name("reported").expect("reported");
        let reported = reported.as_primitive::<arrow::datatypes::TimestampMillisecondType>();
        assert_eq!(reported.value(2), reported_ms);
        // no column is wanted of what is counted
        let counted = ReportRows::read(folder.path(), &[]).expect("a table").next().expect("a batch").expect("a batch");
        assert_eq!((counted.num_rows(), counted.num_columns()), (4, 0));
    }
}
