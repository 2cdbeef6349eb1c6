//! Every finding, with what shows it and with what does not: each case lists all findings that it has.

use std::net::SocketAddr;

use weir_flow::Counter;
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix, netflow9};

use super::*;

const STARTED_MS: i64 = 1_700_000_000_000;

/// A flow of the template below.
#[derive(Clone, Copy)]
struct Flow {
    host: u32,
    packets: u32,
    /// Seconds before the export.
    started_secs_ago: i32,
    ended_secs_ago: i32,
    direction: u8,
    sampler: u8,
}

impl Flow {
    fn new(host: u32) -> Self {
        Self { host, packets: 5, started_secs_ago: 20, ended_secs_ago: 10, direction: 0, sampler: 0 }
    }

    fn write(self, uptime_ms: u32, out: &mut Vec<u8>) {
        let at = |secs_ago: i32| uptime_ms.wrapping_sub((secs_ago * 1000) as u32);
        let words = [self.host, 1, self.packets, 700 + self.host, at(self.started_secs_ago), at(self.ended_secs_ago)];
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        out.extend([self.direction, self.sampler]);
    }
}

fn template(fields: &[(u16, u16)], scopes: u16) -> Template {
    let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
    Template::new(TemplateId::new(256 + scopes).expect("id"), fields, scopes).expect("template")
}

fn flow_template() -> Template {
    template(&[(8, 4), (12, 4), (2, 4), (1, 4), (22, 4), (21, 4), (61, 1), (48, 1)], 0)
}

/// A datagram on its way.
#[derive(Clone)]
struct Datagram {
    port: u16,
    received_ms: i64,
    version: u8,
    domain: u32,
    sequence: u32,
    export_ms: i64,
    uptime_ms: u32,
    template: Option<Template>,
    flows: Vec<Flow>,
    sampling_interval: Option<u32>,
    /// Of the options that report it.
    sampling_scope: u16,
}

impl Datagram {
    fn octets(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (secs, domain) = ((self.export_ms / 1000) as u32, ObservationDomainId(self.domain));
        let options = template(&[(self.sampling_scope, 4), (34, 4)], 1);
        macro_rules! write {
            ($builder:expr) => {{
                let mut message = $builder;
                self.template.iter().for_each(|template| message.template(template).expect("fits"));
                for flow in &self.flows {
                    message.record(&flow_template(), |out| flow.write(self.uptime_ms, out)).expect("fits");
                }
                if let Some(interval) = self.sampling_interval {
                    message.template(&options).expect("fits");
                    let write = |out: &mut Vec<u8>| out.extend([[0; 4], interval.to_be_bytes()].concat());
                    message.record(&options, write).expect("fits");
                }
                message.finish();
            }};
        }
        if self.version == 9 {
            let (sequence, source_id, sys_uptime_ms) = (self.sequence, domain, self.uptime_ms);
            let header = netflow9::Header { count: 0, sys_uptime_ms, unix_secs: secs, sequence, source_id };
            write!(netflow9::MessageBuilder::new(&mut out, &header));
        } else {
            let header = ipfix::Header { length: 0, export_time_secs: secs, sequence: self.sequence, domain };
            write!(ipfix::MessageBuilder::new(&mut out, &header));
        }
        out
    }
}

/// What an exporter without fault sends: this many datagrams, one a second, with a varying number of flows.
fn good(version: u8, datagrams: u32) -> Vec<Datagram> {
    let mut sequence = 70_000;
    let mut host = 0;
    (0..datagrams)
        .map(|number| {
            let now_ms = STARTED_MS + i64::from(number) * 1000;
            let flows: Vec<_> = (0..2 + number % 5).map(|flow| Flow::new(host + flow)).collect();
            host += flows.len() as u32;
            let datagram = Datagram {
                port: 1,
                received_ms: now_ms + 20,
                version,
                domain: 7,
                sequence,
                export_ms: now_ms,
                uptime_ms: 4_000_000 + number * 1000,
                template: number.is_multiple_of(20).then(flow_template),
                flows,
                sampling_interval: None,
                sampling_scope: 1,
            };
            sequence += if version == 9 { 1 } else { datagram.flows.len() as u32 };
            datagram
        })
        .collect()
}

