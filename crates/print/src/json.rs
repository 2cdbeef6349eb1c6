//! JSON (RFC 8259): one array of objects, one object a line, or rows as arrays of values.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use crate::cell::{Cells, Kind};
use crate::digits::{Clock, push_hex, push_i64};
use crate::format::Decimals;
use crate::harmless::is_obeyed;
use crate::printer::{Flush, RowFormat};

pub(crate) struct Json {
    is_array: bool,
    is_first: bool,
    /// `"name":` of each column.
    names: Vec<Vec<u8>>,
    decimals: Decimals,
    clock: Clock,
    scratch: Vec<u8>,
}

impl Json {
    /// One array.
    pub(crate) fn array(decimals: Decimals) -> Self {
        Self { is_array: true, is_first: true, names: Vec::new(), decimals, clock: Clock::new(), scratch: Vec::new() }
    }

    /// One object a line.
    pub(crate) fn lines(decimals: Decimals) -> Self {
        Self { is_array: false, ..Self::array(decimals) }
    }

    fn push_value(&mut self, cells: &Cells<'_>, row: usize, text: &mut Vec<u8>) {
        if cells.is_null(row) || cells.is_beyond_json(row) {
            text.extend_from_slice(b"null");
            return;
        }
        if let Some((items, range)) = cells.items(row) {
            text.push(b'[');
            let first = range.start;
            for item in range {
                if item > first {
                    text.push(b',');
                }
                self.push_value(items, item, text);
            }
            text.push(b']');
            return;
        }
        let is_text = self.decimals == Decimals::Texts && cells.is_beyond_integers(row);
        match cells.kind() {
            Kind::Bare if !is_text => cells.push(row, &mut self.clock, text),
            Kind::Bare | Kind::Plain => {
                text.push(b'"');
                cells.push(row, &mut self.clock, text);
                text.push(b'"');
            }
            Kind::Text => {
                self.scratch.clear();
                cells.push(row, &mut self.clock, &mut self.scratch);
                push_string(text, &self.scratch);
            }
        }
    }
}

/// The largest whole number that every reader of JSON has exactly: beyond it a number may become another one.
const EXACT_MAX: u128 = 1 << 53;

/// Rows as arrays of values, for programs that know the columns: times are milliseconds since the epoch, and whole numbers
/// from 2^53 on are strings, and so are decimals of as many digits.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
/// use weir_print::JsonRows;
/// let bytes: ArrayRef = Arc::new(UInt64Array::from(vec![Some(7), None, Some(u64::MAX)]));
/// let batch = RecordBatch::try_from_iter([("bytes", bytes)]).expect("a batch");
/// let mut rows = JsonRows::default();
/// rows.push(&batch);
/// assert_eq!(rows.finish(), r#"[[7],[null],["18446744073709551615"]]"#);
/// ```
pub struct JsonRows {
    json: Json,
    text: Vec<u8>,
    rows: u64,
}

impl std::fmt::Debug for JsonRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JsonRows({} rows, {} octets)", self.rows, self.text.len())
    }
}

impl Default for JsonRows {
    fn default() -> Self {
        Self { json: Json::array(Decimals::Numbers), text: vec![b'['], rows: 0 }
    }
}

impl JsonRows {
    /// Appends the rows of a batch.
    pub fn push(&mut self, batch: &RecordBatch) {
        let fields = batch.schema_ref().fields();
        let columns: Vec<_> =
            fields.iter().zip(batch.columns()).map(|(field, values)| Cells::new(field, values)).collect();
        for row in 0..batch.num_rows() {
            self.text.extend_from_slice(if self.rows > 0 { b",[" } else { b"[" });
            self.rows += 1;
            for (position, cells) in columns.iter().enumerate() {
                if position > 0 {
                    self.text.push(b',');
                }
                self.push_value(cells, row);
            }
            self.text.push(b']');
        }
    }

    fn push_value(&mut self, cells: &Cells<'_>, row: usize) {
        let text = &mut self.text;
        if !cells.is_null(row) {
            if let Some(ms) = cells.milliseconds(row) {
                return push_i64(text, ms);
            }
            let whole = cells.unsigned(row).or_else(|| cells.signed(row).map(i64::unsigned_abs));
            let magnitude = whole.map(u128::from).or_else(|| cells.digits(row).map(i128::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude >= EXACT_MAX) {
                text.push(b'"');
                cells.push(row, &mut self.json.clock, text);
                return text.push(b'"');
            }
        }
        self.json.push_value(cells, row, text);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Octets so far.
    pub fn octets(&self) -> usize {
        self.text.len()
    }

    /// One array of all rows.
    pub fn finish(mut self) -> String {
        self.text.push(b']');
        // every value is written as UTF-8
        String::from_utf8(self.text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// Appends a string with its quotes; `octets` are UTF-8. Characters that a terminal obeys are escaped.
fn push_string(text: &mut Vec<u8>, octets: &[u8]) {
    text.push(b'"');
    let mut left = octets;
    while let Some((&octet, rest)) = left.split_first() {
        if matches!(octet, 0xc2 | 0xe2)
            && let Some(letter) = first_letter(left).filter(|letter| is_obeyed(*letter))
        {
            text.extend_from_slice(b"\\u");
            push_hex(text, &(u32::from(letter) as u16).to_be_bytes());
            left = &left[letter.len_utf8()..];
            continue;
        }
        left = rest;
        match octet {
            b'"' => text.extend_from_slice(b"\\\""),
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => {
                text.extend_from_slice(b"\\u00");
                push_hex(text, &[octet]);
            }
            _ => text.push(octet),
        }
    }
    text.push(b'"');
}

/// The first letter of UTF-8.
fn first_letter(octets: &[u8]) -> Option<char> {
    octets.get(..octets.len().min(4))?.utf8_chunks().next()?.valid().chars().next()
}

impl RowFormat for Json {
    fn begin(&mut self, schema: &Schema, text: &mut Vec<u8>) {
        let name = |name: &String| {
            let mut quoted = Vec::with_capacity(name.len() + 3);
            push_string(&mut quoted, name.as_bytes());
            quoted.push(b':');
            quoted
        };
        self.names = schema.fields().iter().map(|field| name(field.name())).collect();
        if self.is_array {
            text.push(b'[');
        }
    }

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        let fields = batch.schema_ref().fields();
        let columns: Vec<_> =
            fields.iter().zip(batch.columns()).map(|(field, values)| Cells::new(field, values)).collect();
        for row in 0..batch.num_rows() {
            if self.is_array {
                text.extend_from_slice(if self.is_first { b"\n" } else { b",\n" });
            }
            self.is_first = false;
            text.push(b'{');
            for (position, cells) in columns.iter().enumerate() {
                if position > 0 {
                    text.push(b',');
                }
                text.extend_from_slice(&self.names[position]);
                self.push_value(cells, row, text);
            }
            text.push(b'}');
            if !self.is_array {
                text.push(b'\n');
            }
            flush.when_full(text)?;
        }
        Ok(())
    }

    fn end(&mut self, text: &mut Vec<u8>) {
        if self.is_array {
            text.extend_from_slice(if self.is_first { b"]\n" } else { b"\n]\n" });
        }
    }
}
