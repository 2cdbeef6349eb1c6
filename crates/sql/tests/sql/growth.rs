//! What a filtered question reads grows with what it returns, not with what is kept: pages are counted, not time.

use std::path::Path;
use std::sync::Arc;

use weir_archive::{ArchiveOptions, CompactionOptions, Writer, compact};
use weir_flow::{Column, Delivery, FlowBatchBuilder};
use weir_query::{Archive, QueryOptions};
use weir_sql::{Engine, EngineOptions, FlowQuery, Progress, Select, Terms, TimeWindow};

use crate::mixed::Dice;
use crate::rows::NEW_YEAR_MS;

/// Rows of a page.
const PAGE_ROWS: u64 = 8192;
/// Flows that match each question, whatever else is kept.
const MATCHING: u64 = 6;
/// Rows of the smaller archive; the larger has four times as many.
const ROWS: u64 = 20 * PAGE_ROWS;

/// A filter of nfdump's language, and the same flows in SQL.
const QUESTIONS: &[(&str, &str)] = &[
    ("dst port 2222", "dst_port = 2222"),
    ("port 2222", "(src_port = 2222 OR dst_port = 2222)"),
    ("ip 203.0.113.7", "(src_addr = '203.0.113.7' OR dst_addr = '203.0.113.7')"),
    ("net 203.0.113.0/24", "(cidr(src_addr, '203.0.113.0/24') OR cidr(dst_addr, '203.0.113.0/24'))"),
    ("src as 64999", "src_as = 64999"),
    ("dst port 443 and src ip 198.18.0.9", "dst_port = 443 AND src_addr = '198.18.0.9'"),
];

/// A flow among many hosts; of some, evenly strewn over the archive, each matches one of the questions.
fn push(builder: &mut FlowBatchBuilder, dice: &mut Dice, row: u64, every: u64) {
    let question = (row % every == every / 2).then(|| row / every % 4);
    builder.begin_rows(1);
    builder.time(Column::Received).push(Some(NEW_YEAR_MS + row as i64));
    builder.time(Column::Start).push(Some(NEW_YEAR_MS + row as i64));
    builder.time(Column::End).push(Some(NEW_YEAR_MS + row as i64 + 5));
    builder.u8(Column::Protocol).push(Some(6));
    let client = [10, dice.below(50) as u8, dice.below(250) as u8, dice.below(250) as u8];
    let server = [192, 0, 2, dice.skewed(250) as u8];
    let client = match question {
        Some(1) => [203, 0, 113, 7],
        Some(3) => [198, 18, 0, 9],
        _ => client,
    };
    builder.address(Column::SrcAddr).push(Some(&client));
    builder.address(Column::DstAddr).push(Some(&server));
    builder.u16(Column::SrcPort).push(Some(20_000 + dice.below(40_000) as u16));
    let port = *dice.pick(&[443, 443, 53, 80, 25]);
    builder.u16(Column::DstPort).push(Some(match question {
        Some(0) => 2222,
        Some(3) => 443,
        _ => port,
    }));
    builder.u32(Column::SrcAs).push(Some(if question == Some(2) { 64999 } else { 64500 + dice.below(100) as u32 }));
    builder.u64(Column::Packets).push(Some(1));
    builder.u64(Column::Bytes).push(Some(100));
}

/// An archive of `rows` rows, merged.
fn archive(folder: &Path, rows: u64) {
    let options = ArchiveOptions {
        segment_rows_max: ROWS as usize,
        row_group_rows_max: 8 * PAGE_ROWS as usize,
        compaction: CompactionOptions { enabled: false, ..CompactionOptions::default() },
        ..ArchiveOptions::default()
    };
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut writer, _) = Writer::open(folder, options).expect("an archive");
    let every = rows / (4 * MATCHING);
    for first in (0..rows).step_by(PAGE_ROWS as usize) {
        let mut builder = FlowBatchBuilder::new(PAGE_ROWS as usize);
        (first..first + PAGE_ROWS).for_each(|row| push(&mut builder, &mut dice, row, every));
        writer.append(Delivery::from(builder.finish())).expect("appended");
    }
    writer.close().expect("sealed");
    compact(folder, &CompactionOptions::default(), |_| {}).expect("merged");
}

/// Rows of the answer of the executor, and pages that it read.
fn executor(folder: &Path, filter: &str) -> (u64, u64) {
    let progress = Arc::new(Progress::default());
    let options = QueryOptions { threads: 2, progress: Arc::clone(&progress), ..QueryOptions::default() };
    let archive = Archive::open(folder, options).expect("the archive");
    let select = Select::List { columns: vec![Column::Bytes], sorting: None, limit: None };
    let filter = weir_filter::parse(filter).expect("a filter");
    let question = FlowQuery { filter, window: TimeWindow::default(), select, scaled: false };
    let answer = archive.ask(&question).expect("asked");
    let rows: usize = answer.map(|batch| batch.expect("an answer").num_rows()).sum();
    (rows as u64, progress.counts().rows_done.div_ceil(PAGE_ROWS))
}

/// The same of the engine.
fn engine(folder: &Path, condition: &str) -> (u64, u64) {
    let options = EngineOptions { threads: 2, ..EngineOptions::default() };
    let engine = Engine::open(folder, &options).expect("an engine");
    let terms = Terms::default();
    let answer = engine.sql_on(&format!("SELECT bytes FROM flows WHERE {condition}"), &terms).expect("asked");
    let rows: usize = answer.map(|batch| batch.expect("an answer").num_rows()).sum();
    let seen = terms.progress.counts();
    (rows as u64, seen.pages_all - seen.pages_pruned)
}

#[test]
fn pages_read_grow_with_the_answer_and_not_with_the_archive() {
    let folders = [1, 4].map(|times| {
        let folder = tempfile::tempdir().expect("a folder");
        archive(folder.path(), times * ROWS);
        folder
    });
    for (filter, condition) in QUESTIONS {
        let [(small, small_sql), (large, large_sql)] =
            [0, 1].map(|which| (executor(folders[which].path(), filter), engine(folders[which].path(), condition)));
        println!("{filter}: {small:?} then {large:?}; in SQL {small_sql:?} then {large_sql:?}");
        for (rows, pages) in [small, large, small_sql, large_sql] {
            assert_eq!(rows, MATCHING, "{filter}");
            assert!((1..=MATCHING).contains(&pages), "{filter}: {pages} pages for {rows} rows");
        }
    }
}