fn examine(datagrams: &[(u16, i64, Vec<u8>)], limits: Limits) -> Report {
    let (mut decoder, mut doctor) = (Decoder::new(limits), Doctor::default());
    for (port, received_ms, octets) in datagrams {
        decoder.datagram(SocketAddr::from(([192, 0, 2, *port as u8], *port)), *received_ms, octets);
    }
    look_at_all(&mut doctor, &mut decoder);
    let totals = decoder.statistics().totals;
    doctor.report(&decoder.diagnoses(), &Machine { totals, ..Machine::default() })
}

fn report(datagrams: &[Datagram]) -> Report {
    let sent: Vec<_> = datagrams.iter().map(|d| (d.port, d.received_ms, d.octets())).collect();
    examine(&sent, Limits::default())
}

/// Checks which findings there are, once each.
fn check(datagrams: &[Datagram], expected: &[FindingKind]) {
    let report = report(datagrams);
    let mut found: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    found.sort_unstable();
    found.dedup();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected, "{report}");
}

fn changed(version: u8, change: impl Fn(usize, &mut Datagram)) -> Vec<Datagram> {
    let mut datagrams = good(version, 60);
    datagrams.iter_mut().enumerate().for_each(|(number, datagram)| change(number, datagram));
    datagrams
}

#[test]
fn without_fault_there_is_no_finding() {
    check(&good(9, 500), &[]);
    check(&good(10, 500), &[]);
    let text = report(&good(9, 60)).to_string();
    assert!(Doctor::default().report(&[], &Machine::default()).to_string().starts_with("no export came"));
    let of_packets = |packets| Machine { packets: Some(packets), ..Machine::default() };
    let of_capture = |packets| Doctor::default().report(&[], &of_packets(packets)).to_string();
    let expected = "no export is among the 7 packets of the capture\nhint: weir meter makes flows of packets\n";
    assert_eq!(of_capture(7), expected);
    assert_eq!(of_capture(0), "the capture has no packets\n");
    assert!(text.contains("nothing is wrong") && text.contains("flows: complete"), "{text}");
}

#[test]
fn loss_and_its_amount() {
    for version in [9, 10] {
        let mut much = good(version, 100);
        much.retain(|datagram| datagram.sequence % 7 != 1 || datagram.template.is_some());
        check(&much, &[FindingKind::Loss]);
        let mut little = good(version, 400);
        little.remove(101);
        check(&little, &[FindingKind::LossLittle]);
    }
    let mut lost = good(9, 100);
    lost.remove(50);
    let evidence = &report(&lost).findings[0].evidence;
    assert_eq!(evidence, "1 of 100 datagrams missing (1.00 %)");
}

#[test]
fn order_and_duplicates() {
    for version in [9, 10] {
        let mut reordered = good(version, 60);
        (0..50).step_by(7).for_each(|at| reordered.swap(at + 2, at + 3));
        check(&reordered, &[FindingKind::Reordered]);
        let mut doubled = good(version, 60);
        doubled.insert(33, doubled[31].clone());
        check(&doubled, &[FindingKind::Duplicates]);
    }
}

