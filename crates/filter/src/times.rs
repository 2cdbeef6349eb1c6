//! Times as people write them: `2026-11-21 08:30`, `today`, `-1h`.
//!
//! Programs write a moment with its zone (RFC 3339). People leave parts out, and mean their own zone. What is
//! relative is relative to one `now`, which the caller gives, so that both ends of a window are measured from the same
//! moment. Words and units are English; there is no guessing between day and month: a date begins with the year.

use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no time", text.escape_debug())]
pub struct TimeError {
    text: String,
}

impl TimeError {
    /// How times are written.
    pub const HINT: &'static str =
        "write 2026-11-21T08:30, 2026-11-21T08:30:00Z, 08:30, now, today, yesterday 14:00, monday or -1h30m";

    fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

/// A moment in milliseconds since the epoch.
///
/// RFC 3339 with a zone; a prefix of `YYYY-MM-DDTHH:MM:SS` or of `YYYY/MM/DD.HH:MM:SS` in the zone of `now`, where what is
/// left out is the first of its range; `HH:MM` of today; `now`, `today`, `yesterday` and days of the week, which are the
/// last such midnight, alone or with a time of day; a span before or after now, such as `-1h30m`, `-2d` or `3 hours ago`.
///
/// # Errors
///
/// The text is none of these, or a day or hour that there is not.
pub fn moment(text: &str, now: &Zoned) -> Result<i64, TimeError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(TimeError::new(text));
    }
    let known = absolute(trimmed, now.time_zone()).or_else(|| relative(trimmed, now)).or_else(|| named(trimmed, now));
    known.map(Timestamp::as_millisecond).ok_or_else(|| TimeError::new(text))
}

/// When a window ends that begins at this text and has no end of its own: now, where the begin is relative to now and not after
/// it (`-1h`, `today`, `08:30`), and else never.
///
/// "The last hour" is meant by `-1h`. Without an end, flows of an exporter whose clock is days ahead would stretch it to their
/// time.
pub fn open_end(from: &str, now: &Zoned) -> Option<i64> {
    let trimmed = from.trim();
    if trimmed.is_empty() || absolute(trimmed, now.time_zone()).is_some() {
        return None;
    }
    let begin = relative(trimmed, now).or_else(|| named(trimmed, now))?;
    (begin <= now.timestamp()).then(|| now.timestamp().as_millisecond())
}

/// A length of time that is not negative, such as `15m`, `1h 30m` or `7 days`.
///
/// # Errors
///
/// The text is none.
pub fn span(text: &str) -> Result<Span, TimeError> {
    let span: Option<Span> = text.trim().parse().ok();
    span.filter(|span| !span.is_negative()).ok_or_else(|| TimeError::new(text))
}

fn absolute(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp);
    }
    Some(civil(text)?.to_zoned(zone.clone()).ok()?.timestamp())
}

/// A date and what is known of its time.
fn civil(text: &str) -> Option<DateTime> {
    let mut parts = [0_i16, 1, 1, 0, 0, 0];
    // a fraction of the second is behind a dot, and so is the hour of nfdump's form
    let (text, fraction_ms) = split_fraction(text);
    let numbers: Vec<&str> = text.split(['-', '/', '.', 'T', 't', ' ', ':']).collect();
    if numbers.len() > parts.len() || numbers.first()?.len() != 4 {
        return None;
    }
    for (part, number) in parts.iter_mut().zip(numbers) {
        *part = Some(number).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?.parse().ok()?;
    }
    let small = |at: usize| i8::try_from(parts[at]).ok();
    let nanoseconds = i32::from(fraction_ms) * 1_000_000;
    DateTime::new(parts[0], small(1)?, small(2)?, small(3)?, small(4)?, small(5)?, nanoseconds).ok()
}

/// Milliseconds behind a time to the second.
fn split_fraction(text: &str) -> (&str, i16) {
    let fraction = text.rsplit_once('.').filter(|(before, _)| before.matches(':').count() == 2);
    match fraction {
        Some((before, digits)) if (1..=9).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_digit()) => {
            let padded = format!("{digits:0<3}");
            (before, padded[..3].parse().unwrap_or(0))
        }
        _ => (text, 0),
    }
}

/// A span from now, or `now` with one behind it.
fn relative(text: &str, now: &Zoned) -> Option<Timestamp> {
    let span = match text.strip_prefix("now") {
        Some("") => return Some(now.timestamp()),
        Some(rest) => rest.trim_start(),
        None if text.starts_with(['-', '+']) || text.ends_with("ago") => text,
        None => return None,
    };
    let is_back = span.starts_with('-');
    let span: Span = span.trim_start_matches(['-', '+']).trim_start().parse().ok()?;
    let span = if is_back { span.negate() } else { span };
    Some(now.checked_add(span).ok()?.timestamp())
}

