//! Axes whose ticks and labels are made here: round numbers, round times.

use std::ops::Range;

use crate::time_text;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis from `low` to `high`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Where labels are, and what they say.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + ((value - self.low) / (self.high - self.low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    #[expect(clippy::float_cmp, reason = "values are those of the ticks, handed back as they are")]
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(tick, _)| tick == value).map_or_else(String::new, |(_, label)| label.clone())
    }
}

impl Axis {
    /// Round numbers, about `ticks` of them.
    pub(super) fn of_numbers(low: f64, high: f64, ticks: usize) -> Self {
        let step = round_step((high - low) / ticks.max(1) as f64);
        let (unit, letter) = unit_of(low.abs().max(high.abs()));
        let decimals = (0..12).find(|&decimals| is_whole(step / unit * 10_f64.powi(decimals))).unwrap_or(12) as usize;
        let text = |value: f64| match letter {
            _ if value == 0.0 => "0".to_owned(),
            "e" => format!("{value:.1e}"),
            letter => format!("{:.decimals$}{letter}", value / unit),
        };
        let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        // Multiples rather than sums, so that errors do not add up.
        let values = (first..=last).map(|number| number as f64 * step);
        Self { low, high, ticks: values.map(|value| (value, text(value))).collect() }
    }

    /// Round times in UTC, at most `ticks` of them. Milliseconds since the epoch.
    pub(super) fn of_times(low: f64, high: f64, ticks: usize) -> Self {
        let span = high - low;
        let fits = |step: &&i64| span / **step as f64 <= ticks.max(1) as f64;
        let days = |step: i64| step * DAY_MS;
        let step = TIME_STEPS_MS.iter().find(fits).copied();
        let step = step.unwrap_or_else(|| days((span / ticks.max(1) as f64 / DAY_MS as f64).ceil() as i64));
        let is_one_day = (low as i64).div_euclid(DAY_MS) == (high as i64).div_euclid(DAY_MS);
        let (first, last) = ((low / step as f64).ceil() as i64, (high / step as f64).floor() as i64);
        let values = (first..=last).map(|number| number * step);
        Self { low, high, ticks: values.map(|ms| (ms as f64, time_label(ms, step, is_one_day))).collect() }
    }

    /// Names at the whole numbers from 0.
    pub(super) fn of_names(names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(number, name)| (number as f64, name.clone())).collect();
        Self { low: -0.5, high: names.len().max(1) as f64 - 0.5, ticks }
    }

    /// Letters of the longest label.
    pub(super) fn letters_max(&self) -> usize {
        self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0)
    }
}

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

const TIME_STEPS_MS: &[i64] = &[
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND_MS,
    2 * SECOND_MS,
    5 * SECOND_MS,
    10 * SECOND_MS,
    15 * SECOND_MS,
    30 * SECOND_MS,
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    14 * DAY_MS,
    28 * DAY_MS,
];

/// What a time is called among times so far apart.
fn time_label(ms: i64, step_ms: i64, is_one_day: bool) -> String {
    let text = time_text(ms);
    let Some((date, time)) = text.trim_end_matches('Z').split_once('T') else { return text };
    let clock = match step_ms {
        _ if step_ms >= DAY_MS => return date.to_owned(),
        _ if step_ms >= MINUTE_MS => &time[..5],
        _ if step_ms >= SECOND_MS => &time[..8],
        _ => time,
    };
    match date.split_once('-') {
        Some((_, day)) if !is_one_day => format!("{day} {clock}"),
        _ => clock.to_owned(),
    }
}

/// The smallest round number that is not below a step: 1, 2, 2.5 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let rounds = [1.0, 2.0, 2.5, 5.0, 10.0];
    let round = rounds.into_iter().find(|round| round * power >= step * 0.999_999);
    round.unwrap_or(10.0) * power
}

fn is_whole(number: f64) -> bool {
    (number - number.round()).abs() < 1e-6
}

/// What labels of numbers up to `size` are divided by, and the unit after them.
fn unit_of(size: f64) -> (f64, &'static str) {
    match size {
        _ if size >= 1e15 || (size < 1e-3 && size > 0.0) => (1.0, "e"),
        _ if size >= 1e12 => (1e12, " T"),
        _ if size >= 1e9 => (1e9, " G"),
        _ if size >= 1e6 => (1e6, " M"),
        _ if size >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(labels(&Axis::of_numbers(0.0, 1.0, 5)), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Axis::of_numbers(-3.0, 8.0, 6)), ["-2", "0", "2", "4", "6", "8"]);
        assert_eq!(
            labels(&Axis::of_numbers(0.0, 1_250_000.0, 5)),
            ["0", "0.25 M", "0.50 M", "0.75 M", "1.00 M", "1.25 M"]
        );
        assert_eq!(labels(&Axis::of_numbers(0.0, 65_535.0, 4)), ["0", "20 k", "40 k", "60 k"]);
        assert_eq!(labels(&Axis::of_numbers(0.0, 2e-6, 2)), ["0", "1.0e-6", "2.0e-6"]);
    }

    #[test]
    fn times_are_round() {
        // 2026-01-01T00:00:00Z
        let midnight = 1_767_225_600_000.0;
        let minute = Axis::of_times(midnight + 12_000.0, midnight + 61_000.0, 6);
        assert_eq!(labels(&minute), ["00:00:20", "00:00:30", "00:00:40", "00:00:50", "00:01:00"]);
        let days = Axis::of_times(midnight - 1.0, midnight + 86_400_000.0, 4);
        assert_eq!(labels(&days), ["01-01 00:00", "01-01 12:00", "01-02 00:00"]);
        let years = Axis::of_times(midnight, midnight + 1000.0 * 86_400_000.0, 5);
        assert!(years.ticks.len() <= 6 && labels(&years).iter().all(|label| label.len() == 10), "{years:?}");
        assert_eq!(labels(&Axis::of_times(midnight, midnight + 4.0, 4)).last(), Some(&"00:00:00.004"));
    }

    #[test]
    fn values_are_mapped_into_pixels() {
        let axis = Axis::of_numbers(0.0, 10.0, 5);
        assert_eq!([0.0, 5.0, 10.0].map(|value| axis.map(&value, (100, 0))), [100, 50, 0]);
        assert_eq!(axis.format_ext(&axis.ticks[1].0), axis.ticks[1].1);
    }
}
