//! A report: what a watch found in a window.

use std::fmt::Write as _;

use arrow::array::RecordBatch;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weir_print::{Decimals, Format, OutputOptions, write_batches};
use weir_reports::{Severity, report_key};
use weir_sql::standing::Window;

use crate::file::WatchFile;
use crate::template::{self, TemplateValue};

/// What a watch found in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its name: the same when the same window is asked again.
    pub id: String,
    /// The watch.
    pub watch: String,
    /// What the watch finds, in one line.
    pub title: String,
    /// How serious it is.
    pub severity: Severity,
    /// The window: the longest of the statement.
    pub window: Window,
    /// Values of the key columns, as [`report_key`] writes them; empty without keys.
    pub key: String,
    /// Rows of the answer that belong to it.
    pub rows: u64,
    /// The first of them.
    pub evidence: Vec<Map<String, Value>>,
    /// The columns of the answer, in their order.
    pub columns: Vec<String>,
    /// The command to run next; empty when the watch has none.
    pub next: String,
    /// Records that exporters sent and that were not received, around the time of the window; `None` when unknown.
    pub records_lost: Option<u64>,
    /// Flows of the window that were left out, because the watch keeps no more.
    pub rows_left_out: u64,
    /// Reports of this key that were left out since the last one, because it was reported before.
    pub suppressed: u64,
    /// Whether a sum of the statement does not fit into 64 bits, so that the largest number stands for it (or the smallest).
    pub is_saturated: bool,
    /// Whether the window was reported before, without flows that came too late. Without rows, what was reported of the key
    /// does not hold any more.
    pub is_correction: bool,
}

impl Report {
    /// As an object of JSON.
    pub fn json(&self) -> Value {
        json!({
            "id": self.id,
            "watch": self.watch,
            "title": self.title,
            "severity": self.severity.word(),
            "window_start": time_text(self.window.start_ms),
            "window_end": time_text(self.window.end_ms),
            "key": self.key,
            "rows": self.rows,
            "evidence": self.evidence,
            "records_lost": self.records_lost,
            "rows_left_out": self.rows_left_out,
            "suppressed": self.suppressed,
            "saturated": self.is_saturated,
            "correction": self.is_correction,
            "next": self.next,
        })
    }

    /// As the journal keeps it.
    pub(crate) fn members(&self) -> Map<String, Value> {
        match self.json() {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    /// In one line for people, and one for the command to run next.
    pub fn text(&self) -> String {
        let severity = self.severity.word();
        let first = self.evidence.first().map(|row| row_text(row, &self.columns)).unwrap_or_default();
        let more = match self.rows {
            0 | 1 => String::new(),
            rows => format!(" (and {} more rows)", rows - 1),
        };
        let mut lost = match self.records_lost {
            Some(lost) if lost > 0 => format!(" [incomplete: {lost} records lost]"),
            _ => String::new(),
        };
        if self.rows_left_out > 0 {
            // writing to a text cannot fail
            let _ = write!(
                lost,
                " [incomplete: {} flows of the window left out, see rows_max and rows_over_memory]",
                self.rows_left_out
            );
        }
        if self.is_saturated {
            lost.push_str(" [a sum does not fit into 64 bits]");
        }
        let again = match self.suppressed {
            0 => String::new(),
            times => format!(" [{times} times since the last report]"),
        };
        let corrected = match (self.is_correction, self.rows) {
            (false, _) => String::new(),
            (true, 0) => format!("{} [corrected: no longer so]", self.key),
            (true, _) => " [corrected: late flows]".to_owned(),
        };
        let time = time_text(self.window.end_ms);
        let mut text = format!("{time} {severity} {}: {first}{more}{corrected}{again}{lost}", self.watch);
        if !self.next.is_empty() {
            text.push_str("\n    next: ");
            text.push_str(&self.next);
        }
        text
    }
}

/// A time in RFC 3339.
pub fn time_text(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| format!("{time:.3}"))
}

fn row_text(row: &Map<String, Value>, columns: &[String]) -> String {
    let values = columns.iter().filter_map(|name| match row.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", text.escape_debug())),
        other => Some(format!("{name}={other}")),
    });
    values.collect::<Vec<_>>().join(" ")
}

/// How long before a window `{since}` is: flows are received after they have ended.
const SINCE_MS: i64 = 600_000;
/// Words that a command may have beside columns.
pub(crate) const WORDS: [&str; 4] = ["archive", "from", "to", "since"];

/// Rows of an answer that are looked at; an answer is for people.
const ROWS_MAX: usize = 100_000;

