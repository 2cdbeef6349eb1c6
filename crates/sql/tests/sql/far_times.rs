//! Times that no clock has: a flow that says it began in the year 146,140,482 is one flow, and does not make statements about all others
//! fail. Expected times are those of Python's `datetime` and of its whole numbers.

use jiff::tz::TimeZone;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_sql::{Engine, EngineOptions};

use crate::rows::{NEW_YEAR_MS, engine, engine_with, lines};

/// Starts: 2026-01-01T00:00:30Z, 2300-05-17T13:45:30Z, 2^62 ms, none.
fn flows() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(4);
    for start in [Some(NEW_YEAR_MS + 30_000), Some(10_425_591_930_000), Some(1 << 62), None] {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NEW_YEAR_MS));
        builder.time(Column::Start).push(start);
    }
    builder.finish()
}

fn answer(engine: &Engine, expression: &str) -> Vec<String> {
    let sql = format!("SELECT CAST({expression} AS BIGINT) FROM flows ORDER BY start NULLS LAST");
    lines(engine.sql(&sql)).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

#[test]
fn far_times_are_cut_into_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    for (expression, expected) in [
        ("date_bin(INTERVAL '1 hour', start)", ["1767225600000", "10425589200000", "4611686018425200000", ""]),
        ("date_bin('1 minute', start)", ["1767225600000", "10425591900000", "4611686018427360000", ""]),
        (
            "date_bin(INTERVAL '15 minutes', start, TIMESTAMP '2000-01-01T00:07:00Z')",
            ["1767225120000", "10425591420000", "4611686018426520000", ""],
        ),
        ("date_trunc('minute', start)", ["1767225600000", "10425591900000", "4611686018427360000", ""]),
        ("date_trunc('HOUR', start)", ["1767225600000", "10425589200000", "4611686018425200000", ""]),
        ("date_trunc('day', start)", ["1767225600000", "10425542400000", "4611686018371200000", ""]),
        ("date_trunc('week', start)", ["1766966400000", "10425283200000", "", ""]),
        ("date_trunc('month', start)", ["1767225600000", "10424160000000", "", ""]),
        ("date_trunc('quarter', start)", ["1767225600000", "10421568000000", "", ""]),
        ("date_trunc('year', start)", ["1767225600000", "10413792000000", "", ""]),
        ("time_bucket('1 month', start)", ["1767225600000", "10424160000000", "", ""]),
    ] {
        assert_eq!(answer(&engine, expression), expected, "{expression}");
    }
    let texts = "SELECT to_char(start, '%Y-%m-%d %H:%M') FROM flows ORDER BY start NULLS LAST";
    assert_eq!(lines(engine.sql(texts)).expect("an answer"), ["2026-01-01 00:00", "2300-05-17 13:45", "", ""]);
    let months = "SELECT date_bin(INTERVAL '1 month', start) FROM flows WHERE start > '2200-01-01' ORDER BY start";
    assert_eq!(lines(engine.sql(months)).expect("an answer"), ["", ""]);
    let groups =
        "SELECT date_bin(INTERVAL '1 hour', start) AS t, count(*) FROM flows WHERE start < '2027-01-01' GROUP BY t";
    assert_eq!(lines(engine.sql(groups)).expect("an answer"), ["2026-01-01T00:00:00.000Z,1"]);
    // what stands in the statement alone
    let literal =
        "SELECT CAST(date_trunc('hour', arrow_cast(10425591930000, 'Timestamp(Millisecond, None)')) AS BIGINT)";
    assert_eq!(lines(engine.sql(literal)).expect("an answer"), ["10425589200000"]);
    assert!(lines(engine.sql("SELECT date_bin(INTERVAL '0 hours', start) FROM flows")).is_err());
    assert!(lines(engine.sql("SELECT date_trunc('fortnight', start) FROM flows")).is_err());
}

#[test]
fn far_days_are_local_days() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = TimeZone::get("Europe/Zurich").expect("a zone");
    let options = EngineOptions { threads: 2, zone, ..EngineOptions::default() };
    let engine = engine_with(folder.path(), &[flows()], &[], &options).expect("an engine");
    // 2026-01-01 in winter, one hour ahead; 2300-05-17 in summer, two hours ahead
    let expected = ["1767222000000", "10425535200000", "", ""];
    assert_eq!(answer(&engine, "date_trunc('day', start)"), expected);
    let texts = "SELECT to_char(start, '%Y %H:%M') FROM flows ORDER BY start NULLS LAST LIMIT 3";
    assert_eq!(lines(engine.sql(texts)).expect("an answer").last().map(String::as_str), Some(""));
}
