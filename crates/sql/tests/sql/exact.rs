//! Sums, differences and products of whole numbers: none begins again at the other end of its type. Expected numbers are those of
//! Python, whose whole numbers have no ends.

use datafusion::common::ScalarValue;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_sql::{Engine, ParameterValue, QueryControl};

use crate::rows::{NEW_YEAR_MS, engine, lines};

/// More back than forth; a counter as large as a number with a sign can be; the largest there is.
fn flows() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(3);
    for (second, bytes, bytes_reverse, packets) in
        [(0, 100, 4_000, 3), (1, i64::MAX as u64, 7, 3), (2, u64::MAX, 0, u64::MAX)]
    {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NEW_YEAR_MS + second * 1_000));
        builder.time(Column::Start).push(Some(NEW_YEAR_MS));
        builder.time(Column::End).push(Some(NEW_YEAR_MS + 1_000));
        builder.u16(Column::SrcPort).push(Some(22));
        builder.u16(Column::DstPort).push(Some(65_535));
        builder.u64(Column::Bytes).push(Some(bytes));
        builder.u64(Column::BytesReverse).push(Some(bytes_reverse));
        builder.u64(Column::Packets).push(Some(packets));
    }
    builder.finish()
}

fn answers(engine: &Engine, cases: &[(&str, &[&str])]) {
    for (sql, expected) in cases {
        let found = lines(engine.sql(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(found, *expected, "{sql}");
    }
}

#[test]
fn arithmetic_of_counters_is_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    answers(
        &engine,
        &[
            ("SELECT sum(bytes) - sum(bytes_reverse) FROM flows WHERE bytes = 100", &["-3900"]),
            ("SELECT count(*) FROM flows WHERE bytes - bytes_reverse > 1000 AND bytes = 100", &["0"]),
            ("SELECT bytes * packets FROM flows WHERE packets = 3 ORDER BY bytes", &["300", "27670116110564327421"]),
            (
                "SELECT sum(bytes) + sum(bytes) + sum(bytes) FROM flows WHERE bytes > 10000000000000000000",
                &["55340232221128654845"],
            ),
            (
                "SELECT bytes - lag(bytes) OVER (ORDER BY received DESC) FROM flows ORDER BY received",
                &["-9223372036854775707", "-9223372036854775808", ""],
            ),
            ("SELECT sum(bytes - packets) FROM flows WHERE packets = 3", &["9223372036854775901"]),
            // columns of subqueries, of parts of a union, and of the row outside
            ("SELECT max(d) - min(d) FROM (SELECT bytes_reverse - bytes AS d FROM flows)", &["18446744073709555515"]),
            (
                "SELECT d FROM (SELECT bytes - bytes_reverse AS d FROM flows UNION ALL SELECT bytes FROM flows) ORDER BY d LIMIT 2",
                &["-3900", "100"],
            ),
            (
                "SELECT count(*) FROM (SELECT bytes - bytes_reverse AS d FROM flows) o \
                 WHERE EXISTS (SELECT 1 FROM flows f WHERE f.bytes - f.bytes_reverse = o.d AND o.d < 0)",
                &["1"],
            ),
            (
                "SELECT bytes + bytes_reverse, count(*) FROM flows GROUP BY bytes + bytes_reverse ORDER BY 1 LIMIT 1",
                &["4100,1"],
            ),
        ],
    );
}

/// Columns that both sides of a join have are of neither when sums are planned.
#[test]
fn arithmetic_of_joined_columns_is_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    answers(
        &engine,
        &[
            (
                "SELECT bytes - bytes_reverse FROM (SELECT bytes, bytes_reverse FROM flows WHERE bytes = 100) a \
                 JOIN flows b USING (bytes, bytes_reverse)",
                &["-3900"],
            ),
            (
                "SELECT src_port - dst_port, coalesce(src_port, dst_port) - dst_port \
                 FROM (SELECT bytes, src_port, dst_port FROM flows WHERE bytes = 100) a \
                 NATURAL JOIN (SELECT bytes, src_port, dst_port FROM flows) b",
                &["-65513,-65513"],
            ),
        ],
    );
}

#[test]
fn arithmetic_of_smaller_numbers_is_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    answers(
        &engine,
        &[
            (
                "SELECT src_port - dst_port, dst_port + dst_port, dst_port * dst_port FROM flows LIMIT 1",
                &["-65513,131070,4294836225"],
            ),
            (
                "SELECT CAST(4294967295 AS INT UNSIGNED) * CAST(4294967295 AS INT UNSIGNED), count(*) * sum(dst_port) FROM flows",
                &["18446744065119617025,589815"],
            ),
            (
                "SELECT CAST(bytes AS BIGINT) * CAST(bytes AS BIGINT) FROM flows WHERE packets = 3 ORDER BY bytes DESC LIMIT 1",
                &["85070591730234615847396907784232501249"],
            ),
            // functions get the whole numbers that they want
            ("SELECT count(from_unixtime(to_unixtime(start) / 60 * 60)) FROM flows", &["3"]),
            ("SELECT substr('abc', 1 + 1)", &["bc"]),
        ],
    );
}

