use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_chain::compliance::{self, Outcome};

use super::*;
use weir_rows::test_flows::{TestFlow, batch, flow, flows, full_batch, run};

/// What the documentation says, row by row.
struct Model {
    window_ms: i64,
    passes_late: bool,
    rows_max: usize,
    sheds: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Answer {
    rows: Vec<TestFlow>,
    late: u64,
    without_time: u64,
    shed: u64,
}

impl Model {
    fn run(&self, flows: &[TestFlow]) -> Answer {
        let mut answer = Answer::default();
        let (mut newest, mut floor): (Option<i64>, i64) = (None, i64::MIN);
        // time, order of arrival
        let mut held: Vec<(i64, usize)> = Vec::new();
        for (arrival, flow) in flows.iter().enumerate() {
            newest = newest.max(flow.start);
            let Some(newest) = newest else {
                answer.without_time += 1;
                answer.late += 1;
                if self.passes_late {
                    answer.rows.push(flow.clone());
                }
                continue;
            };
            let edge = floor.max(newest - self.window_ms);
            answer.without_time += u64::from(flow.start.is_none());
            match flow.start {
                Some(start) if start >= edge => held.push((start, arrival)),
                _ => {
                    answer.late += 1;
                    if self.passes_late {
                        held.push((edge, arrival));
                    }
                }
            }
            held.sort_unstable();
            // rows leave with their slice
            let slice_ms = 1 << (self.window_ms / 32).max(1).ilog2();
            while held.first().is_some_and(|row| row.0.div_euclid(slice_ms) < edge.div_euclid(slice_ms)) {
                answer.rows.push(flows[held.remove(0).1].clone());
            }
            if held.len() > self.rows_max && self.sheds {
                let rows = held.len().div_ceil(4);
                answer.shed += rows as u64;
                for (time, arrival) in held.drain(..rows) {
                    floor = floor.max(time);
                    answer.rows.push(flows[arrival].clone());
                }
            }
        }
        answer.rows.extend(held.into_iter().map(|row| flows[row.1].clone()));
        answer
    }
}

/// Starts that go forward with disorder, ties, jumps and gaps.
fn stream() -> impl Strategy<Value = Vec<TestFlow>> {
    let step = prop_oneof![20 => 0..3i64, 6 => 0..400i64, 1 => 0..100_000i64, 1 => -50_000..0i64];
    let lag = prop_oneof![4 => Just(0), 4 => 0..600i64, 1 => 0..5000i64];
    let row = (flow(Just(Some(0))), step, lag, proptest::bool::weighted(0.95));
    proptest::collection::vec(row, 1..200).prop_map(|rows| {
        let mut now = 1_000_000;
        let placed = rows.into_iter().map(|(flow, step, lag, has_start)| {
            now += step;
            let start = Some(now - lag).filter(|_| has_start);
            TestFlow { end: flow.end.and_then(|end| Some(end + start?)), start, ..flow }
        });
        placed.collect()
    })
}

fn sorter(options: &str) -> (Box<dyn Transform>, ComponentContext) {
    match compliance::open(&KIND, options) {
        (Built::Transform(block), context) => (block, context),
        _ => panic!("the sorter is a block"),
    }
}

fn answer(bursts: &[RecordBatch], counters: &HashMap<&str, u64>) -> Answer {
    Answer {
        rows: bursts.iter().flat_map(flows).collect(),
        late: counters["rows_late_dropped"] + counters["rows_late_passed"],
        without_time: counters["rows_without_time"],
        shed: counters["rows_shed"],
    }
}

fn counters(outcome: &Outcome) -> HashMap<&'static str, u64> {
    outcome.counters.iter().copied().collect()
}

/// Batches of the flows, cut at these places; columns that a batch has no value of are absent.
fn cut(flows: &[TestFlow], places: &[usize]) -> Vec<RecordBatch> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (flows.len() + 1)).collect();
    places.extend([0, flows.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| batch(&flows[pair[0]..pair[1]])).collect()
}

proptest! {
    // each case runs the block seven times
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn compliance_and_the_model_agree(
        flows in stream(),
        window_ms in prop_oneof![Just(0i64), Just(40), Just(500), Just(20_000)],
        passes_late in any::<bool>(),
        sheds in any::<bool>(),
        rows_max in prop_oneof![Just(1usize), 2..20usize, Just(1000)],
    ) {
        let model = Model { window_ms, passes_late, rows_max, sheds };
        let late = if passes_late { "pass" } else { "drop" };
        let when_full = if sheds { "shed" } else { "spill" };
        let options = format!(
            "window = '{window_ms}ms'\nlate = '{late}'\nwindow_rows_max = {rows_max}\nwhen_full = '{when_full}'"
        );
        let half = flows.len() / 2;
        let input = vec![full_batch(&flows[..half]), full_batch(&flows[half..])];
        let outcome = compliance::transform(&KIND, &options, &[input]);
        let found = answer(outcome.rows.as_slice(), &counters(&outcome));
        prop_assert_eq!(found, model.run(&flows));
        prop_assert!(outcome.counter("spill_failures") == 0);
    }

    #[test]
    fn batches_with_different_columns_are_sorted_the_same(
        flows in stream(),
        places in proptest::collection::vec(any::<usize>(), 0..20),
        rows_max in prop_oneof![2..20usize, Just(1000)],
    ) {
        let (mut block, context) = sorter(&format!("window = '500ms'\nlate = 'pass'\nwindow_rows_max = {rows_max}"));
        let bursts = run(block.as_mut(), &[cut(&flows, &places)]);
        let found = answer(&bursts, &context.counters.read().into_iter().collect());
        let model = Model { window_ms: 500, passes_late: true, rows_max, sheds: false };
        prop_assert_eq!(found, model.run(&flows));
    }
}

