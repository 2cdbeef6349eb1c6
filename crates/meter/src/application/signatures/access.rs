//! Who may come in: directories, authentication, remote desktops; and routers among themselves.

use super::super::text::contains;
use super::{Look, ber};

/// The marker and a length that a message can have (RFC 4271 section 4.1).
pub(super) fn bgp(look: &Look<'_>) -> bool {
    look.starts(&[0xff; 16]) && (19..=4096).contains(&look.u16_at(16)) && (1..=5).contains(&look.at(18))
}

/// The version of the protocol (RFC 6143 section 7.1.1).
pub(super) fn vnc(look: &Look<'_>) -> bool {
    look.starts(b"RFB 00") && look.len() == 12
}

/// A request for a connection of X.224 in a packet of RFC 1006 (MS-RDPBCGR section 2.2.1.1), with the cookie or the
/// negotiation of RDP, or on its port; and the answer.
pub(super) fn rdp(look: &Look<'_>) -> bool {
    let fits = usize::from(look.u16_at(2)) == look.len() && usize::from(look.at(4)) + 5 == look.len();
    let negotiation = look.len() >= 19 && matches!(look.at(look.len() - 8), 1..=3) && {
        let length = look.len() - 6;
        look.at(length) == 8 && look.at(length + 1) == 0
    };
    look.u16_at(0) == 0x0300
        && fits
        && matches!(look.at(5), 0xe0 | 0xd0)
        && (look.port(3389) || negotiation || contains(look.payload, b"mstshash="))
}

/// A message of a client or a server that can be the first one (RFC 4120 section 5.4 and 5.5), in TCP behind its length.
pub(super) fn kerberos(look: &Look<'_>) -> bool {
    let place = if look.udp { 0 } else { 4 };
    if !look.udp && look.u32_at(0) as usize > 65_535 {
        return false;
    }
    let tag = look.at(place);
    let tags = [0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x74, 0x75, 0x76, 0x7e];
    let sequence = |contents: usize| ber(look, contents, 0x30);
    tags.contains(&tag)
        && ber(look, place, tag).and_then(sequence).is_some_and(|fields| {
            // The version 5 is the first field, tagged 0 or 1.
            matches!(look.at(fields), 0xa0 | 0xa1) && look.u24_at(fields + 1) == 0x0003_0201 && look.at(fields + 4) == 5
        })
}

/// An operation behind its number (RFC 4511 section 4.1.1).
pub(super) fn ldap(look: &Look<'_>) -> bool {
    let Some(id) = ber(look, 0, 0x30) else { return false };
    let length = usize::from(look.at(id + 1));
    let operation = look.at(id + 2 + length);
    let bind = operation == 0x60 || operation == 0x61;
    let known = bind || matches!(operation, 0x42 | 0x63..=0x78);
    // A bind has the version 3 or 2 behind its own length.
    let version = ber(look, id + 2 + length, 0x60).is_some_and(|at| look.u16_at(at) == 0x0201 && look.at(at + 2) <= 3);
    look.at(id) == 0x02 && (1..=4).contains(&length) && (version || known && look.ports(&[389, 3268]))
}

/// A code, a length that is that of the datagram (RFC 2865 section 3), on one of its ports.
pub(super) fn radius(look: &Look<'_>) -> bool {
    let length = usize::from(look.u16_at(2));
    look.ports(&[1812, 1813, 1645, 1646, 3799])
        && matches!(look.at(0), 1..=5 | 11..=13 | 40..=45)
        && (20..=4096).contains(&length)
        && length <= look.len()
}