#[test]
fn numbers_that_count_something_else() {
    check(&changed(9, |_, d| d.sequence = 0), &[FindingKind::SequenceStuck]);
    check(&changed(10, |_, d| d.sequence = 4_711), &[FindingKind::SequenceStuck]);
    check(&changed(10, |number, d| d.sequence = number as u32), &[FindingKind::SequenceUnit]);
    let mut records = good(10, 60);
    for datagram in &mut records {
        datagram.version = 9;
    }
    check(&records, &[FindingKind::SequenceUnit]);
    let mut noise = 1_u32;
    let mut random = good(9, 100);
    for datagram in &mut random {
        noise = noise.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        datagram.sequence = noise;
    }
    check(&random, &[FindingKind::SequenceErratic]);
    // loss is reported in the unit that is counted
    let mut lost = changed(10, |number, d| d.sequence = number as u32);
    lost.remove(50);
    let report = report(&lost);
    assert_eq!((report.exporters[0].missing, report.exporters[0].unit), (Some(1), "datagrams"));
}

#[test]
fn several_domains() {
    let two = |first: Vec<Datagram>, second: Vec<Datagram>| -> Vec<Datagram> {
        first.into_iter().zip(second).flat_map(|(one, other)| [one, other]).collect()
    };
    let other = |change: fn(&mut Datagram)| {
        let mut datagrams = good(9, 60);
        datagrams.iter_mut().for_each(change);
        datagrams
    };
    check(&two(good(9, 60), other(|d| (d.domain, d.sequence) = (8, d.sequence + 9_000))), &[]);
    // the same domain from two processes
    check(&two(good(9, 60), other(|d| d.sequence += 9_000_000)), &[FindingKind::DomainCollision]);
    // one sequence over both
    let mut shared = two(good(9, 60), other(|d| d.domain = 8));
    shared.iter_mut().enumerate().for_each(|(number, datagram)| datagram.sequence = 500 + number as u32);
    let found: Vec<_> = report(&shared).findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(found, [FindingKind::Loss, FindingKind::Loss, FindingKind::SequenceShared]);
}

#[test]
fn restarts() {
    let restart = |number: u32, d: &mut Datagram| {
        (d.sequence, d.uptime_ms) = (number, 60_000 + number * 1000);
    };
    check(
        &changed(9, |number, d| {
            if number >= 30 {
                restart(number as u32 - 30, d);
            }
        }),
        &[FindingKind::Restarted],
    );
    check(&changed(9, |number, d| restart(number as u32 % 15, d)), &[FindingKind::RestartsOften]);
}

#[test]
fn clocks() {
    check(&changed(9, |_, d| d.export_ms -= 30_000), &[FindingKind::ClockOff]);
    check(&changed(9, |_, d| d.export_ms += 30_000), &[FindingKind::ClockOff]);
    check(&changed(9, |_, d| d.export_ms += 3_000), &[]);
    check(&changed(10, |number, d| d.export_ms -= if number > 40 { 70_000 } else { 0 }), &[FindingKind::ClockJumps]);
    check(&changed(9, |number, d| d.uptime_ms += number as u32 % 2 * 20_000), &[FindingKind::UptimeInconsistent]);
    check(&changed(9, |number, d| d.uptime_ms = (u32::MAX - 20_000).wrapping_add(number as u32 * 1000)), &[]);
}

#[test]
fn templates() {
    check(&changed(9, |_, d| d.template = None), &[FindingKind::TemplatesMissing]);
    check(&changed(10, |number, d| d.template = (number == 30).then(flow_template)), &[]);
    let slow = |number: usize, d: &mut Datagram| {
        let later_ms = number as i64 * 100_000;
        (d.received_ms, d.export_ms) = (d.received_ms + later_ms, d.export_ms + later_ms);
        d.uptime_ms += later_ms as u32;
    };
    check(&changed(9, |number, d| slow(number, d)), &[]);
    let seldom = |number: usize, d: &mut Datagram| {
        slow(number, d);
        d.template = (number == 0).then(flow_template);
    };
    // it has expired long before the end, and the flows wait for it
    check(&changed(9, seldom), &[FindingKind::TemplatesMissing, FindingKind::TemplatesSlow]);
    let other = template(&[(8, 4), (12, 4), (2, 4), (1, 4), (22, 4), (21, 4), (61, 1), (9, 1)], 0);
    let changing = changed(9, |number, d| {
        d.template = Some(if number % 2 == 0 { flow_template() } else { other.clone() });
    });
    check(&changing, &[FindingKind::TemplatesChange]);
    let sent: Vec<_> = good(9, 60).iter().map(|d| (d.port, d.received_ms, d.octets())).collect();
    let none = Limits { templates_per_domain_max: 0, ..Limits::default() };
    let refused = examine(&sent, none);
    assert!(refused.findings.iter().any(|finding| finding.kind == FindingKind::TemplatesRefused), "{refused}");
}

