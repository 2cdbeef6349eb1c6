//! What is wrong with each exporter, with numbers that show it and what to do about it.
//!
//! A decoder never fails on bad input; it counts. The doctor reads the counts, what the decoder noticed of clocks,
//! templates and sequence numbers ([`Diagnosis`]), and the flows themselves, and reports in words what an experienced
//! operator would see in them. It judges after the fact and costs the collector nothing: flows are looked at in the
//! batches that were handed on. What speaks against rules of thumb is that they are wrong at times; so every finding
//! carries its evidence, and what is only likely is a hint.
//!
//! [`examine_capture`] reads a capture file, [`examine_live`] listens for some time.

mod books;
mod exporters;
mod finding;
mod flows;
mod neighbours;
mod report;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_capture::CaptureError;
use weir_flow::{Counter, Delivery};
use weir_wire::WireError;

use crate::capture::{self, CaptureReport, Captured, CapturedDatagram, ConnectionEvent};
use crate::decoder::diagnoses;
use crate::inspection::Diagnosis;
use crate::{CollectError, Collector, Decoder, DecoderStatistics, Limits, Next};

pub use books::examine_books;
pub use finding::{Finding, FindingKind, Severity};
use flows::FlowInspection;
pub use report::{ExporterSummary, Report};

/// Flows of a capture after which a delivery is looked at.
const LOOK_ROWS: usize = 32_768;
/// What octets 4 to 7 of STUN are (RFC 8489 section 5), whose first four may be those of an export.
const STUN_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// Gathers what is to be judged.
#[derive(Debug, Default)]
pub struct Doctor {
    flows: FlowInspection,
}

/// What belongs to no exporter.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Counters over all exporters, the unassigned ones among them.
    pub totals: [u64; Counter::COUNT],
    /// Datagrams that a capture cut short, or whose fragments are not all there, and such packets of associations.
    pub datagrams_truncated: u64,
    /// Those of them that begin as exports do, or are of associations with exports.
    pub exports_truncated: u64,
    /// Exports of the capture that tunnels carry, which are not read.
    pub exports_tunneled: u64,
    /// Datagrams of the capture to be examined.
    pub datagrams: u64,
    /// Packets of the capture, where one is examined.
    pub packets: Option<u64>,
    /// Connections and associations of the capture with TLS or DTLS to a port of IPFIX.
    pub connections_encrypted: u64,
    /// Messages with octets behind their end.
    pub messages_longer: u64,
    /// Observation Domains of ended connections of which there are no diagnoses, because there were too many. What they have
    /// counted is in the totals.
    pub domains_left_out: u64,
}

impl Default for Machine {
    fn default() -> Self {
        let totals = [0; Counter::COUNT];
        Self {
            totals,
            datagrams_truncated: 0,
            exports_truncated: 0,
            exports_tunneled: 0,
            datagrams: 0,
            packets: None,
            connections_encrypted: 0,
            messages_longer: 0,
            domains_left_out: 0,
        }
    }
}

impl Doctor {
    /// Looks at what a decoder has handed on.
    pub fn look(&mut self, delivery: &Delivery) {
        if let Some(flows) = &delivery.flows {
            self.flows.look(flows);
        }
    }

    /// Judges. Findings come worst first.
    pub fn report(&self, diagnoses: &[Diagnosis], machine: &Machine) -> Report {
        let mut findings = exporters::judge_machine(machine);
        for diagnosis in diagnoses {
            findings.extend(exporters::judge(diagnosis));
        }
        findings.extend(neighbours::judge(diagnoses));
        findings.extend(self.flows.judge());
        findings.sort_by(|a, b| (a.severity, &a.exporter, a.domain).cmp(&(b.severity, &b.exporter, b.domain)));
        Report::new(findings, diagnoses, machine)
    }
}

