//! Numbers as bits: Golomb-Rice codes (Rice 1979), for gaps whose mean is known.

/// Quotients from here on are not written as ones: an escape and the whole number follow instead.
const QUOTIENT_MAX: u32 = 40;

/// Writes bits, the lowest of each octet first.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    octets: Vec<u8>,
    pending: u64,
    count: u32,
}

impl BitWriter {
    /// The lowest `width` bits of a number, at most 32.
    fn put_word(&mut self, value: u32, width: u32) {
        self.pending |= u64::from(value) << self.count;
        self.count += width;
        while self.count >= 8 {
            self.octets.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// The lowest `width` bits of a number.
    pub(crate) fn put(&mut self, mut value: u128, mut width: u32) {
        while width > 0 {
            let piece = width.min(32);
            self.put_word((value & ((1 << piece) - 1)) as u32, piece);
            value >>= piece;
            width -= piece;
        }
    }

    /// A number by a Rice code: how often 2^`low_bits` fits in it as ones, a zero, and its low bits.
    pub(crate) fn put_rice(&mut self, value: u128, low_bits: u32) {
        let quotient = value >> low_bits;
        if quotient < u128::from(QUOTIENT_MAX) {
            let quotient = quotient as u32;
            self.put((1 << quotient) - 1, quotient + 1);
            self.put(value, low_bits);
        } else {
            self.put(u128::MAX, QUOTIENT_MAX);
            self.put(value, 128);
        }
    }

    /// What was written, filled up with zeros to a whole octet.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.octets.push(self.pending as u8);
        }
        self.octets
    }
}

/// Reads what a [`BitWriter`] wrote. Behind the end are zeros, and [`BitReader::is_over`] tells that it came to that.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    octets: &'a [u8],
    at: usize,
    pending: u64,
    count: u32,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0, pending: 0, count: 0 }
    }

    /// Makes at least 56 bits pending, eight octets at a time while there are as many. Bits above `count` are then the
    /// next ones of the octets already, so that adding them once more changes nothing.
    #[inline]
    fn fill(&mut self) {
        if self.count > 56 {
            return;
        }
        if let Some(octets) = self.octets.get(self.at..).and_then(<[u8]>::first_chunk) {
            self.pending |= u64::from_le_bytes(*octets) << self.count;
            self.at += ((63 - self.count) / 8) as usize;
            self.count |= 0b11_1000;
            return;
        }
        while self.count <= 56 {
            self.pending |= u64::from(self.octets.get(self.at).copied().unwrap_or(0)) << self.count;
            self.at += 1;
            self.count += 8;
        }
    }

    #[inline]
    fn word(&mut self, width: u32) -> u64 {
        self.fill();
        self.take(width)
    }

    /// Bits of which at least so many are pending.
    #[inline]
    fn take(&mut self, width: u32) -> u64 {
        let value = self.pending & ((1 << width) - 1);
        self.pending >>= width;
        self.count -= width;
        value
    }

    pub(crate) fn bits(&mut self, width: u32) -> u128 {
        let mut value = 0;
        for at in (0..width).step_by(32) {
            value |= u128::from(self.word((width - at).min(32))) << at;
        }
        value
    }

    #[inline]
    pub(crate) fn rice(&mut self, low_bits: u32) -> u128 {
        self.fill();
        let quotient = self.pending.trailing_ones();
        if quotient >= QUOTIENT_MAX {
            self.word(32);
            self.word(QUOTIENT_MAX - 32);
            return self.bits(128);
        }
        self.take(quotient + 1);
        let low = match low_bits {
            // what is pending has most codes as a whole
            bits if bits <= self.count.min(32) => u128::from(self.take(bits)),
            bits @ 0..=32 => u128::from(self.word(bits)),
            bits => self.bits(bits),
        };
        u128::from(quotient) << low_bits | low
    }

    /// Whether more was read than there was.
    pub(crate) fn is_over(&self) -> bool {
        self.at.saturating_sub((self.count / 8) as usize) > self.octets.len()
    }
}

/// Low bits of the Rice code that suits numbers of this mean.
pub(crate) fn low_bits(sum: u128, count: u128) -> u32 {
    (sum / count.max(1)).checked_ilog2().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in proptest::collection::vec((any::<u128>(), 0u32..128, 0u32..128), 0..50)) {
            let mut writer = BitWriter::default();
            for (value, shift, low_bits) in &numbers {
                writer.put_rice(value >> shift, *low_bits);
                writer.put(value & 5, 3);
            }
            let octets = writer.finish();
            let mut reader = BitReader::new(&octets);
            for (value, shift, low_bits) in &numbers {
                prop_assert_eq!(reader.rice(*low_bits), value >> shift);
                prop_assert_eq!(reader.bits(3), value & 5);
            }
            prop_assert!(!reader.is_over());
            reader.bits(64);
            prop_assert!(reader.is_over());
        }
    }
}
