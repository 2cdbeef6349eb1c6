//! Answers as text.
//!
//! Every format streams: rows are written as they come. Which formats there are, their names and whether they are made
//! for people stand in one enum, and each format is one implementation of the same small trait.

mod cell;
mod csv;
mod digits;
mod human;
mod json;
mod table;

use std::io::{ErrorKind, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use jiff::tz::TimeZone;

use crate::{Answer, EngineError};

/// Octets gathered before they are written.
const CHUNK_OCTETS: usize = 64 << 10;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Aligned columns for people: names of protocols, letters of flags, scaled numbers.
    #[default]
    Table,
    /// Comma-separated values (RFC 4180) with a header line; null is empty.
    Csv,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    Ndjson,
    /// Nothing: rows are counted only.
    Null,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Format] = &[Self::Table, Self::Csv, Self::Json, Self::Ndjson, Self::Null];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Null => "null",
        }
    }

    /// Finds a format by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

/// How text is made for people. The formats for programs always write times in UTC and numbers in full.
#[derive(Debug, Clone)]
pub struct OutputOptions {
    /// Zone of the times in tables.
    pub zone: TimeZone,
    /// Whether tables scale counters from a million on: `1.2 M`.
    pub scaled: bool,
    /// Whether tables and CSV begin with the names of the columns.
    pub header: bool,
    /// Whether tables head columns with short labels rather than with their names in SQL.
    pub labels: bool,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self { zone: TimeZone::UTC, scaled: true, header: true, labels: false }
    }
}

/// A format at work: appends text to a buffer.
trait Rows {
    /// What comes before the first row.
    fn begin(&mut self, schema: &SchemaRef, text: &mut Vec<u8>);
    /// Row `row` of a batch whose columns are `cells`.
    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()>;
    /// What comes after the last row.
    fn end(&mut self, text: &mut Vec<u8>);
}

/// Writes text out once there is enough of it.
struct Flush<'a> {
    to: &'a mut dyn Write,
}

impl Flush<'_> {
    fn when_full(&mut self, text: &mut Vec<u8>) -> std::io::Result<()> {
        if text.len() < CHUNK_OCTETS { Ok(()) } else { self.now(text) }
    }

    fn now(&mut self, text: &mut Vec<u8>) -> std::io::Result<()> {
        self.to.write_all(text)?;
        text.clear();
        Ok(())
    }
}

/// Writes an answer and returns the number of its rows.
///
/// When whoever reads the text goes away (a closed pipe, as behind `head`), the rest of the answer is cancelled and
/// that is no error.
pub fn write_answer(
    answer: Answer,
    format: Format,
    options: &OutputOptions,
    to: &mut dyn Write,
) -> Result<u64, EngineError> {
    let schema = answer.schema().clone();
    write_batches(answer, &schema, format, options, to)
}

/// Writes batches of one schema and returns the number of rows, as [`write_answer`] does.
pub fn write_batches(
    batches: impl Iterator<Item = Result<RecordBatch, EngineError>>,
    schema: &SchemaRef,
    format: Format,
    options: &OutputOptions,
    to: &mut dyn Write,
) -> Result<u64, EngineError> {
    let mut rows: Box<dyn Rows> = match format {
        Format::Table => Box::new(table::Table::new(options)),
        Format::Csv => Box::new(csv::Csv::new(options)),
        Format::Json => Box::new(json::Json::array()),
        Format::Ndjson => Box::new(json::Json::lines()),
        Format::Null => Box::new(Nothing),
    };
    let mut count = 0;
    match stream(batches, schema, rows.as_mut(), to, &mut count) {
        Err(EngineError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(count),
        other => other.map(|()| count),
    }
}

fn stream(
    batches: impl Iterator<Item = Result<RecordBatch, EngineError>>,
    schema: &SchemaRef,
    rows: &mut dyn Rows,
    to: &mut dyn Write,
    count: &mut u64,
) -> Result<(), EngineError> {
    let mut text = Vec::with_capacity(CHUNK_OCTETS * 2);
    let mut flush = Flush { to };
    rows.begin(schema, &mut text);
    for batch in batches {
        let batch = batch?;
        rows.batch(&batch, &mut text, &mut flush).map_err(EngineError::Write)?;
        *count += batch.num_rows() as u64;
    }
    rows.end(&mut text);
    flush.now(&mut text).and_then(|()| flush.to.flush()).map_err(EngineError::Write)
}

/// The format that writes nothing.
struct Nothing;

impl Rows for Nothing {
    fn begin(&mut self, _schema: &SchemaRef, _text: &mut Vec<u8>) {}

    fn batch(&mut self, _batch: &RecordBatch, _text: &mut Vec<u8>, _flush: &mut Flush<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _text: &mut Vec<u8>) {}
}

#[cfg(test)]
mod tests;
