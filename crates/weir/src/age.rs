//! Lengths of time as people write them: `90m`, `30d`.

use std::str::FromStr;
use std::time::Duration;

/// Seconds of each suffix.
const UNITS: [(&str, u64); 6] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800), ("y", 31_536_000)];

/// A length of time; a day has 24 hours, a year 365 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let of_unit = |(suffix, secs): (&str, u64)| lower.strip_suffix(suffix)?.parse::<u64>().ok()?.checked_mul(secs);
        let secs = UNITS.into_iter().find_map(of_unit);
        let age = secs.map(|secs| Self(Duration::from_secs(secs)));
        age.ok_or_else(|| format!("'{text}' is not a length of time such as 90m, 12h, 30d, 4w or 1y"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        let secs = |text: &str| text.parse::<Age>().map(|age| age.0.as_secs());
        assert_eq!((secs("90m"), secs("30d"), secs("2W")), (Ok(5400), Ok(2_592_000), Ok(1_209_600)));
        for wrong in ["", "30", "d", "1.5d", "-1d", "99999999999999999y"] {
            assert!(secs(wrong).is_err(), "{wrong}");
        }
    }
}
