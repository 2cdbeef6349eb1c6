//! Community ID version 1: one short name for a flow that all programs that know the scheme give to it.
//!
//! The name is a hash of addresses, protocol and ports, put in an order that is the same for both directions. It is a
//! function of Flow Keys alone, so it may be computed when flows are read as well as when they are metered; what
//! speaks against keeping it with every flow is 20 octets that do not compress.
//!
//! Source: Corelight's specification of Community ID flow hashing, version 1.

use std::fmt;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::{Digest, Sha1};

use crate::icmp::{self, ICMP, ICMPV6};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// Octets of a hash in base64.
const TEXT_OCTETS: usize = 28;

/// The Community ID of a flow; it prints as `1:` and base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommunityId([u8; 20]);

impl CommunityId {
    /// The ID of the flow that a packet belongs to, in whichever direction it goes.
    ///
    /// `ports` are source and destination port of TCP, UDP and SCTP, and type and code of ICMP and `ICMPv6`; other
    /// protocols have none, and what is given for them does not count. `seed` keeps the IDs of sites apart, and is 0
    /// by default.
    pub fn of(seed: u16, source: IpAddr, destination: IpAddr, protocol: u8, ports: (u16, u16)) -> Self {
        let (ports, one_way) = match protocol {
            TCP | UDP | SCTP => (Some(ports), false),
            ICMP | ICMPV6 => counterpart(protocol, ports),
            _ => (None, false),
        };
        let (first, second) = (Octets::of(source), Octets::of(destination));
        let from = (first.as_slice(), ports.map(|(port, _)| port));
        let to = (second.as_slice(), ports.map(|(_, port)| port));
        let ((low, low_port), (high, high_port)) = if one_way || from <= to { (from, to) } else { (to, from) };
        let mut hash = Sha1::new();
        hash.update(seed.to_be_bytes());
        hash.update(low);
        hash.update(high);
        hash.update([protocol, 0]);
        for port in [low_port, high_port].into_iter().flatten() {
            hash.update(port.to_be_bytes());
        }
        Self(hash.finalize().into())
    }

    /// The hash alone.
    pub fn octets(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for CommunityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; TEXT_OCTETS];
        // the text of 20 octets has that length
        let octets = BASE64.encode_slice(self.0, &mut text).unwrap_or_default();
        write!(f, "1:{}", text.get(..octets).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default())
    }
}

/// An address as octets, of which the first so many count.
struct Octets([u8; 16], usize);

impl Octets {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&address.octets());
                Self(octets, 4)
            }
            IpAddr::V6(address) => Self(address.octets(), 16),
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// What takes the place of ports for ICMP: the type and the one that answers it, or type and code of a message that nothing
/// answers, whose direction then counts.
fn counterpart(protocol: u8, (kind, code): (u16, u16)) -> (Option<(u16, u16)>, bool) {
    let found = u8::try_from(kind).ok().and_then(|kind| icmp::answer(protocol, kind));
    match found {
        Some(other) => (Some((kind, other.into())), false),
        None => (Some((kind, code)), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (u8, &'static str, &'static str, (u16, u16), &'static str, &'static str);

    /// The tables of the specification: protocol, source, destination, ports, and the ID with the seeds 0 and 1.
    const TABLE: [Row; 16] = [
        (6, "1.2.3.4", "5.6.7.8", (1122, 3344), "wCb3OG7yAFWelaUydu0D+125CLM=", "HhA1B+6CoLbiKPEs5nhNYN4XWfk="),
        (6, "5.6.7.8", "1.2.3.4", (3344, 1122), "wCb3OG7yAFWelaUydu0D+125CLM=", "HhA1B+6CoLbiKPEs5nhNYN4XWfk="),
        (17, "1.2.3.4", "5.6.7.8", (1122, 3344), "0Mu9InQx6z4ZiCZM/7HXi2WMhOg=", "OShq+iKDAMVouh/4bMxB9Sz4amw="),
        (17, "5.6.7.8", "1.2.3.4", (3344, 1122), "0Mu9InQx6z4ZiCZM/7HXi2WMhOg=", "OShq+iKDAMVouh/4bMxB9Sz4amw="),
        (132, "1.2.3.4", "5.6.7.8", (1122, 3344), "EKt4MsxuyaE6mL+hmrEkQ9csDD8=", "uitchpn5MMGAQKBJh7bIr/bAr7s="),
        (132, "5.6.7.8", "1.2.3.4", (3344, 1122), "EKt4MsxuyaE6mL+hmrEkQ9csDD8=", "uitchpn5MMGAQKBJh7bIr/bAr7s="),
        (1, "1.2.3.4", "5.6.7.8", (8, 0), "crodRHL2FEsHjbv3UkRrfbs4bZ0=", "9pr4ZGTICiuZoIh90RRYE2RyXpU="),
        (1, "5.6.7.8", "1.2.3.4", (0, 0), "crodRHL2FEsHjbv3UkRrfbs4bZ0=", "9pr4ZGTICiuZoIh90RRYE2RyXpU="),
        (1, "1.2.3.4", "5.6.7.8", (11, 0), "f/YiSyWqczrTgfUCZlBUnvHRcPk=", "1DD7cWGC/Yg91YGsQeni8du3pIA="),
        (58, A, B, (128, 0), "0bf7hyMJUwt3fMED7z8LIfRpBeo=", "IO27GQzPuCtNnwFvjWALMHu5tJE="),
        (58, B, A, (129, 0), "0bf7hyMJUwt3fMED7z8LIfRpBeo=", "IO27GQzPuCtNnwFvjWALMHu5tJE="),
        (58, A, B, (146, 0), "fYC8+pz24E+EhANP1EZhpX0Dw10=", "Cv4IKJe56BNkF0MBW2YxQ3Nwc3s="),
        (46, "1.2.3.4", "5.6.7.8", (0, 0), "ikv3kmf89luf73WPz1jOs49S768=", "/buhqeOmaRCopOZFy9HnoJd5XW8="),
        (46, "5.6.7.8", "1.2.3.4", (9, 9), "ikv3kmf89luf73WPz1jOs49S768=", "/buhqeOmaRCopOZFy9HnoJd5XW8="),
        (46, A, B, (0, 0), "wQ/2mwrnXP4lmJcHdGL5ePjR+e0=", "j6EyyfBzL4vWKHFXgUqb5Az3OxM="),
        (46, B, A, (1, 2), "wQ/2mwrnXP4lmJcHdGL5ePjR+e0=", "j6EyyfBzL4vWKHFXgUqb5Az3OxM="),
    ];
    const A: &str = "fe80:0001:0203:0405:0607:0809:0a0b:0c0d";
    const B: &str = "fe80:1011:1213:1415:1617:1819:1a1b:1c1d";

    #[test]
    fn the_tables_of_the_specification() {
        for (protocol, source, destination, ports, unseeded, seeded) in TABLE {
            let (source, destination) = (source.parse().expect("an address"), destination.parse().expect("an address"));
            for (seed, expected) in [(0, unseeded), (1, seeded)] {
                let id = CommunityId::of(seed, source, destination, protocol, ports);
                assert_eq!(id.to_string(), format!("1:{expected}"), "{protocol} {source} {destination} {ports:?}");
            }
        }
    }
}
