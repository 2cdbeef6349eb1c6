//! The correlator against a naive one that looks at every pair.

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMillisecondType, UInt64Type};
use proptest::prelude::*;
use weir_chain::AnyKind;
use weir_chain::compliance::{self, Outcome};
use weir_flow::{Column, FlowBatchBuilder};

use super::*;

/// The compliance test takes a reference that lives as long as the program.
const CORRELATOR: &dyn AnyKind = &KIND;

/// A flow of the tests: which key it has, and what the correlator looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    key: u8,
    start: i64,
    end: Option<i64>,
    packets: u64,
}

fn flow(key: u8, start: i64, end: i64, packets: u64) -> Flow {
    Flow { key, start, end: Some(end), packets }
}

/// Keys differ in one value each: IPv4 and IPv6 addresses of the same octets, null and 0.
fn batch(flows: &[Flow]) -> Vec<RecordBatch> {
    if flows.is_empty() {
        return Vec::new();
    }
    let mut builder = FlowBatchBuilder::new(flows.len());
    for flow in flows {
        builder.begin_rows(1);
        builder.time(Column::Start).push(Some(flow.start));
        builder.time(Column::End).push(flow.end);
        let wide = [10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let source = match flow.key {
            0 => Some(&wide[..4]),
            1 => Some(&wide[..]),
            2 => None,
            _ => Some(&[10, 0, 0, 2][..]),
        };
        builder.address(Column::SrcAddr).push(source);
        builder.address(Column::DstAddr).push(Some(&[192, 0, 2, 9]));
        builder.u16(Column::SrcPort).push((flow.key != 3).then_some(0));
        builder.u16(Column::DstPort).push(Some(u16::from(flow.key)));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u64(Column::Packets).push(Some(flow.packets));
        builder.u64(Column::Bytes).push(Some(flow.packets * 100));
    }
    vec![builder.finish().record_batch().clone()]
}

fn correlate(options: &str, first: &[Flow], second: &[Flow]) -> Outcome {
    compliance::transform(CORRELATOR, options, &[batch(first), batch(second)])
}

/// For each row handed on: packets of the first and of the second, which tell rows apart in the tests.
fn pairs(outcome: &Outcome) -> Vec<(Option<u64>, Option<u64>)> {
    let Some(rows) = &outcome.rows else { return Vec::new() };
    let column = |name| rows.column_by_name(name).expect("a column").as_primitive::<UInt64Type>();
    column("packets").iter().zip(column("packets_second")).collect()
}

#[test]
fn two_routers_are_compared() {
    // the second sees packets 30 ms later, loses 2 of 10, and does not see the second flow at all
    let first = [flow(0, 1_000, 5_000, 10), flow(1, 2_000, 5_500, 7), flow(4, 4_000, 6_000, 3)];
    let second = [flow(0, 1_030, 5_030, 8), flow(4, 4_045, 6_020, 3)];
    let outcome = correlate("window = '1s'", &first, &second);
    assert_eq!(pairs(&outcome), [(Some(10), Some(8)), (Some(3), Some(3))]);
    assert_eq!((outcome.counter("rows_unmatched_first"), outcome.counter("rows_unmatched_second")), (1, 0));
    let rows = outcome.rows.expect("rows");
    let numbers = |name| rows.column_by_name(name).expect("a column").as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(numbers("start_difference_ms"), [30, 45]);
    assert_eq!(numbers("end_difference_ms"), [30, 20]);
    assert_eq!(numbers("packets_difference"), [2, 0]);
    assert_eq!(numbers("bytes_difference"), [200, 0]);
    let starts = rows.column_by_name("start_second").expect("a column").as_primitive::<TimestampMillisecondType>();
    assert_eq!(starts.values(), &[1_030, 4_045]);
}

#[test]
fn only_the_columns_asked_for_are_handed_on() {
    let (first, second) = ([flow(0, 1_000, 5_000, 10)], [flow(0, 1_030, 5_030, 8)]);
    let all = correlate("", &first, &second).rows.expect("rows");
    for asked in [&["end", "packets_difference"][..], &["dst_port", "bytes"], &["start_second"]] {
        let names: Vec<_> = asked.iter().map(|name| format!("'{name}'")).collect();
        let rows = correlate(&format!("columns = [{}]", names.join(", ")), &first, &second).rows.expect("rows");
        assert_eq!(rows.num_columns(), asked.len());
        assert!(asked.iter().all(|name| rows.column_by_name(name) == all.column_by_name(name)), "{asked:?}");
    }
    let refused = |options| weir_chain::options::parse(options).and_then(configure).err().expect("an error").message;
    assert_eq!(refused("columns = ['color']"), "matches have no column 'color'");
    assert_eq!(refused("columns = []"), "'columns' names no column");
}

#[test]
fn keys_are_compared_exactly() {
    let first: Vec<_> = (0..5).map(|key| flow(key, 0, 10, u64::from(key))).collect();
    let second: Vec<_> = (0..5).rev().map(|key| flow(key, 0, 10, u64::from(key))).collect();
    let outcome = correlate("", &first, &second);
    assert_eq!(outcome.len(), 5);
    assert!(pairs(&outcome).iter().all(|(first, second)| first == second), "{:?}", pairs(&outcome));
}

#[test]
fn the_window_ends_where_it_says() {
    for (gap, matched) in [(2_000, 1), (2_001, 0)] {
        let outcome = correlate("window = '2s'", &[flow(0, 0, 0, 1)], &[flow(0, 0, gap, 2)]);
        assert_eq!(outcome.len(), matched, "{gap} ms");
    }
    let options = "window = '2s'\ntime = 'start'";
    assert_eq!(correlate(options, &[flow(0, 0, 0, 1)], &[flow(0, 1_000, 9_000, 2)]).len(), 1);
}

#[test]
fn rows_without_a_partner_are_passed_on_when_asked() {
    let first = [flow(0, 0, 10, 1), flow(1, 0, 20, 2)];
    let second = [flow(2, 0, 15, 3), flow(1, 0, 30, 4), flow(2, 0, 90_000, 5)];
    let outcome = correlate("unmatched = 'pass'", &first, &second);
    assert_eq!(pairs(&outcome), [(Some(2), Some(4)), (Some(1), None), (None, Some(3)), (None, Some(5))]);
}

#[test]
fn over_the_limit_the_oldest_leaves() {
    let first: Vec<_> = (0..10).map(|at| flow(0, 0, at, at as u64)).collect();
    let outcome = correlate("window_rows_max = 4\nunmatched = 'pass'", &first, &[flow(0, 0, 9, 100)]);
    assert_eq!(outcome.counter("rows_shed"), 6);
    assert_eq!(pairs(&outcome)[6], (Some(6), Some(100)), "the oldest that is left");
    assert_eq!(outcome.len(), 10);
}

#[test]
fn rows_out_of_order_or_without_a_time_are_counted() {
    let none = Flow { end: None, ..flow(0, 0, 0, 9) };
    let first = [flow(0, 0, 100, 1), flow(0, 0, 50, 2), none];
    let outcome = correlate("", &first, &[flow(0, 0, 100, 3)]);
    assert_eq!((outcome.counter("rows_late_dropped"), outcome.counter("rows_without_time")), (1, 1));
    assert_eq!(pairs(&outcome), [(Some(1), Some(3))]);
}

/// The same by looking at all rows again and again.
fn naive(first: &[Flow], second: &[Flow], window_ms: i64) -> Vec<(Option<u64>, Option<u64>)> {
    let mut merged: Vec<(i64, usize, Flow)> = Vec::new();
    merged.extend(first.iter().map(|flow| (flow.end.expect("a time"), 0, *flow)));
    merged.extend(second.iter().map(|flow| (flow.end.expect("a time"), 1, *flow)));
    merged.sort_by_key(|(time, input, _)| (*time, *input));
    let mut used = vec![false; merged.len()];
    let mut found = Vec::new();
    for at in 0..merged.len() {
        let (time, input, flow) = merged[at];
        let partner = (0..at).find(|&other| {
            let (other_time, other_input, other_flow) = merged[other];
            !used[other] && other_input != input && other_flow.key == flow.key && time - other_time <= window_ms
        });
        if let Some(other) = partner {
            used[at] = true;
            used[other] = true;
            let packets = [at, other].map(|row| Some(merged[row].2.packets));
            found.push(if input == 0 { (packets[0], packets[1]) } else { (packets[1], packets[0]) });
        }
    }
    found
}

fn sorted_flows() -> impl Strategy<Value = Vec<Flow>> {
    prop::collection::vec((0..5_u8, 0..20_000_i64), 0..60).prop_map(|mut flows| {
        flows.sort_by_key(|(_, end)| *end);
        // packets number the rows
        flows.iter().enumerate().map(|(number, &(key, end))| flow(key, end - 5, end, number as u64)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn as_the_naive_one(first in sorted_flows(), second in sorted_flows(), window_ms in 0..4_000_i64) {
        let options = format!("window = '{window_ms}ms'");
        let outcome = correlate(&options, &first, &second);
        prop_assert_eq!(pairs(&outcome), naive(&first, &second, window_ms));
        let unmatched = outcome.counter("rows_unmatched_first") + outcome.counter("rows_unmatched_second");
        prop_assert_eq!(unmatched as usize + 2 * outcome.len(), first.len() + second.len());
    }
}
