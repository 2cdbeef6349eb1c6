use std::cell::RefCell;

use arrow::array::{ArrayRef, TimestampMillisecondArray, UInt8Array, UInt32Array, UInt64Array};

use super::*;

/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;

/// Flows as start and end in milliseconds after the new year, octets, and protocol.
fn batch(flows: &[(i64, i64, u64, u8)]) -> RecordBatch {
    let times = |time: fn(&(i64, i64, u64, u8)) -> i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(flows.iter().map(|flow| NEW_YEAR_MS + time(flow))))
    };
    let bytes: ArrayRef = Arc::new(UInt64Array::from_iter_values(flows.iter().map(|flow| flow.2)));
    let protocols: ArrayRef = Arc::new(UInt8Array::from_iter_values(flows.iter().map(|flow| flow.3)));
    let columns =
        [("start", times(|flow| flow.0)), ("end", times(|flow| flow.1)), ("bytes", bytes), ("protocol", protocols)];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn line(measure: Measure, window: TimeWindow) -> TimeLine {
    TimeLine::new(measure, window, TimeZone::UTC)
}

fn rates(chart: &RateChart, series: usize) -> Vec<f64> {
    chart.series[series].rates.iter().map(|rate| (rate * 1000.0).round() / 1000.0).collect()
}

#[test]
fn a_flow_is_spread_over_its_duration() {
    let mut line = line(Measure::Bits, TimeWindow::default());
    // 4 s at 8 kbit/s, and 500 octets at once in the third second
    line.add(&batch(&[(500, 4500, 4000, 6), (2200, 2200, 500, 17)]));
    let chart = line.chart(String::new(), 5);
    assert_eq!((chart.from_ms, chart.step_ms), (NEW_YEAR_MS, 1000));
    assert_eq!(rates(&chart, 0), [4000.0, 8000.0, 12_000.0, 8000.0, 4000.0]);
}

#[test]
fn flows_are_cut_to_the_window() {
    let window =
        TimeWindow { from_ms: Some(NEW_YEAR_MS + 1000), until_ms: Some(NEW_YEAR_MS + 2999), ..Default::default() };
    let mut line = line(Measure::Bits, window);
    line.add(&batch(&[(0, 4000, 4000, 6), (500, 500, 100, 6), (3000, 3000, 100, 6), (2999, 2999, 125, 6)]));
    let chart = line.chart(String::new(), 2);
    assert_eq!((chart.from_ms, chart.step_ms), (NEW_YEAR_MS + 1000, 1000));
    assert_eq!(rates(&chart, 0), [8000.0, 9000.0]);
}

#[test]
fn flows_are_told_apart_by_a_key() {
    let mut line = line(Measure::Flows, TimeWindow::default()).by(Column::Protocol, vec!["UDP".to_owned()]);
    assert_eq!(line.columns().last(), Some(&Column::Protocol));
    line.add(&batch(&[(0, 0, 1, 17), (1, 1, 1, 6), (999, 999, 1, 1)]));
    let chart = line.chart(String::new(), 1);
    let labels: Vec<_> = chart.series.iter().map(|series| series.label.as_str()).collect();
    assert_eq!((labels, rates(&chart, 0), rates(&chart, 1)), (vec!["UDP", "other"], vec![1.0], vec![2.0]));
}

/// Places of moments are those that a division gives, for steps and times of all lengths.
#[test]
fn moments_are_in_the_steps_that_a_division_gives() {
    let mut random = 7_u64;
    let mut next = |below: i64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 1).cast_signed() % below
    };
    let steps = STEPS_MS.iter().copied().chain([1 << 40, 5_798_205_849_600_000, 1 << 55, i64::MAX / 3]);
    // the first times that there are, the last, and some between: a step at either end reaches over it
    let first_ms = [i64::MIN, -NEW_YEAR_MS, 0, NEW_YEAR_MS, i64::MAX];
    for (step_ms, first_ms) in steps.flat_map(|step_ms| first_ms.map(|first_ms| (step_ms, first_ms))) {
        let mut line = line(Measure::Flows, TimeWindow::default());
        let first = first_ms.div_euclid(step_ms);
        line.steps.amounts[0].grow(0, STEPS_MAX as usize);
        line.steps = Steps { step_ms, per_ms: 1.0 / step_ms as f64, first, ..line.steps };
        let edges = (-1..=STEPS_MAX).map(|step| (i128::from(first) + i128::from(step)) * i128::from(step_ms));
        let moments = edges.flat_map(|edge| [edge - 1, edge, edge + 1]).filter_map(|moment| i64::try_from(moment).ok());
        let moments: Vec<i64> = moments.chain((0..1000).map(|_| next(i64::MAX))).chain([i64::MIN, i64::MAX]).collect();
        for moment in moments {
            let (number, rest) = (moment.div_euclid(step_ms), moment.rem_euclid(step_ms));
            let place = i128::from(number) - i128::from(first);
            let expected = (0..i128::from(STEPS_MAX)).contains(&place).then_some((place as usize, rest));
            assert_eq!(line.steps.place(moment), expected, "{moment} in steps of {step_ms} from {first_ms}");
        }
    }
}

