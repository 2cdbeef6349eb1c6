//! Information Elements without a column of their own: kept as they came, under their numbers.
//!
//! A list (RFC 6313) is an entry with all its octets, semantic and all, and what is in it follows as entries of their
//! own that name the list by its position in the row. So a query for an element finds it wherever it is, and a list
//! whose Template was not known can still be read from its octets. What speaks against it is that octets in lists are
//! kept twice, or once more for each list around them; columns of octets compress that well.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanBufferBuilder, ListArray, StructArray, UInt16Array, UInt32Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, UInt16Type, UInt32Type};

use crate::field::{element_fields, element_item_field};
use crate::repeating::repeat_last;
use crate::run_ends::RunEnds;

/// Collects the `elements` column row by row.
#[derive(Debug, Default)]
pub struct ElementsColumn {
    row_ends: RunEnds,
    enterprises: Vec<u32>,
    ids: Vec<u16>,
    octet_ends: RunEnds,
    octets: Vec<u8>,
    nesting: Nesting,
}

/// A value in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedElement<'a> {
    /// Private Enterprise Number, 0 for IANA.
    pub enterprise: u32,
    /// Element number.
    pub id: u16,
    /// Value in network order, as it came.
    pub octets: &'a [u8],
    /// Position of the list in the row, from 0, and number of the record there that the value stands in, or of the value itself.
    pub place: (u16, u16),
}

/// Which entries are in lists, and where there. Entries after the last such one are in none.
#[derive(Debug)]
struct Nesting {
    parents: Vec<u16>,
    records: Vec<u16>,
    is_nested: BooleanBufferBuilder,
}

impl Default for Nesting {
    fn default() -> Self {
        Self { parents: Vec::new(), records: Vec::new(), is_nested: BooleanBufferBuilder::new(0) }
    }
}

impl Nesting {
    /// Takes that all entries before this one, and not noted yet, are in no list.
    fn pad_to(&mut self, entries: usize) {
        self.parents.resize(entries, 0);
        self.records.resize(entries, 0);
        self.is_nested.resize(entries);
    }

    /// Parents and records of so many entries, null for those in no list.
    fn finish(mut self, entries: usize) -> (UInt16Array, UInt16Array) {
        if self.parents.is_empty() {
            return (UInt16Array::new_null(entries), UInt16Array::new_null(entries));
        }
        self.pad_to(entries);
        let nulls = NullBuffer::new(self.is_nested.finish());
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        (UInt16Array::new(self.parents.into(), nulls.clone()), UInt16Array::new(self.records.into(), nulls))
    }
}

impl ElementsColumn {
    /// Rows closed so far.
    pub(crate) fn rows(&self) -> usize {
        self.row_ends.len()
    }

    /// Adds an element to the row that is open.
    #[inline]
    pub fn push(&mut self, enterprise: u32, id: u16, octets: &[u8]) {
        self.enterprises.push(enterprise);
        self.ids.push(id);
        self.octets.extend_from_slice(octets);
        self.octet_ends.push(self.octets.len() as i32);
    }

