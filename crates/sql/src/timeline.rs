//! Flows as rates over time.
//!
//! A flow has a start, an end and what it carried, but not when within that time. A [`TimeLine`] spreads the
//! amount of each flow evenly over its duration, which is the usual reading and smooths bursts that are shorter than
//! the exporter's active timeout. Flows without duration count in the step that they are in; what lies outside the
//! window is left out. Steps begin narrow and are merged when the flows span more time than there are steps, so one
//! pass is enough and memory is bounded, however long the archive is.
//!
//! Each thread that reads flows has a line of its own, and these are joined: one that draws for all would keep the others waiting.
//! What speaks against it is that sums of fractions depend on the order of what is added, so that the last digits of two answers to
//! one question differ. Which steps there are does not depend on the order.

mod columns;
mod series;
mod steps;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray, UInt64Array};
use arrow::error::ArrowError;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_print::plot::{Measure, RateChart, Series};
use weir_query::{FlowQuery, TimeWindow, Totals};

use self::columns::{FlowColumns, WholeColumns};
use self::series::SeriesNumbers;
use self::steps::Steps;
use crate::{EngineError, FlowAnswers};

/// From the first millisecond of a minute to its last.
const LAST_OF_MINUTE_MS: i64 = 59_999;

/// Rates over time, gathered from batches of flows.
#[derive(Debug, Clone)]
pub struct TimeLine {
    measure: Measure,
    window: TimeWindow,
    zone: TimeZone,
    /// What the zone is ahead of UTC; steps begin at full local times.
    offset_ms: i64,
    /// What distinguishes flows.
    by: Option<SeriesNumbers>,
    labels: Vec<String>,
    steps: Steps,
}

/// What is counted of the flows of a line besides, by several threads.
pub trait Tally: Default + Send {
    /// Adds the flows of a batch. A column that is absent is null throughout.
    fn add(&mut self, batch: &RecordBatch);

    /// Adds what another thread has counted.
    fn join(&mut self, other: Self);
}

impl Tally for () {
    fn add(&mut self, _: &RecordBatch) {}

    fn join(&mut self, (): Self) {}
}

impl TimeLine {
    /// A time line of all flows as one series. Its steps begin at full times of the zone as it is at the end of the window, or else now.
    /// No flow decides that: a sender whose clock was never set would, and threads that draw one line have different flows.
    pub fn new(measure: Measure, window: TimeWindow, zone: TimeZone) -> Self {
        let time = window.until_ms.and_then(|until_ms| Timestamp::from_millisecond(until_ms).ok());
        let offset_ms = i64::from(zone.to_offset(time.unwrap_or_else(Timestamp::now)).seconds()) * 1000;
        Self { measure, window, zone, offset_ms, by: None, labels: Vec::new(), steps: Steps::of_series(1) }
    }

    /// Tells flows apart by the values of a column: a series for each value of `labels`, written as tables have them,
    /// and one for all others.
    #[must_use]
    pub fn by(self, column: Column, labels: Vec<String>) -> Self {
        let (by, steps) = (SeriesNumbers::new(column, &labels), Steps::of_series(labels.len() + 1));
        Self { by: Some(by), labels, steps, ..self }
    }

