//! Where axes have their marks, and what these say.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// Marks of an axis of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// What a value is divided by.
    pub factor: f64,
    /// The prefix for that: `k`, `M`, `G` or nothing.
    pub prefix: &'static str,
    /// The marks, from 0 to the first that no value is above.
    pub marks: Vec<f64>,
}

impl Scale {
    /// The last mark, which is the height of the axis.
    pub fn top(&self) -> f64 {
        self.marks.last().copied().unwrap_or(1.0)
    }

    /// What a mark says.
    pub fn label(&self, mark: f64) -> String {
        let step = self.marks.get(1).copied().unwrap_or(self.factor) / self.factor;
        let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        format!("{:.digits$}", mark / self.factor)
    }
}

/// What a value is divided by to be read, and the prefix that says so.
pub fn prefix(value: f64) -> (f64, &'static str) {
    match value {
        value if value >= 1e12 => (1e12, "T"),
        value if value >= 1e9 => (1e9, "G"),
        value if value >= 1e6 => (1e6, "M"),
        value if value >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    }
}

/// A rate as people read it, three digits and a unit: `12.3 Mbit/s`.
pub fn rate_text(value: f64, unit: &str) -> String {
    let (factor, prefix) = prefix(value);
    let scaled = value / factor;
    let digits = match scaled {
        scaled if scaled >= 99.95 || scaled == 0.0 => 0,
        scaled if scaled >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {prefix}{unit}")
}

/// Marks for values up to `max`: at most `count` steps of 1, 2 or 5 times a power of ten.
pub fn scale(max: f64, count: usize) -> Scale {
    let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
    let least = max / count.max(1) as f64;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= least * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    let steps = (max / step - 1e-9).ceil().max(1.0) as usize;
    let marks: Vec<f64> = (0..=steps).map(|mark| mark as f64 * step).collect();
    let (factor, prefix) = prefix(steps as f64 * step);
    Scale { factor, prefix, marks }
}

/// A mark at an axis of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeMark {
    /// When, milliseconds since the epoch.
    pub ms: i64,
    /// What it says.
    pub label: String,
    /// The day, where it is not that of the mark before.
    pub day: Option<String>,
}

/// Steps between marks of time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Seconds(i64),
    Days(i64),
    Months(i64),
}

const STEPS: &[Step] = {
    use Step::{Days, Months, Seconds};
    &[
        Seconds(1),
        Seconds(2),
        Seconds(5),
        Seconds(10),
        Seconds(15),
        Seconds(30),
        Seconds(60),
        Seconds(120),
        Seconds(300),
        Seconds(600),
        Seconds(900),
        Seconds(1800),
        Seconds(3600),
        Seconds(7200),
        Seconds(10_800),
        Seconds(21_600),
        Seconds(43_200),
        Days(1),
        Days(2),
        Days(7),
        Months(1),
        Months(3),
        Months(6),
        Months(12),
    ]
};

impl Step {
    fn millis(self) -> i64 {
        match self {
            Self::Seconds(seconds) => seconds * 1000,
            Self::Days(days) => days * 86_400_000,
            Self::Months(months) => months * 30 * 86_400_000,
        }
    }

    fn span(self) -> Span {
        match self {
            Self::Seconds(seconds) => Span::new().seconds(seconds),
            Self::Days(days) => Span::new().days(days),
            Self::Months(months) => Span::new().months(months),
        }
    }

    /// The last whole step at or before a local time.
    fn floor(self, time: DateTime) -> DateTime {
        let midnight = time.date().to_datetime(jiff::civil::Time::midnight());
        match self {
            Self::Seconds(seconds) => {
                let past = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
                midnight.saturating_add(Span::new().seconds(past - past % seconds))
            }
            Self::Days(days) => midnight.saturating_sub(Span::new().days(i64::from(time.day() - 1) % days)),
            Self::Months(months) => {
                let first = midnight.date().first_of_month().to_datetime(jiff::civil::Time::midnight());
                first.saturating_sub(Span::new().months(i64::from(time.month() - 1) % months))
            }
        }
    }

    fn label(self, time: &Zoned) -> String {
        let format = match self {
            Self::Seconds(seconds) if seconds < 60 => "%H:%M:%S",
            Self::Seconds(_) => "%H:%M",
            Self::Days(_) => "%b %-d",
            Self::Months(_) => "%b",
        };
        time.strftime(format).to_string()
    }

    /// The line below the label: the day, or for whole days and months the year.
    fn day(self, time: &Zoned) -> String {
        time.strftime(if matches!(self, Self::Seconds(_)) { "%Y-%m-%d" } else { "%Y" }).to_string()
    }
}

/// A moment in a zone.
pub fn local(ms: i64, zone: &TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()))
}

