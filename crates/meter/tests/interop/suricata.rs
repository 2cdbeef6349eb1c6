//! The answers of Suricata: events of flows that its tests check (`test.yaml`), and pairs of its one-way netflow events.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_meter::Timeouts;

use crate::conversation::{Conversation, Side};
use crate::expected::{Answer, Expected, Octets};
use crate::reason::Reason;
use crate::time;

/// Established flows of TCP 10 minutes, of UDP 5.
const TIMEOUTS: [Timeouts; 2] = [
    Timeouts { active_us: i64::MAX / 4, idle_us: 600_000_000, fast: None, closed_us: 60_000_000 },
    Timeouts { active_us: i64::MAX / 4, idle_us: 300_000_000, fast: None, closed_us: 60_000_000 },
];

/// Its names of protocols.
const PROTOCOLS: [(&str, u8); 7] =
    [("TCP", 6), ("UDP", 17), ("ICMP", 1), ("IPv6-ICMP", 58), ("SCTP", 132), ("ESP", 50), ("GRE", 47)];

/// What a filter wants to be in an event.
type Match = BTreeMap<String, String>;

pub(crate) fn answers(corpus: &Path) -> Vec<Answer> {
    let mut tests = Vec::new();
    collect(&corpus.join("OISF+suricata-verify/tests"), &mut tests);
    tests.sort();
    tests.iter().filter_map(|test| both(corpus, test)).flatten().filter(|answer| !answer.records.is_empty()).collect()
}

fn collect(folder: &Path, tests: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, tests);
        } else if path.file_name().is_some_and(|name| name == "test.yaml") {
            tests.push(path);
        }
    }
}

/// What a test says of flows, and what of netflow events.
fn both(corpus: &Path, test: &Path) -> Option<[Answer; 2]> {
    let text = std::fs::read_to_string(test).ok()?;
    let folder = test.parent()?;
    let named = text.lines().find_map(|line| line.strip_prefix("pcap: ")).map(|name| folder.join(name.trim()));
    let capture = named.or_else(|| {
        let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|end| end == "pcap" || end == "pcapng")).min()
    })?;
    let name = folder.strip_prefix(corpus.join("OISF+suricata-verify/tests")).ok()?.display().to_string();
    let filters = filters(&text);
    let [flows, pairs] = [filters.iter().filter_map(flow).collect(), netflows(&filters)];
    let answer = |records| Answer {
        name: name.clone(),
        capture: capture.clone(),
        records,
        timeouts: TIMEOUTS,
        octets: Octets::Frames,
        duration_step_us: 1_000,
        by_vlan: true,
        by_icmp_type: false,
        // a test checks the events that it is about
        looks_into_tunnels: true,
        is_partial: true,
        reasons: &[Reason::Reassembled, Reason::CutElsewhere, Reason::InTunnel, Reason::LeavesOut],
    };
    capture.is_file().then(|| [answer(flows), answer(pairs)])
}

/// The matches of all filters that want an event once. Of the whole language of the file no more is read than lines of a
/// key and a value, and the list items that begin a filter.
fn filters(text: &str) -> Vec<Match> {
    let mut filters: Vec<(Option<String>, Match)> = Vec::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or_default();
        let words = line.trim().trim_start_matches("- ");
        if line.trim_start().starts_with("- ") {
            filters.push((None, Match::new()));
        }
        let (Some((key, value)), Some(filter)) = (words.split_once(':'), filters.last_mut()) else { continue };
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        match key {
            "count" => filter.0 = Some(value),
            _ => drop(filter.1.insert(key.to_owned(), value)),
        }
    }
    // what older versions said differs from what newer ones say
    let wanted =
        |(count, filter): &(Option<String>, Match)| count.as_deref() == Some("1") && !filter.contains_key("lt-version");
    filters.into_iter().filter(wanted).map(|(_, filter)| filter).collect()
}

/// One-way events, both directions of a conversation put together.
fn netflows(filters: &[Match]) -> Vec<Expected> {
    let mut records = Vec::new();
    let mut halves: Vec<_> = filters.iter().filter_map(netflow).collect();
    while let Some((mut record, by_low)) = halves.pop() {
        if let Some(other) =
            halves.iter().position(|other| other.0.conversation == record.conversation && other.1 != by_low)
        {
            record.sides = record.sides.and(halves.remove(other).0.sides);
        }
        records.push(record);
    }
    records
}

fn ends(filter: &Match) -> Option<(Conversation, bool)> {
    let end = |host: &str, port: &str| {
        let port = filter.get(port).map_or(Ok(0), |port| port.parse());
        Some(SocketAddr::new(filter.get(host)?.parse::<IpAddr>().ok()?, port.ok()?))
    };
    let name = filter.get("proto")?;
    let protocol = PROTOCOLS.iter().find(|(known, _)| known == name)?.1;
    let has_ports = filter.contains_key("src_port") && filter.contains_key("dest_port");
    (has_ports || !matches!(protocol, 6 | 17)).then_some(Conversation::of(
        protocol,
        end("src_ip", "src_port")?,
        end("dest_ip", "dest_port")?,
        None,
    ))
}

fn flow(filter: &Match) -> Option<Expected> {
    if filter.get("event_type")? != "flow" {
        return None;
    }
    let (conversation, by_low) = ends(filter)?;
    let number = |name: &str| filter.get(name)?.parse::<u64>().ok();
    let to_server = Side { packets: number("flow.pkts_toserver")?, octets: number("flow.bytes_toserver")? };
    let to_client = Side { packets: number("flow.pkts_toclient")?, octets: number("flow.bytes_toclient")? };
    let flags = |name: &str| u16::from_str_radix(filter.get(name)?, 16).ok();
    let both = flags("tcp.tcp_flags_ts").zip(flags("tcp.tcp_flags_tc"));
    Some(Expected {
        by_low: Some(by_low),
        first_us: filter.get("flow.start").and_then(|text| time::micros(text)),
        last_us: filter.get("flow.end").and_then(|text| time::micros(text)),
        tcp_flags: both.map(|(server, client)| if by_low { (server, client) } else { (client, server) }),
        ..Expected::of(conversation, Conversation::sides(by_low, to_server, to_client))
    })
}

/// One direction, and whether the lower end sent it.
fn netflow(filter: &Match) -> Option<(Expected, bool)> {
    if filter.get("event_type")? != "netflow" {
        return None;
    }
    let (conversation, by_low) = ends(filter)?;
    let number = |name: &str| filter.get(name)?.parse::<u64>().ok();
    let side = Side { packets: number("netflow.pkts")?, octets: number("netflow.bytes")? };
    Some((Expected::of(conversation, Conversation::sides(by_low, side, Side::default())), by_low))
}
