//! Sequence numbers over the end of a process: what it had not handed on, and what came while there was none, is counted
//! by the next one.

use weir_collect::{Decoder, Limits};
use weir_flow::sequences::read_sequence_rows;
use weir_flow::{Counter, Delivery, SequenceRow, Table};
use weir_wire::{ObservationDomainId, fixed, ipfix, netflow5, netflow9};

use super::truth::Noise;
use super::{RECEIVED_MS, counts, simple_record, simple_template, source};

/// What is kept of deliveries.
#[derive(Default)]
struct Kept {
    counts: Vec<u64>,
    sequences: Vec<SequenceRow>,
}

impl Kept {
    fn keep(&mut self, delivery: &Delivery) {
        self.counts.resize(Counter::COUNT, 0);
        self.counts.iter_mut().zip(counts(delivery.books())).for_each(|(sum, count)| *sum += count);
        for other in &delivery.side_tables.others {
            assert_eq!(other.table(), Table::ExporterSequences);
            self.sequences.extend(read_sequence_rows(other.record_batch()));
        }
    }

    fn count(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// The last row of each exporter.
    fn last(&self) -> Vec<SequenceRow> {
        let mut last: Vec<SequenceRow> = Vec::new();
        for row in &self.sequences {
            last.retain(|known| known.key != row.key);
            last.push(row.clone());
        }
        last
    }
}

/// An exporter of one protocol.
struct Exporter {
    version: u8,
    sequence: u32,
    now_ms: i64,
    started_ms: i64,
    sent: u64,
}

impl Exporter {
    fn new(version: u8, sequence: u32) -> Self {
        Self { version, sequence, now_ms: RECEIVED_MS, started_ms: RECEIVED_MS - 50_000, sent: 0 }
    }

    /// The next datagram, with its template.
    fn next(&mut self, records: u32) -> Vec<u8> {
        let (mut out, sequence) = (Vec::new(), self.sequence);
        let (secs, sys_uptime_ms) = ((self.now_ms / 1000) as u32, (self.now_ms - self.started_ms) as u32);
        let domain = ObservationDomainId(7);
        match self.version {
            5 => {
                let unix_nsecs = (self.now_ms % 1000 * 1_000_000) as u32;
                let (flow_sequence, unix_secs) = (sequence, secs);
                let header =
                    fixed::Header { sys_uptime_ms, unix_secs, unix_nsecs, flow_sequence, ..fixed::Header::default() };
                let mut packet = fixed::PacketBuilder::new(&netflow5::FORMAT, &mut out, &header);
                (0..records).for_each(|_| packet.record(&netflow5::FORMAT.record(&[])).expect("fits"));
                packet.finish();
            }
            9 => {
                let header = netflow9::Header { count: 0, sys_uptime_ms, unix_secs: secs, sequence, source_id: domain };
                let mut message = netflow9::MessageBuilder::new(&mut out, &header);
                message.template(&simple_template()).expect("fits");
                for _ in 0..records {
                    message.record(&simple_template(), |out| simple_record(out, 1, 1)).expect("fits");
                }
                message.finish();
            }
            _ => {
                let header = ipfix::Header { length: 0, export_time_secs: secs, sequence, domain };
                let mut message = ipfix::MessageBuilder::new(&mut out, &header);
                message.template(&simple_template()).expect("fits");
                for _ in 0..records {
                    message.record(&simple_template(), |out| simple_record(out, 1, 1)).expect("fits");
                }
                message.finish();
            }
        }
        self.skip(if self.version == 9 { 1 } else { records });
        out
    }

