//! The books against the truth: exporters of three protocols whose datagrams are lost, doubled, late, cut short, sent
//! before their template and after a restart, and a model that knows what became of each of them.
//!
//! The model is naive: it has the list of everything that was sent and marks what arrived. What it cannot ask of a
//! collector, because no collector can know it, it leaves out: what was lost before the first datagram of a start of
//! the exporter and after the last one, and in IPFIX what was lost directly after a datagram whose records could not
//! be counted.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_collect::{Decoder, Limits};
use weir_flow::Counter;
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, fixed, ipfix, netflow5, netflow9};

/// A small generator (`SplitMix64`).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_in(&mut self, odds: u64) -> bool {
        odds > 0 && self.below(odds) == 0
    }
}

/// What happens to the datagrams of an exporter: one in so many, 0 for never.
#[derive(Debug, Clone, Copy)]
struct Fate {
    lost: u64,
    doubled: u64,
    late: u64,
    cut: u64,
    /// Datagrams that all go missing at once, in every start.
    outage: usize,
    /// Datagrams before the first one with a template, and between those.
    template_after: usize,
}

/// A datagram that an exporter has sent.
struct Sent {
    octets: Vec<u8>,
    /// What its sequence number counts.
    units: u64,
    /// Flow records in it.
    records: u64,
    brings_template: bool,
    export_ms: i64,
    /// The start of the exporter that it belongs to, and its place there.
    start: usize,
    place: usize,
    /// What is left of it.
    cut_to: Option<usize>,
}

const STARTED_MS: i64 = 1_700_000_000_000;

fn template() -> Template {
    let fields = vec![FieldSpecifier::iana(8, 4), FieldSpecifier::iana(1, 4)];
    Template::new(TemplateId::new(256).expect("id"), fields, 0).expect("template")
}

fn netflow5_octets(sequence: u32, export_ms: i64, uptime_ms: u32, records: u64, noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    let header = fixed::Header {
        sys_uptime_ms: uptime_ms,
        unix_secs: (export_ms / 1000) as u32,
        unix_nsecs: (export_ms % 1000 * 1_000_000) as u32,
        flow_sequence: sequence,
        ..fixed::Header::default()
    };
    let mut packet = fixed::PacketBuilder::new(&netflow5::FORMAT, &mut out, &header);
    for _ in 0..records {
        let record = netflow5::FORMAT.record(&[(netflow5::field::OCTETS, noise.next())]);
        packet.record(&record).expect("fits");
    }
    packet.finish();
    out
}

macro_rules! message {
    ($module:ident, $header:expr, $brings_template:expr, $records:expr, $noise:expr) => {{
        let mut out = Vec::new();
        let mut message = $module::MessageBuilder::new(&mut out, $header);
        if $brings_template {
            message.template(&template()).expect("fits");
        }
        for _ in 0..$records {
            message.record(&template(), |out| out.extend($noise.next().to_be_bytes())).expect("fits");
        }
        message.finish();
        out
    }};
}

/// Everything that an exporter sends, in order.
fn send(version: u8, fate: &Fate, noise: &mut Noise) -> Vec<Sent> {
    let mut sent = Vec::new();
    let mut now_ms = STARTED_MS;
    let starts = 1 + noise.below(3) as usize;
    for start in 0..starts {
        // A first start that wraps its numbers must not be followed by one that goes on where it ended.
        let wraps = starts == 1 && noise.one_in(3);
        let mut sequence = match start {
            0 if wraps => u32::MAX - noise.below(500) as u32,
            0 => (1 << 16) + noise.below(1 << 30) as u32,
            _ => 0,
        };
        now_ms += 20_000;
        let started_ms = now_ms - 1_000;
        for place in 0..fate.outage + 100 + noise.below(100) as usize {
            now_ms += noise.below(700) as i64;
            let records = 1 + noise.below(24);
            // templates come alone, and data without them
            let phase = (start == 0 && place < fate.template_after) || version == 5;
            let brings_template = !phase && place % fate.template_after.max(20) == 0;
            let records = if brings_template { 0 } else { records };
            let uptime_ms = (now_ms - started_ms) as u32;
            let secs = (now_ms / 1000) as u32;
            let domain = ObservationDomainId(3);
            let octets = match version {
                5 => netflow5_octets(sequence, now_ms, uptime_ms, records, noise),
                9 => {
                    let (count, sys_uptime_ms) = (0, uptime_ms);
                    let header =
                        netflow9::Header { count, sys_uptime_ms, unix_secs: secs, sequence, source_id: domain };
                    message!(netflow9, &header, brings_template, records, noise)
                }
                _ => {
                    let header = ipfix::Header { length: 0, export_time_secs: secs, sequence, domain };
                    message!(ipfix, &header, brings_template, records, noise)
                }
            };
            let units = if version == 9 { 1 } else { records };
            sequence = sequence.wrapping_add(units as u32);
            let cut_to = noise.one_in(fate.cut).then(|| noise.below(octets.len() as u64) as usize);
            let export_ms = now_ms;
            sent.push(Sent { octets, units, records, brings_template, export_ms, start, place, cut_to });
        }
    }
    sent
}

