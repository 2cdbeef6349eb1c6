//! Questions that are watched, limited and cancelled, and what EXPLAIN tells of them.

use std::time::Duration;

use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_sql::{Engine, EngineError, EngineOptions, QueryControl};

use crate::damaged::segments;
use crate::rows::{NEW_YEAR_MS, engine, lines, small_engine, small_engine_with};

/// Never ends by itself, and has little to say on the way.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) a";

/// Sorts more than it may keep in memory.
const SPILLING: &str =
    "SELECT v, lpad(CAST(v AS VARCHAR), 100, 'x') AS t FROM generate_series(1, 100000000) AS s(v) ORDER BY t DESC";

#[test]
fn a_question_ends_at_its_time_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    let control = QueryControl { time_max: Some(Duration::from_millis(50)), ..QueryControl::default() };
    let error = lines(engine.sql_on(ENDLESS, &control)).expect_err("too little time");
    let text = error.to_string();
    assert!(text.starts_with("the question ran longer than 50ms: no segment was to be read\nhint: raise"), "{text}");
    let of_flows = format!("SELECT max(bytes), max(n) FROM flows, ({ENDLESS}) AS endless(n)");
    let control = QueryControl { time_max: Some(Duration::from_secs(3)), ..QueryControl::default() };
    let error = lines(engine.sql_on(&of_flows, &control)).expect_err("too little time");
    assert!(error.to_string().contains(" of 1 segments were read"), "{error}");
    assert_eq!(lines(engine.sql_on("SELECT count(*) FROM flows", &QueryControl::default())).expect("an answer"), ["8"]);
}

/// The folder for what does not fit into memory is empty again once the engine is closed.
#[test]
fn a_cancelled_question_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let spill = tempfile::tempdir().expect("a folder");
    let options = EngineOptions {
        threads: 2,
        memory_octets_max: 64 << 20,
        spill_folder: Some(spill.path().to_owned()),
        ..EngineOptions::default()
    };
    let engine = small_engine_with(folder.path(), &options);
    let control = QueryControl::default();
    let answer = engine.sql_on(SPILLING, &control).expect("an answer on its way");
    // Bounded, so that an engine that never spills fails the test rather than hangs it.
    let has_spilled = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        walked(spill.path()) > 0
    });
    assert!(has_spilled, "nothing was written to disk");
    control.progress.stop();
    let error = answer.map(|batch| batch.map(drop)).find_map(Result::err).expect("an error");
    assert!(matches!(error, EngineError::Cancelled { .. }), "{error}");
    engine.close(Duration::from_secs(30));
    let left: Vec<_> = std::fs::read_dir(spill.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Files below a folder.
fn walked(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    entries.iter().map(|entry| if entry.path().is_dir() { walked(&entry.path()) } else { 1 }).sum()
}

/// Four flows at a moment of 1970, or without start and end.
fn flows_at(ms: Option<i64>) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(4);
    builder.begin_rows(4);
    builder.time(Column::Received).repeat(NEW_YEAR_MS, 4);
    for bytes in [1000, 80, 1_500_000, 2000] {
        builder.time(Column::Start).push(ms);
        builder.time(Column::End).push(ms);
        builder.u64(Column::Bytes).push(Some(bytes));
    }
    builder.finish()
}

/// Four segments, of which the fourth has no times, and a question that two of them cannot hold rows for.
fn of_four_segments(folder: &std::path::Path) -> Engine {
    let segments = [Some(1000), Some(2000), Some(3000), None].map(flows_at);
    engine(folder, &segments, &[])
}

#[test]
fn progress_adds_up_to_the_whole_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = of_four_segments(folder.path());
    let control = QueryControl::default();
    // 3000 ms is in the third segment; of the fourth the index says that it has no times.
    let asked = "SELECT count(*) FROM flows WHERE start >= TIMESTAMP '1970-01-01T00:00:03Z' AND bytes > 0";
    assert_eq!(lines(engine.sql_on(asked, &control)).expect("an answer"), ["4"]);
    let seen = control.progress.counts();
    assert_eq!((seen.segments_all, seen.segments_pruned, seen.segments_done), (4, 3, 1));
    assert_eq!((seen.rows_all, seen.rows_pruned, seen.rows_done), (16, 12, 4));
    assert_eq!(seen.fraction(), Some(1.0));
    // Indexes say that no such flow is there: opened, but nothing read.
    let control = QueryControl::default();
    let asked = "SELECT count(*) FROM flows WHERE bytes > 1000000000";
    assert_eq!(lines(engine.sql_on(asked, &control)).expect("an answer"), ["0"]);
    let seen = control.progress.counts();
    assert_eq!((seen.segments_pruned, seen.segments_done, seen.rows_done), (4, 0, 0));
}