    /// Sends so much to nobody.
    fn skip(&mut self, units: u32) {
        self.sequence = self.sequence.wrapping_add(units);
        self.sent += u64::from(units);
    }
}

fn decoder(kept: &Kept) -> Decoder {
    Decoder::new(Limits::default()).with_sequences(kept.last())
}

/// What came of what was sent, as the books have it: stored, lost, and of that while there was no process.
fn books(kept: &Kept, version: u8) -> [u64; 3] {
    let of = |counter| kept.count(counter);
    match version {
        9 => [
            of(Counter::DatagramsDecoded),
            of(Counter::DatagramsLost) - of(Counter::DatagramsLate),
            of(Counter::DatagramsLostDown),
        ],
        _ => [
            of(Counter::RecordsStored),
            of(Counter::RecordsLost) - of(Counter::RecordsLate),
            of(Counter::RecordsLostDown),
        ],
    }
}

/// Processes end at any moment, with deliveries that nobody kept and while datagrams come for nobody.
#[test]
fn every_record_that_is_missing_is_in_the_books() {
    for seed in 0..60 {
        let mut noise = Noise(seed);
        for version in [5, 9, 10] {
            let mut exporter = Exporter::new(version, u32::MAX - 3_000 + noise.below(3_000) as u32);
            let mut kept = Kept::default();
            // what the first process had not handed on is known to nobody
            let mut decoder_now = decoder(&kept);
            decoder_now.datagram(source(1), exporter.now_ms, &exporter.next(10));
            kept.keep(&decoder_now.take_delivery());
            for _ in 0..12 {
                for _ in 0..noise.below(30) {
                    exporter.now_ms += noise.below(300) as i64;
                    let datagram = exporter.next(1 + noise.below(20) as u32);
                    if !noise.one_in(15) {
                        decoder_now.datagram(source(1), exporter.now_ms, &datagram);
                    }
                    if noise.one_in(5) {
                        kept.keep(&decoder_now.take_delivery());
                    }
                }
                decoder_now = decoder(&kept);
                if noise.one_in(2) {
                    let longest = if noise.one_in(3) { 80_000 } else { 2_000 };
                    exporter.skip(noise.below(longest) as u32);
                    exporter.now_ms += 1_000;
                }
            }
            // so much that it is sure
            for _ in 0..3 {
                decoder_now.datagram(source(1), exporter.now_ms, &exporter.next(5));
            }
            kept.keep(&decoder_now.take_delivery());
            let [stored, lost, down] = books(&kept, version);
            assert_eq!(stored + lost, exporter.sent, "seed {seed}, version {version}: {stored} stored, {lost} lost");
            assert!(down <= lost && (down > 0 || lost < 200), "{down} of {lost}");
        }
    }
}

/// Rows of one exporter go on from one another, over the end of processes as well.
#[test]
fn rows_go_on_from_one_another() {
    let mut kept = Kept::default();
    let mut exporter = Exporter::new(10, 500);
    for _ in 0..3 {
        let mut decoder = decoder(&kept);
        for _ in 0..4 {
            exporter.now_ms += 1_000;
            decoder.datagram(source(1), exporter.now_ms, &exporter.next(7));
            kept.keep(&decoder.take_delivery());
        }
        exporter.skip(11);
    }
    let rows = kept.sequences;
    assert_eq!(rows.len(), 12);
    assert_eq!((rows[0].first, rows[0].next, rows[0].unit.as_str()), (None, 507, "data records"));
    for pair in rows.windows(2) {
        assert_eq!(pair[1].first, Some(pair[0].next));
        assert_eq!((pair[1].since_ms, pair[0].received_ms + 1_000), (pair[0].received_ms, pair[1].received_ms));
    }
}

#[test]
fn an_exporter_that_has_started_again_meanwhile_lost_nothing_that_is_known() {
    for version in [5, 9, 10] {
        let (mut kept, mut before) = (Kept::default(), Exporter::new(version, 1 << 24));
        let mut one = decoder(&kept);
        one.datagram(source(1), before.now_ms, &before.next(10));
        kept.keep(&one.take_delivery());
        let mut after =
            Exporter { started_ms: RECEIVED_MS + 60_000, now_ms: RECEIVED_MS + 90_000, ..Exporter::new(version, 0) };
        let mut other = decoder(&kept);
        for _ in 0..3 {
            other.datagram(source(1), after.now_ms, &after.next(10));
        }
        kept.keep(&other.take_delivery());
        assert_eq!((books(&kept, version)[1], kept.count(Counter::SequenceResets)), (0, 1), "version {version}");
    }
}

/// More than 2^20 records may be missing, when there was the time to send them.
#[test]
fn a_long_silence_is_loss_and_a_leap_is_none() {
    for (version, missing, silence_ms, expected) in [
        (5, 3_000_000, 60_000, Some(3_000_000_u64)),
        (5, 3_000_000_u32, 100, None),
        // by uptime alone it might be as much, but this exporter sends 1000 a second
        (10, 3_000_000, 60_000, None),
        (10, 3_000_000, 1_500_000, Some(3_000_000)),
        (9, 3_000_000, 60_000, Some(3_000_000)),
    ] {
        let mut exporter = Exporter::new(version, 1_000);
        let mut decoder = Decoder::new(Limits::default());
        let send = |exporter: &mut Exporter, decoder: &mut Decoder| {
            for _ in 0..200 {
                exporter.now_ms += 20;
                decoder.datagram(source(1), exporter.now_ms, &exporter.next(20));
            }
        };
        send(&mut exporter, &mut decoder);
        exporter.now_ms += silence_ms;
        exporter.skip(missing);
        send(&mut exporter, &mut decoder);
        let mut kept = Kept::default();
        kept.keep(&decoder.take_delivery());
        let found = (kept.count(Counter::SequenceResets) == 0).then(|| books(&kept, version)[1]);
        assert_eq!(found, expected, "version {version}, {missing} in {silence_ms} ms");
    }
}

/// Sends for some time at an even rate.
fn run(exporter: &mut Exporter, decoder: &mut Decoder, kept: &mut Kept, datagrams: u32, records: u32) {
    for _ in 0..datagrams {
        exporter.now_ms += 10;
        decoder.datagram(source(1), exporter.now_ms, &exporter.next(records));
    }
    kept.keep(&decoder.take_delivery());
}

/// IPFIX has no uptime, so how much may be missing follows from how much there was before: in the first process after the
/// first as well as later, when rows of many processes have become one.
#[test]
fn a_minute_without_a_collector_is_loss_for_an_exporter_without_uptimes() {
    let (mut kept, mut exporter) = (Kept::default(), Exporter::new(10, u32::MAX - 100_000));
    for process in 1..=4 {
        let mut decoder = decoder(&kept);
        run(&mut exporter, &mut decoder, &mut kept, 600, 1_000);
        assert_eq!(books(&kept, 10)[1], (process - 1) * 6_000_000, "process {process}");
        exporter.skip(6_000_000);
        exporter.now_ms += 60_000;
        let mut rows = std::mem::take(&mut kept.sequences).into_iter();
        let mut whole = rows.next().expect("a row");
        rows.for_each(|row| assert_eq!(whole.follow(row), None, "they go on from one another"));
        kept.sequences.push(whole);
    }
    assert_eq!(kept.count(Counter::SequenceResets), 0);
}

/// The uptime is larger than before, and yet the exporter has started again, hours ago, while nobody listened.
#[test]
fn an_exporter_that_started_again_long_ago_lost_nothing_that_is_known() {
    for version in [5, 9] {
        let (mut kept, mut before) = (Kept::default(), Exporter::new(version, 1_000));
        run(&mut before, &mut decoder(&kept), &mut kept, 10, 10);
        let day_ms = 86_400_000;
        let started_ms = RECEIVED_MS + day_ms / 2;
        let mut after = Exporter { started_ms, now_ms: RECEIVED_MS + day_ms, ..Exporter::new(version, 700_000_000) };
        run(&mut after, &mut decoder(&kept), &mut kept, 10, 10);
        assert_eq!((books(&kept, version)[1], kept.count(Counter::SequenceResets)), (0, 1), "version {version}");
    }
}

#[test]
fn what_is_lost_later_was_not_missed_while_down() {
    let (mut kept, mut exporter) = (Kept::default(), Exporter::new(10, 1_000_000));
    run(&mut exporter, &mut decoder(&kept), &mut kept, 10, 10);
    let mut other = decoder(&kept);
    // one from long before comes first
    other.datagram(source(1), exporter.now_ms, &Exporter::new(10, 5).next(10));
    run(&mut exporter, &mut other, &mut kept, 10, 10);
    exporter.skip(70);
    run(&mut exporter, &mut other, &mut kept, 10, 10);
    assert_eq!(books(&kept, 10)[1..], [70, 0]);
}

/// A process ends while a set waits for its template: it is gone with the process, and all that came to nobody is known.
#[test]
fn a_set_that_waited_at_the_end_hides_nothing() {
    let (mut kept, mut exporter) = (Kept::default(), Exporter::new(10, 1_000));
    let mut one = decoder(&kept);
    run(&mut exporter, &mut one, &mut kept, 5, 10);
    let mut waits = exporter.next(10);
    let at = waits.len() - 10 * 16 - 4;
    waits.drain(16..at);
    let (length, set) = ((waits.len() as u16).to_be_bytes(), 900_u16.to_be_bytes());
    waits[2..4].copy_from_slice(&length);
    waits[16..18].copy_from_slice(&set);
    one.datagram(source(1), exporter.now_ms, &waits);
    kept.keep(&one.take_delivery());
    assert_eq!(kept.count(Counter::SetsWaitingIn), 1);
    exporter.skip(800_000);
    run(&mut exporter, &mut decoder(&kept), &mut kept, 5, 10);
    assert_eq!(books(&kept, 10), [100, 800_010, 800_010], "with the ten that waited");
}

/// Numbers that follow no rule say nothing, neither in this process nor in the next one.
#[test]
fn lawless_numbers_are_not_gone_on_with() {
    let (mut kept, mut noise) = (Kept::default(), Noise(1));
    let mut exporter = Exporter::new(10, 1_000);
    for _ in 0..2 {
        let mut decoder = decoder(&kept);
        for _ in 0..200 {
            exporter.sequence = noise.next() as u32;
            run(&mut exporter, &mut decoder, &mut kept, 1, 10);
        }
    }
    assert_eq!(kept.last()[0].unit, "nothing recognizable");
    assert_eq!(kept.count(Counter::RecordsLostDown), 0);
}

/// Who floods the table of domains does not make an exporter's account forgotten that has not been heard yet.
#[test]
fn an_account_that_gave_way_unheard_is_gone_on_with() {
    let (mut kept, mut exporter) = (Kept::default(), Exporter::new(10, 1_000));
    let mut one = decoder(&kept);
    run(&mut exporter, &mut one, &mut kept, 5, 10);
    let limits = Limits { domains_max: 4, ..Limits::default() };
    let mut other = Decoder::new(limits).with_sequences(kept.last());
    other.import_state(&one.export_state()).expect("its own state");
    exporter.now_ms += 3_600_000;
    for port in 100..200 {
        other.datagram(source(port), exporter.now_ms, &Exporter::new(10, 0).next(1));
    }
    while !other.take_delivery().is_empty() {}
    exporter.skip(50);
    other.datagram(source(1), exporter.now_ms, &exporter.next(10));
    let counts = counts(other.take_delivery().books());
    assert_eq!(counts[Counter::RecordsLostDown as usize], 50);
}
