//! Questions that are watched, limited and cancelled, and what EXPLAIN tells of them.

use std::time::Duration;

use weir_sql::{Engine, EngineError, EngineOptions, Terms};

use crate::rows::{engine, lines, sealed, small_engine, small_engine_with, write_segment};

/// Never ends by itself, and has little to say on the way.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) a";

/// Sorts more than it may keep in memory.
const SPILLING: &str =
    "SELECT v, lpad(CAST(v AS VARCHAR), 100, 'x') AS t FROM generate_series(1, 100000000) AS s(v) ORDER BY t DESC";

#[test]
fn a_question_ends_at_its_time_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    let terms = Terms { time_max: Some(Duration::from_millis(50)), ..Terms::default() };
    let error = lines(engine.sql_on(ENDLESS, &terms)).expect_err("too little time");
    let text = error.to_string();
    assert!(text.starts_with("the question ran longer than 50ms: no segment was to be read\nhint: raise"), "{text}");
    let of_flows = format!("SELECT max(bytes), max(n) FROM flows, ({ENDLESS}) AS endless(n)");
    let error = lines(engine.sql_on(&of_flows, &terms)).expect_err("too little time");
    assert!(error.to_string().contains(" of 1 segments were read"), "{error}");
    assert_eq!(lines(engine.sql_on("SELECT count(*) FROM flows", &Terms::default())).expect("an answer"), ["8"]);
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
    let terms = Terms::default();
    let answer = engine.sql_on(SPILLING, &terms).expect("an answer on its way");
    // Bounded, so that an engine that never spills fails the test rather than hangs it.
    let has_spilled = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        walked(spill.path()) > 0
    });
    assert!(has_spilled, "nothing was written to disk");
    terms.progress.stop();
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

/// Four segments, of which the fourth tells no times, and a question that two of them cannot hold rows for.
fn of_four_segments(folder: &std::path::Path) -> Engine {
    let rows = sealed();
    let segments = (1..=4_i64).map(|number| {
        let segment = write_segment(&folder.join(format!("{number}.parquet")), &rows, 4);
        let segment = std::sync::Arc::into_inner(segment).expect("nobody else has it");
        let range = (number < 4).then_some((number * 1000, number * 1000 + 999));
        std::sync::Arc::new(segment.with_time_range_ms(range))
    });
    engine(segments.collect(), &[])
}

#[test]
fn progress_adds_up_to_the_whole_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = of_four_segments(folder.path());
    let terms = Terms::default();
    // 3000 ms is in the third segment, the times of the fourth are not known.
    let asked = "SELECT count(*) FROM flows WHERE start >= TIMESTAMP '1970-01-01T00:00:03Z' AND bytes > 0";
    assert_eq!(lines(engine.sql_on(asked, &terms)).expect("an answer"), ["8"]);
    let seen = terms.progress.counts();
    assert_eq!((seen.segments_all, seen.segments_pruned, seen.segments_done), (4, 2, 2));
    assert_eq!((seen.rows_all, seen.rows_pruned, seen.rows_done), (16, 8, 8));
    assert_eq!(seen.fraction(), Some(1.0));
    assert!(seen.octets_read > 0 && seen.octets_read < seen.octets_all, "{seen:?}");
    // Statistics of the row group say that no such flow is there: opened, but nothing read.
    let terms = Terms::default();
    let asked = "SELECT count(*) FROM flows WHERE bytes > 1000000000";
    assert_eq!(lines(engine.sql_on(asked, &terms)).expect("an answer"), ["0"]);
    let seen = terms.progress.counts();
    assert_eq!((seen.segments_pruned, seen.segments_done, seen.octets_read), (4, 0, 0));
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
    assert!(ran.contains("[2 rows"), "{ran}");
    assert!(ran.contains("read 2 of 4"), "{ran}");
    assert!(ran.contains("passed the filter 2 of "), "{ran}");
    assert!(ran.contains("row groups pruned 0 of 2"), "{ran}");
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