/// In which order they arrive; some not at all, and some twice.
fn deliver(sent: &[Sent], fate: &Fate, noise: &mut Noise) -> Vec<usize> {
    let mut arrivals: Vec<(usize, u64, usize)> = Vec::new();
    for (number, datagram) in sent.iter().enumerate() {
        let in_outage = (50..50 + fate.outage).contains(&datagram.place);
        if in_outage || noise.one_in(fate.lost) {
            continue;
        }
        for copy in 0..=u64::from(noise.one_in(fate.doubled)) {
            let delay = if copy > 0 || noise.one_in(fate.late) { noise.below(20) } else { 0 };
            // Nothing of a start comes after the next one has begun: exporters take longer to start than that.
            arrivals.push((datagram.start, (datagram.place as u64 + delay) * 2 + u64::from(delay > 0), number));
        }
    }
    arrivals.sort_by_key(|(start, at, _)| (*start, *at));
    arrivals.into_iter().map(|(_, _, number)| number).collect()
}

/// What the books must say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Truth {
    datagrams: u64,
    undecodable: u64,
    duplicates: u64,
    reordered: u64,
    lost: u64,
    stored: u64,
    resets: u64,
    waited: u64,
    waiting: u64,
}

/// What is left of a datagram: `None` when not even a header, else the flow records in it and whether they can all
/// be counted.
fn left(version: u8, datagram: &Sent) -> Option<(u64, bool)> {
    let header = header_len(version);
    match datagram.cut_to {
        None => Some((datagram.records, true)),
        Some(octets) if octets < header => None,
        Some(octets) if version == 5 => Some((((octets - header) / netflow5::RECORD_LEN) as u64, true)),
        Some(_) if datagram.brings_template => Some((0, version != 10)),
        // a set that should be longer keeps its whole records
        Some(octets) => Some(((octets.saturating_sub(header + SET_HEADER_LEN) / RECORD_LEN) as u64, version != 10)),
    }
}

fn header_len(version: u8) -> usize {
    match version {
        5 => netflow5::HEADER_LEN,
        9 => netflow9::HEADER_LEN,
        _ => ipfix::HEADER_LEN,
    }
}

/// Octets of a set's header, and of a record by [`template`].
const SET_HEADER_LEN: usize = 4;
const RECORD_LEN: usize = 8;

/// Whether anything of a Data Set is in a datagram.
fn has_data(version: u8, datagram: &Sent) -> bool {
    let octets = datagram.cut_to.unwrap_or(datagram.octets.len());
    !datagram.brings_template && octets > header_len(version) + SET_HEADER_LEN
}

/// The truth about one exporter.
fn truth(version: u8, sent: &[Sent], arrivals: &[usize]) -> Truth {
    let mut truth = Truth { datagrams: arrivals.len() as u64, ..Truth::default() };
    // what came of each start: places in the order of arrival
    let mut came: HashMap<usize, Vec<usize>> = HashMap::new();
    let (mut seen, mut template_since) = (vec![false; sent.len()], None);
    for &number in arrivals {
        let datagram = &sent[number];
        let Some((records, countable)) = left(version, datagram) else {
            truth.undecodable += 1;
            continue;
        };
        let carries_units = datagram.units > 0 || !countable;
        if std::mem::replace(&mut seen[number], true) && carries_units {
            truth.duplicates += 1;
            continue;
        }
        let places = came.entry(datagram.start).or_default();
        // in IPFIX, datagrams of templates have the number of the one after them
        let later = version != 10 && places.iter().any(|place| *place > datagram.place);
        truth.reordered += u64::from(later);
        places.push(datagram.place);
        if datagram.brings_template && datagram.cut_to.is_none() {
            // The first datagram of a start shows nothing yet, so that those before are judged with it.
            let began_before = datagram.start.saturating_sub(usize::from(places.len() == 1));
            template_since.get_or_insert(began_before);
        }
        truth.stored += records;
        truth.waited += u64::from(version != 5 && template_since.is_none() && has_data(version, datagram));
    }
    if version != 5 && template_since.is_none() {
        truth.waiting = truth.waited;
        truth.stored = 0;
    }
    for (start, places) in &came {
        truth.resets += u64::from(*start > 0 && came.contains_key(&(start - 1)));
        let knowable = version != 10 || template_since.is_some_and(|since| since <= *start);
        if knowable {
            truth.lost += lost(version, sent, *start, places);
        }
    }
    truth
}

/// Units of a start that did not come, as far as that can be known.
fn lost(version: u8, sent: &[Sent], start: usize, places: &[usize]) -> u64 {
    let (first, last) = (places[0], places.iter().max().expect("one"));
    let mut after_uncountable = false;
    let mut lost = 0;
    for datagram in sent.iter().filter(|datagram| datagram.start == start && datagram.place >= first) {
        let arrived = places.contains(&datagram.place);
        if arrived {
            after_uncountable = left(version, datagram).is_some_and(|(_, countable)| !countable);
        } else if datagram.place < *last && !after_uncountable {
            lost += datagram.units;
        }
    }
    lost
}

