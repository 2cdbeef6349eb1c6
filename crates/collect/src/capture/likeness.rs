//! What looks like an export: a capture holds other traffic as well.

/// Whether a UDP payload looks like an export datagram: a known version, and a header that agrees with its length.
///
/// Captures often hold other traffic as well; a live collector has its own port and needs no such guess.
pub fn looks_like_export(payload: &[u8]) -> bool {
    let word = |at: usize| payload.get(at..at + 2).map(|two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    let long = |at: usize| payload.get(at..)?.first_chunk::<4>().map(|four| u32::from_be_bytes(*four));
    match (word(0), word(2)) {
        // other protocols begin with a 1 too, so the length has to agree
        (Some(1), Some(records @ 1..=60)) => payload.len().wrapping_sub(16 + records * 48) <= 4,
        (Some(7), Some(records @ 1..=60)) => payload.len().wrapping_sub(24 + records * 52) <= 4,
        // the count may be wrong, and there may be more behind the records; then the time must be one
        (Some(5), Some(records @ 1..=60)) => {
            payload.len() >= 24 && (payload.len() <= 24 + records * 48 + 4 || is_time(long(8), long(12)))
        }
        // exporters put nothing sensible into the count, too: then the time must be one, and the first set must be there
        (Some(9), Some(0)) => {
            let (set, length) = (word(20), word(22));
            let is_set = set.is_some_and(|set| !(2..256).contains(&set));
            let is_whole = length.is_some_and(|length| length >= 4 && length <= payload.len() - 20);
            is_set && is_whole && is_time(long(8), Some(0))
        }
        (Some(9), Some(records)) => payload.len() >= 20 && records <= payload.len(),
        // even when the rest is damaged: version, kind of address, and the octets of a header
        (Some(0), Some(5)) => match (long(4), payload.len()) {
            // an agent that does not know its address; zeros are common in other protocols, so the first sample must be there
            (Some(0), 32..) => {
                let fits = |length: Option<u32>| length.is_some_and(|length| length as usize <= payload.len() - 32);
                long(20) != Some(0) && fits(long(20)) && long(24) != Some(0) && fits(long(28))
            }
            (Some(1), 28..) => long(24) != Some(0),
            (Some(2), 40..) => long(36) != Some(0),
            _ => false,
        },
        (Some(10), Some(length)) => payload.len() >= 16 && length >= 16 && length <= payload.len() + 4,
        _ => false,
    }
}

/// The same of the first octets of a payload, of which `sent_octets` were sent.
pub(super) fn begins_like_export(payload: &[u8], sent_octets: usize) -> bool {
    let word = |at: usize| payload.get(at..)?.first_chunk::<2>().map(|two| usize::from(u16::from_be_bytes(*two)));
    let long = |at: usize| payload.get(at..)?.first_chunk::<4>().map(|four| u32::from_be_bytes(*four));
    match (word(0), word(2)) {
        (Some(1), Some(records @ 1..=60)) => sent_octets == 16 + records * 48,
        (Some(7), Some(records @ 1..=60)) => sent_octets == 24 + records * 52,
        (Some(5), Some(records @ 1..=60)) => sent_octets >= 24 + records * 48 && is_time(long(8), long(12)),
        (Some(9), Some(_)) => sent_octets >= 20 && is_time(long(8), Some(0)),
        (Some(0), Some(5)) => sent_octets >= 28 && matches!(long(4), Some(1 | 2)),
        (Some(10), Some(length)) => length >= 16 && length == sent_octets,
        _ => false,
    }
}

/// Whether seconds since the epoch and nanoseconds can be a time of export: from 1996, when NetFlow began, to 2100.
fn is_time(seconds: Option<u32>, nanoseconds: Option<u32>) -> bool {
    seconds.is_some_and(|seconds| (820_454_400..4_102_444_800).contains(&seconds))
        && nanoseconds.is_some_and(|nanoseconds| nanoseconds < 1_000_000_000)
}
