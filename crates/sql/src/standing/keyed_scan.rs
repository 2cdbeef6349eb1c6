//! Scans of history that are narrowed to some hosts, and what tells two of them apart.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ident};
use weir_archive::Segment;
use weir_filter::{Predicate, Test};
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType};

use crate::scan::{all, predicate_of};

pub(super) const HOUR_MS: i64 = 3_600_000;
/// Hours of history that a scan may have.
const HOURS_MAX: i64 = 24 * 400;

/// An address in network order.
pub(super) type Host = Box<[u8]>;

/// Hours of a day, a bit for each.
pub(super) type Hours = u32;

/// The hours of a set.
pub(super) fn hours_of(hours: Hours) -> impl Iterator<Item = i64> {
    (0..24).filter(move |hour| hours & (1 << hour) != 0)
}

/// The rows whose times are in a range, of times in order.
pub(super) fn rows_within(times: &[i64], range: &Range<i64>) -> Range<usize> {
    times.partition_point(|time| *time < range.start)..times.partition_point(|time| *time < range.end)
}

/// A scan of the flows of some hosts that were received in ranges of time.
#[derive(Debug, Clone)]
pub(crate) struct KeyedScan {
    /// The column of the hosts.
    host: Column,
    /// None of them twice.
    pub(super) hosts: Vec<Host>,
    /// In order, none overlaps another.
    pub(super) ranges: Vec<Range<i64>>,
    /// That the host is one of them.
    pub(super) of_all: Predicate,
    /// What else must hold.
    pub(super) others: Predicate,
    /// All of it.
    pub(super) condition: Predicate,
    /// The columns of the scan.
    pub(super) columns: Vec<Column>,
}

impl KeyedScan {
    /// What a scan with these conditions is, if it is one.
    pub(crate) fn of(columns: Vec<Column>, conditions: &[Expr]) -> Option<Self> {
        let (mut hosts, mut ranges, mut others) = (None, always(), Vec::new());
        let mut parts = Vec::new();
        for condition in conditions {
            let part = predicate_of(condition)?;
            parts.push(part.clone());
            match hosts_of(condition) {
                Some(found) if hosts.is_none() => hosts = Some(found),
                _ => match ranges_of(&part) {
                    Some(found) => ranges = common(&ranges, &found),
                    None => others.push(part),
                },
            }
        }
        let (host, mut hosts) = hosts?;
        hosts.sort_unstable();
        hosts.dedup();
        let (first, last) = (ranges.first()?.start, ranges.last()?.end);
        if first == i64::MIN || last == i64::MAX || last.saturating_sub(first) / HOUR_MS > HOURS_MAX {
            return None;
        }
        let of_all = of_hosts(host, &hosts).ok()?;
        Some(Self { host, hosts, ranges, of_all, others: all(others), condition: all(parts), columns })
    }

    /// What it has in common with others that differ in hosts and times only.
    pub(super) fn kind(&self) -> ScanKind {
        ScanKind { host: self.host, columns: self.kept_columns(), others: self.others.clone() }
    }

    /// What it asks of a segment, if it asks something.
    pub(super) fn of_segment<'a>(&self, segment: &'a Segment) -> Option<SegmentRequest<'a>> {
        let begin = segment.day.saturating_mul(24 * HOUR_MS);
        let end = begin.saturating_add(24 * HOUR_MS);
        let ranges: Vec<Range<i64>> =
            self.ranges.iter().filter(|range| range.start < end && begin < range.end).cloned().collect();
        let is_asked = |hour: &i64| {
            let first = begin.saturating_add(hour * HOUR_MS);
            ranges.iter().any(|range| range.start < first.saturating_add(HOUR_MS) && first < range.end)
        };
        let hours = (0..24).filter(is_asked).fold(0, |hours, hour| hours | 1 << hour);
        (hours != 0).then(|| SegmentRequest { segment, path: segment.path(), hours, ranges })
    }

    /// The columns that are kept: the time and the host, and then others of the scan in an order of their own.
    pub(super) fn kept_columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::Received, self.host];
        let mut others: Vec<_> = self.columns.iter().copied().filter(|column| !columns.contains(column)).collect();
        others.sort_unstable();
        others.dedup();
        columns.extend(others);
        columns
    }

    /// Where the columns of the scan are among those that are kept.
    pub(super) fn positions(&self) -> Vec<usize> {
        let kept = self.kept_columns();
        self.columns.iter().filter_map(|column| kept.iter().position(|other| other == column)).collect()
    }

    pub(super) fn schema(&self) -> SchemaRef {
        schema_of(&self.columns)
    }

    /// The condition that the host is one of these.
    pub(super) fn of_hosts(&self, hosts: &[Host]) -> Result<Predicate> {
        of_hosts(self.host, hosts)
    }
}

/// What scans that are alike have in common. Two are the same when they are equal; the hash may be that of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScanKind {
    host: Column,
    columns: Vec<Column>,
    others: Predicate,
}

impl Hash for ScanKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // long sets are written in part, so this is not all of it
        format!("{self:?}").hash(state);
    }
}

/// The part of a segment that a scan requests.
pub(super) struct SegmentRequest<'a> {
    pub(super) segment: &'a Segment,
    pub(super) path: PathBuf,
    /// The hours of its day.
    pub(super) hours: Hours,
    /// The ranges that have some of its day.
    pub(super) ranges: Vec<Range<i64>>,
}

fn of_hosts(column: Column, hosts: &[Host]) -> Result<Predicate> {
    let literals = hosts.iter().map(|host| Expr::Literal(ScalarValue::Binary(Some(host.to_vec())), None));
    let list = ident(column.name()).in_list(literals.collect(), false);
    predicate_of(&list).ok_or_else(|| DataFusionError::Internal(format!("'{list}' is no filter of flows")))
}

