//! Flows as rates over time.
//!
//! A flow has a start, an end and what it carried, but not when within that time. A [`TimeLine`] spreads the
//! amount of each flow evenly over its duration, which is the usual reading and smooths bursts that are shorter than
//! the exporter's active timeout. Flows without duration count in the step that they are in; what lies outside the
//! window is left out. Steps begin narrow and are merged when the flows span more time than there are steps, so one
//! pass is enough and memory is bounded, however long the archive is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow::error::ArrowError;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_print::ColumnText;
use weir_print::plot::{Measure, RateChart, Series};
use weir_query::{TimeWindow, Totals};

/// From the first millisecond of a minute to its last.
const LAST_OF_MINUTE_MS: i64 = 59_999;

/// Most values whose series are remembered.
const KNOWN_MAX: usize = 1 << 16;
/// Most steps that are kept before they are merged.
const STEPS_MAX: i64 = 4096;

/// Lengths of steps in milliseconds. Each divides the next, so that steps merge without a rest; after the last they
/// double.
const STEPS_MS: &[i64] = &[
    1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 10_800_000,
    21_600_000, 43_200_000, 86_400_000,
];

/// The step after one.
fn wider(step_ms: i64) -> i64 {
    STEPS_MS.iter().copied().find(|step| *step > step_ms).unwrap_or(step_ms.saturating_mul(2))
}

/// Rates over time, gathered from batches of flows.
#[derive(Debug)]
pub struct TimeLine {
    measure: Measure,
    window: TimeWindow,
    zone: TimeZone,
    /// What the zone is ahead of UTC; steps begin at full local times.
    offset_ms: i64,
    /// The column that distinguishes flows, and the number of the series of each value.
    by: Option<(Column, HashMap<Vec<u8>, usize>)>,
    /// The number of the series of a value of that column that fits a number: most come again and again, and writing them is slow.
    known: HashMap<u64, usize>,
    labels: Vec<String>,
    steps: Steps,
}

/// What flows carried, step by step.
#[derive(Debug)]
struct Steps {
    step_ms: i64,
    /// Number of the first step.
    first: i64,
    /// Per series.
    amounts: Vec<Amounts>,
}

#[derive(Debug, Clone, Default)]
struct Amounts {
    /// What is in a step.
    own: Vec<f64>,
    /// What steps from here on get more than the one before: a long flow costs two entries, not one per step.
    rises: Vec<f64>,
}

impl TimeLine {
    /// A time line of all flows as one series.
    pub fn new(measure: Measure, window: TimeWindow, zone: TimeZone) -> Self {
        let steps = Steps { step_ms: STEPS_MS[0], first: 0, amounts: vec![Amounts::default()] };
        Self { measure, window, zone, offset_ms: 0, by: None, known: HashMap::new(), labels: Vec::new(), steps }
    }

    /// Tells flows apart by the values of a column: a series for each value of `labels`, written as tables have them,
    /// and one for all others.
    #[must_use]
    pub fn by(self, column: Column, labels: Vec<String>) -> Self {
        let series = labels.iter().enumerate().map(|(number, label)| (label.clone().into_bytes(), number)).collect();
        let amounts = vec![Amounts::default(); labels.len() + 1];
        Self { by: Some((column, series)), labels, steps: Steps { amounts, ..self.steps }, ..self }
    }