/// An exporter that sends templates from one port and data from another: the remedy is an option, unless it is on.
#[test]
fn templates_from_another_port() {
    let kinds = |mut decoder: Decoder, template_domain: u32| {
        for (number, data) in good(9, 60).into_iter().enumerate() {
            let sequence = number as u32;
            let told = Datagram { flows: Vec::new(), domain: template_domain, sequence, ..data.clone() };
            let data = Datagram { template: None, sequence, ..data };
            for (port, datagram) in [(1, told), (2, data)] {
                let source = SocketAddr::from(([192, 0, 2, 1], port));
                decoder.datagram(source, datagram.received_ms, &datagram.octets());
            }
        }
        let mut doctor = Doctor::default();
        look_at_all(&mut doctor, &mut decoder);
        let report = doctor.report(&decoder.diagnoses(), &Machine::default());
        report.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    let decoder = || Decoder::new(Limits::default());
    assert_eq!(kinds(decoder(), 7), [FindingKind::TemplatesMissing, FindingKind::TemplatesElsewhere]);
    assert_eq!(kinds(decoder(), 8), [FindingKind::TemplatesMissing], "of another domain");
    assert_eq!(kinds(decoder().with_templates_across_ports(), 7), []);
}

#[test]
fn sampling() {
    let interval = |number: usize| [100, 100, 200][number / 20];
    check(&changed(9, |number, d| d.sampling_interval = (number % 20 == 0).then_some(100)), &[]);
    let changes = changed(9, |number, d| d.sampling_interval = (number % 20 == 0).then(|| interval(number)));
    check(&changes, &[FindingKind::SamplingChanged]);
    let sampled = |d: &mut Datagram| d.flows.iter_mut().for_each(|flow| flow.sampler = 3);
    check(&changed(9, |_, d| sampled(d)), &[FindingKind::SamplingUnknown]);
    let known = changed(9, |number, d| {
        sampled(d);
        d.sampling_interval = (number == 0).then_some(100);
    });
    // the first datagram's flows come before the options that report their sampler
    check(&known[..1], &[FindingKind::SamplingUnknown]);
    // scopes of NetFlow v9: 3 is a line card, of which these flows say nothing, and 4 a cache, reported three times
    let of_parts = "sampling rates of parts that no flow names: 1";
    let others = "sampling rates of what no flow can be compared with, reported 3 times";
    for (scope, evidence) in [(3, of_parts), (4, others)] {
        let of_a_part = changed(9, |number, d| {
            d.sampling_interval = (number % 20 == 0).then_some(100);
            d.sampling_scope = scope;
        });
        check(&of_a_part, &[FindingKind::SamplingUnmatched]);
        assert_eq!(report(&of_a_part).findings[0].evidence, evidence);
    }
    let of_both = changed(9, |number, d| {
        d.sampling_interval = (number % 20 == 0).then_some(100);
        d.sampling_scope = if number < 20 { 3 } else { 4 };
    });
    let expected = format!("{of_parts}; {}", others.replace('3', "2"));
    assert_eq!(report(&of_both).findings[0].evidence, expected);
}

#[test]
fn flows_that_make_no_sense() {
    let each = |change: fn(&mut Flow)| changed(9, |_, d| d.flows.iter_mut().for_each(change));
    check(&each(|flow| flow.started_secs_ago = 5), &[FindingKind::StartAfterEnd]);
    check(&each(|flow| flow.started_secs_ago = 10), &[]);
    check(&each(|flow| flow.ended_secs_ago = -90), &[FindingKind::FutureFlows]);
    check(&each(|flow| flow.started_secs_ago = 400), &[FindingKind::LongFlows]);
    check(&each(|flow| flow.started_secs_ago = 300), &[]);
    let mut twice = good(9, 60);
    twice.extend(changed(9, |_, d| d.port = 2));
    check(&twice, &[FindingKind::SeenTwice]);
    let mut both = good(9, 60);
    let out = changed(9, |_, d| {
        d.domain = 8;
        d.flows.iter_mut().for_each(|flow| flow.direction = 1);
    });
    both.extend(out);
    check(&both, &[FindingKind::InAndOut]);
    let mut mice = twice.clone();
    mice.iter_mut().flat_map(|d| &mut d.flows).for_each(|flow| flow.packets = 1);
    check(&mice, &[]);
}

#[test]
fn octets_that_make_no_sense() {
    let good = good(9, 60);
    let mut sent: Vec<_> = good.iter().map(|d| (d.port, d.received_ms, d.octets())).collect();
    let octets = sent[30].2.len();
    sent[30].2.truncate(octets - 5);
    sent.push((2, STARTED_MS, b"<13>syslog".to_vec()));
    sent.push((3, STARTED_MS, vec![0, 0, 0, 5, 0, 0, 0, 1, 192, 0, 2, 3]));
    let report = examine(&sent, Limits::default());
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.evidence.as_str())).collect();
    assert_eq!(
        found,
        [
            (FindingKind::Undecodable, "1 errors in 60 datagrams; a length does not agree: 1"),
            (
                FindingKind::Foreign,
                "1 datagrams, the first begins with 3c 31 33 3e 73 79 73 6c 6f 67 (looks like syslog)"
            ),
            (
                FindingKind::Foreign,
                "1 datagrams, the first begins with 00 00 00 05 00 00 00 01 c0 00 02 03 (looks like sFlow)"
            ),
        ]
    );
}

