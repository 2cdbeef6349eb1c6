//! The dissector of packets against Wireshark's: the innermost addresses, protocol and ports of the frames of every
//! capture of the corpus whose link type is known.
//!
//! Frames of one link type go through the other dissector in one run, each on its own: reassembly is switched off.
//! What it does not agree on is in a table with the reason, and how many frames of which capture.

mod known;
mod theirs;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use weir_wire::packet::{self, End, LinkType, Packet};

use crate::captures::{self, Frame};
use known::{KNOWN, NOT_READ};
use theirs::{FIELDS, Tuple};

/// What the dissector sees innermost.
fn ours(packet: &Packet<'_>) -> Tuple {
    let address = |octets: &[u8]| match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
    };
    let headers = packet.innermost();
    let tcp = headers.ip.is_some_and(|ip| ip.protocol == 6) && headers.ports.is_some();
    Tuple {
        addresses: headers.ip.and_then(|ip| Some([address(ip.source)?, address(ip.destination)?])),
        protocol: headers.ip.map(|ip| ip.protocol),
        ports: headers.ports.map(|(source, destination)| [source, destination]),
        tcp: headers.tcp_flags.filter(|_| tcp).map(|flags| (flags, headers.payload_octets())),
        udp: headers.ports.filter(|_| headers.ip.is_some_and(|ip| ip.protocol == 17)).map(|_| headers.payload_octets()),
    }
}

/// The fields that the other dissector prints for each frame.
fn fields(tshark: &Path, link: u16, frames: &[Frame]) -> String {
    let path = std::env::temp_dir().join(format!("weir-packets-{}-{link}.pcap", std::process::id()));
    std::fs::write(&path, captures::pcap(link, frames)).expect("a file");
    let mut command = Command::new(tshark);
    command.args(["-n", "-r"]).arg(&path).args(["-T", "fields", "-E", "occurrence=a"]);
    for option in ["ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE"] {
        command.args(["-o", option]);
    }
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    std::fs::remove_file(&path).expect("a file");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether both say the same of flags and payload. The other dissector takes UDP's length as it is, where ours ends with
/// the IP packet; and it ends TCP with the fragment of a tunnel's packet, where ours is as long as its own IP header
/// says.
fn agree_on_payload(packet: &Packet<'_>, ours: &Tuple, theirs: &Tuple) -> bool {
    let Some(ip) = packet.innermost().ip else { return true };
    let in_fragment = packet.tunnels > 0 && packet.outer.ip.is_some_and(|ip| ip.fragment.is_some());
    let stated = if ip.total_length > 0 { ip.total_length } else { ip.octets.len() as u32 };
    let carried = stated.saturating_sub(ip.header_octets).saturating_sub(8);
    let udp = theirs.udp.is_none_or(|octets| ours.udp == Some(octets.min(carried)));
    let tcp = theirs.tcp.is_none_or(|(flags, octets)| {
        ours.tcp.is_some_and(|ours| ours.0 == flags && (in_fragment || ours.1 == octets))
    });
    udp && tcp
}

/// Whether both say the same. What the other one does not tell is not compared; where the octets end within a header,
/// each may stop a little earlier.
fn agree(packet: &Packet<'_>, ours: &Tuple, theirs: &Tuple) -> bool {
    let cut = packet.end == End::Truncated;
    (ours.addresses == theirs.addresses || (cut && (theirs.addresses.is_none() || ours.addresses.is_none())))
        && (theirs.protocol.is_none() || cut || ours.protocol == theirs.protocol)
        && (cut || agree_on_payload(packet, ours, theirs))
        && (ours.ports == theirs.ports || (cut && (ours.ports.is_none() || theirs.ports.is_none())))
}

/// How many frames of each capture differ, and the first of them.
#[derive(Default)]
struct Differing<'f>(BTreeMap<&'f str, (usize, String)>);

impl<'f> Differing<'f> {
    fn check(&mut self, link: LinkType, frame: &'f Frame, line: &str) {
        let (packet, theirs) = (packet::dissect(link, &frame.octets), theirs::theirs(line));
        let ours = ours(&packet);
        if !agree(&packet, &ours, &theirs) {
            let (number, protocols, end) = (frame.number, line.split('\t').next().unwrap_or(""), packet.end);
            let first = || format!("frame {number}, {protocols}, {end:?}: ours {ours:?}, theirs {theirs:?}");
            self.0.entry(&frame.capture).or_insert_with(|| (0, first())).0 += 1;
        }
    }

    /// What the table of known differences does not say.
    fn complaints(&self) -> Vec<String> {
        let known = |name: &str| KNOWN.iter().find(|(file, ..)| name.ends_with(file)).map_or(0, |(_, times, _)| *times);
        let new = self.0.iter().filter(|(name, (times, _))| known(name) != *times);
        let new = new.map(|(name, (times, first))| format!("{name}: {times} frames, {} known: {first}", known(name)));
        let gone = KNOWN.iter().filter(|(file, ..)| !self.0.keys().any(|name| name.ends_with(file)));
        new.chain(gone.map(|(file, ..)| format!("{file} differs no more"))).collect()
    }
}

#[test]
fn tshark_sees_the_same_innermost_headers() {
    let (Some(corpus), Some(tshark)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let all = captures::of_corpus(&corpus);
    let (mut compared, mut differing) = (0, Differing::default());
    for (number, frames) in &all {
        let link = LinkType::from_dlt(*number).expect("known");
        let output = fields(&tshark, *number, frames);
        if NOT_READ.contains(number) {
            continue;
        }
        assert_eq!(output.lines().count(), frames.len(), "one line for each frame of link type {number}");
        compared += frames.len();
        frames.iter().zip(output.lines()).for_each(|(frame, line)| differing.check(link, frame, line));
    }
    let complaints = differing.complaints();
    assert!(complaints.is_empty(), "{compared} compared\n{}", complaints.join("\n"));
    let differ: usize = differing.0.values().map(|(times, _)| times).sum();
    println!("{compared} frames of {} link types compared, {differ} differ", all.len() - NOT_READ.len());
    assert!(compared > 110_000 && all.len() > 20, "only {compared} frames of {} link types", all.len());
}
