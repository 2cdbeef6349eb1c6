//! Questions about flows that one of two ways answers: which of them does must not be seen in the answer.

use std::path::Path;

use arrow::array::RecordBatch;
use weir_archive::{ArchiveOptions, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_query::{Archive, MemoryPool, QueryOptions};
use weir_sql::{
    AggregateKey, EngineOptions, FlowAnswer, FlowAnswers, FlowQuery, Measure, Order, QueryControl, Select, Sorting,
    TimeWindow,
};

use crate::rows::NEW_YEAR_MS;

/// Flows of 1000 octets each from hosts of their own, with what a bidirectional flow has besides.
fn flows(first: u32, count: u32) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(count as usize);
    for number in first..first + count {
        builder.begin_rows(1);
        builder.time(Column::Received).repeat(NEW_YEAR_MS + i64::from(number), 1);
        builder.address(Column::SrcAddr).push(Some(&(0x0a00_0000 + number / 2).to_be_bytes()));
        builder.u64(Column::Packets).push(Some(2));
        builder.u64(Column::Bytes).push(Some(1000));
        builder.u16(Column::TcpFlags).push(Some(1 << (number % 5)));
        builder.u64(Column::BytesReverse).push((number % 3 > 0).then_some(u64::from(number)));
        builder.u16(Column::TcpFlagsReverse).push((number % 4 > 1).then_some(0x10 << (number % 2)));
    }
    builder.finish()
}

fn append(writer: &mut Writer, flows: FlowBatch) {
    writer.append(Delivery::from(flows)).expect("appended");
}

fn answers(folder: &Path, memory_bytes: usize) -> FlowAnswers {
    let memory = MemoryPool::new(memory_bytes);
    let options = QueryOptions { threads: 2, memory, ..QueryOptions::default() };
    let archive = Archive::open(folder, options).expect("the archive");
    let engine = EngineOptions { threads: 2, ..EngineOptions::default() };
    FlowAnswers::new(archive, engine, QueryControl::default(), false)
}

fn question(select: Select, scaled: bool) -> FlowQuery {
    FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled }
}

/// Whether the engine answered, and the rows.
fn ask(answers: &FlowAnswers, question: &FlowQuery) -> (bool, Vec<RecordBatch>) {
    let answer = answers.ask(question).expect("asked");
    let is_of_engine = matches!(answer, FlowAnswer::Engine(_));
    (is_of_engine, answer.map(|batch| batch.expect("an answer")).collect())
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// What is appended between two questions, or while the engine starts, is in no answer of this snapshot.
#[test]
fn the_engine_answers_at_the_position_of_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, flows(0, 100));
    let answers = answers(folder.path(), 1 << 30);
    append(&mut writer, flows(100, 50));
    let list = |scaled| question(Select::List { columns: vec![Column::Bytes], sorting: None, limit: None }, scaled);
    let (direct, unscaled) = ask(&answers, &list(false));
    let (by_engine, scaled) = ask(&answers, &list(true));
    assert_eq!((direct, by_engine), (false, true));
    assert_eq!((rows(&unscaled), rows(&scaled)), (100, 100));
    let totals = [false, true].map(|scaled| answers.totals(&list(scaled)).expect("totals"));
    assert_eq!(totals.map(|totals| (totals.flows, totals.bytes)), [(100, 100_000); 2]);
    let sealed = writer.close();
    assert!(sealed.is_ok(), "{sealed:?}");
    let (_, after_sealing) = ask(&answers, &list(true));
    assert_eq!(rows(&after_sealing), 100);
}

#[test]
fn the_engine_has_every_measure() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, flows(0, 3000));
    let more = vec![
        Measure::Sum(Column::BytesReverse),
        Measure::Or(Column::TcpFlags),
        Measure::Or(Column::TcpFlagsReverse),
        Measure::Sum(Column::BytesReverse),
    ];
    let keys = vec![AggregateKey::parse("srcip").expect("a key")];
    let select = Select::Aggregate { keys, more, sorting: Some(Sorting::usual(Order::Start)), limit: None };
    let question = question(select, false);
    let (direct, expected) = ask(&answers(folder.path(), 1 << 30), &question);
    // groups that take more than an octet are left to the engine, which has an allowance of its own
    let (by_engine, found) = ask(&answers(folder.path(), 1), &question);
    assert_eq!((direct, by_engine), (false, true));
    assert_eq!(found[0].schema().fields(), expected[0].schema().fields());
    let lines = |batches: &[RecordBatch]| {
        use arrow::util::display::array_value_to_string as text;
        let cells = |batch: &RecordBatch, row| -> Vec<String> {
            batch.columns().iter().map(|values| text(values, row).expect("printable")).collect()
        };
        let mut lines: Vec<_> =
            batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| cells(batch, row).join(","))).collect();
        lines.sort();
        lines
    };
    let expected = lines(&expected);
    assert_eq!(lines(&found), expected);
    // of flows 2 and 3, by hand: packets, octets, and their reverse octets, of which flow 3 has none
    assert!(
        expected.iter().any(|line| line.starts_with("0a000001,2,4,2000,") && line.ends_with(",2,12,48,2")),
        "{}",
        expected[1]
    );
}
