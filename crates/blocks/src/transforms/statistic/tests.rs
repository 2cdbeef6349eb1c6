//! Tests of statistics.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use proptest::prelude::*;
use weir_chain::AnyKind;
use weir_chain::compliance::{self, Outcome};
use weir_generate::TrafficModel;

use super::*;
use weir_rows::naive::{self, Row, Settings};

const STATISTIC: &dyn AnyKind = &KIND;

fn refusal(options: &str) -> (String, String) {
    let error = weir_chain::options::parse(options).and_then(configure).err().expect("a mistake");
    (error.key, error.message)
}

fn texts(rows: &RecordBatch, name: &str) -> Vec<String> {
    let column = rows.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    column.as_string::<i32>().iter().map(|text| text.expect("a text").to_owned()).collect()
}

fn floats(rows: &RecordBatch, name: &str) -> Vec<Option<f64>> {
    let column = rows.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    column.as_primitive::<Float64Type>().iter().collect()
}

fn numbers(values: &[Option<i64>]) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("rtt", DataType::Int64, true)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec()))]).expect("rows")
}

#[test]
fn complies() {
    let model = TrafficModel { hosts: 1 << 10, flows_per_second: 100, ..TrafficModel::new(4) };
    let flows: Vec<_> = model.flows(9_000).expect("a model").map(|batch| batch.record_batch().clone()).collect();
    let options = "of = ['packets', 'bytes', 'tcp_flags']\nkeys = ['protocol']\nwindow = '20s'\nlateness = '5s'\n\
                      histogram = 'log2'\nquantiles = ['0', '0.5', '99.9%', '1']";
    let outcome = compliance::transform(STATISTIC, options, &[flows]);
    let rows = outcome.rows.as_ref().expect("rows");
    let expected = "interval_start protocol measure count nulls sum mean variance min max p0 p50 p99_9 p100 histogram";
    assert_eq!(naive::names(rows).join(" "), expected);
    assert_eq!(naive::numbers(rows, "p0"), naive::numbers(rows, "min"));
    assert_eq!(naive::numbers(rows, "p100"), naive::numbers(rows, "max"));
    let counts: i128 = naive::numbers(rows, "count").into_iter().flatten().sum();
    assert_eq!(counts as u64, 3 * (9_000 - outcome.counter("rows_late_dropped")));
    assert!(outcome.state_max.octets > 10_000);
}

#[test]
fn a_scene_that_fits_a_sheet_of_paper() {
    let values = [Some(-4), Some(0), None, Some(9), Some(3), None, Some(12)];
    let options = "of = 'rtt'\nwindow = 0\nquantiles = ['p50', 'p25']\nhistogram = 'linear'\n\
                      histogram_bucket_width = 10";
    let outcome = compliance::transform(STATISTIC, options, &[vec![numbers(&values)]]);
    let rows = outcome.rows.expect("rows");
    assert_eq!(naive::names(&rows).join(" "), "measure count nulls sum mean variance min max p50 p25 histogram");
    let only = |name| naive::numbers(&rows, name)[0];
    assert_eq!((only("count"), only("nulls"), only("sum")), (Some(5), Some(2), Some(20)));
    assert_eq!((only("min"), only("max"), only("p50"), only("p25")), (Some(-4), Some(12), Some(3), Some(0)));
    // (64 + 16 + 25 + 1 + 64) / 5
    assert_eq!((floats(&rows, "mean"), floats(&rows, "variance")), (vec![Some(4.0)], vec![Some(34.0)]));
    assert_eq!(
        (texts(&rows, "measure"), texts(&rows, "histogram")),
        (vec!["rtt".to_owned()], vec!["-10:1 0:3 10:1".to_owned()])
    );
}

#[test]
fn nothing_but_nulls() {
    let rows = numbers(&[None, None]);
    let outcome = compliance::transform(STATISTIC, "of = ['rtt', 'packets']\nwindow = 0", &[vec![rows]]);
    let rows = outcome.rows.expect("rows");
    assert_eq!((naive::numbers(&rows, "count"), naive::numbers(&rows, "nulls")), (vec![Some(0); 2], vec![Some(2); 2]));
    for name in ["sum", "mean", "variance", "min", "max", "p50", "p99"] {
        assert_eq!(rows.column_by_name(name).expect("a column").null_count(), 2, "{name}");
    }
    let outcome = compliance::transform(STATISTIC, "of = 'rtt'", &[vec![]]);
    assert!(outcome.is_empty());
}

#[test]
fn sums_that_do_not_fit_are_counted() {
    let rows = numbers(&[Some(i64::MIN), Some(-1)]);
    let outcome = compliance::transform(STATISTIC, "of = 'rtt'\nwindow = 0", &[vec![rows]]);
    assert_eq!(naive::numbers(outcome.rows.as_ref().expect("rows"), "sum"), [Some(i64::MIN.into())]);
    assert_eq!(outcome.counter("values_saturated"), 1);
}

fn at_rank(values: &[i128], percent: usize) -> i128 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(percent * values.len()).div_ceil(100).max(1) - 1]
}