    /// Adds closed rows that all have the same elements: their enterprises, numbers and lengths, and the octets of all of them, one
    /// after the other in any parts.
    pub fn extend_rows<'a>(
        &mut self,
        rows: usize,
        elements: impl Iterator<Item = (u32, u16, usize)>,
        octets: impl Iterator<Item = &'a [u8]>,
    ) {
        if rows == 0 {
            return;
        }
        let (first, begin) = (self.ids.len(), self.octets.len());
        let mut row_octets = 0;
        for (enterprise, id, length) in elements {
            row_octets += length;
            self.enterprises.push(enterprise);
            self.ids.push(id);
            self.octet_ends.push((begin + row_octets) as i32);
        }
        let entries = first..self.ids.len();
        repeat_last(&mut self.enterprises, entries.len(), rows);
        repeat_last(&mut self.ids, entries.len(), rows);
        let ends = self.octet_ends.as_slice()[entries.clone()].to_vec();
        for row in 1..rows {
            let further = (row * row_octets) as i32;
            self.octet_ends.extend(ends.iter().map(|end| end + further));
        }
        self.row_ends.extend((1..=rows).map(|row| (first + row * entries.len()) as i32));
        octets.for_each(|part| self.octets.extend_from_slice(part));
        // they end where the entries do, whatever came
        self.octets.resize(begin + rows * row_octets, 0);
    }

    /// Adds an element whose octets are in two parts.
    pub fn push_joined(&mut self, enterprise: u32, id: u16, head: &[u8], tail: &[u8]) {
        self.octets.extend_from_slice(head);
        self.push(enterprise, id, tail);
    }

    /// Adds what is in a list; see [`NestedElement::place`].
    #[inline]
    pub fn push_nested(&mut self, enterprise: u32, id: u16, octets: &[u8], place: (u16, u16)) {
        self.extend_nested(std::iter::once(NestedElement { enterprise, id, octets, place }));
    }

    /// Adds what is in lists, column by column.
    #[inline]
    pub fn extend_nested<'a>(&mut self, values: impl ExactSizeIterator<Item = NestedElement<'a>> + Clone) {
        let nesting = &mut self.nesting;
        nesting.pad_to(self.ids.len());
        nesting.is_nested.append_n(values.len(), true);
        nesting.parents.extend(values.clone().map(|value| value.place.0));
        nesting.records.extend(values.clone().map(|value| value.place.1));
        self.enterprises.extend(values.clone().map(|value| value.enterprise));
        self.ids.extend(values.clone().map(|value| value.id));
        self.octet_ends.reserve(values.len());
        for value in values {
            match value.octets {
                // as most values of those who want to cost much
                [octet] => self.octets.push(*octet),
                octets => self.octets.extend_from_slice(octets),
            }
            self.octet_ends.push(self.octets.len() as i32);
        }
    }

    /// Entries of the row that is open.
    #[inline]
    pub fn row_len(&self) -> usize {
        self.ids.len() - self.row_ends.last() as usize
    }

    /// Closes the row.
    pub fn end_row(&mut self) {
        self.row_ends.push(self.ids.len() as i32);
    }

    pub(crate) fn pad_to(&mut self, rows: usize) {
        self.row_ends.pad_to(rows);
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let (parents, records) = self.nesting.finish(self.ids.len());
        let octets = BinaryArray::new(self.octet_ends.finish(), self.octets.into(), None);
        let entries = StructArray::new(
            element_fields(),
            vec![
                Arc::new(UInt32Array::from(self.enterprises)),
                Arc::new(UInt16Array::from(self.ids)),
                Arc::new(octets),
                Arc::new(parents),
                Arc::new(records),
            ],
            None,
        );
        let rows = self.row_ends.finish();
        let filled = filled_rows(&rows);
        Arc::new(ListArray::new(element_item_field(), rows, Arc::new(entries), filled))
    }
}

/// Which rows have an entry; `None` when all have.
fn filled_rows(offsets: &OffsetBuffer<i32>) -> Option<NullBuffer> {
    let rows = offsets.len() - 1;
    let filled = NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| offsets[row] < offsets[row + 1]));
    (filled.null_count() > 0).then_some(filled)
}

/// The same `elements` column with null for rows that have none. Columns that were written earlier have empty lists
/// there when another row of their batch had elements.
pub fn without_empty_lists(column: &ArrayRef) -> ArrayRef {
    let Some(lists) = column.as_list_opt::<i32>() else { return Arc::clone(column) };
    let offsets = lists.offsets();
    let is_empty = |row: usize| lists.is_valid(row) && offsets[row] == offsets[row + 1];
    if !(0..lists.len()).any(is_empty) {
        return Arc::clone(column);
    }
    let nulls = NullBuffer::union(lists.nulls(), filled_rows(offsets).as_ref());
    let DataType::List(item) = lists.data_type() else { return Arc::clone(column) };
    Arc::new(ListArray::new(Arc::clone(item), offsets.clone(), Arc::clone(lists.values()), nulls))
}

/// One element of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementValue<'a> {
    /// Private Enterprise Number, 0 for IANA.
    pub enterprise: u32,
    /// Element number.
    pub id: u16,
    /// Value in network order, as it came.
    pub octets: &'a [u8],
    /// Of what is in a list: the list's position in the row, and the number of its record there.
    pub place: Option<(u16, u16)>,
}

