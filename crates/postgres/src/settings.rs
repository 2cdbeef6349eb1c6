//! Settings of a session.
//!
//! Clients set what changes how answers look to them. What weir has one way of doing can be set to that way only; anything
//! else would be accepted and not done.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::errors::{BAD_SETTING, PgError, UNKNOWN_SETTING};

/// The version of Postgres that is spoken: drivers choose their questions by it.
pub(crate) const VERSION: &str = "15.0";
pub(crate) const VERSION_NUMBER: &str = "150000";

/// What may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Nothing.
    Fixed,
    /// Anything; it is for the client itself.
    Free,
    /// Something that begins with one of these words, in any case.
    Words(&'static [&'static str]),
    Zone,
    Timeout,
}

/// Name, value at the start, what may be set, and whether clients get to know it at once.
const SETTINGS: &[(&str, &str, Rule, bool)] = &[
    ("application_name", "", Rule::Free, true),
    ("bytea_output", "hex", Rule::Words(&["hex"]), false),
    ("client_encoding", "UTF8", Rule::Words(&["utf8", "utf-8", "unicode"]), true),
    ("client_min_messages", "notice", Rule::Free, false),
    ("DateStyle", "ISO, MDY", Rule::Words(&["iso", "mdy", "dmy", "ymd"]), true),
    ("default_transaction_isolation", "read committed", Rule::Free, false),
    ("default_transaction_read_only", "on", Rule::Words(&["on", "true", "1"]), true),
    ("extra_float_digits", "1", Rule::Free, false),
    ("idle_in_transaction_session_timeout", "0", Rule::Free, false),
    ("in_hot_standby", "off", Rule::Fixed, true),
    ("integer_datetimes", "on", Rule::Fixed, true),
    ("IntervalStyle", "postgres", Rule::Words(&["postgres"]), true),
    ("is_superuser", "off", Rule::Fixed, true),
    ("lc_collate", "C", Rule::Fixed, false),
    ("lc_ctype", "C.UTF-8", Rule::Fixed, false),
    ("lc_messages", "C", Rule::Free, false),
    ("lock_timeout", "0", Rule::Free, false),
    ("max_identifier_length", "63", Rule::Fixed, false),
    ("max_index_keys", "32", Rule::Fixed, false),
    ("row_security", "on", Rule::Free, false),
    ("search_path", "public", Rule::Free, false),
    ("server_encoding", "UTF8", Rule::Fixed, true),
    ("server_version", VERSION, Rule::Fixed, true),
    ("server_version_num", VERSION_NUMBER, Rule::Fixed, false),
    ("session_authorization", "", Rule::Fixed, true),
    ("standard_conforming_strings", "on", Rule::Words(&["on", "true"]), true),
    ("statement_timeout", "0", Rule::Timeout, false),
    ("TimeZone", "UTC", Rule::Zone, true),
    ("transaction_isolation", "read committed", Rule::Free, false),
    ("transaction_read_only", "on", Rule::Words(&["on", "true", "1"]), false),
];
/// Octets of a value.
const VALUE_OCTETS_MAX: usize = 1024;

/// Settings of a session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    values: Vec<String>,
    zone: TimeZone,
    time_max: Option<Duration>,
}

impl Settings {
    /// Those of a new session.
    pub(crate) fn new(user: &str) -> Self {
        let values = SETTINGS.iter().map(|(name, value, _, _)| match *name {
            "session_authorization" => user.to_owned(),
            "server_version" => format!("{VERSION} (weir {})", env!("CARGO_PKG_VERSION")),
            _ => (*value).to_owned(),
        });
        Self { values: values.collect(), zone: TimeZone::UTC, time_max: None }
    }

    fn position(name: &str) -> Option<usize> {
        SETTINGS.iter().position(|(known, ..)| known.eq_ignore_ascii_case(name))
    }

    /// The name of a setting as it is written, and its value.
    pub(crate) fn get(&self, name: &str) -> Option<(&'static str, &str)> {
        let position = Self::position(name)?;
        Some((SETTINGS[position].0, self.values[position].as_str()))
    }

