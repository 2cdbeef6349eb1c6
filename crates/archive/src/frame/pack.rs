//! Columns in fewer octets, for tails.
//!
//! A tail is written once and read once, and at a million records a second its octets are what the disk, the page cache
//! and the copy into it have to bear. Most of a flow's numbers are small or lie close together within one delivery, so
//! a column without nulls is kept
//!
//! * as one value, when all are equal,
//! * as differences from its smallest value in the narrowest type that holds them,
//! * without the offsets of its octets, when all are as long as the first.
//!
//! That costs a look at smallest and largest value and halves the tail; a general compression would save more and cost
//! a multiple. What was done is in the metadata of the field. Everything else is kept as it is.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, FixedSizeBinaryArray, NullArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Field, Schema, TimeUnit, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;

/// Metadata key of a packed column of numbers: the smallest value.
const BASE: &str = "weir.base";
/// Metadata key of a column of octets that are all equal: how many, and as a number.
const OCTETS: &str = "weir.octets";
/// Longest octets kept as one value.
const OCTETS_MAX: usize = 16;

/// A number of a column that can be packed.
trait Packable: ArrowPrimitiveType {
    fn wide(value: Self::Native) -> i128;
    fn difference(value: Self::Native, base: Self::Native) -> u64;
    fn sum(base: Self::Native, difference: u64) -> Self::Native;
    fn parse(text: &str) -> Option<Self::Native>;
}

macro_rules! packable {
    ($($arrow:ty, $native:ty);*) => {
        $(impl Packable for $arrow {
            fn wide(value: $native) -> i128 {
                value.into()
            }

            fn difference(value: $native, base: $native) -> u64 {
                value.wrapping_sub(base) as u64
            }

            fn sum(base: $native, difference: u64) -> $native {
                base.wrapping_add(difference as $native)
            }

            fn parse(text: &str) -> Option<$native> {
                text.parse().ok()
            }
        })*
    };
}
packable!(UInt8Type, u8; UInt16Type, u16; UInt32Type, u32; UInt64Type, u64; TimestampMillisecondType, i64);

