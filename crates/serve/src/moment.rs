//! Times in parameters.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use weir_query::times::{self, TimeError};
use weir_query::{TimeWindow, WindowRule};

use crate::Problem;

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Reads a time: milliseconds since the epoch, or as every command reads it, in UTC where it has no zone.
pub(crate) fn moment(text: &str, now_ms: i64) -> Result<i64, Problem> {
    if let Ok(ms) = text.parse::<u64>() {
        return Ok(ms.min(i64::MAX as u64) as i64);
    }
    let now = zoned(now_ms);
    // a plus sign of an offset arrives as a space
    let read =
        times::moment(text, &now).or_else(|error| times::moment(&text.replace(' ', "+"), &now).map_err(|_| error));
    read.map_err(|error| Problem::request(error.to_string()).with_hint(TimeError::HINT))
}

fn zoned(ms: i64) -> Zoned {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC)
}

/// The window between two times, each of which may be open. One that begins at a time relative to now ends now.
pub(crate) fn window(from: Option<&str>, until: Option<&str>) -> Result<TimeWindow, Problem> {
    let now = now_ms();
    let read = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(|text| moment(text, now)).transpose();
    let until_ms = read(until)?.or_else(|| times::open_end(from?, &zoned(now)));
    let window = TimeWindow { from_ms: read(from)?, until_ms, rule: WindowRule::Overlaps };
    check_order(window.from_ms, window.until_ms)?;
    Ok(window)
}

/// Refuses a time that ends before it begins.
pub(crate) fn check_order(from_ms: Option<i64>, until_ms: Option<i64>) -> Result<(), Problem> {
    match (from_ms, until_ms) {
        (Some(from), Some(until)) if from > until => Err(Problem::request("'from' is after 'until'")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let read = |text: &str| moment(text, 1_000_000).map_err(|problem| problem.detail);
        assert_eq!(read("now"), Ok(1_000_000));
        assert_eq!(read("-15m"), Ok(1_000_000 - 900_000));
        assert_eq!(read("1767225600000"), Ok(1_767_225_600_000));
        // date -u -d 2026-01-01T01:00:00+01:00 +%s
        assert_eq!(read("2026-01-01T01:00:00+01:00"), Ok(1_767_225_600_000));
        assert_eq!(read("2026-01-01T01:00:00 01:00"), Ok(1_767_225_600_000));
        assert_eq!(read("yesterday"), Ok(-86_400_000));
        assert_eq!(read("soon"), Err("'soon' is no time".to_owned()));
        assert_eq!(read("-15"), Err("'-15' is no time".to_owned()));
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_wrong() {
        assert!(window(Some("2"), Some("1")).is_err());
        assert!(check_order(Some(2), Some(1)).is_err() && check_order(Some(1), Some(1)).is_ok());
        assert!(check_order(None, Some(1)).is_ok() && check_order(Some(1), None).is_ok());
        let open = window(Some(""), None).expect("a window");
        assert_eq!((open.from_ms, open.until_ms), (None, None));
    }

    #[test]
    fn a_window_from_a_relative_time_ends_now() {
        let before = now_ms();
        let last_hour = window(Some("-1h"), Some("")).expect("a window");
        let until_ms = last_hour.until_ms.expect("an end");
        assert!(before <= until_ms && until_ms <= now_ms());
        assert_eq!(last_hour.from_ms, Some(until_ms - 3_600_000));
        let later = window(Some("-1h"), Some("+1h")).expect("a window");
        assert!(later.until_ms >= Some(before + 3_600_000));
        assert_eq!(window(Some("1767225600000"), None).expect("a window").until_ms, None);
    }
}
