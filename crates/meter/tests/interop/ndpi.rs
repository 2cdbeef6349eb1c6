//! The answers of nDPI: `result/*.out` lists each flow with packets and octets of both directions.

use std::net::SocketAddr;
use std::path::Path;

use crate::conversation::{Conversation, Side};
use crate::expected::{Answer, Expected, NEVER, Octets};
use crate::reason::Reason;

/// Its names of protocols.
const PROTOCOLS: [(&str, u8); 15] = [
    ("TCP", 6),
    ("UDP", 17),
    ("ICMP", 1),
    ("ICMPV6", 58),
    ("IGMP", 2),
    ("VRRP", 112),
    ("SCTP", 132),
    ("GRE", 47),
    ("ESP", 50),
    ("AH", 51),
    ("OSPF", 89),
    ("EGP", 8),
    ("PIM", 103),
    ("IPIP", 4),
    ("PGM", 113),
];

pub(crate) fn answers(corpus: &Path) -> Vec<Answer> {
    let folder = corpus.join("ntop+nDPI/tests/cfgs/default");
    let results = std::fs::read_dir(folder.join("result")).expect("results of nDPI").flatten();
    let mut names: Vec<_> = results.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let answer = |name: String| {
        let capture = folder.join("pcap").join(name.strip_suffix(".out")?);
        let text = String::from_utf8_lossy(&std::fs::read(folder.join("result").join(&name)).ok()?).into_owned();
        capture.is_file().then(|| Answer {
            name,
            capture,
            records: text.lines().filter_map(record).collect(),
            timeouts: [NEVER, NEVER],
            octets: Octets::Frames,
            duration_step_us: 7_000,
            by_vlan: true,
            by_icmp_type: false,
            looks_into_tunnels: true,
            is_partial: false,
            reasons: &[
                Reason::CutOff,
                Reason::FirstFragments,
                Reason::ShortTransport,
                Reason::FramesInFrames,
                Reason::Captured,
                Reason::CutElsewhere,
                Reason::NoPorts,
                Reason::SomeFragments,
                Reason::LinkIgnored,
                Reason::NeverBack,
            ],
        })
    };
    names.into_iter().filter_map(answer).collect()
}

/// A line of a flow: `1 TCP 192.0.2.1:1 <-> 192.0.2.2:2 [proto: 91/TLS]...[7 pkts/1554 bytes <-> 6 pkts/669 bytes]...`.
fn record(line: &str) -> Option<Expected> {
    let mut words = line.split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let name = words.next()?;
    let protocol =
        PROTOCOLS.iter().find(|(known, _)| *known == name).map_or_else(|| name.parse().ok(), |known| Some(known.1))?;
    let source = end(words.next()?)?;
    words.next()?;
    let destination = end(words.next()?)?;
    let counts = line.split('[').find(|part| part.contains(" pkts/"))?;
    let mut sides = counts.split("->").map(|side| {
        let numbers: Vec<u64> =
            side.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        Some(Side { packets: *numbers.first()?, octets: *numbers.get(1)? })
    });
    let (forward, backward) = (sides.next()??, sides.next()??);
    let (conversation, by_low) = Conversation::of(protocol, source, destination, None);
    Some(Expected {
        duration_us: duration(line),
        ..Expected::of(conversation, Conversation::sides(by_low, forward, backward))
    })
}

/// An address and a port. nDPI writes `::` for a single group of zeros too, beside the one that stands for many.
fn end(text: &str) -> Option<SocketAddr> {
    let single_last = || text.rsplit_once("::").map(|(head, tail)| format!("{head}:0:{tail}"));
    let parsed = text.parse().ok().or_else(|| single_last()?.parse().ok());
    parsed.or_else(|| text.replacen("::", ":0:", 1).parse().ok())
}

/// `[0.17 sec]`.
fn duration(line: &str) -> Option<i64> {
    let text = line.split('[').find_map(|part| part.split_once(" sec]").map(|(secs, _)| secs))?;
    text.parse::<f64>().ok().map(|secs| (secs * 1e6).round() as i64)
}
