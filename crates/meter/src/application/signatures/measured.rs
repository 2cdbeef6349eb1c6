//! Exports of flows, and logs.

use super::Look;

/// Ports that collectors of `NetFlow` take, registered or not.
const NETFLOW_PORTS: [u16; 8] = [2055, 2056, 4739, 9555, 9991, 9993, 9995, 9996];

/// Versions 5 and 7, whose length follows from their count, and version 9 (RFC 3954 section 5.1) on usual ports or with
/// a `FlowSet` whose length fits.
pub(super) fn netflow(look: &Look<'_>) -> bool {
    let count = usize::from(look.u16_at(2));
    let records = |octets: usize| (1..=30).contains(&count) && look.len() == 24 + octets * count;
    match look.u16_at(0) {
        1 => look.ports(&NETFLOW_PORTS) && (1..=24).contains(&count) && look.len() == 16 + 52 * count,
        5 => records(48),
        7 => records(52),
        9 => {
            let (set, length) = (look.u16_at(20), usize::from(look.u16_at(22)));
            let fits = length >= 4 && 20 + length <= look.len() && (set <= 1 || set > 255);
            look.len() > 24 && fits && (look.ports(&NETFLOW_PORTS) || 20 + length == look.len() || count > 0)
        }
        _ => false,
    }
}

/// A message whose length is that of the datagram (RFC 7011 section 3.1); in a stream it may be shorter than it.
pub(super) fn ipfix(look: &Look<'_>) -> bool {
    let (length, set) = (usize::from(look.u16_at(2)), look.u16_at(16));
    let fits = if look.udp { length == look.len() } else { length >= 20 && look.port(4739) };
    look.u16_at(0) == 10 && look.len() >= 20 && fits && (matches!(set, 2 | 3) || set > 255)
}

/// Version 5 with an agent address of either kind.
pub(super) fn sflow(look: &Look<'_>) -> bool {
    look.u32_at(0) == 5 && matches!(look.u32_at(4), 1 | 2) && look.len() >= 28
}

/// A priority in angle brackets (RFC 5424 section 6.2.1, RFC 3164 section 4.1.1).
pub(super) fn syslog(look: &Look<'_>) -> bool {
    let digits = look.payload.iter().skip(1).take(4).take_while(|octet| octet.is_ascii_digit());
    let (count, priority) =
        digits.fold((0, 0_u16), |(count, value), digit| (count + 1, value * 10 + u16::from(*digit - b'0')));
    look.at(0) == b'<'
        && (1..=3).contains(&count)
        && priority <= 191
        && look.at(count + 1) == b'>'
        && (look.port(514) || look.at(count + 2).is_ascii_alphanumeric())
}
