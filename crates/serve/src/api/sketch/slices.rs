//! A sketch of short slices of the time.
//!
//! The time is cut into steps, and of each step a short slice is read; a flow that is longer than a slice counts there with its
//! part of it, as in a time line, so the rate of a slice is exact for the slice. What speaks against it is that bursts between
//! two slices are not seen, and that a segment that was merged is read as a whole for a slice of it.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use jiff::tz::TimeZone;
use weir_print::ColumnText;
use weir_query::{FlowQuery, TimeWindow};
use weir_sql::TimeLine;

use super::{Picture, STEPS, Wish, begin_of, list};
use crate::api::parameters::{WhichFlows, ranking};
use crate::api::timeline::SeriesBody;
use crate::moment::now_ms;
use crate::problem::Answered;
use crate::sampling::SamplingCounts;
use crate::service::Question;

/// A slice is this part of its step.
const PARTS: i64 = 24;
/// The shortest slice: below, most of a sketch would be opening files.
const SLICE_MIN_MS: i64 = 1000;
/// Values of each slice that are candidates for a series.
const CANDIDATES: usize = 200;
/// Steps of the line of a slice: its amounts are added up, so it matters little.
const SLICE_STEPS: usize = 4096;

/// What is to be drawn, of slices.
pub(super) fn picture(question: &Question<'_>, wish: &Wish) -> Answered<Picture> {
    let Wish { which, by, top, measure } = wish;
    let steps = Steps::of(&which.window)?;
    let labels = match by {
        Some(by) => {
            let query = which.query(ranking(&by.name, *measure, CANDIDATES)?);
            largest(question, &steps, &query, measure.name(), *top)?
        }
        None => Vec::new(),
    };
    let (mut series, mut counts): (Vec<SeriesBody>, _) = (Vec::new(), SamplingCounts::default());
    let mut rows = 0;
    for step in 0..steps.count {
        let line = TimeLine::new(measure.rate(), steps.slice(step), TimeZone::UTC);
        let line = match by {
            Some(by) => line.by(by.column, labels.clone()),
            None => line,
        };
        let (found, count) = of_slice(question, line, which, steps.slice(step), &mut counts)?;
        rows += count;
        steps.add(step, &found, &mut series);
    }
    let share = steps.slice_ms as f64 / steps.step_ms as f64;
    Ok(Picture { step_ms: steps.step_ms, times: steps.times().collect(), series, share, rows, counts })
}

/// What a slice carried per second, by series, and how many rows it has.
fn of_slice(
    question: &Question<'_>,
    mut line: TimeLine,
    which: &WhichFlows,
    slice: TimeWindow,
    counts: &mut SamplingCounts,
) -> Answered<(Vec<(String, f64)>, usize)> {
    let mut rows = 0;
    let columns = SamplingCounts::with_columns(line.columns());
    let query = FlowQuery { window: slice, ..which.query(list(&columns)) };
    for batch in question.answers.ask(&query)? {
        let batch = batch?;
        rows += batch.num_rows();
        line.add(&batch);
        counts.add(&batch);
    }
    let chart = line.chart(String::new(), SLICE_STEPS);
    let length_ms = slice.until_ms.zip(slice.from_ms).map_or(1, |(until, from)| until - from + 1);
    let part = chart.step_ms as f64 / length_ms as f64;
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() * part;
    let found = chart.series.iter().map(|series| (series.label.clone(), mean(&series.rates))).collect();
    Ok((found, rows))
}

