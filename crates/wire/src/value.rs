//! Reading the octets of a field as a value of its abstract data type (RFC 7011 section 6), and back.
//!
//! All readers take the field's octets as located and yield `None` when their number is not possible for the type.

/// Seconds between the NTP epoch, 1900, and the Unix epoch, 1970 (RFC 5905 section 6).
const NTP_UNIX_SECS: i64 = 2_208_988_800;

/// Bits of an NTP fraction that a dateTimeMicroseconds must ignore (RFC 7011 section 6.1.9).
const NTP_BELOW_MICROSECOND: u32 = 0x7ff;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An unsigned integer of 0 to 8 octets, big-endian; also of fewer octets than its type has, with the leading
/// zero octets left out (reduced-size encoding, RFC 7011 section 6.2). No octets read as 0.
#[inline]
pub fn be_uint(octets: &[u8]) -> Option<u64> {
    // The widths of the types are read in one go; they are nearly all there is.
    match octets.len() {
        1 => octets.first().map(|&octet| octet.into()),
        2 => Some(u16::from_be_bytes(octets.try_into().ok()?).into()),
        4 => Some(u32::from_be_bytes(octets.try_into().ok()?).into()),
        8 => Some(u64::from_be_bytes(octets.try_into().ok()?)),
        0..8 => Some(octets.iter().fold(0, |value, &octet| value << 8 | u64::from(octet))),
        _ => None,
    }
}

/// A signed integer of 0 to 8 octets in two's complement, big-endian; with fewer octets than its type has, the
/// sign is extended (reduced-size encoding, RFC 7011 section 6.2). No octets read as 0.
pub fn be_int(octets: &[u8]) -> Option<i64> {
    let value = be_uint(octets)?;
    let unused_bits = 64 - 8 * octets.len() as u32;
    Some((value as i64).checked_shl(unused_bits).unwrap_or(0) >> unused_bits.min(63))
}

/// A float32: four octets (RFC 7011 section 6.1.3).
pub fn float32(octets: &[u8]) -> Option<f32> {
    Some(f32::from_be_bytes(octets.try_into().ok()?))
}

/// A float64: eight octets, or a float32's four in reduced-size encoding (RFC 7011 sections 6.1.3 and 6.2).
pub fn float64(octets: &[u8]) -> Option<f64> {
    match octets.len() {
        4 => float32(octets).map(f64::from),
        _ => Some(f64::from_be_bytes(octets.try_into().ok()?)),
    }
}

/// A boolean: one octet, 1 for true and 2 for false; any other number is none (RFC 7011 section 6.1.5).
pub fn boolean(octets: &[u8]) -> Option<bool> {
    match octets {
        [1] => Some(true),
        [2] => Some(false),
        _ => None,
    }
}

/// A macAddress: six octets (RFC 7011 section 6.1.4).
pub fn mac_address(octets: &[u8]) -> Option<[u8; 6]> {
    octets.try_into().ok()
}

/// An ipv4Address: four octets in network order (RFC 7011 section 6.1.4).
pub fn ipv4_address(octets: &[u8]) -> Option<[u8; 4]> {
    octets.try_into().ok()
}

/// An ipv6Address: sixteen octets in network order (RFC 7011 section 6.1.4).
pub fn ipv6_address(octets: &[u8]) -> Option<[u8; 16]> {
    octets.try_into().ok()
}

/// A dateTimeSeconds: four octets, seconds since 1970 (RFC 7011 section 6.1.7).
pub fn date_time_secs(octets: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(octets.try_into().ok()?))
}

/// A dateTimeMilliseconds: eight octets, milliseconds since 1970 (RFC 7011 section 6.1.8).
pub fn date_time_millis(octets: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(octets.try_into().ok()?))
}

/// A dateTimeMicroseconds as seconds since 1970 and nanoseconds of the second: eight octets of NTP timestamp, the
/// lowest 11 bits of its fraction ignored (RFC 7011 section 6.1.9).
pub fn date_time_micros(octets: &[u8]) -> Option<(i64, u32)> {
    ntp(octets, !NTP_BELOW_MICROSECOND)
}

/// A dateTimeNanoseconds as seconds since 1970 and nanoseconds of the second: eight octets of NTP timestamp
/// (RFC 7011 section 6.1.10).
pub fn date_time_nanos(octets: &[u8]) -> Option<(i64, u32)> {
    ntp(octets, u32::MAX)
}

/// The NTP timestamp of seconds since 1970 and nanoseconds of the second, as [`date_time_nanos`] reads it. `None`
/// outside of 1968-01-20 to 2104-02-26, which 32 bits of seconds cannot distinguish from it, and for nanoseconds of
/// a second and more.
///
/// The fraction is rounded up, so that reading truncates to the same nanosecond.
pub fn ntp_timestamp(unix_secs: i64, nanos: u32) -> Option<[u8; 8]> {
    if u64::from(nanos) >= NANOS_PER_SEC {
        return None;
    }
    let secs = unix_secs.checked_add(NTP_UNIX_SECS)?;
    let seen_again = ntp_unix_secs(secs as u32);
    let fraction = (u64::from(nanos) << 32).div_ceil(NANOS_PER_SEC);
    let timestamp = (secs as u64) << 32 | fraction;
    (seen_again == unix_secs).then(|| timestamp.to_be_bytes())
}

/// Appends the lowest `octets` octets of `value`, at most 8, big-endian: the inverse of [`be_uint`] as long as the
/// value fits.
pub fn push_uint(out: &mut Vec<u8>, value: u64, octets: usize) {
    let all = value.to_be_bytes();
    out.extend_from_slice(&all[all.len() - octets.min(all.len())..]);
}

/// The length before a value of variable length: how many octets it takes itself and how many follow it
/// (RFC 7011 section 7, figures R and S). `None` when the length itself is cut off.
pub fn variable_length(octets: &[u8]) -> Option<(usize, u16)> {
    match *octets {
        [255, high, low, ..] => Some((3, u16::from_be_bytes([high, low]))),
        [255, ..] | [] => None,
        [length, ..] => Some((1, length.into())),
    }
}

fn ntp(octets: &[u8], fraction_mask: u32) -> Option<(i64, u32)> {
    let timestamp = u64::from_be_bytes(octets.try_into().ok()?);
    let (secs, fraction) = ((timestamp >> 32) as u32, timestamp as u32 & fraction_mask);
    let nanos = (u64::from(fraction) * NANOS_PER_SEC) >> 32;
    Some((ntp_unix_secs(secs), nanos as u32))
}

/// The seconds wrap in 2036. Without the highest bit they are taken as after that (RFC 4330 section 3), since no
/// flow was measured before 1968.
fn ntp_unix_secs(secs: u32) -> i64 {
    let era = if secs >> 31 == 1 { 0 } else { 1_i64 << 32 };
    era + i64::from(secs) - NTP_UNIX_SECS
}
