//! Data before its template: in memory, on disk, and back in order.

use std::fs;

use proptest::prelude::*;
use weir_collect::spool::Spool;
use weir_collect::{Decoder, Limits};
use weir_flow::Counter;

use super::RECEIVED_MS;
use super::exporter::{NUMBERED, Taken, TestExporter, exchange, template_of};

fn exporters(count: u8) -> Vec<TestExporter> {
    (0..count).map(|number| TestExporter::new([192, 0, 2, number], 4739, u32::from(number))).collect()
}

/// Sends data of several exporters by turns, the templates half a minute later, and more data.
fn hold(limits: Limits, on_disk: bool, sets: u32) -> (Taken, u64) {
    let folder = tempfile::tempdir().expect("folder");
    let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
    let mut decoder = Decoder::new(limits);
    if on_disk {
        decoder = decoder.with_spool();
    }
    let (mut taken, mut exporters, mut now_ms, mut on_disk_most) = (Taken::default(), exporters(7), RECEIVED_MS, 0);
    let step_ms = 30_000 / i64::from(sets);
    for number in 0..sets {
        for exporter in &mut exporters {
            let datagram = exporter.data(1 + number % 5);
            decoder.datagram(exporter.source, now_ms, &datagram);
        }
        now_ms += step_ms;
        decoder.expire(now_ms);
        exchange(&mut decoder, &mut spool, &mut taken);
        on_disk_most = on_disk_most.max(decoder.statistics().sets_spooled);
    }
    assert!(taken.flows.is_empty());
    for exporter in &mut exporters {
        let datagram = exporter.templates();
        decoder.datagram(exporter.source, now_ms, &datagram);
        // what comes before the disk has answered comes after what is there
        let datagram = exporter.data(3);
        decoder.datagram(exporter.source, now_ms, &datagram);
    }
    exchange(&mut decoder, &mut spool, &mut taken);
    for exporter in &mut exporters {
        let datagram = exporter.data(3);
        decoder.datagram(exporter.source, now_ms, &datagram);
    }
    taken.all_of(&mut decoder);
    for exporter in &exporters {
        assert_eq!(taken.numbers(exporter.domain), (0..exporter.next).collect::<Vec<_>>(), "in order and complete");
    }
    let statistics = decoder.statistics();
    assert_eq!((statistics.sets_waiting, statistics.sets_spooled), (0, 0));
    assert_eq!(taken.count(Counter::SetsWaitingIn), taken.count(Counter::SetsWaitingOut));
    assert_eq!(taken.count(Counter::SetsExpired), 0);
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 0, "segments without sets are removed");
    (taken, on_disk_most)
}

#[test]
fn sets_wait_in_memory_for_half_a_minute() {
    let (taken, on_disk) = hold(Limits::default(), false, 600);
    assert_eq!((taken.count(Counter::SetsWaitingIn), on_disk), (7 * 600, 0));
}

/// Many short sets of one message are kept together; each is decoded, counted and missed by itself.
#[test]
fn short_sets_of_a_message_wait_together_and_come_back_one_by_one() {
    for (octets_max, on_disk, wait_secs) in [(1 << 20, false, 0), (0, true, 0), (1 << 20, false, 2_000)] {
        let limits = Limits { waiting_octets_max: octets_max, ..Limits::default() };
        let now_ms = RECEIVED_MS + wait_secs * 1_000;
        let folder = tempfile::tempdir().expect("folder");
        let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
        let mut decoder = Decoder::new(limits);
        if on_disk {
            decoder = decoder.with_spool();
        }
        let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
        let templates = [template_of(256, NUMBERED), template_of(257, NUMBERED)];
        // a set for each record, of one template and the other
        let mut datagram = exporter.message(|_| ());
        for number in 0..100_u64 {
            datagram.extend((256 + (number % 2) as u16).to_be_bytes());
            datagram.extend([0, 16, 10, 0, 0, 1]);
            datagram.extend(number.to_be_bytes());
        }
        let length = (datagram.len() as u16).to_be_bytes();
        datagram[2..4].copy_from_slice(&length);
        exporter.sequence += 100;
        decoder.datagram(exporter.source, RECEIVED_MS, &datagram);
        decoder.expire(now_ms);
        exchange(&mut decoder, &mut spool, &mut taken);
        let statistics = decoder.statistics();
        let waiting = statistics.sets_waiting as u64 + statistics.sets_spooled;
        let lost = if wait_secs > 0 { 100 } else { 0 };
        assert_eq!(waiting, 100 - lost);
        for template in templates {
            exporter.template = template;
            let message = exporter.templates();
            decoder.datagram(exporter.source, now_ms, &message);
            exchange(&mut decoder, &mut spool, &mut taken);
        }
        exporter.next = 100;
        decoder.datagram(exporter.source, now_ms, &exporter.data(1));
        taken.all_of(&mut decoder);
        let waited = (0..100).step_by(2).chain((1..100).step_by(2)).filter(|_| lost == 0);
        assert_eq!(taken.numbers(1), waited.chain([100]).collect::<Vec<_>>(), "on disk: {on_disk}");
        let counted = [Counter::SetsWaitingIn, Counter::SetsWaitingOut, Counter::SetsExpired, Counter::RecordsLost];
        assert_eq!(counted.map(|counter| taken.count(counter)), [100, 100 - lost, lost, lost], "on disk: {on_disk}");
    }
}

