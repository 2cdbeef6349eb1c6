//! Predicates as masks over batches.
//!
//! Each test runs over a whole column at once, with its constant taken out of the loop; `and` and `or` stop as soon as
//! the answer cannot change; a column that a batch lacks costs nothing.

mod addresses;
mod bits;
mod computed;
mod elements;
mod rows;

use std::ops::{BitAnd, BitOr, Not, RangeInclusive};

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, StringArray,
    UInt64Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, ColumnType, FlowBatch};

use addresses::{addresses_in, octets_where, of_width};
use bits::{bits_by_chunk, bits_where};
use rows::{Mask, narrow, with_nulls};

use crate::{NumberSet, Operand, Predicate, Test, TextCondition, USER_NAME_ELEMENTS};

/// Ranges of a set of numbers up to which each is compared with every value, rather than looked up.
const RANGES_COMPARED_MAX: usize = 8;

/// Where the records of a batch are in the file that they were read from, for `count` and `ident`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileRecords<'a> {
    /// Records that were read before the first of the batch, of all files.
    pub before: u64,
    /// Ident of the file.
    pub ident: &'a str,
}

impl Predicate {
    /// Which flows of the batch the predicate takes: one value per row, never null. Where it asks for the place of
    /// records in files, the batch counts as the whole of a file without ident.
    pub fn mask(&self, batch: &FlowBatch) -> BooleanArray {
        self.mask_in_file(batch, FileRecords::default())
    }

    /// Which flows the predicate takes of a batch at this place of a file.
    pub fn mask_in_file(&self, batch: &FlowBatch, file: FileRecords<'_>) -> BooleanArray {
        let rows = batch.rows();
        BooleanArray::from(match self.evaluate(batch, file) {
            Mask::All => BooleanBuffer::new_set(rows),
            Mask::None => BooleanBuffer::new_unset(rows),
            Mask::Some(bits) => bits,
        })
    }

    fn evaluate(&self, batch: &FlowBatch, file: FileRecords<'_>) -> Mask {
        match self {
            Self::True => Mask::All,
            Self::False => Mask::None,
            Self::Not(part) => match part.evaluate(batch, file) {
                Mask::All => Mask::None,
                Mask::None => Mask::All,
                Mask::Some(bits) => Mask::Some(bits.not()),
            },
            Self::And(parts) => {
                let mut all = Mask::All;
                for part in parts {
                    all = match (all, part.evaluate(batch, file)) {
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
                    any = match (any, part.evaluate(batch, file)) {
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
            Self::Test(test) => test.evaluate(batch, file),
        }
    }
}

impl Test {
    fn evaluate(&self, batch: &FlowBatch, file: FileRecords<'_>) -> Mask {
        match self {
            Self::Number { operand, comparison, value } => match comparison.range(*value) {
                Some((first, last)) => operand_in(batch, file, *operand, &[(first, last)]),
                None => Mask::None,
            },
            Self::NumberIn { operand, values } => operand_in(batch, file, *operand, values.ranges()),
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
            Self::Text { column, condition } => match batch.text(*column) {
                Some(texts) => texts_where(texts, condition),
                None => Mask::None,
            },
            Self::PortInBlock { column } => port_in_block(batch, *column).unwrap_or(Mask::None),
            Self::UserName(name) => {
                elements::text_where(batch, USER_NAME_ELEMENTS, |text| text == name).map_or(Mask::None, narrow)
            }
            Self::ElementText { elements, condition } => {
                elements::text_where(batch, elements, |text| condition.holds(text)).map_or(Mask::None, narrow)
            }
            Self::Ident(ident) if ident == file.ident => Mask::All,
            Self::Ident(_) => Mask::None,
        }
    }
}

fn operand_in(batch: &FlowBatch, file: FileRecords<'_>, operand: Operand, ranges: &[(u64, u64)]) -> Mask {
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
        Operand::RecordNumber => {
            let numbers = (1..=batch.rows() as u64).map(|row| file.before.saturating_add(row));
            numbers_in(&UInt64Array::from_iter_values(numbers), ranges)
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

/// Which numbers are in one of the ranges, which are sorted and disjoint.
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
        few if few.len() <= RANGES_COMPARED_MAX => {
            let bits = bits_by_chunk(values.values(), |chunk, found| {
                for range in few {
                    for (found, value) in found.iter_mut().zip(chunk) {
                        *found |= u8::from((value >= range.start()) & (value <= range.end()));
                    }
                }
            });
            with_nulls(values, bits)
        }
        many if size_of::<T::Native>() <= 2 => {
            // A table of all the values that there are, 8 KiB at most, is made sooner than a batch is searched.
            let mut table = vec![0_u64; (1 << (8 * size_of::<T::Native>())) / 64];
            for range in many {
                for value in (*range.start()).into()..=(*range.end()).into() {
                    table[(value / 64) as usize] |= 1 << (value % 64);
                }
            }
            values_where(values, |value| {
                let value: u64 = value.into();
                table[(value / 64) as usize] >> (value % 64) & 1 == 1
            })
        }
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
    with_nulls(values, bits_where(values.values(), wanted))
}

fn texts_where(texts: &StringArray, condition: &TextCondition) -> Mask {
    // nearly all flows have none, and of the others many have that of the one before
    let mut last = None;
    narrow(BooleanBuffer::collect_bool(texts.len(), |row| {
        if texts.is_null(row) {
            return false;
        }
        let text = texts.value(row);
        match last {
            Some((known, holds)) if known == text => holds,
            _ => last.insert((text, condition.holds(text))).1,
        }
    }))
}

fn port_in_block(batch: &FlowBatch, column: Column) -> Option<Mask> {
    let ports = batch.primitive::<UInt16Type>(column)?;
    let first = batch.primitive::<UInt16Type>(Column::PortRangeStart)?;
    let last = batch.primitive::<UInt16Type>(Column::PortRangeEnd)?;
    let bits = BooleanBuffer::collect_bool(ports.len(), |row| {
        (first.values()[row]..=last.values()[row]).contains(&ports.values()[row])
    });
    let nulls = NullBuffer::union(NullBuffer::union(first.nulls(), last.nulls()).as_ref(), ports.nulls());
    Some(narrow(match nulls {
        Some(nulls) => bits.bitand(nulls.inner()),
        None => bits,
    }))
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
