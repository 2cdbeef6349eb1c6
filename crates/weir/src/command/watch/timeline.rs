//! When a backtest would have reported: by steps and by days.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use weir_print::plot::{Horizontal, Measure, PointChart, PointStyle, RateChart, Series};
use weir_watch::Outcome;
use weir_watch::report::time_text;

/// Milliseconds of a day.
const DAY_MS: f64 = 86_400_000.0;
/// Steps of a picture.
pub(super) const PICTURE_STEPS: usize = 200;
/// An hour, the shortest time that a number of reports a day is worked out of.
const DAYS_MIN: f64 = 1.0 / 24.0;

/// Reports over time.
pub(super) struct Timeline {
    from_ms: i64,
    step_ms: i64,
    /// Name and number of reports in each step, of each backtest.
    series: Vec<(String, Vec<u64>)>,
}

impl Timeline {
    /// The reports of some backtests in at most so many steps; `None` when no window was asked.
    pub(super) fn of(outcomes: &[(&str, &Outcome)], steps: usize) -> Option<Self> {
        let ranges = outcomes.iter().filter_map(|(_, outcome)| outcome.range_ms);
        let (from_ms, until_ms) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let step_ms = ((until_ms - from_ms) / steps.max(1) as i64).saturating_add(1);
        let steps = usize::try_from((until_ms - from_ms) / step_ms).unwrap_or(0) + 1;
        let counted = outcomes.iter().map(|(name, outcome)| {
            let mut counts = vec![0; steps];
            for firing in &outcome.firings {
                let at = usize::try_from((firing.window_end_ms - from_ms) / step_ms).unwrap_or(0);
                if let Some(count) = counts.get_mut(at) {
                    *count += firing.reports.len() as u64;
                }
            }
            ((*name).to_owned(), counts)
        });
        Some(Self { from_ms, step_ms, series: counted.collect() })
    }

    /// For a terminal.
    pub(super) fn chart(&self, zone: TimeZone) -> RateChart {
        let series = self.series.iter().map(|(label, counts)| Series {
            label: label.clone(),
            rates: counts.iter().map(|count| *count as f64).collect(),
        });
        RateChart {
            title: String::new(),
            measure: Measure::Flows,
            zone,
            from_ms: self.from_ms,
            step_ms: self.step_ms,
            series: series.collect(),
            gaps: Vec::new(),
        }
    }

    /// For a picture: a bar for each step.
    pub(super) fn picture(&self, title: String) -> PointChart {
        let points = |counts: &[u64]| -> Vec<(f64, f64)> {
            let middle = |step: usize| (self.from_ms + self.step_ms * step as i64 + self.step_ms / 2) as f64;
            counts.iter().enumerate().map(|(step, count)| (middle(step), *count as f64)).collect()
        };
        PointChart {
            style: PointStyle::Bars,
            title,
            x_label: "end of the window".to_owned(),
            y_label: "reports".to_owned(),
            horizontal: Horizontal::Time,
            places: Vec::new(),
            series: self.series.iter().map(|(label, counts)| (label.clone(), points(counts))).collect(),
        }
    }
}

/// Reports of each day, with those that have none: what a rule that is right reports of quiet days are false alarms.
pub(super) fn days(outcome: &Outcome, zone: &TimeZone) -> BTreeMap<Date, u64> {
    let date = |ms: i64| Timestamp::from_millisecond(ms).ok().map(|time| time.to_zoned(zone.clone()).date());
    let mut days = BTreeMap::new();
    let Some((Some(first), Some(last))) = outcome.range_ms.map(|(first, last)| (date(first), date(last))) else {
        return days;
    };
    let mut day = Some(first);
    while let Some(at) = day.filter(|day| *day <= last) {
        days.insert(at, 0);
        day = at.tomorrow().ok();
    }
    for firing in &outcome.firings {
        if let Some(date) = date(firing.window_end_ms) {
            *days.entry(date).or_default() += firing.reports.len() as u64;
        }
    }
    days
}

/// Reports a day, of the time that was asked.
pub(super) fn per_day(outcome: &Outcome) -> f64 {
    let length_ms = outcome.range_ms.map_or(0, |(first, last)| last - first);
    outcome.reports() as f64 / (length_ms as f64 / DAY_MS).max(DAYS_MIN)
}

/// What a backtest found, for programs.
pub(super) fn summary(outcome: &Outcome, zone: &TimeZone) -> Value {
    let (first, last) = outcome.range_ms.map_or((None, None), |(first, last)| (Some(first), Some(last)));
    let days: BTreeMap<String, u64> =
        days(outcome, zone).into_iter().map(|(day, count)| (day.to_string(), count)).collect();
    json!({ "summary": {
        "first_window_end": first.map(time_text),
        "last_window_end": last.map(time_text),
        "windows": outcome.windows,
        "windows_failed": outcome.windows_failed,
        "flows": outcome.rows,
        "rows_shed": outcome.rows_shed,
        "rows_future": outcome.rows_future,
        "rows_without_time": outcome.rows_without_time,
        "reports": outcome.reports(),
        "reports_per_day": per_day(outcome),
        "reports_by_day": days,
        "repeated": outcome.suppressed,
        "seconds": outcome.elapsed.as_secs_f64(),
    } })
}
