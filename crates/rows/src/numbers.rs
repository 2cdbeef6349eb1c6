//! Columns of whole numbers and times, whatever their width.
//!
//! Every number becomes a word of 64 bits, with its sign where its type has one, so that the loops behind are made once
//! and not for each of nine types. Columns of 64 bits are not copied; what speaks against it is that narrower ones are.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMillisecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use weir_chain::ComponentError;

/// The numbers of a column.
#[derive(Debug)]
pub struct Numbers {
    /// Numbers without a sign, or those with a sign in two's complement.
    pub words: ScalarBuffer<u64>,
    /// Which of them are null; `None` when none is.
    pub nulls: Option<NullBuffer>,
    /// Whether their type has a sign.
    pub has_sign: bool,
}

impl Numbers {
    /// Reads a column. Times are milliseconds.
    pub fn read(name: &str, column: &ArrayRef) -> Result<Self, ComponentError> {
        macro_rules! narrow {
            ($type:ty) => {
                // to a signed word and on to one without keeps both kinds as they are
                column.as_primitive::<$type>().values().iter().map(|value| i64::from(*value) as u64).collect()
            };
        }
        let words: ScalarBuffer<u64> = match column.data_type() {
            DataType::UInt64 => column.as_primitive::<UInt64Type>().values().clone(),
            DataType::Int64 => as_words::<Int64Type>(column),
            DataType::Timestamp(TimeUnit::Millisecond, _) => as_words::<TimestampMillisecondType>(column),
            DataType::UInt8 => narrow!(UInt8Type),
            DataType::UInt16 => narrow!(UInt16Type),
            DataType::UInt32 => narrow!(UInt32Type),
            DataType::Int8 => narrow!(Int8Type),
            DataType::Int16 => narrow!(Int16Type),
            DataType::Int32 => narrow!(Int32Type),
            other => {
                let message = format!("column '{name}' has type {other}, but whole numbers are needed");
                return Err(ComponentError::new(message));
            }
        };
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Ok(Self { words, nulls, has_sign: !column.data_type().is_unsigned_integer() })
    }
}

/// A word as the number that it stands for.
#[inline]
pub fn number(word: u64, has_sign: bool) -> i128 {
    if has_sign { (word as i64).into() } else { word.into() }
}

/// The same memory as words.
fn as_words<T: ArrowPrimitiveType>(column: &ArrayRef) -> ScalarBuffer<u64> {
    ScalarBuffer::from(column.as_primitive::<T>().values().inner().clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt16Array,
        UInt64Array,
    };
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::naive;

    fn numbers(column: impl Array + 'static) -> Vec<Option<i128>> {
        let field = Field::new("x", column.data_type().clone(), true);
        let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(column)]);
        naive::numbers(&rows.expect("rows"), "x")
    }

    #[test]
    fn every_width_and_sign() {
        assert_eq!(numbers(Int8Array::from(vec![Some(-128), None, Some(127)])), [Some(-128), None, Some(127)]);
        assert_eq!(numbers(UInt16Array::from(vec![0, 65535])), [Some(0), Some(65535)]);
        assert_eq!(numbers(Int32Array::from(vec![i32::MIN, -1])), [Some(i32::MIN.into()), Some(-1)]);
        let far = [i64::MIN, i64::MAX];
        assert_eq!(numbers(Int64Array::from(far.to_vec())), far.map(|value| Some(value.into())));
        assert_eq!(numbers(UInt64Array::from(vec![u64::MAX])), [Some(u64::MAX.into())]);
        assert_eq!(numbers(TimestampMillisecondArray::from(vec![-5]).with_timezone("UTC")), [Some(-5)]);
    }

    #[test]
    fn a_part_of_a_column_is_read_from_its_start() {
        let narrow = UInt16Array::from(vec![Some(1), Some(2), None, Some(4)]);
        assert_eq!(numbers(narrow.slice(1, 2)), [Some(2), None]);
        let wide = Int64Array::from(vec![Some(1), Some(2), None, Some(4)]);
        assert_eq!(numbers(wide.slice(2, 2)), [None, Some(4)]);
        assert_eq!(numbers(wide.slice(1, 1)), [Some(2)]);
    }

    #[test]
    fn text_is_no_number() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
        let error = Numbers::read("x", &column).expect_err("no numbers");
        assert_eq!(error.to_string(), "column 'x' has type Utf8, but whole numbers are needed");
    }
}
