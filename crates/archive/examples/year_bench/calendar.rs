//! How many flows each minute of the year has.
//!
//! The weight of a minute is `DAY[hour]`, joined to the next hour's by a straight line, times `WEEK[weekday]`. A minute
//! has the flows that its weight is of the sum of all weights; fractions are carried on to the next minute, so that the
//! sum is exact.

use std::ops::Range;

/// Milliseconds of a minute.
pub(crate) const MINUTE_MS: i64 = 60_000;
/// Minutes of a day.
pub(crate) const MINUTES: u64 = 24 * 60;
/// 2025-01-01, in days since the epoch.
pub(crate) const FIRST_DAY: i64 = 20_089;

/// Weights of the full hours: a night at a quarter of the working hours.
const DAY: [u64; 24] =
    [40, 34, 30, 28, 28, 32, 50, 100, 130, 135, 135, 135, 135, 135, 135, 135, 130, 130, 125, 120, 110, 75, 60, 48];
/// Percent of a working day, from Monday to Sunday.
const WEEK: [u64; 7] = [100, 104, 104, 102, 94, 55, 48];

/// Flows spread over the minutes of some days.
#[derive(Debug)]
pub(crate) struct Calendar {
    flows: u64,
    /// Sum of the weights of the hours before each minute of a day, and of the whole day.
    before_minute: Vec<u64>,
    /// Sum of the percents before each day, and of all days.
    before_day: Vec<u64>,
}

impl Calendar {
    pub(crate) fn new(days: u64, flows: u64) -> Self {
        let before_minute = sums((0..MINUTES).map(weight_of_minute));
        Self { flows, before_minute, before_day: sums((0..days).map(weekday_percent)) }
    }

    /// Flows of a minute of a day, both counted from 0.
    pub(crate) fn flows_of(&self, day: u64, minute: u64) -> u64 {
        self.flows_before(day, minute + 1) - self.flows_before(day, minute)
    }

    fn flows_before(&self, day: u64, minute: u64) -> u64 {
        let of_day = self.before_minute[MINUTES as usize];
        let all = u128::from(*self.before_day.last().unwrap_or(&1)) * u128::from(of_day);
        let weight =
            self.before_day[day as usize] * of_day + weekday_percent(day) * self.before_minute[minute as usize];
        (u128::from(self.flows) * u128::from(weight) / all) as u64
    }
}

/// Sums of the values before each of them, and of all.
fn sums(values: impl Iterator<Item = u64>) -> Vec<u64> {
    std::iter::once(0)
        .chain(values.scan(0, |sum, value| {
            *sum += value;
            Some(*sum)
        }))
        .collect()
}

/// `YYYY-MM-DD` of a day, counted from 0.
pub(crate) fn date_of(day: u64) -> String {
    let (mut year, mut left) = (2025, day);
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (month, days) in [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate()
        {
            if left < days {
                return format!("{year:04}-{:02}-{:02}", month + 1, left + 1);
            }
            left -= days;
        }
        year += 1;
    }
}

/// When a minute of a day begins, milliseconds since the epoch.
pub(crate) fn begin_ms(day: u64, minute: u64) -> i64 {
    (FIRST_DAY + day as i64) * MINUTES as i64 * MINUTE_MS + minute as i64 * MINUTE_MS
}

/// Minutes of a part of a day that is cut into `parts`.
pub(crate) fn minutes_of(part: u64, parts: u64) -> Range<u64> {
    part * MINUTES / parts..(part + 1) * MINUTES / parts
}

fn weight_of_minute(minute: u64) -> u64 {
    let (hour, past) = (minute / 60, minute % 60);
    DAY[hour as usize % 24] * (60 - past) + DAY[(hour as usize + 1) % 24] * past
}

fn weekday_percent(day: u64) -> u64 {
    // day 0 of the epoch was a Thursday
    WEEK[((FIRST_DAY as u64 + day + 3) % 7) as usize]
}
