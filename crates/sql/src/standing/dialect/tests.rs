use super::*;

/// What a condition becomes, with a list of two, of one and of none.
fn check(condition: &str, expected: &str) {
    let list = |items: &[&str]| Parameter::List(items.iter().map(|item| Parameter::Text((*item).to_owned())).collect());
    let parameters = Parameters::from([
        ("two".to_owned(), list(&["10.0.0.0/8", "fc00::/7"])),
        ("one".to_owned(), list(&["10.0.0.0/8"])),
        ("none".to_owned(), list(&[])),
        ("below".to_owned(), Parameter::Number("-5".to_owned())),
        ("numbers".to_owned(), Parameter::List(["-1", "2"].map(|item| Parameter::Number(item.to_owned())).into())),
    ]);
    let text = rewritten(condition, &parameters).unwrap_or_else(|error| panic!("{condition}: {error}"));
    assert_eq!(text, expected, "{condition}");
}

#[test]
fn an_address_is_tested_against_each_prefix_of_a_list() {
    check("cidr(a, :two)", "(cidr(a, '10.0.0.0/8') OR cidr(a, 'fc00::/7'))");
    check("cidr(a, :one)", "cidr(a, '10.0.0.0/8')");
    check("NOT cidr (a, :two)", "NOT (cidr(a, '10.0.0.0/8') OR cidr(a, 'fc00::/7'))");
    check("cidr(coalesce(a, b), :two)", "(cidr(coalesce(a, b), '10.0.0.0/8') OR cidr(coalesce(a, b), 'fc00::/7'))");
    check("cidr(least(a, greatest(b, c)), :one)", "cidr(least(a, greatest(b, c)), '10.0.0.0/8')");
    check("cidr(a, :one, 'fe80::/10')", "(cidr(a, '10.0.0.0/8') OR cidr(a, 'fe80::/10'))");
    check("cidr(a, coalesce(p, 'fe80::/10'))", "cidr(a, coalesce(p, 'fe80::/10'))");
}

/// Two hyphens begin a comment (SQL-92, 5.2), which would take the rest of the line away.
#[test]
fn a_minus_before_a_negative_number_begins_no_comment() {
    check("a > 0 -:below AND b = 6", "a > 0 -(-5) AND b = 6");
    check("a > -:below", "a > -(-5)");
    check("a > :below", "a > (-5)");
    check("a IN (:numbers)", "a IN ((-1), 2)");
}

#[test]
fn windows_that_grow_are_those_of_hop_without_what_was_before() {
    let grown = "(SELECT * REPLACE (arrow_cast(date_bin(INTERVAL '9' SECOND, window_end - INTERVAL '1 millisecond'), \
                 'Timestamp(ms, \"UTC\")') AS window_start) FROM HOP(b, t, INTERVAL '3' SECOND, INTERVAL '9' SECOND) \
                 WHERE t >= date_bin(INTERVAL '9' SECOND, window_end - INTERVAL '1 millisecond')) AS c";
    check("CUMULATE(b, t, INTERVAL '3' SECOND, INTERVAL '9' SECOND) AS c", grown);
    let named = "TABLE(CUMULATE(DATA => TABLE b, TIMECOL => DESCRIPTOR(t), SIZE => INTERVAL '9' SECOND, STEP => INTERVAL '3' SECOND)) AS c";
    check(named, grown);
    for wrong in ["CUMULATE(b, t, INTERVAL '3' SECOND)", "CUMULATE(b, t, step => 3, width => 9)", "CUMULATE()"] {
        let error = rewritten(wrong, &Parameters::new()).expect_err(wrong);
        assert!(error.to_string().contains("the step and the size"), "{error}");
    }
}

/// Only Flink has TABLE in front of an argument.
#[test]
fn statements_about_tables_keep_their_words() {
    check("DROP TABLE flows", "DROP TABLE flows");
    check("CREATE TABLE t AS SELECT 1", "CREATE TABLE t AS SELECT 1");
    check("f(TABLE t, DESCRIPTOR(c))", "f(t, c)");
    check("f(DATA => TABLE t)", "f(\"table\" => t)");
}

#[test]
fn nothing_is_in_an_empty_list() {
    check("cidr(a, :none)", "(false)");
    check("NOT cidr(coalesce(a, b), :none)", "NOT (false)");
    check("cidr(a, :none, 'fe80::/10')", "(cidr(a, 'fe80::/10'))");
    check("a IN (:none)", "a IN (NULL) IS TRUE");
    check("x OR a NOT IN ( :none )", "x OR a NOT IN (NULL) IS NOT FALSE");
    check("a IN (:one)", "a IN ('10.0.0.0/8')");
    // a mistake that is not of a parameter is left to the parser
    check("a IN ()", "a IN ()");
    check("cidr(a, )", "cidr(a, )");
}
