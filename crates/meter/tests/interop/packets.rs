//! Every packet as it is dissected here, against what tshark says of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;

use weir_capture::{FillOutcome, PacketBlock};
use weir_wire::packet::{End, Headers, LinkType, Packet, dissect};

use crate::captures::captures;
use crate::source::capture;
use crate::tshark::{self, Dissected, Layer};

/// Hop-by-hop, routing, fragment, authentication, destination options, mobility, HIP, shim6.
pub(crate) const EXTENSION_NUMBERS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) captures: usize,
    /// Captures that tshark cannot read, or finds no packet in.
    pub(crate) unread: usize,
    pub(crate) packets: usize,
    /// By link type: packets, and how many of them agree.
    pub(crate) links: BTreeMap<String, (usize, usize)>,
    /// The same by what lies between the frame and the innermost IP header.
    pub(crate) encapsulations: BTreeMap<String, (usize, usize)>,
    pub(crate) reasons: BTreeMap<Rule, usize>,
    pub(crate) unexplained: Vec<String>,
}

/// A frame as it was read.
pub(crate) struct Frame {
    pub(crate) link: LinkType,
    pub(crate) octets: Vec<u8>,
}

/// The frames of a capture whose links are dissected, and how many others there are.
pub(crate) struct Frames {
    pub(crate) read: Vec<Frame>,
    pub(crate) unknown_link: usize,
}

/// Compares every capture, or a sample of them; done once. A sample takes tshark about a minute, all of them eight.
pub(crate) fn outcome(corpus: &Path, tshark: &Path) -> &'static Outcome {
    static OUTCOME: OnceLock<Outcome> = OnceLock::new();
    OUTCOME.get_or_init(|| {
        let mut outcome = Outcome::default();
        for path in captures(corpus) {
            match tshark::packets(tshark, &corpus.join(&path)) {
                Some(theirs) => outcome.capture(&path, &corpus.join(&path), &theirs),
                None => outcome.unread += 1,
            }
        }
        outcome
    })
}

impl Outcome {
    fn capture(&mut self, name: &Path, path: &Path, theirs: &[Dissected]) {
        self.captures += 1;
        let frames = read(path);
        if frames.read.len() + frames.unknown_link != theirs.len() {
            let ours = (frames.read.len(), frames.unknown_link);
            self.unexplained.push(format!("{}: FRAMES {ours:?}, {}", name.display(), theirs.len()));
        }
        let mut at = 0;
        for frame in &frames.read {
            // Frames of links that are not dissected are in tshark's list alone.
            let is_same = |packet: &Dissected| frames.unknown_link == 0 || packet.captured == frame.octets.len();
            let Some(found) = theirs[at..].iter().position(is_same) else { break };
            at += found + 1;
            self.packet(name, at, frame, &theirs[at - 1]);
        }
    }

    fn packet(&mut self, name: &Path, number: usize, frame: &Frame, theirs: &Dissected) {
        let packet = dissect(frame.link, &frame.octets);
        self.packets += 1;
        let case = Case::of(frame.link, &packet, theirs);
        let agrees = case.agrees();
        for counts in [
            self.links.entry(format!("{:?}", frame.link)).or_default(),
            self.encapsulations.entry(encapsulation(theirs)).or_default(),
        ] {
            *counts = (counts.0 + 1, counts.1 + usize::from(agrees));
        }
        if agrees {
            return;
        }
        match Rule::ALL.iter().find(|rule| rule.holds(&case)) {
            Some(rule) => *self.reasons.entry(*rule).or_default() += 1,
            None => self.unexplained.push(format!("{} #{number}: {case:?}", name.display())),
        }
    }
}

/// All frames of a capture.
pub(crate) fn read(path: &Path) -> Frames {
    let (mut source, mut block, mut read) = (capture(path), PacketBlock::default(), Vec::new());
    while source.fill(&mut block).expect("a block") == FillOutcome::Packets {
        read.extend(block.packets().iter().map(|meta| Frame { link: meta.link, octets: block.frame(meta).to_vec() }));
    }
    Frames { read, unknown_link: source.counts().frames_unknown_link as usize }
}