/// A day by its name, a time of day, or both.
fn named(text: &str, now: &Zoned) -> Option<Timestamp> {
    // the letter of `todayT08:30`, and not that of `Tuesday`
    let begins_name = usize::from(text.starts_with('T'));
    let gap = text[begins_name..].find([' ', 'T']).map(|at| at + begins_name);
    let (first, rest) = gap.map_or((text, ""), |at| (&text[..at], text[at + 1..].trim()));
    let (day, time) = match day_named(&first.to_ascii_lowercase(), now) {
        Some(day) => (day, rest),
        None => (now.clone(), text),
    };
    let time = if time.is_empty() { Time::midnight() } else { time_of_day(time)? };
    Some(day.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

fn day_named(word: &str, now: &Zoned) -> Option<Zoned> {
    let back = match word {
        "today" => 0,
        "yesterday" => 1,
        _ => i64::from(now.weekday().since(weekday(word)?)),
    };
    now.checked_sub(back.days()).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    const NAMES: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let is_meant = |name: &str| name == word || (word.len() == 3 && name.starts_with(word));
    NAMES.iter().find(|(name, _)| is_meant(name)).map(|(_, day)| *day)
}

/// `HH:MM` or `HH:MM:SS`.
fn time_of_day(text: &str) -> Option<Time> {
    let mut parts = [0_i8; 3];
    let numbers: Vec<&str> = text.split(':').collect();
    if !(2..=3).contains(&numbers.len()) {
        return None;
    }
    for (part, number) in parts.iter_mut().zip(numbers) {
        *part = Some(number).filter(|digits| (1..=2).contains(&digits.len()))?.parse().ok()?;
    }
    Time::new(parts[0], parts[1], parts[2], 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Tuesday, two hours after the clocks of Zurich went on the Sunday before.
    fn now() -> Zoned {
        "2026-03-31T10:20:30+02:00[Europe/Zurich]".parse().expect("a time")
    }

    fn at(text: &str) -> String {
        let ms = moment(text, &now()).unwrap_or_else(|error| panic!("{error}"));
        Timestamp::from_millisecond(ms).expect("a time").to_string()
    }

    #[test]
    fn moments_are_read_in_the_zone_of_now() {
        let cases = [
            ("2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
            ("2023-11-14T22:13:20.25+01:00", "2023-11-14T21:13:20.25Z"),
            ("2023-11-14T22:13:20", "2023-11-14T21:13:20Z"),
            ("2023-11-14 22:13:20.125", "2023-11-14T21:13:20.125Z"),
            ("2023/11/14.22:13:20", "2023-11-14T21:13:20Z"),
            ("2023-11-14 22:13", "2023-11-14T21:13:00Z"),
            ("2023-11-14", "2023-11-13T23:00:00Z"),
            ("2026-07-01", "2026-06-30T22:00:00Z"),
            ("2023", "2022-12-31T23:00:00Z"),
            ("now", "2026-03-31T08:20:30Z"),
            ("now-15m", "2026-03-31T08:05:30Z"),
            ("now - 1 hour", "2026-03-31T07:20:30Z"),
            ("-1h", "2026-03-31T07:20:30Z"),
            ("-1h30m", "2026-03-31T06:50:30Z"),
            ("90 minutes ago", "2026-03-31T06:50:30Z"),
            ("+1h", "2026-03-31T09:20:30Z"),
            // the day before the clocks changed, at the same time of day
            ("-3d", "2026-03-28T09:20:30Z"),
            ("today", "2026-03-30T22:00:00Z"),
            ("yesterday", "2026-03-29T22:00:00Z"),
            ("yesterday 14:00", "2026-03-30T12:00:00Z"),
            ("14:05", "2026-03-31T12:05:00Z"),
            ("tuesday", "2026-03-30T22:00:00Z"),
            ("Tuesday", "2026-03-30T22:00:00Z"),
            ("Today 14:05", "2026-03-31T12:05:00Z"),
            ("todayT14:05", "2026-03-31T12:05:00Z"),
            ("Monday 08:30:15", "2026-03-30T06:30:15Z"),
            ("wed", "2026-03-24T23:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(at(text), expected, "{text}");
        }
    }

    #[test]
    fn a_window_from_a_relative_time_ends_now() {
        let now = now();
        let until = Some(now.timestamp().as_millisecond());
        for text in ["-1h", "now", "now-15m", " 90 minutes ago", "today", "yesterday 14:00", "mon", "08:30"] {
            assert_eq!(open_end(text, &now), until, "{text}");
        }
        for text in ["+1h", "14:05", "2026-03-31", "2026-03-31T08:20:00Z", "2026", "soon", "", "1767225600000"] {
            assert_eq!(open_end(text, &now), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "tomorrowish",
            "2023-13-01",
            "2023-11-31",
            "25:00",
            "-1",
            "1h",
            "10.0.0.1",
            "12",
            "20-11-2023",
            "ago",
            "today -",
            "2023-1a",
        ] {
            assert!(moment(text, &now()).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_have_units_and_no_sign() {
        assert_eq!(span("15m").map(|span| span.get_minutes()), Ok(15));
        assert_eq!(span("7 days").map(|span| span.get_days()), Ok(7));
        assert!(span("15").is_err() && span("-15m").is_err() && span("soon").is_err());
    }
}
