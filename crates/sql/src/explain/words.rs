//! What a plan does, in words, in the order in which it is done.
//!
//! Steps of the plan that only distribute rows among threads, or rename columns, are left out: they decide nothing that whoever asked
//! has asked for. The plan itself follows the words, so nothing is hidden.

use std::fmt::Display;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use crate::scan::{FlowScanExec, RowsExec};

/// The lines of the words. Steps have numbers; what belongs to one is indented.
pub(super) fn lines(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut steps = Vec::new();
    push_steps(&mut steps, plan);
    let mut lines = Vec::new();
    for (number, step) in (1..).zip(steps) {
        for (place, line) in step.into_iter().enumerate() {
            lines.push(if place == 0 { format!("{number}. {line}") } else { format!("   {line}") });
        }
    }
    lines
}

fn push_steps(steps: &mut Vec<Vec<String>>, plan: &Arc<dyn ExecutionPlan>) {
    for child in plan.children() {
        push_steps(steps, child);
    }
    steps.extend(step(plan));
}

fn step(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<String>> {
    if let Some(scan) = plan.downcast_ref::<FlowScanExec>() {
        return Some(flows(scan));
    }
    let line = if let Some(rows) = plan.downcast_ref::<RowsExec>() {
        let ((segments_all, segments), (rows_all, rows_read)) = (rows.segments(), rows.rows());
        let table = rows.table().name();
        format!("read {table}: {segments} of {segments_all} segments, {rows_read} of {rows_all} rows")
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        format!("keep rows for which {}", plain(filter.predicate()))
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        grouped(aggregate)?
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        sorted(sort)
    } else if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        limited(limit.skip(), limit.fetch())?
    } else if let Some(merge) = plan.downcast_ref::<CoalescePartitionsExec>() {
        limited(0, merge.fetch())?
    } else if let Some(windows) = plan.downcast_ref::<WindowAggExec>() {
        windowed(windows.window_expr().iter().map(|window| window.name().to_owned()))
    } else if let Some(windows) = plan.downcast_ref::<BoundedWindowAggExec>() {
        windowed(windows.window_expr().iter().map(|window| window.name().to_owned()))
    } else if plan.downcast_ref::<UnionExec>().is_some() {
        "put the rows of these together".to_owned()
    } else if plan.downcast_ref::<UnnestExec>().is_some() {
        "make a row of each item of a list".to_owned()
    } else if plan.downcast_ref::<PlaceholderRowExec>().is_some() {
        "answer without reading anything: what is asked is known".to_owned()
    } else {
        return joined(plan).map(|line| vec![line]);
    };
    Some(vec![line])
}

/// The scan of flows: what is opened, what is read, and what is tested meanwhile.
fn flows(scan: &FlowScanExec) -> Vec<String> {
    let ((segments_all, segments), (rows_all, rows)) = (scan.segments(), scan.rows());
    let left_out = segments_all - segments;
    let others = if left_out > 0 { format!(" ({left_out} are of other times)") } else { String::new() };
    let tail = if scan.has_tail() { " and what is not sealed yet" } else { "" };
    let mut lines = vec![format!(
        "read flows: {segments} of {segments_all} segments{others}{tail}, at most {rows} of {rows_all} flows"
    )];
    if let Some((first, last)) = scan.times_ms() {
        lines.push(format!("times: {} to {}", time(first), time(last)));
    }
    let columns: Vec<_> = scan.read_columns().map(weir_flow::Column::name).collect();
    lines.push(if columns.is_empty() {
        "columns: none, rows are only counted".to_owned()
    } else {
        format!("columns: {}", columns.join(", "))
    });
    if let Some(filter) = scan.filter() {
        lines.push(format!("keep while reading: {filter}"));
        lines.push("segments and pages whose indexes have no such flow are left out when it runs".to_owned());
    }
    lines.extend(scan.fetch().map(|limit| format!("stop after {limit} rows")));
    lines
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| format!("{time:.3}"))
}

/// Groups are made once in each thread and then once more; only the last step is printed.
fn grouped(aggregate: &AggregateExec) -> Option<String> {
    if *aggregate.mode() == AggregateMode::Partial {
        return None;
    }
    let keys: Vec<_> = aggregate.group_expr().expr().iter().map(|(_, name)| plain(name)).collect();
    let values: Vec<_> = aggregate.aggr_expr().iter().map(|value| plain(value.name())).collect();
    Some(match (keys.is_empty(), values.is_empty()) {
        (true, _) => format!("compute {} over all rows", values.join(", ")),
        (false, true) => format!("keep one row of each {}", keys.join(", ")),
        (false, false) => format!("group by {} and compute {}", keys.join(", "), values.join(", ")),
    })
}

