//! The answers of Zeek: the connections of its baselines (`conn.log`), one record for both directions.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_meter::Timeouts;

use crate::conversation::{Conversation, Side, is_icmp};
use crate::expected::{Answer, Expected, Octets};
use crate::reason::Reason;

/// Zeek's `tcp_inactivity_timeout` is 5 minutes, those of UDP and ICMP one; a connection that TCP has ended stays 5
/// seconds (`tcp_close_delay`).
const TIMEOUTS: [Timeouts; 2] = [
    Timeouts { active_us: i64::MAX / 4, idle_us: 300_000_000, fast: None, closed_us: 5_000_000 },
    Timeouts { active_us: i64::MAX / 4, idle_us: 60_000_000, fast: None, closed_us: 5_000_000 },
];

/// What it may do otherwise; with `-C` it counts packets whatever their checksum.
const REASONS: [Reason; 14] = [
    Reason::BadChecksum,
    Reason::CutOff,
    Reason::Reassembled,
    Reason::CarrierIncomplete,
    Reason::NoLength,
    Reason::CutElsewhere,
    Reason::LeavesOut,
    Reason::NoPorts,
    Reason::Between,
    Reason::Counted,
    Reason::TurnedLate,
    Reason::NothingCarried,
    Reason::Swapped,
    Reason::EndedEarlier,
];

/// Tests whose scripts tell Zeek to leave packets out of connections.
const FILTERED: [&str; 1] = ["core.pcap.dynamic-filter"];

/// Every baseline that is a plain read of one capture.
pub(crate) fn answers(corpus: &Path) -> Vec<Answer> {
    let folder = corpus.join("zeek+zeek");
    let map = std::fs::read(folder.join("TEST_MAP.json")).expect("Zeek's tests");
    let map: Value = serde_json::from_slice(&map).expect("a list of tests");
    let tests = map.as_array().expect("tests");
    tests.iter().filter_map(|test| answer(&folder, test)).filter(|answer| !answer.records.is_empty()).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn answer(folder: &Path, test: &Value) -> Option<Answer> {
    let ([trace], [baseline]) = (&texts(&test["traces"])[..], &texts(&test["baseline"])[..]) else { return None };
    let reads: Vec<_> = texts(&test["cmd"]).into_iter().filter(|command| command.contains("zeek ")).collect();
    let command = reads.iter().find(|command| command.contains("TRACES"))?;
    let capture: PathBuf = folder.join("testing/btest/Traces").join(trace);
    let text = String::from_utf8_lossy(&std::fs::read(folder.join(baseline)).ok()?).into_owned();
    let name = test["test"].as_str()?;
    if !capture.is_file() || FILTERED.contains(&name) {
        return None;
    }
    let flags = || command.split_whitespace().filter(|word| word.starts_with('-') && !word.starts_with("--"));
    let ignores_checksums = flags().any(|word| word.contains('C'));
    let reasons: &[Reason] = if ignores_checksums { &REASONS[1..] } else { &REASONS };
    Some(Answer {
        name: name.to_owned(),
        capture,
        records: records(&text),
        timeouts: TIMEOUTS,
        octets: Octets::Ip,
        duration_step_us: 1_000,
        by_vlan: false,
        by_icmp_type: true,
        looks_into_tunnels: true,
        is_partial: command.contains(" -f "),
        reasons,
    })
}

/// The records of a log that has the columns which are compared.
fn records(text: &str) -> Vec<Expected> {
    let fields = text.lines().find_map(|line| line.strip_prefix("#fields\t"));
    let Some(fields) = fields else { return Vec::new() };
    let names: Vec<_> = fields.split('\t').collect();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| record(&names, &line.split('\t').collect::<Vec<_>>())).collect()
}

fn record(names: &[&str], cells: &[&str]) -> Option<Expected> {
    let cell = |name: &str| cells.get(names.iter().position(|known| *known == name)?).copied();
    let number = |name: &str| cell(name)?.parse::<u64>().ok();
    let end = |host: &str, port: &str| {
        let host: IpAddr = cell(host)?.parse().ok()?;
        Some(SocketAddr::new(host, cell(port)?.parse().ok()?))
    };
    let protocol = match cell("proto")? {
        "tcp" => 6,
        "udp" => 17,
        "icmp" if cell("id.orig_h")?.contains(':') => 58,
        "icmp" => 1,
        _ => number("ip_proto")? as u8,
    };
    let (source, destination) = (end("id.orig_h", "id.orig_p")?, end("id.resp_h", "id.resp_p")?);
    let icmp = is_icmp(protocol).then_some(source.port() as u8);
    let (conversation, by_low) = Conversation::of(protocol, source, destination, icmp);
    let side = |packets, octets| Some(Side { packets: number(packets)?, octets: number(octets)? });
    let (forward, backward) = (side("orig_pkts", "orig_ip_bytes")?, side("resp_pkts", "resp_ip_bytes")?);
    Some(Expected {
        by_low: Some(by_low),
        stopped_to_count: cell("service").is_some_and(|service| service.contains("gridftp-data")),
        duration_us: cell("duration").and_then(|secs| secs.parse::<f64>().ok()).map(|secs| (secs * 1e6).round() as i64),
        ..Expected::of(conversation, Conversation::sides(by_low, forward, backward))
    })
}
