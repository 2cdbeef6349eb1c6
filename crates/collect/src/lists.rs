//! Lists in records: what is in them goes among the elements, and to columns that the record itself leaves empty.
//!
//! A value in a list fills a column when the lists of the record have just one such value, so that there is no doubt which
//! is meant. Two values are two, also where they are equal; only a name that is repeated is one name. Columns that describe
//! one flow together ([`Group`]) are not put together from several sources. Values of a list of which none is true fill
//! nothing. Every value stays among the elements as well, since a column does not say from where it came.

use weir_flow::elements::NestedElement;
use weir_flow::{Column, ColumnType, FlowBatchBuilder, text};
use weir_wire::ElementId;
use weir_wire::structured::{self, ListEntry, Semantic};
use weir_wire::value::be_uint;

use crate::domain::DomainTemplates;
use crate::plan::{Plan, column_of_flags};
use crate::records::Records;
use crate::texts;

/// Entries of a list that there is memory for at once, of values of an octet: a list of a datagram has no more.
const ENTRIES_EXPECTED: usize = 1_500;

/// Columns that describe one flow together. An address of the record with a port of the flow that a list is about would be
/// a flow that never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Addresses, what is known of them, and what is between them.
    Key,
    /// Counters: those of flows with another key are others as well.
    Counters,
}

impl Group {
    const fn of(column: Column) -> Option<Self> {
        match column {
            Column::SrcAddr
            | Column::DstAddr
            | Column::SrcPort
            | Column::DstPort
            | Column::Protocol
            | Column::IcmpType
            | Column::IcmpCode
            | Column::IcmpTypeCode
            | Column::SrcMask
            | Column::DstMask
            | Column::SrcAs
            | Column::DstAs => Some(Self::Key),
            Column::Packets | Column::Bytes | Column::PacketsReverse | Column::BytesReverse => Some(Self::Counters),
            _ => None,
        }
    }
}

/// A value in a list whose column the record leaves empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leaf<'a> {
    row: usize,
    column: Column,
    octets: &'a [u8],
    /// Several elements each have some bits of the column.
    part: bool,
    /// Position of the list in the row, and number of the record in the list.
    place: (u16, u16),
}

/// What lists have for columns.
#[derive(Debug, Default)]
struct Leaves<'a> {
    values: Vec<Leaf<'a>>,
    /// Rows of which a group has several values for one column.
    contested: Vec<(usize, Group)>,
}

/// Appends the elements of records that have lists. Returns how many lists could not be read to their
/// end.
pub(crate) fn write_leftovers(
    plan: &Plan,
    records: Records<'_>,
    templates: &DomainTemplates,
    builder: &mut FlowBatchBuilder,
) -> u32 {
    // of a list, what is in it, and the positions of lists that fill nothing
    let (mut entries, mut excluded, mut undecodable) = (Vec::new(), Vec::new(), 0);
    let (mut columns, mut leaves) = (LeafColumns { plan, last: None }, Leaves::default());
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
            excluded.clear();
            let position = target.row_len() as u16;
            let element = ElementId { enterprise: leftover.enterprise, id: leftover.id };
            undecodable += structured::walk(element, kind, octets, templates, &mut entries);
            if target.row_len() + entries.len() > usize::from(u16::MAX) {
                // their places cannot be written
                undecodable += 1;
                entries.truncate(1);
            }
            let Some((list, inside)) = entries.split_first() else { continue };
            target.push(leftover.enterprise, leftover.id, list.octets);
            target.extend_nested(inside.iter().map(|entry| NestedElement {
                enterprise: entry.element.enterprise,
                id: entry.element.id,
                octets: entry.octets,
                place: place_of(entry, position),
            }));
            if is_none_of(list) {
                excluded.push(0);
            }
            for (entry, number) in inside.iter().zip(1_u16..) {
                let is_excluded =
                    !excluded.is_empty() && entry.parent.is_some_and(|list| excluded.binary_search(&list).is_ok());
                if entry.list.is_some() && (is_excluded || is_none_of(entry)) {
                    excluded.push(number);
                }
                if !is_excluded {
                    columns.add(row, entry, position, &mut leaves);
                }
            }
        }
        target.end_row();
    }
    write_leaves(&mut leaves, records.len(), builder);
    undecodable
}

/// Position of the list that an entry is in, in the row of which this is the position of the outermost list, and number of its record.
fn place_of(entry: &ListEntry<'_>, position: u16) -> (u16, u16) {
    (entry.parent.unwrap_or_default().saturating_add(position), entry.record)
}

/// Whether an entry is a list whose values are no properties of the record (RFC 6313 section 4.4).
fn is_none_of(entry: &ListEntry<'_>) -> bool {
    entry.list.is_some() && entry.octets.first().map(|octet| Semantic::from_octet(*octet)) == Some(Semantic::NoneOf)
}

/// What the values of an element in lists are to the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// They may fill this one.
    Open {
        column: Column,
        /// See [`Leaf::part`].
        part: bool,
    },
    /// The records fill it themselves, and it is one of this group.
    Taken(Group),
}

