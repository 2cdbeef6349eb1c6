//! Internet checksums (RFC 1071), which some programs want to be right before they count a packet.

use weir_wire::packet::Headers;

/// Whether a checksum of these headers is wrong. What cannot be computed, of fragments and of packets cut off, is not.
pub(crate) fn is_bad(headers: &Headers<'_>) -> bool {
    let Some(ip) = &headers.ip else { return false };
    // without what follows it, which counts among its octets: authentication headers
    let octets = ip.octets.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let header = ip.octets.get(..octets).unwrap_or_default();
    if ip.source.len() == 4 && !header.is_empty() && sum(header, 0) != 0xffff {
        return true;
    }
    let transport = headers.transport();
    let stated = (ip.total_length as usize).saturating_sub(ip.header_octets as usize);
    if ip.fragment.is_some() || transport.len() != stated || transport.is_empty() {
        return false;
    }
    let pseudo = sum(ip.source, 0) + sum(ip.destination, 0) + u32::from(ip.protocol) + stated as u32;
    match (ip.protocol, transport) {
        // a checksum of 0 is none (RFC 768)
        (17, [_, _, _, _, _, _, 0, 0, ..]) => false,
        (17, [_, _, _, _, high, low, ..]) => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let covered = transport.get(..length).unwrap_or(transport);
            let pseudo = sum(ip.source, 0) + sum(ip.destination, 0) + 17 + length as u32;
            sum(covered, pseudo) != 0xffff
        }
        (6, [_, ..]) if transport.len() >= 20 => sum(transport, pseudo) != 0xffff,
        (58, [_, ..]) if transport.len() >= 4 => sum(transport, pseudo) != 0xffff,
        (1, [_, ..]) if transport.len() >= 8 => sum(transport, 0) != 0xffff,
        _ => false,
    }
}

/// The sum of all 16-bit words in ones' complement.
fn sum(octets: &[u8], start: u32) -> u32 {
    let (words, rest) = octets.as_chunks::<2>();
    let mut sum = words.iter().fold(u64::from(start), |sum, word| sum + u64::from(u16::from_be_bytes(*word)));
    sum += rest.first().map_or(0, |octet| u64::from(*octet) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u32
}