/// The protocols around the innermost IP header; of many in a row that are the same, two.
fn encapsulation(theirs: &Dissected) -> String {
    let Some((end, _)) = theirs.layers.last() else { return "no IP".to_owned() };
    let names = theirs.protocols.iter().take(*end).map(String::as_str).filter(|name| *name != "ethertype");
    let mut kept: Vec<&str> = Vec::new();
    for name in names {
        if !kept.ends_with(&[name, name]) {
            kept.push(name);
        }
    }
    if kept.is_empty() { "nothing".to_owned() } else { kept.join(" ") }
}

/// A packet as it is seen here and there.
#[derive(Debug)]
struct Case<'a> {
    link: LinkType,
    vlans: Vec<u16>,
    outer: Option<Layer>,
    inner: Option<Layer>,
    end: End,
    /// What the outermost IP header carries.
    carried: &'a [u8],
    theirs: &'a Dissected,
}

impl<'a> Case<'a> {
    fn of(link: LinkType, packet: &Packet<'a>, theirs: &'a Dissected) -> Self {
        let (outer, inner) = (layer(packet.outermost()), layer(packet.innermost()));
        Self {
            link,
            vlans: (0..).map_while(|number| packet.outer.vlan(number)).collect(),
            outer,
            inner,
            end: packet.end,
            carried: packet.outermost().transport(),
            theirs,
        }
    }

    /// The outermost and the innermost layer, each as it is here and there.
    fn pairs(&self) -> [(Option<Layer>, Option<Layer>); 2] {
        let layers = &self.theirs.layers;
        [(self.outer, layers.first().map(|(_, layer)| *layer)), (self.inner, layers.last().map(|(_, layer)| *layer))]
    }

    fn agrees(&self) -> bool {
        self.vlans == self.theirs.vlans && self.pairs().iter().all(|(ours, theirs)| ours == theirs)
    }

    fn ends_with(&self, names: &[&str]) -> bool {
        self.theirs.protocols.last().is_some_and(|last| names.contains(&last.as_str()))
    }

    /// Whether the outermost layers are the same in what tshark tells, and what is inside of it too.
    fn told_is_same(&self) -> bool {
        let [(outer, their_outer), (inner, their_inner)] = self.pairs();
        let is_deeper = self.theirs.layers.len() < 2;
        told(their_outer, outer) && (told(their_inner, inner) || is_deeper)
    }
}

/// Whether all that tshark tells of a layer is so. It may have stopped at an extension header, whose number it then has.
fn told(theirs: Option<Layer>, ours: Option<Layer>) -> bool {
    let Some(theirs) = theirs else { return true };
    let is_extension = EXTENSION_NUMBERS.contains(&theirs.protocol);
    ours.is_some_and(|ours| {
        let ends = (theirs.source, theirs.destination, theirs.tos, theirs.ttl)
            == (ours.source, ours.destination, ours.tos, ours.ttl);
        let is_same_length = theirs.length == ours.length || ours.length == 0;
        ends && is_same_length
            && (theirs.protocol == ours.protocol || is_extension)
            && (theirs.fragment == ours.fragment || theirs.fragment.is_none())
            && (theirs.ports == ours.ports || theirs.ports.is_none())
            && (theirs.tcp_flags == ours.tcp_flags || theirs.tcp_flags.is_none())
            && (theirs.icmp == ours.icmp || theirs.icmp.is_none())
    })
}

macro_rules! rules {
    ($($variant:ident $about:literal;)*) => {
        /// Why what tshark says differs, and how it is known.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Rule {
            $(#[doc = $about] $variant,)*
        }

        impl Rule {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub(crate) const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)*
                }
            }
        }
    };
}

