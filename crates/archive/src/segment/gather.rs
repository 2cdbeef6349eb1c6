//! Rows of a column in another order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt32Array};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::take;
use arrow::error::ArrowError;

use super::columns::joined;

/// Octets of an IPv4 address.
const SHORT: usize = 4;

/// A column of which rows are gathered.
pub(super) enum Gather {
    /// Octets that are all of this length and never null. The general way copies every value by itself, which for
    /// columns of IPv4 addresses took a tenth of the whole sealing.
    Short(Vec<[u8; SHORT]>),
    /// Anything else.
    General(ArrayRef),
}

impl Gather {
    /// A column, given in pieces.
    pub(super) fn new(pieces: Vec<ArrayRef>) -> Result<Self, ArrowError> {
        let short =
            |piece: &ArrayRef| piece.as_binary_opt::<i32>().is_some_and(|values| short_values(values).is_some());
        if !pieces.is_empty() && pieces.iter().all(short) {
            let values = pieces.iter().filter_map(|piece| short_values(piece.as_binary::<i32>()));
            return Ok(Self::Short(values.collect::<Vec<_>>().concat()));
        }
        joined(pieces).map(Self::General)
    }

    /// The values of these rows.
    pub(super) fn rows(&self, rows: &UInt32Array) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::General(values) => take(values, rows, None),
            Self::Short(short) => {
                let octets: Vec<[u8; SHORT]> = rows.values().iter().map(|&row| short[row as usize]).collect();
                let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(SHORT, rows.len()));
                let octets = Buffer::from_vec(octets.into_flattened());
                Ok(Arc::new(BinaryArray::try_new(offsets, octets, None)?))
            }
        }
    }
}

fn short_values(values: &BinaryArray) -> Option<&[[u8; SHORT]]> {
    let offsets = values.value_offsets();
    let is_short = values.null_count() == 0 && offsets.windows(2).all(|pair| pair[1] - pair[0] == SHORT as i32);
    let (first, end) = (*offsets.first()?, *offsets.last()?);
    is_short.then(|| values.value_data()[first as usize..end as usize].as_chunks().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_same() {
        let rows = UInt32Array::from(vec![3, 1, 1]);
        let octets: [&[u8]; 5] = [&[9; 4], &[1, 2, 3, 4], &[7; 4], &[0; 4], &[5; 4]];
        let short: ArrayRef = Arc::new(BinaryArray::from_vec(octets.to_vec()));
        let mixed: ArrayRef = Arc::new(BinaryArray::from_iter([Some(&[1u8; 4][..]), None, Some(&[2; 16]), Some(&[])]));
        for (values, is_short) in [(short.slice(1, 4), true), (short, true), (mixed.slice(0, 4), false)] {
            let pieces = vec![values.slice(0, 1), values.slice(1, values.len() - 1)];
            let gather = Gather::new(pieces).expect("pieces of one type");
            assert_eq!(matches!(gather, Gather::Short(_)), is_short);
            assert_eq!(&gather.rows(&rows).expect("rows"), &take(&values, &rows, None).expect("rows"));
        }
    }
}
