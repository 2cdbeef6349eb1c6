//! Lines of JSON, and CSV, that a program sends, columns by our names.
//!
//! Whoever sends is there and can be answered, so nothing of what [`text`](crate::text) does for files is done here: names of other
//! programs, values that cannot be read and lines that are too short are errors that name them, and of such a body nothing is kept. A
//! value is read as the one of a file is: numbers, addresses, and times as text or since the epoch. What is absent is null.
//!
//! A body becomes columns of text, which are converted as those of an [Arrow stream](crate::arrow_stream) are: there is one
//! set of rules. What speaks against it is that an error names a column and not the line.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, RecordBatch, StringBuilder};
use csv_core::ReadRecordResult;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use weir_flow::{Column, FlowBatch};

use crate::arrow_stream::{StreamError, batch};

/// Rows in a batch.
const BATCH_ROWS: usize = 16_384;
/// Octets of a header of CSV, many times those of all names of columns.
const HEADER_OCTETS_MAX: usize = 64 << 10;
/// Octets of a row of CSV that are expected; a longer one gets more.
const ROW_OCTETS: usize = 4 << 10;

/// How the text of a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// An object of JSON on each line (<https://jsonlines.org>); its values are numbers, texts and null, each name once.
    JsonLines,
    /// A header and rows of as many fields (RFC 4180); an empty field is null.
    Csv,
}

/// Reads a whole body. Flows without a time of reception get `received_ms`, milliseconds since the epoch. Flows that take more
/// than `octets_max` in memory are refused: a line of few octets may have many columns that are null.
pub fn read(body: &[u8], form: TextForm, received_ms: i64, octets_max: usize) -> Result<Vec<FlowBatch>, StreamError> {
    let mut rows = TextRows {
        columns: Vec::new(),
        places: HashMap::new(),
        rows: 0,
        flows: Vec::new(),
        octets: 0,
        received_ms,
        octets_max,
    };
    match form {
        TextForm::JsonLines => json_lines(body, &mut rows)?,
        TextForm::Csv => csv_rows(body, &mut rows)?,
    }
    rows.flush()?;
    Ok(rows.flows)
}

fn json_lines(body: &[u8], rows: &mut TextRows) -> Result<(), StreamError> {
    for (line, number) in body.split(|octet| *octet == b'\n').zip(1_u64..) {
        // not at its begin, where columns are counted from
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            json_line(line, number, rows)?;
            rows.end_row()?;
        }
    }
    Ok(())
}

/// Reads an object, whose members go to the rows one by one. Nothing else of it is kept, so that a line takes no more memory than
/// its columns do.
fn json_line(line: &[u8], number: u64, rows: &mut TextRows) -> Result<(), StreamError> {
    let mut members = Members { number, rows, refused: None };
    let mut reader = serde_json::Deserializer::from_slice(line);
    let read = reader.deserialize_map(Object(&mut members)).and_then(|()| reader.end());
    let Err(error) = read else { return Ok(()) };
    let broken = || StreamError::Line { number, what: format!("no object of JSON: {}", without_line(&error)) };
    Err(members.refused.unwrap_or_else(broken))
}

/// An error of the reader, which has seen one line and counts it as the first, by its column alone.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(place.as_str()).map(|what| format!("{what} at column {}", error.column()));
    what.unwrap_or(text)
}

/// Where the members of a line go.
struct Members<'a> {
    number: u64,
    rows: &'a mut TextRows,
    /// Why one is refused. The errors of the reader are texts.
    refused: Option<StreamError>,
}

impl Members<'_> {
    fn refuse<E: de::Error>(&mut self, error: StreamError) -> E {
        self.refused = Some(error);
        E::custom("refused")
    }

    /// Refuses the value of a column.
    fn refuse_value<E: de::Error>(&mut self, column: usize, what: &str) -> E {
        let what = format!("'{}' {what}", self.rows.columns[column].column.name());
        self.refuse(StreamError::Line { number: self.number, what })
    }

    /// Sets a value, which `None` makes null.
    fn set<E: de::Error>(&mut self, column: usize, text: Option<&str>) -> Result<(), E> {
        if self.rows.is_set(column) {
            return Err(self.refuse_value(column, "is there twice"));
        }
        match text {
            Some(text) => self.rows.set(column, text),
            None => self.rows.columns[column].values.append_null(),
        }
        Ok(())
    }
}

struct Object<'a, 'b>(&'a mut Members<'b>);

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(column) = access.next_key_seed(Name(&mut *self.0))? {
            access.next_value_seed(Scalar(&mut *self.0, column))?;
        }
        Ok(())
    }
}

/// The name of a member, which becomes the place of its column.
struct Name<'a, 'b>(&'a mut Members<'b>);

impl<'de> DeserializeSeed<'de> for Name<'_, '_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<usize, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_, '_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a column")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<usize, E> {
        self.0.rows.column(name).map_err(|error| self.0.refuse(error))
    }
}

/// The value of a member. An array or an object is refused before any of it is read.
struct Scalar<'a, 'b>(&'a mut Members<'b>, usize);

impl Scalar<'_, '_> {
    fn refuse<E: de::Error>(self) -> E {
        self.0.refuse_value(self.1, "is neither a number nor a text")
    }
}

