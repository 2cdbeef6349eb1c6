//! Which segments a scan must open at all.
//!
//! The name of a segment has the range of its times, and its folder the day it was received on. An archive of a year
//! has a hundred thousand segments; a question about an hour of it opens a dozen.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use weir_archive::{Segment, Snapshot};
use weir_filter::{Predicate, Test};
use weir_flow::{Column, Table};

const DAY_MS: i64 = 86_400_000;

/// First and last millisecond; `None` when they are not known.
type Range = Option<(i64, i64)>;

/// What is known of the times of a segment before it is opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentTimes {
    /// Of all values of `start` and `end`, or of `minute` in the books.
    of_rows: Range,
    received: Range,
}

impl SegmentTimes {
    pub(super) fn of(segment: &Segment) -> Self {
        let first = segment.day.saturating_mul(DAY_MS);
        let received = Some((first, first.saturating_add(DAY_MS - 1)));
        Self { of_rows: segment.time_range_ms, received }
    }

    /// Whether a flow of the segment may pass.
    pub(super) fn may_pass(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::False => false,
            Predicate::And(parts) => parts.iter().all(|part| self.may_pass(part)),
            Predicate::Or(parts) => parts.iter().any(|part| self.may_pass(part)),
            Predicate::Test(Test::Time { column, comparison, ms }) => {
                let range = match column {
                    Column::Start | Column::End => self.of_rows,
                    Column::Received => self.received,
                    _ => None,
                };
                match comparison.time_range(*ms) {
                    Some(wanted) => has_common(range, wanted),
                    None => false,
                }
            }
            Predicate::True | Predicate::Not(_) | Predicate::Test(_) => true,
        }
    }

    /// Whether a row of the segment of another table may be one for which these conditions are true.
    pub(super) fn may_have(&self, conditions: &[Expr]) -> bool {
        conditions.iter().all(|condition| match time_bound(condition) {
            Some((name, wanted)) => has_common(if name == "minute" { self.of_rows } else { self.received }, wanted),
            None => true,
        })
    }
}

/// Whether the archive may have rows with any of these times, first and last: in that column of flows, and in the other tables by
/// theirs.
pub(crate) fn may_be_of(snapshot: &Snapshot, column: Column, times: (i64, i64)) -> bool {
    let is_of = |segment: &Segment| {
        let SegmentTimes { of_rows, received } = SegmentTimes::of(segment);
        match (segment.table, column) {
            (Table::Flows, Column::Received) => has_common(received, times),
            (Table::Flows, _) => has_common(of_rows, times),
            // rows without a time of their own are of the day that they were received on
            _ => of_rows.is_some() && has_common(of_rows, times) || has_common(received, times),
        }
    };
    !snapshot.tail_frames().is_empty() || Table::ALL.iter().any(|table| snapshot.segments(*table).iter().any(is_of))
}

fn has_common(range: Range, wanted: (i64, i64)) -> bool {
    range.is_none_or(|(first, last)| first <= wanted.1 && last >= wanted.0)
}

/// The column of times that a condition on another table than flows compares with a constant, and the times that it
/// takes.
pub(super) fn time_bound(condition: &Expr) -> Option<(&str, (i64, i64))> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (column, operator, literal) = match (&**left, &**right) {
        (Expr::Column(column), literal) => (column, *op, literal),
        (literal, Expr::Column(column)) => (column, op.swap()?, literal),
        _ => return None,
    };
    let Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), _), _) = literal else { return None };
    let name = column.name.as_str();
    let range = match operator {
        Operator::Eq => (*ms, *ms),
        Operator::Lt | Operator::LtEq => (i64::MIN, *ms),
        Operator::Gt | Operator::GtEq => (*ms, i64::MAX),
        _ => return None,
    };
    matches!(name, "minute" | "received").then_some((name, range))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{ident, lit};

    use super::*;
    use crate::scan::predicate::predicate_of;

    fn time(ms: i64) -> Expr {
        Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into())), None)
    }

    /// Days 1 to 3, and a segment of which nothing is known.
    fn times() -> [SegmentTimes; 4] {
        let day = |day: i64| Some(((day - 1) * DAY_MS, day * DAY_MS));
        let known = |number| SegmentTimes {
            of_rows: day(number),
            received: day(number).map(|(first, last)| (first, last - 1)),
        };
        [known(1), known(2), known(3), SegmentTimes { of_rows: None, received: None }]
    }

    fn possible(filter: &Expr) -> Vec<usize> {
        let predicate = predicate_of(filter).expect("a filter");
        (1..=4).zip(times()).filter(|(_, times)| times.may_pass(&predicate)).map(|(number, _)| number).collect()
    }

    #[test]
    fn segments_of_other_times_stay_closed() {
        assert_eq!(possible(&ident("start").gt(time(DAY_MS))), [2, 3, 4]);
        assert_eq!(possible(&ident("end").lt(time(1000))), [1, 4]);
        assert_eq!(possible(&ident("received").gt_eq(time(DAY_MS))), [2, 3, 4]);
        assert_eq!(possible(&ident("dst_port").eq(lit(22_u16))), [1, 2, 3, 4]);
        let without_end = ident("end").is_null().and(ident("received").lt(time(1000)));
        assert_eq!(possible(&ident("end").lt(time(1000)).or(without_end)), [1, 4]);
    }

    #[test]
    fn books_of_other_minutes_stay_closed() {
        let of = |condition: Expr| {
            let numbered = (1..=4).zip(times());
            let possible = numbered.filter(|(_, times)| times.may_have(std::slice::from_ref(&condition)));
            possible.map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(of(ident("minute").gt(time(DAY_MS))), [1, 2, 3, 4]);
        assert_eq!(of(ident("minute").gt(time(DAY_MS + 1))), [2, 3, 4]);
        assert_eq!(of(time(DAY_MS - 1).gt_eq(ident("minute"))), [1, 4]);
        assert_eq!(of(ident("datagrams").gt(lit(1_u64))), [1, 2, 3, 4]);
    }
}