    /// All names and values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        SETTINGS.iter().zip(&self.values).map(|((name, ..), value)| (*name, value.as_str()))
    }

    /// Names and values that clients get to know.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        SETTINGS
            .iter()
            .zip(&self.values)
            .filter(|((.., is_reported), _)| *is_reported)
            .map(|((name, ..), value)| (*name, value.as_str()))
    }

    /// Sets a value, or the default. Gives name and value when the client must get to know them.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<Option<(&'static str, &str)>, PgError> {
        let position = Self::position(name).ok_or_else(|| unknown(name))?;
        let (name, default, rule, is_reported) = SETTINGS[position];
        let text = value.unwrap_or(default);
        if text.len() > VALUE_OCTETS_MAX {
            return Err(PgError::new(
                BAD_SETTING,
                format!("the value of {name} is longer than {VALUE_OCTETS_MAX} octets"),
            ));
        }
        let wrong = || PgError::new(BAD_SETTING, format!("{name} cannot be '{}'", text.escape_debug()));
        let mut set = text.to_owned();
        match rule {
            Rule::Fixed if value.is_none() || text == self.values[position] => return Ok(None),
            Rule::Fixed => return Err(wrong().with_hint(format!("{name} cannot be changed"))),
            Rule::Free => {}
            Rule::Words(words) => {
                let given = text.to_ascii_lowercase();
                let is_fit = |part: &str| words.iter().any(|word| *word == part.trim());
                if !given.split(',').all(is_fit) {
                    return Err(wrong().with_hint(format!("it is {default} here")));
                }
                default.clone_into(&mut set);
            }
            Rule::Zone => {
                let found = zone_of(text).ok_or_else(|| wrong().with_hint("write a zone like Europe/Paris or UTC"))?;
                self.zone = found;
            }
            Rule::Timeout => self.time_max = time_of(text).ok_or_else(wrong)?,
        }
        self.values[position] = set;
        Ok(is_reported.then_some((name, self.values[position].as_str())))
    }

    /// Sets all to what they were at the start.
    pub(crate) fn reset(&mut self) {
        let user = self.get("session_authorization").map(|(_, user)| user.to_owned()).unwrap_or_default();
        let application = self.get("application_name").map(|(_, name)| name.to_owned());
        *self = Self::new(&user);
        // what came with the startup message stays; it is free text
        let _ = self.set("application_name", application.as_deref());
    }

    /// The zone of times that are written without one.
    pub(crate) fn zone(&self) -> TimeZone {
        self.zone.clone()
    }

    /// How long a statement may run.
    pub(crate) fn time_max(&self) -> Option<Duration> {
        self.time_max
    }
}

pub(crate) fn unknown(name: &str) -> PgError {
    PgError::new(UNKNOWN_SETTING, format!("there is no setting '{}'", name.escape_debug()))
        .with_hint("SHOW ALL lists the settings")
}

fn zone_of(text: &str) -> Option<TimeZone> {
    let name = text.trim();
    if ["utc", "gmt", "z", "local", "etc/utc"].contains(&name.to_ascii_lowercase().as_str()) {
        return Some(TimeZone::UTC);
    }
    if let Ok(hours) = name.parse::<i8>() {
        return jiff::tz::Offset::from_hours(hours).ok().map(TimeZone::fixed);
    }
    TimeZone::get(name).ok()
}

/// A time of a setting: milliseconds, or a number with a unit. `None` inside is no limit.
#[expect(clippy::option_option, reason = "no time, no limit, or a limit")]
fn time_of(text: &str) -> Option<Option<Duration>> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let ms = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some((number > 0).then(|| Duration::from_millis(number.saturating_mul(ms))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_cannot_be_set_otherwise() {
        let mut settings = Settings::new("ann");
        for (name, value) in [
            ("client_encoding", "LATIN1"),
            ("datestyle", "German"),
            ("server_version", "9"),
            ("default_transaction_read_only", "off"),
            ("standard_conforming_strings", "off"),
            ("timezone", "Mars/Olympus"),
            ("statement_timeout", "soon"),
        ] {
            let error = settings.set(name, Some(value)).expect_err(name);
            assert_eq!(error.code, BAD_SETTING, "{name}");
        }
        assert_eq!(settings.set("nonsense", Some("1")).expect_err("unknown").code, UNKNOWN_SETTING);
        assert_eq!(settings.set("client_encoding", Some("utf-8")), Ok(Some(("client_encoding", "UTF8"))));
        assert_eq!(settings.set("DATESTYLE", Some("ISO, DMY")), Ok(Some(("DateStyle", "ISO, MDY"))));
    }

    #[test]
    fn times_and_zones_count() {
        let mut settings = Settings::new("ann");
        settings.set("statement_timeout", Some("2min")).expect("a time");
        assert_eq!(settings.time_max(), Some(Duration::from_mins(2)));
        settings.set("statement_timeout", Some("1500")).expect("a time");
        assert_eq!(settings.time_max(), Some(Duration::from_millis(1500)));
        settings.set("statement_timeout", None).expect("none");
        assert_eq!(settings.time_max(), None);
        settings.set("timezone", Some("Europe/Paris")).expect("a zone");
        assert_eq!(settings.zone().iana_name(), Some("Europe/Paris"));
        settings.set("application_name", Some("psql")).expect("a name");
        settings.reset();
        assert_eq!(settings.get("TIMEZONE"), Some(("TimeZone", "UTC")));
        assert_eq!(settings.get("application_name"), Some(("application_name", "psql")));
    }
}