impl<'de> DeserializeSeed<'de> for Scalar<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.0.set(self.1, None)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.set(self.1, Some(text))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.0.set(self.1, Some(&number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.0.set(self.1, Some(&number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        // as JSON writes it, with an exponent where that is shorter
        let text = serde_json::Number::from_f64(number).map(|number| number.to_string());
        self.0.set(self.1, text.as_deref())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Err(self.refuse())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(self.refuse())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(self.refuse())
    }
}

fn csv_rows(body: &[u8], rows: &mut TextRows) -> Result<(), StreamError> {
    let names = csv_header(body)?;
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
    let mut reader = CsvRows::new(body, columns.len());
    // the header
    reader.read_row()?;
    while reader.read_row()? {
        for (field, column) in columns.iter().enumerate() {
            let name = rows.columns[*column].column.name();
            let text = reader.field(field).ok_or_else(|| reader.wrong(format!("'{name}' is no text in UTF-8")))?;
            if !text.is_empty() {
                rows.set(*column, text);
            }
        }
        rows.end_row()?;
    }
    Ok(())
}

/// Rows of as many fields as the header has. The reader of `csv` keeps all fields of a row before it counts them, in up to 16
/// octets for each; this one ends at the first field that is too much.
struct CsvRows<'a> {
    parser: csv_core::Reader,
    /// What is not read yet.
    body: &'a [u8],
    /// Whether the body has ended without the end of a line, which is added then: only within quotes it ends no row.
    has_added_end: bool,
    /// Fields of the row, one behind the other.
    fields: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
    /// The line on which the row begins, from 1.
    line: u64,
}

impl<'a> CsvRows<'a> {
    fn new(body: &'a [u8], fields: usize) -> Self {
        let (buffer, ends) = (vec![0; ROW_OCTETS], vec![0; fields]);
        Self { parser: csv_core::Reader::new(), body, has_added_end: false, fields: buffer, ends, line: 1 }
    }

    /// Reads a row; `false` behind the last one.
    fn read_row(&mut self) -> Result<bool, StreamError> {
        self.pass_empty_lines();
        self.line = self.parser.line();
        if self.body.is_empty() {
            return Ok(false);
        }
        let (mut octets, mut count) = (0, 0);
        loop {
            let (fields, ends) = (&mut self.fields[octets..], &mut self.ends[count..]);
            let (found, read, written, ended) = self.parser.read_record(self.body, fields, ends);
            self.body = &self.body[read..];
            octets += written;
            count += ended;
            match found {
                ReadRecordResult::InputEmpty if self.has_added_end => {
                    return Err(self.wrong("the body ends within quotes".to_owned()));
                }
                ReadRecordResult::InputEmpty => (self.body, self.has_added_end) = (&b"\n"[..], true),
                // no row becomes longer than what is left of the body
                ReadRecordResult::OutputFull => {
                    let more = self.fields.len().min(self.body.len());
                    self.fields.resize(self.fields.len() + more, 0);
                }
                ReadRecordResult::OutputEndsFull => {
                    return Err(self.wrong(format!("the row has more fields than the header, which has {count}")));
                }
                ReadRecordResult::Record if count < self.ends.len() => {
                    let expected = self.ends.len();
                    return Err(self.wrong(format!("the row has fewer fields than the header: {count} of {expected}")));
                }
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    /// Passes lines without fields, which are no rows: the next row begins on the line behind them.
    fn pass_empty_lines(&mut self) {
        let octets = self.body.iter().take_while(|octet| matches!(octet, b'\r' | b'\n')).count();
        let (empty, rest) = self.body.split_at(octets);
        // an empty piece is the end for the parser
        if !empty.is_empty() {
            self.parser.read_record(empty, &mut self.fields, &mut self.ends);
            self.body = rest;
        }
    }

    /// A field of the row without white space around it; `None` when it is no text.
    fn field(&self, number: usize) -> Option<&str> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        std::str::from_utf8(&self.fields[start..self.ends[number]]).ok().map(str::trim)
    }

    fn wrong(&self, what: String) -> StreamError {
        StreamError::Line { number: self.line, what }
    }
}

fn csv_reader(body: &[u8]) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(body)
}

/// The fields of the header. The reader keeps all fields of a row, in up to 16 octets for each. So it gets only as much of
/// the body as a header can be.
fn csv_header(body: &[u8]) -> Result<csv::StringRecord, StreamError> {
    let wrong = |what| StreamError::Line { number: 1, what };
    let start = &body[..body.len().min(HEADER_OCTETS_MAX)];
    let mut reader = csv_reader(start);
    reader.byte_headers().map_err(|error| of_csv(&error))?;
    if start.len() < body.len() && reader.position().byte() >= start.len() as u64 {
        return Err(wrong(format!("the header has more than {HEADER_OCTETS_MAX} octets")));
    }
    let names = reader.headers().map_err(|error| of_csv(&error))?;
    if names.len() > Column::COUNT {
        return Err(wrong(format!("the header has {} fields, and flows have {} columns", names.len(), Column::COUNT)));
    }
    Ok(names.clone())
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
    /// Where in `columns` those are that were named.
    places: HashMap<&'static str, usize>,
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
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        let column = Column::by_name(name).ok_or_else(|| StreamError::Unknown(vec![name.to_owned()]))?;
        let mut values = StringBuilder::new();
        (0..self.rows).for_each(|_| values.append_null());
        let place = self.columns.len();
        self.columns.push(TextColumn { column, values });
        self.places.insert(column.name(), place);
        Ok(place)
    }

    /// Whether the row that is read has a value of a column, which may be null.
    fn is_set(&self, column: usize) -> bool {
        self.columns[column].values.len() > self.rows
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
