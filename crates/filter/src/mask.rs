//! Predicates as masks over batches.
//!
//! Each test runs over a whole column at once, with its constant taken out of the loop; `and` and `or` stop as soon as
//! the answer cannot change; a column that a batch lacks costs nothing.

mod computed;

use std::ops::{BitAnd, BitOr, Not, RangeInclusive};

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, PrimitiveArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, ColumnType, FlowBatch};

use crate::{AddressSet, NumberSet, Operand, Predicate, Test};

/// Which rows are true. All and none are told apart, so that they cost no memory and end a chain early.
enum Mask {
    All,
    None,
    Some(BooleanBuffer),
}

impl Predicate {
    /// Which flows of the batch the predicate takes: one value per row, never null.
    pub fn mask(&self, batch: &FlowBatch) -> BooleanArray {
        let rows = batch.rows();
        BooleanArray::from(match self.evaluate(batch) {
            Mask::All => BooleanBuffer::new_set(rows),
            Mask::None => BooleanBuffer::new_unset(rows),
            Mask::Some(bits) => bits,
        })
    }

    fn evaluate(&self, batch: &FlowBatch) -> Mask {
        match self {
            Self::True => Mask::All,
            Self::False => Mask::None,
            Self::Not(part) => match part.evaluate(batch) {
                Mask::All => Mask::None,
                Mask::None => Mask::All,
                Mask::Some(bits) => Mask::Some(bits.not()),
            },
            Self::And(parts) => {
                let mut all = Mask::All;
                for part in parts {
                    all = match (all, part.evaluate(batch)) {
                        (_, Mask::None) => return Mask::None,
                        (all, Mask::All) => all,
                        (Mask::Some(left), Mask::Some(right)) => narrow(left.bitand(&right)),
                        (_, part) => part,
                    };
                    if matches!(all, Mask::None) {
                        return Mask::None;
                    }
                }
                all
            }
            Self::Or(parts) => {
                let mut any = Mask::None;
                for part in parts {
                    any = match (any, part.evaluate(batch)) {
                        (_, Mask::All) => return Mask::All,
                        (any, Mask::None) => any,
                        (Mask::Some(left), Mask::Some(right)) => narrow(left.bitor(&right)),
                        (_, part) => part,
                    };
                    if matches!(any, Mask::All) {
                        return Mask::All;
                    }
                }
                any
            }
            Self::Test(test) => test.evaluate(batch),
        }
    }
}

/// Notices that bits are all the same.
fn narrow(bits: BooleanBuffer) -> Mask {
    match bits.count_set_bits() {
        0 => Mask::None,
        set if set == bits.len() => Mask::All,
        _ => Mask::Some(bits),
    }
}

impl Test {
    fn evaluate(&self, batch: &FlowBatch) -> Mask {
        match self {
            Self::Number { operand, comparison, value } => match comparison.range(*value) {
                Some((first, last)) => operand_in(batch, *operand, &[(first, last)]),
                None => Mask::None,
            },
            Self::NumberIn { operand, values } => operand_in(batch, *operand, values.ranges()),
            Self::Address { column, set } => match batch.binary(*column) {
                Some(addresses) => addresses_in(addresses, set),
                None => Mask::None,
            },
            Self::Flags { mask, exact } => flags_set(batch, *mask, *exact),
            Self::Family { v6 } => {
                let width = if *v6 { 16 } else { 4 };
                let sides = [Column::SrcAddr, Column::DstAddr].into_iter().filter_map(|column| batch.binary(column));
                let mut bits = sides.map(|addresses| of_width(addresses, width));
                match (bits.next(), bits.next()) {
                    (Some(src), Some(dst)) => narrow(src.bitor(&dst)),
                    (Some(only), None) => narrow(only),
                    _ => Mask::None,
                }
            }
            Self::Time { column, comparison, ms } => {
                match (batch.primitive::<TimestampMillisecondType>(*column), comparison.time_range(*ms)) {
                    (Some(times), Some((first, last))) => values_in(times, first..=last),
                    _ => Mask::None,
                }
            }
            Self::Mac { column, mac } => match batch.binary(*column) {
                Some(macs) => octets_where(macs, |octets| octets == mac),
                None => Mask::None,
            },
        }
    }
}

fn operand_in(batch: &FlowBatch, operand: Operand, ranges: &[(u64, u64)]) -> Mask {
    match operand {
        Operand::Column(column) => match batch.column(column) {
            Some(values) => column_in(values, column.column_type(), ranges),
            None => Mask::None,
        },
        // Null counts as 1, and so does a column that is not there.
        Operand::Flows => {
            let null_is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&1));
            match batch.column(Column::Flows) {
                Some(flows) if null_is_in => match column_in(flows, ColumnType::U64, ranges) {
                    Mask::All => Mask::All,
                    Mask::None => flows.nulls().map_or(Mask::None, |nulls| narrow(nulls.inner().not())),
                    Mask::Some(bits) => match flows.nulls() {
                        Some(nulls) => narrow(bits.bitor(&nulls.inner().not())),
                        None => Mask::Some(bits),
                    },
                },
                Some(flows) => column_in(flows, ColumnType::U64, ranges),
                None if null_is_in => Mask::All,
                None => Mask::None,
            }
        }
        _ => match computed::values(batch, operand) {
            Some(values) => numbers_in(&values, ranges),
            None => Mask::None,
        },
    }
}

