//! Deliveries that can be told from their position, so that an archive can be checked without a record of what went in.

use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_archive::{Position, Snapshot};
use weir_flow::{BooksBatch, BooksRow, Column, Counter, Delivery, FlowBatchBuilder, SideTables, Table};

/// Shortly before midnight, so that segments have to be split by day.
const FIRST_MS: i64 = 1_763_683_200_000 - 200_000;

/// How often a test kills its child: `WEIR_ARCHIVE_KILLS` asks for more than what a test run has time for.
pub(crate) fn kills(default: u32) -> u32 {
    let asked = std::env::var("WEIR_ARCHIVE_KILLS").ok();
    asked.map_or(default, |kills| kills.parse().expect("WEIR_ARCHIVE_KILLS is a number"))
}

/// Flows in the deliveries up to this position: delivery P has 1 + P mod 7 of them.
pub(crate) fn rows_up_to(position: Position) -> u64 {
    let deliveries = position.get();
    let in_last_round: u64 = (0..deliveries % 7).map(|rest| rest + 2).sum();
    deliveries / 7 * 28 + in_last_round
}

/// The delivery of this position: flows numbered on from those before, and one row of the books that counts them.
pub(crate) fn delivery(position: Position) -> Delivery {
    let rows = 1 + position.get() % 7;
    let first = rows_up_to(position) - rows;
    let numbers = (0..rows as usize).map(|row| first + row as u64);
    let mut builder = FlowBatchBuilder::new(rows as usize);
    builder.begin_rows(rows as usize);
    builder.time(Column::Received).extend(numbers.clone().map(|number| FIRST_MS + number as i64 * 1000));
    builder.u64(Column::FlowId).extend(numbers.clone());
    let times = |ms: i64| numbers.clone().map(move |number| FIRST_MS + number as i64 * 1000 + ms);
    builder.time(Column::Start).extend(times(-700));
    builder.time(Column::End).extend(times(0));
    builder.u64(Column::Packets).extend(numbers.clone().map(|number| number + 1));
    builder.u64(Column::Bytes).extend(numbers.clone().map(|number| 100 * (number % 9)));
    if !position.get().is_multiple_of(3) {
        builder.address(Column::SrcAddr).extend_fixed(numbers.clone().map(|number| (number as u32 * 77).to_be_bytes()));
        builder.u16(Column::SrcPort).extend(numbers.map(|number| number as u16 % 5));
    }
    let mut counts = [0; Counter::COUNT];
    counts[Counter::RecordsStored as usize] = rows;
    let row = BooksRow {
        minute_ms: (FIRST_MS + first as i64 * 1000).div_euclid(60_000) * 60_000,
        exporter: None,
        observation_domain: None,
        export_version: None,
        counts,
    };
    let side_tables = SideTables { books: Some(BooksBatch::from_rows(&[row])), ..SideTables::default() };
    Delivery { flows: Some(builder.finish()), side_tables }
}

/// Every batch of a table, of segments and of the tail.
pub(crate) fn batches(snapshot: &Snapshot, table: Table) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for segment in snapshot.segments(table) {
        let read = segment.read().expect("a segment that can be read");
        assert_eq!(read.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), segment.rows);
        batches.extend(read);
    }
    batches.extend_from_slice(snapshot.tail(table));
    batches
}

pub(crate) fn numbers(batches: &[RecordBatch], column: &str) -> Vec<u64> {
    let columns = batches.iter().map(|batch| batch.column_by_name(column).expect("the column"));
    let numbers = columns.flat_map(|column| column.as_primitive::<UInt64Type>().values().to_vec());
    numbers.collect()
}

/// Asserts that a snapshot holds the deliveries up to its position: no row twice, none missing, none of a delivery that
/// is not whole; and that the books say the same.
pub(crate) fn check_snapshot(snapshot: &Snapshot) -> Position {
    let position = snapshot.position();
    let mut found = numbers(&batches(snapshot, Table::Flows), "flow_id");
    found.sort_unstable();
    let expected: Vec<u64> = (0..rows_up_to(position)).collect();
    assert_eq!(found.len(), expected.len(), "rows at position {position}");
    assert_eq!(found, expected, "rows at position {position}");
    let books = numbers(&batches(snapshot, Table::ExporterBooks), "records_stored");
    assert!(books.len() as u64 <= position.get(), "one row of the books per delivery at most");
    assert_eq!(books.iter().sum::<u64>(), found.len() as u64, "the books balance");
    position
}

/// Takes a snapshot and checks it.
pub(crate) fn check(dir: &Path) -> Position {
    check_snapshot(&Snapshot::open(dir).expect("a snapshot"))
}

#[test]
fn rows_are_counted_as_delivered() {
    let mut rows = 0;
    for number in 1..100 {
        let position = Position::new(number);
        rows += delivery(position).rows() as u64;
        assert_eq!(rows_up_to(position), rows);
    }
}

/// Takes the last commit of the manifest back, as if a crash had come before it.
pub(crate) fn take_back_commit(dir: &Path) {
    let edits = std::fs::read_dir(dir.join("manifest")).expect("a manifest");
    let edits = edits.map(|entry| entry.expect("an entry").path());
    let last = edits.filter(|path| path.extension().is_some_and(|end| end == "edit")).max().expect("an edit");
    std::fs::remove_file(last).expect("taken back");
}
