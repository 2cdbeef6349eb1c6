use std::collections::HashMap;

use arrow::array::{Array, AsArray};
use proptest::prelude::*;
use weir_chain::compliance;

use super::*;
use weir_rows::test_flows::{TestFlow, TestKey, batch, count, flow, flows, full_batch, key, run};

/// What the documentation says, with a list of flows that is searched for each record.
#[derive(Debug)]
struct Model {
    time: Column,
    waiting_ms: i64,
    duration_ms: i64,
    rows_max: usize,
    is_bi: bool,
    with_exporter: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Joined {
    /// Its exporter and type of service are those of the first record.
    flow: TestFlow,
    flows: u64,
    packets_reverse: Option<u64>,
    bytes_reverse: Option<u64>,
}

#[derive(Debug, Default, PartialEq)]
struct Answer {
    rows: Vec<Joined>,
    late: u64,
    shed: u64,
    without_time: u64,
}

/// A sum in which nulls do not count; null when there is nothing else.
fn add(sum: &mut Option<u64>, value: Option<u64>) {
    *sum = match (*sum, value) {
        (Some(sum), Some(value)) => Some(sum + value),
        (sum, value) => sum.or(value),
    };
}

impl Model {
    fn is_same(&self, joined: &Joined, record: &TestFlow) -> bool {
        let key = joined.flow.key == record.key || self.is_bi && joined.flow.key == record.key.reversed();
        key && (!self.with_exporter || joined.flow.exporter == record.exporter)
    }

    /// The record as a flow of its own.
    fn begin(record: &TestFlow, start: i64, end: i64) -> Joined {
        let flow = TestFlow { start: Some(start), end: Some(end), ..record.clone() };
        Joined { flow, flows: 1, packets_reverse: None, bytes_reverse: None }
    }

    fn add(joined: &mut Joined, record: &TestFlow, start: i64, end: i64) {
        let flow = &mut joined.flow;
        flow.start = flow.start.min(Some(start));
        flow.end = flow.end.max(Some(end));
        flow.tcp_flags = match (flow.tcp_flags, record.tcp_flags) {
            (Some(one), Some(other)) => Some(one | other),
            (one, other) => one.or(other),
        };
        joined.flows += 1;
        if flow.key == record.key {
            add(&mut flow.packets, record.packets);
            add(&mut flow.bytes, record.bytes);
        } else {
            add(&mut joined.packets_reverse, record.packets);
            add(&mut joined.bytes_reverse, record.bytes);
        }
    }

