//! Answers do not depend on threads, on the size of batches, or on how many watches run at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::RecordBatch;
use serde_json::{Map, Value};
use weir_sql::EngineOptions;
use weir_sql::output::{Format, OutputOptions};
use weir_watch::{Message, Runner, RunnerOptions, WatchFile};

use crate::oracle::{CASES, Case, SLIDING, filled};
use crate::scene::{Flow, NEW_YEAR_MS, Random, archive, batch, lines, plain_batches, traffic, watch};

/// The cases whose windows are of the time received and begin at whole slides, and whose columns in plain SQL have names
/// that differ.
const ASKED: [usize; 4] = [0, 1, 4, 5];
/// Of those that slide: one that has a row also where no flow is wanted, one whose estimate depends on the order of rows.
const LEFT_OUT: [&str; 2] = ["SELECT count(*) AS n, sum(packets)", "SELECT src_addr, approx_median"];

/// The case that a number stands for, and its statement.
fn case(random: &mut Random) -> (String, Case) {
    let sliding: Vec<_> =
        SLIDING.iter().filter(|(standing, ..)| !LEFT_OUT.iter().any(|begin| standing.starts_with(begin))).collect();
    assert_eq!(sliding.len(), SLIDING.len() - LEFT_OUT.len());
    let number = random.below((ASKED.len() + sliding.len()) as u64) as usize;
    if let Some(number) = ASKED.get(number) {
        let Case { standing, size_ms, slide_ms, time, plain } = CASES[*number];
        assert_eq!(time, "received", "{standing}");
        return (standing.to_owned(), Case { standing, size_ms, slide_ms, time, plain });
    }
    let (standing, plain, _) = *sliding[number - ASKED.len()];
    let slide = 4 + random.below(5) as i64;
    let size = slide * (1 + random.below(5) as i64);
    let window = format!("HOP(flows, received, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)");
    let case = Case { standing, size_ms: size * 1_000, slide_ms: slide * 1_000, time: "received", plain };
    (standing.replace("{w}", &window), case)
}

/// The ends of the windows that have a flow.
fn ends(case: &Case, flows: &[Flow]) -> BTreeSet<i64> {
    let of_flow = |flow: &Flow| {
        let first = flow.received_ms.div_euclid(case.slide_ms) * case.slide_ms + case.slide_ms;
        (0..case.size_ms / case.slide_ms).map(move |slides| first + slides * case.slide_ms)
    };
    flows.iter().flat_map(of_flow).collect()
}

/// The values of rows in the order of their columns, sorted.
fn values(columns: &[String], rows: &[Map<String, Value>]) -> Vec<String> {
    let of_row = |row: &Map<String, Value>| {
        let values = columns.iter().map(|name| row.get(name).cloned().unwrap_or_default());
        Value::from(values.collect::<Vec<_>>()).to_string()
    };
    let mut found: Vec<String> = rows.iter().map(of_row).collect();
    found.sort();
    found
}

/// The same of batches.
fn batch_values(batches: &[RecordBatch]) -> Vec<String> {
    let Some(first) = batches.first() else { return Vec::new() };
    let columns: Vec<String> = first.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(columns.iter().collect::<BTreeSet<_>>().len(), columns.len(), "{columns:?}");
    let mut text = Vec::new();
    let rows = batches.iter().cloned().map(Ok::<_, std::convert::Infallible>);
    weir_print::write_batches(rows, &first.schema(), Format::Ndjson, &OutputOptions::default(), &mut text)
        .expect("text");
    let text = String::from_utf8(text).expect("text");
    let rows: Vec<Map<String, Value>> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    values(&columns, &rows)
}

/// What watches report of flows that are handed over in parts, at most so many statements at a time.
fn reported(
    folder: &Path,
    flows: &[Flow],
    files: &[WatchFile],
    statements_at_once: usize,
    random: &mut Random,
) -> BTreeMap<(String, i64), Vec<String>> {
    let journal = tempfile::tempdir().expect("a folder");
    let options =
        RunnerOptions { journal: Some(journal.path().to_owned()), statements_at_once, ..RunnerOptions::new(folder) };
    let (mut runner, feed) = Runner::start_fed(&options, Some(folder), 1_000, true).expect("a runner");
    for file in files {
        runner.add(file.clone()).expect("a watch");
    }
    runner.wait_joined();
    let mut rest = flows;
    while !rest.is_empty() {
        let (part, left) = rest.split_at(rest.len().min(1 + random.below(200) as usize));
        assert!(feed.send(batch(part).record_batch()));
        rest = left;
    }
    drop(feed);
    let mut found = BTreeMap::new();
    let ended = runner.finish(|message| match message {
        Message::Report(report) => {
            let rows = values(&report.columns, &report.evidence);
            assert_eq!(rows.len() as u64, report.rows, "all rows are evidence");
            let before = found.insert((report.watch.clone(), report.window.end_ms), rows);
            assert!(before.is_none(), "{} is reported twice", report.id);
        }
        Message::Notice(text) => panic!("{text}"),
    });
    ended.expect("no error");
    found
}

/// Watches take turns, each in a thread of its own, one statement at a time or all at once.
#[test]
fn watches_that_run_at_once_report_what_plain_sql_of_one_thread_answers() {
    let one_thread = EngineOptions { threads: 1, ..EngineOptions::default() };
    for seed in 0..4 {
        let mut random = Random::new(seed + 21_000);
        let folder = tempfile::tempdir().expect("a folder");
        let flows = traffic(seed + 400, 1_500, NEW_YEAR_MS - 40_000, 90_000);
        archive(folder.path(), &flows);
        let cases: Vec<_> = (0..5).map(|_| case(&mut random)).collect();
        let mut expected = BTreeMap::new();
        let mut files = Vec::new();
        for (number, (standing, case)) in cases.iter().enumerate() {
            let name = format!("case-{number}");
            for end_ms in ends(case, &flows) {
                let rows = batch_values(&plain_batches(folder.path(), &filled(case, end_ms), &one_thread));
                if !rows.is_empty() {
                    expected.insert((name.clone(), end_ms), rows);
                }
            }
            files.push(watch(&name, standing, "repeat_after = '0s'\nevidence_rows_max = 10_000"));
        }
        assert!(expected.len() > 20, "{}", expected.len());
        for statements_at_once in [1, 8] {
            let mut found = reported(folder.path(), &flows, &files, statements_at_once, &mut random);
            for ((name, end_ms), rows) in &expected {
                let number: usize = name.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a number");
                let answer = found.remove(&(name.clone(), *end_ms));
                let statement = &cases[number].0;
                assert_eq!(answer.as_ref(), Some(rows), "{statements_at_once} at once, until {end_ms}: {statement}");
            }
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

/// What the other tests compare with is the same however it is computed.
#[test]
fn plain_sql_answers_alike_with_any_number_of_threads_and_rows_of_a_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &traffic(17, 3_000, NEW_YEAR_MS - 40_000, 90_000));
    let mut random = Random::new(31_000);
    for _ in 0..40 {
        let (_, case) = case(&mut random);
        let end_ms = NEW_YEAR_MS - 30_000 + random.below(80_000) as i64;
        let statement = filled(&case, end_ms);
        let answer = |threads, batch_rows| {
            let options = EngineOptions { threads, batch_rows, ..EngineOptions::default() };
            lines(&plain_batches(folder.path(), &statement, &options))
        };
        let expected = answer(1, 8_192);
        for (threads, batch_rows) in [(2, 8_192), (5, 64), (8, 1_000)] {
            assert_eq!(answer(threads, batch_rows), expected, "{threads} threads, {batch_rows} rows: {statement}");
        }
    }
}
