//! Which pages of a segment may have rows that pass a test, and of which every row passes.
//!
//! The first set is never too small and may be too large, the second is never too large and may be too small: whatever
//! the index does not know about may pass on every page, and surely passes on none.

use weir_archive::{PageSet, SegmentIndex};
use weir_filter::{AddressSet, NumberSet, Operand, Test, TextCondition};
use weir_flow::Column;

use super::window::WindowEnd;
use crate::QueryError;

/// Ranges of a set that are looked up one by one; of larger sets only the smallest and the largest value count.
const RANGES_MAX: usize = 256;

/// What is known of the pages of a segment, for one test. Right for the pages that were asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pages {
    /// Those that may have rows which pass.
    pub(super) may: PageSet,
    /// Those of which every row passes.
    pub(super) whole: PageSet,
}

impl Pages {
    /// Nothing is known.
    pub(super) fn unknown(pages: usize) -> Self {
        Self { may: PageSet::all(pages), whole: PageSet::none(pages) }
    }

    pub(super) fn all(pages: usize) -> Self {
        Self { may: PageSet::all(pages), whole: PageSet::all(pages) }
    }

    pub(super) fn none(pages: usize) -> Self {
        Self { may: PageSet::none(pages), whole: PageSet::none(pages) }
    }

    /// Of the opposite.
    pub(super) fn opposite(&self) -> Self {
        let mut opposite = Self::all(self.may.pages());
        opposite.may.and_not(&self.whole);
        opposite.whole.and_not(&self.may);
        opposite
    }

    /// Of rows that pass both.
    pub(super) fn and(&mut self, other: &Self) {
        self.may.and(&other.may);
        self.whole.and(&other.whole);
    }

    /// Of rows that pass one or the other.
    pub(super) fn or(&mut self, other: &Self) {
        self.may.or(&other.may);
        self.whole.or(&other.whole);
    }
}

/// Whether what is known of a test may come from lists of hosts, which cost more than all else in the index.
pub(super) fn is_costly(test: &Test) -> bool {
    matches!(test, Test::Address { .. })
}

/// What the index knows of a test when only some pages are of interest.
pub(super) fn of_test(index: &SegmentIndex, test: &Test, among: &PageSet) -> Result<Pages, QueryError> {
    match test {
        Test::Number { operand, comparison, value } => match comparison.range(*value) {
            Some(range) => of_numbers(index, *operand, &[range]),
            None => Ok(Pages::none(index.pages())),
        },
        Test::NumberIn { operand, values } => of_numbers(index, *operand, number_ranges(values)),
        Test::Address { column, set } => of_addresses(index, *column, set, among),
        Test::Flags { .. } => of_numbers(index, Operand::TcpFlags, &[(0, u64::MAX)]),
        Test::Family { v6 } => of_family(index, *v6),
        Test::Time { column, comparison, ms } => match comparison.time_range(*ms) {
            Some((low, high)) => Ok(Pages {
                may: index.pages_of_times(*column, low, high)?,
                whole: index.whole_pages_of_times(*column, low, high)?,
            }),
            None => Ok(Pages::none(index.pages())),
        },
        Test::Text { column, condition } => of_text(index, *column, condition),
        _ => Ok(Pages::unknown(index.pages())),
    }
}

/// Texts are looked up one by one; of patterns it is known only that there must be a text.
fn of_text(index: &SegmentIndex, column: Column, condition: &TextCondition) -> Result<Pages, QueryError> {
    let mut pages = Pages::none(index.pages());
    match condition {
        TextCondition::OneOf(set) if set.texts().len() <= RANGES_MAX => {
            for text in set.texts() {
                // beyond ASCII, indexes take a large letter and its small one for two
                let of_one =
                    if text.is_ascii() { index.pages_of_text(column, text) } else { index.pages_with_text(column) };
                pages.may.or(&of_one?);
            }
        }
        TextCondition::Exactly(text) => pages.may = index.pages_of_text(column, text)?,
        TextCondition::OneOf(_) | TextCondition::Like(_) => pages.may = index.pages_with_text(column)?,
    }
    Ok(pages)
}

