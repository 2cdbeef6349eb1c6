use arrow::datatypes::DataType;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{LogicalPlanBuilder, cast, col, lit};
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::dialect::{GenericDialect, PostgreSqlDialect};

use super::*;

/// Operators, queries, joins, and columns, arguments and casts.
fn parts(text: &str) -> (usize, usize, usize, usize) {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().expect("tokens");
    let parts = Parts::of(&tokens);
    (parts.operators, parts.queries, parts.joins, parts.items)
}

#[test]
fn parts_are_counted_by_their_kind() {
    for (text, expected) in [
        ("SELECT 1 + 2 * 3", (2, 1, 0, 0)),
        ("SELECT count(*), sum(bytes) FROM flows", (0, 1, 0, 1)),
        ("SELECT f.*, -1 FROM flows f, flows g JOIN flows h ON f.bytes = h.bytes", (1, 1, 2, 1)),
        ("SELECT 1 FROM flows WHERE a = 1 AND b <> 2 OR c LIKE 'x' GROUP BY a, b ORDER BY a, b", (5, 1, 0, 2)),
        ("SELECT 1 FROM flows WHERE a IN (1, -2, 3) AND (b, c) IN ((1, 2), (3, 4))", (3, 1, 0, 1)),
        ("SELECT a FROM (VALUES (1, -2), (3, 4)) t(a, b)", (0, 1, 0, 1)),
        // the arguments of a function count wherever it is
        ("SELECT 1 FROM flows WHERE a IN (concat('a', 'b', 'c'), 'd')", (1, 1, 0, 2)),
        ("SELECT 1 FROM flows WHERE a IN (SELECT b, c FROM d, e)", (1, 2, 1, 1)),
        ("SELECT a::inet, a IS DISTINCT FROM b, c FROM flows", (1, 1, 0, 3)),
        ("WITH a AS (SELECT 1), b AS (SELECT 2) SELECT 1 FROM a UNION ALL SELECT 2, 3", (0, 4, 0, 2)),
        ("SELECT \"from\", \"and\", 'a + b' /* 1 + 2 */ -- 3 + 4", (0, 1, 0, 2)),
    ] {
        assert_eq!(parts(text), expected, "{text}");
    }
}

fn check(text: &str) -> Result<()> {
    check_text(text, &GenericDialect {})
}

#[test]
fn what_takes_little_to_plan_has_no_limit() {
    let values: Vec<String> = (0..20_000).map(|number| format!("-{number}")).collect();
    check(&format!("SELECT 1 FROM flows WHERE bytes IN ({})", values.join(", "))).expect("a list");
    check(&format!("SELECT 1 FROM (VALUES ({})) t(a)", values.join("), ("))).expect("rows");
}

#[test]
fn each_kind_has_a_limit_that_the_error_names() {
    let many = |part: &str, between: &str, count: usize| vec![part; count].join(between);
    for (begin, part, between, limit) in [
        ("SELECT ", "1", " + ", OPERATORS),
        ("", "SELECT 1", " UNION ALL ", QUERIES),
        ("SELECT 1 FROM ", "flows", ", ", JOINS),
        ("SELECT ", "1", ", ", ITEMS),
    ] {
        // between so many and one more are so many
        let count = if limit == QUERIES { limit.max } else { limit.max + 1 };
        check(&format!("{begin}{}", many(part, between, count))).expect("as many as there may be");
        let error = check(&format!("{begin}{}", many(part, between, count + 1))).expect_err("one more").to_string();
        assert!(error.contains(&format!("has more than {} {}", limit.max, limit.what)), "{error}");
    }
}

