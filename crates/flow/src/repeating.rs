//! Values that come again and again.

/// Makes the last `count` values `times` times as many, in copies that double.
pub(crate) fn repeat_last<T: Copy>(values: &mut Vec<T>, count: usize, times: usize) {
    let first = values.len() - count;
    let length = count * times;
    values.reserve(length - count);
    while values.len() - first < length {
        let have = values.len() - first;
        values.extend_from_within(first..first + have.min(length - have));
    }
}
