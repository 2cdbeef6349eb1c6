//! Protocols of single datagrams, and QUIC and DTLS.

use super::super::quic;
use super::super::text::line;
use super::{Look, ber};

/// A packet with a long header and a version that is known (RFC 9000 section 17.2), or one of Google's before it.
pub(super) fn quic(look: &Look<'_>) -> bool {
    let long = look.at(0) & 0xc0 == 0xc0 && look.at(5) <= 20 && look.len() >= 7;
    // Version negotiation sets the second bit or not.
    let negotiation = look.at(0) & 0x80 != 0 && look.u32_at(1) == 0 && look.port(443) && look.at(5) <= 20;
    // Public flags of old: version and connection identifier are there.
    let public = look.at(0) & 0xc9 == 0x09 && look.len() > 13 && google(look.u32_at(9));
    // Versions that ask for negotiation (RFC 9000 section 15), in a datagram as long as a client's first one.
    let reserved = look.u32_at(1) & 0x0f0f_0f0f == 0x0a0a_0a0a && look.len() >= 1200;
    let version = quic::is_version(look.u32_at(1)) || google(look.u32_at(1)) || reserved;
    long && version || look.len() > 6 && negotiation || public
}

/// `Q` or `T` and three digits.
fn google(version: u32) -> bool {
    let [letter, digits @ ..] = version.to_be_bytes();
    matches!(letter, b'Q' | b'T') && digits.iter().all(u8::is_ascii_digit)
}

/// A record of any content (RFC 6347 section 4.1): epoch 0 with a handshake, or later ones.
pub(super) fn dtls(look: &Look<'_>) -> bool {
    (20..=25).contains(&look.at(0))
        && matches!(look.u16_at(1), 0xfeff | 0xfefd | 0xfefc | 0x0100)
        && look.len() >= 13
        && usize::from(look.u16_at(11)) <= look.len() - 13
        && look.u16_at(11) > 0
}

/// A header with the magic cookie (RFC 8489 section 5), in TCP too.
pub(super) fn stun(look: &Look<'_>) -> bool {
    let length = usize::from(look.u16_at(2));
    look.at(0) & 0xc0 == 0 && look.u32_at(4) == 0x2112_a442 && length % 4 == 0 && length + 20 <= look.len().max(20)
}

/// Searches and announcements, and the answers, which are HTTP in a datagram.
pub(super) fn ssdp(look: &Look<'_>) -> bool {
    let starts = [&b"M-SEARCH * HTTP/1."[..], b"NOTIFY * HTTP/1.", b"HTTP/1."];
    starts.iter().any(|start| look.starts(start)) && line(look.payload).is_some()
}

/// RFC 5905 section 7.3: version 1 to 4, a mode, and the header of the mode.
pub(super) fn ntp(look: &Look<'_>) -> bool {
    let (version, mode) = (look.at(0) >> 3 & 7, look.at(0) & 7);
    let length_min = if mode < 6 { 48 } else { 8 };
    look.port(123) && (1..=4).contains(&version) && mode > 0 && look.len() >= length_min
}

/// The magic cookie (RFC 2131 section 3), or BOOTP of old on its ports.
pub(super) fn dhcp(look: &Look<'_>) -> bool {
    let cookie = look.u32_at(236) == 0x6382_5363;
    matches!(look.at(0), 1 | 2) && look.len() >= 240 && look.at(2) <= 16 && (cookie || look.ports(&[67, 68]))
}

/// RFC 8415 section 7.3: message types of clients, servers and relays.
pub(super) fn dhcpv6(look: &Look<'_>) -> bool {
    look.ports(&[546, 547]) && (1..=13).contains(&look.at(0)) && look.len() >= 4
}

/// A message of version 1, 2c or 3 (RFC 1157 section 4, RFC 3412 section 6).
pub(super) fn snmp(look: &Look<'_>) -> bool {
    let Some(version) = ber(look, 0, 0x30) else { return false };
    let next = look.at(version + 3);
    look.u16_at(version) == 0x0201
        && matches!((look.at(version + 2), next), (0 | 1, 0x04) | (3, 0x30))
        && (look.ports(&[161, 162]) || next == 0x30 || community(look, version + 3))
}

/// A community string, and a PDU behind it.
fn community(look: &Look<'_>, place: usize) -> bool {
    let pdu = place + 2 + usize::from(look.at(place + 1));
    look.at(place + 1) < 0x80 && (0xa0..=0xa8).contains(&look.at(pdu))
}

/// Queries of the distributed hash table (BEP 5), and the connection to a tracker (BEP 15).
pub(super) fn bittorrent(look: &Look<'_>) -> bool {
    let table: [&[u8]; 4] = [b"d1:ad2:id20:", b"d1:rd2:id20:", b"d1:el", b"d2:ip"];
    let tracker = look.payload.starts_with(b"\x00\x00\x04\x17\x27\x10\x19\x80\0\0\0\0");
    look.at(0) == b'd' && table.iter().any(|start| look.starts(start)) || tracker
}
