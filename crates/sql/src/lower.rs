//! A filter as an expression of the engine.
//!
//! A filter is true or false where SQL knows null, by one rule: a test on a null is false. Below `and` and `or` alone
//! null and false come to the same, since a row is kept only where the whole is true; so negations are moved inwards
//! until they are before single tests, and there `is not true` decides. Tests of plain columns are lowered to
//! comparisons with literals, negated ones too, because by such the scan prunes row groups and pages.

mod masked;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, bitwise_and, cast, ident, lit};
use weir_filter::{AddressSet, Comparison, NumberSet, Operand, Predicate, Test};
use weir_flow::{Column, ColumnType};

use self::masked::masked;
use crate::functions::{address_in, call, family, number_in};
use crate::literals::{in_range, lit_octets};

/// Ranges of a set up to which it is written as comparisons; beyond, it is looked up.
const RANGES_WRITTEN_MAX: usize = 16;

/// The condition of `predicate` on columns of `flows`.
///
/// A row passes the predicate where the expression is true; elsewhere it is false or null.
pub fn filter_expr(predicate: &Predicate) -> Expr {
    lower(predicate, false)
}

fn lower(predicate: &Predicate, is_negated: bool) -> Expr {
    match predicate {
        Predicate::True => lit(!is_negated),
        Predicate::False => lit(is_negated),
        Predicate::Not(part) => lower(part, !is_negated),
        Predicate::And(parts) => join(parts, is_negated, !is_negated),
        Predicate::Or(parts) => join(parts, is_negated, is_negated),
        Predicate::Test(test) => lower_test(test, is_negated),
    }
}

/// All parts, or some part: `not (a and b)` is `not a or not b`.
fn join(parts: &[Predicate], is_negated: bool, all: bool) -> Expr {
    let lowered = parts.iter().map(|part| lower(part, is_negated));
    let joined = if all { lowered.reduce(Expr::and) } else { lowered.reduce(Expr::or) };
    joined.unwrap_or_else(|| lit(all))
}

fn lower_test(test: &Test, is_negated: bool) -> Expr {
    // Plain columns keep a form that prunes also when negated.
    if let Some((column, ranges)) = plain_number(test) {
        let value = column_expr(column);
        if is_negated {
            return any_range(&value, &complement(&ranges), type_max(column)).or(value.is_null());
        }
        return any_range(&value, &ranges, type_max(column));
    }
    let positive = match test {
        // What SQL has no words for: elements without a column, differences of columns.
        Test::Number { operand: Operand::Element(_) | Operand::MplsBottom | Operand::TtlSpread, .. }
        | Test::NumberIn { operand: Operand::Element(_) | Operand::MplsBottom | Operand::TtlSpread, .. }
        | Test::PortInBlock { .. }
        | Test::UserName(_) => masked(test),
        // Records of an archive have no place in a file, and a filter of an archive is not read with these words.
        Test::Number { operand: Operand::RecordNumber, .. }
        | Test::NumberIn { operand: Operand::RecordNumber, .. }
        | Test::Ident(_) => lit(false),
        Test::Number { operand, comparison, value } => number(*operand, &ranges_of(*comparison, *value)),
        Test::NumberIn { operand, values } => number(*operand, values.ranges()),
        Test::Address { column, set } => address(&column_expr(*column), set),
        Test::Flags { mask, exact } => flags(*mask, *exact),
        Test::Family { v6 } => {
            let number: u8 = if *v6 { 6 } else { 4 };
            let is_of = |column| family(column_expr(column)).eq(lit(number));
            is_of(Column::SrcAddr).or(is_of(Column::DstAddr))
        }
        Test::Time { column, comparison, ms } => {
            let literal = ScalarValue::TimestampMillisecond(Some(*ms), Some("UTC".into()));
            compare(column_expr(*column), *comparison, Expr::Literal(literal, None))
        }
        Test::Mac { column, mac } => column_expr(*column).eq(lit_octets(mac.to_vec())),
    };
    if is_negated { positive.is_not_true() } else { positive }
}

