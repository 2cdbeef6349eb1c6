use arrow::array::{TimestampMillisecondArray, UInt32Array};
use weir_series::MetricKind;

use super::*;

/// A row of a key in steps of a minute: minute, finest steps known, octets, peers.
type Row = (i64, u32, Option<u64>, Option<u64>);

fn batch(key: &str, rows: &[Row]) -> RecordBatch {
    let time = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0 * 60_000)).with_timezone("UTC");
    let texts = |text: &str| Arc::new(StringArray::from(vec![text; rows.len()])) as ArrayRef;
    let small = |of: fn(&Row) -> u32| Arc::new(UInt32Array::from_iter_values(rows.iter().map(of))) as ArrayRef;
    let large = |values: Vec<Option<u64>>| Arc::new(UInt64Array::from(values)) as ArrayRef;
    RecordBatch::try_from_iter([
        ("time", Arc::new(time) as ArrayRef),
        ("step", small(|_| 60)),
        ("by", texts("src_addr")),
        ("key", texts(key)),
        ("known", small(|row| row.1)),
        ("count", small(|row| row.1)),
        ("bytes", large(rows.iter().map(|row| row.2).collect())),
        ("bytes_min", large(vec![Some(0); rows.len()])),
        ("flows", large(vec![None; rows.len()])),
        ("peers", large(rows.iter().map(|row| row.3).collect())),
        ("peers_max", large(rows.iter().map(|row| row.3).collect())),
    ])
    .expect("a batch")
}

fn wanted() -> SeriesRequest<'static> {
    let step = StepLength { step_secs: 60, keep_secs: None };
    SeriesRequest { by: "src_addr", keys: &[], step, from_secs: 1, until_secs: 5 * 60 + 1 }
}

#[test]
fn columns_are_metrics_and_their_folds() {
    let metrics = metrics_of(&batch("a", &[]).schema());
    let found: Vec<_> = metrics.iter().map(|metric| (metric.name.as_str(), metric.kind)).collect();
    let wanted = [("bytes", MetricKind::Counter), ("flows", MetricKind::Counter), ("peers", MetricKind::Gauge)];
    assert_eq!(found, wanted);
}

#[test]
fn rows_become_series_over_the_steps_that_are_wanted() {
    let schema = batch("a", &[]).schema();
    let mut values = ClusterValues::new(&wanted(), metrics_of(&schema)).expect("few steps");
    // the first step begins before the time
    values.add(&batch("a", &[(0, 60, Some(1), None), (1, 30, Some(2), Some(3))]));
    // the same key in another partition, and another one
    values.add(&batch("a", &[(4, 60, Some(4), None)]));
    values.add(&batch("b", &[(5, 60, None, None), (6, 60, Some(9), None)]));
    values.note_known(&batch("total", &[(2, 60, Some(5), None)]));
    let values = values.finished();
    let steps = values.steps();
    assert_eq!((steps.first_secs, &steps.known[..]), (60, &[30, 60, 0, 60, 60][..]));
    assert!((steps.finest_secs - 1.0).abs() < 1e-9, "{}", steps.finest_secs);
    // nothing has flows
    let names: Vec<&str> = values.metrics().iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["bytes", "peers"]);
    assert_eq!((0..values.count()).map(|series| values.key(series)).collect::<Vec<_>>(), ["a", "b"]);
    let totals = |series, metric| values.totals(series, metric).collect::<Vec<_>>();
    assert_eq!(totals(0, 0), [Some(2), None, None, Some(4), None]);
    assert_eq!(totals(0, 1), [Some(3), None, None, None, None]);
    assert_eq!(totals(1, 0), [None; 5]);
}

#[test]
fn the_last_step_is_of_any_series() {
    let day_ms: i64 = 1440 * 60_000;
    let partition = |by: &str, step_secs: u32, day: i64| StatisticsPartition {
        by: by.to_owned(),
        key: "a".to_owned(),
        step_secs,
        begin_ms: day * day_ms,
    };
    // the total was sent for two days only, and something else of another length for longer
    let partitions = [
        partition("src_addr", 60, 2),
        partition("src_addr", 60, 3),
        partition("src_addr", 60, 4),
        partition("total", 60, 2),
        partition("total", 60, 3),
        partition("total", 300, 9),
    ];
    let ends = ends_of(&partitions, StepLength { step_secs: 60, keep_secs: None }, None);
    let found: Vec<_> = ends.iter().map(|end| (end.by.as_str(), end.begin_ms / day_ms)).collect();
    assert_eq!(found, [("src_addr", 2), ("src_addr", 4), ("total", 2)]);
    // who asks for the total wants no time that others have alone
    let ends = ends_of(&partitions, StepLength { step_secs: 60, keep_secs: None }, Some("total"));
    let found: Vec<_> = ends.iter().map(|end| (end.by.as_str(), end.begin_ms / day_ms)).collect();
    assert_eq!(found, [("total", 2), ("total", 3)]);
    assert!(ends_of(&partitions, StepLength { step_secs: 300, keep_secs: None }, Some("src_addr")).is_empty());
    assert!(ends_of(&partitions, StepLength { step_secs: 1, keep_secs: None }, None).is_empty());
}

#[test]
fn too_many_steps_are_refused() {
    let wanted = SeriesRequest { until_secs: i64::MAX, ..wanted() };
    let error = ClusterValues::new(&wanted, Vec::new()).expect_err("too many");
    assert!(error.to_string().contains("too many to read at once\nhint: "), "{error}");
}