/// A set without records has nothing to wait for.
#[test]
fn empty_sets_do_not_wait() {
    let (mut decoder, mut taken) = (Decoder::new(Limits::default()), Taken::default());
    let mut exporter = TestExporter::new([192, 0, 2, 1], 4739, 1);
    let mut datagram = exporter.message(|_| ());
    // two Data Sets of Template 256, of four octets each
    datagram.extend([1, 0, 0, 4, 1, 0, 0, 4]);
    let length = (datagram.len() as u16).to_be_bytes();
    datagram[2..4].copy_from_slice(&length);
    decoder.datagram(exporter.source, RECEIVED_MS, &datagram);
    taken.all_of(&mut decoder);
    let counted = [Counter::Datagrams, Counter::SetsWaitingIn, Counter::SetsUndecodable, Counter::RecordsLost];
    assert_eq!(counted.map(|counter| taken.count(counter)), [1, 0, 0, 0]);
    assert_eq!(decoder.statistics().sets_waiting, 0);
}

#[test]
fn thousands_of_sets_wait_on_disk_and_come_back_in_order() {
    // room in memory for some thirty sets: all others go to disk, long before they are old
    let (taken, on_disk) = hold(Limits { waiting_octets_max: 10_000, ..Limits::default() }, true, 1_000);
    assert!(on_disk > 6_900, "{on_disk}");
    assert!(taken.count(Counter::SetsWaitingIn) >= 7 * 1_000);
    // and those that are old go there although there is room
    let (_, on_disk) = hold(Limits::default(), true, 600);
    assert!(on_disk > 7 * 350, "{on_disk}");
}

#[test]
fn what_waits_on_disk_expires_and_is_counted() {
    let limits = Limits { waiting_octets_max: 0, waiting_secs_max: 60, ..Limits::default() };
    let folder = tempfile::tempdir().expect("folder");
    let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
    let mut decoder = Decoder::new(limits).with_spool();
    let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
    for _ in 0..100 {
        decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
    }
    exchange(&mut decoder, &mut spool, &mut taken);
    assert_eq!(decoder.statistics().sets_spooled, 100);
    let mut answers = Vec::new();
    spool.expire(RECEIVED_MS + 60_001, &mut |_, answer| {
        answers.push(answer);
        true
    });
    for answer in answers {
        decoder.spool_answer(answer);
    }
    decoder.datagram(exporter.source, RECEIVED_MS + 60_001, &exporter.templates());
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!((taken.flows.len(), taken.count(Counter::SetsExpired)), (0, 100));
    // how many records were in them is what sequence numbers say
    assert_eq!(taken.count(Counter::RecordsLost) - taken.count(Counter::RecordsLate), 100);
    assert_eq!((decoder.statistics().sets_spooled, spool.statistics().sets), (0, 0));
}

/// What a process leaves: sets of three exporters on disk.
fn left_behind(folder: &std::path::Path, limits: &Limits, records: u32) -> Vec<TestExporter> {
    let mut spool = Spool::open(folder, limits, 1).expect("spool");
    let mut decoder = Decoder::new(limits.clone()).with_spool();
    let mut exporters = exporters(3);
    for _ in 0..records {
        for exporter in &mut exporters {
            decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
        }
    }
    decoder.spool_all();
    exchange(&mut decoder, &mut spool, &mut Taken::default());
    exporters
}