/// Planning opens nothing, however many segments there are: an index that cannot be read is an error of the answer, and
/// nobody notices while the question is only planned.
#[test]
fn planning_opens_no_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = of_four_segments(folder.path());
    for file in segments(folder.path(), "flows") {
        std::fs::remove_file(file).expect("removed");
    }
    let asked = "SELECT bytes FROM flows WHERE start >= TIMESTAMP '1970-01-01T00:00:03Z' AND bytes = 80";
    let planned = lines(engine.sql(&format!("EXPLAIN {asked}"))).expect("a plan");
    assert!(planned.iter().any(|line| line.contains("Segments: 2 to open")), "{planned:?}");
    let counted = lines(engine.sql("SELECT count(*) FROM flows")).expect("the rows of the segments' names");
    assert_eq!(counted, ["16"]);
    let error = lines(engine.sql(asked)).expect_err("the segments are gone");
    assert!(matches!(error, EngineError::Unreadable(_)), "{error}");
}

#[test]
fn explain_tells_what_is_pruned() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = of_four_segments(folder.path());
    let asked = "SELECT bytes FROM flows WHERE start >= TIMESTAMP '1970-01-01T00:00:03Z' AND bytes = 80";
    let told = |statement: &str| {
        let report = lines(engine.sql(&format!("{statement} {asked}"))).expect("a report");
        report.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ")
    };
    let planned = told("EXPLAIN");
    assert!(planned.contains("Segments: 2 to open, filter: "), "{planned}");
    assert!(planned.contains("segments 4 pruned 2 of 4 by the times"), "{planned}");
    let ran = told("EXPLAIN ANALYZE");
    assert!(ran.contains("[1 rows"), "{ran}");
    assert!(ran.contains("pruned 3 of 4") && ran.contains("read 1 of 4"), "{ran}");
    assert!(ran.contains("passed the filter 1 of 4"), "{ran}");
}

#[test]
fn explain_says_in_words_what_is_done_and_in_which_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = of_four_segments(folder.path());
    let told = |statement: &str| lines(engine.sql(statement)).expect("a report").join("\n");
    let ranked = told(
        "EXPLAIN SELECT dst_port, sum(bytes) AS b FROM flows WHERE start >= TIMESTAMP '1970-01-01T00:00:03Z' \
         AND bytes + packets > 80 GROUP BY dst_port ORDER BY b DESC LIMIT 3",
    );
    let steps = [
        "1. read flows: 2 of 4 segments (2 are of other times), at most 8 of 16 flows",
        "columns: ",
        "keep while reading: ",
        "2. keep rows for which bytes + packets > 80",
        "3. group by dst_port and compute sum(flows.bytes)",
        "4. sort by sum(flows.bytes) descending, keep the first 3",
        "Segments: 2 to open",
    ];
    let mut rest = ranked.as_str();
    for step in steps {
        let (_, behind) = rest.split_once(step).unwrap_or_else(|| panic!("no '{step}' in its place: {ranked}"));
        rest = behind;
    }
    let counted = told("EXPLAIN SELECT count(*) FROM flows");
    assert!(counted.contains("1. answer without reading anything"), "{counted}");
    let joined = told("EXPLAIN SELECT DISTINCT a.bytes FROM flows a JOIN exporter_books b ON a.exporter = b.exporter");
    for step in ["read exporter_books: ", "join both by exporter = exporter: ", "keep one row of each bytes"] {
        assert!(joined.contains(step), "no '{step}': {joined}");
    }
}

#[test]
fn describe_has_a_sentence_for_each_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    let described = lines(engine.sql("DESCRIBE flows")).expect("an answer");
    assert_eq!(described.len(), weir_flow::Column::COUNT + 2);
    assert!(described.contains(&"src_addr,address,,Source address in the IP header.".to_owned()), "{described:?}");
    for table in weir_flow::Table::ALL {
        for line in lines(engine.sql(&format!("DESCRIBE {}", table.name()))).expect("an answer") {
            assert!(line.ends_with(['.', '"']), "no sentence: {line}");
        }
    }
}
