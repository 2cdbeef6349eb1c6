//! Services that find names: their messages are alike, and the port distinguishes them.

use super::Look;

/// Whether the header fits (RFC 1035 section 4.1.1): a message has questions or records, and not too many.
fn header(look: &Look<'_>, place: usize) -> bool {
    let counts = [4, 6, 8, 10].map(|count| look.u16_at(place + count));
    let reserved = look.at(place + 3) & 0x40;
    look.len() >= place + 12 && reserved == 0 && counts[0] <= 16 && counts[1..].iter().all(|count| *count <= 512)
}

/// RFC 1035; over TCP behind a length (section 4.2.2).
pub(super) fn dns(look: &Look<'_>) -> bool {
    let place = if look.udp { 0 } else { 2 };
    look.port(53) && header(look, place) && look.u16_at(place + 4) > 0
}

/// RFC 6762.
pub(super) fn mdns(look: &Look<'_>) -> bool {
    look.port(5353) && header(look, 0)
}

/// RFC 4795.
pub(super) fn llmnr(look: &Look<'_>) -> bool {
    look.port(5355) && header(look, 0)
}

/// RFC 1002 section 4.2.
pub(super) fn netbios_ns(look: &Look<'_>) -> bool {
    look.port(137) && header(look, 0)
}

/// RFC 1002 section 4.4: message types 16 to 22.
pub(super) fn netbios_dgm(look: &Look<'_>) -> bool {
    look.port(138) && look.len() >= 14 && (16..=22).contains(&look.at(0))
}
