//! Spans of time, sizes in bytes and rates: one type each, written with units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units of time with their milliseconds, the longest first.
const TIME_UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Units of size with their bytes.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

/// Units of numbers with what they stand for.
const NUMBER_UNITS: [(&str, u64); 4] = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1000), ("", 1)];

/// Why a text is no span of time, no size or no rate. Its text ends with the remedy, on a line of its own: an error of a
/// command line shows the text alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// The text is no span of time.
    Time {
        /// The text.
        text: String,
    },
    /// The text is no rate.
    Rate {
        /// The text.
        text: String,
    },
    /// The text is no size.
    Size {
        /// The text.
        text: String,
    },
}

impl UnitError {
    /// What is wrong, without the remedy.
    pub fn message(&self) -> String {
        match self {
            Self::Time { text } => format!("'{text}' is not a duration"),
            Self::Rate { text } => format!("'{text}' is not a rate"),
            Self::Size { text } => format!("'{text}' is not a size"),
        }
    }

    /// The remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Time { .. } => "write a number with a unit: 250ms, 30s, 5m, 12h, 7d, 4w, 1y",
            Self::Rate { .. } => "write a number for each second: 500, 50k, 1.5M",
            Self::Size { .. } => {
                "write a number with a unit: 4096B, 64MiB, 2GiB (powers of 1024), 64MB, 2GB (powers of 1000)"
            }
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message(), self.hint())
    }
}

impl std::error::Error for UnitError {}

/// A span of time with a unit: `250ms`, `30s`, `5m`, `12h`, `7d`, `4w`, `1y` (365 days), `1h30m`, `1.5s`; `0` needs no unit.
/// It is kept to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct TimeSpan(Duration);

impl TimeSpan {
    /// No time.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The same as a duration of the standard library.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Milliseconds; the largest number when there are more.
    pub fn millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }

    /// Seconds with their fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<Duration> for TimeSpan {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        span.0
    }
}

impl FromStr for TimeSpan {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UnitError::Time { text: text.to_owned() };
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        let mut millis = 0.0;
        let mut last = u64::MAX;
        while !rest.is_empty() {
            let (number, unit, after) = number_and_unit(rest).ok_or_else(wrong)?;
            let &(_, unit_millis) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            if unit_millis >= last {
                return Err(wrong());
            }
            last = unit_millis;
            millis += number * unit_millis as f64;
            rest = after;
        }
        // a thousand years: what is longer is a mistake, and would not fit where seconds are added to dates; and what is
        // less than a millisecond must not become 0, which may mean something else
        let is_rounded_away = millis > 0.0 && millis < 0.5;
        if last == u64::MAX || millis > 1000.0 * TIME_UNITS[0].1 as f64 || is_rounded_away {
            return Err(wrong());
        }
        Ok(Self::from_millis(millis.round() as u64))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = self.0.as_millis() as u64;
        if millis == 0 {
            return f.write_str("0s");
        }
        // years and weeks are only accepted: 365d says what is meant
        for (unit, unit_millis) in &TIME_UNITS[2..] {
            let count = millis / unit_millis;
            millis %= unit_millis;
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

/// A size in bytes with a unit: `4096B`, `64KiB`, `64MiB`, `2GiB`, `1TiB` (powers of 1024), `64kB`, `64MB`, `2GB`, `1TB`
/// (powers of 1000); `0` needs no unit. A number alone is refused, as that of a span of time is: it is more often a unit
/// forgotten than a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A number of bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A number of MiB.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UnitError::Size { text: text.to_owned() };
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0));
        }
        let (number, unit, rest) = number_and_unit(trimmed).ok_or_else(wrong)?;
        let &(_, unit_bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let bytes = number * unit_bytes as f64;
        if !rest.is_empty() || bytes >= i64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |(_, bytes): &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*bytes);
        let (unit, bytes) = SIZE_UNITS.iter().find(exact).copied().unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

/// So many of something a second: `500`, `50k`, `1.5M`, `1G` (powers of 1000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Rate(u64);

impl Rate {
    /// So many a second.
    pub const fn from_per_second(per_second: u64) -> Self {
        Self(per_second)
    }

