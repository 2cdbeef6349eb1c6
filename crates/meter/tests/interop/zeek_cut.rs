//! Logs of Zeek that tests have cut down to some columns: each connection must be one of the flows by what is left of it,
//! and each flow one of the connections.

use std::collections::BTreeMap;
use std::path::Path;

use weir_flow::CommunityId;

use crate::comparison::Metered;
use crate::conversation::{Conversation, is_icmp};
use crate::expected::{Answer, Octets};
use crate::flows::Flow;
use crate::seen::{Seen, incomplete};
use crate::zeek::{TIMEOUTS, WHOLE, ends_of_tcp};
use crate::zeek_tests::{Baseline, Run, Table, baselines};

/// The columns that are looked at.
const COLUMNS: [&str; 12] = [
    "id.orig_h",
    "id.orig_p",
    "id.resp_h",
    "id.resp_p",
    "proto",
    "history",
    "orig_pkts",
    "orig_ip_bytes",
    "resp_pkts",
    "resp_ip_bytes",
    "community_id",
    "vlan",
];

/// Whether something of a table is compared.
pub(crate) fn is_compared(table: &Table) -> bool {
    COLUMNS.iter().any(|column| table.has(&[column]))
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) logs: usize,
    pub(crate) connections: usize,
    pub(crate) flows: usize,
    /// How many times a column was compared.
    pub(crate) columns: BTreeMap<&'static str, usize>,
    /// Connections and flows without the other, by reason.
    pub(crate) reasons: BTreeMap<&'static str, usize>,
    pub(crate) unexplained: Vec<String>,
}

/// Compares every such log.
pub(crate) fn outcome(corpus: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    for baseline in baselines(corpus) {
        let Baseline { name, run: Ok(run), table: Ok(table) } = baseline else { continue };
        if !table.has(&WHOLE) && is_compared(&table) {
            outcome.compare(&name, &run, &table);
        }
    }
    outcome
}

impl Outcome {
    fn compare(&mut self, name: &str, run: &Run, table: &Table) {
        self.logs += 1;
        self.connections += table.rows.len();
        let metered = Metered::of(&answer(name, run, table.has(&["vlan"])));
        let (fragments, inner): (Vec<_>, Vec<_>) =
            metered.inner.values().flatten().partition(|flow| is_of_fragments(flow, &metered));
        if !fragments.is_empty() {
            *self.reasons.entry(FRAGMENTS).or_default() += fragments.len();
        }
        let outer = metered.outer.iter().filter(|(conversation, _)| !metered.inner.contains_key(conversation));
        let mut flows: Vec<_> = inner.iter().copied().chain(outer.flat_map(|(_, flows)| flows)).map(Some).collect();
        self.flows += inner.len() + fragments.len();
        let mut has_between = false;
        let mut rows: Vec<_> = (0..table.rows.len()).collect();
        let told = |row: &usize| COLUMNS.iter().filter(|column| table.cell(*row, column).is_some()).count();
        rows.sort_by_key(|row| std::cmp::Reverse(told(row)));
        for row in rows {
            let found = flows.iter_mut().find(|flow| flow.is_some_and(|flow| is_same(table, row, flow)));
            if let Some(found) = found {
                *found = None;
                for column in COLUMNS.iter().filter(|column| table.cell(row, column).is_some()) {
                    *self.columns.entry(column).or_default() += 1;
                }
            } else if let Some(reason) = why_not_a_flow(table, row, run, &metered) {
                has_between |= reason == BETWEEN;
                *self.reasons.entry(reason).or_default() += 1;
            } else {
                self.unexplained.push(format!("{name}: no flow: {:?}, of {:?}", table.rows[row], metered.inner));
            }
        }
        for flow in flows.iter().take(inner.len()).flatten() {
            match why_not_a_connection(flow, run, has_between, &metered) {
                Some(reason) => *self.reasons.entry(reason).or_default() += 1,
                None => self.unexplained.push(format!("{name}: no connection: {flow:?}")),
            }
        }
    }
}

fn answer(name: &str, run: &Run, by_vlan: bool) -> Answer {
    Answer {
        name: name.to_owned(),
        capture: run.capture.clone(),
        records: Vec::new(),
        timeouts: TIMEOUTS,
        octets: Octets::Ip,
        duration_step_us: 1_000,
        by_vlan,
        by_icmp_type: true,
        looks_into_tunnels: true,
        is_partial: run.leaves_packets_out,
        reasons: &[],
    }
}

