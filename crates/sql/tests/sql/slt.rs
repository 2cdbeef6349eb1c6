//! Questions and their answers in text files, worked out by hand.
//!
//! A record is a kind, a question, `----` and what is expected, up to a blank line. Kinds: `query` (SQL; rows in their
//! order), `rowsort` (SQL; rows sorted as text), `filter` (an nfdump filter; `bytes` of the flows that pass,
//! ascending), `error` (SQL; the whole text of the error).

use std::path::Path;

use weir_flow::Column;
use weir_sql::{Engine, EngineError, FlowQuery, Select, TimeWindow};

use crate::rows::{lines, small_engine};

struct Record {
    line: usize,
    kind: String,
    question: String,
    expected: Vec<String>,
}

fn records(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).peekable();
    while let Some((line, kind)) = rest.next() {
        if kind.is_empty() {
            continue;
        }
        let question: Vec<_> = rest.by_ref().map(|(_, line)| line).take_while(|line| *line != "----").collect();
        let expected = rest.by_ref().map(|(_, line)| line.to_owned()).take_while(|line| !line.is_empty()).collect();
        records.push(Record { line: line + 1, kind: kind.to_owned(), question: question.join("\n"), expected });
    }
    records
}

fn passing(engine: &Engine, filter: &str) -> Result<Vec<String>, EngineError> {
    let filter = weir_filter::parse(filter).expect("a filter");
    let select = Select::List { columns: vec![Column::Bytes], sorting: None, limit: None };
    let mut found = lines(engine.ask(&FlowQuery { filter, window: TimeWindow::default(), select, scaled: false }))?;
    found.sort_by_key(|bytes| bytes.parse::<u64>().expect("a number"));
    Ok(found)
}

fn answer(engine: &Engine, record: &Record) -> Vec<String> {
    let found = match record.kind.as_str() {
        "query" | "error" => lines(engine.sql(&record.question)),
        "rowsort" => lines(engine.sql(&record.question)).map(|mut lines| {
            lines.sort();
            lines
        }),
        "filter" => passing(engine, &record.question),
        other => panic!("line {}: no kind of record is '{other}'", record.line),
    };
    match (found, record.kind == "error") {
        (Ok(lines), false) => lines,
        (Err(error), true) => error.to_string().lines().map(str::to_owned).collect(),
        (Ok(lines), true) => vec![format!("an answer, not an error: {lines:?}")],
        (Err(error), false) => vec![format!("an error, not an answer: {error} {error:?}")],
    }
}

#[test]
fn questions_have_the_answers_worked_out_by_hand() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    let mut failures = String::new();
    let mut count = 0;
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt")).expect("the files");
    for file in files {
        let path = file.expect("a file").path();
        for record in records(&std::fs::read_to_string(&path).expect("text")) {
            count += 1;
            let found = answer(&engine, &record);
            if found != record.expected {
                let name = path.file_name().expect("a name").display();
                let (question, line) = (&record.question, record.line);
                let (expected, found) = (record.expected.join("\n  "), found.join("\n  "));
                let failure = format!("{name}:{line}: {question}\n expected\n  {expected}\n found\n  {found}\n");
                failures.push_str(&failure);
            }
        }
    }
    assert!(count > 50, "only {count} records were read");
    assert!(failures.is_empty(), "{failures}");
}
