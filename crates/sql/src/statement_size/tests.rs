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

#[test]
fn what_takes_little_to_plan_has_no_limit() {
    let values: Vec<String> = (0..20_000).map(|number| format!("-{number}")).collect();
    check_text(&format!("SELECT 1 FROM flows WHERE bytes IN ({})", values.join(", "))).expect("a list");
    check_text(&format!("SELECT 1 FROM (VALUES ({})) t(a)", values.join("), ("))).expect("rows");
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
        check_text(&format!("{begin}{}", many(part, between, count))).expect("as many as there may be");
        let error =
            check_text(&format!("{begin}{}", many(part, between, count + 1))).expect_err("one more").to_string();
        assert!(error.contains(&format!("has more than {} {}", limit.max, limit.what)), "{error}");
    }
}
