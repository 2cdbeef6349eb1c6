//! Addresses as octets in network order, and as text.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses the text of an IPv4 or IPv6 address into its octets: 4 or 16.
pub fn parse_address(text: &str) -> Option<Vec<u8>> {
    match text.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => Some(address.octets().to_vec()),
        IpAddr::V6(address) => Some(address.octets().to_vec()),
    }
}

/// The octets of an address, 4 or 16, without an allocation.
pub fn with_octets<R>(address: IpAddr, f: impl FnOnce(&[u8]) -> R) -> R {
    match address {
        IpAddr::V4(address) => f(&address.octets()),
        IpAddr::V6(address) => f(&address.octets()),
    }
}

/// Octets as an address, or `None` when they are neither 4 nor 16.
pub fn to_ip(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(octets).ok().map(|v6| Ipv6Addr::from(v6).into())
}

/// Turns an address, or any octets in network order, into its network of so many bits: the bits after them become 0. A
/// length of all bits or more leaves the address as it is, since exporters report such masks; nfdump 1.7.1 shifts by
/// negative numbers then, and answers with whatever the processor makes of that.
pub fn keep_prefix(octets: &mut [u8], bits: usize) {
    for (position, octet) in octets.iter_mut().enumerate() {
        *octet &= match bits.saturating_sub(position * 8) {
            0 => 0,
            kept @ 1..8 => !0 << (8 - kept),
            _ => !0,
        };
    }
}

/// Prints octets as people write them: 4 as IPv4, 16 as IPv6, 6 as a MAC address, anything else in hexadecimal.
#[derive(Debug, Clone, Copy)]
pub struct AddressText<'a>(pub &'a [u8]);

impl fmt::Display for AddressText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = to_ip(self.0) {
            return address.fmt(f);
        }
        let mac = self.0.len() == 6;
        f.write_str(if mac { "" } else { "0x" })?;
        for (position, octet) in self.0.iter().enumerate() {
            let separator = if mac && position > 0 { ":" } else { "" };
            write!(f, "{separator}{octet:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_addresses() {
        // the values of Python's ipaddress.ip_network(…, strict=False)
        for (address, bits, expected) in [
            ("10.255.3.129", 0, "0.0.0.0"),
            ("10.255.3.129", 9, "10.128.0.0"),
            ("10.255.3.129", 25, "10.255.3.128"),
            ("10.255.3.129", 32, "10.255.3.129"),
            ("2001:db8:ffff::1", 35, "2001:db8:e000::"),
            // longer than the address
            ("10.255.3.129", 33, "10.255.3.129"),
            ("10.255.3.129", 200, "10.255.3.129"),
            ("2001:db8::1", 255, "2001:db8::1"),
        ] {
            let mut octets = parse_address(address).expect("an address");
            keep_prefix(&mut octets, bits);
            assert_eq!(AddressText(&octets).to_string(), expected, "{address}/{bits}");
        }
    }

    #[test]
    fn text_and_octets_agree() {
        for text in ["10.0.0.1", "2001:db8::1", "::", "255.255.255.255"] {
            let octets = parse_address(text).expect("an address");
            assert_eq!(AddressText(&octets).to_string(), text);
        }
        assert_eq!(parse_address("10.0.0"), None);
        assert_eq!(AddressText(&[0, 27, 33, 1, 2, 255]).to_string(), "00:1b:21:01:02:ff");
        assert_eq!(AddressText(&[1, 2]).to_string(), "0x0102");
    }
}
