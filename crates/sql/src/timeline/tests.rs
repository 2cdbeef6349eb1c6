use arrow::array::{UInt8Array, UInt32Array};

use super::steps::{Amounts, STEPS_MAX, STEPS_MS};
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

/// A generator of numbers (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, below: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 16).cast_signed() % below
    }

    /// Flows of times up to some milliseconds, most of them short, in some order.
    fn flows(&mut self, count: usize, span_ms: i64) -> Vec<(i64, i64, u64, u8)> {
        let flow = |_| {
            let start = self.below(span_ms);
            let longest_ms = [1, 2, 1000, span_ms][self.below(4) as usize];
            // some clocks go backwards
            let end = start + self.below(longest_ms) - i64::from(self.below(20) == 0);
            (start, end, self.below(100_000) as u64, [1, 6, 17, 47][self.below(4) as usize])
        };
        (0..count).map(flow).collect()
    }
}

/// Two charts have the same steps, and the same rates but for rounding.
#[track_caller]
fn check_same(found: &RateChart, expected: &RateChart) {
    assert_eq!((found.from_ms, found.step_ms, found.steps()), (expected.from_ms, expected.step_ms, expected.steps()));
    let labels = |chart: &RateChart| chart.series.iter().map(|series| series.label.clone()).collect::<Vec<_>>();
    assert_eq!(labels(found), labels(expected));
    for (found, expected) in found.series.iter().zip(&expected.series) {
        for (step, (rate, expected)) in found.rates.iter().zip(&expected.rates).enumerate() {
            assert!((rate - expected).abs() <= 1e-6 * expected.max(1.0), "step {step}: {rate} {expected}");
        }
    }
}

/// Lines of windows and zones, with one series and with several, and how many milliseconds their flows span.
fn lines() -> Vec<(TimeLine, i64)> {
    let day_ms = 86_400_000;
    let window = |from_ms: i64, until_ms: i64| TimeWindow {
        from_ms: Some(NEW_YEAR_MS + from_ms),
        until_ms: Some(NEW_YEAR_MS + until_ms),
        ..TimeWindow::default()
    };
    let mut lines = Vec::new();
    for span_ms in [3, 3000, 4096, 60_000, day_ms, 400 * day_ms, 40_000 * day_ms] {
        for window in [TimeWindow::default(), window(0, 2 * span_ms), window(span_ms / 3, span_ms / 2)] {
            for zone in ["UTC", "Asia/Kolkata", "Europe/Berlin"] {
                let zone = TimeZone::get(zone).expect("a zone");
                for measure in [Measure::Bits, Measure::Flows] {
                    let line = TimeLine::new(measure, window, zone.clone());
                    let labels = vec!["UDP".to_owned(), "TCP".to_owned()];
                    lines.extend([(line.clone(), span_ms), (line.by(Column::Protocol, labels), span_ms)]);
                }
            }
        }
    }
    lines
}

/// Whichever flows each of several threads gets, and in which order.
#[test]
fn lines_that_are_joined_are_one_line() {
    let mut random = Random(3);
    for (line, span_ms) in lines() {
        let mut flows = random.flows(200, span_ms);
        if random.below(3) == 0 {
            // one that nothing else is near, so that parts have steps of different lengths
            flows.push((40 * span_ms, 41 * span_ms, 7, 6));
        }
        let (mut one, mut parts) = (line.clone(), vec![line; 1 + random.below(4) as usize]);
        for flow in flows {
            let part = random.below(parts.len() as i64) as usize;
            one.add(&batch(&[flow]));
            parts[part].add(&batch(&[flow]));
        }
        let joined = parts.into_iter().reduce(|mut line, other| {
            line.join(other);
            line
        });
        check_same(&joined.expect("a line").chart(String::new(), 50), &one.chart(String::new(), 50));
    }
}

#[test]
fn a_line_takes_no_more_than_it_says() {
    let mut random = Random(9);
    for (mut line, span_ms) in lines() {
        line.add(&batch(&random.flows(300, span_ms)));
        let steps: usize = line.steps.amounts.iter().map(Amounts::octets).sum();
        assert!(steps <= line.octets_max(), "{steps} octets");
    }
    let mut line = line(Measure::Flows, TimeWindow::default());
    line.add(&batch(&[(0, 4096, 1, 6)]));
    assert!(line.steps.amounts[0].octets() >= 2 * 4096 * 8);
}