/// Senders choose times: what does not fit beside the times of others is spread as it would be anywhere else.
#[test]
fn the_first_and_the_last_times_that_there_are_can_be_drawn() {
    let flows = |times: &[(i64, i64)]| {
        let times = |time: fn(&(i64, i64)) -> i64| -> ArrayRef {
            Arc::new(TimestampMillisecondArray::from_iter_values(times.iter().map(time)))
        };
        RecordBatch::try_from_iter([("start", times(|flow| flow.0)), ("end", times(|flow| flow.1))]).expect("a batch")
    };
    let mut line = line(Measure::Flows, TimeWindow::default());
    line.add(&flows(&[(i64::MIN, i64::MIN), (9_220_000_000_000_000_000, i64::MAX), (i64::MIN, i64::MAX)]));
    let chart = line.chart(String::new(), 4);
    let flows: Vec<f64> = chart.series[0].rates.iter().map(|rate| rate * chart.step_ms as f64 / 1000.0).collect();
    assert!((flows.iter().sum::<f64>() - 3.0).abs() < 1e-9, "{flows:?}");
    // half of the flow of all times is before the epoch, and the other one and all of the second after it
    let epoch = chart.from_ms.unsigned_abs().div_ceil(chart.step_ms.unsigned_abs()) as usize;
    assert!((flows[..epoch].iter().sum::<f64>() - 1.5).abs() < 0.01, "{flows:?}");
}

/// What a line is told apart by is read, whatever the other columns are needed for.
#[test]
fn flows_are_told_apart_by_when_they_were_received() {
    let received: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![NEW_YEAR_MS; 2]).with_timezone("UTC"));
    let all = [("start", Arc::clone(&received)), ("received", received)];
    let ask = |columns: Vec<Column>| {
        let all = all.iter().filter(|(name, _)| columns.iter().any(|column| column.name() == *name));
        Ok::<_, ArrowError>([RecordBatch::try_from_iter(all.map(|(name, values)| (*name, Arc::clone(values))))])
    };
    let line = line(Measure::Flows, TimeWindow::default());
    let mut label = Vec::new();
    ColumnText::new(&weir_flow::schema::field(Column::Received), &all[1].1).push(0, &mut label);
    let line = line.by(Column::Received, vec![String::from_utf8(label).expect("a text")]);
    let (line, ()) = line.draw(ask, |(), _| ()).expect("a line");
    let chart = line.chart(String::new(), 1);
    // and none is among the others
    assert_eq!((chart.series.len(), rates(&chart, 0)[0] * chart.step_ms as f64 / 1000.0), (1, 2.0));
}

/// When flows were received is read when one of them has no other time, and every flow is drawn once then; those without any
/// time are left out.
#[test]
fn flows_without_a_start_are_drawn_when_they_were_received() {
    let times = |times: &[Option<i64>]| -> ArrayRef {
        let times = times.iter().map(|time| time.map(|after_ms| NEW_YEAR_MS + after_ms));
        Arc::new(TimestampMillisecondArray::from(times.collect::<Vec<_>>()))
    };
    let drawn = |starts: &[Option<i64>], received: &[Option<i64>]| {
        let asked = RefCell::new(Vec::new());
        let ask = |columns: Vec<Column>| {
            asked.borrow_mut().push(columns.contains(&Column::Received));
            let all = [(Column::Start, times(starts)), (Column::Received, times(received))];
            let all = all.into_iter().filter(|(column, _)| columns.contains(column));
            let all = RecordBatch::try_from_iter(all.map(|(column, values)| (column.name(), values)));
            let all = all.expect("a batch");
            Ok::<_, ArrowError>((0..all.num_rows()).map(move |row| Ok::<_, ArrowError>(all.slice(row, 1))))
        };
        let line = line(Measure::Flows, TimeWindow::default());
        let (line, rows) = line.draw(ask, |rows: &mut usize, batch| *rows += batch.num_rows()).expect("a line");
        (asked.into_inner(), rows, rates(&line.chart(String::new(), 3), 0))
    };
    let (first, second, third) = (Some(0), Some(1000), Some(2000));
    let received = [third, second, third];
    assert_eq!(drawn(&[first, second, third], &received), (vec![false], 3, vec![1.0; 3]));
    assert_eq!(drawn(&[first, None, third], &received), (vec![false, true], 3, vec![1.0; 3]));
    assert_eq!(drawn(&[first, None, third], &[None; 3]), (vec![false, true], 3, vec![1.0, 0.0, 1.0]));
}