/// What the process after it makes of that once the templates have come. Also: places found damaged.
fn found_again(folder: &std::path::Path, limits: &Limits, exporters: &mut [TestExporter]) -> (Taken, u64) {
    let mut spool = Spool::open(folder, limits, 1).expect("spool");
    let mut decoder = Decoder::new(limits.clone()).with_spool();
    let mut taken = Taken::default();
    spool.report_found(&mut |_, answer| {
        decoder.spool_answer(answer);
        true
    });
    for exporter in exporters {
        decoder.datagram(exporter.source, RECEIVED_MS + 1_000, &exporter.templates());
    }
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!(decoder.statistics().sets_spooled, 0);
    assert_eq!(taken.count(Counter::SpoolDamaged), spool.statistics().damaged);
    (taken, spool.statistics().damaged)
}

fn only_file(folder: &std::path::Path) -> std::path::PathBuf {
    let mut files = fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path());
    let file = files.next().expect("a segment");
    assert!(files.next().is_none());
    file
}

#[test]
fn sets_on_disk_are_found_by_the_process_after() {
    let (folder, limits) = (tempfile::tempdir().expect("folder"), Limits::default());
    let mut exporters = left_behind(folder.path(), &limits, 50);
    let (taken, damaged) = found_again(folder.path(), &limits, &mut exporters);
    for exporter in &exporters {
        assert_eq!(taken.numbers(exporter.domain), (0..50).collect::<Vec<_>>());
    }
    assert_eq!((damaged, taken.count(Counter::SetsWaitingOut)), (0, 150));
    // and only once
    let (taken, _) = found_again(folder.path(), &limits, &mut exporters);
    assert!(taken.flows.is_empty());
}

#[test]
fn a_file_cut_anywhere_keeps_what_is_before() {
    let (folder, limits) = (tempfile::tempdir().expect("folder"), Limits::default());
    let mut exporters = left_behind(folder.path(), &limits, 4);
    let file = only_file(folder.path());
    let whole = fs::read(&file).expect("segment");
    let record = (whole.len() - 16) / 12;
    for length in 0..=whole.len() {
        fs::write(&file, &whole[..length]).expect("written");
        let (taken, damaged) = found_again(folder.path(), &limits, &mut exporters);
        let kept = length.saturating_sub(16) / record;
        assert_eq!(taken.flows.len(), kept, "cut at {length}");
        let torn = length < 16 || (length - 16) % record != 0;
        assert_eq!(damaged, u64::from(torn), "cut at {length}");
        let _ = fs::remove_file(file.with_extension("damaged"));
    }
}

#[test]
fn a_flipped_bit_costs_one_set() {
    let (folder, limits) = (tempfile::tempdir().expect("folder"), Limits::default());
    let mut exporters = left_behind(folder.path(), &limits, 4);
    let file = only_file(folder.path());
    let whole = fs::read(&file).expect("segment");
    for at in 16..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&file, &flipped).expect("written");
        let (taken, damaged) = found_again(folder.path(), &limits, &mut exporters);
        assert_eq!((taken.flows.len(), damaged), (11, 1), "octet {at}");
    }
    let mut foreign = whole.clone();
    foreign[3] ^= 1;
    fs::write(&file, &foreign).expect("written");
    assert_eq!(found_again(folder.path(), &limits, &mut exporters).1, 1);
    assert!(file.with_extension("damaged").exists(), "a file of somebody else is set aside");
}

#[test]
fn what_does_not_fit_on_disk_costs_the_oldest() {
    let limits = Limits { waiting_octets_max: 0, spool_octets_max: 4_096, ..Limits::default() };
    let folder = tempfile::tempdir().expect("folder");
    let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
    let mut decoder = Decoder::new(limits).with_spool();
    let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
    for _ in 0..1_000 {
        decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
        exchange(&mut decoder, &mut spool, &mut taken);
        assert!(spool.statistics().octets <= 4_096 + 128, "{:?}", spool.statistics());
    }
    let waiting = spool.statistics().sets as u64;
    assert!(waiting > 20, "{waiting}");
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!(taken.numbers(1), (1_000 - waiting..1_000).collect::<Vec<_>>());
    assert_eq!(taken.count(Counter::SetsExpired), 1_000 - waiting);
}

