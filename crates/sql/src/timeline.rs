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
#[derive(Debug, Clone)]
pub struct TimeLine {
    measure: Measure,
    window: TimeWindow,
    zone: TimeZone,
    /// What the zone is ahead of UTC; steps begin at full local times.
    offset_ms: i64,
    /// The column that distinguishes flows, and the number of the series of each value.
    by: Option<(Column, HashMap<Vec<u8>, usize>)>,
    /// The numbers of the series of values of that column that fit a number.
    known: KnownSeries,
    labels: Vec<String>,
    steps: Steps,
}

/// What flows carried, step by step.
#[derive(Debug, Clone)]
struct Steps {
    step_ms: i64,
    /// Steps in a millisecond, about.
    per_ms: f64,
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
        let steps = Steps { step_ms: STEPS_MS[0], per_ms: 1.0, first: 0, amounts: vec![Amounts::default()] };
        Self { measure, window, zone, offset_ms: 0, by: None, known: KnownSeries::default(), labels: Vec::new(), steps }
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

    /// Draws the flows that `ask` gives with these columns, in batches that `observe` sees, too.
    ///
    /// When flows were received is asked for once one of them has no other time, from the beginning: it takes as long to read as
    /// each of the others, and nearly all exporters tell a start or an end.
    pub fn draw<B, T, E, F>(
        self,
        ask: impl Fn(Vec<Column>) -> Result<B, E>,
        observe: impl Fn(&mut T, &RecordBatch),
    ) -> Result<(Self, T), E>
    where
        B: IntoIterator<Item = Result<RecordBatch, F>>,
        T: Default,
        E: From<F>,
    {
        let all = self.columns();
        let is_by_received = self.by.as_ref().is_some_and(|(column, _)| *column == Column::Received);
        let timed = all.iter().copied().filter(|column| *column != Column::Received || is_by_received).collect();
        for (columns, is_last) in [(timed, false), (all, true)] {
            let (mut line, mut made) = (self.clone(), T::default());
            let mut is_whole = true;
            for batch in ask(columns)? {
                let batch = batch?;
                is_whole = line.add(&batch) || is_last;
                if !is_whole {
                    break;
                }
                observe(&mut made, &batch);
            }
            if is_whole {
                return Ok((line, made));
            }
        }
        Ok((self, T::default()))
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

    /// Adds the flows of a batch. A column that is absent is null throughout. Flows without a time are left out; returns whether
    /// there were none.
    pub fn add(&mut self, batch: &RecordBatch) -> bool {
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
        let mut have_times = true;
        for row in 0..batch.num_rows() {
            let count = counts.filter(|counts| counts.is_valid(row)).map(|counts| counts.value(row));
            let count = if self.measure == Measure::Flows { count.or(Some(1)) } else { count };
            let start = value(starts, row).or(value(ends, row)).or(value(received, row));
            have_times &= start.is_some();
            let (Some(count), Some(start)) = (count, start) else { continue };
            let end = value(ends, row).unwrap_or(start).max(start);
            let amount = count as f64 * if self.measure == Measure::Bits { 8.0 } else { 1.0 };
            self.add_flow(series.get(row).copied().unwrap_or(0), start, end, amount);
        }
        have_times
    }

    /// The number of the series of each row; nothing when there is only one.
    fn series_of(&self, batch: &RecordBatch, known: &mut KnownSeries) -> Vec<usize> {
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
        let series_of = |row| match number(row) {
            Some(number) => known.get_or(number, || read(row)),
            None => read(row),
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
        let is_cut = (from, until) != (start_ms, end_ms);
        let amount =
            if is_cut { amount * (until.abs_diff(from) as f64 / end_ms.abs_diff(start_ms) as f64) } else { amount };
        if self.steps.is_empty() {
            let offset = Timestamp::from_millisecond(from).map_or(0, |time| self.zone.to_offset(time).seconds());
            self.offset_ms = i64::from(offset) * 1000;
        }
        let local = |ms: i64| ms.saturating_add(self.offset_ms);
        self.steps.add(series, local(from), local(until), amount);
    }

    /// The rates, in at most `steps_max` steps.
    pub fn chart(mut self, title: String, steps_max: usize) -> RateChart {
        let steps_max = steps_max.max(1) as i64;
        if let (Some(from), Some(until)) = (self.window.from_ms, self.window.until_ms) {
            if self.steps.is_empty() {
                // nothing is drawn, but a step is as long as one with flows would be
                let span_ms = until.saturating_sub(from);
                while self.steps.step_ms < span_ms && span_ms / self.steps.step_ms >= steps_max {
                    self.steps.widen();
                }
            } else {
                self.steps.reach(from.saturating_add(self.offset_ms), until.saturating_add(self.offset_ms));
            }
        }
        while self.steps.count() > steps_max {
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

/// The numbers of the series of values that fit a number: most come again and again, and writing them is slow. Each has one
/// place, which it shares with others; the last one is remembered.
#[derive(Debug, Clone, Default)]
struct KnownSeries {
    /// The value and its series, in `1 << KnownSeries::BITS` places, or none before the first value.
    places: Vec<Option<(u32, u32)>>,
}

impl KnownSeries {
    /// As many places as there are ports.
    const BITS: u32 = 16;

    /// The series of a value, `read` when it is not known.
    fn get_or(&mut self, value: u32, read: impl FnOnce() -> usize) -> usize {
        if self.places.is_empty() {
            self.places.resize(1 << Self::BITS, None);
        }
        // multiples of the golden ratio: values that follow each other have places of their own
        let place = value.wrapping_mul(0x9E37_79B1) >> (u32::BITS - Self::BITS);
        let place = &mut self.places[place as usize];
        match place {
            Some((known, series)) if *known == value => *series as usize,
            _ => {
                let series = read();
                *place = Some((value, series as u32));
                series
            }
        }
    }
}

/// The value of a row as a number, of numbers of at most 32 bits and IPv4 addresses; `None` for others and nulls.
fn short_numbers(values: &ArrayRef) -> Box<dyn Fn(usize) -> Option<u32> + '_> {
    fn of<T: ArrowPrimitiveType>(values: &ArrayRef) -> Option<Box<dyn Fn(usize) -> Option<u32> + '_>>
    where
        u32: From<T::Native>,
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
            Some(u32::from_be_bytes(address))
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
        (self.step_ms, self.per_ms, self.first) = (step_ms, 1.0 / step_ms as f64, first);
    }

    /// The place of the step that a moment is in, and how long it has been going on then; `None` outside of all steps. Without
    /// a division, which would take longer than everything else that is done for a flow.
    fn place(&self, ms: i64) -> Option<(usize, i64)> {
        // steps that begin before all times that fit are those of a clock that was never set
        let after_ms = self.first.checked_mul(self.step_ms).and_then(|first_ms| ms.checked_sub(first_ms));
        let (mut place, mut rest);
        if let Some(after_ms) = after_ms.filter(|after_ms| (0..1 << f64::MANTISSA_DIGITS).contains(after_ms)) {
            place = (after_ms as f64 * self.per_ms) as i64;
            rest = after_ms - place * self.step_ms;
            // the product is rounded
            if rest < 0 {
                (place, rest) = (place - 1, rest + self.step_ms);
            } else if rest >= self.step_ms {
                (place, rest) = (place + 1, rest - self.step_ms);
            }
        } else {
            (place, rest) = (self.step_of(ms).saturating_sub(self.first), ms.rem_euclid(self.step_ms));
        }
        (0..self.count()).contains(&place).then_some((place as usize, rest))
    }

    /// The places of two moments, of steps that are made to reach to both.
    fn reached(&mut self, from_ms: i64, last_ms: i64) -> Option<[(usize, i64); 2]> {
        if let (Some(from), Some(last)) = (self.place(from_ms), self.place(last_ms)) {
            return Some([from, last]);
        }
        self.reach(from_ms, last_ms);
        Some([self.place(from_ms)?, self.place(last_ms)?])
    }

    fn add(&mut self, series: usize, from_ms: i64, until_ms: i64, amount: f64) {
        // what ends with a step has nothing in the next
        let last_ms = from_ms.max(until_ms.saturating_sub(1));
        let Some([(from, before_ms), (last, in_last_ms)]) = self.reached(from_ms, last_ms) else { return };
        let step_ms = self.step_ms;
        let Some(amounts) = self.amounts.get_mut(series) else { return };
        if from == last {
            amounts.own[from] += amount;
            return;
        }
        let per_ms = amount / until_ms.abs_diff(from_ms) as f64;
        amounts.own[from] += per_ms * (step_ms - before_ms) as f64;
        amounts.own[last] += per_ms * (in_last_ms + 1) as f64;
        amounts.rises[from + 1] += per_ms * step_ms as f64;
        amounts.rises[last] -= per_ms * step_ms as f64;
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
mod tests;