/// The values that have most in all slices together, the largest first.
fn largest(
    question: &Question<'_>,
    steps: &Steps,
    ranked: &FlowQuery,
    measure: &str,
    top: usize,
) -> Answered<Vec<String>> {
    let mut sums: HashMap<String, u64> = HashMap::new();
    for step in 0..steps.count {
        let query = FlowQuery { window: steps.slice(step), ..ranked.clone() };
        for batch in question.answers.ask(&query)? {
            add_counts(&batch?, measure, &mut sums);
        }
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums.truncate(top);
    Ok(sums.into_iter().map(|(label, _)| label).collect())
}

fn add_counts(batch: &RecordBatch, measure: &str, sums: &mut HashMap<String, u64>) {
    let counts = batch.column_by_name(measure).and_then(|counts| counts.as_primitive_opt::<UInt64Type>());
    let Some((field, values)) = batch.schema_ref().fields().first().zip(batch.columns().first()) else { return };
    let mut texts = ColumnText::new(field, values);
    for row in 0..batch.num_rows() {
        let mut text = Vec::new();
        texts.push(row, &mut text);
        let count = counts.filter(|counts| counts.is_valid(row)).map_or(0, |counts| counts.value(row));
        let sum = sums.entry(String::from_utf8_lossy(&text).into_owned()).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// `length` in `parts`, rounded up.
fn at_least(length: i64, parts: i64) -> i64 {
    (length / parts) + i64::from(length % parts > 0)
}

/// How a time is cut.
#[derive(Debug, Clone)]
struct Steps {
    window: TimeWindow,
    from_ms: i64,
    length_ms: i64,
    step_ms: i64,
    slice_ms: i64,
    count: i64,
}

impl Steps {
    fn of(window: &TimeWindow) -> Answered<Self> {
        let from_ms = begin_of(window)?;
        let until_ms = window.until_ms.unwrap_or_else(now_ms);
        // the last millisecond belongs to the window
        let length_ms = until_ms.saturating_sub(from_ms).saturating_add(1).max(1);
        let step_ms = at_least(length_ms, STEPS).max(SLICE_MIN_MS);
        let slice_ms = (step_ms / PARTS).clamp(SLICE_MIN_MS, step_ms);
        Ok(Self { window: *window, from_ms, length_ms, step_ms, slice_ms, count: at_least(length_ms, step_ms) })
    }

    /// The middle of a step; the last step may be shorter than the others.
    fn slice(&self, step: i64) -> TimeWindow {
        let begin_ms = step * self.step_ms;
        let step_ms = self.step_ms.min(self.length_ms - begin_ms);
        let slice_ms = self.slice_ms.min(step_ms);
        let from_ms = self.from_ms + begin_ms + (step_ms - slice_ms) / 2;
        TimeWindow { from_ms: Some(from_ms), until_ms: Some(from_ms + slice_ms - 1), ..self.window }
    }

    fn times(&self) -> impl Iterator<Item = i64> + '_ {
        (0..self.count).map(|step| self.from_ms + step * self.step_ms)
    }

    /// Adds what a slice carried. A series that a slice does not have carried nothing there.
    fn add(&self, step: i64, found: &[(String, f64)], series: &mut Vec<SeriesBody>) {
        for (label, rate) in found {
            let at = series.iter().position(|series| series.name == *label).unwrap_or_else(|| {
                series.push(SeriesBody { name: label.clone(), values: vec![Some(0.0); self.count as usize] });
                series.len() - 1
            });
            series[at].values[step as usize] = Some(*rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from_ms: Option<i64>, until_ms: Option<i64>) -> TimeWindow {
        TimeWindow { from_ms, until_ms, ..TimeWindow::default() }
    }

    #[test]
    fn slices_are_inside_of_their_steps() {
        let day = 86_400_000;
        let steps = Steps::of(&window(Some(0), Some(day - 1))).expect("steps");
        assert_eq!((steps.count, steps.step_ms, steps.slice_ms), (48, 1_800_000, 75_000));
        let slices: Vec<(i64, i64)> = (0..steps.count)
            .map(|step| steps.slice(step))
            .filter_map(|slice| slice.from_ms.zip(slice.until_ms))
            .collect();
        for (time, (from, until)) in steps.times().zip(&slices) {
            assert!(*from >= time && *until < time + steps.step_ms, "{time}: {from} to {until}");
            assert_eq!(until - from + 1, steps.slice_ms);
        }
        assert!(slices.last().is_some_and(|(_, until)| *until < day));
    }

    #[test]
    fn a_short_time_is_read_as_a_whole() {
        let steps = Steps::of(&window(Some(0), Some(9_999))).expect("steps");
        assert_eq!((steps.count, steps.step_ms, steps.slice_ms), (10, 1000, 1000));
        // to the last millisecond, and not beyond
        let steps = Steps::of(&window(Some(0), Some(29_500))).expect("steps");
        assert_eq!((steps.count, steps.slice(29)), (30, window(Some(29_000), Some(29_500))));
        assert!(Steps::of(&window(None, Some(1))).expect_err("no begin").hint.is_some());
    }

    #[test]
    fn a_series_that_comes_later_carried_nothing_before() {
        let steps = Steps::of(&window(Some(0), Some(2999))).expect("steps");
        let mut series = Vec::new();
        steps.add(0, &[("a".to_owned(), 1.0)], &mut series);
        steps.add(2, &[("a".to_owned(), 2.0), ("b".to_owned(), 3.0)], &mut series);
        let values: Vec<_> = series.iter().map(|series| (series.name.as_str(), series.values.clone())).collect();
        assert_eq!(values[0], ("a", vec![Some(1.0), Some(0.0), Some(2.0)]));
        assert_eq!(values[1], ("b", vec![Some(0.0), Some(0.0), Some(3.0)]));
    }
}
