//! Rates over time as pictures: what is drawn, and the scales that every drawing shares.
//!
//! A [`Chart`] is the data, with times and units; [`terminal`] draws it with letters. Pictures for files are drawn by
//! whoever has the means, from the same chart and the same [`ticks`], so that a terminal and a file never disagree about
//! what an axis says.

pub mod terminal;
pub mod ticks;

use jiff::tz::TimeZone;

/// What a chart counts per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bits.
    Bits,
    /// Packets.
    Packets,
    /// Flows.
    Flows,
}

impl Measure {
    /// Every measure.
    pub const ALL: &'static [Self] = &[Self::Bits, Self::Packets, Self::Flows];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Packets => "packets",
            Self::Flows => "flows",
        }
    }

    /// Unit of an axis, to follow a prefix such as `M`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Bits => "bit/s",
            Self::Packets => "packets/s",
            Self::Flows => "flows/s",
        }
    }
}

/// Rates over time, in steps of one length.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What is shown, in a few words.
    pub title: String,
    /// What is counted.
    pub measure: Measure,
    /// Zone of the times at the axis.
    pub zone: TimeZone,
    /// When the first step begins, milliseconds since the epoch.
    pub from_ms: i64,
    /// Length of a step in milliseconds.
    pub step_ms: i64,
    /// What is drawn; with several, their sum is the whole.
    pub series: Vec<Series>,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub label: String,
    /// The mean rate of each step, per second.
    pub rates: Vec<f64>,
}

impl Series {
    /// The largest rate.
    pub fn max(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The mean rate.
    pub fn mean(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len().max(1) as f64
    }
}

impl Chart {
    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.series.iter().map(|series| series.rates.len()).max().unwrap_or(0)
    }

    /// When the last step ends.
    pub fn until_ms(&self) -> i64 {
        self.from_ms.saturating_add(self.step_ms.saturating_mul(self.steps() as i64))
    }

    /// The sum of all series in each step.
    pub fn totals(&self) -> Vec<f64> {
        let total = |step| self.series.iter().filter_map(|series| series.rates.get(step)).sum();
        (0..self.steps()).map(total).collect()
    }

    /// A line that says from when to when, how wide steps are, and in which zone.
    pub fn caption(&self) -> String {
        let step = ticks::span_text(self.step_ms);
        let times = (ticks::local(self.from_ms, &self.zone), ticks::local(self.until_ms(), &self.zone));
        let (Some(from), Some(until)) = times else { return format!("steps of {step}") };
        let is_same_day = from.date() == until.date();
        let until = until.strftime(if is_same_day { "%H:%M:%S %Z" } else { "%Y-%m-%d %H:%M:%S %Z" });
        format!("{} to {until}, steps of {step}", from.strftime("%Y-%m-%d %H:%M:%S"))
    }
}
