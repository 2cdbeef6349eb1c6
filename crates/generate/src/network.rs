//! Hosts and where they are: two zones of prefixes, ours inside and everyone else's outside.

use crate::random::Random;

/// An address with what routers know about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host {
    /// IPv4 in the first four octets, or IPv6.
    pub octets: [u8; 16],
    pub mask: u8,
    pub system: u32,
    pub interface: u32,
    /// Last octet of the address of the router towards it.
    pub router: u8,
}

/// Hosts behind the same routes.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    /// First half of an IPv4 address.
    v4: u16,
    /// The first 48 bits of an IPv6 address, in the upper bits.
    v6: u64,
    mask: u8,
    mask_v6: u8,
    system: u32,
    interface: u32,
    router: u8,
}

/// Some prefixes, and hosts spread over them by their popularity.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    prefixes: Vec<Prefix>,
    /// The ranks of hosts are below 2^`octaves` - 1.
    octaves: u32,
    prefix_bits: u32,
}

/// Prefixes are powers of two, so that a host's number is split by shifting.
const INSIDE_PREFIX_BITS: u32 = 4;
const OUTSIDE_PREFIX_BITS: u32 = 10;

impl Zone {
    /// Our own networks: 10.0.0.0/12 by slices of 65536 hosts, and `2001:67c::/32`.
    pub(crate) fn inside(hosts: u32) -> Self {
        let prefixes = (0..1 << INSIDE_PREFIX_BITS).map(|number: u16| Prefix {
            v4: 0x0a00 | number,
            v6: 0x2001_067c_0000_0000 | u64::from(number) << 16,
            mask: 16,
            mask_v6: 48,
            system: 64_500 + u32::from(number % 2),
            interface: 1 + u32::from(number % 4),
            router: 1 + (number % 4) as u8,
        });
        Self::new(prefixes.collect(), INSIDE_PREFIX_BITS, hosts)
    }

    /// Everyone else's: public IPv4 networks of 65536 addresses each, no two the same, with routes of /16 to /24.
    pub(crate) fn outside(hosts: u32, random: &mut Random) -> Self {
        let mut networks: Vec<u16> = (0x0100..0xe000).filter(|&network| is_public(network)).collect();
        let prefixes = (0..1_u16 << OUTSIDE_PREFIX_BITS).map(|number| {
            let v4 = networks.swap_remove(random.below(networks.len() as u32) as usize);
            Prefix {
                v4,
                // `2a00::/12`, of the registry for Europe; the IPv4 network keeps prefixes apart
                v6: 0x2a00_0000_0000_0000 | u64::from(v4) << 36 | u64::from(random.below(1 << 16)) << 16,
                mask: 16 + random.below(9) as u8,
                mask_v6: if random.chance(500) { 32 } else { 48 },
                system: 1_000 + random.below(63_000),
                interface: 101 + u32::from(number % 4),
                router: 129 + (number % 8) as u8,
            }
        });
        Self::new(prefixes.collect(), OUTSIDE_PREFIX_BITS, hosts)
    }

    fn new(prefixes: Vec<Prefix>, prefix_bits: u32, hosts: u32) -> Self {
        Self { prefixes, octaves: hosts.next_power_of_two().trailing_zeros(), prefix_bits }
    }

    /// A host, popular ones more often.
    #[inline]
    pub(crate) fn pick(&self, wide: bool, random: &mut Random) -> Host {
        self.host(random.zipf(self.octaves), wide)
    }

    /// A host, all of them as often.
    #[inline]
    pub(crate) fn any(&self, wide: bool, random: &mut Random) -> Host {
        self.host(random.below((1 << self.octaves) - 1), wide)
    }

    /// The host of this rank. Odd factors only permute numbers modulo a power of two, so no two ranks share one.
    #[inline]
    fn host(&self, rank: u32, wide: bool) -> Host {
        let number = rank.wrapping_mul(0x9e37_79b1) & ((1 << self.octaves) - 1);
        let prefix = self.prefixes[(number & ((1 << self.prefix_bits) - 1)) as usize];
        let place = (number >> self.prefix_bits) as u16;
        let mut octets = [0; 16];
        if wide {
            // Subnets of sixteen hosts each, whose interface identifiers look random.
            let network = prefix.v6 | u64::from(place >> 4);
            let identifier = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            octets[..8].copy_from_slice(&network.to_be_bytes());
            octets[8..].copy_from_slice(&identifier.to_be_bytes());
        } else {
            octets[..2].copy_from_slice(&prefix.v4.to_be_bytes());
            octets[2..4].copy_from_slice(&place.wrapping_mul(40_503).to_be_bytes());
        }
        Host {
            octets,
            mask: if wide { prefix.mask_v6 } else { prefix.mask },
            system: prefix.system,
            interface: prefix.interface,
            router: prefix.router,
        }
    }
}

/// Whether all of a network of 65536 addresses is on the public internet (RFC 6890).
fn is_public(network: u16) -> bool {
    !matches!(
        network,
        0x0000..=0x00ff // 0.0.0.0/8
            | 0x0a00..=0x0aff // 10.0.0.0/8
            | 0x6440..=0x647f // 100.64.0.0/10
            | 0x7f00..=0x7fff // 127.0.0.0/8
            | 0xa9fe // 169.254.0.0/16
            | 0xac10..=0xac1f // 172.16.0.0/12
            | 0xc000 // 192.0.0.0/24, 192.0.2.0/24
            | 0xc058 // 192.88.99.0/24
            | 0xc0a8 // 192.168.0.0/16
            | 0xc612..=0xc613 // 198.18.0.0/15
            | 0xc633 // 198.51.100.0/24
            | 0xcb00 // 203.0.113.0/24
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_hosts_share_an_address() {
        for hosts in [1 << 7, 1 << 17, 1 << 20] {
            for zone in [Zone::inside(hosts.min(1 << 20)), Zone::outside(hosts, &mut Random::new(3))] {
                for wide in [false, true] {
                    let ranks = 0..hosts - 1;
                    let addresses: HashSet<_> = ranks.map(|rank| zone.host(rank, wide).octets).collect();
                    assert_eq!(addresses.len(), hosts as usize - 1);
                }
            }
        }
    }
}