/// The elements in row `row` of an `elements` column.
pub fn elements_of_row(column: &ArrayRef, row: usize) -> Vec<ElementValue<'_>> {
    let Some(lists) = column.as_list_opt::<i32>() else { return Vec::new() };
    let Some(entries) = lists.values().as_struct_opt() else { return Vec::new() };
    if lists.is_null(row) {
        return Vec::new();
    }
    let enterprises = entries.column(0).as_primitive::<UInt32Type>();
    let ids = entries.column(1).as_primitive::<UInt16Type>();
    let octets = entries.column(2).as_binary::<i32>();
    let parents = entries.column(3).as_primitive::<UInt16Type>();
    let records = entries.column(4).as_primitive::<UInt16Type>();
    let (first, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
    let value = |i| ElementValue {
        enterprise: enterprises.value(i),
        id: ids.value(i),
        octets: octets.value(i),
        place: parents.is_valid(i).then(|| (parents.value(i), records.value(i))),
    };
    (first..end).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(rows: &[usize]) -> ElementsColumn {
        let mut column = ElementsColumn::default();
        for entries in rows {
            (0..*entries).for_each(|id| column.push(32473, id as u16, &[1, 2]));
            column.end_row();
        }
        column
    }

    #[test]
    fn rows_without_elements_are_null_whatever_others_have() {
        let all = column(&[0, 2, 0, 1]).finish();
        assert_eq!((0..4).map(|row| all.is_null(row)).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!((0..4).map(|row| elements_of_row(&all, row).len()).collect::<Vec<_>>(), [0, 2, 0, 1]);
        assert_eq!(column(&[1, 1]).finish().null_count(), 0);
        assert_eq!(column(&[0, 0]).finish().null_count(), 2);
    }

    #[test]
    fn rows_at_once_are_those_that_come_one_by_one() {
        let elements = [(32473, 1, 2), (0, 2, 0), (9, 3, 1)];
        let body: Vec<u8> = (1..=12).collect();
        for rows in 0..=4 {
            let (mut one_by_one, mut at_once) = (column(&[2, 0]), column(&[2, 0]));
            for row in body.chunks(3).take(rows) {
                let mut rest = row;
                for (enterprise, id, length) in elements {
                    let (octets, others) = rest.split_at(length);
                    one_by_one.push(enterprise, id, octets);
                    rest = others;
                }
                one_by_one.end_row();
            }
            at_once.extend_rows(rows, elements.into_iter(), body[..rows * 3].chunks(5));
            for column in [&mut one_by_one, &mut at_once] {
                column.push(1, 1, b"after");
                column.end_row();
            }
            assert_eq!(at_once.finish().as_ref(), one_by_one.finish().as_ref());
        }
    }

    #[test]
    fn empty_lists_of_earlier_columns_become_null() {
        let now = column(&[0, 2, 0, 1, 0]).finish();
        let lists = now.as_list::<i32>();
        let DataType::List(item) = lists.data_type() else { panic!("no list") };
        // as it was written: only the third row is null
        let nulls = NullBuffer::from(vec![true, true, false, true, true]);
        let values = Arc::clone(lists.values());
        let earlier = ListArray::new(Arc::clone(item), lists.offsets().clone(), values, Some(nulls));
        let earlier: ArrayRef = Arc::new(earlier);
        assert_eq!(earlier.null_count(), 1);
        assert_eq!(without_empty_lists(&earlier).as_ref(), now.as_ref());
        assert_eq!(without_empty_lists(&earlier.slice(1, 2)).as_ref(), now.slice(1, 2).as_ref());
        assert!(Arc::ptr_eq(&without_empty_lists(&now), &now), "nothing to do");
    }

    #[test]
    fn what_is_in_lists_keeps_its_place_among_what_is_not() {
        let nested = |id, place| NestedElement { enterprise: 9, id, octets: &[1, 2, 3][..usize::from(id) % 4], place };
        let mut column = ElementsColumn::default();
        column.push(0, 1, &[7]);
        column.end_row();
        column.push(0, 291, &[3]);
        column.extend_nested([nested(1, (0, 0)), nested(2, (0, 1))].into_iter());
        column.push(0, 4, &[6]);
        column.push_nested(9, 3, &[5, 5], (0, 2));
        column.end_row();
        column.extend_rows(2, [(0, 8, 1)].into_iter(), [&[1, 2][..]].into_iter());
        let column = column.finish();
        let row = elements_of_row(&column, 1);
        let values: Vec<_> = row.iter().map(|value| (value.id, value.octets, value.place)).collect();
        let expected = [
            (291, &[3][..], None),
            (1, &[1], Some((0, 0))),
            (2, &[1, 2], Some((0, 1))),
            (4, &[6], None),
            (3, &[5, 5], Some((0, 2))),
        ];
        assert_eq!(values, expected);
        let others = [0, 2, 3].map(|row| elements_of_row(&column, row));
        assert!(others.iter().flatten().all(|value| value.place.is_none()));
        assert_eq!(others.map(|row| row[0].octets.to_vec()), [[7], [1], [2]]);
    }
}
