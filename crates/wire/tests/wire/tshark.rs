//! The dissector of packets against Wireshark's: the innermost addresses and ports of the frames of the corpus that
//! have tags, labels, tunnels, fragments or extension headers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use weir_wire::packet::{self, End, LinkType};

use crate::capture::frames;

/// Features by which the corpus's index names what is hard.
const HARD: [&str; 16] = [
    "gre=",
    "vxlan=",
    "gtpu=",
    "geneve=",
    "6in4=",
    "ipip=",
    "mpls=",
    "pppoe=",
    "qinq88a8=",
    "vlan=",
    "ip6ext=",
    "frag4=",
    "frag6=",
    "sctp=",
    "ip4opt=",
    "esp=",
];
const FABRIC_PATH: &str = "Cisco FabricPath is not followed";
const OFFLOADED: &str = "an IP length of 0, left to the network card, where the other dissector stops";
const OPTIONS: &str = "the other dissector stops at an option or a chunk that it finds malformed";

/// Captures in which we differ, in how many frames, and why.
const KNOWN: &[(&str, usize, &str)] = &[
    ("ip_secopt.pcap", 1, OPTIONS),
    ("sctp-pkt-too-small/input.pcap", 1, OPTIONS),
    ("ipv6-mobility-dst-opts.pcap", 1, OPTIONS),
    ("pcap/ajp.pcap", 12, FABRIC_PATH),
    ("cisco-fabric-path.pcap", 30, FABRIC_PATH),
    ("bigtcp-ipv4-geneve-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-geneve-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-vxlan-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-vxlan-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6-geneve-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6-geneve-ipv6.pcap", 1, OFFLOADED),
    ("kday1.pcap", 1, "noise whose IP length is smaller than its header"),
    ("nhrp-trace.pcap", 1, "NHRP in GRE quotes a packet"),
    ("wccp_redirect_gre.pcap", 1, "WCCP in GRE is not followed"),
    ("various_gre.pcap", 14, "Cisco MetaData and 802.11 in GRE are not followed"),
    ("gre-aruba.pcap", 60, "802.11 in GRE is not followed"),
];
/// Frames of each capture that are compared.
const FRAMES_MAX: usize = 60;
/// Protocols of tunnels that the dissector does not follow: what is in them is not compared.
const NOT_FOLLOWED: [&str; 17] = [
    "teredo", "ayiya", "l2tp", "capwap", "nsh", "aruba", "ipcomp", "wccp", "tzsp", "hp-erm", "zep", "slow", "cdp",
    "pana", "lisp", "aeron", "bpdu",
];

const FIELDS: [&str; 13] = [
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
    "sctp.dstport",
    "ip.frag_offset",
    "ipv6.fraghdr.offset",
];

fn hard_frames(corpus: &Path) -> Vec<(String, Vec<u8>)> {
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).expect("an index");
    let hard = |line: &&str| {
        let columns: Vec<_> = line.split('\t').collect();
        columns.len() == 5
            && columns[2] == "pcap:EN10MB"
            && HARD.iter().any(|feature| columns[4].split(' ').any(|f| f.starts_with(feature)))
    };
    let paths = index.lines().filter(hard).filter_map(|line| line.split('\t').next());
    let mut all = Vec::new();
    for path in paths.filter(|path| corpus.join(path).is_file()) {
        let taken = frames(&corpus.join(path)).into_iter().take(FRAMES_MAX);
        all.extend(taken.map(|frame| (path.to_owned(), frame)));
    }
    all
}

fn pcap(frames: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x0004_0000, 1].iter().flat_map(|word| word.to_be_bytes()).collect();
    for (number, (_, frame)) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        out.extend([number as u32, 0, length, length].iter().flat_map(|word| word.to_be_bytes()));
        out.extend(frame);
    }
    out
}

/// Source and destination: addresses and ports.
type Tuple = (Option<[IpAddr; 2]>, Option<[u16; 2]>);