/// What the books say.
fn books(totals: &[u64; Counter::COUNT], version: u8) -> Truth {
    let of = |counter: Counter| totals[counter as usize];
    let (lost, late) = match version {
        9 => (Counter::DatagramsLost, Counter::DatagramsLate),
        _ => (Counter::RecordsLost, Counter::RecordsLate),
    };
    Truth {
        datagrams: of(Counter::Datagrams),
        undecodable: of(Counter::DatagramsUndecodable),
        duplicates: of(Counter::DatagramsDuplicate),
        reordered: if version == 10 { 0 } else { of(Counter::DatagramsReordered) },
        lost: of(lost) - of(late),
        stored: of(Counter::RecordsStored),
        resets: of(Counter::SequenceResets),
        waited: of(Counter::SetsWaitingIn),
        waiting: weir_flow::books::sets_waiting(totals),
    }
}

/// Sends, delivers and compares. Yields what the model says, so that tests can tell that there was something to find.
fn check(seed: u64, fate: &Fate) -> Vec<Truth> {
    let mut noise = Noise(seed);
    let exporters: Vec<_> = [5, 9, 10, 5, 9, 10]
        .into_iter()
        .map(|version| {
            let sent = send(version, fate, &mut noise);
            let arrivals = deliver(&sent, fate, &mut noise);
            (version, sent, arrivals)
        })
        .collect();
    let mut decoder = Decoder::new(Limits::default());
    let mut next = vec![0; exporters.len()];
    loop {
        let open: Vec<_> = (0..exporters.len()).filter(|at| next[*at] < exporters[*at].2.len()).collect();
        if open.is_empty() {
            break;
        }
        let at = open[noise.below(open.len() as u64) as usize];
        let (_, sent, arrivals) = &exporters[at];
        let datagram = &sent[arrivals[next[at]]];
        next[at] += 1;
        let octets = &datagram.octets[..datagram.cut_to.unwrap_or(datagram.octets.len())];
        decoder.datagram(SocketAddr::from(([192, 0, 2, at as u8], 4_000)), datagram.export_ms, octets);
        if noise.one_in(50) {
            while !decoder.take_delivery().is_empty() {}
        }
    }
    weir_flow::books::balance(&decoder.statistics().totals).expect("a balance");
    let mut told = Vec::new();
    for (at, (version, sent, arrivals)) in exporters.iter().enumerate() {
        let mut totals = [0; Counter::COUNT];
        // what is cut within the header is booked apart, since nothing tells its Observation Domain
        for diagnosis in decoder.diagnoses().iter().filter(|d| d.exporter == [192, 0, 2, at as u8]) {
            weir_flow::books::balance(&diagnosis.totals).expect("a balance");
            totals.iter_mut().zip(diagnosis.totals).for_each(|(total, count)| *total += count);
        }
        let expected = truth(*version, sent, arrivals);
        assert_eq!(books(&totals, *version), expected, "seed {seed}, exporter {at}, version {version}, {fate:?}");
        told.push(expected);
    }
    told
}

const KIND: Fate = Fate { lost: 0, doubled: 0, late: 0, cut: 0, outage: 0, template_after: 0 };

fn check_all(seeds: u64, fate: &Fate) -> Truth {
    let mut all = Truth::default();
    for told in (0..seeds).flat_map(|seed| check(seed, fate)) {
        all.lost += told.lost;
        all.duplicates += told.duplicates;
        all.reordered += told.reordered;
        all.undecodable += told.undecodable;
        all.waited += told.waited;
        all.resets += told.resets;
    }
    all
}

#[test]
fn nothing_happens() {
    let all = check_all(20, &KIND);
    assert_eq!((all.lost, all.duplicates, all.reordered, all.undecodable, all.waited), (0, 0, 0, 0, 0));
    assert!(all.resets > 50);
}

#[test]
fn one_thing_happens() {
    assert!(check_all(20, &Fate { lost: 10, ..KIND }).lost > 1_000);
    assert!(check_all(20, &Fate { late: 5, ..KIND }).reordered > 1_000);
    assert!(check_all(20, &Fate { doubled: 10, ..KIND }).duplicates > 1_000);
    assert!(check_all(20, &Fate { cut: 10, ..KIND }).undecodable > 100);
    assert!(check_all(20, &Fate { template_after: 60, ..KIND }).waited > 1_000);
    assert!(check_all(20, &Fate { outage: 500, ..KIND }).lost > 100_000);
}

#[test]
fn everything_happens() {
    let mut noise = Noise(1);
    for seed in 0..100 {
        let mut odds = |of: &[u64]| of[noise.below(of.len() as u64) as usize];
        let fate = Fate {
            lost: odds(&[0, 3, 10, 50]),
            doubled: odds(&[0, 5, 20]),
            late: odds(&[0, 4, 10, 50]),
            cut: odds(&[0, 20, 50]),
            outage: odds(&[0, 0, 40, 600]) as usize,
            template_after: odds(&[0, 20, 40]) as usize,
        };
        check(seed, &fate);
    }
}
