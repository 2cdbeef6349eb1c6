//! What of the flows a question may see.
//!
//! A view is part of the scan, below everything that SQL can say: rows that it leaves out are not read into the engine, and
//! addresses that it replaces are replaced before an expression is computed. So no statement leads around it. What speaks
//! against replacing so early is that each batch costs it; in return sorting, grouping, joining and comparing need no case of
//! their own.
//!
//! Filters are written in what is seen. Crypto-PAn keeps prefixes, so a set of images is a set of addresses of the same
//! size: a test of addresses is translated back, once, when the scan is planned, and the index of segments serves it as any
//! other. Columns in which addresses or names may hide are null, and a test of null is false.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use weir_filter::{AddressSet, Predicate, Test};
use weir_flow::scaling::Corrections;
use weir_flow::{Column, ColumnType};
use weir_rows::addresses::rewritten;
use weir_rows::crypto_pan::{CryptoPan, Key, KeyError};

/// Images of IPv4 addresses that a partition of a scan keeps for the next time.
const CACHE_ENTRIES: usize = 1 << 12;
/// Columns of text that name hosts or people; a label may be that of one address.
const NAMES: [Column; 9] = [
    Column::ServerName,
    Column::DnsName,
    Column::HttpHost,
    Column::UserAgent,
    Column::SrcLabel,
    Column::DstLabel,
    Column::SrcName,
    Column::DstName,
    Column::ExporterName,
];

/// What of the flows a question may see: all of them as they are, unless something is said.
#[derive(Debug, Clone)]
pub struct FlowView {
    /// Only the flows that this filter takes, whose addresses are those that are kept.
    pub rows: Predicate,
    /// Addresses are replaced by images.
    pub pseudonyms: Option<Arc<Pseudonyms>>,
}

impl Default for FlowView {
    fn default() -> Self {
        Self { rows: Predicate::True, pseudonyms: None }
    }
}

impl FlowView {
    /// Whether everything is seen as it is.
    pub fn is_whole(&self) -> bool {
        self.rows == Predicate::True && self.pseudonyms.is_none()
    }

    /// The flows of the view that a filter takes, which is written in what is seen.
    pub fn narrowed(&self, seen: &Predicate) -> Predicate {
        Predicate::and([self.rows.clone(), self.kept(seen)])
    }

    /// A filter of what is seen as one of what is kept, of all flows.
    pub(crate) fn kept(&self, seen: &Predicate) -> Predicate {
        match &self.pseudonyms {
            Some(pseudonyms) => pseudonyms.original(seen),
            None => seen.clone(),
        }
    }

    /// Corrections of the flows as they are seen: their exporters may be images.
    pub(crate) fn corrections(&self, kept: &Arc<Corrections>) -> Arc<Corrections> {
        let Some(pseudonyms) = &self.pseudonyms else { return Arc::clone(kept) };
        let mut cipher = CryptoPan::new(&pseudonyms.key, 1);
        Arc::new(Corrections::clone(kept).with_exporters(|octets| {
            // what is no address is of no exporter
            cipher.replace(octets);
        }))
    }
}

/// Addresses replaced by images under a key, which share prefixes as the addresses do.
#[derive(Debug)]
pub struct Pseudonyms {
    key: Key,
    /// For the way back, which needs no table.
    cipher: CryptoPan,
}

impl Pseudonyms {
    /// Reads the key: 32 octets, or 64 hexadecimal digits.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let key = Key::read(path)?;
        Ok(Self { cipher: CryptoPan::new(&key, 1), key })
    }

    /// Whether two have the same images.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key
    }

    /// Whether a column is null for who sees images: an address, or who somebody is, may be found in it.
    pub fn hides(column: Column) -> bool {
        matches!(column.column_type(), ColumnType::Mac | ColumnType::Elements) || NAMES.contains(&column)
    }

    /// The filter of addresses as they are kept that takes what a filter of images takes.
    fn original(&self, seen: &Predicate) -> Predicate {
        let each = |parts: &[Predicate]| parts.iter().map(|part| self.original(part)).collect::<Vec<_>>();
        match seen {
            Predicate::Not(part) => Predicate::not(self.original(part)),
            Predicate::And(parts) => Predicate::and(each(parts)),
            Predicate::Or(parts) => Predicate::or(each(parts)),
            Predicate::Test(Test::Address { column, set }) => {
                Predicate::Test(Test::Address { column: *column, set: self.original_set(set) })
            }
            Predicate::Test(test) if test.columns().iter().any(|column| Self::hides(*column)) => Predicate::False,
            Predicate::True | Predicate::False | Predicate::Test(_) => seen.clone(),
        }
    }

    fn original_set(&self, images: &AddressSet) -> AddressSet {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in images.prefixes() {
            let length = u32::from(prefix.length());
            match prefix.address() {
                std::net::IpAddr::V4(address) => {
                    let free = u32::MAX.checked_shr(length).unwrap_or(0);
                    let first = self.cipher.original_v4(address.into()) & !free;
                    v4.push((first, first | free));
                }
                std::net::IpAddr::V6(address) => {
                    let free = u128::MAX.checked_shr(length).unwrap_or(0);
                    let first = self.cipher.original_v6(address.into()) & !free;
                    v6.push((first, first | free));
                }
            }
        }
        AddressSet::from_ranges(v4, v6)
    }

    /// What replaces addresses, for one thread.
    pub(crate) fn images(&self) -> Images {
        Images(CryptoPan::new(&self.key, CACHE_ENTRIES))
    }
}

/// Replaces addresses, and keeps some of the images.
pub(crate) struct Images(CryptoPan);

impl Images {
    /// What they take.
    pub(crate) fn octets(&self) -> usize {
        self.0.octets()
    }

    /// A column as it is seen. What is no address becomes null.
    pub(crate) fn of(&mut self, column: Column, values: &ArrayRef) -> ArrayRef {
        match column.column_type() {
            ColumnType::Address => rewritten(values.as_binary(), |octets| self.0.replace(octets)).0,
            _ => Arc::clone(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a hundred thousand lines must not be copied for each question.
    #[test]
    fn corrections_of_who_sees_all_addresses_are_shared() {
        let text = format!("{}\n192.0.2.1,,,,,,7\n", weir_flow::scaling::HEADER);
        let kept = Arc::new(Corrections::parse(&text).expect("a table"));
        assert!(Arc::ptr_eq(&FlowView::default().corrections(&kept), &kept));
    }
}
