//! Which pages of a segment may have flows that pass a filter.
//!
//! A set of pages is never too small and may be too large: whatever the index does not know about, negations above
//! all, leaves every page in.

use weir_archive::{PageSet, SegmentIndex};
use weir_filter::{AddressSet, NumberSet, Operand, Predicate, Test};
use weir_flow::Column;

use crate::{QueryError, TimeWindow, WindowRule};

/// Ranges of a set that are looked up one by one; of larger sets only the smallest and the largest value count.
const RANGES_MAX: usize = 256;

type Pages = Result<PageSet, QueryError>;

/// Pages that may have flows which pass the predicate.
pub(super) fn of_predicate(index: &SegmentIndex, predicate: &Predicate) -> Pages {
    match predicate {
        Predicate::True | Predicate::Not(_) => Ok(PageSet::all(index.pages())),
        Predicate::False => Ok(PageSet::none(index.pages())),
        Predicate::And(parts) => {
            let mut pages = PageSet::all(index.pages());
            for part in parts {
                pages.and(&of_predicate(index, part)?);
                if pages.is_none() {
                    break;
                }
            }
            Ok(pages)
        }
        Predicate::Or(parts) => {
            let mut pages = PageSet::none(index.pages());
            for part in parts {
                pages.or(&of_predicate(index, part)?);
                if pages.is_all() {
                    break;
                }
            }
            Ok(pages)
        }
        Predicate::Test(test) => of_test(index, test),
    }
}

fn of_test(index: &SegmentIndex, test: &Test) -> Pages {
    match test {
        Test::Number { operand, comparison, value } => match comparison.range(*value) {
            Some(range) => of_numbers(index, *operand, &[range]),
            None => Ok(PageSet::none(index.pages())),
        },
        Test::NumberIn { operand, values } => of_numbers(index, *operand, &few(number_ranges(values))),
        Test::Address { column, set } => of_addresses(index, *column, set),
        Test::Flags { .. } => of_numbers(index, Operand::TcpFlags, &[(0, u64::MAX)]),
        Test::Family { v6 } => {
            let (low, high): (&[u8], &[u8]) = if *v6 { (&[0; 16], &[0xff; 16]) } else { (&[0; 4], &[0xff; 4]) };
            let mut pages = index.pages_of_addresses(Column::SrcAddr, low, high)?;
            pages.or(&index.pages_of_addresses(Column::DstAddr, low, high)?);
            Ok(pages)
        }
        Test::Time { column, comparison, ms } => match comparison.time_range(*ms) {
            Some((low, high)) => Ok(index.pages_of_times(*column, low, high)?),
            None => Ok(PageSet::none(index.pages())),
        },
        _ => Ok(PageSet::all(index.pages())),
    }
}

fn number_ranges(values: &NumberSet) -> Vec<(u64, u64)> {
    values.ranges().to_vec()
}

/// These ranges, or the one that has all of them when they are many.
fn few<T: Copy + Ord>(ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    if ranges.len() <= RANGES_MAX {
        return ranges;
    }
    let low = ranges.iter().map(|range| range.0).min();
    let high = ranges.iter().map(|range| range.1).max();
    low.zip(high).into_iter().collect()
}

fn of_numbers(index: &SegmentIndex, operand: Operand, ranges: &[(u64, u64)]) -> Pages {
    let column = match operand {
        Operand::Column(column) => column,
        Operand::TcpFlags => return Ok(index.pages_of_numbers(Column::Protocol, 6, 6)?),
        Operand::IcmpType | Operand::IcmpCode => {
            let mut pages = index.pages_of_numbers(Column::Protocol, 1, 1)?;
            pages.or(&index.pages_of_numbers(Column::Protocol, 58, 58)?);
            return Ok(pages);
        }
        _ => return Ok(PageSet::all(index.pages())),
    };
    let mut pages = PageSet::none(index.pages());
    for (low, high) in ranges {
        pages.or(&index.pages_of_numbers(column, *low, *high)?);
    }
    Ok(pages)
}

fn of_addresses(index: &SegmentIndex, column: Column, set: &AddressSet) -> Pages {
    let mut pages = PageSet::none(index.pages());
    for (low, high) in few(set.ranges_v4().to_vec()) {
        pages.or(&index.pages_of_addresses(column, &low.to_be_bytes(), &high.to_be_bytes())?);
    }
    for (low, high) in few(set.ranges_v6().to_vec()) {
        pages.or(&index.pages_of_addresses(column, &low.to_be_bytes(), &high.to_be_bytes())?);
    }
    Ok(pages)
}

/// Pages that may have flows of the window.
pub(super) fn of_window(index: &SegmentIndex, window: &TimeWindow) -> Pages {
    let (lower, upper) = match window.rule {
        WindowRule::Overlaps => (Column::End, Column::Start),
        WindowRule::Inside => (Column::Start, Column::End),
    };
    let mut pages = PageSet::all(index.pages());
    for (column, low, high) in [(lower, window.from_ms, None), (upper, None, window.until_ms)] {
        if low.is_none() && high.is_none() {
            continue;
        }
        let mut some = index.pages_of_times(column, low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX))?;
        // a flow without this time counts by when it was received
        some.or(&index.pages_with_nulls(column)?);
        pages.and(&some);
    }
    Ok(pages)
}
