//! The answers of Zeek: the connections of its baselines (`conn.log`), one record for both directions.

use std::path::Path;

use weir_meter::Timeouts;

use crate::conversation::{Conversation, Side, is_icmp};
use crate::expected::{Answer, Expected, Octets};
use crate::reason::Reason;
use crate::zeek_cut;
use crate::zeek_tests::{Baseline, Fate, Table, baselines};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const TCP: u8 = 6;

/// The columns that a record has to have.
pub(crate) const WHOLE: [&str; 9] = [
    "id.orig_h",
    "id.orig_p",
    "id.resp_h",
    "id.resp_p",
    "proto",
    "orig_pkts",
    "orig_ip_bytes",
    "resp_pkts",
    "resp_ip_bytes",
];

/// Zeek's `tcp_inactivity_timeout` is 5 minutes, those of UDP and ICMP one; a connection that TCP has ended stays 5
/// seconds (`tcp_close_delay`).
pub(crate) const TIMEOUTS: [Timeouts; 2] = [
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

/// Every baseline of a capture in the corpus that tells all that is compared.
pub(crate) fn answers(corpus: &Path) -> Vec<Answer> {
    baselines(corpus).into_iter().filter_map(|baseline| answer(baseline).ok()).collect()
}

/// What became of each baseline: that it is compared, or why it is not.
pub(crate) fn fates(corpus: &Path) -> Vec<Fate> {
    baselines(corpus).into_iter().map(|baseline| answer(baseline).map_or_else(|fate| fate, |_| Fate::Whole)).collect()
}

fn answer(baseline: Baseline) -> Result<Answer, Fate> {
    let Baseline { name, run, table } = baseline;
    let (run, table) = (run?, table?);
    if !table.has(&WHOLE) {
        return Err(if zeek_cut::is_compared(&table) { Fate::Columns } else { Fate::TellsNothing });
    }
    Ok(Answer {
        name,
        records: (0..table.rows.len()).filter_map(|row| record(&table, row)).collect(),
        timeouts: TIMEOUTS,
        octets: Octets::Ip,
        duration_step_us: 1_000,
        by_vlan: false,
        by_icmp_type: true,
        looks_into_tunnels: true,
        is_partial: run.leaves_packets_out,
        reasons: if run.ignores_checksums { &REASONS[1..] } else { &REASONS },
        capture: run.capture,
    })
}

/// The bits of SYN, FIN and RST that each end sent, by the letters of a history: in upper case those of who began.
pub(crate) fn ends_of_tcp(history: &str) -> (u16, u16) {
    const LETTERS: [(char, u16); 6] = [('S', SYN), ('H', SYN), ('F', FIN), ('R', RST), ('I', FIN | RST), ('Q', 0)];
    history.chars().fold((0, 0), |(forward, backward), letter| {
        let bits = LETTERS.iter().find(|(known, _)| *known == letter.to_ascii_uppercase()).map_or(0, |(_, bits)| *bits);
        if letter.is_ascii_uppercase() { (forward | bits, backward) } else { (forward, backward | bits) }
    })
}

fn record(table: &Table, row: usize) -> Option<Expected> {
    let cell = |name: &str| table.cell(row, name);
    let number = |name: &str| table.number(row, name);
    let (source, destination) = table.ends(row)?;
    let protocol = table.protocol(row)?;
    let icmp = is_icmp(protocol).then_some(source.port() as u8);
    let (conversation, by_low) = Conversation::of(protocol, source, destination, icmp);
    let side = |packets, octets| Some(Side { packets: number(packets)?, octets: number(octets)? });
    let (forward, backward) = (side("orig_pkts", "orig_ip_bytes")?, side("resp_pkts", "resp_ip_bytes")?);
    let ends = cell("history").filter(|_| protocol == TCP).map(ends_of_tcp);
    Some(Expected {
        by_low: Some(by_low),
        stopped_to_count: cell("service").is_some_and(|service| service.contains("gridftp-data")),
        duration_us: table.duration_us(row),
        ends_of_tcp: ends
            .map(|(source, destination)| if by_low { (source, destination) } else { (destination, source) }),
        ..Expected::of(conversation, Conversation::sides(by_low, forward, backward))
    })
}