#[test]
fn what_nests_without_end_is_refused_before_it_is_parsed() {
    let chain = |begin: &str, part: &str| format!("{begin}{}", part.repeat((1 << 20) / part.len()));
    for (begin, part, limit) in [
        ("SELECT 1", "-1", OPERATORS),
        ("SELECT 1", " OR 1", OPERATORS),
        ("SELECT 1", " IS NULL", OPERATORS),
        ("SELECT 1", " OVERLAPS 1", OPERATORS),
        ("SELECT 1", " OPERATOR(pg_catalog.foo) 1", OPERATORS),
        ("VALUES (1)", " UNION VALUES (1)", QUERIES),
        ("TABLE flows", " EXCEPT TABLE flows", QUERIES),
        ("FROM flows", " INTERSECT FROM flows", QUERIES),
        ("TABLE flows", " MINUS TABLE flows", QUERIES),
        ("SELECT 1 FROM flows", " CROSS APPLY flows", JOINS),
        ("SELECT 1 FROM flows", " PIVOT (a)", JOINS),
        ("SELECT 1", "::int", ITEMS),
        ("SELECT a", "[1]", ITEMS),
        ("SELECT a", " AT TIME ZONE 'UTC'", ITEMS),
        ("SELECT 1", " !", SUFFIXES),
        ("SELECT 1", " NOTNULL", SUFFIXES),
        ("SELECT 1", " NOT NULL", SUFFIXES),
        ("SELECT 'a'", " COLLATE \"C\"", SUFFIXES),
        ("SELECT a", ":b", SUFFIXES),
        ("SELECT CAST(1 AS ", "Nullable(", NESTED),
        ("SELECT ", "(", NESTED),
        ("", "EXPLAIN ", NESTED),
        ("SELECT INTERVAL ", "INTERVAL ", NESTED),
    ] {
        for error in [
            check_text(&chain(begin, part), &PostgreSqlDialect {}).expect_err(part),
            check(&chain(begin, part)).expect_err(part),
        ] {
            let expected = format!("has more than {} {}", limit.max, limit.what);
            assert!(error.to_string().contains(&expected), "{part}: {error}");
        }
    }
    let types = |count: usize| format!("SELECT CAST(1 AS {}INT)", "ARRAY<".repeat(count));
    check(&types(99)).expect("as many as there may be");
    assert!(check(&types(100)).expect_err("one more").to_string().contains(NESTED.what));
    // steps of a pipe, which Postgres does not know
    assert!(check(&chain("FROM flows", " |> WHERE true")).expect_err("a pipe").to_string().contains(QUERIES.what));
    // Postgres knows no quotes of this kind
    let quoted = format!("SELECT 1 `{}`", "- 1 ".repeat(2_000));
    check(&quoted).expect("a name");
    check_text(&quoted, &PostgreSqlDialect {}).expect_err("operators");
}

#[test]
fn suffixes_count_where_they_may_be_of_one_value() {
    let suffixes = |text: &str| {
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().expect("tokens");
        Parts::of(&tokens).suffixes_max
    };
    for (text, expected) in [
        ("SELECT a::int, b::int, c::int", 1),
        ("SELECT a::decimal(10, 2)::int::text, b", 3),
        ("SELECT (((a::int)::text)::int)", 3),
        ("SELECT f(a::int::text, 1)::int[], b::int", 4),
        ("SELECT a[1] FROM b WHERE c::int = 1 GROUP BY d::int", 1),
    ] {
        assert_eq!(suffixes(text), expected, "{text}");
    }
    check(&format!("SELECT {}", vec!["a::int"; 2_000].join(", "))).expect("of many values");
    check(&format!("SELECT a{}", "::int".repeat(1_000))).expect("as many as there may be");
}

fn parsed(text: &str) -> Statement {
    DFParser::parse_sql(text).expect("a statement").pop_front().expect("a statement")
}

#[test]
fn a_subquery_counts_as_often_as_it_is_read() {
    // a query, its SELECT and its table are 3
    for (text, expected) in [
        ("SELECT 1 FROM flows", 3),
        ("SELECT a, -1 FROM flows WHERE a IN (1, -2, 3) AND (b > 1 OR b IS NULL)", 8),
        ("WITH a AS (SELECT b + 1 FROM flows) SELECT 1 FROM a, A, \"a\"", 14),
        ("SELECT 1 FROM flows WHERE a IN (WITH b AS (SELECT 1 FROM c) SELECT 1 FROM b)", 9),
        // what an inner query names is another one, and is not known outside
        ("WITH a AS (SELECT 1 + 1 + 1 + 1) SELECT 1 FROM (WITH b AS (SELECT 1) SELECT 1 FROM b) x, b, a", 12),
        ("WITH \"A\" AS (SELECT 1 + 1 + 1 + 1), a AS (SELECT 1) SELECT 1 FROM \"A\"", 9),
        ("WITH \"a.b\" AS (SELECT 1 + 1 + 1 + 1) SELECT 1 FROM a.b", 7),
        // the table of a window; a column of its name counts as well
        ("WITH a AS (SELECT 1 + 1) SELECT 1 FROM TUMBLE(a, b, INTERVAL '1' HOUR), HISTORY(A, INTERVAL '1' DAY)", 10),
        // not read at all, and read by itself
        ("WITH a AS (SELECT 1 + 1) SELECT 1", 5),
        ("WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT 1 FROM a", 7),
        ("EXPLAIN SELECT 1 FROM flows", 3),
        ("COPY (SELECT 1 FROM flows) TO 'x'", 3),
    ] {
        assert_eq!(reads::of(&parsed(text)), expected, "{text}");
    }
}