/// The hosts of a condition that says that a column is one of them.
fn hosts_of(condition: &Expr) -> Option<(Column, Vec<Host>)> {
    match condition {
        Expr::InList(InList { expr, list, negated: false }) => {
            let hosts = list.iter().map(address).collect::<Option<Vec<_>>>()?;
            Some((address_column(expr)?, hosts))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let (column, host) = match (address_column(left), address_column(right)) {
                (Some(column), None) => (column, address(right)?),
                (None, Some(column)) => (column, address(left)?),
                _ => return None,
            };
            Some((column, vec![host]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let ((column, mut hosts), (other, more)) = (hosts_of(left)?, hosts_of(right)?);
            hosts.extend(more);
            (column == other).then_some((column, hosts))
        }
        _ => None,
    }
}

fn address_column(expression: &Expr) -> Option<Column> {
    let Expr::Column(column) = expression else { return None };
    Column::by_name(&column.name).filter(|column| column.column_type() == ColumnType::Address)
}

fn address(expression: &Expr) -> Option<Host> {
    let Expr::Literal(ScalarValue::Binary(Some(octets)), _) = expression else { return None };
    Some(octets.as_slice().into())
}

/// The times of reception for which a condition holds, if it is about them alone.
fn ranges_of(condition: &Predicate) -> Option<Vec<Range<i64>>> {
    match condition {
        Predicate::Test(Test::Time { column: Column::Received, comparison, ms }) => {
            let range = comparison.time_range(*ms);
            Some(range.map(|(first, last)| first..last.saturating_add(1)).into_iter().collect())
        }
        Predicate::And(parts) => {
            parts.iter().try_fold(always(), |ranges, part| Some(common(&ranges, &ranges_of(part)?)))
        }
        Predicate::Or(parts) => {
            let mut ranges: Vec<Range<i64>> =
                parts.iter().map(ranges_of).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
            ranges.sort_unstable_by_key(|range| range.start);
            let mut joined: Vec<Range<i64>> = Vec::new();
            for range in ranges {
                match joined.last_mut() {
                    Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                    _ => joined.push(range),
                }
            }
            Some(joined)
        }
        _ => None,
    }
}

/// All times.
fn always() -> Vec<Range<i64>> {
    std::iter::once(i64::MIN..i64::MAX).collect()
}

/// What ranges in order have in common.
fn common(some: &[Range<i64>], others: &[Range<i64>]) -> Vec<Range<i64>> {
    let pairs =
        some.iter().flat_map(|one| others.iter().map(move |other| one.start.max(other.start)..one.end.min(other.end)));
    pairs.filter(|range| range.start < range.end).collect()
}

/// The schema of columns of flows.
pub(super) fn schema_of(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::lit;

    use super::*;

    fn time(ms: i64) -> Expr {
        Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into())), None)
    }

    fn host(last: u8) -> Expr {
        Expr::Literal(ScalarValue::Binary(Some(vec![10, 0, 0, last])), None)
    }

    fn between(from: i64, until: i64) -> Expr {
        ident("received").gt_eq(time(from)).and(ident("received").lt(time(until)))
    }

    #[test]
    fn hosts_and_times_are_found_in_conditions() {
        let days = between(0, 10).or(between(100, 110)).or(between(105, 120));
        let hosts = ident("src_addr").in_list(vec![host(2), host(1), host(2)], false);
        let many = ident("bytes").gt(lit(10_u64));
        let scan = KeyedScan::of(vec![Column::Bytes], &[days.clone(), hosts.clone(), many.clone()]).expect("a scan");
        assert_eq!(scan.hosts, [Box::from([10, 0, 0, 1]), Box::from([10, 0, 0, 2])]);
        assert_eq!(scan.ranges, [0..10, 100..120]);
        // times and hosts do not matter for its kind, everything else does
        let few = ident("src_addr").eq(host(7)).or(host(8).eq(ident("src_addr")));
        let other = KeyedScan::of(vec![Column::Bytes], &[between(5, 6), few, many.clone()]).expect("a scan");
        assert_eq!((scan.kind(), other.hosts.len()), (other.kind(), 2));
        let none = KeyedScan::of(vec![Column::Bytes], &[days.clone(), hosts.clone()]).expect("a scan");
        assert_ne!(scan.kind(), none.kind());
        // sets that begin with the same are not the same
        let to = |last: &[u8]| ident("dst_addr").in_list(last.iter().map(|last| host(*last)).collect(), false);
        let [one, another] = [&[1, 3, 5, 7, 9, 11, 13, 15, 17, 19], &[1, 3, 5, 7, 9, 11, 13, 15, 17, 21]].map(|last| {
            KeyedScan::of(vec![Column::Bytes], &[days.clone(), hosts.clone(), to(last)]).expect("a scan").kind()
        });
        assert_ne!(one, another);
        // without hosts, or without bounds, it is none
        assert!(KeyedScan::of(vec![], &[days, many]).is_none());
        assert!(KeyedScan::of(vec![], &[hosts, ident("received").lt(time(7))]).is_none());
    }

    #[test]
    fn ranges_have_in_common_what_both_have() {
        let ranges = |ranges: &[(i64, i64)]| ranges.iter().map(|(from, until)| *from..*until).collect::<Vec<_>>();
        assert_eq!(common(&ranges(&[(0, 10), (20, 30)]), &ranges(&[(5, 25)])), ranges(&[(5, 10), (20, 25)]));
        assert_eq!(common(&ranges(&[(0, 10)]), &ranges(&[(10, 20)])), []);
        assert_eq!(rows_within(&[1, 2, 2, 5], &(2..5)), 1..3);
    }
}
