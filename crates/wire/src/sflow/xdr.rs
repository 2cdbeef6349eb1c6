//! External Data Representation (RFC 4506), as far as sFlow uses it: everything is padded to four octets.

use crate::cursor::Cursor;

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Xdr<'a>(Cursor<'a>);

impl<'a> Xdr<'a> {
    #[inline]
    pub(super) fn new(octets: &'a [u8]) -> Self {
        Self(Cursor::new(octets))
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0.rest
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.0.u32()
    }

    /// This many octets, without the padding.
    #[inline]
    pub(super) fn take(&mut self, length: u32) -> Option<&'a [u8]> {
        self.0.take(length as usize)
    }

    /// Opaque data of a fixed length.
    pub(super) fn fixed<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.opaque(N as u32)?.first_chunk()
    }

    /// Opaque data of this length with its padding. The padding of the last field may be missing.
    #[inline]
    pub(super) fn opaque(&mut self, length: u32) -> Option<&'a [u8]> {
        let octets = self.take(length)?;
        let padding = length.wrapping_neg() & 3;
        if self.take(padding).is_none() {
            self.take(octets_left(self));
        }
        Some(octets)
    }

    /// Opaque data or a string with its length before it.
    pub(super) fn variable(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.opaque(length)
    }

    /// An array of 32-bit numbers with their number before it, as octets.
    pub(super) fn numbers(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count.checked_mul(4)?)
    }

    /// An address with its type before it: 4 or 16 octets, or none when it is unknown.
    pub(super) fn address(&mut self) -> Option<&'a [u8]> {
        match self.u32()? {
            0 => Some(&[]),
            1 => self.take(4),
            2 => self.take(16),
            _ => None,
        }
    }
}

fn octets_left(xdr: &Xdr<'_>) -> u32 {
    u32::try_from(xdr.rest().len()).unwrap_or(u32::MAX)
}