/// Marks between two moments at full local times, at most `count` of them (and one).
pub fn time_marks(from_ms: i64, until_ms: i64, zone: &TimeZone, count: usize) -> Vec<TimeMark> {
    let span = until_ms.saturating_sub(from_ms).max(1);
    let least = span / count.max(1) as i64;
    let fallback = Step::Months(12);
    let step = STEPS.iter().copied().find(|step| step.millis() >= least).unwrap_or(fallback);
    let Some(first) = local(from_ms, zone) else { return Vec::new() };
    let mut time = step.floor(first.datetime());
    let mut marks = Vec::new();
    let mut last_day = String::new();
    // floor and the clock going back put at most a few marks before the first moment
    for _ in 0..count.saturating_mul(2) + 8 {
        let Ok(zoned) = time.to_zoned(zone.clone()) else { break };
        let ms = zoned.timestamp().as_millisecond();
        if ms > until_ms {
            break;
        }
        // Where clocks go forward, some local times are not there.
        if ms >= from_ms && zoned.datetime() == time {
            let day = step.day(&zoned);
            let is_new = day != last_day;
            marks.push(TimeMark { ms, label: step.label(&zoned), day: is_new.then(|| day.clone()) });
            last_day = day;
        }
        let Ok(next) = time.checked_add(step.span()) else { break };
        time = next;
        if let (Step::Days(2..), true) = (step, time.day() > 28) {
            // steps of days begin anew with the month, so that marks do not crowd at its end
            time = time.date().last_of_month().to_datetime(jiff::civil::Time::midnight());
            time = time.saturating_add(Span::new().days(1));
        }
    }
    marks
}

/// A span of time in its largest whole unit.
pub fn span_text(ms: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let unit = units.iter().find(|(length, _)| ms >= *length && ms % length == 0);
    unit.map_or_else(|| format!("{ms} ms"), |(length, name)| format!("{} {name}", ms / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_round_marks() {
        let check = |max: f64, count: usize, expected: &[&str], prefix: &str| {
            let scale = scale(max, count);
            let labels: Vec<_> = scale.marks.iter().map(|mark| scale.label(*mark)).collect();
            assert_eq!((labels.as_slice(), scale.prefix), (expected.map_owned().as_slice(), prefix), "{max}");
            assert!(scale.top() >= max, "{max}");
        };
        check(37e6, 4, &["0", "10", "20", "30", "40"], "M");
        check(1e9, 5, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"], "G");
        check(0.3, 3, &["0.0", "0.1", "0.2", "0.3"], "");
        check(4200.0, 2, &["0", "5"], "k");
        check(0.0, 2, &["0.0", "0.5", "1.0"], "");
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for [&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }

    #[test]
    fn rates_have_three_digits() {
        let texts = [0.0, 0.5, 9.999, 12.34, 999.6, 12_345_678.0, 2.5e12].map(|rate| rate_text(rate, "bit/s"));
        let expected =
            ["0 bit/s", "0.50 bit/s", "10.0 bit/s", "12.3 bit/s", "1000 bit/s", "12.3 Mbit/s", "2.50 Tbit/s"];
        assert_eq!(texts, expected);
    }

    fn marks(from: &str, until: &str, zone: &str, count: usize) -> Vec<String> {
        let zone = TimeZone::get(zone).expect("a zone");
        let ms = |text: &str| text.parse::<Timestamp>().expect("a time").as_millisecond();
        let marks = time_marks(ms(from), ms(until), &zone, count);
        marks
            .into_iter()
            .map(|mark| format!("{}{}", mark.label, mark.day.map_or(String::new(), |day| format!(" {day}"))))
            .collect()
    }

    #[test]
    fn times_are_full_local_ones() {
        // 05:30 ahead of UTC
        let found = marks("2026-01-01T18:20:00Z", "2026-01-01T20:10:00Z", "Asia/Kolkata", 4);
        assert_eq!(found, ["00:00 2026-01-02", "00:30", "01:00", "01:30"]);
        let found = marks("2026-01-01T00:00:00Z", "2026-01-01T00:00:04Z", "UTC", 4);
        assert_eq!(found, ["00:00:00 2026-01-01", "00:00:01", "00:00:02", "00:00:03", "00:00:04"]);
        // clocks go forward at 02:00 on 2026-03-29
        let found = marks("2026-03-28T23:00:00Z", "2026-03-29T10:00:00Z", "Europe/Zurich", 6);
        assert_eq!(found, ["00:00 2026-03-29", "04:00", "06:00", "08:00", "10:00", "12:00"]);
        let found = marks("2026-01-25T00:00:00Z", "2026-02-12T00:00:00Z", "UTC", 12);
        assert_eq!(found, ["Jan 25 2026", "Jan 27", "Feb 1", "Feb 3", "Feb 5", "Feb 7", "Feb 9", "Feb 11"]);
        let found = marks("2025-11-15T00:00:00Z", "2026-03-02T00:00:00Z", "UTC", 5);
        assert_eq!(found, ["Dec 2025", "Jan 2026", "Feb", "Mar"]);
    }

    #[test]
    fn spans_have_one_unit() {
        assert_eq!(
            [500, 1000, 90_000, 300_000, 7_200_000, 86_400_000].map(span_text),
            ["500 ms", "1 s", "90 s", "5 min", "2 h", "1 d"]
        );
    }
}