/// Values that come again are told apart as at first, also when more of them came than are remembered.
#[test]
fn values_that_come_again_have_their_series() {
    let label = |port: u32| format!("{port}");
    let mut line = line(Measure::Flows, TimeWindow::default()).by(Column::SrcAs, vec![label(7), label(70_007)]);
    let numbers: Vec<u32> = (0..80_000).chain([7; 3]).chain([70_007, 7, 70_007]).collect();
    let times = |_| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(vec![NEW_YEAR_MS; numbers.len()])) };
    let values: ArrayRef = Arc::new(UInt32Array::from(numbers.clone()));
    let columns = [("start", times(0)), ("end", times(0)), (Column::SrcAs.name(), values)];
    let all = RecordBatch::try_from_iter(columns).expect("a batch");
    for from in (0..all.num_rows()).step_by(9_000) {
        line.add(&all.slice(from, 9_000.min(all.num_rows() - from)));
    }
    let chart = line.chart(String::new(), 1);
    let flows: Vec<f64> = (0..3).map(|series| rates(&chart, series)[0] * chart.step_ms as f64 / 1000.0).collect();
    assert_eq!(flows, [5.0, 3.0, 79_998.0]);
}

/// What goes in comes out, however steps were merged: against a walk over every millisecond.
#[test]
fn nothing_is_lost_by_merging() {
    let mut line = line(Measure::Bits, TimeWindow::default());
    let mut model = vec![0.0; 60_000];
    let mut random = 12345_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((random >> 33) % below) as i64
    };
    for _ in 0..500 {
        let start = next(50_000);
        let end = start + next(10_000);
        let bytes = next(100_000) as u64;
        line.add(&batch(&[(start, end, bytes, 6)]));
        let share = bytes as f64 * 8.0 / (end - start).max(1) as f64;
        (start..end.max(start + 1)).for_each(|ms| model[ms as usize] += share);
    }
    let chart = line.chart(String::new(), 12);
    assert_eq!(chart.step_ms, 5000);
    let expected = model.chunks(5000).map(|step| step.iter().sum::<f64>() / 5.0);
    for (rate, expected) in chart.series[0].rates.iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-6 * expected.max(1.0), "{rate} {expected}");
    }
}

/// Steps of a day begin at midnight in the zone; a clock that was never set costs no memory.
/// 300 steps of 5 minutes are more than a day, and 1440 of a minute too many.
#[test]
fn a_window_without_flows_has_the_steps_of_one_with_some() {
    let of = |length_ms: i64, steps_max: usize| {
        let window =
            TimeWindow { from_ms: Some(NEW_YEAR_MS), until_ms: Some(NEW_YEAR_MS + length_ms), ..TimeWindow::default() };
        let chart = TimeLine::new(Measure::Bits, window, TimeZone::UTC).chart(String::new(), steps_max);
        (chart.steps(), chart.step_ms)
    };
    assert_eq!(of(86_400_000, 300), (0, 300_000));
    assert_eq!(of(0, 300), (0, 1));
    assert_eq!(of(i64::MAX - NEW_YEAR_MS, 1).0, 0, "it ends");
}

#[test]
fn steps_begin_at_local_times_and_are_few() {
    let zone = TimeZone::get("Asia/Kolkata").expect("a zone");
    let mut line = TimeLine::new(Measure::Bits, TimeWindow::default(), zone);
    let day_ms = 86_400_000;
    line.add(&batch(&[(0, 0, 1, 6), (20 * day_ms, 20 * day_ms, 1, 6)]));
    let chart = line.chart(String::new(), 30);
    assert_eq!((chart.from_ms, chart.step_ms), (NEW_YEAR_MS - 19_800_000, day_ms));
    let mut line = TimeLine::new(Measure::Bits, TimeWindow::default(), TimeZone::UTC);
    line.add(&batch(&[(-NEW_YEAR_MS, 0, 1000, 6), (i64::MAX - NEW_YEAR_MS, 0, 1, 6)]));
    assert!(line.steps.count() <= STEPS_MAX);
    assert!(line.chart(String::new(), 100).steps() <= 100);
}
