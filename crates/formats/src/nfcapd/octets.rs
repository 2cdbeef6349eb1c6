//! Integers as a little-endian machine keeps them; what reaches past the end reads as 0.

macro_rules! readers {
    ($($name:ident $number:ty;)*) => {$(
        #[inline]
        pub(super) fn $name(octets: &[u8], at: usize) -> $number {
            match octets.get(at..at + size_of::<$number>()).and_then(|found| found.try_into().ok()) {
                Some(found) => <$number>::from_le_bytes(found),
                None => 0,
            }
        }
    )*};
}

readers! {
    le_u16 u16;
    le_u32 u32;
    le_u64 u64;
}

/// Text up to the first zero octet.
pub(super) fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(until_zero(octets)).into_owned()
}

/// What stands before the first zero octet.
pub(super) fn until_zero(octets: &[u8]) -> &[u8] {
    octets.split(|octet| *octet == 0).next().unwrap_or_default()
}

/// An address as the writer's structure has it: IPv4 in the third of four words, IPv6 as two halves.
pub(super) fn address(octets: &[u8], family: u16) -> Option<Vec<u8>> {
    match family {
        2 => Some(le_u32(octets, 8).to_be_bytes().to_vec()),
        10 => Some([le_u64(octets, 0).to_be_bytes(), le_u64(octets, 8).to_be_bytes()].concat()),
        _ => None,
    }
}