/// The batch in fewer octets.
pub(crate) fn pack(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if let Some((column, key, value)) = packed(column) {
            let mut metadata = field.metadata().clone();
            metadata.insert(key.to_owned(), value);
            fields.push(Arc::new(Field::new(field.name(), column.data_type().clone(), true).with_metadata(metadata)));
            columns.push(column);
        } else {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

/// A column packed, with its metadata.
type Packed = (ArrayRef, &'static str, String);

fn packed(column: &ArrayRef) -> Option<Packed> {
    if column.null_count() > 0 || column.is_empty() {
        return None;
    }
    match column.data_type() {
        DataType::UInt8 => numbers(column.as_primitive::<UInt8Type>()),
        DataType::UInt16 => numbers(column.as_primitive::<UInt16Type>()),
        DataType::UInt32 => numbers(column.as_primitive::<UInt32Type>()),
        DataType::UInt64 => numbers(column.as_primitive::<UInt64Type>()),
        DataType::Timestamp(TimeUnit::Millisecond, _) => numbers(column.as_primitive::<TimestampMillisecondType>()),
        DataType::Binary => octets(column.as_binary::<i32>()),
        _ => None,
    }
}

fn numbers<T: Packable>(values: &PrimitiveArray<T>) -> Option<Packed> {
    let (base, largest) = (min(values)?, max(values)?);
    let range = T::wide(largest) - T::wide(base);
    let packed: ArrayRef = if range == 0 {
        Arc::new(NullArray::new(values.len()))
    } else if range <= u8::MAX.into() && size_of::<T::Native>() > 1 {
        narrow::<T, UInt8Type>(values, |value| T::difference(value, base) as u8)
    } else if range <= u16::MAX.into() && size_of::<T::Native>() > 2 {
        narrow::<T, UInt16Type>(values, |value| T::difference(value, base) as u16)
    } else if range <= u32::MAX.into() && size_of::<T::Native>() > 4 {
        narrow::<T, UInt32Type>(values, |value| T::difference(value, base) as u32)
    } else {
        return None;
    };
    Some((packed, BASE, T::wide(base).to_string()))
}

fn narrow<T: Packable, N: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    difference: impl Fn(T::Native) -> N::Native,
) -> ArrayRef {
    Arc::new(values.unary::<_, N>(difference))
}

fn octets(values: &BinaryArray) -> Option<Packed> {
    let length = values.value_length(0);
    let offsets = values.value_offsets();
    if length == 0 || !offsets.windows(2).all(|pair| pair[1] - pair[0] == length) {
        return None;
    }
    let octets = values.values().slice_with_length(offsets[0] as usize, length as usize * values.len());
    let first = &octets[..length as usize];
    if first.len() <= OCTETS_MAX && octets.chunks_exact(first.len()).all(|value| value == first) {
        let number = first.iter().fold(0, |number, octet| number << 8 | u128::from(*octet));
        let text = format!("{length}:{number}");
        return Some((Arc::new(NullArray::new(values.len())), OCTETS, text));
    }
    let array = FixedSizeBinaryArray::try_new(length, octets, None).ok()?;
    Some((Arc::new(array), OCTETS, String::new()))
}

/// A column as it was before it was packed; `original` is the type that it had.
pub(crate) fn unpack(field: &Field, column: &ArrayRef, original: &DataType) -> Result<ArrayRef, ArrowError> {
    let damaged = || ArrowError::IpcError(format!("column '{}' cannot be unpacked", field.name()));
    if let Some(base) = field.metadata().get(BASE) {
        return match original {
            DataType::UInt8 => sums::<UInt8Type>(column, base).map(array),
            DataType::UInt16 => sums::<UInt16Type>(column, base).map(array),
            DataType::UInt32 => sums::<UInt32Type>(column, base).map(array),
            DataType::UInt64 => sums::<UInt64Type>(column, base).map(array),
            DataType::Timestamp(TimeUnit::Millisecond, zone) => {
                let times = sums::<TimestampMillisecondType>(column, base);
                times.map(|times| array(times.with_timezone_opt(zone.clone())))
            }
            _ => None,
        }
        .ok_or_else(damaged);
    }
    match field.metadata().get(OCTETS) {
        Some(text) => whole_octets(column, text).ok_or_else(damaged),
        None => Ok(Arc::clone(column)),
    }
}

fn array<T: ArrowPrimitiveType>(values: PrimitiveArray<T>) -> ArrayRef {
    Arc::new(values)
}

fn sums<T: Packable>(column: &ArrayRef, base: &str) -> Option<PrimitiveArray<T>> {
    let base = T::parse(base)?;
    Some(match column.data_type() {
        DataType::Null => PrimitiveArray::from_value(base, column.len()),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().unary(|value| T::sum(base, value.into())),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().unary(|value| T::sum(base, value.into())),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().unary(|value| T::sum(base, value.into())),
        _ => return None,
    })
}

fn whole_octets(column: &ArrayRef, text: &str) -> Option<ArrayRef> {
    let (length, octets) = match column.data_type() {
        DataType::Null => {
            let (length, number) = text.split_once(':')?;
            let (length, number): (usize, u128) = (length.parse().ok()?, number.parse().ok()?);
            let octets = number.to_be_bytes();
            let octets = octets.get(OCTETS_MAX.checked_sub(length)?..)?;
            (length, octets.repeat(column.len()).into())
        }
        DataType::FixedSizeBinary(length) => {
            let values = column.as_fixed_size_binary_opt()?;
            (usize::try_from(*length).ok()?, values.values().clone())
        }
        _ => return None,
    };
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(length, column.len()));
    Some(Arc::new(BinaryArray::try_new(offsets, octets, None).ok()?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{TimestampMillisecondArray, UInt8Array, UInt16Array, UInt64Array};
    use proptest::prelude::*;

    use super::*;

    /// The batch packed, unpacked, and the types in between.
    fn there_and_back(batch: &RecordBatch) -> (Vec<DataType>, Vec<ArrayRef>) {
        let packed = pack(batch).expect("packed");
        let types = packed.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        let columns = packed.schema_ref().fields().iter().zip(packed.columns()).zip(batch.columns());
        let back =
            columns.map(|((field, column), before)| unpack(field, column, before.data_type()).expect("unpacked"));
        (types, back.collect())
    }

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let names = ["a", "b", "c", "d", "e"];
        RecordBatch::try_from_iter(names.into_iter().zip(columns)).expect("a batch")
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(
            rows in proptest::collection::vec((any::<u8>(), any::<u16>(), any::<u64>(), any::<i64>(), any::<[u8; 4]>()), 0..40),
            shifts in (0u32..9, 0u32..17, 0u32..65, 0u32..65),
            null_row in proptest::option::of(0usize..40),
        ) {
            let is_null = |row: usize| null_row == Some(row);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(rows.iter().map(|row| Some(row.0.checked_shr(shifts.0).unwrap_or(7))).collect::<UInt8Array>()),
                Arc::new(rows.iter().map(|row| Some(row.1.checked_shr(shifts.1).unwrap_or(9))).collect::<UInt16Array>()),
                Arc::new(rows.iter().enumerate()
                    .map(|(number, row)| (!is_null(number)).then(|| row.2.checked_shr(shifts.2).unwrap_or(u64::MAX)))
                    .collect::<UInt64Array>()),
                Arc::new(rows.iter().map(|row| Some(row.3.checked_shr(shifts.3).unwrap_or(i64::MIN)))
                    .collect::<TimestampMillisecondArray>().with_timezone("UTC")),
                Arc::new(rows.iter().map(|row| Some(&row.4[..])).collect::<BinaryArray>()),
            ];
            let batch = batch(columns);
            let (_, back) = there_and_back(&batch);
            prop_assert_eq!(&back[..], batch.columns());
            // pieces of a batch have offsets that do not begin at 0
            let piece = batch.slice(rows.len() / 2, rows.len() - rows.len() / 2);
            prop_assert_eq!(&there_and_back(&piece).1[..], piece.columns());
        }
    }

    #[test]
    fn every_column_takes_the_fewest_octets() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 300])),
            Arc::new(TimestampMillisecondArray::from(vec![1_763_683_200_000, 1_763_683_300_000]).with_timezone("UTC")),
            Arc::new(BinaryArray::from_vec(vec![&[10, 0, 0, 1], &[10, 0, 0, 2]])),
            Arc::new(BinaryArray::from_vec(vec![&[10, 0, 0, 1], &[10, 0, 0, 1]])),
            Arc::new(BinaryArray::from_vec(vec![&[10, 0, 0, 1][..], &[0; 16][..]])),
        ];
        let (types, back) = there_and_back(&batch(columns.clone()));
        let expected =
            [DataType::UInt16, DataType::UInt32, DataType::FixedSizeBinary(4), DataType::Null, DataType::Binary];
        assert_eq!(types, expected);
        assert_eq!(back, columns);
    }

    #[test]
    fn damage_is_an_error() {
        let column: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2]));
        for (key, value) in [(BASE, "x"), (BASE, "1"), (OCTETS, "0")] {
            let field =
                Field::new("a", DataType::UInt64, true).with_metadata([(key.to_owned(), value.to_owned())].into());
            assert!(unpack(&field, &column, &DataType::UInt64).is_err(), "{key} {value}");
        }
    }
}
