//! The answers of ipfixprobe: biflows that its plugins wrote, comma-separated, the names of columns in a line of their own.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weir_meter::Timeouts;

use crate::conversation::{Conversation, Side};
use crate::expected::{Answer, Expected, Octets};
use crate::reason::Reason;
use crate::time;

/// Active 300 seconds, inactive 30; a flow that TCP has ended goes on until the next SYN.
const TIMEOUTS: Timeouts =
    Timeouts { active_us: 300_000_000, idle_us: 30_000_000, fast: None, closed_us: i64::MAX / 4 };

/// Outputs of plugins that have another name than their capture.
const CAPTURES: [(&str, &str); 7] = [
    ("basic", "mixed"),
    ("nettisa", "mixed"),
    ("phists", "mixed"),
    ("pstats", "mixed"),
    ("passivedns", "dns"),
    ("ssadetector", "ovpn"),
    ("ovpn", "ovpn"),
];

/// Plugins that write all flows; the others leave out those of which they have nothing to say.
const WHOLE: [&str; 4] = ["basic", "phists", "pstats", "vlan"];

pub(crate) fn answers(corpus: &Path) -> Vec<Answer> {
    let folder = corpus.join("CESNET+ipfixprobe/tests/functional");
    let outputs = std::fs::read_dir(folder.join("outputs")).expect("outputs of ipfixprobe").flatten();
    let mut names: Vec<_> = outputs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let answer = |name: String| {
        let capture = CAPTURES.iter().find(|(plugin, _)| *plugin == name).map_or(&*name, |(_, capture)| capture);
        let text = String::from_utf8_lossy(&std::fs::read(folder.join("outputs").join(&name)).ok()?).into_owned();
        Some(Answer {
            capture: folder.join("inputs").join(format!("{capture}.pcap")),
            records: records(&text),
            timeouts: [TIMEOUTS, TIMEOUTS],
            octets: Octets::Ip,
            duration_step_us: 1_000,
            by_vlan: true,
            by_icmp_type: false,
            looks_into_tunnels: false,
            is_partial: !WHOLE.contains(&&*name),
            reasons: &[Reason::CutElsewhere, Reason::Repeated, Reason::LeavesOut],
            name,
        })
    };
    names.into_iter().filter_map(answer).collect()
}

fn records(text: &str) -> Vec<Expected> {
    let Some(header) = text.lines().find(|line| line.starts_with("ipaddr ")) else { return Vec::new() };
    let names: Vec<&str> = header.split(',').filter_map(|column| column.split(' ').nth(1)).collect();
    let lines = text.lines().filter(|line| *line != header && !line.is_empty());
    lines.filter_map(|line| record(&names, &line.split(',').collect::<Vec<_>>())).collect()
}

/// The columns that every plugin has stand before those in quotes, which may have commas in them.
fn record(names: &[&str], cells: &[&str]) -> Option<Expected> {
    let cell = |name: &str| cells.get(names.iter().position(|known| *known == name)?).copied();
    let number = |name: &str| cell(name)?.parse::<u64>().ok();
    let end =
        |host: &str, port: &str| Some(SocketAddr::new(cell(host)?.parse::<IpAddr>().ok()?, cell(port)?.parse().ok()?));
    let (source, destination) = (end("SRC_IP", "SRC_PORT")?, end("DST_IP", "DST_PORT")?);
    let (conversation, by_low) = Conversation::of(number("PROTOCOL")? as u8, source, destination, None);
    let forward = Side { packets: number("PACKETS")?, octets: number("BYTES")? };
    let backward = Side { packets: number("PACKETS_REV")?, octets: number("BYTES_REV")? };
    let flags = (number("TCP_FLAGS")? as u16, number("TCP_FLAGS_REV")? as u16);
    let is_tcp = conversation.protocol == 6;
    Some(Expected {
        by_low: Some(by_low),
        first_us: cell("TIME_FIRST").and_then(time::micros),
        last_us: cell("TIME_LAST").and_then(time::micros),
        tcp_flags: is_tcp.then_some(if by_low { flags } else { (flags.1, flags.0) }),
        ..Expected::of(conversation, Conversation::sides(by_low, forward, backward))
    })
}