/// A test of one column of numbers, as ranges.
fn plain_number(test: &Test) -> Option<(Column, Vec<(u64, u64)>)> {
    match test {
        Test::Number { operand: Operand::Column(column), comparison, value } => {
            Some((*column, ranges_of(*comparison, *value)))
        }
        Test::NumberIn { operand: Operand::Column(column), values } if values.ranges().len() <= RANGES_WRITTEN_MAX => {
            Some((*column, values.ranges().to_vec()))
        }
        _ => None,
    }
}

fn ranges_of(comparison: Comparison, value: u64) -> Vec<(u64, u64)> {
    comparison.range(value).into_iter().collect()
}

/// The numbers in none of the ranges.
fn complement(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut next = Some(0);
    for &(first, last) in ranges {
        if let Some(start) = next.filter(|start| *start < first) {
            gaps.push((start, first - 1));
        }
        next = last.checked_add(1);
    }
    gaps.extend(next.map(|start| (start, u64::MAX)));
    gaps
}

fn column_expr(column: Column) -> Expr {
    ident(column.name())
}

fn compare(left: Expr, comparison: Comparison, right: Expr) -> Expr {
    match comparison {
        Comparison::Equal => left.eq(right),
        Comparison::Greater => left.gt(right),
        Comparison::Less => left.lt(right),
        Comparison::GreaterOrEqual => left.gt_eq(right),
        Comparison::LessOrEqual => left.lt_eq(right),
    }
}

/// Largest number of a column, with the type of the literals it is compared with.
fn type_max(column: Column) -> NumberType {
    match column.column_type() {
        ColumnType::U8 => NumberType::U8,
        ColumnType::U16 => NumberType::U16,
        ColumnType::U32 => NumberType::U32,
        _ => NumberType::U64,
    }
}

#[derive(Debug, Clone, Copy)]
enum NumberType {
    U8,
    U16,
    U32,
    U64,
}

impl NumberType {
    fn max(self) -> u64 {
        match self {
            Self::U8 => u8::MAX.into(),
            Self::U16 => u16::MAX.into(),
            Self::U32 => u32::MAX.into(),
            Self::U64 => u64::MAX,
        }
    }

    fn literal(self, number: u64) -> Expr {
        match self {
            Self::U8 => lit(number as u8),
            Self::U16 => lit(number as u16),
            Self::U32 => lit(number as u32),
            Self::U64 => lit(number),
        }
    }
}

/// Whether a value is in one of some inclusive ranges; null for null where it matters.
fn any_range(value: &Expr, ranges: &[(u64, u64)], number_type: NumberType) -> Expr {
    if ranges.len() > RANGES_WRITTEN_MAX {
        return looked_up(value, ranges, number_type);
    }
    let max = number_type.max();
    let within = ranges.iter().filter(|(first, _)| *first <= max).map(|&(first, last)| {
        let literal = |number| number_type.literal(number);
        match (first, last.min(max)) {
            (first, last) if first == last => value.clone().eq(literal(first)),
            (0, last) if last == max => value.clone().is_not_null(),
            (0, last) => value.clone().lt_eq(literal(last)),
            (first, last) if last == max => value.clone().gt_eq(literal(first)),
            (first, last) => value.clone().gt_eq(literal(first)).and(value.clone().lt_eq(literal(last))),
        }
    });
    within.reduce(Expr::or).unwrap_or_else(|| lit(false))
}

/// A look-up, within the bounds of the set so that scans prune.
fn looked_up(value: &Expr, ranges: &[(u64, u64)], number_type: NumberType) -> Expr {
    let set = NumberSet::from_ranges(ranges.to_vec());
    let bounds = ranges.first().zip(ranges.last()).map(|(first, last)| (first.0, last.1));
    let found = number_in(cast(value.clone(), DataType::UInt64), &set);
    bounds.map_or_else(|| lit(false), |bounds| any_range(value, &[bounds], number_type).and(found))
}