/// Literals that a double does not hold: with a point, or beyond 64 bits.
#[test]
fn counters_are_compared_exactly_with_any_literal() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    let cases = [
        ("bytes = 18446744073709551616", "0"),
        ("bytes < 18446744073709551616", "3"),
        ("bytes <> (18446744073709551616)", "3"),
        ("bytes > 9223372036854775807.0", "1"),
        ("bytes >= 9223372036854775807.0", "2"),
        ("bytes = 9223372036854775806.5", "0"),
        ("bytes = 1.8446744073709551616e19", "0"),
        ("bytes BETWEEN 100 AND 9223372036854775806.9", "1"),
        ("bytes IN (9223372036854775808.0, 100)", "1"),
        ("bytes IS NOT DISTINCT FROM 9223372036854775807.0", "1"),
        ("CASE bytes WHEN 9223372036854775807.0 THEN 1 END = 1", "1"),
        ("bytes - bytes_reverse > -9223372036854775809.5", "3"),
        ("CAST(packets AS DOUBLE) = 18446744073709551616.0", "1"),
        ("bytes > 99.5 AND bytes < 100.5", "1"),
    ];
    for (condition, expected) in cases {
        let sql = format!("SELECT count(*) FROM flows WHERE {condition}");
        answers(&engine, &[(sql.as_str(), &[expected])]);
    }
    answers(&engine, &[("SELECT avg(bytes) > 1000000000000000.5 FROM flows", &["true"])]);
}

/// A product beyond 38 digits is said to be one, and is no other number.
#[test]
fn a_product_that_has_no_room_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    let error = lines(engine.sql("SELECT bytes * packets FROM flows")).expect_err("no room").to_string();
    assert_eq!(error, "a number is too large for its type\nhint: cast the numbers first: CAST(... AS DOUBLE)");
    answers(&engine, &[("SELECT max(CAST(bytes AS DOUBLE) * packets) > 3.4e38 FROM flows", &["true"])]);
}

/// A counter is cut whether it is divided by a counter or by a literal, so that `GROUP BY bytes / 1000` makes bins.
#[test]
fn counters_are_divided_as_whole_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    answers(
        &engine,
        &[
            (
                "SELECT bytes / 7, sum(bytes) / 3, 1000 / packets FROM flows WHERE bytes = 100 GROUP BY bytes, packets",
                &["14,33,333"],
            ),
            ("SELECT bytes / 10000000000000000000 FROM flows ORDER BY bytes", &["0", "0", "1"]),
            ("SELECT bytes / 1000, count(*) FROM flows WHERE bytes = 100 GROUP BY bytes / 1000", &["0,1"]),
            ("SELECT bytes / -8, bytes / 8.0 FROM flows WHERE bytes = 100", &["-12.5000,12.5"]),
        ],
    );
}

#[test]
fn functions_of_counters_take_their_sums() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    answers(
        &engine,
        &[(
            "SELECT bits_per_second(start, \"end\", bytes + bytes_reverse), packets_per_second(start, \"end\", packets + packets), \
             bytes_per_packet(bytes + bytes_reverse, packets), bytes_per_packet(bytes - bytes_reverse, packets) FROM flows \
             WHERE bytes = 100",
            &["32800,6,1366,0"],
        )],
    );
    let error =
        lines(engine.sql("SELECT bytes_per_packet('much', packets) FROM flows")).expect_err("a text").to_string();
    assert!(error.starts_with("bytes_per_packet() does not take these arguments"), "{error}");
}

#[test]
fn parameters_are_added_exactly_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), &[flows()], &[]);
    let asked = |sql: &str, value: ParameterValue| {
        lines(engine.sql_with(sql, &[value], &QueryControl::default())).unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let text = |text: &str| ParameterValue::Text(text.to_owned());
    assert_eq!(asked("SELECT bytes - $1 FROM flows WHERE bytes = 100", text("4000")), ["-3900"]);
    assert_eq!(asked("SELECT src_port - $1 FROM flows WHERE bytes = 100", text("23")), ["-1"]);
    let half = ParameterValue::Typed(ScalarValue::Float64(Some(0.5)));
    assert_eq!(asked("SELECT bytes * $1 FROM flows WHERE bytes = 100", half), ["50"]);
}
