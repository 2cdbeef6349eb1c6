//! Where rows come says nothing about addresses that are replaced: segments have them by addresses as they are kept.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use weir_archive::{ArchiveHandle, HandleOptions, Snapshot};
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder, Table};
use weir_query::{Archive, QueryOptions};
use weir_sql::output::{Format, OutputOptions};
use weir_sql::{Engine, EngineOptions, FlowAnswers, FlowQuery, FlowView, Pseudonyms, QueryControl, Select, TimeWindow};

use crate::rows::{NEW_YEAR_MS, lines, write_archive};

/// Four pages.
const SEGMENT_ROWS: u64 = 32_768;
const SEGMENTS: u64 = 5;
const ROWS: u64 = SEGMENTS * SEGMENT_ROWS;
const LIMIT: usize = 5000;

/// Source and destination of a flow: the finaliser of `SplitMix64`, so that no order of numbers is one of addresses.
fn addresses(flow: u64) -> [[u8; 4]; 2] {
    let mixed = (flow + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let octets = (mixed ^ (mixed >> 31)).to_be_bytes();
    [[octets[0], octets[1], octets[2], octets[3]], [octets[4], octets[5], octets[6], octets[7]]]
}

/// Flows that arrive in no order of addresses. Each has its number as its octets, and three times that as its packets.
fn flows(segment: u64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(SEGMENT_ROWS as usize);
    builder.begin_rows(SEGMENT_ROWS as usize);
    for flow in segment * SEGMENT_ROWS..(segment + 1) * SEGMENT_ROWS {
        let [source, destination] = addresses(flow);
        builder.time(Column::Received).push(Some(NEW_YEAR_MS + flow as i64));
        builder.address(Column::SrcAddr).push(Some(&source));
        builder.address(Column::DstAddr).push(Some(&destination));
        builder.u16(Column::SrcPort).push(Some(50_000));
        builder.u16(Column::DstPort).push(Some(443));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u64(Column::Packets).push(Some(3 * flow));
        builder.u64(Column::Bytes).push(Some(flow));
    }
    builder.finish()
}

fn archive(folder: &Path) {
    drop(write_archive(folder, &(0..SEGMENTS).map(flows).collect::<Vec<_>>(), &[]));
    let snapshot = Snapshot::open(folder).expect("a snapshot");
    let segments: Vec<u64> = snapshot.segments(Table::Flows).iter().map(|segment| segment.rows).collect();
    assert_eq!(segments, [SEGMENT_ROWS; SEGMENTS as usize]);
}

fn options(folder: &Path, threads: usize, is_masked: bool) -> EngineOptions {
    let key = folder.join("key");
    std::fs::write(&key, [7_u8; 32]).expect("written");
    let pseudonyms = is_masked.then(|| Arc::new(Pseudonyms::read(&key).expect("a key")));
    EngineOptions { threads, view: FlowView { pseudonyms, ..FlowView::default() }, ..EngineOptions::default() }
}

/// The first field of each line, which is the number of a flow.
fn numbers(lines: &[String]) -> Vec<u64> {
    let first = lines.iter().filter_map(|line| line.split(',').next());
    first.map(|number| number.parse().expect("a number")).collect()
}

/// What part of neighbours have the networks of their sources in rising order, as they are kept.
fn rising(flows: &[u64]) -> f64 {
    let network = |flow: u64| [addresses(flow)[0][0], addresses(flow)[0][1]];
    let pairs = flows.windows(2).map(|pair| (network(pair[0]), network(pair[1])));
    let differing: Vec<_> = pairs.filter(|(first, second)| first != second).collect();
    assert!(differing.len() > LIMIT / 2);
    differing.iter().filter(|(first, second)| first < second).count() as f64 / differing.len() as f64
}

/// What part of neighbours are likely to be of one page: halves of a segment are by destination, and quarters by source.
fn of_one_quarter(flows: &[u64]) -> f64 {
    let quarter = |flow: u64| addresses(flow).map(|address| address[0] >> 7);
    let same = flows.windows(2).filter(|pair| quarter(pair[0]) == quarter(pair[1]));
    same.count() as f64 / (flows.len() - 1) as f64
}

#[track_caller]
fn check_hidden(flows: &[u64], what: &str) {
    let rising = rising(flows);
    assert!((0.45..0.55).contains(&rising), "{what}: {rising} are in rising order");
}

fn statements() -> [String; 5] {
    [
        "SELECT bytes, src_addr, dst_addr FROM flows".to_owned(),
        "SELECT bytes, count(*) FROM flows GROUP BY bytes".to_owned(),
        "SELECT bytes FROM (SELECT bytes, row_number() OVER () AS place FROM flows) ORDER BY place".to_owned(),
        format!("SELECT bytes FROM flows LIMIT {LIMIT}"),
        format!("SELECT bytes FROM flows WHERE dst_port = 443 LIMIT {LIMIT} OFFSET 100"),
    ]
}

#[test]
fn order_of_rows_tells_nothing_about_replaced_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = folder.path().join("archive");
    archive(&flows);
    let asked = |statement: &str, threads: usize, is_masked: bool| {
        let engine = Engine::open(&flows, &options(folder.path(), threads, is_masked)).expect("an engine");
        numbers(&lines(engine.sql(statement)).expect(statement))
    };
    for statement in statements() {
        // what there is to be hidden
        let kept = asked(&statement, 1, false);
        let (rising, together) = (rising(&kept), of_one_quarter(&kept));
        assert!(rising > 0.9 && together > 0.9, "{statement}: {rising}, {together}");
        for threads in [1, 3] {
            let mut found = asked(&statement, threads, true);
            check_hidden(&found, &statement);
            // one thread has all pages: more of them have more quarters
            let together = of_one_quarter(&found);
            assert!(threads > 1 || together < 0.5, "{statement}: {together} follow one of their quarter");
            found.sort_unstable();
            if statement.contains("LIMIT") {
                found.dedup();
                assert_eq!(found.len(), LIMIT, "{statement}");
            } else {
                assert!(found.iter().copied().eq(0..ROWS), "{statement}: {} rows", found.len());
            }
        }
    }
    // rows that are sorted alike
    check_hidden(&asked("SELECT bytes FROM flows ORDER BY dst_port", 3, true), "ties");
    assert_eq!(asked("SELECT count(*) FROM flows WHERE dst_port = 443", 3, true), [ROWS]);
}