    /// Columns that batches must have.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::Start, Column::End, Column::Received, self.amount_column()];
        columns.extend(self.by_column().filter(|column| !columns.contains(column)));
        columns
    }

    fn by_column(&self) -> Option<Column> {
        self.by.as_ref().map(SeriesNumbers::column)
    }

    /// Draws the flows of the list that `question` asks for with these columns, and counts them in a tally, in threads.
    ///
    /// When flows were received is asked for once one of them has no other time, from the beginning: it takes as long to read as
    /// each of the others, and nearly all exporters tell a start or an end.
    pub fn draw<T: Tally, E: From<EngineError>>(
        self,
        answers: &FlowAnswers,
        question: impl Fn(Vec<Column>) -> Result<FlowQuery, E>,
    ) -> Result<(Self, T), E> {
        let all = self.columns();
        let is_by_received = self.by_column() == Some(Column::Received);
        let timed = all.iter().copied().filter(|column| *column != Column::Received || is_by_received).collect();
        for (columns, is_last) in [(timed, false), (all, true)] {
            let add = |(line, tally): &mut (Self, T), batch: &RecordBatch| {
                if !line.add(batch) && !is_last {
                    return ControlFlow::Break(());
                }
                tally.add(batch);
                ControlFlow::Continue(())
            };
            let drawn = answers.fold(&question(columns)?, self.octets_max(), || (self.clone(), T::default()), add)?;
            let joined = drawn.map(|drawn| {
                drawn.into_iter().reduce(|(mut line, mut tally), (other_line, other_tally)| {
                    line.join(other_line);
                    tally.join(other_tally);
                    (line, tally)
                })
            });
            if let Some(joined) = joined {
                return Ok(joined.unwrap_or_else(|| (self, T::default())));
            }
        }
        Ok((self, T::default()))
    }

    /// What it takes at most, however many flows are added.
    fn octets_max(&self) -> usize {
        self.steps.octets_max() + self.by.as_ref().map_or(0, |_| SeriesNumbers::known_octets())
    }

    /// Adds what another line has of other flows. It must be of the same question, and begin its steps at the same times.
    fn join(&mut self, other: Self) {
        debug_assert_eq!(self.offset_ms, other.offset_ms);
        self.steps.join(other.steps);
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
        let series = self.by.as_mut().map(|by| by.of_rows(batch)).unwrap_or_default();
        let count_default = (self.measure == Measure::Flows).then_some(1);
        let flows = FlowColumns::of(batch, self.amount_column(), count_default);
        match flows.without_nulls() {
            Some(whole) if self.add_whole(&whole, &series) => true,
            _ => self.add_each(&flows, batch.num_rows(), &series),
        }
    }

    /// Adds flows that have everything, as nearly all have. Adds none when one of them may not be in the window as a whole, or is too
    /// far from others, and returns whether they were added.
    fn add_whole(&mut self, flows: &WholeColumns<'_>, series: &[u32]) -> bool {
        let Some((first_ms, last_ms)) = flows.range_ms() else { return true };
        let TimeWindow { from_ms, until_ms, .. } = self.window;
        if from_ms.is_some_and(|from_ms| first_ms < from_ms) || until_ms.is_some_and(|until_ms| last_ms > until_ms) {
            return false;
        }
        self.steps.add_whole(flows, (first_ms, last_ms), self.offset_ms, series, self.unit())
    }

    /// Adds the flows of rows one by one.
    fn add_each(&mut self, flows: &FlowColumns<'_>, rows: usize, series: &[u32]) -> bool {
        let mut have_times = true;
        for row in 0..rows {
            let times = flows.times(row);
            have_times &= times.is_some();
            let (Some(count), Some((start, end))) = (flows.count(row), times) else { continue };
            let series = series.get(row).map_or(0, |number| *number as usize);
            self.add_flow(series, start, end, count as f64 * self.unit());
        }
        have_times
    }

    /// What is drawn for each count.
    fn unit(&self) -> f64 {
        if self.measure == Measure::Bits { 8.0 } else { 1.0 }
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
        let local = |ms: i64| ms.saturating_add(self.offset_ms);
        let (from, until) = (local(from), local(until));
        self.steps.add(series, from, until, amount);
    }

    /// The rates, in at most `steps_max` steps.
    pub fn chart(mut self, title: String, steps_max: usize) -> RateChart {
        let steps_max = steps_max.max(1) as i64;
        let offset_ms = self.offset_ms;
        if let (Some(from), Some(until)) = (self.window.from_ms, self.window.until_ms) {
            if self.steps.is_empty() {
                // nothing is drawn, but a step is as long as one with flows would be
                let span_ms = until.saturating_sub(from);
                while self.steps.step_ms < span_ms && span_ms / self.steps.step_ms >= steps_max {
                    self.steps.widen();
                }
            } else {
                self.steps.reach(from.saturating_add(offset_ms), until.saturating_add(offset_ms));
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
        let from_ms = self.steps.first.saturating_mul(self.steps.step_ms).saturating_sub(offset_ms);
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

#[cfg(test)]
mod tests;
