//! The Information Elements of a row that have no column.

use arrow::array::ArrayRef;
use weir_flow::elements::{ElementValue, elements_of_row};

/// The elements of one row.
#[derive(Default)]
pub(super) struct RowElements<'a>(Vec<ElementValue<'a>>);

impl<'a> RowElements<'a> {
    /// Those of a row of the column `elements`, if there is one.
    pub(super) fn of(elements: Option<&'a ArrayRef>, row: usize) -> Self {
        Self(elements.map_or_else(Vec::new, |elements| elements_of_row(elements, row)))
    }

    /// The octets of an element.
    pub(super) fn octets(&self, enterprise: u32, id: u16) -> Option<&'a [u8]> {
        let found = self.0.iter().find(|entry| (entry.enterprise, entry.id) == (enterprise, id))?;
        Some(found.octets)
    }

    /// An element that is a number; 0 when it is not there.
    pub(super) fn number(&self, enterprise: u32, id: u16) -> u64 {
        let octets = self.octets(enterprise, id).unwrap_or_default();
        octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
    }
}