#[test]
fn mixed_rows_are_those_that_were_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = folder.path().join("archive");
    archive(&flows);
    // also where there is hardly memory for it
    for memory_octets_max in [2 << 30, 8 << 20] {
        let options = EngineOptions { memory_octets_max, ..options(folder.path(), 2, true) };
        let engine = Engine::open(&flows, &options).expect("an engine");
        let text = lines(engine.sql("SELECT bytes, packets, src_addr, server_name FROM flows")).expect("an answer");
        let mut rows: Vec<(u64, u32)> = text
            .iter()
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let number = |at: usize| fields[at].parse::<u64>().expect("a number");
                assert_eq!((number(1), fields[3]), (3 * number(0), ""), "{line}");
                (number(0), fields[2].parse::<Ipv4Addr>().expect("an address").into())
            })
            .collect();
        check_hidden(&rows.iter().map(|(flow, _)| *flow).collect::<Vec<_>>(), "with little memory");
        rows.sort_unstable();
        assert!(rows.iter().map(|(flow, _)| *flow).eq(0..ROWS));
        // images share as long prefixes as the addresses that they are of
        for pair in rows.windows(2) {
            let kept = |flow: u64| u32::from_be_bytes(addresses(flow)[0]);
            let of_kept = kept(pair[0].0) ^ kept(pair[1].0);
            assert_eq!((pair[0].1 ^ pair[1].1).leading_zeros(), of_kept.leading_zeros(), "{pair:?}");
        }
    }
}

#[test]
fn lists_that_are_written_tell_nothing_about_replaced_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = folder.path().join("archive");
    archive(&flows);
    let written = |is_masked: bool, limit: Option<usize>| {
        let handle = ArchiveHandle::open(&flows, &HandleOptions::default()).expect("an archive");
        let archive = Archive::over(Arc::new(handle.snapshot().expect("a snapshot")), QueryOptions::default());
        let options = options(folder.path(), 2, is_masked);
        let answers = FlowAnswers::new(archive, options, QueryControl::default(), false);
        let select = Select::List { columns: vec![Column::Bytes, Column::SrcAddr], sorting: None, limit };
        let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
        let (mut text, output) = (Vec::new(), OutputOptions { header: false, ..OutputOptions::default() });
        answers.write(&question, Format::Csv, &output, &mut text).expect("an answer");
        let text = String::from_utf8(text).expect("text");
        numbers(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    assert!(rising(&written(false, None)) > 0.9);
    for (limit, rows) in [(None, ROWS as usize), (Some(LIMIT), LIMIT)] {
        let found = written(true, limit);
        assert_eq!(found.len(), rows);
        check_hidden(&found, "a list");
    }
}