/// Examines a capture file. Datagrams that look like no export are examined when something else was exported to the
/// same address and port before them: a capture holds other traffic too. Of connections and associations those that look like
/// exports are.
/// Each is examined for itself, also where several have one address and port; of ended ones at most as many Observation Domains
/// as the limits allow at a time.
///
/// # Errors
///
/// [`CaptureError`], together with the report on what was read before it.
pub fn examine_capture(input: impl Read + Send, limits: Limits) -> (Report, Result<(), CaptureError>) {
    let domains_max = limits.domains_max;
    let (mut decoder, mut doctor) = (Decoder::new(limits), Doctor::default());
    let mut collectors: HashSet<SocketAddr> = HashSet::new();
    let (mut examined, mut now_ms) = (0, 0);
    let (mut ended, mut domains_left_out) = (Vec::new(), 0);
    let (seen, outcome) = capture::read_exports(input, |captured| {
        match captured {
            Captured::Datagram(datagram) => {
                if !is_export(&datagram, &mut collectors) {
                    return;
                }
                (examined, now_ms) = (examined + 1, datagram.captured_ms);
                decoder.datagram(datagram.source, datagram.captured_ms, datagram.payload);
            }
            Captured::Connection(ConnectionEvent::Message { session, captured_ms, octets }) => {
                (examined, now_ms) = (examined + 1, captured_ms);
                decoder.message(session, captured_ms, octets);
            }
            Captured::Connection(ConnectionEvent::End { session, captured_ms }) => {
                let left = domains_max - ended.len();
                let (of_session, left_out) = diagnoses::end_session(&mut decoder, session, captured_ms, left);
                ended.extend(of_session);
                domains_left_out += left_out as u64;
            }
        }
        if decoder.rows() >= LOOK_ROWS || decoder.is_full() {
            doctor.look(&decoder.take_delivery());
        }
    });
    decoder.expire(now_ms);
    look_at_all(&mut doctor, &mut decoder);
    let CaptureReport { datagrams_truncated, exports_truncated, exports_tunneled, .. } = seen;
    let CaptureReport { frames, connections, associations, .. } = seen;
    let statistics = decoder.statistics();
    let (totals, messages_longer) = (statistics.totals, messages_longer(&statistics));
    let connections_encrypted = connections.sessions_encrypted + associations.sessions_encrypted;
    let packets_damaged = associations.packets_damaged;
    let machine = Machine {
        totals,
        datagrams_truncated: datagrams_truncated + packets_damaged,
        exports_truncated: exports_truncated + packets_damaged,
        exports_tunneled,
        datagrams: examined,
        packets: Some(frames),
        connections_encrypted,
        messages_longer,
        domains_left_out,
    };
    let mut diagnoses = diagnoses::of_open_sessions(&decoder);
    diagnoses.extend(ended);
    (doctor.report(&diagnoses, &machine), outcome)
}

/// Whether a datagram is to be examined. Adds whom exports are sent to.
fn is_export(datagram: &CapturedDatagram<'_>, collectors: &mut HashSet<SocketAddr>) -> bool {
    let is_stun = datagram.payload.get(4..8) == Some(STUN_COOKIE.as_slice());
    if capture::looks_like_export(datagram.payload) && !is_stun {
        collectors.insert(datagram.destination);
        return true;
    }
    collectors.contains(&datagram.destination)
}

/// How many messages had octets behind their end.
fn messages_longer(statistics: &DecoderStatistics) -> u64 {
    let label = WireError::TrailingOctets { octets: 0 }.label();
    statistics.problems.iter().filter(|(name, _)| *name == label).map(|(_, count)| count).sum()
}

fn look_at_all(doctor: &mut Doctor, decoder: &mut Decoder) {
    loop {
        let delivery = decoder.take_delivery();
        if delivery.is_empty() {
            return;
        }
        doctor.look(&delivery);
    }
}

/// Examines what a collector receives for this long, and ends it. Nothing is stored.
///
/// # Errors
///
/// What keeps the collector from going on.
pub fn examine_live(collector: &mut Collector, duration: Duration) -> Result<Report, CollectError> {
    let mut doctor = Doctor::default();
    let until = Instant::now() + duration;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            collector.stop();
        }
        match collector.next(left.clamp(Duration::from_millis(10), Duration::from_millis(200)))? {
            Next::Delivery(delivery) => doctor.look(&delivery),
            Next::Nothing => {}
            Next::Ended => break,
        }
    }
    let mut machine = Machine::default();
    for statistics in collector.statistics() {
        machine.messages_longer += messages_longer(&statistics);
        machine.totals.iter_mut().zip(statistics.totals).for_each(|(total, count)| *total += count);
    }
    machine.datagrams = machine.totals[Counter::Datagrams as usize];
    Ok(doctor.report(&collector.diagnoses(), &machine))
}