fn number(operand: Operand, ranges: &[(u64, u64)]) -> Expr {
    let column = column_expr;
    match operand {
        Operand::Column(plain) => any_range(&column(plain), ranges, type_max(plain)),
        Operand::Flows => {
            let written = any_range(&column(Column::Flows), ranges, NumberType::U64);
            let takes_one = ranges.iter().any(|(first, last)| (*first..=*last).contains(&1));
            if takes_one { written.or(column(Column::Flows).is_null()) } else { written }
        }
        Operand::TcpFlags => {
            let is_tcp = column(Column::Protocol).eq(lit(6_u8));
            is_tcp.and(any_range(&column(Column::TcpFlags), ranges, NumberType::U16))
        }
        Operand::IcmpType | Operand::IcmpCode => {
            let is_icmp = column(Column::Protocol).eq(lit(1_u8)).or(column(Column::Protocol).eq(lit(58_u8)));
            is_icmp.and(any_range(&icmp(operand), ranges, NumberType::U16))
        }
        Operand::DurationMs => {
            let duration = call("duration_ms", vec![column(Column::Start), column(Column::End)]);
            any_range(&duration, ranges, NumberType::U64)
        }
        Operand::PacketsPerSecond => any_range(&rate("packets_per_second", Column::Packets), ranges, NumberType::U64),
        Operand::BitsPerSecond => any_range(&rate("bits_per_second", Column::Bytes), ranges, NumberType::U64),
        Operand::BytesPerPacket => {
            let mean = call("bytes_per_packet", vec![column(Column::Bytes), column(Column::Packets)]);
            any_range(&mean, ranges, NumberType::U64)
        }
        // Taken out by the caller.
        Operand::Element(_) | Operand::MplsBottom | Operand::TtlSpread | Operand::RecordNumber => lit(false),
    }
}

fn rate(function: &str, count: Column) -> Expr {
    call(function, vec![column_expr(Column::Start), column_expr(Column::End), column_expr(count)])
}

/// Type or code of ICMP: of its own element, of the element of both, or of the port that NetFlow v5 puts both in.
fn icmp(operand: Operand) -> Expr {
    let wide = |column: Column| cast(column_expr(column), DataType::UInt16);
    let (own, part): (_, fn(Expr) -> Expr) = match operand {
        Operand::IcmpType => (Column::IcmpType, |both| both / lit(256_u16)),
        _ => (Column::IcmpCode, |both| both % lit(256_u16)),
    };
    coalesce(vec![wide(own), part(column_expr(Column::IcmpTypeCode)), part(column_expr(Column::DstPort))])
}

fn flags(mask: u16, exact: bool) -> Expr {
    let value = column_expr(Column::TcpFlags);
    let is_tcp = column_expr(Column::Protocol).eq(lit(6_u8));
    let bits = if exact { value } else { bitwise_and(value, lit(mask)) };
    is_tcp.and(bits.eq(lit(mask)))
}

/// Ranges of a set of addresses, as octets.
fn address_ranges(set: &AddressSet) -> Vec<(Vec<u8>, Vec<u8>)> {
    let v4 = set.ranges_v4().iter().map(|(first, last)| (first.to_be_bytes().to_vec(), last.to_be_bytes().to_vec()));
    let v6 = set.ranges_v6().iter().map(|(first, last)| (first.to_be_bytes().to_vec(), last.to_be_bytes().to_vec()));
    v4.chain(v6).collect()
}

fn address(value: &Expr, set: &AddressSet) -> Expr {
    if set.ranges_v4().len() + set.ranges_v6().len() <= RANGES_WRITTEN_MAX {
        let tests = address_ranges(set).into_iter().map(|(first, last)| in_range(value, first, last));
        return tests.reduce(Expr::or).unwrap_or_else(|| lit(false));
    }
    let v4 = set.ranges_v4().first().zip(set.ranges_v4().last()).map(|(first, last)| (first.0, last.1));
    let v6 = set.ranges_v6().first().zip(set.ranges_v6().last()).map(|(first, last)| (first.0, last.1));
    let bounds = AddressSet::from_ranges(v4.into_iter().collect(), v6.into_iter().collect());
    let tests = address_ranges(&bounds)
        .into_iter()
        .map(|(first, last)| value.clone().gt_eq(lit_octets(first)).and(value.clone().lt_eq(lit_octets(last))));
    let within = tests.reduce(Expr::or).unwrap_or_else(|| lit(false));
    within.and(address_in(value.clone(), set))
}