    /// Columns that batches must have.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::Start, Column::End, Column::Received, self.amount_column()];
        columns.extend(self.by.as_ref().map(|(column, _)| *column).filter(|column| !columns.contains(column)));
        columns
    }

    fn amount_column(&self) -> Column {
        match self.measure {
            Measure::Bits => Column::Bytes,
            Measure::Packets => Column::Packets,
            Measure::Flows => Column::Flows,
        }
    }

    /// Adds what flows carried by the minute in which they started, spread over that minute. What has no minute is left out.
    pub fn add_minutes(&mut self, minutes: &BTreeMap<Option<i64>, Totals>) -> Result<(), ArrowError> {
        let all: Vec<(i64, &Totals)> =
            minutes.iter().filter_map(|(minute, totals)| Some(((*minute)?, totals))).collect();
        let times = |after_ms: i64| -> ArrayRef {
            let times = all.iter().map(|(minute, _)| minute.saturating_add(after_ms));
            Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"))
        };
        let counts = |of: fn(&Totals) -> Option<u64>| -> ArrayRef {
            Arc::new(all.iter().map(|(_, totals)| of(totals)).collect::<UInt64Array>())
        };
        let columns = [
            (Column::Start, times(0)),
            (Column::End, times(LAST_OF_MINUTE_MS)),
            (Column::Flows, counts(|totals| Some(totals.flows))),
            (Column::Packets, counts(|totals| totals.packets)),
            (Column::Bytes, counts(|totals| totals.bytes)),
        ];
        self.add(&RecordBatch::try_from_iter(columns.map(|(column, values)| (column.name(), values)))?);
        Ok(())
    }

    /// Adds the flows of a batch. A column that is absent is null throughout.
    pub fn add(&mut self, batch: &RecordBatch) {
        let times = |column: Column| {
            let values = batch.column_by_name(column.name())?;
            values.as_primitive_opt::<TimestampMillisecondType>()
        };
        let value = |values: Option<&PrimitiveArray<TimestampMillisecondType>>, row: usize| {
            values.filter(|values| values.is_valid(row)).map(|values| values.value(row))
        };
        let (starts, ends, received) = (times(Column::Start), times(Column::End), times(Column::Received));
        let counts = batch.column_by_name(self.amount_column().name());
        let counts = counts.and_then(|counts| counts.as_primitive_opt::<UInt64Type>());
        let mut known = std::mem::take(&mut self.known);
        let series = self.series_of(batch, &mut known);
        self.known = known;
        for row in 0..batch.num_rows() {
            let count = counts.filter(|counts| counts.is_valid(row)).map(|counts| counts.value(row));
            let count = if self.measure == Measure::Flows { count.or(Some(1)) } else { count };
            let start = value(starts, row).or(value(ends, row)).or(value(received, row));
            let (Some(count), Some(start)) = (count, start) else { continue };
            let end = value(ends, row).unwrap_or(start).max(start);
            let amount = count as f64 * if self.measure == Measure::Bits { 8.0 } else { 1.0 };
            self.add_flow(series.get(row).copied().unwrap_or(0), start, end, amount);
        }
    }

    /// The number of the series of each row; nothing when there is only one.
    fn series_of(&self, batch: &RecordBatch, known: &mut HashMap<u64, usize>) -> Vec<usize> {
        let Some((column, series)) = &self.by else { return Vec::new() };
        let other = series.len();
        let Ok(position) = batch.schema_ref().index_of(column.name()) else {
            return vec![other; batch.num_rows()];
        };
        let values = batch.column(position);
        let mut texts = ColumnText::new(batch.schema_ref().field(position), values);
        let mut text = Vec::new();
        let mut read = |row| {
            text.clear();
            texts.push(row, &mut text);
            series.get(&text).copied().unwrap_or(other)
        };
        let number = short_numbers(values);
        let mut last = None;
        let series_of = |row| {
            let Some(number) = number(row) else { return read(row) };
            if let Some((value, series)) = last
                && value == number
            {
                return series;
            }
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            let series = *known.entry(number).or_insert_with(|| read(row));
            last = Some((number, series));
            series
        };
        (0..batch.num_rows()).map(series_of).collect()
    }

    /// Adds what a flow carried from one moment to another, as far as it is in the window.
    fn add_flow(&mut self, series: usize, start_ms: i64, end_ms: i64, amount: f64) {
        let from = self.window.from_ms.map_or(start_ms, |from| from.max(start_ms));
        let until = self.window.until_ms.map_or(end_ms, |until| until.saturating_add(1).min(end_ms));
        let is_outside = if start_ms == end_ms {
            from != start_ms || self.window.until_ms.is_some_and(|until| start_ms > until)
        } else {
            from >= until
        };
        if is_outside {
            return;
        }
        let duration = end_ms.abs_diff(start_ms) as f64;
        let part = if duration > 0.0 { until.abs_diff(from) as f64 / duration } else { 1.0 };
        if self.steps.is_empty() {
            let offset = Timestamp::from_millisecond(from).map_or(0, |time| self.zone.to_offset(time).seconds());
            self.offset_ms = i64::from(offset) * 1000;
        }
        let local = |ms: i64| ms.saturating_add(self.offset_ms);
        self.steps.add(series, local(from), local(until), amount * part);
    }

    /// The rates, in at most `steps_max` steps.
    pub fn chart(mut self, title: String, steps_max: usize) -> RateChart {
        if let (Some(from), Some(until)) = (self.window.from_ms, self.window.until_ms)
            && !self.steps.is_empty()
        {
            self.steps.reach(from.saturating_add(self.offset_ms), until.saturating_add(self.offset_ms));
        }
        while self.steps.count() > steps_max.max(1) as i64 {
            self.steps.widen();
        }
        let seconds = self.steps.step_ms as f64 / 1000.0;
        let mut rates = self.steps.amounts.into_iter().map(|amounts| {
            let rates = amounts.flat().into_iter().map(|amount| amount / seconds);
            rates.collect::<Vec<_>>()
        });
        let labels = self.labels.into_iter();
        let mut series: Vec<Series> =
            labels.zip(rates.by_ref()).map(|(label, rates)| Series { label, rates }).collect();
        // What is left is all flows, or the others.
        let label = if self.by.is_some() { "other" } else { "all" };
        let rest = rates.map(|rates| Series { label: label.to_owned(), rates });
        series.extend(rest.filter(|rest| self.by.is_none() || rest.max() > 0.0));
        let from_ms = self.steps.first.saturating_mul(self.steps.step_ms).saturating_sub(self.offset_ms);
        RateChart {
            title,
            measure: self.measure,
            zone: self.zone,
            from_ms,
            step_ms: self.steps.step_ms,
            series,
            gaps: Vec::new(),
        }
    }
}

