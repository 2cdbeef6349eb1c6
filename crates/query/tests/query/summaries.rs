//! Every question with summaries and without, over archives in which they settle some rankings and leave others open.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder, Table};
use weir_query::{
    AggregateKey, Archive, Direction, FlowQuery, Order, Progress, ProgressCounts, QueryOptions, Select, Sorting,
    StatisticKey, TimeWindow, WindowRule,
};

use crate::naive::{Text, texts};

/// Numbers from a seed (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Small numbers more often.
    fn skewed(&mut self, end: u64) -> u64 {
        let end = 1 + self.below(end);
        let end = 1 + self.below(end);
        self.below(end)
    }
}

pub(crate) const NOW_MS: i64 = 1_767_225_600_000;
/// Time that lies between the parts of an archive.
const PART_MS: i64 = 100_000;

/// Values of keys; few of them, or so many that heavy lists have a rest.
fn address(numbers: &mut Numbers, keys: u64) -> Option<Vec<u8>> {
    let number = numbers.skewed(keys);
    match number % 5 {
        4 if number > 20 => None,
        3 => Some([[0x20; 14].to_vec(), (number as u16).to_be_bytes().to_vec()].concat()),
        _ => Some([vec![10, 1], (number as u16).to_be_bytes().to_vec()].concat()),
    }
}

fn flows(numbers: &mut Numbers, part: i64, rows: usize, keys: u64, lacks_octets: bool) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows);
    let has_flows = numbers.below(3) == 0;
    for _ in 0..rows {
        let start = NOW_MS + part * PART_MS + numbers.below(PART_MS as u64 + 20_000) as i64;
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NOW_MS));
        builder.time(Column::Start).push(Some(start));
        builder.time(Column::End).push(Some(start + numbers.below(5000) as i64));
        builder.u64(Column::Packets).push(Some(numbers.skewed(5)));
        let octets = Some(numbers.skewed(30)).filter(|_| !lacks_octets || numbers.below(2) == 0);
        builder.u64(Column::Bytes).push(octets.map(|octets| octets * 100));
        if has_flows {
            builder.u64(Column::Flows).push(Some(1 + numbers.skewed(4)).filter(|flows| *flows > 1));
        }
        builder.address(Column::SrcAddr).push(address(numbers, keys).as_deref());
        builder.address(Column::DstAddr).push(address(numbers, keys / 2).as_deref());
        builder.address(Column::Exporter).push(Some(&[192, 0, 2, numbers.below(3) as u8]));
        builder.u16(Column::SrcPort).push(Some(numbers.skewed(keys) as u16));
        builder.u16(Column::DstPort).push(Some(numbers.skewed(4) as u16).filter(|port| *port != 2));
        builder.u8(Column::Protocol).push(Some(numbers.pick(&[6, 6, 17, 1])));
        builder.u32(Column::SrcAs).push(Some(numbers.skewed(keys) as u32));
        builder.u32(Column::InIf).push(Some(numbers.below(4) as u32));
    }
    builder.finish()
}

/// Which flows an archive has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// Parts that are not summed up have flows without octets.
    SomeUncounted,
    /// All flows have all counters.
    AllCounted,
}

/// An archive in parts: some were summed up, with few heavy keys or many, some were not, and the last is in the tail.
fn write(numbers: &mut Numbers, folder: &Path) -> Option<Writer> {
    write_flows(numbers, folder, Written::SomeUncounted)
}

pub(crate) fn write_flows(numbers: &mut Numbers, folder: &Path, written: Written) -> Option<Writer> {
    let keys = numbers.pick(&[30, 300, 3000]);
    let parts = 2 + numbers.below(4) as i64;
    for part in 0..parts {
        let heavy_keys_min = numbers.pick(&[2, 10, 60, 2048]);
        let is_summed_up = numbers.below(5) > 0;
        let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
        let options = ArchiveOptions {
            summaries_when_sealing: is_summed_up,
            heavy_keys_min,
            row_group_rows_max: 256,
            compaction,
            ..ArchiveOptions::default()
        };
        let (mut writer, _) = Writer::open(folder, options).expect("an archive");
        let rows = 50 + numbers.below(700) as usize;
        let lacks_octets = !is_summed_up && written == Written::SomeUncounted;
        let flows = flows(numbers, part, rows, keys, lacks_octets);
        writer.append(Delivery::from(flows)).expect("appended");
        if part + 1 == parts && numbers.below(2) == 0 {
            return Some(writer);
        }
        writer.close().expect("sealed");
    }
    None
}

pub(crate) fn window(numbers: &mut Numbers) -> TimeWindow {
    if numbers.below(2) == 0 {
        return TimeWindow::default();
    }
    let mut bound = || (numbers.below(3) > 0).then(|| NOW_MS - 1000 + numbers.below(5 * PART_MS as u64) as i64);
    let (mut from_ms, mut until_ms) = (bound(), bound());
    if from_ms.is_some() && until_ms.is_some() && from_ms > until_ms {
        std::mem::swap(&mut from_ms, &mut until_ms);
    }
    TimeWindow { from_ms, until_ms, rule: numbers.pick(&[WindowRule::Overlaps, WindowRule::Inside]) }
}

pub(crate) const KEYS: &[&str] = &[
    "srcip", "dstip", "ip", "srcip", "srcport", "dstport", "port", "proto", "srcas", "dstas", "as", "inif", "outif",
    "if", "router", "flags",
];