/// Whether all that a row tells is so of the flow, whichever end began.
fn is_same(table: &Table, row: usize, flow: &Flow) -> bool {
    [true, false].into_iter().any(|by_low| is_same_from(table, row, flow, by_low))
}

fn is_same_from(table: &Table, row: usize, flow: &Flow, by_low: bool) -> bool {
    let Conversation { protocol, low, high, .. } = flow.conversation;
    let turn = |low, high| if by_low { (low, high) } else { (high, low) };
    let (from, to) = turn(low, high);
    let (sent, answered) = if by_low { (flow.sides.low, flow.sides.high) } else { (flow.sides.high, flow.sides.low) };
    let flags = if flow.by_low == by_low { flow.tcp_flags } else { (flow.tcp_flags.1, flow.tcp_flags.0) };
    let address = |name: &str, address| table.address(row, name).is_none_or(|told| told == address);
    let number = |name: &str, number: u64| table.number(row, name).is_none_or(|told| told == number);
    let port = |name: &str, port: u16| is_icmp(protocol) || number(name, port.into());
    let id = || CommunityId::of(0, from.ip(), to.ip(), protocol, (from.port(), to.port())).to_string();
    address("id.orig_h", from.ip())
        && address("id.resp_h", to.ip())
        && port("id.orig_p", from.port())
        && port("id.resp_p", to.port())
        && table.protocol(row).is_none_or(|told| told == protocol)
        && number("orig_pkts", sent.packets)
        && number("orig_ip_bytes", sent.octets)
        && number("resp_pkts", answered.packets)
        && number("resp_ip_bytes", answered.octets)
        && number("vlan", flow.vlan.map_or(u64::MAX, u64::from))
        && table.cell(row, "community_id").is_none_or(|told| told == id())
        && table.cell(row, "history").is_none_or(|told| {
            let sends =
                |is_of: fn(&char) -> bool| told.chars().any(|letter| is_of(&letter) && !"XxCc".contains(letter));
            (sent.packets > 0) == sends(char::is_ascii_uppercase)
                && (answered.packets > 0) == sends(char::is_ascii_lowercase)
                && (protocol != 6 || ends_of_tcp(told) == (flags.0 & 7, flags.1 & 7))
        })
}

const CHECKSUM: &str = "does not count packets with a wrong checksum: those of the flow have one";
const BETWEEN: &str =
    "also tells a packet between the outermost and the innermost: packets in several tunnels are in the capture";
const DEPTH: &str =
    "was told to follow fewer tunnels: it tells one between, and all packets of the flow are in several";
const FRAGMENTS: &str = "counts a packet in fragments once, when all of them came: the flow is of others only";
const LEFT_OUT: &str = "was told to leave packets out";

fn of(seen: &BTreeMap<Conversation, Vec<Seen>>) -> impl Iterator<Item = &Seen> {
    seen.values().flatten()
}

/// Why a connection has no flow.
fn why_not_a_flow(table: &Table, row: usize, run: &Run, metered: &Metered) -> Option<&'static str> {
    let history = table.cell(row, "history").unwrap_or_default();
    let is_of_bad_ones = !run.ignores_checksums && history.to_ascii_uppercase().contains('C');
    if is_of_bad_ones && of(&metered.seen.inner).any(|seen| seen.bad_checksum) {
        return Some(CHECKSUM);
    }
    of(&metered.seen.inner).any(|seen| seen.tunnels > 1).then_some(BETWEEN)
}

/// Whether all packets of a flow are fragments that others are missing of.
fn is_of_fragments(flow: &Flow, metered: &Metered) -> bool {
    let packets = metered.seen.inner.get(&flow.conversation).map(Vec::as_slice).unwrap_or_default();
    incomplete(packets).len() == packets.len()
}

/// Why a flow is no connection.
fn why_not_a_connection(flow: &Flow, run: &Run, has_between: bool, metered: &Metered) -> Option<&'static str> {
    let packets = metered.seen.inner.get(&flow.conversation)?;
    if !run.ignores_checksums && packets.iter().any(|seen| seen.bad_checksum) {
        return Some(CHECKSUM);
    }
    if has_between && packets.iter().all(|seen| seen.tunnels > 1) {
        return Some(DEPTH);
    }
    run.leaves_packets_out.then_some(LEFT_OUT)
}
