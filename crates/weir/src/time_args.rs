//! The time that a question is about, and the zone of its times: the same flags for every command.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use weir_print::zone_name;
use weir_query::times::{self, TimeError};

/// Which time.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TimeArgs {
    /// Begin at this time, such as 2026-11-21T08:30, yesterday, 'monday 14:00', 08:30 or -1h
    ///
    /// weir query takes flows that were active then or later, by `start` and `end`; weir books goes by when they were received,
    /// and weir series by its steps.
    #[arg(long, visible_alias = "since", value_name = "TIME", value_parser = time_text, allow_hyphen_values = true, conflicts_with = "last")]
    from: Option<String>,
    /// End at this time [default: now if --from is relative to now, such as -1h, today or 08:30]
    #[arg(long, value_name = "TIME", value_parser = time_text, allow_hyphen_values = true)]
    until: Option<String>,
    /// Take so long before the end, which is now unless --until says otherwise: 15m, 1h, 7d
    #[arg(long, value_name = "DURATION", value_parser = span_text)]
    last: Option<String>,
    /// Read and print times in UTC rather than in the local zone
    #[arg(long)]
    utc: bool,
}

impl TimeArgs {
    /// Zone of times for people.
    pub(crate) fn zone(&self) -> TimeZone {
        zone(self.utc)
    }

    /// Milliseconds since the epoch of begin and end, those that are given.
    pub(crate) fn range(&self) -> anyhow::Result<[Option<i64>; 2]> {
        let now = Zoned::now().with_time_zone(self.zone());
        let read = |text: &Option<String>| text.as_deref().map(|text| times::moment(text, &now)).transpose();
        let (mut from, mut until) = (read(&self.from)?, read(&self.until)?);
        until = until.or_else(|| times::open_end(self.from.as_deref()?, &now));
        if let Some(last) = &self.last {
            let end = until.unwrap_or_else(|| now.timestamp().as_millisecond());
            let begin = Timestamp::from_millisecond(end)?.to_zoned(self.zone()).checked_sub(times::span(last)?)?;
            (from, until) = (Some(begin.timestamp().as_millisecond()), Some(end));
        }
        check_order(from, until)?;
        Ok([from, until])
    }
}

/// Refuses a time that ends before it begins.
pub(crate) fn check_order(from: Option<i64>, until: Option<i64>) -> anyhow::Result<()> {
    match (from, until) {
        (Some(from), Some(until)) if until < from => {
            anyhow::bail!("the time ends before it begins\nhint: give --from a time before that of --until")
        }
        _ => Ok(()),
    }
}

/// The local zone, or UTC.
pub(crate) fn zone(is_utc: bool) -> TimeZone {
    if is_utc { TimeZone::UTC } else { TimeZone::system() }
}

/// `from 2026-11-21 10:00 to 11:00 Europe/Zurich`.
pub(crate) fn range_text(from_ms: i64, until_ms: i64, zone: &TimeZone) -> String {
    let at = |ms: i64| Timestamp::from_millisecond(ms).map(|time| time.to_zoned(zone.clone()));
    let (Ok(from), Ok(until)) = (at(from_ms), at(until_ms)) else { return "at no known time".to_owned() };
    let end = if from.date() == until.date() { "%H:%M" } else { "%F %H:%M" };
    format!("from {} to {} {}", from.strftime("%F %H:%M"), until.strftime(end), zone_name(zone))
}

/// One moment, in the local zone where it names none.
pub(crate) fn moment(text: &str) -> Result<i64, String> {
    times::moment(text, &Zoned::now()).map_err(|error| with_hint(&error))
}

fn with_hint(error: &TimeError) -> String {
    format!("{error}\nhint: {}", TimeError::HINT)
}

/// A time, which is kept as text because its zone is another argument.
fn time_text(text: &str) -> Result<String, String> {
    moment(text).map(|_| text.to_owned())
}

/// A length of time in days and shorter.
fn span_text(text: &str) -> Result<String, String> {
    let checked = times::span(text).map(|_| text.to_owned());
    checked.map_err(|error| format!("{error}\nhint: write 15m, 1h, 7d or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_from_a_relative_begin_ends_now() {
        let range = |from: &str, until: Option<&str>| {
            let args = TimeArgs { from: Some(from.to_owned()), until: until.map(str::to_owned), last: None, utc: true };
            args.range().expect("a range")
        };
        let [from, until] = range("-1h", None);
        assert_eq!(until, from.map(|from| from + 3_600_000));
        assert!(range("-1h", Some("+2h"))[1] > until);
        assert_eq!(range("2026-01-01", None)[1], None);
    }
}
