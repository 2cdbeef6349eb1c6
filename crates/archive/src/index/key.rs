//! Values as keys: numbers without a sign that order like the values.

/// The key of octets that are no address.
pub(crate) const OTHER_KEY: u128 = u128::MAX;

/// An address as a number that orders like it: IPv4 in the lowest 32 bits, IPv6 behind. The last 2^32 IPv6 addresses,
/// which no network has, share one number, so that a question about one finds the pages of all. `None` for octets of
/// another length.
pub(crate) fn address_key(octets: &[u8]) -> Option<u128> {
    if let Ok(short) = <[u8; 4]>::try_from(octets) {
        return Some(u32::from_be_bytes(short).into());
    }
    let long = u128::from_be_bytes(octets.try_into().ok()?);
    Some(long.saturating_add(1 << 32).min(OTHER_KEY - 1))
}

/// A text as a number, the same whatever the case of ASCII letters: 32 bits of FNV-1a (64 bits, Fowler, Noll, Vo), so
/// that lists of them are small. Two texts may share a number, and both are looked for then.
pub(crate) fn text_key(text: &[u8]) -> u64 {
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ hash >> 32) & 0xffff_ffff
}

/// A time as a number without a sign that orders like it.
pub(crate) fn time_key(ms: i64) -> u64 {
    (ms as u64) ^ (1 << 63)
}
