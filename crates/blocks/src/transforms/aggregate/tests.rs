//! Tests of the aggregate.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;
use weir_chain::AnyKind;
use weir_chain::compliance::{self, Outcome};
use weir_flow::{FlowBatch, FlowBatchBuilder};
use weir_generate::TrafficModel;

use super::*;
use weir_rows::naive::{self, Group, Key, Row, Settings};

const AGGREGATE: &dyn AnyKind = &KIND;

fn refusal(options: &str) -> String {
    weir_chain::options::parse(options).and_then(configure).err().expect("a mistake").message
}

#[test]
fn complies() {
    let model = TrafficModel { hosts: 1 << 10, flows_per_second: 100, ipv6_permille: 300, ..TrafficModel::new(4) };
    let flows: Vec<_> = model.flows(9_000).expect("a model").map(|batch| batch.record_batch().clone()).collect();
    let options = "keys = ['src_addr', 'protocol']\nwindow = '10s'\nlateness = '30s'\nmax = 'src_as'";
    let outcome = compliance::transform(AGGREGATE, options, std::slice::from_ref(&flows));
    let rows = FlowBatch::try_new(outcome.rows.clone().expect("rows")).expect("flows");
    let sum =
        |column| flows.iter().map(|rows| FlowBatch::try_new(rows.clone()).expect("flows").sum(column)).sum::<u64>();
    assert_eq!(rows.sum(Column::Flows) + outcome.counter("rows_late_dropped"), 9_000);
    assert!((1..4_000).contains(&outcome.counter("rows_late_dropped")), "{:?}", outcome.counters);
    assert!(rows.sum(Column::Bytes) < sum(Column::Bytes));
    let whole = compliance::transform(AGGREGATE, "keys = []\nwindow = 0", std::slice::from_ref(&flows));
    let whole = FlowBatch::try_new(whole.rows.expect("rows")).expect("flows");
    assert_eq!(whole.rows(), 1);
    for column in [Column::Packets, Column::Bytes] {
        assert_eq!(whole.sum(column), sum(column));
    }
}