/// Flows of these starts, numbered by their ports.
fn numbered(starts: &[i64]) -> Vec<TestFlow> {
    let flow = |(number, start): (usize, &i64)| {
        let mut flow = TestFlow { start: Some(*start), ..TestFlow::default() };
        flow.key.src_port = Some(number as u16);
        flow
    };
    starts.iter().enumerate().map(flow).collect()
}

fn ports(bursts: &[RecordBatch]) -> Vec<u16> {
    bursts.iter().flat_map(flows).filter_map(|flow| flow.key.src_port).collect()
}

#[test]
fn a_row_of_the_time_of_the_edge_is_not_late() {
    let starts = [10_000, 9_900, 9_899, 10_001, 9_900];
    let (mut block, context) = sorter("window = '100ms'");
    let bursts = run(block.as_mut(), &[vec![batch(&numbered(&starts))]]);
    assert_eq!(ports(&bursts), [1, 0, 3]);
    assert_eq!(context.counters.counter("rows_late_dropped").get(), 2);
}

#[test]
fn a_late_row_that_is_passed_takes_the_place_of_the_edge() {
    let starts = [10_000, 9_950, 1, 9_900, 9_899];
    let (mut block, _) = sorter("window = '100ms'\nlate = 'pass'");
    let bursts = run(block.as_mut(), &[vec![batch(&numbered(&starts))]]);
    assert_eq!(ports(&bursts), [2, 3, 4, 1, 0]);
}

#[test]
fn rows_that_were_spilled_come_back_in_their_places() {
    let starts: Vec<i64> = (0..5000).map(|row| 1_000_000 + row * 3 - row * 7919 % 900).collect();
    let flows = numbered(&starts);
    let order = |rows_max: usize| {
        let (mut block, context) = sorter(&format!("window = '1s'\nwindow_rows_max = {rows_max}"));
        let bursts = run(block.as_mut(), &[flows.chunks(100).map(batch).collect()]);
        (ports(&bursts), context.counters.counter("rows_spilled").get())
    };
    let (unlimited, spilled) = order(5000);
    assert_eq!((unlimited.len(), spilled), (5000, 0));
    let (limited, spilled) = order(30);
    assert_eq!(limited, unlimited);
    assert!(spilled > 1000, "{spilled} rows were spilled");
}

#[test]
fn large_batches_that_are_held_and_small_ones_that_are_copied_are_sorted_the_same() {
    // Of a thousand rows most are within 200 ms, some within 20 s, so that slices both hold and copy.
    let starts: Vec<i64> = (0..20_000i64)
        .map(|row| 1_000_000 + row - if row % 7 == 0 { row * 7919 % 19_000 } else { row * 31 % 200 })
        .collect();
    let mut expected: Vec<(i64, usize)> = starts.iter().copied().zip(0..).collect();
    expected.sort_unstable();
    let expected: Vec<u16> = expected.iter().map(|row| row.1 as u16).collect();
    let flows = numbered(&starts);
    for (batch_rows, rows_max) in [(1000, 30_000), (5000, 30_000), (20_000, 30_000), (100, 30_000), (3000, 1000)] {
        let (mut block, _) = sorter(&format!("window_rows_max = {rows_max}"));
        let bursts = run(block.as_mut(), &[flows.chunks(batch_rows).map(batch).collect()]);
        assert!(ports(&bursts) == expected, "in batches of {batch_rows} rows, {rows_max} in memory");
    }
}

#[test]
fn a_disk_that_fails_means_shedding() {
    let starts: Vec<i64> = (0..100).rev().map(|row| 1_000_000 - row).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let absent = folder.path().join("absent");
    let (mut block, context) =
        sorter(&format!("window = '1s'\nwindow_rows_max = 10\nspill_folder = '{}'", absent.display()));
    let bursts = run(block.as_mut(), &[vec![batch(&numbered(&starts))]]);
    assert_eq!(ports(&bursts).len(), 100);
    let counters: HashMap<_, _> = context.counters.read().into_iter().collect();
    assert_eq!((counters["spill_failures"], counters["rows_spilled"]), (1, 0));
    assert!(counters["rows_shed"] > 0);
}

#[test]
fn no_file_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut block, context) =
        sorter(&format!("window = '1s'\nwindow_rows_max = 10\nspill_folder = '{}'", folder.path().display()));
    let mut out = Outlet::new();
    block.take(0, batch(&numbered(&[1000; 100])), &mut out).expect("rows");
    assert!(context.counters.counter("rows_spilled").get() > 0);
    assert_eq!(block.state().rows, 100);
    drop(block);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn times_at_the_ends_of_the_world_are_sorted() {
    let starts = [0, i64::MAX, i64::MIN, i64::MAX, 5];
    let (mut block, context) = sorter("window = '100ms'");
    let bursts = run(block.as_mut(), &[vec![batch(&numbered(&starts))]]);
    assert_eq!(ports(&bursts), [0, 1, 3]);
    assert_eq!(context.counters.counter("rows_late_dropped").get(), 2);
}

#[test]
fn a_column_that_is_no_time_is_refused() {
    let wrong = arrow::array::UInt64Array::from(vec![1]);
    let rows = RecordBatch::try_from_iter([("start", Arc::new(wrong) as arrow::array::ArrayRef)]).expect("a batch");
    let (mut block, _) = sorter("");
    let error = block.take(0, rows, &mut Outlet::new()).expect_err("no time");
    assert_eq!(error.to_string(), "column 'start' has type UInt64, but a time is needed");
}
