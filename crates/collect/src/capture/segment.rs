//! From an IP packet to the TCP segment in it (RFC 9293 section 3.1). No length is trusted.

use std::net::{IpAddr, SocketAddr};

/// Octets of the header without options.
const HEADER_OCTETS: usize = 20;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// The sequence number in the header.
    pub(super) sequence: u32,
    /// The sequence number that it expects next of the other direction, where it acknowledges anything.
    pub(super) acknowledged: Option<u32>,
    pub(super) flags: u8,
    /// Octets of the payload as it was sent.
    pub(super) octets_sent: u32,
    /// The payload, as far as it was captured.
    pub(super) payload: &'a [u8],
}

impl Segment<'_> {
    /// Whether it begins a connection.
    pub(super) fn begins(&self) -> bool {
        self.flags & SYN != 0
    }

    /// Whether nothing follows its payload.
    pub(super) fn ends(&self) -> bool {
        self.flags & FIN != 0
    }

    /// Whether it ends the connection at once.
    pub(super) fn resets(&self) -> bool {
        self.flags & RST != 0
    }

    /// The sequence number of the first octet of the payload: a SYN has one of its own (RFC 9293 section 3.4).
    pub(super) fn first_octet(&self) -> u32 {
        self.sequence.wrapping_add(u32::from(self.begins()))
    }
}

/// Reads a TCP header and the payload after it, of which `octets_sent` were sent with the header; `None` when the header
/// without options is not all there.
pub(super) fn segment(source: IpAddr, destination: IpAddr, octets: &[u8], octets_sent: usize) -> Option<Segment<'_>> {
    let header = octets.first_chunk::<HEADER_OCTETS>()?;
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let flags = header[13];
    let header_octets = usize::from(header[12] >> 4) * 4;
    if header_octets < HEADER_OCTETS {
        return None;
    }
    Some(Segment {
        source: SocketAddr::new(source, number(0)),
        destination: SocketAddr::new(destination, number(2)),
        sequence: long(4),
        acknowledged: (flags & ACK != 0).then(|| long(8)),
        flags,
        octets_sent: octets_sent.max(octets.len()).saturating_sub(header_octets) as u32,
        payload: octets.get(header_octets..).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From port 40000 to 4739, number 100, a header of 24 octets, PSH and ACK.
    const OCTETS: [u8; 26] = [
        0x9c, 0x40, 0x12, 0x83, 0, 0, 0, 100, 0, 0, 0, 1, 0x60, 0x18, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4, b'a', b'b',
    ];

    fn read(octets: &[u8], octets_sent: usize) -> Option<Segment<'_>> {
        let [source, destination] = ["192.0.2.1", "192.0.2.9"].map(|address| address.parse().expect("an address"));
        segment(source, destination, octets, octets_sent)
    }

    #[test]
    fn payload_is_behind_options_and_as_long_as_it_was_captured() {
        let expected = Segment {
            source: "192.0.2.1:40000".parse().expect("an address"),
            destination: "192.0.2.9:4739".parse().expect("an address"),
            sequence: 100,
            acknowledged: Some(1),
            flags: 0x18,
            octets_sent: 2,
            payload: b"ab",
        };
        assert_eq!(read(&OCTETS, 26), Some(expected));
        assert_eq!(read(&OCTETS[..25], 26), Some(Segment { payload: b"a", ..expected }));
        assert_eq!(read(&OCTETS[..22], 26), Some(Segment { payload: b"", ..expected }));
        for length in 0..20 {
            assert_eq!(read(&OCTETS[..length], 26), None);
        }
        let mut short = OCTETS;
        short[12] = 0x40;
        assert_eq!(read(&short, 26), None);
    }

    #[test]
    fn a_syn_has_a_number_of_its_own() {
        let mut octets = OCTETS;
        octets[4..8].copy_from_slice(&[0xff; 4]);
        octets[13] = 0x02;
        let syn = read(&octets, 26).expect("a segment");
        assert!(syn.begins() && !syn.ends() && !syn.resets());
        assert_eq!((syn.first_octet(), syn.acknowledged), (0, None));
    }
}
