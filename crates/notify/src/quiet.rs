//! Hours in which nobody wants to be disturbed.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use weir_chain::{OptionText, Problem, ValueType};

/// Names of days, Monday first.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// Hours of some days; those that go past midnight belong to the day on which they begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuietHours {
    /// Whether they begin on the day, Monday first.
    days: [bool; 7],
    /// Minutes since midnight: the first, and the one after the last.
    minutes: (u16, u16),
    text: String,
}

impl QuietHours {
    /// Whether a time is one of these hours, by the clock of a zone.
    pub(crate) fn has(&self, at_ms: i64, zone: &TimeZone) -> bool {
        let Ok(time) = Timestamp::from_millisecond(at_ms) else { return false };
        let local = time.to_zoned(zone.clone());
        let day = usize::from(local.weekday().to_monday_zero_offset().unsigned_abs());
        let minute = u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
        let (from, until) = self.minutes;
        let begins_on = |day: usize| self.days.get(day % 7).copied().unwrap_or(false);
        if from < until {
            begins_on(day) && (from..until).contains(&minute)
        } else {
            begins_on(day) && minute >= from || begins_on(day + 6) && minute < until
        }
    }
}

impl OptionText for QuietHours {
    fn value_type() -> ValueType {
        ValueType::Text("hours, such as 22:00-07:00, sat-sun or mon-fri 18:00-08:00")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        let wrong = || {
            let hint = "write 22:00-07:00, sat-sun or mon-fri 18:00-08:00";
            Problem::Because(format!("'{}' is no hours", text.escape_debug()), Some(hint.to_owned()))
        };
        let lower = text.to_ascii_lowercase();
        let (days, hours) = match lower.split_once(' ') {
            Some((days, hours)) => (Some(days), Some(hours.trim())),
            None if lower.contains(':') => (None, Some(lower.as_str())),
            None => (Some(lower.as_str()), None),
        };
        let days = days.map_or(Some([true; 7]), parse_days).ok_or_else(wrong)?;
        let minutes = hours.map_or(Some((0, DAY)), parse_hours).ok_or_else(wrong)?;
        Ok(Self { days, minutes, text: text.to_owned() })
    }

    fn text(&self) -> String {
        self.text.clone()
    }

    fn unset() -> Self {
        Self::default()
    }
}

/// Days such as `mon-fri` or `sat,sun`.
fn parse_days(text: &str) -> Option<[bool; 7]> {
    let number = |name: &str| DAYS.iter().position(|day| *day == name);
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        // fri-mon goes over the end of the week
        for day in first..=(if last < first { last + 7 } else { last }) {
            *days.get_mut(day % 7)? = true;
        }
    }
    Some(days)
}

fn parse_hours(text: &str) -> Option<(u16, u16)> {
    let minute = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (minute < 60 && hour * 60 + minute <= DAY).then_some(hour * 60 + minute)
    };
    let (from, until) = text.split_once('-')?;
    let (from, until) = (minute(from)?, minute(until)?);
    (from != until && from < DAY).then_some((from, until))
}

/// A time zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(pub(crate) TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::system())
    }
}

impl Zone {
    /// What stands for the zone of the machine.
    const LOCAL: &str = "local";

    /// The zone.
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }
}

impl OptionText for Zone {
    fn value_type() -> ValueType {
        ValueType::Text("local, UTC or the name of a time zone")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        if text == Self::LOCAL {
            return Ok(Self::default());
        }
        TimeZone::get(text).map(Self).map_err(|_| {
            let hint = "write local, UTC or a name such as Europe/Berlin";
            Problem::Because(format!("'{}' is no time zone", text.escape_debug()), Some(hint.to_owned()))
        })
    }

    fn text(&self) -> String {
        if *self == Self::default() { Self::LOCAL } else { self.0.iana_name().unwrap_or("UTC") }.to_owned()
    }

    fn unset() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hours: &str, zone: &str, time: &str, is_quiet: bool) {
        let hours = QuietHours::parse_text(hours).expect("hours");
        let at: Timestamp = time.parse().expect("a time");
        let zone = TimeZone::get(zone).expect("a zone");
        assert_eq!(hours.has(at.as_millisecond(), &zone), is_quiet, "{hours:?} {time}");
    }

    #[test]
    fn hours_go_past_midnight() {
        // 2026-01-01 is a Thursday
        check("22:00-07:00", "UTC", "2026-01-01T21:59:59Z", false);
        check("22:00-07:00", "UTC", "2026-01-01T22:00:00Z", true);
        check("22:00-07:00", "UTC", "2026-01-02T06:59:59Z", true);
        check("22:00-07:00", "UTC", "2026-01-02T07:00:00Z", false);
        check("12:00-13:00", "UTC", "2026-01-02T12:30:00Z", true);
        check("12:00-13:00", "UTC", "2026-01-02T13:00:00Z", false);
        check("00:00-24:00", "UTC", "2026-01-02T23:59:00Z", true);
    }

    #[test]
    fn they_belong_to_the_day_on_which_they_begin() {
        // Friday night is quiet until Saturday morning; the night of Saturday is not
        check("mon-fri 22:00-07:00", "UTC", "2026-01-03T06:00:00Z", true);
        check("mon-fri 22:00-07:00", "UTC", "2026-01-03T23:00:00Z", false);
        check("mon-fri 22:00-07:00", "UTC", "2026-01-05T06:00:00Z", false);
        check("sat-sun", "UTC", "2026-01-04T23:59:00Z", true);
        check("sat,mon", "UTC", "2026-01-04T12:00:00Z", false);
        check("fri-mon", "UTC", "2026-01-05T12:00:00Z", true);
        check("fri-mon", "UTC", "2026-01-06T12:00:00Z", false);
    }

    #[test]
    fn they_are_those_of_the_zone() {
        // an hour ahead of UTC in winter, two in summer
        check("22:00-07:00", "Europe/Berlin", "2026-01-01T21:30:00Z", true);
        check("22:00-07:00", "Europe/Berlin", "2026-07-01T20:30:00Z", true);
        check("22:00-07:00", "Europe/Berlin", "2026-07-01T05:30:00Z", false);
    }

    #[test]
    fn what_is_no_hours_is_refused() {
        for text in
            ["", "22", "22:00", "22:00-22:00", "24:00-07:00", "22:60-07:00", "25:00-26:00", "someday", "mon 7-8"]
        {
            assert!(QuietHours::parse_text(text).is_err(), "{text}");
        }
        assert!(Zone::parse_text("Middle/Earth").is_err());
        assert_eq!(Zone::parse_text("Europe/Berlin").expect("a zone").text(), "Europe/Berlin");
    }
}