#[test]
fn a_folder_that_is_gone_is_made_again() {
    let limits = Limits { waiting_octets_max: 0, ..Limits::default() };
    let folder = tempfile::tempdir().expect("folder");
    let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
    fs::remove_dir(folder.path()).expect("removed");
    let mut decoder = Decoder::new(limits).with_spool();
    let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
    exchange(&mut decoder, &mut spool, &mut taken);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!((taken.numbers(1), taken.count(Counter::SetsExpired)), (vec![0], 0));
    assert_eq!(spool.statistics().writes_failed, 0);
}

/// A spool whose folder has become a file: nothing can be written.
fn spool_that_refuses(folder: &tempfile::TempDir, limits: &Limits) -> Spool {
    let path = folder.path().join("spool");
    let spool = Spool::open(&path, limits, 1).expect("spool");
    fs::remove_dir(&path).expect("removed");
    fs::write(&path, []).expect("a file");
    spool
}

#[test]
fn what_the_disk_refuses_waits_in_memory_and_goes_there_later() {
    let folder = tempfile::tempdir().expect("folder");
    let limits = Limits::default();
    let mut spool = spool_that_refuses(&folder, &limits);
    let mut decoder = Decoder::new(limits).with_spool();
    let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
    let mut other = TestExporter::new([192, 0, 2, 2], 4739, 1);
    (0..20).for_each(|_| decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1)));
    decoder.datagram(other.source, RECEIVED_MS, &other.data(1));
    let mut pass = |decoder: &mut Decoder, spool: &mut Spool, ms: i64| {
        decoder.expire(RECEIVED_MS + ms);
        exchange(decoder, spool, &mut taken);
    };
    pass(&mut decoder, &mut spool, 11_000);
    assert_eq!((decoder.statistics().sets_waiting, decoder.statistics().sets_spooled), (21, 0));
    // it is left alone for a minute, and tried again
    let failed = spool.statistics().writes_failed;
    assert!((1..=21).contains(&failed), "{failed}");
    pass(&mut decoder, &mut spool, 60_000);
    assert_eq!(spool.statistics().writes_failed, failed);
    pass(&mut decoder, &mut spool, 82_000);
    assert!(spool.statistics().writes_failed > failed);
    assert_eq!((decoder.statistics().sets_waiting, decoder.statistics().sets_spooled), (21, 0));
    fs::remove_file(folder.path().join("spool")).expect("removed");
    pass(&mut decoder, &mut spool, 160_000);
    assert_eq!((decoder.statistics().sets_waiting, decoder.statistics().sets_spooled), (0, 21));
    decoder.datagram(exporter.source, RECEIVED_MS + 160_000, &exporter.templates());
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!((taken.numbers(1), taken.count(Counter::SetsExpired)), ((0..20).collect(), 0));
    assert_eq!(decoder.statistics().sets_spooled, 1);
}

#[test]
fn what_neither_disk_nor_memory_take_is_counted() {
    let folder = tempfile::tempdir().expect("folder");
    let limits = Limits { waiting_octets_max: 0, ..Limits::default() };
    let mut spool = spool_that_refuses(&folder, &limits);
    let mut decoder = Decoder::new(limits).with_spool();
    let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
    exchange(&mut decoder, &mut spool, &mut taken);
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!((taken.numbers(1), taken.count(Counter::SetsExpired)), (vec![1], 1));
    assert_eq!(spool.statistics().writes_failed, 1);
    // and at the end
    let mut exporter = TestExporter::new([192, 0, 2, 2], 4739, 2);
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
    decoder.spool_all();
    exchange(&mut decoder, &mut spool, &mut taken);
    taken.all_of(&mut decoder);
    assert_eq!((decoder.statistics().sets_waiting, taken.count(Counter::SetsExpired)), (0, 2));
}

