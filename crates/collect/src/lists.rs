//! Lists in records: what is in them goes among the elements, and to columns that the record itself leaves empty.
//!
//! A value in a list fills a column when the record has just one such value, so that there is no doubt which is meant.
//! It stays among the elements as well, since a column does not say from where it came.

use weir_flow::{Column, ColumnType, FlowBatchBuilder, text};
use weir_wire::ElementId;
use weir_wire::structured::{self, ListEntry};
use weir_wire::value::be_uint;

use crate::domain::DomainTemplates;
use crate::plan::{Plan, column_of_flags};
use crate::records::Records;
use crate::texts;

/// Entries of a list that there is memory for at once, of values of an octet: a list of a datagram has no more.
const ENTRIES_EXPECTED: usize = 1_500;

/// A value in a list whose column the record leaves empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leaf<'a> {
    row: usize,
    column: Column,
    octets: &'a [u8],
    /// Several elements each have some bits of the column.
    part: bool,
}

/// Appends the elements of records that have lists. Returns how many lists could not be read to their
/// end.
pub(crate) fn write_leftovers(
    plan: &Plan,
    records: Records<'_>,
    templates: &DomainTemplates,
    builder: &mut FlowBatchBuilder,
) -> u32 {
    let (mut entries, mut leaves, mut undecodable) = (Vec::new(), Vec::new(), 0);
    let mut columns = LeafColumns { plan, last: None };
    let target = builder.elements();
    for row in 0..records.len() {
        for leftover in plan.leftovers.iter().filter(|leftover| plan.keeps(leftover, records, row)) {
            let octets = records.octets_of(leftover.field, row);
            let Some(kind) = leftover.list else {
                target.push(leftover.enterprise, leftover.id, octets);
                continue;
            };
            entries.clear();
            entries.reserve(octets.len().min(ENTRIES_EXPECTED));
            let position = target.row_len() as u16;
            let element = ElementId { enterprise: leftover.enterprise, id: leftover.id };
            undecodable += structured::walk(element, kind, octets, templates, &mut entries);
            if target.row_len() + entries.len() > usize::from(u16::MAX) {
                // their places cannot be written
                undecodable += 1;
                entries.truncate(1);
            }
            for entry in &entries {
                let ElementId { enterprise, id } = entry.element;
                match entry.parent {
                    None => target.push(enterprise, id, entry.octets),
                    Some(parent) => {
                        let place = (parent.saturating_add(position), entry.record);
                        target.push_nested(enterprise, id, entry.octets, place);
                        leaves.extend(columns.leaf(row, entry));
                    }
                }
            }
        }
        target.end_row();
    }
    write_leaves(&mut leaves, records.len(), builder);
    undecodable
}

/// Which columns the values in lists may fill.
struct LeafColumns<'p> {
    plan: &'p Plan,
    /// The element that was asked about last: values of one element come in a row.
    last: Option<(ElementId, Option<(Column, bool)>)>,
}

impl LeafColumns<'_> {
    /// The leaf that an entry is, when there is a column for it that the records leave empty.
    fn leaf<'a>(&mut self, row: usize, entry: &ListEntry<'a>) -> Option<Leaf<'a>> {
        let found = match self.last {
            Some((element, found)) if element == entry.element => found,
            _ => {
                let found = self.column(entry.element);
                self.last = Some((entry.element, found));
                found
            }
        };
        let (column, part) = found?;
        fits(column, entry.octets).then_some(Leaf { row, column, octets: entry.octets, part })
    }

    /// The column for an element, and whether the element has some bits of it only. Times are none: those in lists are
    /// of what happened within the flow.
    fn column(&self, element: ElementId) -> Option<(Column, bool)> {
        let (column, part) = match column_of_flags(element) {
            Some(column) => (column, true),
            None => (Column::of_element(element.enterprise, element.id)?.0, false),
        };
        let open = column != Column::SamplingInterval && column != Column::SamplerId && !self.plan.writes(column);
        open.then_some((column, part))
    }
}

fn fits(column: Column, octets: &[u8]) -> bool {
    match column.column_type() {
        ColumnType::U8 => octets.len() == 1,
        ColumnType::U16 => matches!(octets.len(), 1..=2),
        ColumnType::U32 => matches!(octets.len(), 1..=4),
        ColumnType::U64 => matches!(octets.len(), 1..=8),
        ColumnType::Address => matches!(octets.len(), 4 | 16),
        ColumnType::Mac => octets.len() == 6,
        ColumnType::Octets => !octets.is_empty(),
        ColumnType::Text => !text::trimmed(octets).is_empty(),
        ColumnType::Time | ColumnType::Elements => false,
    }
}

/// Writes one column after the other: of each row the only value, or bits that elements have each some of; else null.
fn write_leaves(leaves: &mut [Leaf<'_>], rows: usize, builder: &mut FlowBatchBuilder) {
    // of one element in one record they are sorted, and sorting them takes memory
    if !leaves.is_sorted_by_key(|leaf| (leaf.column, leaf.row)) {
        leaves.sort_by_key(|leaf| (leaf.column, leaf.row));
    }
    for of_column in leaves.chunk_by(|a, b| a.column == b.column) {
        let column = of_column[0].column;
        let mut next = of_column.chunk_by(|a, b| a.row == b.row).peekable();
        for row in 0..rows {
            let found = next.next_if(|of_row| of_row[0].row == row).unwrap_or_default();
            let only = match found {
                [leaf, others @ ..] if others.iter().all(|other| other.octets == leaf.octets) => Some(leaf.octets),
                _ => None,
            };
            let bits = || found.iter().filter_map(|leaf| be_uint(leaf.octets)).fold(0, |bits, more| bits | more);
            let number = match found {
                [_, _, ..] if found.iter().all(|leaf| leaf.part) => Some(bits()),
                _ => only.and_then(be_uint),
            };
            match column.column_type() {
                ColumnType::U8 => builder.u8(column).push(number.map(|number| number as u8)),
                ColumnType::U16 => builder.u16(column).push(number.map(|number| number as u16)),
                ColumnType::U32 => builder.u32(column).push(number.map(|number| number as u32)),
                ColumnType::U64 => builder.u64(column).push(number),
                ColumnType::Text => texts::push(builder.text(column), column, only.unwrap_or_default()),
                _ => builder.address(column).push(only),
            }
        }
    }
}
