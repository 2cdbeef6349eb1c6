//! Fragmented packets (RFC 791 section 3.2, RFC 8200 section 4.5) put together. No length is trusted.

use std::net::IpAddr;

/// A piece of a fragmented packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) id: u32,
    /// Octets before this piece.
    pub(super) offset: usize,
    pub(super) last: bool,
    pub(super) octets: &'a [u8],
}

/// Most incomplete packets at a time.
const REASSEMBLIES_MAX: usize = 64;
const PACKET_OCTETS_MAX: usize = 65_535;
/// Most pieces of one packet; honest paths make some fifty of the longest.
const PIECES_MAX: usize = 1_024;

/// Puts fragmented packets of one protocol together. Pieces may come in any order; when too many packets are incomplete,
/// the oldest is dropped.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    packets: Vec<Pieces>,
    /// Packets dropped.
    pub(super) abandoned: u64,
}

#[derive(Debug)]
struct Pieces {
    key: (IpAddr, IpAddr, u32),
    octets: Vec<u8>,
    /// Half-open ranges of octets that have come.
    have: Vec<(usize, usize)>,
    end: Option<usize>,
}

impl Reassembly {
    /// Adds a piece. Returns source, destination and what the packet carries when it is whole.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>) -> Option<(IpAddr, IpAddr, Vec<u8>)> {
        let end = fragment.offset + fragment.octets.len();
        if end > PACKET_OCTETS_MAX {
            self.abandoned += 1;
            return None;
        }
        let key = (fragment.source, fragment.destination, fragment.id);
        let position = self.packets.iter().position(|pieces| pieces.key == key).unwrap_or_else(|| {
            if self.packets.len() == REASSEMBLIES_MAX {
                self.packets.remove(0);
                self.abandoned += 1;
            }
            self.packets.push(Pieces { key, octets: Vec::new(), have: Vec::new(), end: None });
            self.packets.len() - 1
        });
        if self.packets[position].have.len() >= PIECES_MAX {
            self.packets.remove(position);
            self.abandoned += 1;
            return None;
        }
        let pieces = &mut self.packets[position];
        if pieces.octets.len() < end {
            pieces.octets.resize(end, 0);
        }
        pieces.octets[fragment.offset..end].copy_from_slice(fragment.octets);
        pieces.have.push((fragment.offset, end));
        if fragment.last {
            pieces.end = Some(end);
        }
        if !pieces.is_whole() {
            return None;
        }
        let whole = self.packets.remove(position);
        Some((key.0, key.1, whole.octets))
    }

    /// Packets of which pieces are still missing.
    pub(super) fn unfinished(&self) -> u64 {
        self.packets.len() as u64
    }
}

impl Pieces {
    fn is_whole(&mut self) -> bool {
        let Some(end) = self.end else { return false };
        self.have.sort_unstable();
        let reached =
            self.have.iter().fold(0, |reached, &(from, to)| if from <= reached { reached.max(to) } else { reached });
        reached >= end
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn fragments_in_any_order() {
        let segment: Vec<u8> = (0..40).collect();
        let piece = |from: usize, to: usize| Fragment {
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv4Addr::LOCALHOST.into(),
            protocol: 17,
            id: 1,
            offset: from,
            last: to == 40,
            octets: &segment[from..to],
        };
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.add(&piece(24, 40)), None);
        assert_eq!(reassembly.add(&piece(0, 16)), None);
        assert_eq!(reassembly.add(&piece(16, 24)).map(|whole| whole.2), Some(segment.clone()));
        assert_eq!(reassembly.unfinished(), 0);
    }
}
