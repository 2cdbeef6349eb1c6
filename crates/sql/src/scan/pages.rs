//! Which pages of a segment a scan must read, by the segment's own index.
//!
//! Parquet's page index has the smallest and largest value of each page; the archive's index tells for hosts, ports
//! and the like the very pages that a value is on. What of a filter it can say anything about becomes a set of pages
//! that is never too small; everything else is every page. The filter is evaluated on the rows that are left, so an
//! answer with the index is the answer without it. Only positive tests are looked up: a page where some row does *not*
//! fit is another question.

use std::collections::HashMap;
use std::ops::Range;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use weir_archive::{ArchiveError, PageSet, SegmentIndex};
use weir_flow::{Column, ColumnType};

/// A value of a column that is looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Time(i64),
    Address(Vec<u8>),
}

/// What one conjunction says about a column.
#[derive(Debug, Default)]
struct Bounds {
    low: Option<Key>,
    high: Option<Key>,
    /// Octets of an address, when the family is tested.
    octets: Option<usize>,
}

/// The pages that may have a row for which all filters are true; `None` when the index cannot say.
pub(super) fn possible(index: &SegmentIndex, filters: &[Expr]) -> Result<Option<PageSet>, ArchiveError> {
    all(index, filters.iter().flat_map(split_conjunction))
}

/// Whether the index could say anything about the filters: whether it is worth opening.
pub(super) fn is_indexable(filters: &[Expr]) -> bool {
    filters.iter().flat_map(split_conjunction).any(|filter| match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            is_indexable(std::slice::from_ref(left)) && is_indexable(std::slice::from_ref(right))
        }
        Expr::BinaryExpr(binary) => comparison(binary).is_some(),
        Expr::IsTrue(inner) => is_indexable(std::slice::from_ref(inner)),
        Expr::InList(list) => !list.negated && column_of(&list.expr).is_some(),
        Expr::Between(between) => !between.negated && column_of(&between.expr).is_some(),
        Expr::IsNull(inner) => column_of(inner).is_some(),
        _ => false,
    })
}

/// The rows of pages, joined where pages are neighbours.
pub(super) fn rows_of(index: &SegmentIndex, pages: &PageSet) -> Vec<Range<usize>> {
    let mut rows: Vec<Range<usize>> = Vec::new();
    for page in pages.iter() {
        let Range { start, end } = index.page_rows(page);
        let (start, end) = (start as usize, end as usize);
        match rows.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => rows.push(start..end),
        }
    }
    rows
}

fn and(pages: &mut Option<PageSet>, other: Option<PageSet>) {
    match (pages.as_mut(), other) {
        (Some(pages), Some(other)) => pages.and(&other),
        (None, other) => *pages = other,
        (Some(_), None) => {}
    }
}

/// All of these hold. Bounds of one column are looked up together: each alone would be half of everything.
fn all<'a>(index: &SegmentIndex, parts: impl Iterator<Item = &'a Expr>) -> Result<Option<PageSet>, ArchiveError> {
    let mut pages = None;
    let mut bounds: HashMap<Column, Bounds> = HashMap::new();
    for part in parts {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                and(&mut pages, either(index, left, right)?);
            }
            Expr::BinaryExpr(binary) => {
                if let Some((column, operator, key)) = comparison(binary) {
                    bounds.entry(column).or_default().narrow(operator, key);
                } else if let Some((column, octets)) = family_test(binary) {
                    bounds.entry(column).or_default().octets = Some(octets);
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                if let Some(column) = column_of(expr) {
                    let bounds = bounds.entry(column).or_default();
                    for (bound, operator) in [(low, Operator::GtEq), (high, Operator::LtEq)] {
                        if let Some(key) = key_of(column, bound) {
                            bounds.narrow(operator, key);
                        }
                    }
                }
            }
            Expr::InList(list) => and(&mut pages, one_of(index, list)?),
            Expr::IsTrue(inner) => and(&mut pages, all(index, split_conjunction(inner).into_iter())?),
            Expr::IsNull(inner) => {
                if let Some(column) = column_of(inner) {
                    and(&mut pages, Some(index.pages_with_nulls(column)?));
                }
            }
            _ => {}
        }
    }
    for (column, bounds) in bounds {
        and(&mut pages, bounds.pages(index, column)?);
    }
    Ok(pages)
}

/// One of these holds.
fn either(index: &SegmentIndex, left: &Expr, right: &Expr) -> Result<Option<PageSet>, ArchiveError> {
    let Some(mut pages) = all(index, split_conjunction(left).into_iter())? else { return Ok(None) };
    let Some(other) = all(index, split_conjunction(right).into_iter())? else { return Ok(None) };
    pages.or(&other);
    Ok(Some(pages))
}

fn one_of(index: &SegmentIndex, list: &InList) -> Result<Option<PageSet>, ArchiveError> {
    let Some(column) = column_of(&list.expr).filter(|_| !list.negated) else { return Ok(None) };
    let mut pages = PageSet::none(index.pages());
    for item in &list.list {
        let Some(key) = key_of(column, item) else { return Ok(None) };
        pages.or(&between(index, column, &key, &key)?);
    }
    Ok(Some(pages))
}

