//! Text in records, on its way to columns of text.

use weir_flow::builder::TextColumn;
use weir_flow::{Column, text};

use crate::records::Records;

/// Most fields that a column of text is chosen from in each record: templates of a thousand such fields come from anybody.
/// What is in others is kept as it is.
pub(crate) const TEXT_FIELDS_MAX: usize = 4;

/// Fields of text that fill one column, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFields {
    pub(crate) column: Column,
    pub(crate) fields: Box<[usize]>,
}

impl TextFields {
    /// Octets of the first field that has a text, which the column shows.
    pub(crate) fn shown<'r>(&self, records: Records<'r>, record: usize) -> &'r [u8] {
        let mut texts = self.fields.iter().map(|field| records.octets_of(*field, record));
        texts.find(|octets| !text::trimmed(octets).is_empty()).unwrap_or_default()
    }

    /// Whether the column shows all that the octets of one of the fields say.
    pub(crate) fn shows(&self, octets: &[u8], records: Records<'_>, record: usize) -> bool {
        let said = as_said(self.column, octets);
        said.is_empty()
            || as_said(self.column, self.shown(records, record)) == said
                && (digest_of(self.column, octets).is_some() || text::is_clean(said))
    }
}

/// Appends a text. Of JA3 some exporters send the 16 octets of the digest, others its digits; of names of DNS some send the last
/// dot.
pub(crate) fn push(target: &mut TextColumn, column: Column, octets: &[u8]) {
    let Some(digest) = digest_of(column, octets) else { return target.push(Some(as_said(column, octets))) };
    let mut digits = [0; 32];
    for (pair, octet) in digits.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[octet >> 4, octet & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    target.push(Some(&digits));
}

fn digest_of(column: Column, octets: &[u8]) -> Option<&[u8; 16]> {
    octets.try_into().ok().filter(|_| column == Column::Ja3)
}

/// What the octets say in a column, however the exporter has written it.
fn as_said(column: Column, octets: &[u8]) -> &[u8] {
    let said = text::trimmed(octets);
    let name = said.strip_suffix(b".").filter(|name| column == Column::DnsName && !name.is_empty());
    // behind a backslash that none is in front of, a dot is part of a label (RFC 1035 section 5.1)
    let is_end = |name: &&[u8]| name.iter().rev().take_while(|octet| **octet == b'\\').count() % 2 == 0;
    name.filter(is_end).unwrap_or(said)
}