/// The value of a row as a number, of numbers of at most 32 bits and IPv4 addresses; `None` for others and nulls.
fn short_numbers(values: &ArrayRef) -> Box<dyn Fn(usize) -> Option<u64> + '_> {
    fn of<T: ArrowPrimitiveType>(values: &ArrayRef) -> Option<Box<dyn Fn(usize) -> Option<u64> + '_>>
    where
        u64: From<T::Native>,
    {
        let values = values.as_primitive_opt::<T>()?;
        Some(Box::new(|row| values.is_valid(row).then(|| values.value(row).into())))
    }
    let of_number = of::<UInt8Type>(values).or_else(|| of::<UInt16Type>(values)).or_else(|| of::<UInt32Type>(values));
    if let Some(number) = of_number {
        return number;
    }
    match values.as_binary_opt::<i32>() {
        Some(values) => Box::new(|row| {
            let address = values.is_valid(row).then(|| <[u8; 4]>::try_from(values.value(row)).ok())??;
            Some(u32::from_be_bytes(address).into())
        }),
        None => Box::new(|_| None),
    }
}

impl Steps {
    fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> i64 {
        self.amounts.first().map_or(0, |amounts| amounts.own.len() as i64)
    }

    fn step_of(&self, ms: i64) -> i64 {
        ms.div_euclid(self.step_ms)
    }

    /// Adds steps from one moment to another.
    fn reach(&mut self, from_ms: i64, until_ms: i64) {
        loop {
            let (from, until) = (self.step_of(from_ms), self.step_of(until_ms));
            if !self.is_empty() && from >= self.first && until < self.first + self.count() {
                return;
            }
            let (first, last) = if self.is_empty() {
                (from, until)
            } else {
                (from.min(self.first), until.max(self.first + self.count() - 1))
            };
            // differences of steps of a millisecond may not fit
            let count = last.saturating_sub(first).saturating_add(1);
            if count <= STEPS_MAX {
                let before = if self.is_empty() { 0 } else { (self.first - first) as usize };
                self.amounts.iter_mut().for_each(|amounts| amounts.grow(before, count as usize));
                self.first = first;
                return;
            }
            self.widen();
        }
    }

    /// Merges steps to the next length.
    fn widen(&mut self) {
        let step_ms = wider(self.step_ms);
        let times = step_ms / self.step_ms;
        let (old_first, first) = (self.first, self.first.div_euclid(times));
        for amounts in &mut self.amounts {
            let flat = std::mem::take(amounts).flat();
            let Some(last) = (flat.len() as i64).checked_sub(1).filter(|last| *last >= 0) else { continue };
            let count = (old_first + last).div_euclid(times) - first + 1;
            amounts.grow(0, count as usize);
            for (position, amount) in flat.into_iter().enumerate() {
                let step = (old_first + position as i64).div_euclid(times) - first;
                amounts.own[step as usize] += amount;
            }
        }
        (self.step_ms, self.first) = (step_ms, first);
    }

    fn add(&mut self, series: usize, from_ms: i64, until_ms: i64, amount: f64) {
        // what ends with a step has nothing in the next
        let last_ms = from_ms.max(until_ms.saturating_sub(1));
        self.reach(from_ms, last_ms);
        let (from, last) = (self.step_of(from_ms), self.step_of(last_ms));
        let (first, step_ms) = (self.first, self.step_ms);
        let Some(amounts) = self.amounts.get_mut(series) else { return };
        let place = |step: i64| (step - first) as usize;
        if from == last {
            amounts.own[place(from)] += amount;
            return;
        }
        let per_ms = amount / until_ms.abs_diff(from_ms) as f64;
        amounts.own[place(from)] += per_ms * (step_ms - from_ms.rem_euclid(step_ms)) as f64;
        amounts.own[place(last)] += per_ms * (last_ms.rem_euclid(step_ms) + 1) as f64;
        amounts.rises[place(from + 1)] += per_ms * step_ms as f64;
        amounts.rises[place(last)] -= per_ms * step_ms as f64;
    }
}

impl Amounts {
    /// Puts empty steps before, and after up to `count` of them.
    fn grow(&mut self, before: usize, count: usize) {
        for steps in [&mut self.own, &mut self.rises] {
            steps.splice(0..0, std::iter::repeat_n(0.0, before));
            steps.resize(count, 0.0);
        }
    }

    /// What is in each step.
    fn flat(self) -> Vec<f64> {
        let mut level = 0.0;
        let amounts = self.own.into_iter().zip(self.rises).map(|(own, rise)| {
            level += rise;
            // sums and differences of fractions may end a little below nothing
            let amount: f64 = own + level;
            amount.max(0.0)
        });
        amounts.collect()
    }
}

#[cfg(test)]
mod tests {

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
}