rules! {
    NoLength "tells the length of the frame, or stops, where an IP header states a length of 0 (segmentation left to the network card): all else that it tells is the same";
    GaveUp "stops in a header that is cut off or contradicts itself and tells no field of it: what it tells is the same";
    InOptions "stops in options that contradict themselves, and looks at nothing behind the IP header: what it tells is the same";
    ByLink "goes by the link, which says another version than the IP header does";
    SlipIpv6 "reads IPv4 alone from SLIP";
    NullRegister "takes the header in a null register of PIM (RFC 7761 section 4.9.3) for a packet";
    Expanded "expands what is compressed (RFC 3173), and goes on";
    TimeStamps "knows Arista's time stamps of one kind of hardware alone, and looks at nothing behind others";
    SecondRun "names VLANs behind other tags (VN-Tag) too, of which the first run is kept here";
    OldMobility "takes protocol 62 for the mobility header of an old draft";
    TooDeep "follows more tunnels than four, or extension headers than sixteen: the outermost headers are the same";
}

impl Rule {
    fn holds(self, case: &Case<'_>) -> bool {
        let vlans = case.vlans == case.theirs.vlans;
        let has = |name: &str| case.theirs.protocols.iter().any(|known| known == name);
        let [(outer, their_outer), (inner, _)] = case.pairs();
        let states_nothing = |layer: Option<Layer>| layer.is_some_and(|layer| layer.length == 0);
        (vlans || matches!(self, Self::TimeStamps | Self::SecondRun))
            && match self {
                Self::NoLength => (states_nothing(outer) || states_nothing(inner)) && without_lengths(case),
                Self::GaveUp => case.theirs.gave_up && case.told_is_same(),
                Self::InOptions => case.ends_with(&["ip", "ipv6.dstopts"]) && case.told_is_same(),
                Self::ByLink => case.link == LinkType::Ip && case.theirs.layers.is_empty() && case.ends_with(&[""]),
                Self::SlipIpv6 => {
                    case.link == LinkType::Slip
                        && outer.is_some_and(|layer| layer.source.is_ipv6())
                        && case.ends_with(&["data"])
                }
                Self::NullRegister => {
                    has("pim")
                        && matches!(case.carried, [0x21, _, _, _, flags, ..] if flags & 0x40 != 0)
                        && outer == their_outer
                }
                Self::Expanded => {
                    has("ipcomp") && inner.is_some_and(|layer| layer.protocol == 108) && outer == their_outer
                }
                Self::TimeStamps => case.theirs.layers.is_empty() && case.ends_with(&["avsp"]),
                Self::SecondRun => {
                    let same_layers = case.pairs().iter().all(|(ours, theirs)| ours == theirs);
                    !case.vlans.is_empty() && case.theirs.vlans.starts_with(&case.vlans) && same_layers
                }
                Self::OldMobility => case.ends_with(&["mipv6"]) && inner.is_some_and(|layer| layer.protocol == 62),
                Self::TooDeep => case.end == End::TooDeep && (outer.is_none() || outer == their_outer),
            }
    }
}

/// Whether the layers are the same but for lengths, of those that tshark tells.
fn without_lengths(case: &Case<'_>) -> bool {
    let strip = |layer: Option<Layer>| layer.map(|layer| Layer { length: 0, ..layer });
    let [(outer, their_outer), (inner, their_inner)] = case.pairs().map(|(ours, theirs)| (strip(ours), strip(theirs)));
    told(their_outer, outer) && (told(their_inner, inner) || case.theirs.layers.len() < 2)
}

pub(crate) fn address(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// Headers as tshark's fields have them.
fn layer(headers: &Headers<'_>) -> Option<Layer> {
    let ip = headers.ip.as_ref()?;
    Some(Layer {
        source: address(ip.source)?,
        destination: address(ip.destination)?,
        protocol: ip.protocol,
        length: ip.total_length,
        tos: ip.tos,
        ttl: ip.ttl,
        fragment: ip.fragment.map(|fragment| (fragment.identification, fragment.offset, fragment.more)),
        ports: headers.ports,
        tcp_flags: headers.tcp_flags,
        icmp: headers.icmp,
    })
}