/// What the dissector sees innermost.
fn theirs(line: &str) -> Option<Tuple> {
    let columns: Vec<_> = line.split('\t').collect();
    let protocols: Vec<_> = columns[0].split(':').collect();
    // ICMP quotes packets, and what is in there is not the packet.
    let end = protocols.iter().position(|p| p.starts_with("icmp")).unwrap_or(protocols.len());
    if protocols.iter().any(|p| NOT_FOLLOWED.iter().any(|not| p.starts_with(not))) {
        return None;
    }
    let count = |names: &[&str]| protocols[..end].iter().filter(|p| names.contains(p)).count();
    let nth = |column: usize, nth: usize| columns[column].split(',').nth(nth.checked_sub(1)?).filter(|v| !v.is_empty());
    let last_ip = protocols[..end].iter().rev().find(|p| matches!(**p, "ip" | "ipv6"));
    let ip = last_ip.and_then(|version| {
        let (source, n) = if *version == "ip" { (1, count(&["ip"])) } else { (3, count(&["ipv6"])) };
        Some([nth(source, n)?.parse().ok()?, nth(source + 1, n)?.parse().ok()?])
    });
    let at = protocols[..end].iter().rposition(|p| matches!(*p, "ip" | "ipv6"));
    let transport = at.and_then(|at| protocols[at..end].iter().find(|p| matches!(**p, "tcp" | "udp" | "sctp")));
    let ports = transport.and_then(|name| {
        let column = match *name {
            "tcp" => 5,
            "udp" => 7,
            _ => 9,
        };
        let n = count(&[*name]);
        Some([nth(column, n)?.parse().ok()?, nth(column + 1, n)?.parse().ok()?])
    });
    Some((ip, ports))
}

#[test]
fn tshark_sees_the_same_innermost_headers() {
    let (Some(corpus), Some(tshark)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let frames = hard_frames(&corpus);
    let path = std::env::temp_dir().join(format!("weir-packets-{}.pcap", std::process::id()));
    std::fs::write(&path, pcap(&frames)).expect("a file");
    let mut command = Command::new(tshark);
    command.args(["-n", "-r"]).arg(&path).args(["-T", "fields", "-E", "occurrence=a"]);
    for option in ["ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE"] {
        command.args(["-o", option]);
    }
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    std::fs::remove_file(&path).expect("a file");
    let output = String::from_utf8_lossy(&output.stdout);
    let (mut compared, mut differing) = (0, BTreeMap::<String, (usize, String)>::new());
    for ((name, frame), line) in frames.iter().zip(output.lines()) {
        let Some((ip, ports)) = theirs(line) else { continue };
        let packet = packet::dissect(LinkType::Ethernet, frame);
        let headers = packet.innermost();
        let address = |octets: &[u8]| match octets.len() {
            4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        };
        let ours = headers.ip.and_then(|ip| Some([address(ip.source)?, address(ip.destination)?]));
        compared += 1;
        let ours = (ours, headers.ports.map(|(source, destination)| [source, destination]));
        if ours != (ip, ports) && packet.end != End::Truncated {
            let what = format!(
                "{} {:?} ours {ours:?}, theirs {:?}",
                line.split('\t').next().unwrap_or(""),
                packet.end,
                (ip, ports)
            );
            let known = differing.entry(name.clone()).or_insert((0, what));
            known.0 += 1;
        }
    }
    let known = |name: &str| KNOWN.iter().find(|(file, ..)| name.ends_with(file)).map_or(0, |(_, times, _)| *times);
    let mut complaints: Vec<_> = differing.iter().filter(|(name, (times, _))| known(name) != *times).collect();
    complaints.sort();
    assert!(complaints.is_empty(), "{compared} compared\n{complaints:#?}");
    let vanished = KNOWN.iter().find(|(file, ..)| !differing.keys().any(|name| name.ends_with(file)));
    assert_eq!(vanished, None, "differs no more");
    assert!(compared > 3_000, "only {compared} frames");
}
