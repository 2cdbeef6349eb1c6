//! Messages to clients (chapter 55.7 of Postgres' manual).

use bytes::{BufMut, BytesMut};

use crate::errors::PgError;
use crate::kinds::PgKind;
use crate::messages::Format;

/// A column of an answer, as it is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PgColumn {
    pub(crate) name: String,
    pub(crate) kind: PgKind,
}

/// Messages that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Replies(pub(crate) BytesMut);

impl Replies {
    /// A message, whose length is known when its fields are there.
    fn message(&mut self, kind: u8, fields: impl FnOnce(&mut BytesMut)) {
        self.0.put_u8(kind);
        let start = self.0.len();
        self.0.put_u32(0);
        fields(&mut self.0);
        let length = (self.0.len() - start) as u32;
        self.0[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// One of the messages that ask for or accept a login.
    pub(crate) fn authentication(&mut self, code: u32, data: &[u8]) {
        self.message(b'R', |out| {
            out.put_u32(code);
            out.put_slice(data);
        });
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            put_text(out, name);
            put_text(out, value);
        });
    }

    pub(crate) fn backend_key(&mut self, process: u32, secret: u32) {
        self.message(b'K', |out| {
            out.put_u32(process);
            out.put_u32(secret);
        });
    }

    /// The newest version of the protocol, and options that are not known.
    pub(crate) fn negotiate_version(&mut self, unknown: &[String]) {
        self.message(b'v', |out| {
            out.put_u32(3 << 16);
            out.put_u32(unknown.len() as u32);
            for name in unknown {
                put_text(out, name);
            }
        });
    }

    pub(crate) fn ready(&mut self, status: u8) {
        self.message(b'Z', |out| out.put_u8(status));
    }

    pub(crate) fn row_description(&mut self, columns: &[PgColumn], formats: &[Format]) {
        self.message(b'T', |out| {
            out.put_u16(columns.len() as u16);
            for (position, column) in columns.iter().enumerate() {
                put_text(out, &column.name);
                // no table, and no column of one
                out.put_u32(0);
                out.put_u16(0);
                out.put_u32(column.kind.oid());
                out.put_i16(column.kind.octets());
                out.put_i32(-1);
                out.put_u16(u16::from(Format::at(formats, position) == Format::Binary));
            }
        });
    }

    pub(crate) fn parameter_description(&mut self, oids: &[u32]) {
        self.message(b't', |out| {
            out.put_u16(oids.len() as u16);
            for oid in oids {
                out.put_u32(*oid);
            }
        });
    }

    /// A row of texts.
    pub(crate) fn text_row(&mut self, values: &[&str]) {
        self.message(b'D', |out| {
            out.put_u16(values.len() as u16);
            for value in values {
                out.put_u32(value.len() as u32);
                out.put_slice(value.as_bytes());
            }
        });
    }

    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |out| put_text(out, tag));
    }

    /// A message that is its type.
    pub(crate) fn plain(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    pub(crate) fn error(&mut self, error: &PgError) {
        let severity = if error.is_fatal { "FATAL" } else { "ERROR" };
        self.notes(b'E', severity, error);
    }

    pub(crate) fn notice(&mut self, notice: &PgError) {
        self.notes(b'N', "WARNING", notice);
    }

    fn notes(&mut self, kind: u8, severity: &str, error: &PgError) {
        self.message(kind, |out| {
            let mut field = |letter: u8, text: &str| {
                out.put_u8(letter);
                put_text(out, text);
            };
            field(b'S', severity);
            field(b'V', severity);
            field(b'C', error.code);
            field(b'M', &error.message);
            if let Some(hint) = &error.hint {
                field(b'H', hint);
            }
            if let Some(position) = error.position {
                field(b'P', &position.to_string());
            }
            out.put_u8(0);
        });
    }
}

/// Letters of messages that have no fields.
pub(crate) const PARSE_COMPLETE: u8 = b'1';
pub(crate) const BIND_COMPLETE: u8 = b'2';
pub(crate) const CLOSE_COMPLETE: u8 = b'3';
pub(crate) const NO_DATA: u8 = b'n';
pub(crate) const SUSPENDED: u8 = b's';
pub(crate) const EMPTY_QUERY: u8 = b'I';

fn put_text(out: &mut BytesMut, text: &str) {
    // a zero would end it, and what follows would be read as something else
    out.extend(text.bytes().filter(|octet| *octet != 0));
    out.put_u8(0);
}
