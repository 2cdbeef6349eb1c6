//! Days of the UTC calendar, for the names of partitions.

use std::path::Path;

pub(crate) const MS_PER_DAY: i64 = 86_400_000;

/// The UTC day that a time falls on, counted from 1970-01-01.
pub(crate) fn day_of_ms(ms: i64) -> i64 {
    ms.div_euclid(MS_PER_DAY)
}

/// `YYYY-MM-DD` of a day, by the proleptic Gregorian calendar.
///
/// Counts in eras of 400 years whose years begin in March, so that the leap day is the last day of its year.
pub(crate) fn day_text(day: i64) -> String {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

/// The day of a text that [`day_text`] wrote.
pub(crate) fn day_of_text(text: &str) -> Option<i64> {
    let mut numbers = text.rsplitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (day, month, year) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let year_from_march = if month <= 2 { year.checked_sub(1)? } else { year };
    let month_from_march = (month + 9).rem_euclid(12);
    let (era, year_of_era) = (year_from_march.div_euclid(400), year_from_march.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let found = era.checked_mul(146_097)?.checked_add(day_of_era - 719_468)?;
    // whatever is no date, such as the thirtieth of February, does not come back as itself
    (day_text(found) == text).then_some(found)
}

/// The day of a folder `date=YYYY-MM-DD`; `None` of one that is named otherwise.
pub(crate) fn day_of_partition(path: &Path) -> Option<i64> {
    day_of_text(path.file_name()?.to_str()?.strip_prefix("date=")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values: `date -u -d @SECONDS +%F`.
    #[test]
    fn days_have_their_dates() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_763_683_199, "2025-11-20"),
            (1_763_683_200, "2025-11-21"),
            (4_107_542_400, "2100-03-01"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(day_text(day_of_ms(seconds * 1000)), text);
            assert_eq!(day_of_text(text), Some(day_of_ms(seconds * 1000)));
        }
        for other in ["", "2025", "2025-02-30", "2025-13-01", "2025-1-1", "x-01-01", "9223372036854775807-01-01"] {
            assert_eq!(day_of_text(other), None, "{other}");
        }
    }
}
