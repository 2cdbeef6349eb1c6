//! How large values are, without looking at each octet of them.

use arrow::array::{Array, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{ByteArrayType, DataType};

/// Octets of the values of an array, as far as the array shows them: a slice counts as itself.
pub(super) fn octets(array: &dyn Array) -> usize {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// Octets of a batch.
pub(crate) fn octets_of_batch(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|values| octets(values)).sum()
}

fn longest<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    offsets.windows(2).map(|ends| (ends[1] - ends[0]).as_usize()).max().unwrap_or(0)
}

fn longest_of<T: ByteArrayType>(array: &dyn Array) -> usize {
    longest(array.as_bytes::<T>().value_offsets())
}

/// Octets of the largest value, at least; of lists, by the mean of what they hold.
pub(super) fn widest(array: &dyn Array) -> usize {
    use arrow::datatypes::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
    let of_list = |longest: usize, values: &dyn Array| longest * octets(values).div_ceil(values.len().max(1));
    match array.data_type() {
        DataType::Utf8 => longest_of::<Utf8Type>(array),
        DataType::LargeUtf8 => longest_of::<LargeUtf8Type>(array),
        DataType::Binary => longest_of::<BinaryType>(array),
        DataType::LargeBinary => longest_of::<LargeBinaryType>(array),
        DataType::Utf8View => array.as_string_view().lengths().max().unwrap_or(0) as usize,
        DataType::BinaryView => array.as_binary_view().lengths().max().unwrap_or(0) as usize,
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            of_list(longest(list.value_offsets()), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            of_list(longest(list.value_offsets()), list.values())
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|values| widest(values)).sum(),
        _ => octets(array).div_ceil(array.len().max(1)),
    }
}

/// How many innermost values each row of a list has, through lists of lists.
pub(super) fn innermost(array: &dyn Array, depth: usize) -> Vec<usize> {
    let rows = |ends: Vec<(usize, usize)>, values: &dyn Array| -> Vec<usize> {
        if depth <= 1 {
            return ends.into_iter().map(|(first, end)| end - first).collect();
        }
        let inner = innermost(values, depth - 1);
        let sum = |(first, end): (usize, usize)| inner.get(first..end).map_or(0, |inner| inner.iter().sum());
        ends.into_iter().map(sum).collect()
    };
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            rows(ends(list.value_offsets()), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            rows(ends(list.value_offsets()), list.values())
        }
        DataType::FixedSizeList(_, length) => {
            let length = *length as usize;
            let ends = (0..array.len()).map(|row| (row * length, (row + 1) * length));
            rows(ends.collect(), array.as_fixed_size_list().values())
        }
        _ => vec![1; array.len()],
    }
}

fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<(usize, usize)> {
    offsets.windows(2).map(|ends| (ends[0].as_usize(), ends[1].as_usize())).collect()
}