impl Bounds {
    fn narrow(&mut self, operator: Operator, key: Key) {
        // `<` and `>` are taken for `<=` and `>=`: a set may be too large
        if matches!(operator, Operator::Eq | Operator::Gt | Operator::GtEq) && self.low.as_ref() < Some(&key) {
            self.low = Some(key.clone());
        }
        if matches!(operator, Operator::Eq | Operator::Lt | Operator::LtEq)
            && self.high.as_ref().is_none_or(|high| *high > key)
        {
            self.high = Some(key);
        }
    }

    fn pages(self, index: &SegmentIndex, column: Column) -> Result<Option<PageSet>, ArchiveError> {
        let (low, high) = match (self.low, self.high) {
            // Half of all addresses are no list that is worth reading.
            (None, None | Some(Key::Address(_))) | (Some(Key::Address(_)), None) => return Ok(None),
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, column_end(column, true)),
            (None, Some(high)) => (column_end(column, false), high),
        };
        let (Key::Address(low), Key::Address(high)) = (&low, &high) else {
            return between(index, column, &low, &high).map(Some);
        };
        addresses(index, column, (low, high), self.octets).map(Some)
    }
}

/// Pages of addresses between two of one or two families, as octets are compared: those of the other family that begin
/// with the same octets are between them too, unless the family is tested.
fn addresses(
    index: &SegmentIndex,
    column: Column,
    (low, high): (&[u8], &[u8]),
    octets: Option<usize>,
) -> Result<PageSet, ArchiveError> {
    if low == high {
        return index.pages_of_addresses(column, low, high);
    }
    let mut pages = PageSet::none(index.pages());
    for family in [4, 16] {
        if octets.is_some_and(|octets| octets != family) {
            continue;
        }
        let filled = |bound: &[u8], rest: u8| {
            let mut bound: Vec<u8> = bound.iter().copied().take(family).collect();
            bound.resize(family, rest);
            bound
        };
        pages.or(&index.pages_of_addresses(column, &filled(low, 0), &filled(high, 0xff))?);
    }
    Ok(pages)
}

fn column_end(column: Column, is_last: bool) -> Key {
    match column.column_type() {
        ColumnType::Time => Key::Time(if is_last { i64::MAX } else { i64::MIN }),
        _ => Key::Number(if is_last { u64::MAX } else { 0 }),
    }
}

fn between(index: &SegmentIndex, column: Column, low: &Key, high: &Key) -> Result<PageSet, ArchiveError> {
    match (low, high) {
        (Key::Number(low), Key::Number(high)) => index.pages_of_numbers(column, *low, *high),
        (Key::Time(low), Key::Time(high)) => index.pages_of_times(column, *low, *high),
        (Key::Address(low), Key::Address(high)) => index.pages_of_addresses(column, low, high),
        _ => Ok(PageSet::all(index.pages())),
    }
}

/// A column of flows that may be in the index.
fn column_of(expression: &Expr) -> Option<Column> {
    let Expr::Column(column) = expression else { return None };
    Column::by_name(&column.name)
}

/// The value of a literal that is compared with a column.
fn key_of(column: Column, expression: &Expr) -> Option<Key> {
    let Expr::Literal(value, _) = expression else { return None };
    match (column.column_type(), value) {
        (ColumnType::Time, ScalarValue::TimestampMillisecond(Some(ms), _)) => Some(Key::Time(*ms)),
        (ColumnType::Address, ScalarValue::Binary(Some(octets))) if matches!(octets.len(), 4 | 16) => {
            Some(Key::Address(octets.clone()))
        }
        (ColumnType::U8, ScalarValue::UInt8(Some(number))) => Some(Key::Number((*number).into())),
        (ColumnType::U16, ScalarValue::UInt16(Some(number))) => Some(Key::Number((*number).into())),
        (ColumnType::U32, ScalarValue::UInt32(Some(number))) => Some(Key::Number((*number).into())),
        (ColumnType::U64, ScalarValue::UInt64(Some(number))) => Some(Key::Number(*number)),
        _ => None,
    }
}

/// A column compared with a literal, the column at the left.
fn comparison(binary: &BinaryExpr) -> Option<(Column, Operator, Key)> {
    let (column, operator, literal) = match (column_of(&binary.left), column_of(&binary.right)) {
        (Some(column), None) => (column, binary.op, &binary.right),
        (None, Some(column)) => (column, binary.op.swap()?, &binary.left),
        _ => return None,
    };
    let is_range = matches!(operator, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    Some((column, operator, key_of(column, literal).filter(|_| is_range)?))
}

/// `family(column) = 4` or `6`: the column, and the octets of its addresses.
fn family_test(binary: &BinaryExpr) -> Option<(Column, usize)> {
    let ((Expr::ScalarFunction(call), Expr::Literal(number, _))
    | (Expr::Literal(number, _), Expr::ScalarFunction(call))) = (&*binary.left, &*binary.right)
    else {
        return None;
    };
    let ScalarFunction { func, args } = call;
    let is_test = func.name() == "family" && binary.op == Operator::Eq;
    let column = args.first().and_then(column_of).filter(|_| is_test)?;
    match number {
        ScalarValue::UInt8(Some(4)) => Some((column, 4)),
        ScalarValue::UInt8(Some(6)) => Some((column, 16)),
        _ => None,
    }
}