/// The short way for batches in which nothing is missing, against the way for each flow.
#[test]
fn flows_that_have_everything_are_drawn_as_others() {
    let mut random = Random(5);
    let mut whole = 0;
    for (mut line, span_ms) in lines() {
        let mut each = line.clone();
        for _ in 0..4 {
            let batch = batch(&random.flows(60, span_ms));
            let count_default = (line.measure == Measure::Flows).then_some(1);
            let flows = FlowColumns::of(&batch, line.amount_column(), count_default);
            let series = each.by.as_mut().map(|by| by.of_rows(&batch)).unwrap_or_default();
            each.add_each(&flows, batch.num_rows(), &series);
            let columns = flows.without_nulls().expect("nothing is missing");
            if line.add_whole(&columns, &series) {
                whole += 1;
            } else {
                assert!(line.add(&batch), "all have times");
            }
        }
        check_same(&line.chart(String::new(), 50), &each.chart(String::new(), 50));
    }
    assert!(whole > 100, "the short way was taken {whole} times");
}

/// What is missing is as before: a start is an end, a count is none or one, and what lacks a column lacks it in each row.
#[test]
fn flows_that_lack_something_are_drawn_by_what_they_have() {
    let times = |times: [Option<i64>; 3]| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from(times.map(|time| time.map(|ms| NEW_YEAR_MS + ms)).to_vec()))
    };
    let bytes: ArrayRef = Arc::new(UInt64Array::from(vec![Some(125), None, Some(250)]));
    let starts = ("start", times([Some(0), Some(1000), None]));
    let ends = ("end", times([None, Some(1000), Some(2000)]));
    let drawn = |measure: Measure, columns: Vec<(&'static str, ArrayRef)>| {
        let mut line = line(measure, TimeWindow::default()).by(Column::Protocol, vec!["-".to_owned()]);
        assert!(line.add(&RecordBatch::try_from_iter(columns).expect("a batch")));
        rates(&line.chart(String::new(), 3), 0)
    };
    let all = vec![starts, ends, ("bytes", bytes)];
    // two flows remain, of the first and of the third second
    assert_eq!(drawn(Measure::Bits, all.clone()), [1000.0, 0.0, 2000.0]);
    assert_eq!(drawn(Measure::Flows, all), [1.0; 3]);
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
    let mut by_products = 0;
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
            let by_product = expected.and_then(|_| line.steps.place_by_product(moment));
            assert!(by_product.is_none_or(|found| Some(found) == expected), "{moment} in steps of {step_ms}");
            by_products += usize::from(by_product.is_some());
        }
    }
    assert!(by_products > 100_000, "{by_products} moments");
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
    // in the zone as it is at the end of the window, which is in summer, or else now: not at a flow of 1970
    let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
    let until_ms = Some(NEW_YEAR_MS + 200 * day_ms);
    let summer = TimeWindow { from_ms: Some(NEW_YEAR_MS), until_ms, ..TimeWindow::default() };
    let now_ms = i64::from(berlin.to_offset(Timestamp::now()).seconds()) * 1000;
    for (window, offset_ms) in [(summer, 7_200_000), (TimeWindow::default(), now_ms)] {
        let mut line = TimeLine::new(Measure::Bits, window, berlin.clone());
        line.add(&batch(&[
            (-NEW_YEAR_MS, -NEW_YEAR_MS, 1, 6),
            (day_ms, day_ms, 1, 6),
            (99 * day_ms, 99 * day_ms, 1, 6),
        ]));
        let chart = line.chart(String::new(), 300);
        assert_eq!((chart.from_ms + offset_ms) % day_ms, 0, "{window:?}");
    }
    let mut line = TimeLine::new(Measure::Bits, TimeWindow::default(), TimeZone::UTC);
    line.add(&batch(&[(-NEW_YEAR_MS, 0, 1000, 6), (i64::MAX - NEW_YEAR_MS, 0, 1, 6)]));
    assert!(line.steps.count() <= STEPS_MAX);
    assert!(line.chart(String::new(), 100).steps() <= 100);
}