fn select(numbers: &mut Numbers) -> Select {
    const LEAN: [Order; 3] = [Order::Flows, Order::Packets, Order::Bytes];
    const OTHERS: [Order; 6] = [
        Order::PacketsPerSecond,
        Order::BitsPerSecond,
        Order::BytesPerPacket,
        Order::Start,
        Order::End,
        Order::Duration,
    ];
    let is_lean = numbers.below(3) > 0;
    let order = if is_lean { numbers.pick(&LEAN) } else { numbers.pick(&OTHERS) };
    let direction = if numbers.below(6) == 0 { Direction::Ascending } else { Direction::Descending };
    let sorting = Sorting { order, direction };
    let limit = numbers.pick(&[Some(1), Some(2), Some(3), Some(5), Some(10), Some(40), Some(0), None]);
    if numbers.below(4) == 0 {
        let column = numbers.pick(&[Column::SrcAddr, Column::DstPort, Column::DstAs, Column::Exporter]);
        let mut keys = vec![AggregateKey::Column(column)];
        if numbers.below(4) == 0 {
            keys.push(AggregateKey::Column(Column::Protocol));
        }
        return Select::Aggregate { keys, more: Vec::new(), sorting: Some(sorting), limit };
    }
    let key = StatisticKey::parse(numbers.pick(KEYS)).expect("a key");
    Select::Statistic { key, per_protocol: numbers.below(8) == 0, sorting, limit }
}

fn open(folder: &Path, summaries: bool) -> (Archive, Arc<Progress>) {
    let progress = Arc::new(Progress::default());
    let options = QueryOptions { threads: 2, summaries, progress: Arc::clone(&progress), ..QueryOptions::default() };
    (Archive::open(folder, options).expect("the archive"), progress)
}

fn ask(folder: &Path, question: &FlowQuery, summaries: bool) -> (Vec<Text>, ProgressCounts) {
    let (archive, progress) = open(folder, summaries);
    let batches: Vec<RecordBatch> = archive.ask(question).expect("asked").collect::<Result<_, _>>().expect("an answer");
    (batches.iter().flat_map(texts).collect(), progress.counts())
}

#[test]
fn answers_are_the_same_with_summaries_and_without() {
    // questions that summaries answered alone, with lookups, and not
    let (mut alone, mut looked_up, mut open) = (0, 0, 0);
    for seed in 0..24 {
        let folder = tempfile::tempdir().expect("a folder");
        let numbers = &mut Numbers(seed);
        let _writer = write(numbers, folder.path());
        for number in 0..60 {
            let (window, select) = (window(numbers), select(numbers));
            let is_ranking = matches!(&select, Select::Statistic { limit: Some(1..), .. });
            let question = FlowQuery { filter: Predicate::True, window, select, scaled: false };
            let (expected, without) = ask(folder.path(), &question, false);
            assert_eq!((without.segments_summed, without.rankings_open), (0, 0));
            let (found, seen) = ask(folder.path(), &question, true);
            assert_eq!(found, expected, "archive {seed}, question {number}: {question:?}");
            let is_settled = seen.segments_summed > 0 && seen.rankings_open == 0;
            open += u64::from(seen.rankings_open > 0);
            alone += u64::from(is_ranking && is_settled && seen.keys_looked_up == 0);
            looked_up += u64::from(is_ranking && is_settled && seen.keys_looked_up > 0);
        }
    }
    assert!(alone > 40 && looked_up > 40 && open > 40, "{alone} alone, {looked_up} looked up, {open} open");
}

/// Octets of a small segment are damaged one by one: an answer is right or there is none.
#[test]
fn damaged_summaries_are_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ArchiveOptions { summaries_when_sealing: true, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(folder.path(), options).expect("an archive");
    writer.append(Delivery::from(flows(&mut Numbers(1), 0, 120, 60, false))).expect("appended");
    writer.close().expect("sealed");
    let key = StatisticKey::parse("srcip").expect("a key");
    let sorting = Sorting::usual(Order::Bytes);
    let select = Select::Statistic { key, per_protocol: false, sorting, limit: Some(5) };
    let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
    let (expected, seen) = ask(folder.path(), &question, true);
    assert_eq!((seen.segments_summed, expected.len()), (1, 5));
    let path = open(folder.path(), true).0.snapshot().segments(Table::Flows)[0].path();
    let whole = std::fs::read(&path).expect("the segment");
    let mut passed_over = 0;
    for at in (0..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).expect("damaged");
        let (archive, progress) = open(folder.path(), true);
        let Ok(answer) = archive.ask(&question) else { continue };
        let Ok(batches) = answer.collect::<Result<Vec<RecordBatch>, _>>() else { continue };
        assert_eq!(batches.iter().flat_map(texts).collect::<Vec<_>>(), expected, "octet {at}");
        passed_over += progress.counts().summaries_damaged;
    }
    assert!(passed_over > 3, "{passed_over} times");
}

#[test]
fn totals_are_the_same_with_summaries_and_without() {
    let mut summed = 0;
    for seed in 100..112 {
        let folder = tempfile::tempdir().expect("a folder");
        let numbers = &mut Numbers(seed);
        let _writer = write(numbers, folder.path());
        for _ in 0..10 {
            let window = window(numbers);
            let told = |summaries| {
                let (archive, progress) = open(folder.path(), summaries);
                let totals = archive.totals(&Predicate::True, &window).expect("totals");
                let minutes = archive.minutes(&Predicate::True, &window).expect("minutes");
                assert_eq!(minutes.values().map(|minute| minute.flows).sum::<u64>(), totals.flows);
                (totals, minutes, progress.counts().segments_summed)
            };
            let (with, without) = (told(true), told(false));
            assert_eq!((with.0, &with.1), (without.0, &without.1), "archive {seed}, {window:?}");
            assert!(without.2 == 0);
            summed += with.2;
        }
    }
    assert!(summed > 20, "{summed} segments");
}
