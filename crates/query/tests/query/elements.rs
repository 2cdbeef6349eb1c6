//! The column of elements: what is null, and what of it is read.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::elements::{ElementsColumn, elements_of_row};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_generate::TrafficModel;
use weir_query::{Archive, FlowQuery, Progress, QueryOptions, Select, TimeWindow};

const FLOWS: u64 = 100_000;
/// A flow of so many has elements.
const EVERY: usize = 20_000;

/// Flows of which a few have elements.
fn flows() -> Vec<FlowBatch> {
    let mut model = TrafficModel::new(3);
    (model.hosts, model.received) = (1 << 12, true);
    let mut flow = 0;
    let batches = model.flows(FLOWS).expect("a model").map(|batch| {
        let mut builder = FlowBatchBuilder::new(batch.rows());
        builder.begin_rows(batch.rows());
        for _ in 0..batch.rows() {
            let elements: &mut ElementsColumn = builder.elements();
            if flow % EVERY == 7 {
                elements.push(32473, 1, &(flow as u32).to_be_bytes());
            }
            elements.end_row();
            flow += 1;
        }
        let lists = builder.finish();
        let lists = lists.column(Column::Elements).expect("elements");
        let mut columns: Vec<(Column, ArrayRef)> = Column::ALL
            .iter()
            .filter(|column| **column != Column::Elements)
            .filter_map(|column| Some((*column, Arc::clone(batch.column(*column)?))))
            .collect();
        columns.push((Column::Elements, Arc::clone(lists)));
        columns.sort_by_key(|(column, _)| *column);
        FlowBatch::from_columns(batch.rows(), columns).expect("flows")
    });
    batches.collect()
}

fn ask(folder: &Path, filter: &str) -> (RecordBatch, Arc<Progress>) {
    let progress = Arc::new(Progress::default());
    let options = QueryOptions { progress: Arc::clone(&progress), ..QueryOptions::default() };
    let archive = Archive::open(folder, options).expect("the archive");
    let select = Select::List { columns: vec![Column::DstPort, Column::Elements], sorting: None, limit: None };
    let filter = weir_filter::parse(filter).expect("a filter");
    let question = FlowQuery { filter, window: TimeWindow::default(), select, scaled: false };
    let batches: Vec<RecordBatch> = archive.ask(&question).expect("asked").map(|batch| batch.expect("read")).collect();
    let schema = batches.first().expect("an answer").schema();
    (arrow::compute::concat_batches(&schema, &batches).expect("one batch"), progress)
}

/// Numbers of the flows that have elements.
fn numbers(lists: &ArrayRef) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..lists.len())
        .flat_map(|row| elements_of_row(lists, row))
        .map(|element| u32::from_be_bytes(element.octets.try_into().expect("four octets")))
        .collect();
    numbers.sort_unstable();
    numbers
}

fn check(is_sealed: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    let flows = flows();
    for batch in &flows {
        writer.append(Delivery::from(batch.clone())).expect("appended");
    }
    if is_sealed {
        writer.close().expect("sealed");
    }
    let (all, _) = ask(folder.path(), "any");
    let expected: Vec<u32> = (0..FLOWS as u32).filter(|flow| flow % EVERY as u32 == 7).collect();
    assert_eq!(numbers(all.column(1)), expected);
    assert_eq!(all.column(1).null_count() as u64, FLOWS - expected.len() as u64, "rows without elements are null");
    let filter = "dst port 22 and packets > 20";
    let predicate = weir_filter::parse(filter).expect("a filter");
    let passing: usize = flows.iter().map(|batch| predicate.mask(batch).true_count()).sum();
    let (needle, progress) = ask(folder.path(), filter);
    assert!(passing > 0 && passing < 1000, "{passing} flows");
    assert_eq!(needle.num_rows(), passing);
    if is_sealed {
        let read = progress.counts().rows_done;
        assert!(read < FLOWS / 4, "{read} rows were looked at");
    }
}

#[test]
fn a_needle_with_elements_reads_few_pages() {
    check(true);
}

#[test]
fn rows_of_the_tail_without_elements_are_null() {
    check(false);
}