#[test]
fn faults_of_this_machine() {
    use FindingKind::{CutShort, ExportersRefused, KernelDrops, OverRate, QueueDrops};
    let mut machine = Machine::default();
    assert_eq!(Doctor::default().report(&[], &machine).findings, []);
    let dropped = [Counter::KernelDrops, Counter::QueueDrops, Counter::DatagramsRefused, Counter::DatagramsOverRate];
    for counter in dropped {
        machine.totals[counter as usize] = 2;
    }
    (machine.datagrams_truncated, machine.datagrams) = (1, 0);
    assert_eq!(Doctor::default().report(&[], &machine).findings.len(), 4, "a capture without exports");
    machine.datagrams = 1;
    let report = Doctor::default().report(&[], &machine);
    let found: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(found, [KernelDrops, QueueDrops, ExportersRefused, OverRate, CutShort]);
    assert_eq!(report.worst(), Some(Severity::Error));
    assert_eq!(report.record_batch().num_rows(), 5);
}

#[test]
fn exports_of_a_capture_that_cannot_be_read_are_reported() {
    let machine = Machine { exports_truncated: 50, datagrams_truncated: 51, packets: Some(60), ..Machine::default() };
    let text = Doctor::default().report(&[], &machine).to_string();
    assert!(
        text.starts_with("none of the exports in the capture can be read\n\nwarning: the capture: cut_short\n"),
        "{text}"
    );
    assert!(text.contains("  50 datagrams of the capture") && text.contains("tcpdump -s 0"), "{text}");
    let machine = Machine { exports_tunneled: 3, packets: Some(3), ..Machine::default() };
    let text = Doctor::default().report(&[], &machine).to_string();
    assert!(text.contains("warning: the capture: in_tunnels\n  3 datagrams of exports in tunnels"), "{text}");
}

