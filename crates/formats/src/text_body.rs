//! Lines of JSON, and CSV, that a program sends, columns by our names.
//!
//! Whoever sends is there and can be answered, so nothing of what [`text`](crate::text) does for files is done here: names of other
//! programs, values that cannot be read and lines that are too short are errors that name them, and of such a body nothing is kept. A
//! value is read as the one of a file is: numbers, addresses, and times as text or since the epoch. What is absent is null.
//!
//! A body becomes columns of text, which are converted as those of an [Arrow stream](crate::arrow_stream) are: there is one
//! set of rules. What speaks against it is that an error names a column and not the line.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, RecordBatch, StringBuilder};
use serde_json::{Map, Value};
use weir_flow::{Column, FlowBatch};

use crate::arrow_stream::{StreamError, batch};

/// Rows in a batch.
const BATCH_ROWS: usize = 16_384;

/// How the text of a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// An object of JSON on each line (<https://jsonlines.org>); its values are numbers, texts and null.
    JsonLines,
    /// A header and rows of as many fields (RFC 4180); an empty field is null.
    Csv,
}

/// Reads a whole body. Flows without a time of reception get `received_ms`, milliseconds since the epoch. Flows that take more
/// than `octets_max` in memory are refused: a line of few octets may have many columns that are null.
pub fn read(body: &[u8], form: TextForm, received_ms: i64, octets_max: usize) -> Result<Vec<FlowBatch>, StreamError> {
    let mut rows = TextRows { columns: Vec::new(), rows: 0, flows: Vec::new(), octets: 0, received_ms, octets_max };
    match form {
        TextForm::JsonLines => json_lines(body, &mut rows)?,
        TextForm::Csv => csv_rows(body, &mut rows)?,
    }
    rows.flush()?;
    Ok(rows.flows)
}

fn json_lines(body: &[u8], rows: &mut TextRows) -> Result<(), StreamError> {
    for (line, number) in body.split(|octet| *octet == b'\n').zip(1_u64..) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let wrong = |what: String| StreamError::Line { number, what };
        let members: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| wrong(format!("no object of JSON: {error}")))?;
        for (name, value) in members {
            let column = rows.column(&name)?;
            match value {
                Value::Null => {}
                Value::String(text) => rows.set(column, &text),
                Value::Number(number) => rows.set(column, &number.to_string()),
                Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(wrong(format!("'{name}' is neither a number nor a text")));
                }
            }
        }
        rows.end_row()?;
    }
    Ok(())
}

fn csv_rows(body: &[u8], rows: &mut TextRows) -> Result<(), StreamError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(body);
    let names = reader.headers().map_err(|error| of_csv(&error))?.clone();
    let unknown: Vec<String> = names.iter().filter(|name| Column::by_name(name).is_none()).map(str::to_owned).collect();
    if !unknown.is_empty() {
        return Err(StreamError::Unknown(unknown));
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in &names {
        let column = rows.column(name)?;
        if columns.contains(&column) {
            return Err(StreamError::Twice(rows.columns[column].column));
        }
        columns.push(column);
    }
    if columns.is_empty() {
        return Err(StreamError::NoColumns);
    }
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| of_csv(&error))? {
        for (column, text) in columns.iter().zip(&record) {
            if !text.is_empty() {
                rows.set(*column, text);
            }
        }
        rows.end_row()?;
    }
    Ok(())
}

fn of_csv(error: &csv::Error) -> StreamError {
    StreamError::Line { number: error.position().map_or(1, csv::Position::line), what: error.to_string() }
}

/// A column of a body, as text.
struct TextColumn {
    column: Column,
    values: StringBuilder,
}

/// Rows that are read, and those that are flows already.
struct TextRows {
    columns: Vec<TextColumn>,
    /// Rows that are whole and no flows yet.
    rows: usize,
    flows: Vec<FlowBatch>,
    octets: usize,
    received_ms: i64,
    octets_max: usize,
}

impl TextRows {
    /// The place of a column, which may be new: rows before have null there.
    fn column(&mut self, name: &str) -> Result<usize, StreamError> {
        let column = Column::by_name(name).ok_or_else(|| StreamError::Unknown(vec![name.to_owned()]))?;
        if let Some(known) = self.columns.iter().position(|known| known.column == column) {
            return Ok(known);
        }
        let mut values = StringBuilder::new();
        (0..self.rows).for_each(|_| values.append_null());
        self.columns.push(TextColumn { column, values });
        Ok(self.columns.len() - 1)
    }

    /// Sets a value of the row that is read, once.
    fn set(&mut self, column: usize, text: &str) {
        self.columns[column].values.append_value(text);
    }

    fn end_row(&mut self) -> Result<(), StreamError> {
        self.rows += 1;
        for column in &mut self.columns {
            if column.values.len() < self.rows {
                column.values.append_null();
            }
        }
        if self.rows == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Makes flows of the rows.
    fn flush(&mut self) -> Result<(), StreamError> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        let texts: Vec<(&str, ArrayRef)> = self
            .columns
            .iter_mut()
            .map(|column| (column.column.name(), Arc::new(column.values.finish()) as ArrayRef))
            .collect();
        if texts.is_empty() {
            return Err(StreamError::NoColumns);
        }
        let texts = RecordBatch::try_from_iter(texts).map_err(|error| StreamError::Damaged(error.to_string()))?;
        let flows = batch(&texts, self.received_ms)?;
        self.octets += flows.record_batch().get_array_memory_size();
        if self.octets > self.octets_max {
            return Err(StreamError::TooLarge { octets_max: self.octets_max });
        }
        self.flows.push(flows);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