/// Which columns the values in lists may fill.
struct LeafColumns<'p> {
    plan: &'p Plan,
    /// The element that was asked about last: values of one element come in a row.
    last: Option<AskedElement>,
}

/// An element in the lists of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AskedElement {
    element: ElementId,
    row: usize,
    claim: Option<Claim>,
    /// Values that were added one after the other.
    added: u32,
}

impl AskedElement {
    /// Whether a further value says nothing: two numbers leave a column as empty as more of them.
    fn is_decided(&self) -> bool {
        let is_number = |column: Column| column.column_type() != ColumnType::Text;
        self.added > 1 && matches!(self.claim, Some(Claim::Open { column, part: false }) if is_number(column))
    }
}

impl LeafColumns<'_> {
    /// Adds what an entry is to the columns; the outermost list that it is in has this position in the row.
    #[inline]
    fn add<'a>(&mut self, row: usize, entry: &ListEntry<'a>, position: u16, leaves: &mut Leaves<'a>) {
        let mut asked = match self.last {
            Some(last) if last.element == entry.element && last.row == row => last,
            Some(last) if last.element == entry.element => AskedElement { row, added: 0, ..last },
            _ => AskedElement { element: entry.element, row, claim: self.claim(entry.element), added: 0 },
        };
        if asked.is_decided() {
            return;
        }
        match asked.claim {
            Some(Claim::Open { column, part }) if fits(column, entry.octets) => {
                asked.added += 1;
                let place = place_of(entry, position);
                leaves.values.push(Leaf { row, column, octets: entry.octets, part, place });
            }
            Some(Claim::Taken(group)) if leaves.contested.last() != Some(&(row, group)) => {
                leaves.contested.push((row, group));
            }
            _ => {}
        }
        self.last = Some(asked);
    }

    /// What values of an element are to the columns. Times are nothing to them: those in lists are of what happened within
    /// the flow.
    fn claim(&self, element: ElementId) -> Option<Claim> {
        let (column, part) = match column_of_flags(element) {
            Some(column) => (column, true),
            None => (Column::of_element(element.enterprise, element.id)?.0, false),
        };
        if self.plan.writes(column) {
            return Group::of(column).map(Claim::Taken);
        }
        let open = column != Column::SamplingInterval && column != Column::SamplerId;
        open.then_some(Claim::Open { column, part })
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

/// The value of a column that a row has in its lists, if it is one.
fn only<'a>(of_row: &[Leaf<'a>]) -> Option<&'a [u8]> {
    let [leaf, others @ ..] = of_row else { return None };
    // YAF has the name that DNS is asked for with every answer
    let is_repeated =
        leaf.column.column_type() == ColumnType::Text && others.iter().all(|other| other.octets == leaf.octets);
    (others.is_empty() || is_repeated).then_some(leaf.octets)
}

/// Bits of a column of which the elements of one record in a list have some each.
fn bits(of_row: &[Leaf<'_>]) -> Option<u64> {
    let [leaf, _, ..] = of_row else { return None };
    let are_parts = of_row.iter().all(|other| other.part && other.place == leaf.place);
    are_parts.then(|| of_row.iter().filter_map(|leaf| be_uint(leaf.octets)).fold(0, |bits, more| bits | more))
}

impl Leaves<'_> {
    /// Sorts the values by column and row, and notes where a group has several for one column.
    fn sort(&mut self) {
        // of one element in one record they are sorted, and sorting them takes memory
        if !self.values.is_sorted_by_key(|leaf| (leaf.column, leaf.row)) {
            self.values.sort_by_key(|leaf| (leaf.column, leaf.row));
        }
        let same = |a: &Leaf<'_>, b: &Leaf<'_>| (a.column, a.row) == (b.column, b.row);
        let several = self.values.chunk_by(same).filter(|of_row| of_row.len() > 1);
        self.contested.extend(several.filter_map(|of_row| Some((of_row[0].row, Group::of(of_row[0].column)?))));
        self.contested.sort_unstable();
    }

    /// Whether a row leaves it open which flow a value for a column is about.
    fn is_contested(&self, row: usize, column: Column) -> bool {
        let is = |group| self.contested.binary_search(&(row, group)).is_ok();
        match Group::of(column) {
            Some(Group::Key) => is(Group::Key),
            Some(Group::Counters) => is(Group::Key) || is(Group::Counters),
            None => false,
        }
    }
}

/// Writes one column after the other: of each row the only value, or bits that elements have each some of; else null.
fn write_leaves(leaves: &mut Leaves<'_>, rows: usize, builder: &mut FlowBatchBuilder) {
    leaves.sort();
    for of_column in leaves.values.chunk_by(|a, b| a.column == b.column) {
        let column = of_column[0].column;
        let mut next = of_column.chunk_by(|a, b| a.row == b.row).peekable();
        for row in 0..rows {
            let found = next.next_if(|of_row| of_row[0].row == row).unwrap_or_default();
            let only = only(found).filter(|_| !leaves.is_contested(row, column));
            let number = bits(found).or_else(|| only.and_then(be_uint));
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
