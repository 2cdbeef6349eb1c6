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

#[cfg(test)]
mod tests {
    use weir_wire::{FieldSpecifier, Spans, Template, TemplateId};

    use super::*;

    #[test]
    fn the_octets_of_a_record_and_of_its_first_fields() {
        let check = |lengths: [u16; 3], body: &[u8], expected: [(&[u8], &[u8]); 2]| {
            let fields = lengths.iter().zip(1..).map(|(&length, id)| FieldSpecifier::iana(id, length)).collect();
            let template = Template::new(TemplateId::new(256).expect("id"), fields, 2).expect("a template");
            let mut spans = Spans::default();
            let located = template.layout().locate(body, &mut spans);
            let records = Records { body, located: &located };
            assert_eq!([0, 1].map(|record| (records.whole(record), records.through(Some(1), record))), expected);
            assert_eq!(
                (records.whole(2), records.through(Some(1), 2), records.through(None, 0)),
                (&[][..], &[][..], &[][..])
            );
        };
        check([1, 2, 1], &[1, 2, 3, 4, 5, 6, 7, 8, 9], [(&[1, 2, 3, 4], &[1, 2, 3]), (&[5, 6, 7, 8], &[5, 6, 7])]);
        // a value of variable length behind is none of the scope's, its length included
        let variable = [1, 2, 7, 8, 3, 4, 5, 6, 9, 0, 1, 2, 9, 9];
        let expected: [(&[u8], &[u8]); 2] = [(&[1, 2, 7, 8, 3, 4, 5, 6], &[1, 2, 7, 8]), (&[9, 0, 1, 2], &[9, 0])];
        check([1, 65_535, 65_535], &variable, expected);
    }
}
