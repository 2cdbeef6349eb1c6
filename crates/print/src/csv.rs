//! Comma-separated values (RFC 4180), lines ending in a line feed.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use crate::cell::{Cells, Kind};
use crate::digits::Clock;
use crate::harmless::make_harmless;
use crate::printer::{Flush, RowFormat};
use crate::{OutputOptions, Texts};

pub(crate) struct Csv {
    header: bool,
    texts: Texts,
    clock: Clock,
}

impl Csv {
    pub(crate) fn new(options: &OutputOptions) -> Self {
        Self { header: options.header, texts: options.texts, clock: Clock::new() }
    }
}

/// Quotes what was appended from `start` on, when it needs quotes (RFC 4180 section 2).
fn quote(text: &mut Vec<u8>, start: usize) {
    if !text[start..].iter().any(|octet| matches!(octet, b',' | b'"' | b'\n' | b'\r')) {
        return;
    }
    let bare = text.split_off(start);
    text.push(b'"');
    for octet in bare {
        if octet == b'"' {
            text.push(b'"');
        }
        text.push(octet);
    }
    text.push(b'"');
}

impl RowFormat for Csv {
    fn begin(&mut self, schema: &Schema, text: &mut Vec<u8>) {
        if !self.header || schema.fields().is_empty() {
            return;
        }
        for (position, field) in schema.fields().iter().enumerate() {
            if position > 0 {
                text.push(b',');
            }
            let start = text.len();
            text.extend_from_slice(field.name().as_bytes());
            quote(text, start);
        }
        text.push(b'\n');
    }

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        let fields = batch.schema_ref().fields();
        let columns: Vec<_> =
            fields.iter().zip(batch.columns()).map(|(field, values)| Cells::new(field, values)).collect();
        for row in 0..batch.num_rows() {
            for (position, cells) in columns.iter().enumerate() {
                if position > 0 {
                    text.push(b',');
                }
                if cells.is_null(row) {
                    continue;
                }
                let start = text.len();
                cells.push(row, &mut self.clock, text);
                if cells.kind() == Kind::Text {
                    if self.texts == Texts::Harmless {
                        make_harmless(text, start);
                    }
                    quote(text, start);
                }
            }
            text.push(b'\n');
            flush.when_full(text)?;
        }
        Ok(())
    }

    fn end(&mut self, _text: &mut Vec<u8>) {}
}
