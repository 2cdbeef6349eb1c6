//! Which rows of a batch are true.

use std::ops::BitAnd;

use arrow::array::Array;
use arrow::buffer::BooleanBuffer;

/// Which rows are true. All and none are distinguished, so that they cost no memory and end a chain early.
pub(super) enum Mask {
    All,
    None,
    Some(BooleanBuffer),
}

/// Notices that bits are all the same.
pub(super) fn narrow(bits: BooleanBuffer) -> Mask {
    match bits.count_set_bits() {
        0 => Mask::None,
        set if set == bits.len() => Mask::All,
        _ => Mask::Some(bits),
    }
}

/// The rows that are true where there is a value: a test on a null is false.
pub(super) fn with_nulls(values: &dyn Array, bits: BooleanBuffer) -> Mask {
    narrow(match values.nulls() {
        Some(nulls) => bits.bitand(nulls.inner()),
        None => bits,
    })
}
