//! What readers find in an archive.

use std::path::Path;

use arrow::array::RecordBatch;
use weir_archive::{Position, Snapshot};
use weir_filter::Predicate;
use weir_flow::{Column, Table};
use weir_query::{
    AggregateKey, Archive, FlowQuery, Order, QueryOptions, Select, Sorting, StatisticKey, TimeWindow, Totals,
    WindowRule,
};

/// What one way of reading found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    Rows(Vec<RecordBatch>),
    Totals(Totals),
    /// Position, rows by table or counters of the books, flows that have expired or are set aside.
    Counts(Position, Vec<u64>, [u64; 2]),
}

/// An answer, or the error with its causes.
pub(crate) type Outcome = Result<Found, String>;

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The column of a flow that the tests list, with what was written.
pub(crate) const LISTED: [Column; 5] =
    [Column::Start, Column::SrcAddr, Column::DstPort, Column::Bytes, Column::Received];

/// Questions of every kind; `host` occurs in some flows.
pub(crate) fn questions(host: &str, day_ms: i64) -> Vec<FlowQuery> {
    let all = TimeWindow::default();
    let window = TimeWindow { from_ms: Some(day_ms), until_ms: Some(day_ms + 86_399_999), rule: WindowRule::Overlaps };
    let list = |sorting, limit| Select::List { columns: LISTED.to_vec(), sorting, limit };
    let statistic = |name: &str, limit| Select::Statistic {
        key: StatisticKey::parse(name).expect("a key"),
        per_protocol: false,
        sorting: Sorting::usual(Order::Bytes),
        limit,
    };
    let aggregate = |keys: &[Column]| Select::Aggregate {
        keys: keys.iter().copied().map(AggregateKey::Column).collect(),
        more: Vec::new(),
        sorting: Some(Sorting::usual(Order::Bytes)),
        limit: None,
    };
    let host = format!("host {host}");
    [
        ("any", all, list(None, None)),
        (&host, all, list(None, None)),
        ("dst port 443", all, list(Some(Sorting::usual(Order::Bytes)), Some(20))),
        ("any", window, statistic("srcip", Some(5))),
        ("any", all, statistic("dstport", Some(10))),
        (&host, window, statistic("ip", None)),
        ("proto tcp", all, aggregate(&[Column::Protocol, Column::DstPort])),
    ]
    .into_iter()
    .map(|(filter, window, select)| {
        let filter = if filter == "any" { Predicate::True } else { weir_filter::parse(filter).expect("a filter") };
        FlowQuery { filter, window, select, scaled: false }
    })
    .collect()
}

/// Reads everything that readers read, in every way.
pub(crate) fn read(dir: &Path, questions: &[FlowQuery]) -> Vec<Outcome> {
    let mut found = match Snapshot::open(dir) {
        Ok(snapshot) => of_snapshot(&snapshot),
        Err(error) => vec![Err(chain(&error))],
    };
    for approximate in [false, true] {
        let options = QueryOptions { threads: 1, approximate, ..QueryOptions::default() };
        match Archive::open(dir, options) {
            Ok(archive) if approximate => found.extend(of_summaries(&archive)),
            Ok(archive) => found.extend(of_questions(&archive, questions)),
            Err(error) => found.push(Err(chain(&error))),
        }
    }
    found
}

/// The elements without a column: in segments that have any, whole row groups are read for that, by Parquet's library.
pub(crate) fn read_elements(dir: &Path) -> Outcome {
    let select = Select::List { columns: vec![Column::Elements], sorting: None, limit: None };
    let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
    let options = QueryOptions { threads: 1, ..QueryOptions::default() };
    let archive = Archive::open(dir, options).map_err(|error| chain(&error))?;
    ask(&archive, &question)
}

fn of_snapshot(snapshot: &Snapshot) -> Vec<Outcome> {
    let rows: Result<Vec<u64>, _> = Table::ALL.iter().map(|table| snapshot.rows(*table)).collect();
    let gone = [snapshot.rows_expired(), snapshot.rows_set_aside()];
    let counts = rows.map(|rows| Found::Counts(snapshot.position(), rows, gone));
    let mut found = vec![counts.map_err(|error| chain(&error))];
    for &table in Table::ALL {
        for segment in snapshot.segments(table) {
            found.push(segment.read().map(Found::Rows).map_err(|error| chain(&error)));
        }
        found.push(snapshot.tail(table).map(Found::Rows).map_err(|error| chain(&error)));
    }
    let books = snapshot.books(i64::MIN, i64::MAX).map_err(|error| chain(&error));
    found.push(books.map(|sums| Found::Counts(Position::ZERO, sums.totals().to_vec(), [0; 2])));
    found
}

fn of_questions(archive: &Archive, questions: &[FlowQuery]) -> Vec<Outcome> {
    let mut found: Vec<Outcome> = questions.iter().map(|question| ask(archive, question)).collect();
    let window = &questions[3].window;
    for filter in [&Predicate::True, &questions[1].filter] {
        for window in [&TimeWindow::default(), window] {
            found.push(archive.totals(filter, window).map(Found::Totals).map_err(|error| chain(&error)));
        }
    }
    found
}

/// What is left of flows that have expired.
fn of_summaries(archive: &Archive) -> Vec<Outcome> {
    let all = TimeWindow::default();
    let totals = archive.totals(&Predicate::True, &all).map(Found::Totals).map_err(|error| chain(&error));
    let mut found = vec![totals];
    for name in ["srcip", "dstport", "proto"] {
        let key = StatisticKey::parse(name).expect("a key");
        let sorting = Sorting::usual(Order::Bytes);
        let select = Select::Statistic { key, per_protocol: false, sorting, limit: Some(10) };
        found.push(ask(archive, &FlowQuery { filter: Predicate::True, window: all, select, scaled: false }));
    }
    found
}

fn ask(archive: &Archive, question: &FlowQuery) -> Outcome {
    let answer = archive.ask(question).map_err(|error| chain(&error))?;
    let batches = answer.collect::<Result<Vec<RecordBatch>, _>>().map_err(|error| chain(&error))?;
    Ok(Found::Rows(batches))
}
