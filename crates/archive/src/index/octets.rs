//! Octets of a file read as numbers, little-endian, without trust in any length.

/// Octets that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CorruptIndex;

#[derive(Debug, Clone)]
pub(crate) struct OctetReader<'a> {
    rest: &'a [u8],
}

impl<'a> OctetReader<'a> {
    pub(crate) fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], CorruptIndex> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(CorruptIndex)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptIndex> {
        self.take(N)?.try_into().map_err(|_| CorruptIndex)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, CorruptIndex> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, CorruptIndex> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, CorruptIndex> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number in LEB128.
    pub(crate) fn varint(&mut self) -> Result<u64, CorruptIndex> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let octet = self.u8()?;
            let part = u64::from(octet & 0x7f);
            // the tenth octet has room for one bit
            if shift == 63 && part > 1 {
                return Err(CorruptIndex);
            }
            number |= part << shift;
            if octet < 0x80 {
                return Ok(number);
            }
        }
        Err(CorruptIndex)
    }

    /// A number that may be negative, see [`zigzag`].
    pub(crate) fn signed(&mut self) -> Result<i64, CorruptIndex> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

/// Writes a number in LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Octets that [`put_varint`] takes for a number.
pub(crate) fn varint_octets(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// A number that may be negative as one that may not, small when it is near zero.
pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub(crate) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

/// Octets that hold numbers up to this one: 1, 2, 4 or 8.
pub(crate) fn width_of(largest: u64) -> usize {
    match largest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// A number of this many octets.
pub(crate) fn put_narrow(out: &mut Vec<u8>, number: u64, width: usize) {
    out.extend(&number.to_le_bytes()[..width]);
}

/// The number at a place among numbers of this many octets.
pub(crate) fn narrow(octets: &[u8], at: usize, width: usize) -> Option<u64> {
    let mut number = [0; 8];
    number.get_mut(..width)?.copy_from_slice(octets.get(at * width..(at + 1) * width)?);
    Some(u64::from_le_bytes(number))
}