/// Each handed-on row, next to the group that it must be.
fn check(outcome: &Outcome, expected: &naive::Grouped<'_>, has_key: bool) {
    let counts = [
        ("rows_late_dropped", expected.late),
        ("rows_without_time_dropped", expected.without_time),
        ("rows_shed", expected.shed),
    ];
    for (name, count) in counts {
        assert_eq!(outcome.counter(name), count, "{name}");
    }
    assert_eq!(outcome.len(), expected.groups.len());
    let Some(rows) = &outcome.rows else { return };
    let column = |value: fn(&Group<'_>) -> Option<i128>| expected.groups.iter().map(value).collect::<Vec<_>>();
    let times = |times: &mut dyn Iterator<Item = Option<i64>>, largest: bool| {
        let times = times.flatten();
        if largest { times.max() } else { times.min() }.map(i128::from)
    };
    assert_eq!(naive::numbers(rows, "packets"), column(|group| naive::sum(group.rows.iter().map(|row| row.packets))));
    assert_eq!(naive::numbers(rows, "bytes"), column(|group| naive::sum(group.rows.iter().map(|row| row.bytes))));
    let flows = column(|group| naive::sum(group.rows.iter().map(|row| row.flows.or(Some(1)))));
    assert_eq!(naive::numbers(rows, "flows"), flows);
    let starts = expected.groups.iter().map(|group| times(&mut group.rows.iter().map(|row| row.start_ms), false));
    assert_eq!(naive::numbers(rows, "start"), starts.collect::<Vec<_>>());
    let ends = expected.groups.iter().map(|group| times(&mut group.rows.iter().map(|row| row.end_ms), true));
    assert_eq!(naive::numbers(rows, "end"), ends.collect::<Vec<_>>());
    if has_key {
        let keys: Vec<_> = expected.groups.iter().map(|group| group.key.clone()).collect();
        let ports = naive::numbers(rows, "src_port").into_iter().map(|port| port.map(|port| port as u16));
        let found: Vec<Key> = naive::octets(rows, "src_addr").into_iter().zip(ports).collect();
        assert_eq!(found, keys);
    }
    let flows = FlowBatch::try_new(rows.clone()).expect("aggregated flows are flows");
    assert_eq!(flows.rows(), expected.groups.len());
}

/// As IPv4/24 and IPv6/72.
fn cut(row: &Row) -> Key {
    let mut src = row.src.clone();
    if let Some(octets) = &mut src {
        let whole = if octets.len() == 4 { 3 } else { 9 };
        octets[whole..].fill(0);
    }
    (src, row.port)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn groups_are_those_of_a_loop_over_rows(
        rows in naive::rows(), width_ms in 0_i64..900, lateness_ms in 0_i64..500, groups_max in 1_usize..12,
        hand_on: bool, keyed: bool,
    ) {
        let settings = Settings { width_ms, lateness_ms, groups_max, hand_on };
        let expected = naive::group(&rows, settings, |row| if keyed { cut(row) } else { (None, None) });
        let keys = if keyed { "['src_addr/24/72', 'src_port']" } else { "[]" };
        let when_full = if hand_on { "hand-on" } else { "shed" };
        let options = format!(
            "keys = {keys}\nwindow = '{width_ms}ms'\nlateness = '{lateness_ms}ms'\ngroups_max = {groups_max}\nwhen_full = '{when_full}'"
        );
        let batches = if rows.is_empty() { vec![] } else { vec![naive::batch(&rows)] };
        let outcome = compliance::transform(AGGREGATE, &options, &[batches]);
        check(&outcome, &expected, keyed);
        if hand_on {
            prop_assert_eq!(outcome.counter("groups_handed_on_early"), expected.early);
        }
    }
}

#[test]
fn sums_that_do_not_fit_are_counted() {
    let row = |bytes| Row { start_ms: Some(0), bytes: Some(bytes), packets: Some(1), ..Row::default() };
    let rows = naive::batch(&[row(u64::MAX), row(0), row(1)]);
    let outcome = compliance::transform(AGGREGATE, "keys = []", &[vec![rows.clone(), rows.slice(0, 1)]]);
    assert_eq!(naive::numbers(outcome.rows.as_ref().expect("rows"), "bytes"), [Some(u64::MAX.into())]);
    assert_eq!(outcome.counter("values_saturated"), 1);
    let outcome = compliance::transform(AGGREGATE, "keys = []", &[vec![rows.slice(0, 2)]]);
    assert_eq!(naive::numbers(outcome.rows.as_ref().expect("rows"), "bytes"), [Some(u64::MAX.into())]);
    assert_eq!(outcome.counter("values_saturated"), 0);
}

#[test]
fn numbers_with_a_sign_are_summed_up_and_compared() {
    let fields = ["change", "least", "most"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let check = |values: &[Option<i64>], [sum, min, max]: [Option<i64>; 3], saturated: u64| {
        let column = Arc::new(Int64Array::from(values.to_vec()));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![column.clone(), column.clone(), column]);
        let options = "keys = []\nwindow = 0\nsum = 'change'\nmin = 'least'\nmax = 'most'";
        let outcome = compliance::transform(AGGREGATE, options, &[vec![rows.expect("rows")]]);
        let found = outcome.rows.as_ref().expect("rows");
        for (name, value) in [("change", sum), ("least", min), ("most", max)] {
            assert_eq!(naive::numbers(found, name), [value.map(i128::from)], "{name} of {values:?}");
        }
        assert_eq!(outcome.counter("values_saturated"), saturated, "{values:?}");
    };
    let (min, max) = (Some(i64::MIN), Some(i64::MAX));
    check(&[Some(-5), None, Some(3)], [Some(-2), Some(-5), Some(3)], 0);
    check(&[Some(-5), Some(-3)], [Some(-8), Some(-5), Some(-3)], 0);
    check(&[max, max, Some(-i64::MAX)], [max, Some(-i64::MAX), max], 0);
    check(&[min, min, max, max, Some(7)], [Some(5), min, max], 0);
    check(&[max, Some(1)], [max, Some(1), max], 1);
    check(&[min, Some(-1)], [min, min, Some(-1)], 1);
    check(&[None], [None; 3], 0);
}

#[test]
fn other_columns_are_folded_too() {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    builder.time(Column::Start).extend([10, 20, 30].into_iter());
    builder.u8(Column::MinTtl).extend([64, 3, 200].into_iter());
    builder.u8(Column::MaxTtl).extend([64, 255, 200].into_iter());
    builder.u64(Column::BytesOut).extend([1, 2, 3].into_iter());
    let flows = builder.finish().record_batch().clone();
    let options = "keys = 'min_ttl'\nsum = ['bytes_out']\nmin = []\nmax = ['max_ttl', 'received']";
    let outcome = compliance::transform(AGGREGATE, options, &[vec![flows.clone()]]);
    assert_eq!(outcome.len(), 3);
    let options = "keys = []\nsum = ['bytes_out']\nmin = 'min_ttl'\nmax = ['max_ttl', 'received']";
    let outcome = compliance::transform(AGGREGATE, options, &[vec![flows]]);
    let rows = outcome.rows.expect("rows");
    assert_eq!(naive::names(&rows), ["received", "start", "end", "bytes_out", "flows", "min_ttl", "max_ttl"]);
    let only = |name| naive::numbers(&rows, name)[0];
    assert_eq!((only("bytes_out"), only("min_ttl"), only("max_ttl")), (Some(6), Some(3), Some(255)));
    assert_eq!((only("received"), only("start"), only("end"), only("flows")), (None, Some(10), None, Some(3)));
    assert!(FlowBatch::try_new(rows).is_ok());
}

#[test]
fn rows_that_are_no_flows_have_groups() {
    let fields = vec![
        Field::new("site", DataType::Utf8, false),
        Field::new("change", DataType::Int64, true),
        Field::new("level", DataType::UInt8, true),
    ];
    let rows = RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        vec![
            Arc::new(StringArray::from(vec!["b", "a", "b"])),
            Arc::new(Int64Array::from(vec![Some(-5), None, Some(2)])),
            Arc::new(UInt8Array::from(vec![200, 1, 100])),
        ],
    )
    .expect("rows");
    let options = "keys = 'site'\nwindow = 0\nsum = ['change', 'level']";
    let outcome = compliance::transform(AGGREGATE, options, &[vec![rows.clone()]]);
    let found = outcome.rows.expect("rows");
    assert_eq!(naive::names(&found), ["start", "end", "flows", "site", "change", "level"]);
    assert_eq!(naive::numbers(&found, "change"), [Some(-3), None]);
    assert_eq!(naive::numbers(&found, "level"), [Some(300), Some(1)]);
    let (Built::Transform(mut block), _) = compliance::open(AGGREGATE, "keys = []\nsum = 'speed'\nwindow = 0") else {
        panic!("a transform")
    };
    let error = block.take(0, rows.clone(), &mut Outlet::new()).expect_err("no such column");
    assert_eq!(error.chain(), "input has no column 'speed'; it has site, change, level");
    let (Built::Transform(mut block), _) = compliance::open(AGGREGATE, "keys = []\ntime = 'site'") else {
        panic!("a transform")
    };
    let error = block.take(0, rows, &mut Outlet::new()).expect_err("no time");
    assert_eq!(error.chain(), "column 'site' has type Utf8, but a time in milliseconds is needed");
}

#[test]
fn mistakes_are_told() {
    assert_eq!(refusal("keys = 'bytes'"), "'bytes' would be handed on twice");
    assert_eq!(refusal("keys = []\nmin = 'packets'"), "'packets' would be handed on twice");
    assert_eq!(refusal("keys = []\nsum = 'flows'"), "'flows' would be handed on twice");
    assert_eq!(refusal("keys = []\nsum = 'src_port'"), "'src_port' holds no sums");
    assert_eq!(refusal("keys = []\nmax = 'src_addr'"), "'src_addr' holds neither numbers nor times");
    assert_eq!(refusal("keys = []\nwindow = '0.1ms'"), "'window': '0.1ms' is not a duration");
    assert_eq!(refusal("keys = []\ntime = 'bytes'"), "'bytes' is no column of times");
}
