//! Reading big-endian numbers off the front of a slice. Running out of octets is `None`, never a panic.

/// The octets that are left to read.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    /// What is left.
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Begins at the first of these octets.
    #[inline]
    pub fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// The next `N` octets.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// A number of one octet.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[octet]| octet)
    }

    /// A number of two octets.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// A number of three octets.
    #[inline]
    pub fn u24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// A number of four octets.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next `length` octets.
    #[inline]
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    /// The next `length` octets, or those of them that are there.
    pub fn take_up_to(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// A list after its length in one octet.
    pub fn list8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// A list after its length in two octets.
    pub fn list16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// A number of variable length (RFC 9000 section 16).
    pub fn variable(&mut self) -> Option<u64> {
        let first = *self.rest.first()?;
        let octets = self.take(1 << (first >> 6))?;
        let value = octets.iter().fold(0_u64, |value, octet| value << 8 | u64::from(*octet));
        Some(value & (u64::MAX >> (64 - 8 * octets.len() + 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    /// RFC 9000 appendix A.1.
    #[test]
    fn numbers_of_variable_length() {
        let check = |octets: &[u8], value| assert_eq!(Cursor::new(octets).variable(), value, "{octets:x?}");
        check(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], Some(151_288_809_941_952_652));
        check(&[0x9d, 0x7f, 0x3e, 0x7d], Some(494_878_333));
        check(&[0x7b, 0xbd], Some(15_293));
        check(&[0x25], Some(37));
        check(&[0x40, 0x25], Some(37));
        check(&[0x40], None);
        check(&[], None);
    }
}