    fn run(&self, records: &[TestFlow]) -> Answer {
        let mut answer = Answer::default();
        // number and flow; time of leaving, number and flow
        let mut open: Vec<(usize, Joined)> = Vec::new();
        let mut closed: Vec<(i64, usize, Joined)> = Vec::new();
        let mut now = i64::MIN;
        let tick = |time: i64| time.div_euclid(1 << (self.waiting_ms / 1024).max(1).ilog2());
        let due = |joined: &Joined| joined.flow.end.expect("an end") + self.waiting_ms;
        for (number, record) in records.iter().enumerate() {
            let (Some(start), Some(end)) = (record.start.or(record.end), record.end.or(record.start)) else {
                answer.without_time += 1;
                continue;
            };
            now = now.max(if self.time == Column::Start { start } else { end });
            let passed = |(_, joined): &mut (usize, Joined)| tick(due(joined)) < tick(now);
            closed.extend(open.extract_if(.., passed).map(|(number, joined)| (due(&joined), number, joined)));
            let mut is_new = true;
            if let Some(at) = open.iter().position(|(_, joined)| self.is_same(joined, record)) {
                let joined = &mut open[at].1;
                let duration = joined.flow.end.max(Some(end)).expect("an end")
                    - joined.flow.start.min(Some(start)).expect("a start");
                if due(joined) < now {
                    let (number, joined) = open.remove(at);
                    closed.push((due(&joined), number, joined));
                } else if duration > self.duration_ms {
                    let (number, joined) = open.remove(at);
                    closed.push((now, number, joined));
                } else {
                    Self::add(joined, record, start, end);
                    is_new = false;
                }
            }
            if is_new && end + self.waiting_ms < now {
                answer.late += 1;
                closed.push((now, number, Self::begin(record, start, end)));
            } else if is_new {
                open.push((number, Self::begin(record, start, end)));
            }
            if open.len() > self.rows_max {
                open.sort_by_key(|(number, joined)| (joined.flow.end, *number));
                let shed = open.len().div_ceil(4);
                answer.shed += shed as u64;
                closed.extend(open.drain(..shed).map(|(number, joined)| (now, number, joined)));
            }
        }
        closed.extend(open.into_iter().map(|(number, joined)| (due(&joined), number, joined)));
        closed.sort_by_key(|(time, number, _)| (*time, *number));
        answer.rows = closed.into_iter().map(|(_, _, joined)| joined).collect();
        answer
    }
}

/// Records of few keys, mostly in the order of their ends, with ties, jumps and records out of order.
fn stream() -> impl Strategy<Value = Vec<TestFlow>> {
    let step = prop_oneof![20 => 0..800i64, 4 => 0..5000i64, 1 => 0..1_000_000i64];
    let lag = prop_oneof![8 => Just(0), 1 => 0..9000i64];
    let duration = prop_oneof![3 => Just(0), 5 => 0..3000i64, 1 => 0..40_000i64, 1 => -5..0i64];
    let times = prop_oneof![20 => Just((true, true)), 1 => Just((true, false)), 1 => Just((false, true)), 1 => Just((false, false))];
    let row = (flow(Just(Some(0))), any::<(u8, bool)>(), step, lag, duration, times);
    (proptest::collection::vec(key(), 1..6), proptest::collection::vec(row, 1..150)).prop_map(|(keys, rows)| {
        let mut now = 1_000_000;
        let placed = rows.into_iter().map(|(flow, (which, turned), step, lag, duration, (has_start, has_end))| {
            now += step;
            let end = now - lag;
            let key = &keys[usize::from(which) % keys.len()];
            let key = if turned { key.reversed() } else { key.clone() };
            TestFlow { key, start: has_start.then_some(end - duration), end: has_end.then_some(end), ..flow }
        });
        placed.collect()
    })
}

fn joined(rows: &RecordBatch) -> Vec<Joined> {
    let joined = |(row, flow): (usize, TestFlow)| Joined {
        flow,
        flows: count(rows, row, "flows").expect("a number of flows"),
        packets_reverse: count(rows, row, "packets_reverse"),
        bytes_reverse: count(rows, row, "bytes_reverse"),
    };
    flows(rows).into_iter().enumerate().map(joined).collect()
}

fn answer(bursts: &[RecordBatch], counters: &[(&'static str, u64)]) -> Answer {
    let counters: HashMap<_, _> = counters.iter().copied().collect();
    Answer {
        rows: bursts.iter().flat_map(joined).collect(),
        late: counters["rows_late"],
        shed: counters["rows_shed"],
        without_time: counters["rows_without_time"],
    }
}

fn model() -> impl Strategy<Value = Model> {
    let time = prop_oneof![Just(Column::Start), Just(Column::End)];
    let waiting = prop_oneof![Just(0i64), Just(3000), Just(5000), Just(60_000)];
    let duration = prop_oneof![Just(0i64), Just(10_000), Just(1_000_000_000)];
    let rows_max = prop_oneof![Just(1usize), 2..6usize, Just(1000)];
    (time, waiting, duration, rows_max, any::<[bool; 2]>()).prop_map(
        |(time, waiting_ms, duration_ms, rows_max, [is_bi, with_exporter])| Model {
            time,
            waiting_ms,
            duration_ms,
            rows_max,
            is_bi,
            with_exporter,
        },
    )
}

impl Model {
    /// The same as options. What is no part of the key is kept.
    fn options(&self) -> String {
        let five = "'src_addr', 'dst_addr', 'src_port', 'dst_port', 'protocol'";
        let lists = if self.with_exporter {
            format!("keys = [{five}, 'exporter']\nkeep = ['tos']")
        } else {
            "keep = ['exporter', 'tos']".to_owned()
        };
        format!(
            "{lists}\ntime = '{}'\ndirection = '{}'\nmax_waiting = '{}s'\nmax_duration = '{}s'\ntable_rows_max = {}",
            self.time,
            if self.is_bi { "bi" } else { "uni" },
            self.waiting_ms / 1000,
            self.duration_ms / 1000,
            self.rows_max,
        )
    }
}

fn joiner(options: &str) -> (Box<dyn Transform>, ComponentContext) {
    match compliance::open(&KIND, options) {
        (Built::Transform(block), context) => (block, context),
        _ => panic!("the joiner is a block"),
    }
}

proptest! {
    // each case runs the block seven times
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn compliance_and_the_model_agree(records in stream(), model in model()) {
        let half = records.len() / 2;
        let input = vec![full_batch(&records[..half]), full_batch(&records[half..])];
        let outcome = compliance::transform(&KIND, &model.options(), &[input]);
        prop_assert_eq!(answer(outcome.rows.as_slice(), &outcome.counters), model.run(&records));
    }

    #[test]
    fn batches_with_different_columns_are_joined_the_same(
        records in stream(),
        model in model(),
        rows in 1..20usize,
    ) {
        let (mut block, context) = joiner(&model.options());
        let bursts = run(block.as_mut(), &[records.chunks(rows).map(batch).collect()]);
        prop_assert_eq!(answer(&bursts, &context.counters.read()), model.run(&records));
    }
}

/// A record of the flow number so many, with times in seconds.
fn record(flow: u8, start: f64, end: f64, packets: u64) -> TestFlow {
    let address = |last| Some(vec![192, 0, 2, last]);
    TestFlow {
        key: TestKey {
            src_addr: address(flow),
            dst_addr: address(100),
            src_port: Some(40_000),
            dst_port: Some(443),
            protocol: Some(6),
        },
        start: Some((start * 1000.0) as i64),
        end: Some((end * 1000.0) as i64),
        packets: Some(packets),
        bytes: Some(packets * 100),
        tcp_flags: Some(1 << packets.min(5)),
        ..TestFlow::default()
    }
}

/// What a joined flow is about: source, start and end in seconds, packets, octets, records.
fn facts(joined: &Joined) -> (u8, f64, f64, u64, u64, u64) {
    let flow = &joined.flow;
    let secs = |time: Option<i64>| time.expect("a time") as f64 / 1000.0;
    let source = flow.key.src_addr.as_ref().expect("an address")[3];
    let (packets, bytes) = (flow.packets.expect("packets"), flow.bytes.expect("octets"));
    (source, secs(flow.start), secs(flow.end), packets, bytes, joined.flows)
}

/// Two flows as in figure 1 of Kögel and Scholz. The router exports flow 1 by its active timeout of 60 s, and in the
/// end by its inactive timeout of 15 s. Of flow 2 it first sees one packet, which the fast timeout exports, then some
/// more, which the inactive timeout exports after a break, then the cache is cleared in the middle of them. After ten
/// minutes a flow of the same key comes.
#[test]
fn the_scene_of_figure_1() {
    let exported = [
        (12.0, record(2, 10.0, 10.0, 1)),      // fast timeout
        (60.0, record(1, 0.0, 59.8, 600)),     // active timeout
        (65.0, record(2, 40.0, 50.0, 30)),     // inactive timeout
        (120.0, record(1, 60.1, 119.9, 610)),  // active timeout
        (130.0, record(2, 128.0, 129.9, 7)),   // cache clearing
        (130.0, record(1, 120.0, 129.9, 90)),  // cache clearing
        (148.0, record(2, 130.5, 133.0, 8)),   // inactive timeout
        (165.0, record(1, 130.4, 150.0, 200)), // inactive timeout
        (765.0, record(2, 750.0, 750.0, 1)),   // fast timeout
    ];
    assert!(exported.is_sorted_by_key(|(time, _)| *time), "as the collector gets them");
    let mut records: Vec<TestFlow> = exported.into_iter().map(|(_, record)| record).collect();
    assert!(!records.is_sorted_by_key(|record| record.end), "neither sorted by end");
    assert!(!records.is_sorted_by_key(|record| record.start), "nor by start");
    // what the sorter before the joiner does
    records.sort_by_key(|record| record.end);
    let (mut block, _) = joiner("");
    let found: Vec<_> = run(block.as_mut(), &[vec![batch(&records)]]).iter().flat_map(joined).collect();
    assert_eq!(
        found.iter().map(facts).collect::<Vec<_>>(),
        [(2, 10.0, 133.0, 46, 4600, 4), (1, 0.0, 150.0, 1500, 150_000, 4), (2, 750.0, 750.0, 1, 100, 1),]
    );
}

/// With less to wait than the active timeout each record is a flow.
#[test]
fn what_waits_too_short_is_not_joined() {
    let records = [record(1, 0.0, 59.8, 600), record(1, 60.1, 119.9, 610), record(1, 120.0, 129.9, 90)];
    let (mut block, _) = joiner("max_waiting = '60s'");
    let found: Vec<_> = run(block.as_mut(), &[vec![batch(&records)]]).iter().flat_map(joined).collect();
    assert_eq!(
        found.iter().map(facts).collect::<Vec<_>>(),
        [(1, 0.0, 59.8, 600, 60_000, 1), (1, 60.1, 129.9, 700, 70_000, 2)]
    );
}

#[test]
fn a_flow_of_hours_leaves_in_pieces() {
    let records: Vec<TestFlow> =
        (0..120).map(|n| record(1, f64::from(n) * 60.0, f64::from(n) * 60.0 + 59.0, 2)).collect();
    let (mut block, _) = joiner("max_duration = '1800s'");
    let found: Vec<_> = run(block.as_mut(), &[vec![batch(&records)]]).iter().flat_map(joined).collect();
    let pieces: Vec<_> = found.iter().map(|joined| (facts(joined).1, facts(joined).2, joined.flows)).collect();
    assert_eq!(pieces, [(0.0, 1799.0, 30), (1800.0, 3599.0, 30), (3600.0, 5399.0, 30), (5400.0, 7199.0, 30)]);
}

#[test]
fn limits_are_kept_to_the_millisecond() {
    let pieces = |second: TestFlow, options: &str| {
        let (mut block, _) = joiner(options);
        run(block.as_mut(), &[vec![batch(&[record(1, 0.0, 1.0, 1), second])]]).iter().flat_map(joined).count()
    };
    assert_eq!(pieces(record(1, 9.0, 10.0, 1), "max_duration = '10s'"), 1);
    assert_eq!(pieces(record(1, 9.0, 10.001, 1), "max_duration = '10s'"), 2);
    assert_eq!(pieces(record(1, 9.0, 11.0, 1), "max_waiting = '10s'"), 1);
    assert_eq!(pieces(record(1, 9.0, 11.001, 1), "max_waiting = '10s'"), 2);
    assert_eq!(pieces(record(1, 11.0, 12.0, 1), "max_waiting = '10s'\ntime = 'start'"), 1);
    assert_eq!(pieces(record(1, 11.001, 12.0, 1), "max_waiting = '10s'\ntime = 'start'"), 2);
}

#[test]
fn both_directions_are_one_flow_when_asked_for() {
    let request = record(1, 0.0, 2.0, 3);
    let answer = TestFlow { key: request.key.reversed(), ..record(1, 0.1, 2.1, 40) };
    let (mut block, _) = joiner("direction = 'bi'");
    let found: Vec<_> = run(block.as_mut(), &[vec![batch(&[request, answer])]]).iter().flat_map(joined).collect();
    assert_eq!(found.iter().map(facts).collect::<Vec<_>>(), [(1, 0.0, 2.1, 3, 300, 2)]);
    assert_eq!((found[0].packets_reverse, found[0].bytes_reverse), (Some(40), Some(4000)));
}

#[test]
fn thousands_of_flows_split_again_and_again_do_not_fill_the_table() {
    let (mut block, context) = joiner("max_duration = 0\ntable_rows_max = 1000\nmax_waiting = '3600s'");
    let mut out = Outlet::new();
    let (mut rows, mut octets_max) = (0, 0);
    for turn in 0..1200 {
        let records: Vec<TestFlow> =
            (0..200).map(|flow| record(flow, f64::from(turn), f64::from(turn) + 0.5, 1)).collect();
        block.take(0, batch(&records), &mut out).expect("records are joined");
        rows += out.drain().map(|burst| burst.len()).sum::<usize>();
        octets_max = octets_max.max(block.state().octets);
    }
    block.finish(&mut out).expect("flows leave");
    rows += out.drain().map(|burst| burst.len()).sum::<usize>();
    assert_eq!((rows, context.counters.counter("rows_shed").get()), (240_000, 0));
    assert!(octets_max < 12_000_000, "{octets_max} octets for 200 flows");
}

#[test]
fn a_row_that_cannot_be_joined_is_counted() {
    let mut long = record(1, 0.0, 1.0, 1);
    long.key.src_addr = Some(vec![1; 17]);
    let timeless = TestFlow { start: None, end: None, ..record(1, 0.0, 1.0, 1) };
    let (mut block, context) = joiner("");
    let found = run(block.as_mut(), &[vec![batch(&[long, timeless, record(1, 0.0, 1.0, 1)])]]);
    assert_eq!(found.iter().flat_map(joined).count(), 1);
    let counters: HashMap<_, _> = context.counters.read().into_iter().collect();
    assert_eq!((counters["rows_without_key"], counters["rows_without_time"]), (1, 1));
}

#[test]
fn joined_flows_are_flows() {
    let (mut block, _) = joiner("direction = 'bi'\nkeep = ['exporter', 'tos', 'received', 'in_if']");
    let found = run(block.as_mut(), &[vec![batch(&[record(1, 0.0, 1.0, 1)])]]);
    let flows = weir_flow::FlowBatch::try_new(found[0].clone()).expect("columns of flows, in order");
    assert_eq!(flows.column(Column::Received).expect("a column").null_count(), 1);
    assert_eq!(flows.binary(Column::SrcAddr).expect("addresses").value(0), [192, 0, 2, 1]);
    let none = found[0].column_by_name("packets_reverse").expect("a column");
    assert!(none.as_primitive::<arrow::datatypes::UInt64Type>().is_null(0));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let refused = |text: &str| weir_chain::options::parse(text).and_then(configure).err().expect("an error").message;
    assert_eq!(refused("keys = ['src_adr']"), "'src_adr' is not a column of flows");
    assert_eq!(refused("keys = []"), "'keys' names no column");
    assert_eq!(refused("keys = 'start'"), "'start' cannot be a part of the key");
    assert_eq!(refused("keys = ['src_addr']\ndirection = 'bi'"), "'direction' is \"bi\", but 'keys' has no 'dst_addr'");
    assert_eq!(refused("keep = 'packets'"), "a joined flow has 'packets' already");
    assert_eq!(refused("keep = 'elements'"), "'elements' cannot be kept");
}
