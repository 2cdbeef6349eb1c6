//! States of threads against the list of the same flows.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt16Type, UInt64Type};
use weir_query::{Admission, Archive, FlowQuery, MemoryPool, QueryError, QueryOptions, Select, TimeWindow};

use crate::sample::{archive, question};

type Row = (Option<i64>, Option<u16>, Option<u64>);

/// The rows of a batch by names of columns: batches of a list and of states have them in different orders.
fn rows(batch: &RecordBatch) -> Vec<Row> {
    let column = |name: &str| batch.column_by_name(name);
    let starts = column("start").map(AsArray::as_primitive::<TimestampMillisecondType>);
    let ports = column("dst_port").map(AsArray::as_primitive::<UInt16Type>);
    let bytes = column("bytes").map(AsArray::as_primitive::<UInt64Type>);
    let row = |row: usize| {
        let start = starts.filter(|values| values.is_valid(row)).map(|values| values.value(row));
        let port = ports.filter(|values| values.is_valid(row)).map(|values| values.value(row));
        (start, port, bytes.filter(|values| values.is_valid(row)).map(|values| values.value(row)))
    };
    (0..batch.num_rows()).map(row).collect()
}

fn folded(archive: &Archive, question: &FlowQuery) -> Vec<Vec<Row>> {
    let add = |state: &mut Vec<Row>, batch: &RecordBatch| {
        state.extend(rows(batch));
        Ok(ControlFlow::Continue(()))
    };
    archive.fold(question, 0, Vec::new, add).expect("read").expect("nothing broke off")
}

#[test]
fn each_flow_of_segments_and_tail_is_given_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let all: Vec<Row> = folded(&archive, &question("any")).concat();
    assert_eq!(all.len() as u64, archive.snapshot().flows());
    let starts: Vec<i64> = all.iter().filter_map(|row| row.0).collect();
    let (first, last) = starts.iter().min().zip(starts.iter().max()).expect("some times");
    let (from_ms, until_ms) = (Some(first + (last - first) / 3), Some(last - (last - first) / 3));
    for window in [TimeWindow::default(), TimeWindow { from_ms, until_ms, ..TimeWindow::default() }] {
        for filter in ["any", "dst port 22", "bytes > 10k", "src port 1 and dst port 1"] {
            let question = FlowQuery { window, ..question(filter) };
            let listed: Vec<RecordBatch> = archive.ask(&question).and_then(Iterator::collect).expect("a list");
            let mut expected: Vec<Row> = listed.iter().flat_map(rows).collect();
            let states = folded(&archive, &question);
            assert_eq!(states.len(), 2, "one for each thread");
            let mut found = states.concat();
            expected.sort_unstable();
            found.sort_unstable();
            assert!(found == expected, "{filter}, {window:?}: {} of {} flows", found.len(), expected.len());
        }
    }
}

#[test]
fn what_breaks_off_ends_all_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let given = AtomicUsize::new(0);
    let add = |(): &mut (), _: &RecordBatch| {
        given.fetch_add(1, Ordering::Relaxed);
        Ok(ControlFlow::Break(()))
    };
    assert!(archive.fold(&question("any"), 0, || (), add).expect("no error").is_none());
    // each of two threads got one batch at most
    assert!((1..=2).contains(&given.into_inner()));
}

#[test]
fn what_fails_ends_all_threads_with_its_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let given = AtomicUsize::new(0);
    let add = |(): &mut (), _: &RecordBatch| -> Result<ControlFlow<()>, QueryError> {
        given.fetch_add(1, Ordering::Relaxed);
        Err(QueryError::NotApproximate("this batch"))
    };
    let failed = archive.fold(&question("any"), 0, || (), add);
    assert!(matches!(failed, Err(QueryError::NotApproximate("this batch"))), "{failed:?}");
    assert!((1..=2).contains(&given.into_inner()));
}

#[test]
fn a_question_that_is_stopped_is_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let options = QueryOptions { threads: 2, admission: Some(Admission::new(1)), ..QueryOptions::default() };
    let (progress, admission) = (Arc::clone(&options.progress), options.admission.clone().expect("turns"));
    let archive = Archive::over(Arc::clone(archive.snapshot()), options);
    let add = |(): &mut (), _: &RecordBatch| {
        assert_eq!(admission.counts(), (1, 0), "it has the turn while it reads");
        progress.stop();
        Ok(ControlFlow::Continue(()))
    };
    let stopped = archive.fold(&question("any"), 0, || (), add);
    assert!(matches!(stopped, Err(QueryError::Cancelled)), "{stopped:?}");
    assert_eq!(admission.counts(), (0, 0));
    // and so is one that breaks off because of it
    let options = QueryOptions { threads: 2, ..QueryOptions::default() };
    let progress = Arc::clone(&options.progress);
    let archive = Archive::over(Arc::clone(archive.snapshot()), options);
    let broken = AtomicUsize::new(0);
    let break_off = |(): &mut (), _: &RecordBatch| {
        broken.fetch_add(1, Ordering::Relaxed);
        progress.stop();
        Ok(ControlFlow::Break(()))
    };
    let stopped = archive.fold(&question("any"), 0, || (), break_off);
    assert!(matches!(stopped, Err(QueryError::Cancelled)), "{stopped:?}");
    assert!(broken.into_inner() > 0);
}

#[test]
fn threads_have_room_for_their_states() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let of_memory = |limit_bytes: usize| {
        let memory = MemoryPool::new(limit_bytes);
        let options = QueryOptions { threads: 4, memory: memory.clone(), ..QueryOptions::default() };
        let archive = Archive::over(Arc::clone(archive.snapshot()), options);
        let held = AtomicUsize::new(0);
        let add = |(): &mut (), _: &RecordBatch| {
            held.fetch_max(memory.used_bytes(), Ordering::Relaxed);
            Ok(ControlFlow::Continue(()))
        };
        let states = archive.fold(&question("any"), 1 << 30, || (), add).expect("read").expect("nothing broke off");
        assert!(held.into_inner() >= states.len() << 30, "what states take is counted");
        assert_eq!(memory.used_bytes(), 0);
        states.len()
    };
    assert_eq!(of_memory(8 << 30), 4);
    assert_eq!(of_memory(5 << 29), 2);
    // one reads in any case
    assert_eq!(of_memory(1 << 29), 1);
}

#[test]
fn only_lists_are_given_to_states() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let refused = |archive: &Archive, question: &FlowQuery| {
        archive.fold(question, 0, || (), |(), _| Ok(ControlFlow::Continue(()))).expect_err("refused")
    };
    let select = Select::List { columns: Vec::new(), sorting: None, limit: Some(1) };
    let limited = FlowQuery { select, ..question("any") };
    assert!(matches!(refused(&archive, &limited), QueryError::NeedsEngine(_)));
    let scaled = FlowQuery { scaled: true, ..question("any") };
    assert!(matches!(refused(&archive, &scaled), QueryError::NeedsEngine(_)));
    let options = QueryOptions { approximate: true, ..QueryOptions::default() };
    let approximate = Archive::over(Arc::clone(archive.snapshot()), options);
    assert!(matches!(refused(&approximate, &question("any")), QueryError::NotApproximate(_)));
}
