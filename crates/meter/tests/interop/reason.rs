//! Why an answer differs: a closed list, each with a rule that the packets of the conversation must meet.

use std::collections::BTreeMap;

use crate::seen::{Seen, whole_octets};

macro_rules! reasons {
    ($($variant:ident $about:literal;)*) => {
        /// Why an answer differs; of each the other program is spoken of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Reason {
            $(#[doc = $about] $variant,)*
        }

        impl Reason {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// What the other program does, and the rule by which it is known.
            pub(crate) const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)*
                }
            }
        }
    };
}

reasons! {
    BadChecksum "does not count packets with a wrong checksum: without them the sums are the same";
    CutOff "does not count packets of which less was captured than their IP header states: without them the sums are the same";
    FirstFragments "does not count fragments but the first: without them the sums are the same";
    ShortTransport "does not count packets whose IP header leaves no room for the header of TCP or UDP: without them the sums are the same";
    SomeFragments "counts some of the later fragments, by what it takes for their ports: the sums are between those without them and those with them";
    FramesInFrames "does not look into frames in frames (provider bridges, pseudowires, Cisco's fabrics): without what they carry the sums are the same";
    Reassembled "counts a packet in fragments once, when all of them came: put together the sums are the same";
    CarrierIncomplete "puts fragments together before it looks into the tunnel: without packets whose carrier lacks fragments the sums are the same";
    NoLength "counts no octets of a packet whose IP header states a length of 0 (segmentation left to the network card): without these the sums are the same";
    Captured "counts the octets of a frame that were captured: these sums are the same";
    InTunnel "counts the octets of what a tunnel carries: all packets are in one, and the octets are between those of the IP packet and those of the frame";
    OfTypes "has one record for all types of ICMP: the sums are the same, and each record that tells its times has the packets between these";
    CutElsewhere "ends flows at other times: the sums are the same, and each record that tells its times has the packets between these";
    LeavesOut "was told to leave flows out, or tells only those of its plugin: all of its records are among the flows";
    Repeated "tells a flow once for each of several questions in it: its records are the same, and so is the flow";
    NoPorts "has no ports of this conversation: the sums of all ports are the same";
    OfProtocol "has one record for all of a protocol, or for all of DHCP: the sums of these are the same";
    Between "also tells a packet between the outermost and the innermost: packets in several tunnels are in the capture, at least as many";
    LinkIgnored "reads IP behind a link header that says something else: as many frames of the capture have no IP here";
    Counted "stopped to count when it knew the protocol (data of a file transfer): it has fewer packets and octets";
    Turned "took the answer for the question, and sides are exchanged: the conversation does not begin with a SYN";
    TurnedLate "turned sides when it knew the protocol, after packets were counted: the sums of both sides are the same";
    NothingCarried "has no record of packets that carry nothing (IPv6 no next header, RFC 8200 section 4.7)";
    Swapped "took who answers to have begun: the first packet is no SYN, and the known port or the ACK of the first SYN tell it so";
    EndedEarlier "does not count the time of packets after the end of TCP: one packet ends at its time, and a FIN or RST came before it or in it";
    InFileOrder "takes the first and the last packet of the file, which goes back in time: these times are the same";
    NeverBack "takes a packet that goes back in time to be as late as the one before: with these times it is the same";
}

impl Reason {
    /// The packets as the other program counts them; `None` when the reason does not apply to any of them.
    pub(crate) fn apply(self, packets: &[Seen]) -> Option<Vec<Seen>> {
        let kept = |keep: &dyn Fn(&Seen) -> bool| {
            let kept: Vec<_> = packets.iter().filter(|seen| keep(seen)).copied().collect();
            (kept.len() < packets.len()).then_some(kept)
        };
        let changed = |applies: &dyn Fn(&Seen) -> bool, change: &dyn Fn(&Seen) -> Seen| {
            packets.iter().any(applies).then(|| packets.iter().map(change).collect())
        };
        match self {
            Self::BadChecksum => kept(&|seen| !seen.bad_checksum),
            Self::CutOff => kept(&|seen| seen.ip_captured >= seen.ip_octets),
            Self::FirstFragments => kept(&|seen| seen.fragment.is_none_or(|(_, offset)| offset == 0)),
            Self::ShortTransport => kept(&|seen| !seen.is_short),
            Self::FramesInFrames => kept(&|seen| !seen.in_frames),
            Self::CarrierIncomplete => kept(&|seen| !seen.carrier_is_incomplete),
            Self::Reassembled => reassembled(packets),
            Self::NoLength => changed(&|seen| seen.has_no_length, &|seen| Seen {
                ip_octets: if seen.has_no_length { 0 } else { seen.ip_octets },
                ..*seen
            }),
            Self::Captured => changed(&|seen| seen.frame_captured != seen.frame_octets, &|seen| Seen {
                frame_octets: seen.frame_captured,
                ..*seen
            }),
            _ => None,
        }
    }

    /// Whether it changes which packets are counted, or their octets.
    pub(crate) const fn is_of_packets(self) -> bool {
        matches!(
            self,
            Self::BadChecksum
                | Self::CutOff
                | Self::FirstFragments
                | Self::ShortTransport
                | Self::FramesInFrames
                | Self::CarrierIncomplete
                | Self::Reassembled
                | Self::NoLength
                | Self::Captured
        )
    }
}

/// Fragments put together: one packet with the header of the first and all that they carry.
fn reassembled(packets: &[Seen]) -> Option<Vec<Seen>> {
    let (mut whole, mut parts) = (Vec::new(), BTreeMap::<(bool, u32), Vec<&Seen>>::new());
    for seen in packets {
        match seen.fragment {
            Some((identification, _)) => parts.entry((seen.by_low, identification)).or_default().push(seen),
            None => whole.push(*seen),
        }
    }
    if parts.is_empty() {
        return None;
    }
    for fragments in parts.into_values() {
        let Some(carried) = whole_octets(&fragments) else { continue };
        let Some(first) = fragments.iter().min_by_key(|seen| seen.fragment) else { continue };
        let ip_octets = first.ip_header_octets + carried;
        whole.push(Seen { ip_octets, frame_octets: first.link_octets + ip_octets, ..**first });
    }
    Some(whole)
}
