//! Plots: rates over time and points of some series, with letters in a terminal or as SVG and PNG.
//!
//! A [`RateChart`] has rates over time, with times and units; [`terminal`] draws it with letters, and [`Plot`] as a picture by the
//! same [`ticks`], so that a terminal and a file never disagree about what an axis says. A [`PointChart`] has any points.
//! Both kinds of picture are drawn on one canvas, with one size, palette and font.

pub mod points;
pub mod terminal;
pub mod ticks;

mod axis;
mod canvas;
mod png;
mod rates;

use std::fs;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::tz::TimeZone;

pub use points::{Horizontal, PointChart, PointStyle};

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
pub struct RateChart {
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
    /// Steps of which nothing is known, ascending and apart. They are drawn as such, and not as rates of 0.
    pub gaps: Vec<Range<usize>>,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub label: String,
    /// The mean rate of each step, per second; 0 where nothing is known.
    pub rates: Vec<f64>,
}

impl Series {
    /// The largest rate.
    pub fn max(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

impl RateChart {
    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.series.iter().map(|series| series.rates.len()).max().unwrap_or(0)
    }

    /// Whether nothing is known of a step.
    pub fn is_gap(&self, step: usize) -> bool {
        self.gaps.iter().any(|gap| gap.contains(&step))
    }

    /// Number of steps of which nothing is known.
    pub fn gap_steps(&self) -> usize {
        self.gaps.iter().map(ExactSizeIterator::len).sum()
    }

    /// The mean rate of a series over the steps that are known.
    pub fn mean(&self, series: &Series) -> f64 {
        let known = series.rates.len().saturating_sub(self.gap_steps());
        series.rates.iter().sum::<f64>() / known.max(1) as f64
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

    /// A line that says from when to when, how wide steps are, and in which zone: both of them where clocks change in between.
    pub fn caption(&self) -> String {
        let step = ticks::span_text(self.step_ms);
        let times = (ticks::local(self.from_ms, &self.zone), ticks::local(self.until_ms(), &self.zone));
        let (Some(from), Some(until)) = times else { return format!("steps of {step}") };
        let is_same_day = from.date() == until.date();
        let is_same_zone = from.offset() == until.offset();
        let from = from.strftime(if is_same_zone { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S %Z" });
        let until = until.strftime(if is_same_day { "%H:%M:%S %Z" } else { "%Y-%m-%d %H:%M:%S %Z" });
        format!("{from} to {until}, steps of {step}")
    }
}

/// A plot that becomes a picture.
#[derive(Debug, Clone, Copy)]
pub enum Plot<'a> {
    /// Rates over time, stacked.
    Rates(&'a RateChart),
    /// Points of some series.
    Points(&'a PointChart),
}

impl Plot<'_> {
    /// Most series of rates next to the others: each has a colour of its own.
    pub const RATES_SERIES_MAX: usize = rates::SERIES_MAX;
    /// Most steps of rates that a picture has pixels for.
    pub const RATES_STEPS_MAX: usize = rates::STEPS_MAX;

    /// The plot as SVG.
    pub fn svg(&self) -> Result<String, PlotError> {
        match self {
            Self::Rates(chart) => canvas::svg(*chart),
            Self::Points(chart) => canvas::svg(*chart),
        }
    }

    /// The plot as PNG.
    pub fn png(&self) -> Result<Vec<u8>, PlotError> {
        match self {
            Self::Rates(chart) => canvas::png(*chart),
            Self::Points(chart) => canvas::png(*chart),
        }
    }

    /// Writes the plot into a file.
    pub fn save(&self, file: &PictureFile) -> Result<(), PlotError> {
        let (path, octets) = match file {
            PictureFile::Svg(path) => (path, self.svg()?.into_bytes()),
            PictureFile::Png(path) => (path, self.png()?),
        };
        fs::write(path, octets).map_err(|source| PlotError::Write { path: path.clone(), source })
    }
}

/// A file for a picture; the ending of its name chooses the kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PictureFile {
    /// Scalable Vector Graphics.
    Svg(PathBuf),
    /// Portable Network Graphics.
    Png(PathBuf),
}

impl FromStr for PictureFile {
    type Err = PlotError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(text);
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg(path)),
            Some("png") => Ok(Self::Png(path)),
            _ => Err(PlotError::UnknownKind(text.to_owned())),
        }
    }
}

/// Why a plot is not drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The name of a file says no kind of picture.
    #[error("'{}' is not a picture: the name must end in .svg or .png", .0.escape_debug())]
    UnknownKind(String),
    /// The font of PNG cannot be loaded.
    #[error("cannot load the font of pictures")]
    Font,
    /// The figure cannot be drawn.
    #[error("cannot draw the picture: {0}")]
    Draw(String),
    /// The pixels cannot be packed.
    #[error("cannot encode the picture")]
    Encode(#[source] io::Error),
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_chooses_the_kind() {
        assert_eq!("a/b.SVG".parse::<PictureFile>().ok(), Some(PictureFile::Svg("a/b.SVG".into())));
        assert!(matches!("proto tcp".parse::<PictureFile>(), Err(PlotError::UnknownKind(_))));
    }

    /// Clocks go back at 03:00 of summer time on 2026-10-25 in Zurich, which is 01:00 UTC (tz database).
    #[test]
    fn a_caption_has_both_zones_where_clocks_change() {
        let caption = |from: &str, steps: usize| {
            let chart = RateChart {
                title: String::new(),
                measure: Measure::Flows,
                zone: TimeZone::get("Europe/Zurich").expect("a zone"),
                from_ms: from.parse::<jiff::Timestamp>().expect("a time").as_millisecond(),
                step_ms: 3_600_000,
                series: vec![Series { label: "all".to_owned(), rates: vec![0.0; steps] }],
                gaps: Vec::new(),
            };
            chart.caption()
        };
        let both = "2026-10-25 00:00:00 CEST to 05:00:00 CET, steps of 1 h";
        assert_eq!(caption("2026-10-24T22:00:00Z", 6), both);
        assert_eq!(caption("2026-10-24T20:00:00Z", 2), "2026-10-24 22:00:00 to 2026-10-25 00:00:00 CEST, steps of 1 h");
    }

    /// The same points in both kinds of picture: the dots of SVG have their colour in the pixels of PNG.
    #[test]
    fn points_are_drawn_as_svg_and_png() {
        let chart = PointChart {
            style: PointStyle::Bars,
            title: "bars".to_owned(),
            x_label: "name".to_owned(),
            y_label: "bytes".to_owned(),
            horizontal: Horizontal::Name,
            places: vec!["a".to_owned(), "b".to_owned()],
            series: vec![("all".to_owned(), vec![(0.0, 1.0), (1.0, 3.0)])],
        };
        let svg = Plot::Points(&chart).svg().expect("a picture");
        assert!(svg.starts_with("<svg width=\"1000\" height=\"560\""), "{}", &svg[..80]);
        assert_eq!(svg.matches("#0072B2").count(), 2, "one bar for each name");
        let png = Plot::Points(&chart).png().expect("a picture");
        assert_eq!(png.get(16..24), Some([2000_u32.to_be_bytes(), 1120_u32.to_be_bytes()].concat().as_slice()));
    }
}
