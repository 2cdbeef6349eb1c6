//! The records of one set, field by field.

use weir_wire::value::be_uint;
use weir_wire::{FieldPositions, LocatedRecords};

/// The records of one set.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    pub body: &'a [u8],
    pub located: &'a LocatedRecords<'a>,
}

impl<'a> Records<'a> {
    pub(crate) fn len(self) -> usize {
        self.located.records
    }

    #[inline]
    pub(crate) fn octets(self, positions: &FieldPositions<'_>, record: usize) -> &'a [u8] {
        positions.octets(self.body, record).unwrap_or_default()
    }

    /// The octets of a field of a record.
    #[inline]
    pub(crate) fn octets_of(self, field: usize, record: usize) -> &'a [u8] {
        self.octets(&self.located.field(field), record)
    }

    /// All octets of a record, length prefixes of its fields included.
    pub(crate) fn whole(self, record: usize) -> &'a [u8] {
        self.located.range(record).and_then(|range| self.body.get(range)).unwrap_or_default()
    }

    /// The octets of a record up to the end of a field, or none.
    pub(crate) fn through(self, field: Option<usize>, record: usize) -> &'a [u8] {
        let octets = || {
            let (offset, length) = self.located.field(field?).get(record);
            self.body.get(self.located.range(record)?.start..offset + length)
        };
        octets().unwrap_or_default()
    }

    /// An integer of any length up to eight octets.
    #[inline]
    pub(crate) fn number(self, field: usize, record: usize) -> Option<u64> {
        be_uint(self.octets(&self.located.field(field), record))
    }

    /// Values of a field that has the same offset in every record.
    #[inline]
    pub(crate) fn strided<const N: usize>(
        self,
        offset: usize,
        stride: usize,
    ) -> impl ExactSizeIterator<Item = [u8; N]> + use<'a, N> {
        let whole = &self.body[..self.len() * stride];
        // `locate` has checked that every record is whole, so the default is never taken
        whole
            .chunks_exact(stride.max(1))
            .map(move |record| record.get(offset..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N]))
    }
}

/// Whether any bit of a value is set: some exporters fill what a record does not have with zeros.
pub(crate) fn is_set(octets: &[u8]) -> bool {
    octets.iter().any(|octet| *octet != 0)
}