/// The rows of an answer as objects, as `weir sql` writes them, but for decimals: what reads them here knows no other numbers than
/// those of 64 bits and of floating point.
fn objects(batches: &[RecordBatch]) -> Vec<Map<String, Value>> {
    let Some(first) = batches.first() else { return Vec::new() };
    let mut text = Vec::new();
    let mut left = ROWS_MAX;
    let rows = batches.iter().map(|batch| {
        let rows = batch.num_rows().min(left);
        left -= rows;
        Ok::<_, std::convert::Infallible>(batch.slice(0, rows))
    });
    let options = OutputOptions { decimals: Decimals::Texts, ..OutputOptions::default() };
    // writing to memory cannot fail
    let _ = write_batches(rows, &first.schema(), Format::Ndjson, &options, &mut text);
    let lines = text.split(|octet| *octet == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// The id of the report that stands for the keys of a window that there are too many of.
pub(crate) fn too_many_id(report: &Report) -> String {
    format!("{}/{}/{TOO_MANY}", report.watch, time_text(report.window.end_ms))
}

/// One report for several of a window; `None` for none.
pub(crate) fn too_many(reports: Vec<Report>) -> Option<Report> {
    let rows = reports.iter().map(|report| report.rows).sum();
    let first = reports.into_iter().next()?;
    Some(Report { id: too_many_id(&first), key: TOO_MANY.to_owned(), rows, next: String::new(), ..first })
}

/// Key of the report of all keys of a window that there were too many of.
pub const TOO_MANY: &str = "(further keys)";

/// What reports of a watch are made with.
#[derive(Debug)]
pub struct ReportMaker {
    name: String,
    title: String,
    severity: Severity,
    key: Vec<String>,
    evidence_rows_max: usize,
    next: String,
    archive: String,
    is_of_sessions: bool,
}

/// The window from where the session of a row begins, if the row has the column.
fn of_session(window: Window, row: &Map<String, Value>) -> Window {
    let start = row.get("window_start").and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    start.map_or(window, |start| Window { start_ms: start.as_millisecond(), ..window })
}

impl ReportMaker {
    /// For a watch; `archive` is what commands to run next name, and windows may be those of sessions.
    pub fn new(file: &WatchFile, archive: &str, is_of_sessions: bool) -> Self {
        let options = &file.options;
        Self {
            name: file.name.clone(),
            title: if options.reports.title.is_empty() { file.name.clone() } else { options.reports.title.clone() },
            severity: options.reports.severity,
            key: options.reports.key.clone(),
            evidence_rows_max: options.reports.evidence_rows_max,
            next: options.reports.next.clone(),
            archive: archive.to_owned(),
            is_of_sessions,
        }
    }

    /// The reports of an answer: one for each key, in the order of their first rows; none when there is no row.
    pub fn reports(&self, window: Window, answer: &[RecordBatch]) -> Vec<Report> {
        let mut reports: Vec<Report> = Vec::new();
        let fields = answer.first().map(|batch| batch.schema_ref().fields().clone()).unwrap_or_default();
        let columns: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let found: usize = answer.iter().map(RecordBatch::num_rows).sum();
        let mut places = std::collections::HashMap::new();
        for row in objects(answer) {
            let value = |name: &str| row.get(name).filter(|value| !value.is_null()).map(|value| plain(Some(value)));
            let values: Vec<_> = self.key.iter().map(|name| (name.as_str(), value(name))).collect();
            let key = report_key(&values);
            let place = *places.entry(key.clone()).or_insert_with(|| {
                reports.push(self.report(window, key, &columns, &row));
                reports.len() - 1
            });
            let Some(report) = reports.get_mut(place) else { continue };
            report.rows += 1;
            if report.evidence.len() < self.evidence_rows_max {
                report.evidence.push(row);
            }
        }
        // keys of rows that were not looked at are not known, and that there are some is
        let further = found.saturating_sub(ROWS_MAX) as u64;
        if further > 0 && self.key.is_empty() {
            for report in &mut reports {
                report.rows += further;
            }
        } else if further > 0 {
            reports.extend(too_many(
                reports.first().cloned().map(|first| Report { rows: further, ..first }).into_iter().collect(),
            ));
        }
        reports
    }

    /// A report that what was reported of a key of a window does not hold any more.
    pub(crate) fn withdrawn(&self, window: Window, key: String) -> Report {
        Report { next: String::new(), is_correction: true, ..self.report(window, key, &[], &Map::new()) }
    }

    fn report(&self, window: Window, key: String, columns: &[String], row: &Map<String, Value>) -> Report {
        let window = if self.is_of_sessions { of_session(window, row) } else { window };
        Report {
            id: format!("{}/{}/{key}", self.name, time_text(window.end_ms)),
            watch: self.name.clone(),
            title: self.title.clone(),
            severity: self.severity,
            window,
            next: template::filled(&self.next, &|name| match name {
                "archive" => Some(TemplateValue::Path(self.archive.clone())),
                "from" => Some(TemplateValue::Flows(time_text(window.start_ms))),
                "to" => Some(TemplateValue::Flows(time_text(window.end_ms))),
                "since" => Some(TemplateValue::Flows(time_text(window.start_ms.saturating_sub(SINCE_MS)))),
                name => row.get(name).map(|value| TemplateValue::Flows(plain(Some(value)))),
            }),
            key,
            rows: 0,
            evidence: Vec::new(),
            columns: columns.to_vec(),
            records_lost: None,
            rows_left_out: 0,
            suppressed: 0,
            is_saturated: false,
            is_correction: false,
        }
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