#[derive(Debug, Clone)]
enum Step {
    Data { exporter: usize, records: u32 },
    Templates { exporter: usize },
    Withdraw { exporter: usize },
    Pass { ms: i64 },
    Exchange,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3_usize, 1..4_u32).prop_map(|(exporter, records)| Step::Data { exporter, records }),
        2 => (0..3_usize).prop_map(|exporter| Step::Templates { exporter }),
        1 => (0..3_usize).prop_map(|exporter| Step::Withdraw { exporter }),
        3 => (1..4_000_i64).prop_map(|ms| Step::Pass { ms }),
        4 => Just(Step::Exchange),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The naive model: a list of flows for each exporter. Whatever room there is in memory, whenever the process is
    /// replaced, all come out once and in order.
    #[test]
    fn memory_and_disk_are_one_queue(steps in steps(), octets_max in 0_usize..3_000) {
        let limits = Limits { waiting_octets_max: octets_max, waiting_secs_max: 100_000, ..Limits::default() };
        let folder = tempfile::tempdir().expect("folder");
        let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
        let mut decoder = Decoder::new(limits.clone()).with_spool();
        let (mut taken, mut exporters, mut now_ms) = (Taken::default(), exporters(3), RECEIVED_MS);
        for step in steps {
            match step {
                Step::Data { exporter, records } => {
                    let datagram = exporters[exporter].data(records);
                    decoder.datagram(exporters[exporter].source, now_ms, &datagram);
                }
                Step::Templates { exporter } => {
                    let datagram = exporters[exporter].templates();
                    decoder.datagram(exporters[exporter].source, now_ms, &datagram);
                }
                Step::Withdraw { exporter } => {
                    // while nothing is on its way: who withdraws a template before its data was read loses order
                    exchange(&mut decoder, &mut spool, &mut taken);
                    let id = exporters[exporter].template.id();
                    let datagram = exporters[exporter].message(|message| {
                        message.withdraw(weir_wire::message_builder::TemplateKind::Data, id).expect("fits");
                    });
                    decoder.datagram(exporters[exporter].source, now_ms, &datagram);
                }
                Step::Pass { ms } => {
                    exchange(&mut decoder, &mut spool, &mut taken);
                    now_ms += ms;
                    decoder.expire(now_ms);
                }
                Step::Exchange => exchange(&mut decoder, &mut spool, &mut taken),
                Step::Restart => {
                    exchange(&mut decoder, &mut spool, &mut taken);
                    decoder.spool_all();
                    exchange(&mut decoder, &mut spool, &mut taken);
                    taken.all_of(&mut decoder);
                    let state = decoder.export_state();
                    decoder = Decoder::new(limits.clone()).with_spool();
                    decoder.import_state(&state).expect("its own state");
                    spool = Spool::open(folder.path(), &limits, 1).expect("spool");
                    spool.report_found(&mut |_, answer| {
                        decoder.spool_answer(answer);
                        true
                    });
                }
            }
        }
        for exporter in &mut exporters {
            let datagram = exporter.templates();
            decoder.datagram(exporter.source, now_ms, &datagram);
        }
        exchange(&mut decoder, &mut spool, &mut taken);
        taken.all_of(&mut decoder);
        for exporter in &exporters {
            prop_assert_eq!(taken.numbers(exporter.domain), (0..exporter.next).collect::<Vec<_>>());
        }
        prop_assert_eq!(taken.count(Counter::SetsWaitingIn), taken.count(Counter::SetsWaitingOut));
        prop_assert_eq!((taken.count(Counter::SetsExpired), spool.statistics().sets), (0, 0));
    }
}

/// What is missing between sets that wait is known when they are decoded, however long that takes.
#[test]
fn datagrams_that_did_not_come_between_sets_that_wait_are_lost() {
    for (on_disk, wait_ms) in [(false, 1_000), (true, 1_000), (true, 14_000)] {
        let (limits, folder) = (Limits::default(), tempfile::tempdir().expect("folder"));
        let mut spool = Spool::open(folder.path(), &limits, 1).expect("spool");
        let mut decoder = Decoder::new(limits);
        if on_disk {
            decoder = decoder.with_spool();
        }
        let (mut taken, mut exporter) = (Taken::default(), TestExporter::new([192, 0, 2, 1], 4739, 1));
        for number in 0..40 {
            let datagram = exporter.data(5);
            if number % 4 != 2 {
                decoder.datagram(exporter.source, RECEIVED_MS, &datagram);
            }
        }
        let now_ms = RECEIVED_MS + wait_ms;
        decoder.expire(now_ms);
        exchange(&mut decoder, &mut spool, &mut taken);
        assert_eq!(decoder.statistics().sets_spooled > 0, wait_ms > 10_000);
        decoder.datagram(exporter.source, now_ms, &exporter.templates());
        exchange(&mut decoder, &mut spool, &mut taken);
        decoder.datagram(exporter.source, now_ms, &exporter.data(1));
        taken.all_of(&mut decoder);
        let lost = taken.count(Counter::RecordsLost) - taken.count(Counter::RecordsLate);
        assert_eq!((taken.flows.len(), lost), (30 * 5 + 1, 10 * 5), "on disk: {on_disk}, after {wait_ms} ms");
    }
}
