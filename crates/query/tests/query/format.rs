//! Answers about the archive of format 1 that is committed with the crate `weir-archive`: those of its day.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_filter::Predicate;
use weir_flow::Column;
use weir_query::{
    AggregateKey, Archive, Direction, FlowQuery, Order, QueryOptions, Select, Sorting, TimeWindow, WindowRule,
};

use crate::approximate::copy;
use crate::naive::texts;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../archive/tests/fixtures/format-1");
const DAY_MS: i64 = 86_400_000;
/// 2026-01-01T00:00:00Z.
const FIRST_DAY_MS: i64 = 1_767_225_600_000;

/// Flows, packets and bytes.
type Sums = [u64; 3];
/// By key.
type ByKey = BTreeMap<String, Sums>;

/// What some days have by one kind of key, by the program that wrote the archive.
fn expected(of: &str, days: impl IntoIterator<Item = i64>) -> ByKey {
    let text = fs::read_to_string(Path::new(FIXTURE).join("expected.tsv")).expect("numbers");
    let mut all = ByKey::new();
    for day in days {
        let name = format!("day {day} {of}");
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [found, key, sums @ ..] = &fields[..] else { continue };
            if *found != name {
                continue;
            }
            let sum = all.entry((*key).to_owned()).or_default();
            sum.iter_mut().zip(sums).for_each(|(sum, number)| *sum += number.parse::<u64>().expect("a number"));
        }
    }
    assert!(!all.is_empty());
    all
}

fn open(folder: &Path, approximate: bool, summaries: bool) -> Archive {
    Archive::open(folder, QueryOptions { approximate, summaries, threads: 2, ..QueryOptions::default() })
        .expect("opened")
}

/// The flows of each value of a column.
fn grouped(archive: &Archive, filter: &str, column: Column, window: TimeWindow) -> ByKey {
    let sorting = Some(Sorting { order: Order::Bytes, direction: Direction::Descending });
    let keys = vec![AggregateKey::Column(column)];
    let select = Select::Aggregate { keys, more: Vec::new(), sorting, limit: None };
    let filter = if filter.is_empty() { Predicate::True } else { weir_filter::parse(filter).expect("a filter") };
    let answer = archive.ask(&FlowQuery { filter, window, select, scaled: false }).expect("an answer");
    let batches = answer.collect::<Result<Vec<RecordBatch>, _>>().expect("batches");
    let mut all = ByKey::new();
    for batch in &batches {
        let sums = |row: usize| {
            ["flows", "packets", "bytes"]
                .map(|name| batch.column_by_name(name).expect("a column").as_primitive::<UInt64Type>().value(row))
        };
        for (row, text) in texts(batch).into_iter().enumerate() {
            assert!(all.insert(text[0].clone(), sums(row)).is_none(), "{text:?} twice");
        }
    }
    all
}

fn day(day: i64) -> TimeWindow {
    let from = FIRST_DAY_MS + (day - 1) * DAY_MS;
    TimeWindow { from_ms: Some(from), until_ms: Some(from + DAY_MS - 1), rule: WindowRule::Overlaps }
}

#[test]
fn questions_to_format_1_have_the_answers_of_its_day() {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&Path::new(FIXTURE).join("archive"), folder.path());
    let all = TimeWindow::default();
    for summaries in [true, false] {
        let archive = open(folder.path(), false, summaries);
        assert_eq!(grouped(&archive, "", Column::Protocol, all), expected("protocol", 2..=4));
        assert_eq!(grouped(&archive, "", Column::DstPort, all), expected("dst_port", 2..=4));
        for number in 2..=4 {
            assert_eq!(grouped(&archive, "", Column::DstPort, day(number)), expected("dst_port", [number]));
        }
        let ports = grouped(&archive, "dst port 443", Column::DstPort, all);
        assert_eq!(ports, expected("dst_port", 2..=4).into_iter().filter(|(port, _)| port == "443").collect());
        assert_eq!(ports.len(), 1, "the filter finds flows");
        assert_eq!(grouped(&archive, "", Column::DstPort, day(1)), ByKey::new());
        let [flows, packets, bytes] = expected("total", 2..=4)[""];
        let totals = archive.totals(&Predicate::True, &all).expect("totals");
        assert_eq!((totals.flows, totals.packets, totals.bytes), (flows, Some(packets), Some(bytes)));
    }
}

#[test]
fn expired_flows_of_format_1_count_by_their_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&Path::new(FIXTURE).join("archive"), folder.path());
    let (archive, all) = (open(folder.path(), true, true), TimeWindow::default());
    assert_eq!(archive.rows_expired(&all).expect("listed"), expected("total", [1])[""][0]);
    assert_eq!(grouped(&archive, "", Column::Protocol, all), expected("protocol", 1..=4));
    assert_eq!(grouped(&archive, "", Column::DstPort, day(1)), expected("dst_port", [1]));
    let [flows, packets, bytes] = expected("total", 1..=4)[""];
    let totals = archive.totals(&Predicate::True, &all).expect("totals");
    assert_eq!((totals.flows, totals.packets, totals.bytes), (flows, Some(packets), Some(bytes)));
    assert_eq!((totals.flows_error_max, totals.packets_error_max, totals.bytes_error_max), (0, 0, 0));
    let minutes = archive.minutes(&Predicate::True, &all).expect("minutes");
    let found: ByKey = minutes
        .iter()
        .map(|(minute, totals)| {
            let sums = [totals.flows, totals.packets.unwrap_or(0), totals.bytes.unwrap_or(0)];
            (minute.expect("all flows start").to_string(), sums)
        })
        .collect();
    assert_eq!(found, expected("minute", 1..=4));
}
