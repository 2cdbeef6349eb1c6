//! Tunnels over UDP, some of them over TCP too.

use super::Look;

/// Handshakes and data by their type and length (`WireGuard`, section 5.4); data are recognized on the usual port only.
pub(super) fn wireguard(look: &Look<'_>) -> bool {
    let length = match look.at(0) {
        1 => look.len() == 148,
        2 => look.len() == 92,
        3 => look.len() == 64,
        4 => look.port(51_820) && look.len() >= 32 && look.len().is_multiple_of(16),
        _ => false,
    };
    look.u24_at(1) == 0 && length
}

/// An ISAKMP header (RFC 7296 section 3.1, RFC 2408 section 3.1), on port 4500 behind four octets of zero (RFC 3948
/// section 2.2).
pub(super) fn ike(look: &Look<'_>) -> bool {
    let place = if look.port(4500) && look.u32_at(0) == 0 { 4 } else { 0 };
    let initiator = look.u32_at(place) | look.u32_at(place + 4);
    let length = look.u32_at(place + 24) as usize;
    (look.ports(&[500, 4500]) || look.port(848))
        && look.len() >= place + 28
        && initiator != 0
        && matches!(look.at(place + 17), 0x10 | 0x11 | 0x20)
        && length >= 28
        && length <= look.len() - place + 4
}

/// ESP behind UDP, and what keeps the mapping alive (RFC 3948 sections 2.1 and 2.3).
pub(super) fn esp(look: &Look<'_>) -> bool {
    look.port(4500) && (look.payload == [0xff] || look.len() > 20 && look.u32_at(0) > 255)
}

/// GTP-C and GTP-U of version 1 and GTP-C of version 2 on their ports (3GPP TS 29.060, TS 29.274).
pub(super) fn gtp(look: &Look<'_>) -> bool {
    let length = usize::from(look.u16_at(2));
    let fits = match look.at(0) >> 5 {
        // Version 1, or GTP' of the same number without the bit of the protocol type.
        0 | 1 => length + 8 <= look.len() + 4,
        2 => length + 4 <= look.len(),
        _ => false,
    };
    look.ports(&[2123, 2152, 3386]) && look.len() >= 8 && fits && look.at(1) > 0
}

/// RFC 7348 section 5.
pub(super) fn vxlan(look: &Look<'_>) -> bool {
    look.port(4789) && look.len() > 22 && look.at(0) & 0x08 != 0 && look.u24_at(1) == 0 && look.at(7) == 0
}

/// Opcodes of a session that is set up, the client's in version 2 and 3 and the server's in version 2.
const RESET_CLIENT: u8 = 7;
const RESET_SERVER: u8 = 8;
const RESET_CLIENT_KEYED: u8 = 10;

/// A reset that begins a session: opcode and key 0, a session identifier, then perhaps a hash and a packet number, an
/// empty list of acknowledgements, and the message number 0. TCP puts a length before it.
pub(super) fn openvpn(look: &Look<'_>) -> bool {
    let place = if look.udp { 0 } else { 2 };
    if !look.udp && usize::from(look.u16_at(0)) + 2 != look.len() || look.len() < place + 14 {
        return false;
    }
    let (opcode, key) = (look.at(place) >> 3, look.at(place) & 7);
    let body = |hash: usize| {
        let packet = if hash == 0 { 0 } else { 8 };
        let list = place + 9 + hash + packet;
        let acknowledged = usize::from(look.at(list));
        let number = list + 1 + if acknowledged > 0 { acknowledged * 4 + 8 } else { 0 };
        acknowledged <= 1 && look.len() >= number + 4 && look.u32_at(number) == 0 && look.len() <= number + 4 + 300
    };
    // Hashes of 0, SHA-1, SHA-256 and SHA-512.
    let plain = [0, 20, 32, 64].into_iter().any(body);
    match opcode {
        RESET_CLIENT | RESET_SERVER => key == 0 && (plain || look.port(1194)),
        RESET_CLIENT_KEYED => key == 0 && look.port(1194),
        1..=9 => look.port(1194),
        _ => false,
    }
}
