//! Columns of whole numbers and times, whatever their width.
//!
//! A number becomes a 128-bit one, which holds those of every type and sums of them. The loop is made for each type, so
//! the compiler knows how many of the bits can be other than 0.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, downcast_integer};
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};
use weir_chain::BlockError;

/// Calls `visit` with the number of each row and its value, `None` for a null. Times are milliseconds.
pub(crate) fn visit(
    name: &str,
    column: &ArrayRef,
    mut visit: impl FnMut(usize, Option<i128>),
) -> Result<(), BlockError> {
    macro_rules! numbers {
        ($type:ty) => {
            visit_values::<$type>(column, &mut visit)
        };
    }
    downcast_integer! {
        column.data_type() => (numbers),
        DataType::Timestamp(TimeUnit::Millisecond, _) => visit_values::<TimestampMillisecondType>(column, &mut visit),
        other => {
            let message = format!("column '{name}' has type {other}, but whole numbers are needed");
            return Err(BlockError::new(message));
        }
    }
    Ok(())
}

#[inline]
fn visit_values<T: ArrowPrimitiveType<Native: Into<i128>>>(
    column: &ArrayRef,
    visit: &mut impl FnMut(usize, Option<i128>),
) {
    let column = column.as_primitive::<T>();
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => column.values().iter().enumerate().for_each(|(row, value)| visit(row, Some((*value).into()))),
        Some(nulls) => column.values().iter().enumerate().for_each(|(row, value)| {
            visit(row, nulls.is_valid(row).then(|| (*value).into()));
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int8Array, Int64Array, StringArray, TimestampMillisecondArray, UInt16Array, UInt64Array};

    use super::*;

    fn numbers(column: ArrayRef) -> Vec<Option<i128>> {
        let mut found = Vec::new();
        visit("x", &column, |row, value| {
            assert_eq!(row, found.len());
            found.push(value);
        })
        .expect("numbers");
        found
    }

    #[test]
    fn every_width_and_sign() {
        assert_eq!(
            numbers(Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)]))),
            [Some(-128), None, Some(127)]
        );
        assert_eq!(numbers(Arc::new(UInt16Array::from(vec![0, 65535]))), [Some(0), Some(65535)]);
        let far = [i64::MIN, i64::MAX];
        assert_eq!(numbers(Arc::new(Int64Array::from(far.to_vec()))), far.map(|value| Some(value.into())));
        assert_eq!(numbers(Arc::new(UInt64Array::from(vec![u64::MAX]))), [Some(u64::MAX.into())]);
        assert_eq!(numbers(Arc::new(TimestampMillisecondArray::from(vec![-5]).with_timezone("UTC"))), [Some(-5)]);
    }

    #[test]
    fn a_part_of_a_column_is_read_from_its_start() {
        let column: ArrayRef = Arc::new(UInt16Array::from(vec![Some(1), Some(2), None, Some(4)]));
        assert_eq!(numbers(column.slice(1, 2)), [Some(2), None]);
    }

    #[test]
    fn text_is_no_number() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
        let error = visit("x", &column, |_, _| {}).expect_err("no numbers");
        assert_eq!(error.to_string(), "column 'x' has type Utf8, but whole numbers are needed");
    }
}
