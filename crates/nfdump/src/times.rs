//! Times on the command line: moments, and windows as nfdump's `-t` has them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use weir_query::{TimeWindow, WindowRule};

/// Reads a moment: RFC 3339 with a zone, or a prefix of `YYYY-MM-DDTHH:MM:SS` (or `YYYY/MM/DD.HH:MM:SS`, as nfdump has
/// it) in the local zone. Parts left out are the first of their range.
pub fn moment(text: &str) -> Result<i64, String> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp.as_millisecond());
    }
    let civil = civil(text).ok_or_else(|| {
        format!("'{text}' is not a time such as 2026-11-21T08:30, 2026/11/21.08:30 or 2026-11-21T08:30:00Z")
    })?;
    let zoned: Zoned = civil.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
    Ok(zoned.timestamp().as_millisecond())
}

fn civil(text: &str) -> Option<DateTime> {
    let mut parts = [0_i16, 1, 1, 0, 0, 0];
    let numbers: Vec<&str> = text.split(['-', '/', '.', 'T', ' ', ':']).collect();
    if numbers.len() > parts.len() {
        return None;
    }
    for (position, (part, number)) in parts.iter_mut().zip(numbers).enumerate() {
        // a sign would make 60 seconds of the year 60
        let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
        let digits = if position == 0 { 4..=4 } else { 1..=2 };
        *part = Some(number).filter(|_| is_number && digits.contains(&number.len()))?.parse().ok()?;
    }
    let small = |at: usize| i8::try_from(parts[at]).ok();
    DateTime::new(parts[0], small(1)?, small(2)?, small(3)?, small(4)?, small(5)?, 0).ok()
}

/// nfdump's `-t`: two times joined by the first `-`, either may be left out; a flow must lie strictly inside.
pub fn window(text: &str) -> Result<TimeWindow, String> {
    // A date with dashes is one moment, not two.
    let (from, until) = match moment(text) {
        Ok(_) => (text, ""),
        Err(_) => text.split_once('-').unwrap_or((text, "")),
    };
    let bound = |text: &str| if text.is_empty() { Ok(None) } else { moment(text).map(Some) };
    let (from_ms, until_ms) = (bound(from)?, bound(until)?);
    if from_ms.is_some() && from_ms == until_ms {
        return Err(format!("'{text}' ends when it begins, so that no flow is inside"));
    }
    if (from_ms, until_ms) == (None, None) {
        return Err("the window has neither a begin nor an end".to_owned());
    }
    if from_ms.zip(until_ms).is_some_and(|(from, until)| until < from) {
        return Err(format!("'{text}' ends before it begins; write the two times as YYYY/MM/DD.hh:mm:ss"));
    }
    Ok(TimeWindow { from_ms, until_ms, rule: WindowRule::Inside })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_with_and_without_zone() {
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        let local = |text| moment(text).expect(text);
        assert_eq!(local("2023/11/14.22:13:20"), local("2023-11-14T22:13:20"));
        assert_eq!(local("2023-11-14"), local("2023-11-14T00:00:00"));
        assert!(moment("yesterday").is_err() && moment("2023-13-01").is_err());
    }

    #[test]
    fn windows_that_mean_nothing() {
        for text in
            ["+60", "+1", "60", "-", "", "+2023/11/14", "2023/+1/14", "2023/11/14-+60", "23/11/14", "20231/11/14"]
        {
            assert!(window(text).is_err(), "{text}");
        }
        assert!(window("2023/11/14.22:00-2023/11/14.22:00").is_err());
        assert!(window("2023/11/14.22:00:00-2023/11/14.22:00:01").is_ok());
    }

    #[test]
    fn windows_may_be_open() {
        let closed = window("2023/11/14.22:00:00-2023/11/14.23:00:00").expect("a window");
        assert_eq!(closed.until_ms.zip(closed.from_ms).map(|(until, from)| until - from), Some(3_600_000));
        assert_eq!(window("2023/11/14").expect("a window").until_ms, None);
        assert_eq!(window("2023-11-14").expect("a window").until_ms, None);
        assert!(window("2023/11/14.22-2023/11/13.22").is_err());
    }
}