/// Compares each handed-on row with the values of its group.
fn check(outcome: &Outcome, expected: &naive::Grouped<'_>) {
    assert_eq!(outcome.counter("rows_shed"), expected.shed);
    assert_eq!(outcome.counter("rows_late_dropped"), expected.late);
    assert_eq!(outcome.len(), 2 * expected.groups.len());
    let Some(found) = &outcome.rows else { return };
    let columns = ["count", "nulls", "sum", "min", "max", "p50", "p90"].map(|name| naive::numbers(found, name));
    let moments = ["mean", "variance"].map(|name| floats(found, name));
    let keys = naive::octets(found, "src_addr");
    let starts = naive::numbers(found, "interval_start");
    let measures: [fn(&Row) -> Option<u64>; 2] = [|row| row.packets, |row| row.flows];
    let groups = expected.groups.iter().flat_map(|group| measures.map(|measure| (group, measure)));
    for (at, (group, measure)) in groups.enumerate() {
        assert_eq!((starts[at], &keys[at]), (Some(group.window_ms.into()), &group.key.0));
        let all: Vec<Option<u64>> = group.rows.iter().map(|row| measure(row)).collect();
        let values: Vec<i128> = all.iter().flatten().map(|value| i128::from(*value)).collect();
        let (count, nulls) = (values.len(), all.len() - values.len());
        assert_eq!((columns[0][at], columns[1][at]), (Some(count as i128), Some(nulls as i128)));
        if count == 0 {
            assert!(columns[2..].iter().all(|column| column[at].is_none()));
            assert!(moments.iter().all(|column| column[at].is_none()));
            continue;
        }
        let told = |value: i128| Some(value.min(i64::MAX.into()));
        assert_eq!(columns[2][at], told(values.iter().sum()));
        assert_eq!((columns[3][at], columns[4][at]), (told(at_rank(&values, 0)), told(at_rank(&values, 100))));
        assert_eq!((columns[5][at], columns[6][at]), (told(at_rank(&values, 50)), told(at_rank(&values, 90))));
        let mean = values.iter().map(|value| *value as f64).sum::<f64>() / count as f64;
        let variance = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / count as f64;
        let is_near = |found: Option<f64>, naive: f64| found.is_some_and(|found| (found - naive).abs() <= naive * 1e-9);
        assert!(is_near(moments[0][at], mean), "{:?} {mean}", moments[0][at]);
        // what the naive way loses beside a large mean
        let lost = (mean * 1e-7).powi(2) * count as f64;
        assert!(
            is_near(moments[1][at], variance) || moments[1][at].is_some_and(|found| (found - variance).abs() <= lost),
            "{:?} {variance}",
            moments[1][at]
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn statistics_are_those_of_lists(
        rows in naive::rows(), width_ms in 100_i64..900, lateness_ms in 0_i64..500, groups_max in 1_usize..12,
    ) {
        let settings = Settings { width_ms, lateness_ms, groups_max, hand_on: false };
        let mut expected = naive::group(&rows, settings, |row| (row.src.clone(), None));
        expected.groups.sort_by_key(|group| (group.window_ms, group.key.clone()));
        let options = format!(
            "of = ['packets', 'flows']\nkeys = 'src_addr'\nquantiles = ['p50', 'p90']\nwindow = '{width_ms}ms'\n\
             lateness = '{lateness_ms}ms'\ngroups_max = {groups_max}"
        );
        let batches = if rows.is_empty() { vec![] } else { vec![naive::batch(&rows)] };
        check(&compliance::transform(STATISTIC, &options, &[batches]), &expected);
    }

    #[test]
    fn quantiles_keep_their_bound(
        values in prop::collection::vec((any::<i64>(), 0_u32..64), 1..2_000), percent in 0_usize..=100,
    ) {
        let values: Vec<Option<i64>> = values.into_iter().map(|(value, bits)| Some(value >> bits)).collect();
        let options = format!("of = 'rtt'\nwindow = 0\nquantiles = 'p{percent}'");
        let outcome = compliance::transform(STATISTIC, &options, &[vec![numbers(&values)]]);
        let found = naive::numbers(&outcome.rows.expect("rows"), &format!("p{percent}"))[0].expect("values");
        let values: Vec<i128> = values.into_iter().flatten().map(i128::from).collect();
        let exact = at_rank(&values, percent);
        prop_assert!((found - exact).abs() * 128 <= exact.abs(), "{found} {exact}");
    }
}

#[test]
fn mistakes_are_told() {
    assert_eq!(refusal("of = []").1, "'of' names no column");
    assert_eq!(refusal("of = 'bytes'\nquantiles = '50'").1, "'50' is no quantile");
    assert_eq!(refusal("of = 'bytes'\nquantiles = ['p50', '0.5']").1, "'0.5' is there twice");
    assert_eq!(refusal("of = 'bytes'\nkeys = 'p50'").1, "'p50' is the name of a column that this component hands on");
    assert_eq!(refusal("of = 'bytes'\nkeys = 'interval_start'").0, "keys");
    let rows = RecordBatch::try_new(
        Arc::new(Schema::new(vec![Field::new("rtt", DataType::Float64, true)])),
        vec![Arc::new(Float64Array::from(vec![1.5]))],
    );
    let (Built::Transform(mut block), _) = compliance::open(STATISTIC, "of = 'rtt'\nwindow = 0") else {
        panic!("a transform")
    };
    let error = block.take(0, rows.expect("rows"), &mut Outlet::new()).expect_err("no whole numbers");
    assert_eq!(error.chain(), "column 'rtt' has type Float64, but whole numbers are needed");
}
