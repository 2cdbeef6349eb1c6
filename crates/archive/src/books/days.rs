//! Which days of the books are kept by day, and which are to be.
//!
//! Rows that cover a day make the range of times in a segment's name end with the last millisecond of the day. No minute
//! begins there, so the name says it, and no file is opened for it.

use std::time::Duration;

use super::fold::BooksStep;
use crate::civil::{MS_PER_DAY, day_of_ms};

const MS_PER_MINUTE: i64 = 60_000;

/// Whether a segment of the books whose name has this range of times has rows that cover a day.
pub(crate) fn is_by_day(time_range_ms: Option<(i64, i64)>) -> bool {
    time_range_ms.is_some_and(|(_, last)| last.rem_euclid(MS_PER_DAY) == MS_PER_DAY - 1)
}

/// What the rows of a segment of the books with this range of times cover: milliseconds, the end not included.
pub(crate) fn covered((first, last): (i64, i64)) -> (i64, i64) {
    let last_span = if is_by_day(Some((first, last))) { 1 } else { MS_PER_MINUTE };
    (first, last.saturating_add(last_span))
}

/// How to add up segments of one day with these ranges of times: by day when the day has been over for `age_max`. A day
/// of which some is kept by day already stays so, whatever the age is now.
pub(crate) fn step(
    mut time_ranges_ms: impl Iterator<Item = Option<(i64, i64)>>,
    age_max: Duration,
    now_ms: i64,
) -> BooksStep {
    let is_due = |range: Option<(i64, i64)>| is_by_day(range) || is_old(range, age_max, now_ms);
    if time_ranges_ms.any(is_due) { BooksStep::Day } else { BooksStep::Minute }
}

/// Whether a segment with this range of times is to be rewritten by day.
pub(crate) fn is_due(time_range_ms: Option<(i64, i64)>, age_max: Duration, now_ms: i64) -> bool {
    !is_by_day(time_range_ms) && is_old(time_range_ms, age_max, now_ms)
}

/// Whether the day of this range has been over for `age_max`.
fn is_old(time_range_ms: Option<(i64, i64)>, age_max: Duration, now_ms: i64) -> bool {
    let age_max_ms = i64::try_from(age_max.as_millis()).unwrap_or(i64::MAX);
    time_range_ms.is_some_and(|(first, _)| {
        let end_ms = day_of_ms(first).saturating_add(1).saturating_mul(MS_PER_DAY);
        now_ms.saturating_sub(end_ms) >= age_max_ms
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_range_that_ends_with_the_day_is_of_rows_by_day() {
        assert!(is_by_day(Some((0, MS_PER_DAY - 1))) && is_by_day(Some((-MS_PER_DAY, -1))));
        assert!(!is_by_day(None) && !is_by_day(Some((0, MS_PER_DAY - MS_PER_MINUTE))));
        assert_eq!(covered((0, MS_PER_DAY - 1)), (0, MS_PER_DAY));
        assert_eq!(covered((0, MS_PER_DAY - MS_PER_MINUTE)), (0, MS_PER_DAY));
        assert_eq!(covered((0, i64::MAX)), (0, i64::MAX));
    }

    #[test]
    fn a_day_is_kept_by_minute_until_its_age() {
        let (range, by_day) = (Some((60_000, 120_000)), Some((0, MS_PER_DAY - 1)));
        let now_ms = 3 * MS_PER_DAY;
        let step = |ranges: &[_], age_max| step(ranges.iter().copied(), age_max, now_ms);
        assert_eq!(step(&[range], 2 * DAY), BooksStep::Day);
        assert_eq!(step(&[range], 2 * DAY + Duration::from_millis(1)), BooksStep::Minute);
        assert_eq!(step(&[range, by_day], Duration::MAX), BooksStep::Day, "what is lost does not come back");
        assert_eq!(step(&[None], Duration::ZERO), BooksStep::Minute);
        assert!(is_due(range, 2 * DAY, now_ms) && !is_due(by_day, 2 * DAY, now_ms) && !is_due(range, 3 * DAY, now_ms));
    }
}