/// A datagram of sFlow with one sample, of an agent that has been up for this many seconds.
fn sflow(sequence: u32, uptime_secs: u32) -> Vec<u8> {
    let sample = [sequence, 17, 512, sequence * 512, 0, 17, 18, 0];
    let datagram = [5, 1, 0xc000_0263, 0, sequence, uptime_secs * 1_000, 1, 1, 32];
    datagram.iter().chain(&sample).flat_map(|word| word.to_be_bytes()).collect()
}

/// Longer than its samples, and not cut: worth a hint, and no loss.
#[test]
fn octets_behind_messages_are_a_hint() {
    let machine = Machine { messages_longer: 537, ..Machine::default() };
    let report = Doctor::default().report(&[], &machine);
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.severity)).collect();
    assert_eq!(found, [(FindingKind::Longer, Severity::Hint)]);
    assert_eq!(report.findings[0].evidence, "537 messages have octets behind their end");
}

/// What they have counted is in the totals, so that loss is seen.
#[test]
fn domains_without_diagnoses_are_counted() {
    let mut machine = Machine { domains_left_out: 3, messages_longer: 1, ..Machine::default() };
    machine.totals[Counter::RecordsStored as usize] = 99;
    machine.totals[Counter::RecordsLost as usize] = 1;
    let report = Doctor::default().report(&[], &machine);
    let text = report.to_string();
    let expected = "\n3 more Observation Domains of connections that have ended are neither listed nor judged\n";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("1 records lost on the way"), "{text}");
}

/// The agent numbers its datagrams one after the other, and leaves out samples.
#[test]
fn lost_flow_samples_are_loss() {
    let datagram = |number: u32| {
        let mut octets = sflow(1_000 + number, 3_600 + number);
        // the number of the sample, behind 28 octets of the datagram and 8 of the sample
        let sample = if number < 50 { 2_000 + number } else { 2_005 + number };
        octets[36..40].copy_from_slice(&sample.to_be_bytes());
        (1, STARTED_MS + i64::from(number) * 1_000, octets)
    };
    let sent: Vec<_> = (0..60).map(datagram).collect();
    let report = examine(&sent, Limits::default());
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.evidence.as_str())).collect();
    assert_eq!(found, [(FindingKind::Loss, "5 of 65 flow samples missing (7.69 %)")]);
    assert_eq!(report.completeness.to_string(), "92.30 % complete: 5 samples lost on the way");
}

/// One datagram is lost, and its sample, and samples that no datagram explains.
#[test]
fn one_lost_datagram_hides_no_loss_of_flow_samples() {
    let datagram = |number: u32| {
        let mut octets = sflow(1_000 + number, 3_600 + number);
        let sample = if number < 150 { 2_000 + number } else { 2_020 + number };
        octets[36..40].copy_from_slice(&sample.to_be_bytes());
        (1, STARTED_MS + i64::from(number) * 1_000, octets)
    };
    let sent: Vec<_> = (0..200).filter(|number| *number != 100).map(datagram).collect();
    let report = examine(&sent, Limits::default());
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.evidence.as_str())).collect();
    assert_eq!(found, [(FindingKind::Loss, "21 of 220 flow samples missing (9.55 %)")]);
}

#[test]
fn an_agent_of_sflow_is_healthy_until_it_starts_again() {
    let at = |second: u32, octets| (1, STARTED_MS + i64::from(second) * 1_000, octets);
    let mut sent: Vec<_> = (0..60).map(|second| at(second, sflow(1_000 + second, 3_600 + second))).collect();
    assert_eq!(examine(&sent, Limits::default()).findings.len(), 0);
    sent.extend((60..90).map(|second| at(second, sflow(second - 59, second - 50))));
    let found: Vec<_> = examine(&sent, Limits::default()).findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(found, [FindingKind::Restarted]);
}
