//! Label stacks, and what can be concluded about what they carry.

use super::link::{ARP, IPV4, IPV6, bridged, ip, is_dissected};
use super::{End, Headers, Step, TunnelKind, skip};

/// RFC 3032 section 2.1: entries up to the one with the bottom of stack bit. What follows has no type; it is read as
/// what its first four bits mean (RFC 4928 section 3), and for Ethernet where it can be that.
pub(super) fn mpls<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let entries = octets.as_chunks::<4>().0;
    let bottom = entries.iter().position(|entry| entry[2] & 1 == 1);
    let end = bottom.map_or(entries.len(), |bottom| bottom + 1) * 4;
    let (labels, rest) = octets.split_at(end);
    headers.labels = labels;
    if bottom.is_none() {
        return Err(End::Truncated);
    }
    let bridged = bridged(TunnelKind::EthernetOverMpls, None);
    match rest.first().ok_or(End::Truncated)? >> 4 {
        4 if !looks_like_ethernet(rest) => ip(IPV4, rest, headers),
        6 if !looks_like_ethernet(rest) => ip(IPV6, rest, headers),
        // the control word of RFC 4385 section 3
        0 if rest.starts_with(&[0; 4]) || !looks_like_ethernet(rest) => Ok((bridged, skip(rest, 4)?)),
        // the associated channel of RFC 5586 section 2.1
        1 if !looks_like_ethernet(rest) => Err(End::Unknown),
        _ if looks_like_ethernet(rest) => Ok((bridged, rest)),
        _ => Err(End::Unknown),
    }
}

/// Whether this can be Ethernet and can be nothing else that labels carry: an `EtherType` in its place that is dissected or
/// is that of ARP, and no IP header that agrees with itself.
pub(super) fn looks_like_ethernet(octets: &[u8]) -> bool {
    let Some([high, low]) = octets.get(12..14) else { return false };
    let number = u16::from_be_bytes([*high, *low]);
    let ipv4 = octets[0] >> 4 == 4
        && octets[0] & 0xf >= 5
        && octets.get(2..4).is_some_and(|length| u16::from_be_bytes([length[0], length[1]]) >= 20)
        && octets[8] > 0;
    let ipv6 = octets[0] >> 4 == 6 && octets[7] > 0;
    (number == ARP || is_dissected(number)) && !ipv4 && !ipv6
}
