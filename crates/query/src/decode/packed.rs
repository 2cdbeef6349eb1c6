//! Numbers in few bits: runs and bit-packed groups, and differences in blocks.
//!
//! Values are taken out of the packed octets by loads of eight octets at any position, which is why the octets given
//! here must be followed by [`SLACK`] more that may be read and mean nothing.

use super::Damage;

/// Octets that must follow whatever is unpacked.
pub(crate) const SLACK: usize = 16;

const SHORT: Damage = Damage("a page ends within its values");

/// Octets of a page, read from the front, with [`SLACK`] octets behind their end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'a> {
    /// With the slack.
    octets: &'a [u8],
    at: usize,
    /// Without the slack.
    end: usize,
}

impl<'a> Packed<'a> {
    /// `octets` ends with the slack.
    pub(crate) fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0, end: octets.len().saturating_sub(SLACK) }
    }

    pub(crate) fn left(&self) -> usize {
        self.end - self.at
    }

    /// The next octets.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        if count > self.left() {
            return Err(SHORT);
        }
        let taken = &self.octets[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// What is left, with the slack, as octets of their own.
    pub(crate) fn rest(&self) -> Packed<'a> {
        Packed { octets: &self.octets[self.at..], at: 0, end: self.left() }
    }

    pub(crate) fn word(&mut self) -> Result<u32, Damage> {
        let octets = self.take(4)?;
        octets.try_into().map(u32::from_le_bytes).map_err(|_| SHORT)
    }

    fn octet(&mut self) -> Result<u8, Damage> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            value |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damage("a number in a page is too long"))
    }

    fn zigzag(&mut self) -> Result<i64, Damage> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Gives `count` numbers of `width` bits, at most 64, to `each`.
    #[inline]
    fn unpack(&mut self, width: u32, count: usize, mut each: impl FnMut(u64)) -> Result<(), Damage> {
        let octets = (count * width as usize).div_ceil(8);
        let start = self.at;
        self.take(octets)?;
        let from = &self.octets[start..];
        match width {
            0 => (0..count).for_each(|_| each(0)),
            1..=56 => {
                let mask = (1_u64 << width) - 1;
                for index in 0..count {
                    let bit = index * width as usize;
                    let load: [u8; 8] = from[bit / 8..bit / 8 + 8].try_into().map_err(|_| SHORT)?;
                    each(u64::from_le_bytes(load) >> (bit % 8) & mask);
                }
            }
            57..=64 => {
                let mask = u64::MAX >> (64 - width);
                for index in 0..count {
                    let bit = index * width as usize;
                    let load: [u8; 16] = from[bit / 8..bit / 8 + 16].try_into().map_err(|_| SHORT)?;
                    each((u128::from_le_bytes(load) >> (bit % 8)) as u64 & mask);
                }
            }
            _ => return Err(Damage("a page has numbers of more than 64 bits")),
        }
        Ok(())
    }

    /// Runs and bit-packed groups (parquet-format, Encodings, RLE): `count` numbers of `width` bits.
    pub(crate) fn hybrid(&mut self, width: u32, count: usize, into: &mut Vec<u32>) -> Result<(), Damage> {
        if width > 32 {
            return Err(Damage("indexes of a page have more than 32 bits"));
        }
        into.clear();
        into.reserve(count);
        while into.len() < count {
            let head = self.varint()?;
            let missing = count - into.len();
            if head & 1 == 0 {
                let run = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(missing);
                if run == 0 {
                    return Err(Damage("a page has an empty run"));
                }
                let octets = self.take(width.div_ceil(8) as usize)?;
                let value = octets.iter().rev().fold(0, |value, octet| value << 8 | u32::from(*octet));
                into.resize(into.len() + run, value);
            } else {
                let groups = usize::try_from(head >> 1).unwrap_or(usize::MAX);
                let packed = groups.checked_mul(8).ok_or(SHORT)?;
                let wanted = packed.min(missing);
                if wanted == 0 {
                    return Err(Damage("a page has an empty group"));
                }
                let before = self.at;
                self.unpack(width, wanted, |value| into.push(value as u32))?;
                let whole = groups.checked_mul(width as usize).ok_or(SHORT)?;
                // writers may leave out the octets of the last group that no value needs
                self.at = before.saturating_add(whole).clamp(self.at, self.end);
            }
        }
        Ok(())
    }

    /// Differences in blocks (parquet-format, Encodings, `DELTA_BINARY_PACKED`): at most `count` numbers.
    pub(crate) fn deltas(&mut self, count: usize, into: &mut Vec<i64>) -> Result<(), Damage> {
        into.clear();
        into.reserve(count);
        let block = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
        let minis = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
        let total = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
        let mut value = self.zigzag()?;
        if total > count || block == 0 || minis == 0 || block % minis != 0 || block > 1 << 20 {
            return Err(Damage("a page of differences does not fit its number of values"));
        }
        let mini = block / minis;
        if total > 0 {
            into.push(value);
        }
        while into.len() < total {
            let smallest = self.zigzag()?;
            let widths = self.take(minis)?;
            for &width in widths {
                let wanted = mini.min(total - into.len());
                if wanted == 0 {
                    break;
                }
                let before = self.at;
                self.unpack(u32::from(width), wanted, |delta| {
                    value = value.wrapping_add(smallest).wrapping_add(delta as i64);
                    into.push(value);
                })?;
                self.at = (before + (mini * usize::from(width)).div_ceil(8)).min(self.end);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_slack(octets: &[u8]) -> Vec<u8> {
        [octets, &[0xff; SLACK]].concat()
    }

    /// The example of the specification: 0 to 7 in three bits.
    #[test]
    fn the_example_of_the_specification_is_unpacked() {
        let octets = with_slack(&[0x03, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        let mut values = Vec::new();
        Packed::new(&octets).hybrid(3, 8, &mut values).expect("eight values");
        assert_eq!(values, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn runs_are_repeated() {
        let octets = with_slack(&[0x0a, 0x07]);
        let mut values = Vec::new();
        Packed::new(&octets).hybrid(3, 5, &mut values).expect("five values");
        assert_eq!(values, [7; 5]);
    }

    /// The second example of the specification: 7, 5, 3, 1, 2, 3, 4, 5.
    #[test]
    fn differences_are_summed_up() {
        // block of 128 values in 4 miniblocks, 8 values, the first 7, smallest difference -2, widths 2 0 0 0
        let octets =
            with_slack(&[0x80, 0x01, 0x04, 0x08, 0x0e, 0x03, 2, 0, 0, 0, 0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
        let mut values = Vec::new();
        Packed::new(&octets).deltas(8, &mut values).expect("eight values");
        assert_eq!(values, [7, 5, 3, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_ends_early_is_an_error() {
        for octets in [&[][..], &[0x03], &[0x03, 1, 2], &[0x00, 0x01], &[0xff; 12]] {
            let octets = with_slack(octets);
            assert!(Packed::new(&octets).hybrid(3, 8, &mut Vec::new()).is_err(), "{octets:?}");
            assert!(Packed::new(&octets).deltas(8, &mut Vec::new()).is_err(), "{octets:?}");
        }
    }
}