fn number_ranges(values: &NumberSet) -> &[(u64, u64)] {
    values.ranges()
}

/// These ranges, or the one that has all of them when they are many.
fn few<T: Copy + Ord>(ranges: &[(T, T)]) -> Vec<(T, T)> {
    if ranges.len() <= RANGES_MAX {
        return ranges.to_vec();
    }
    let low = ranges.iter().map(|range| range.0).min();
    let high = ranges.iter().map(|range| range.1).max();
    low.zip(high).into_iter().collect()
}

fn of_numbers(index: &SegmentIndex, operand: Operand, ranges: &[(u64, u64)]) -> Result<Pages, QueryError> {
    let column = match operand {
        Operand::Column(column) => column,
        // null unless the protocol is the right one
        Operand::TcpFlags => return protocols(index, &[6]),
        Operand::IcmpType | Operand::IcmpCode => return protocols(index, &[1, 58]),
        _ => return Ok(Pages::unknown(index.pages())),
    };
    let mut pages = Pages::none(index.pages());
    for (low, high) in few(ranges) {
        pages.may.or(&index.pages_of_numbers(column, low, high)?);
    }
    for (low, high) in ranges.iter().take(RANGES_MAX) {
        pages.whole.or(&index.whole_pages_of_numbers(column, *low, *high)?);
    }
    Ok(pages)
}

fn protocols(index: &SegmentIndex, numbers: &[u64]) -> Result<Pages, QueryError> {
    let mut pages = Pages::none(index.pages());
    for number in numbers {
        pages.may.or(&index.pages_of_numbers(Column::Protocol, *number, *number)?);
    }
    Ok(pages)
}

fn of_addresses(index: &SegmentIndex, column: Column, set: &AddressSet, among: &PageSet) -> Result<Pages, QueryError> {
    let mut pages = Pages::none(index.pages());
    for (low, high) in few(set.ranges_v4()) {
        let (low, high) = (low.to_be_bytes(), high.to_be_bytes());
        pages.may.or(&index.pages_of_addresses_among(column, &low, &high, among)?);
    }
    for (low, high) in few(set.ranges_v6()) {
        let (low, high) = (low.to_be_bytes(), high.to_be_bytes());
        pages.may.or(&index.pages_of_addresses_among(column, &low, &high, among)?);
    }
    for (low, high) in set.ranges_v4().iter().take(RANGES_MAX) {
        pages.whole.or(&index.whole_pages_of_addresses(column, &low.to_be_bytes(), &high.to_be_bytes())?);
    }
    for (low, high) in set.ranges_v6().iter().take(RANGES_MAX) {
        pages.whole.or(&index.whole_pages_of_addresses(column, &low.to_be_bytes(), &high.to_be_bytes())?);
    }
    Ok(pages)
}

/// The family is that of either address. Zone maps know it: lists of hosts would be decoded as a whole.
fn of_family(index: &SegmentIndex, v6: bool) -> Result<Pages, QueryError> {
    let (low, high): (&[u8], &[u8]) = if v6 { (&[0; 16], &[0xff; 16]) } else { (&[0; 4], &[0xff; 4]) };
    let mut pages = Pages::none(index.pages());
    for column in [Column::SrcAddr, Column::DstAddr] {
        pages.may.or(&index.pages_of_family(column, v6)?);
        pages.whole.or(&index.whole_pages_of_addresses(column, low, high)?);
    }
    Ok(pages)
}

/// What the index knows of one end of a window.
pub(super) fn of_window(index: &SegmentIndex, end: &WindowEnd) -> Result<Pages, QueryError> {
    let (low, high) = (end.first_ms, end.last_ms);
    let mut may = index.pages_of_times(end.column, low, high)?;
    // a flow without this time counts by when it was received
    may.or(&index.pages_with_nulls(end.column)?);
    Ok(Pages { may, whole: index.whole_pages_of_times(end.column, low, high)? })
}