/// The numbers are counted without planning anything: planned they would take hours and hundreds of GB.
#[test]
fn subqueries_that_multiply_are_refused_before_they_are_planned() {
    let multiplied = |levels: usize, read: &dyn Fn(usize) -> String| {
        (1..levels).fold("WITH t0 AS (SELECT bytes FROM flows)".to_owned(), |text, level| {
            format!("{text}, t{level} AS ({})", read(level - 1))
        })
    };
    let doubled = |before: usize| format!("SELECT * FROM t{before} UNION ALL SELECT * FROM t{before}");
    let windows = |before: usize| {
        let window = format!("SELECT bytes, received FROM TUMBLE(t{before}, received, INTERVAL '1' MINUTE)");
        format!("{window} UNION ALL {window}")
    };
    let joined = |before: usize| format!("SELECT a.bytes FROM t{before} a JOIN t{before} b ON a.bytes = b.bytes");
    let sums = vec!["1 + 1"; 1_000].join(", ");
    let often = vec!["SELECT * FROM a"; 249].join(" UNION ALL ");
    for text in [
        format!("{} SELECT count(*) FROM t19", multiplied(20, &doubled)),
        format!("{} SELECT count(*) FROM t39", multiplied(40, &joined)),
        format!("{} SELECT count(*) FROM t19", multiplied(20, &windows)),
        // more than a number of 64 bits holds
        format!("{} SELECT 1", multiplied(100, &doubled)),
        format!("WITH a AS (SELECT {sums} FROM flows) {often}"),
    ] {
        let error = check_reads(&parsed(&text)).expect_err("too often").to_string();
        assert!(error.contains("more than 4000 operators, functions and queries"), "{error}");
    }
    check_reads(&parsed(&format!("{} SELECT count(*) FROM t8", multiplied(9, &doubled)))).expect("as often as it may");
    check_reads(&parsed(&format!("WITH a AS (SELECT {sums} FROM flows) SELECT * FROM a"))).expect("once");
}

/// Clients send them by the ten thousand.
#[test]
fn values_of_a_list_count_little_however_they_are_written() {
    let list = |value: &dyn Fn(usize) -> Expr| {
        let condition = col("a").in_list((0..20_000).map(value).collect(), false);
        let rows =
            LogicalPlanBuilder::values(vec![vec![lit(1)]]).and_then(|rows| rows.project([col("column1").alias("a")]));
        rows.and_then(|rows| rows.filter(condition)).and_then(LogicalPlanBuilder::build).expect("a plan")
    };
    check_plan(&list(&|number| Expr::Placeholder(Placeholder::new_with_field(format!("${number}"), None))))
        .expect("parameters");
    check_plan(&list(&|number| cast(lit(number.to_string()), DataType::Int32))).expect("values with their type");
}

/// Each is smaller than an expression may be, and the optimiser makes one of all.
#[test]
fn conditions_count_together() {
    let plan = |filters: usize| {
        let sum = (0..12).fold(lit(1), |sum, _| sum.clone() + sum);
        let rows = LogicalPlanBuilder::empty(true).project([sum.alias("x")]);
        let filtered = (0..filters).fold(rows, |rows, _| rows.and_then(|rows| rows.filter(col("x").gt(lit(0)))));
        filtered.and_then(LogicalPlanBuilder::build).expect("a plan")
    };
    // of 4,095 sums and a comparison
    check_plan(&plan(48)).expect("as many as there may be");
    let error = check_plan(&plan(49)).expect_err("one more").to_string();
    assert!(error.contains("more than 200000 operators and functions in all conditions"), "{error}");
}

#[test]
fn expressions_of_a_plan_are_counted() {
    let plan = |sums: usize| {
        let columns = (0..sums).map(|column| (lit(1) + lit(1)).alias(format!("c{column}")));
        LogicalPlanBuilder::empty(true).project(columns).and_then(LogicalPlanBuilder::build).expect("a plan")
    };
    check_plan(&plan(COMPUTED.max)).expect("as many as there may be");
    let error = check_plan(&plan(COMPUTED.max + 1)).expect_err("one more").to_string();
    assert!(error.contains("more than 20000 operators and functions"), "{error}");
}