fn column_in(values: &ArrayRef, column_type: ColumnType, ranges: &[(u64, u64)]) -> Mask {
    let mask = match column_type {
        ColumnType::U8 => values.as_primitive_opt::<UInt8Type>().map(|values| numbers_in(values, ranges)),
        ColumnType::U16 => values.as_primitive_opt::<UInt16Type>().map(|values| numbers_in(values, ranges)),
        ColumnType::U32 => values.as_primitive_opt::<UInt32Type>().map(|values| numbers_in(values, ranges)),
        ColumnType::U64 => values.as_primitive_opt::<UInt64Type>().map(|values| numbers_in(values, ranges)),
        _ => None,
    };
    mask.unwrap_or(Mask::None)
}

/// Which numbers lie in one of the ranges, which are sorted and disjoint.
fn numbers_in<T>(values: &PrimitiveArray<T>, ranges: &[(u64, u64)]) -> Mask
where
    T: ArrowPrimitiveType,
    T::Native: Into<u64> + TryFrom<u64> + Ord,
{
    // A range beyond the type's largest value is cut off there, or left out.
    let largest = T::Native::MAX_TOTAL_ORDER;
    let cut = |(first, last): &(u64, u64)| {
        Some(T::Native::try_from(*first).ok()?..=T::Native::try_from(*last).unwrap_or(largest))
    };
    let cut: Vec<RangeInclusive<T::Native>> = ranges.iter().filter_map(cut).collect();
    match &cut[..] {
        [] => Mask::None,
        [only] => values_in(values, only.clone()),
        [one, two] => values_where(values, |value| one.contains(&value) | two.contains(&value)),
        _ => {
            let set = NumberSet::from_ranges(ranges.to_vec());
            values_where(values, |value| set.contains(value.into()))
        }
    }
}

#[expect(clippy::needless_bitwise_bool, reason = "a branch would keep the loop from becoming vector instructions")]
fn values_in<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, range: RangeInclusive<T::Native>) -> Mask
where
    T::Native: Ord,
{
    let (first, last) = range.into_inner();
    // Two comparisons without a branch, which the compiler turns into vector instructions.
    values_where(values, |value| (value >= first) & (value <= last))
}

fn values_where<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, wanted: impl Fn(T::Native) -> bool) -> Mask {
    let slice: &[T::Native] = values.values();
    with_nulls(values, BooleanBuffer::collect_bool(slice.len(), |row| wanted(slice[row])))
}

fn with_nulls(values: &dyn Array, bits: BooleanBuffer) -> Mask {
    narrow(match values.nulls() {
        Some(nulls) => bits.bitand(nulls.inner()),
        None => bits,
    })
}

fn octets_where(values: &BinaryArray, wanted: impl Fn(&[u8]) -> bool) -> Mask {
    let (offsets, octets) = (values.value_offsets(), values.value_data());
    let value = |row: usize| &octets[offsets[row] as usize..offsets[row + 1] as usize];
    with_nulls(values, BooleanBuffer::collect_bool(values.len(), |row| wanted(value(row))))
}

fn of_width(values: &BinaryArray, width: i32) -> BooleanBuffer {
    let offsets = values.value_offsets();
    let bits = BooleanBuffer::collect_bool(values.len(), |row| offsets[row + 1] - offsets[row] == width);
    match values.nulls() {
        Some(nulls) => bits.bitand(nulls.inner()),
        None => bits,
    }
}

fn addresses_in(addresses: &BinaryArray, set: &AddressSet) -> Mask {
    // A single IPv4 prefix, the usual case, needs no search.
    if let ([(first, last)], []) = (set.ranges_v4(), set.ranges_v6()) {
        let range = *first..=*last;
        return octets_where(addresses, |octets| {
            <[u8; 4]>::try_from(octets).is_ok_and(|v4| range.contains(&u32::from_be_bytes(v4)))
        });
    }
    octets_where(addresses, |octets| set.contains(octets))
}

fn flags_set(batch: &FlowBatch, mask: u16, exact: bool) -> Mask {
    let Some(flags) = batch.primitive::<UInt16Type>(Column::TcpFlags) else { return Mask::None };
    let Some(protocols) = batch.primitive::<UInt8Type>(Column::Protocol) else { return Mask::None };
    let compared = if exact { u16::MAX } else { mask };
    let set = values_where(flags, |flags| flags & compared == mask);
    match (set, values_where(protocols, |protocol| protocol == 6)) {
        (Mask::Some(set), Mask::Some(tcp)) => narrow(set.bitand(&tcp)),
        (Mask::None, _) | (_, Mask::None) => Mask::None,
        (Mask::All, tcp) => tcp,
        (set, Mask::All) => set,
    }
}