fn sorted(sort: &SortExec) -> String {
    let keys = sort.expr().iter().map(|key| {
        let direction = if key.options.descending { "descending" } else { "ascending" };
        format!("{} {direction}", plain(&key.expr))
    });
    let keys: Vec<_> = keys.collect();
    let first = sort.fetch().map(|limit| format!(", keep the first {limit}")).unwrap_or_default();
    format!("sort by {}{first}", keys.join(", "))
}

fn limited(skip: usize, fetch: Option<usize>) -> Option<String> {
    match (skip, fetch) {
        (0, None) => None,
        (0, Some(rows)) => Some(format!("keep the first {rows} rows")),
        (skip, None) => Some(format!("leave out the first {skip} rows")),
        (skip, Some(rows)) => Some(format!("leave out the first {skip} rows, and keep {rows}")),
    }
}

fn windowed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.map(|name| plain(&name)).collect();
    format!("compute for each row, from rows around it: {}", names.join(", "))
}

fn joined(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let by = |keys: Vec<String>, of: JoinType| format!("join both by {}: {}", keys.join(" and "), matches(of));
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let keys = join.on().iter().map(|(left, right)| format!("{} = {}", plain(left), plain(right)));
        return Some(by(keys.collect(), *join.join_type()));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let keys = join.on().iter().map(|(left, right)| format!("{} = {}", plain(left), plain(right)));
        return Some(by(keys.collect(), join.join_type()));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return Some(format!("compare each row of one with each of the other: {}", matches(*join.join_type())));
    }
    plan.downcast_ref::<CrossJoinExec>().map(|_| "pair each row of one with each of the other".to_owned())
}

fn matches(of: JoinType) -> &'static str {
    match of {
        JoinType::Inner => "pairs that match",
        JoinType::Left => "every row of the first, with its matches",
        JoinType::Right => "every row of the second, with its matches",
        JoinType::Full => "every row of both, with its matches",
        JoinType::LeftSemi | JoinType::RightSemi => "rows that have a match",
        JoinType::LeftAnti | JoinType::RightAnti => "rows that have no match",
        JoinType::LeftMark | JoinType::RightMark => "rows, marked where they have a match",
    }
}

/// What casts of whole numbers to decimals end with, which let sums and differences be exact.
const CAST_ENDS: [&str; 2] = [" AS Decimal128(20, 0))", " AS Decimal128(38, 0))"];

/// An expression without such casts of columns: `CAST(bytes@3 AS Decimal128(20, 0))` is `bytes@3`.
fn without_casts(text: &str) -> String {
    CAST_ENDS.iter().fold(text.to_owned(), |text, end| without_casts_of(&text, end))
}

fn without_casts_of(text: &str, end: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(end) {
        match before.rsplit_once("CAST(") {
            Some((start, column)) if !start.ends_with("TRY_") && !column.contains([' ', '(']) => {
                plain.push_str(start);
                plain.push_str(column);
            }
            _ => {
                plain.push_str(before);
                plain.push_str(end);
            }
        }
        rest = after;
    }
    plain + rest
}

/// An expression of the engine without what only the engine needs: `bytes@3` is `bytes`, and `count(Int64(1))` is `count(*)`.
fn plain(expression: &(impl Display + ?Sized)) -> String {
    let text = without_casts(&expression.to_string()).replace("count(Int64(1))", "count(*)");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('@') {
        plain.push_str(before);
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (number, behind) = after.split_at(end);
        let is_place = !number.is_empty() && !behind.starts_with(char::is_alphanumeric);
        if !is_place {
            plain.push('@');
            plain.push_str(number);
        }
        rest = behind;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    #[test]
    fn places_of_columns_are_left_out() {
        for (text, expected) in [
            ("bytes@3 + packets@12 > 80", "bytes + packets > 80"),
            ("count(Int64(1))@0", "count(*)"),
            (
                "CAST(bytes@3 AS Decimal128(20, 0)) - CAST(packets@12 AS Decimal128(20, 0)) > -80",
                "bytes - packets > -80",
            ),
            ("CAST(a@0 + b@1 AS Decimal128(20, 0)) * c@2", "CAST(a + b AS Decimal128(20, 0)) * c"),
            ("CAST(a@0 AS Decimal128(38, 0)) * CAST(8 AS Decimal128(20, 0))", "a * 8"),
            ("TRY_CAST(a@0 AS Decimal128(20, 0)) > 1", "TRY_CAST(a AS Decimal128(20, 0)) > 1"),
            ("user_agent@1 = ann@example.net", "user_agent = ann@example.net"),
            ("a@1b", "a@1b"),
            ("@", "@"),
        ] {
            assert_eq!(super::plain(text), expected);
        }
    }
}
