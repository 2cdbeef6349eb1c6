//! Outputs of pmacct's `nfacctd`: packets and octets summed up per flow key, for captures whose exporters it had in
//! one process. Compared are the sums per key of whole test folders.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde_json::Value as Json;
use weir_flow::{Column, address};

use crate::expected::Verdict;
use crate::inputs::Input;
use crate::outcome::Case;
use crate::rows::{Cell, Row};

/// Addresses, ports, protocol, interfaces.
type Key = (Option<IpAddr>, Option<IpAddr>, u64, u64, u64, u64, u64);
/// Packets and octets per key.
type Sums = BTreeMap<Key, (u64, u64)>;

/// A test folder: its name, which stands for its captures, and what differs.
pub(crate) struct Folder {
    pub label: String,
    pub verdict: Verdict,
}

/// Compares the sums of every test folder that has an output.
pub(crate) fn check(corpus: &Path, cases: &[Case]) -> Vec<Folder> {
    let mut by_folder: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        if let Some(folder) = folder_of(&case.input) {
            by_folder.entry(folder).or_default().push(case);
        }
    }
    let verdict = |(folder, cases): (&str, Vec<&Case>)| {
        let output = fs::read_to_string(corpus.join(folder).join("output-flow-00.json")).ok()?;
        let config = fs::read_to_string(corpus.join(folder).join("nfacctd-00.conf")).ok()?;
        let renormalized = config.lines().any(|line| line.trim() == "nfacctd_renormalize: true");
        let verdict = compare(&ours(&cases, renormalized), &theirs(&output));
        Some(Folder { label: folder.to_owned(), verdict })
    };
    by_folder.into_iter().filter_map(verdict).collect()
}

fn folder_of(input: &Input) -> Option<&str> {
    let file = input.files.first().filter(|file| file.starts_with("pmacct+pmacct/tests/"))?;
    Some(file.rsplit_once('/')?.0)
}

/// Our sums; when `renormalized`, counters are scaled by the sampling interval that the exporter told.
fn ours(cases: &[&Case], renormalized: bool) -> Sums {
    let mut sums = Sums::new();
    for row in cases.iter().flat_map(|case| case.decoded.rows.iter().flatten()) {
        let sum = sums.entry(key(row)).or_default();
        let scale = if renormalized { number(row, Column::SamplingInterval).max(1) } else { 1 };
        sum.0 += scale * number(row, Column::Packets);
        sum.1 += scale * number(row, Column::Bytes);
    }
    sums
}

fn number(row: &Row, column: Column) -> u64 {
    match row.cells.get(&column) {
        Some(Cell::Number(number)) => *number,
        _ => 0,
    }
}

fn key(row: &Row) -> Key {
    let ip = |column| match row.cells.get(&column) {
        Some(Cell::Octets(octets)) => address::to_ip(octets),
        _ => None,
    };
    let number = |column| number(row, column);
    (
        ip(Column::SrcAddr),
        ip(Column::DstAddr),
        number(Column::SrcPort),
        number(Column::DstPort),
        number(Column::Protocol),
        number(Column::InIf),
        number(Column::OutIf),
    )
}

fn theirs(output: &str) -> Sums {
    let mut sums = Sums::new();
    for line in output.lines() {
        let Ok(flow) = serde_json::from_str::<Json>(line) else { continue };
        let number = |name: &str| flow[name].as_u64().unwrap_or(0);
        let ip = |name: &str| flow[name].as_str().and_then(|text| text.parse().ok());
        let key = (
            ip("ip_src"),
            ip("ip_dst"),
            number("port_src"),
            number("port_dst"),
            protocol(flow["ip_proto"].as_str().unwrap_or("")),
            number("iface_in"),
            number("iface_out"),
        );
        let sum = sums.entry(key).or_default();
        sum.0 += number("packets");
        sum.1 += number("bytes");
    }
    sums
}

fn protocol(name: &str) -> u64 {
    match name {
        "icmp" => 1,
        "ipencap" => 4,
        "tcp" => 6,
        "udp" => 17,
        "ipv6" => 41,
        "gre" => 47,
        "ipv6-icmp" => 58,
        "vrrp" => 112,
        // "ip" and numbers without a name
        other => other.parse().unwrap_or(0),
    }
}

fn compare(ours: &Sums, theirs: &Sums) -> Verdict {
    let mut verdict = Verdict { records: theirs.len(), ..Verdict::default() };
    for (key, sum) in theirs {
        verdict.values += 2;
        match ours.get(key) {
            None => verdict.differ("key", format!("they have {key:?} {sum:?}, we do not")),
            Some(our_sum) if our_sum != sum => {
                verdict.differ("sum", format!("{key:?}: ours {our_sum:?}, theirs {sum:?}"));
            }
            Some(_) => {}
        }
    }
    for (key, sum) in ours {
        if !theirs.contains_key(key) {
            verdict.differ("key of ours", format!("we have {key:?} {sum:?}, they do not"));
        }
    }
    verdict
}
