//! How columns of numbers are packed.
//!
//! 256 numbers are a chunk: the smallest of them, and for each one the difference to it in as many octets as the largest
//! difference needs. Numbers that are all the same take none. Octets rather than bits, so that one number is found
//! without its neighbours and packing runs at the speed of memory; bits would save a third of the space.

/// Numbers of a chunk.
pub(crate) const CHUNK: usize = 256;

/// Appends a chunk of at most [`CHUNK`] numbers.
pub(crate) fn pack_chunk(values: &[u64], out: &mut Vec<u8>) {
    let (mut least, mut most) = (u64::MAX, 0);
    for &value in values {
        least = least.min(value);
        most = most.max(value);
    }
    let least = least.min(most);
    let width = ((64 - (most - least).leading_zeros()) as usize).div_ceil(8);
    let base_width = ((64 - least.leading_zeros()) as usize).div_ceil(8);
    out.push((base_width << 4 | width) as u8);
    out.extend_from_slice(&least.to_le_bytes()[..base_width]);
    let from = out.len();
    // every number is stored with eight octets, and the next one overwrites what was too many
    out.resize(from + values.len() * width + 8, 0);
    let mut at = from;
    for &value in values {
        out[at..at + 8].copy_from_slice(&(value - least).to_le_bytes());
        at += width;
    }
    out.truncate(from + values.len() * width);
}

/// Takes a chunk of `count` numbers off the front. `None` when the octets do not hold it.
pub(crate) fn unpack_chunk(octets: &mut &[u8], count: usize, out: &mut Vec<u64>) -> Option<()> {
    let (&head, rest) = octets.split_first()?;
    let (base_width, width) = (usize::from(head >> 4), usize::from(head & 15));
    if base_width > 8 || width > 8 {
        return None;
    }
    let (base, rest) = rest.split_at_checked(base_width)?;
    let (packed, rest) = rest.split_at_checked(count * width)?;
    let least = number(base);
    *octets = rest;
    if width == 0 {
        out.extend(std::iter::repeat_n(least, count));
        return Some(());
    }
    out.reserve(count);
    // whole words while there are eight octets, the last numbers one by one
    let whole = if packed.len() >= 8 { (packed.len() - 8) / width + 1 } else { 0 }.min(count);
    let mask = u64::MAX >> (64 - 8 * width);
    for at in (0..whole).map(|row| row * width) {
        let word = u64::from_le_bytes(packed[at..at + 8].try_into().ok()?);
        out.push(least.wrapping_add(word & mask));
    }
    out.extend(packed[whole * width..].chunks_exact(width).map(|octets| least.wrapping_add(number(octets))));
    Some(())
}

/// Appends a column of any length.
pub(crate) fn pack(values: &[u64], out: &mut Vec<u8>) {
    for chunk in values.chunks(CHUNK) {
        pack_chunk(chunk, out);
    }
}

/// Takes a column of `count` numbers off the front.
pub(crate) fn unpack(octets: &mut &[u8], count: usize, out: &mut Vec<u64>) -> Option<()> {
    let mut left = count;
    while left > 0 {
        let some = left.min(CHUNK);
        unpack_chunk(octets, some, out)?;
        left -= some;
    }
    Some(())
}

/// Appends sketches: how long each is, and their octets.
pub(crate) fn pack_sketches(sketches: &[Box<[u8]>], out: &mut Vec<u8>) {
    let lengths: Vec<u64> = sketches.iter().map(|sketch| sketch.len() as u64).collect();
    pack(&lengths, out);
    for sketch in sketches {
        out.extend_from_slice(sketch);
    }
}

/// Takes `count` sketches off the front.
pub(crate) fn unpack_sketches(octets: &mut &[u8], count: usize, out: &mut Vec<Box<[u8]>>) -> Option<()> {
    let mut lengths = Vec::new();
    unpack(octets, count, &mut lengths)?;
    for length in lengths {
        let (sketch, rest) = octets.split_at_checked(usize::try_from(length).ok()?)?;
        out.push(sketch.into());
        *octets = rest;
    }
    Some(())
}

/// A number of at most eight octets, the lowest first.
fn number(octets: &[u8]) -> u64 {
    octets.iter().rev().fold(0, |sum, &octet| sum << 8 | u64::from(octet))
}

/// Reads numbers of fixed width off the front of octets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn octets(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.octets(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(number(self.octets(2)?) as u16)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(number(self.octets(4)?) as u32)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(number(self.octets(8)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            values in prop::collection::vec((0_u32..65, any::<u64>()).prop_map(|(bits, value)| value.checked_shr(bits).unwrap_or(0)), 0..700),
            behind in 0_usize..20,
        ) {
            let mut octets = Vec::new();
            pack(&values, &mut octets);
            octets.extend(std::iter::repeat_n(0xee, behind));
            let (mut rest, mut found) = (&octets[..], Vec::new());
            prop_assert!(unpack(&mut rest, values.len(), &mut found).is_some());
            prop_assert_eq!(rest.len(), behind);
            prop_assert_eq!(found, values);
        }

        #[test]
        fn sketches_that_were_packed_are_unpacked(
            sketches in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..300),
            behind in 0_usize..20,
        ) {
            let sketches: Vec<Box<[u8]>> = sketches.into_iter().map(Vec::into_boxed_slice).collect();
            let mut octets = Vec::new();
            pack_sketches(&sketches, &mut octets);
            octets.extend(std::iter::repeat_n(0xee, behind));
            let (mut rest, mut found) = (&octets[..], Vec::new());
            prop_assert!(unpack_sketches(&mut rest, sketches.len(), &mut found).is_some());
            prop_assert_eq!(rest.len(), behind);
            prop_assert_eq!(found, sketches);
        }

        #[test]
        fn damage_is_no_panic(octets in prop::collection::vec(any::<u8>(), 0..100), count in 0_usize..600) {
            let _ = unpack(&mut &octets[..], count, &mut Vec::new());
            let _ = unpack_sketches(&mut &octets[..], count, &mut Vec::new());
        }
    }
}
