//! One bit for each value, 64 values at a time.
//!
//! Eight bits of a mask come from eight octets of 0 or 1 by one multiplication. What is left is a loop over 64 values
//! without a branch, which the compiler turns into vector instructions; a loop that shifts one bit after the other into
//! place it does not.

use arrow::buffer::{BooleanBuffer, Buffer};

const LANES: usize = 64;

/// Which values are wanted. `wanted` should not branch.
pub(super) fn bits_where<T: Copy>(values: &[T], wanted: impl Fn(T) -> bool) -> BooleanBuffer {
    bits_by_chunk(values, |chunk, found| {
        for (found, value) in found.iter_mut().zip(chunk) {
            *found = u8::from(wanted(*value));
        }
    })
}

/// As [`bits_where`], but `look` sees up to 64 values at once and sets octets of 1 for those that are wanted.
pub(super) fn bits_by_chunk<T: Copy>(values: &[T], mut look: impl FnMut(&[T], &mut [u8; LANES])) -> BooleanBuffer {
    let mut words: Vec<u64> = Vec::with_capacity(values.len().div_ceil(LANES));
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        let mut found = [0; LANES];
        look(chunk, &mut found);
        words.push(word_of(&found));
    }
    if !rest.is_empty() {
        let mut found = [0; LANES];
        look(rest, &mut found);
        words.push(word_of(&found));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

/// As [`bits_where`], of two slices of the same length side by side.
pub(super) fn bits_of_pairs<T: Copy>(left: &[T], right: &[T], wanted: impl Fn(T, T) -> bool) -> BooleanBuffer {
    let mut rights = right.chunks(LANES);
    bits_by_chunk(left, |lefts, found| {
        let rights = rights.next().unwrap_or_default();
        for (found, (left, right)) in found.iter_mut().zip(lefts.iter().zip(rights)) {
            *found = u8::from(wanted(*left, *right));
        }
    })
}

/// 64 octets of 0 or 1 as bits, the first as the lowest.
fn word_of(found: &[u8; LANES]) -> u64 {
    // Octet i of eight moves to bit 56 + i: its factor is 2^(56 - 7 i).
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = found.as_chunks::<8>();
    eights.iter().rev().fold(0, |word, eight| word << 8 | u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_values() {
        for length in [0, 1, 63, 64, 65, 200] {
            let values: Vec<u32> = (0..length).map(|i: u32| i.wrapping_mul(2_654_435_761) >> 7).collect();
            let wanted = |value: u32| value & 3 == 1;
            let bits = bits_where(&values, wanted);
            assert_eq!(bits.len(), values.len());
            assert!(bits.iter().zip(&values).all(|(bit, value)| bit == wanted(*value)), "{length}");
            let next: Vec<u32> = values.iter().map(|value| value + 1).collect();
            let pairs = bits_of_pairs(&values, &next, |value, next| wanted(value) && next == value + 1);
            assert!(pairs.iter().eq(bits.iter()), "{length}");
            assert_eq!(bits.count_set_bits(), values.iter().filter(|value| wanted(**value)).count());
        }
    }
}
