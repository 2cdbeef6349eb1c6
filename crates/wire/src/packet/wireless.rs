//! IEEE 802.11, and the headers that drivers put before it.

use super::link::llc;
use super::{End, Headers, Macs, Step, skip, split};

/// Marks an AVS header, and the second version of it.
const AVS_MAGIC: [[u8; 4]; 2] = [[0x80, 0x21, 0x10, 1], [0x80, 0x21, 0x10, 2]];
/// Octets of a Prism header, which is always whole.
const PRISM_OCTETS: usize = 144;

/// A frame from its frame control field on.
pub(super) fn ieee80211<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    frame(*split::<2>(octets)?.0, octets, false, headers)
}

/// A frame as some access points send it through a tunnel: with the octets of its frame control in the other order.
pub(super) fn ieee80211_of_either_order<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let mut control = *split::<2>(octets)?.0;
    if !is_data(control) {
        control.reverse();
    }
    frame(control, octets, false, headers)
}

/// Protocol version 0, type 2 (IEEE 802.11-2020 clause 9.2.4.1).
fn is_data(control: [u8; 2]) -> bool {
    control[0] & 0x0f == 0x08
}

/// IEEE 802.11-2020 clause 9.2: only data frames carry packets, and only those in clear can be read.
///
/// `padded`: the driver has filled the header up to a multiple of four octets.
fn frame<'a>(control: [u8; 2], octets: &'a [u8], padded: bool, headers: &mut Headers<'a>) -> Step<'a> {
    // Some control frames are shorter than what follows.
    if !is_data(control) {
        return Err(End::Unknown);
    }
    let [first, second] = control;
    let rest = skip(octets, 4)?;
    let (addresses, after) = split::<18>(rest)?;
    let [one, two, three] = addresses.as_chunks::<6>().0 else { return Err(End::Malformed) };
    let mut rest = skip(after, 2)?;
    let (to_ds, from_ds) = (second & 1 == 1, second & 2 == 2);
    let (source, destination) = match (to_ds, from_ds) {
        (false, false) => (two, one),
        (false, true) => (three, one),
        (true, false) => (two, three),
        (true, true) => {
            let (four, after) = split::<6>(rest)?;
            rest = after;
            (four, three)
        }
    };
    headers.macs = Some(Macs { source, destination });
    // QoS control, for subtypes from 8 on: whether several packets follow; and HT control behind it
    let mut aggregated = false;
    if first & 0x80 != 0 {
        let ([control, _], after) = split::<2>(rest)?;
        aggregated = control & 0x80 != 0;
        rest = skip(after, if second & 0x80 != 0 { 4 } else { 0 })?;
    }
    // The next bit of the subtype means that there is no body.
    if first & 0x40 != 0 || second & 0x40 != 0 {
        return Err(End::Unknown);
    }
    if padded {
        rest = skip(rest, (octets.len() - rest.len()).wrapping_neg() % 4)?;
    }
    if aggregated { aggregate(rest, headers) } else { llc(rest, headers) }
}

/// Clause 9.3.2.2: of an A-MSDU the first subframe is read, whose addresses are those of the packet.
fn aggregate<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (destination, rest) = split::<6>(octets)?;
    let (source, rest) = split::<6>(rest)?;
    headers.macs = Some(Macs { source, destination });
    llc(skip(rest, 2)?, headers)
}

/// <https://www.radiotap.org>: version, pad, length and a map of fields, all in little-endian order.
pub(super) fn radiotap<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    const MORE: u32 = 1 << 31;
    let ([version, _, low, high, map @ ..], fields) = split::<8>(octets)?;
    if *version != 0 {
        return Err(End::Unknown);
    }
    let first = u32::from_le_bytes(*map);
    let (mut word, mut fields) = (first, fields);
    while word & MORE != 0 {
        let (next, rest) = split::<4>(fields)?;
        (word, fields) = (u32::from_le_bytes(*next), rest);
    }
    // The flags come second, behind a clock of 8 octets that begins at a multiple of 8.
    let flags = if first & 2 == 0 {
        0
    } else {
        let clock = if first & 1 == 0 { 0 } else { (octets.len() - fields.len()).wrapping_neg() % 8 + 8 };
        *fields.get(clock).ok_or(End::Truncated)?
    };
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    if length < octets.len() - fields.len() {
        return Err(End::Malformed);
    }
    let octets = skip(octets, length)?;
    frame(*split::<2>(octets)?.0, octets, flags & 0x20 != 0, headers)
}

/// The header of the Prism driver, in whose place some drivers write one of AVS.
pub(super) fn prism<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    if AVS_MAGIC.contains(split::<4>(octets)?.0) {
        return avs(octets, headers);
    }
    ieee80211(skip(octets, PRISM_OCTETS)?, headers)
}

/// Magic and version, then the length of the header.
pub(super) fn avs<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([magic @ .., a, b, c, d], _) = split::<8>(octets)?;
    if !AVS_MAGIC.contains(magic) {
        return Err(End::Malformed);
    }
    let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
    if length < 8 {
        return Err(End::Malformed);
    }
    ieee80211(skip(octets, length)?, headers)
}
