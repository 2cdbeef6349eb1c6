//! NetFlow versions whose records all have one form: v1, v5 and v7. A header counts the records that follow it.
//!
//! A version is one [`FixedFormat`]: what its header has after the fields that all headers begin with, and one table
//! of its record's fields. Decoding, writing, and the template that a collector reads the records by derive from it.
//! A further version is a file with its format, and an entry in [`FORMATS`].
//!
//! The formats have no RFC; they are Cisco's, published as "NetFlow Export Datagram Format".

mod builder;
mod field;
mod header;

use std::slice::ChunksExact;

use crate::cursor::Cursor;
use crate::element::{FieldSpecifier, PADDING_OCTETS};
use crate::error::{WireError, octets_of};
use crate::{netflow1, netflow5, netflow7};

pub use builder::PacketBuilder;
pub use field::FixedField;
pub(crate) use field::fields;
pub use header::{Header, HeaderField};

/// The formats known, by version.
pub static FORMATS: [&FixedFormat; 3] = [&netflow1::FORMAT, &netflow5::FORMAT, &netflow7::FORMAT];

/// The format of a version; `None` for versions whose records have templates, and for versions that do not exist.
pub fn format_of(version: u16) -> Option<&'static FixedFormat> {
    FORMATS.into_iter().find(|format| format.version == version)
}

/// One version: its header and its record.
#[derive(Debug, PartialEq, Eq)]
pub struct FixedFormat {
    /// The version field of every packet.
    pub version: u16,
    /// Fields of the header after those that all headers begin with (see [`Header`]).
    pub header: &'static [HeaderField],
    /// Most records that an exporter puts into a packet. A decoder takes as many as there are.
    pub packet_records_max: u16,
    /// Length of each record in octets.
    pub record_len: usize,
    /// Fields of each record in their order. Octets between them are reserved.
    pub fields: &'static [FixedField],
}

impl FixedFormat {
    /// The format itself, once it is certain that its fields follow one another within the record. Of a wrong table
    /// nothing is compiled.
    pub(crate) const fn checked(self) -> Self {
        let (mut number, mut end) = (0, 0);
        while number < self.fields.len() {
            let field = &self.fields[number];
            assert!(field.offset >= end, "fields follow one another");
            end = field.offset + field.length;
            number += 1;
        }
        assert!(end <= self.record_len, "fields are within the record");
        self
    }

    /// Length of the packet header in octets.
    pub const fn header_len(&self) -> usize {
        let (mut number, mut length) = (0, header::COMMON_LEN);
        while number < self.header.len() {
            length += self.header[number].octets();
            number += 1;
        }
        length
    }

    /// Whether the header has this field.
    pub fn has(&self, field: HeaderField) -> bool {
        self.header.contains(&field)
    }

    /// Finds the records of a packet. Takes the same time for any number of them.
    ///
    /// # Errors
    ///
    /// [`WireError::WrongVersion`] and [`WireError::TruncatedHeader`].
    pub fn decode<'a>(&'static self, datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let mut cursor = Cursor::new(datagram);
        match cursor.u16() {
            Some(found) if found != self.version => return Err(WireError::WrongVersion { found }),
            _ => {}
        }
        let header = Header::read(&mut cursor, self.header).ok_or(WireError::TruncatedHeader {
            need: octets_of(self.header_len()),
            have: octets_of(datagram.len()),
        })?;
        let (records, problem) = whole_records(cursor.rest, header.count, self.record_len);
        Ok(Packet { format: self, header, records, problem })
    }

    /// The fields of a template that describes the records, as if a later version had sent them (RFC 3954 section 8
    /// gave the fields their numbers). Octets that have no Information Element are padding there.
    pub fn template_fields(&self) -> Vec<FieldSpecifier> {
        let mut fields = Vec::with_capacity(self.fields.len());
        let mut end = 0;
        let padding = |octets: usize| (octets > 0).then(|| FieldSpecifier::iana(PADDING_OCTETS, octets as u16));
        for field in self.fields {
            if let Some(element) = field.element {
                fields.extend(padding(field.offset - end));
                fields.push(FieldSpecifier::iana(element, field.length as u16));
                end = field.offset + field.length;
            }
        }
        fields.extend(padding(self.record_len - end));
        fields
    }

    /// A record with these values, and zeros in all other fields.
    pub fn record(&self, values: &[(FixedField, u64)]) -> Vec<u8> {
        let mut record = vec![0; self.record_len];
        for (field, value) in values {
            field.put(&mut record, *value);
        }
        record
    }
}

/// A packet: header and records, borrowed from the datagram.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The format of the header and of the records.
    pub format: &'static FixedFormat,
    /// The header.
    pub header: Header,
    /// The whole records present, never more than the header counts. See [`Packet::iter`], or [`FixedFormat::fields`]
    /// for going through them column by column.
    pub records: &'a [u8],
    /// [`WireError::CountMismatch`] when the header counts more records than there are,
    /// [`WireError::TrailingOctets`] when octets follow the last record counted.
    pub problem: Option<WireError>,
}

impl<'a> Packet<'a> {
    /// Number of records present.
    pub fn len(&self) -> usize {
        self.records.len() / self.format.record_len
    }

    /// Whether no record is present.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records in order.
    pub fn iter(&self) -> ChunksExact<'a, u8> {
        self.records.chunks_exact(self.format.record_len)
    }
}

/// Finds the whole records after a header that counts `counted` of them. Takes the same time for any number.
fn whole_records(octets: &[u8], counted: u16, record_len: usize) -> (&[u8], Option<WireError>) {
    let present = (octets.len() / record_len).min(usize::from(counted));
    let (records, after) = octets.split_at_checked(present * record_len).unwrap_or_default();
    let problem = if present < usize::from(counted) {
        Some(WireError::CountMismatch { stated: counted, found: octets_of(present) })
    } else if after.is_empty() {
        None
    } else {
        Some(WireError::TrailingOctets { octets: octets_of(after.len()) })
    };
    (records, problem)
}