    /// How many a second.
    pub const fn per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UnitError::Rate { text: text.to_owned() };
        let trimmed = text.trim();
        if let Ok(per_second) = trimmed.parse() {
            return Ok(Self(per_second));
        }
        let (number, unit, rest) = number_and_unit(trimmed).ok_or_else(wrong)?;
        let &(_, factor) = NUMBER_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let per_second = number * factor as f64;
        // a part of one a second is not kept, so it is not taken either
        if !rest.is_empty() || per_second.fract() != 0.0 || per_second >= i64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Self(per_second as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |(_, factor): &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*factor);
        let (unit, factor) = NUMBER_UNITS.iter().find(exact).copied().unwrap_or(("", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

/// A number at the beginning of a text, the letters behind it, and what comes after those.
fn number_and_unit(text: &str) -> Option<(f64, &str, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let rest = text[digits..].trim_start();
    let unit_end = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit_end);
    Some((number, unit, after.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Option<u64> {
        text.parse::<TimeSpan>().ok().map(|span| span.duration().as_millis() as u64)
    }

    fn size(text: &str) -> Option<u64> {
        text.parse::<ByteSize>().ok().map(ByteSize::bytes)
    }

    #[test]
    fn spans_have_units() {
        let hour = 3_600_000;
        let good = [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250),
            ("1.5s", 1500),
            ("30 s", 30_000),
            ("5m", 300_000),
            ("1h30m", hour + hour / 2),
            ("12h", 12 * hour),
            ("7d", 168 * hour),
            ("2w", 336 * hour),
            ("1y", 8760 * hour),
        ];
        for (text, millis) in good {
            assert_eq!(time(text), Some(millis), "{text}");
        }
        for text in ["", "30", "s", "5 minutes", "0.1ms", "-1s", "1m1h", "1s1s", "1e3s", "99999y", "5M"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn rates_have_units() {
        for (text, per_second, shown) in [
            ("0", 0, "0"),
            ("500", 500, "500"),
            ("50k", 50_000, "50k"),
            ("1.5 M", 1_500_000, "1500k"),
            ("2G", 2_000_000_000, "2G"),
        ] {
            let rate: Rate = text.parse().expect(text);
            assert_eq!((rate.per_second(), rate.to_string().as_str()), (per_second, shown), "{text}");
        }
        for text in ["", "k", "-1", "50K", "0.5", "1k1", "50k/s", "99999999999G"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        let good = [
            ("0", 0),
            ("0B", 0),
            ("512B", 512),
            ("64KiB", 65536),
            ("64kB", 64000),
            ("1.5GiB", 3 << 29),
            ("2 GB", 2_000_000_000),
            ("1TiB", 1 << 40),
        ];
        for (text, bytes) in good {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "17", "1.5", "00", "64M", "64mb", "KiB", "1MiB2", "-1B", "1e30TiB", "64 MiB extra"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn an_error_ends_with_its_remedy() {
        let error = "90".parse::<TimeSpan>().expect_err("no unit");
        assert_eq!(error.message(), "'90' is not a duration");
        assert_eq!(error.to_string(), format!("'90' is not a duration\nhint: {}", error.hint()));
        let error = "90".parse::<ByteSize>().expect_err("no unit");
        assert!(
            error.to_string().starts_with("'90' is not a size\nhint: write a number with a unit: 4096B, "),
            "{error}"
        );
        let error = "90/s".parse::<Rate>().expect_err("no unit");
        assert!(error.to_string().starts_with("'90/s' is not a rate\nhint: write a number for each second"), "{error}");
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for millis in [0, 1, 999, 1000, 61_000, 90_061_001, 31_536_000_000] {
            let span = TimeSpan::from_millis(millis);
            assert_eq!(span.to_string().parse(), Ok(span), "{span}");
        }
        for bytes in [0, 1, 1000, 1024, 65_536, 1 << 30, 1_500_000, (1 << 40) + 1] {
            let size = ByteSize::from_bytes(bytes);
            assert_eq!(size.to_string().parse(), Ok(size), "{size}");
        }
        assert_eq!(TimeSpan::from_millis(5_400_000).to_string(), "1h30m");
        assert_eq!(ByteSize::from_mib(64).to_string(), "64MiB");
    }
}
