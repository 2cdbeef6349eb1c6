//! Messages of clients (chapter 55.7 of Postgres' manual).
//!
//! A message is read whole, up to a limit, and then parsed from its octets; what it says of counts and lengths is checked against
//! the octets that are there.

use bytes::{Buf, Bytes};

use crate::errors::PgError;

/// A message of a client that has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    Query(String),
    Parse {
        name: String,
        statement: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target),
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    /// A call of a function, or data of COPY, with the letter of its type.
    Other(u8),
}

/// A statement or a portal, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Statement(String),
    Portal(String),
}

/// Values for the parameters of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<Format>,
    pub(crate) values: Vec<Option<Bytes>>,
    pub(crate) results: Vec<Format>,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Text,
    Binary,
}

impl Format {
    /// The format of the value at a position: none means text for all, one is for all.
    pub(crate) fn at(formats: &[Self], position: usize) -> Self {
        match formats {
            [] => Self::Text,
            [one] => *one,
            more => more.get(position).copied().unwrap_or_default(),
        }
    }
}

/// Reads the fields of a message.
pub(crate) struct Fields {
    octets: Bytes,
}

fn malformed() -> PgError {
    PgError::protocol("a message is shorter than it says, or has a text without an end")
}

impl Fields {
    pub(crate) fn new(octets: Bytes) -> Self {
        Self { octets }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, PgError> {
        self.octets.try_get_u8().map_err(|_| malformed())
    }

    pub(crate) fn u16(&mut self) -> Result<u16, PgError> {
        self.octets.try_get_u16().map_err(|_| malformed())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, PgError> {
        self.octets.try_get_u32().map_err(|_| malformed())
    }

    pub(crate) fn octets(&mut self, count: usize) -> Result<Bytes, PgError> {
        if self.octets.len() < count {
            return Err(malformed());
        }
        Ok(self.octets.split_to(count))
    }

    /// A value, whose length says with -1 that it is null.
    pub(crate) fn value(&mut self) -> Result<Option<Bytes>, PgError> {
        match self.u32()? {
            u32::MAX => Ok(None),
            length => self.octets(length as usize).map(Some),
        }
    }

    /// A text that ends with a zero.
    pub(crate) fn text(&mut self) -> Result<String, PgError> {
        let end = self.octets.iter().position(|octet| *octet == 0).ok_or_else(malformed)?;
        let text = self.octets.split_to(end);
        self.octets.advance(1);
        String::from_utf8(text.to_vec()).map_err(|_| PgError::protocol("a text is not UTF-8"))
    }

    fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Items behind a count of 16 bits. Nothing is allocated before an item is there.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, PgError>) -> Result<Vec<T>, PgError> {
        let count = self.u16()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn formats(&mut self) -> Result<Vec<Format>, PgError> {
        self.list(|fields| match fields.u16()? {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(PgError::protocol(format!("{other} is no format of a value"))),
        })
    }

    fn target(&mut self) -> Result<Target, PgError> {
        match self.u8()? {
            b'S' => Ok(Target::Statement(self.text()?)),
            b'P' => Ok(Target::Portal(self.text()?)),
            _ => Err(PgError::protocol("neither a statement nor a portal is described or closed")),
        }
    }
}

impl ClientMessage {
    /// Parses a message of this type.
    pub(crate) fn parse(kind: u8, octets: Bytes) -> Result<Self, PgError> {
        let mut fields = Fields::new(octets);
        let message = match kind {
            b'Q' => Self::Query(fields.text()?),
            b'P' => {
                let (name, statement) = (fields.text()?, fields.text()?);
                Self::Parse { name, statement, types: fields.list(Fields::u32)? }
            }
            b'B' => Self::Bind(Bind {
                portal: fields.text()?,
                statement: fields.text()?,
                formats: fields.formats()?,
                values: fields.list(Fields::value)?,
                results: fields.formats()?,
            }),
            b'D' => Self::Describe(fields.target()?),
            b'E' => {
                let portal = fields.text()?;
                // less than one row means all
                let rows_max = usize::try_from(fields.u32()?.cast_signed()).unwrap_or(0);
                Self::Execute { portal, rows_max }
            }
            b'C' => Self::Close(fields.target()?),
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            b'F' | b'd' | b'c' | b'f' => return Ok(Self::Other(kind)),
            other => {
                let letter = char::from(other).escape_default();
                return Err(PgError::protocol(format!("there is no message of type '{letter}'")));
            }
        };
        if fields.is_empty() { Ok(message) } else { Err(PgError::protocol("a message is longer than its fields")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_has_values_and_formats() {
        let octets = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\0";
        let message = ClientMessage::parse(b'B', Bytes::from_static(octets)).expect("a message");
        let expected = Bind {
            portal: "p".to_owned(),
            statement: "s".to_owned(),
            formats: vec![Format::Binary],
            values: vec![Some(Bytes::from_static(b"a")), None],
            results: Vec::new(),
        };
        assert_eq!(message, ClientMessage::Bind(expected));
    }

    #[test]
    fn what_is_cut_or_too_long_is_an_error_and_no_panic() {
        let whole: [(u8, &[u8]); 8] = [
            (b'Q', b"SELECT 1\0"),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x14"),
            (b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\0"),
            (b'D', b"Sname\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'C', b"Pname\0"),
            (b'S', b""),
            (b'H', b""),
        ];
        for (kind, octets) in whole {
            assert!(ClientMessage::parse(kind, Bytes::copy_from_slice(octets)).is_ok(), "{}", char::from(kind));
            for end in 0..octets.len() {
                let cut = ClientMessage::parse(kind, Bytes::copy_from_slice(&octets[..end]));
                assert!(cut.is_err(), "{} cut at {end}", char::from(kind));
            }
            let longer = [octets, b"x"].concat();
            assert!(ClientMessage::parse(kind, Bytes::from(longer)).is_err(), "{} and more", char::from(kind));
        }
    }

    #[test]
    fn counts_and_lengths_are_not_believed() {
        for octets in [
            b"p\0s\0\xff\xff".as_slice(),
            b"p\0s\0\0\0\xff\xff",
            b"p\0s\0\0\0\0\x01\x7f\xff\xff\xff",
            b"p\0s\0\0\0\0\x01\xff\xff\xff\xfea\0\0",
        ] {
            assert!(ClientMessage::parse(b'B', Bytes::copy_from_slice(octets)).is_err(), "{octets:?}");
        }
    }
}
