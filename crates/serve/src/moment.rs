//! Times in parameters.

use jiff::Timestamp;
use weir_chain::TimeSpan;
use weir_query::{TimeWindow, WindowRule};

use crate::Problem;

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Reads a time: RFC 3339, milliseconds since the epoch, `now`, or relative to now such as `-15m`.
pub(crate) fn moment(text: &str, now_ms: i64) -> Result<i64, Problem> {
    let wrong = || {
        Problem::request(format!("'{}' is not a time", text.escape_debug()))
            .with_hint("such as now, -15m, 1767225600000 or 2026-01-01T00:00:00Z")
    };
    if text == "now" {
        return Ok(now_ms);
    }
    if let Some(span) = text.strip_prefix('-') {
        let span: TimeSpan = span.parse().map_err(|_| wrong())?;
        return Ok(now_ms.saturating_sub(span.millis()));
    }
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    // a plus sign of an offset arrives as a space
    text.replace(' ', "+").parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|_| wrong())
}

/// The window between two times, each of which may be open.
pub(crate) fn window(from: Option<&str>, until: Option<&str>) -> Result<TimeWindow, Problem> {
    let now = now_ms();
    let read = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(|text| moment(text, now)).transpose();
    let window = TimeWindow { from_ms: read(from)?, until_ms: read(until)?, rule: WindowRule::Overlaps };
    if let (Some(from), Some(until)) = (window.from_ms, window.until_ms)
        && from > until
    {
        return Err(Problem::request("'from' is after 'until'"));
    }
    Ok(window)
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
        assert_eq!(read("yesterday"), Err("'yesterday' is not a time".to_owned()));
        assert_eq!(read("-15"), Err("'-15' is not a time".to_owned()));
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_wrong() {
        assert!(window(Some("2"), Some("1")).is_err());
        let open = window(Some(""), None).expect("a window");
        assert_eq!((open.from_ms, open.until_ms), (None, None));
    }
}
