//! Time lines as pictures: SVG and PNG.
//!
//! Everything is placed by hand on a plain surface, by the same marks as in the terminal. Series are stacked, so that
//! the upper edge is the total. Colours are those of Okabe and Ito, which people see apart however they see colours.

mod png;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::{
    BitMapBackend, Color, DrawingArea, DrawingBackend, IntoDrawingArea, IntoFont, PathElement, Polygon, RGBColor,
    Rectangle, SVGBackend, Text, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, TextStyle};
use weir_print::plot::ticks::{Scale, rate_text, scale, time_marks};
use weir_print::plot::{Chart, Series};

/// Okabe and Ito's colours but black and yellow, which is too light on white.
const PALETTE: &[RGBColor] = &[
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];
/// What is not told apart.
const OTHER: RGBColor = RGBColor(170, 170, 170);
/// Most series beside the others: each has a colour of its own.
pub(crate) const SERIES_MAX: usize = PALETTE.len();

const DARK: RGBColor = RGBColor(34, 34, 34);
const QUIET: RGBColor = RGBColor(95, 95, 95);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Lengths in pixels, before they are scaled.
const WIDTH: i32 = 1000;
const AREA_HEIGHT: i32 = 340;
const LEFT: i32 = 76;
const RIGHT: i32 = 28;
const TOP: i32 = 86;
const TIMES_HEIGHT: i32 = 56;
const LEGEND_ROW: i32 = 22;
const BOTTOM: i32 = 18;
/// How much larger pictures of pixels are drawn, so that they are sharp on screens of many pixels too.
const PIXELS_SCALE: i32 = 2;
/// Steps of a chart that is drawn: one for each two pixels of the area.
pub(crate) const STEPS_MAX: usize = ((WIDTH - LEFT - RIGHT) / 2) as usize;
const FONT: &str = "sans-serif";

/// A file for a picture; its name tells the kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PictureFile {
    Svg(PathBuf),
    Png(PathBuf),
}

impl std::str::FromStr for PictureFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg(path)),
            Some("png") => Ok(Self::Png(path)),
            _ => Err(format!(
                "'{text}' is no picture: the name must end in .svg or .png\nhint: to draw in the terminal, write --plot \
                 after the filter"
            )),
        }
    }
}

/// Draws a chart into a file.
pub(crate) fn draw(chart: &Chart, file: &PictureFile) -> anyhow::Result<()> {
    match file {
        PictureFile::Svg(path) => written(path, svg(chart)?.as_bytes()),
        PictureFile::Png(path) => written(path, &png_octets(chart)?),
    }
}

fn written(path: &Path, octets: &[u8]) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(octets)?;
        file.flush()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn svg(chart: &Chart) -> anyhow::Result<String> {
    let mut text = String::new();
    paint(&SVGBackend::with_string(&mut text, size(chart, 1)).into_drawing_area(), chart, 1)?;
    Ok(text)
}

fn png_octets(chart: &Chart) -> anyhow::Result<Vec<u8>> {
    let size = size(chart, PIXELS_SCALE);
    plotters::style::register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
        .and_then(|()| plotters::style::register_font(FONT, FontStyle::Bold, dejavu::sans::bold()))
        .map_err(|_| anyhow::anyhow!("the font of pictures cannot be read"))?;
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    paint(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area(), chart, PIXELS_SCALE)?;
    let mut octets = Vec::new();
    png::write(&pixels, size, &mut octets).context("cannot encode the picture")?;
    Ok(octets)
}

fn size(chart: &Chart, times: i32) -> (u32, u32) {
    let legend = LEGEND_ROW * (chart.series.len() as i32 + 1);
    let height = TOP + AREA_HEIGHT + TIMES_HEIGHT + legend + BOTTOM;
    ((WIDTH * times) as u32, (height * times) as u32)
}

/// Draws on any surface.
fn paint<B: DrawingBackend>(surface: &DrawingArea<B, Shift>, chart: &Chart, times: i32) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    let totals = chart.totals();
    let max = totals.iter().copied().fold(0.0, f64::max);
    let painter = Painter { surface, chart, times, scale: scale(max, 5) };
    let painted = painter.paint();
    painted.map_err(|error| anyhow::anyhow!("cannot draw the picture: {error}"))
}

type Painted<B> = Result<(), plotters::drawing::DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

struct Painter<'a, B: DrawingBackend> {
    surface: &'a DrawingArea<B, Shift>,
    chart: &'a Chart,
    /// Pixels of the surface for one of the lengths above.
    times: i32,
    scale: Scale,
}

impl<B: DrawingBackend> Painter<'_, B> {
    fn paint(&self) -> Painted<B> {
        self.surface.fill(&WHITE)?;
        self.text(&self.chart.title, (LEFT, 26), 20, DARK, HPos::Left, FontStyle::Bold)?;
        self.text(&self.chart.caption(), (LEFT, 49), 13, QUIET, HPos::Left, FontStyle::Normal)?;
        self.values()?;
        self.series()?;
        self.times()?;
        self.legend()?;
        self.surface.present()
    }

    fn at(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.times, y * self.times)
    }

    /// A text whose middle line is at a height.
    fn text(&self, text: &str, at: (i32, i32), size: i32, colour: RGBColor, side: HPos, font: FontStyle) -> Painted<B> {
        let font = (FONT, f64::from(size * self.times)).into_font().style(font);
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(side, VPos::Center));
        self.surface.draw(&Text::new(text.to_owned(), self.at(at), style))
    }

    fn line(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Painted<B> {
        let style = colour.stroke_width(self.times as u32);
        self.surface.draw(&PathElement::new(vec![self.at(from), self.at(to)], style))
    }

    /// The axis of values, with its unit and lines across.
    fn values(&self) -> Painted<B> {
        let unit = format!("{}{}", self.scale.prefix, self.chart.measure.unit());
        self.text(&unit, (LEFT - 10, TOP - 16), 13, QUIET, HPos::Right, FontStyle::Normal)?;
        for &mark in &self.scale.marks {
            let y = TOP + AREA_HEIGHT - (mark / self.scale.top() * f64::from(AREA_HEIGHT)).round() as i32;
            self.line((LEFT, y), (WIDTH - RIGHT, y), GRID)?;
            self.text(&self.scale.label(mark), (LEFT - 10, y), 13, DARK, HPos::Right, FontStyle::Normal)?;
        }
        Ok(())
    }

    /// Where a step begins, in pixels of the surface.
    fn x(&self, step: usize) -> i32 {
        let width = f64::from((WIDTH - LEFT - RIGHT) * self.times);
        LEFT * self.times + (step as f64 / self.chart.steps().max(1) as f64 * width).round() as i32
    }

    fn y(&self, rate: f64) -> i32 {
        let height = f64::from(AREA_HEIGHT * self.times);
        (TOP + AREA_HEIGHT) * self.times - (rate / self.scale.top() * height).round() as i32
    }

    /// The edge above a height of each step, as stairs.
    fn stairs(&self, heights: &[f64]) -> Vec<(i32, i32)> {
        let corners = heights.iter().enumerate();
        corners.flat_map(|(step, rate)| [(self.x(step), self.y(*rate)), (self.x(step + 1), self.y(*rate))]).collect()
    }

    fn series(&self) -> Painted<B> {
        let mut below = vec![0.0; self.chart.steps()];
        for (number, series) in self.chart.series.iter().enumerate() {
            let above: Vec<f64> = below.iter().zip(&series.rates).map(|(below, rate)| below + rate).collect();
            let edge = self.stairs(&above);
            let mut area = edge.clone();
            area.extend(self.stairs(&below).into_iter().rev());
            let colour = self.colour(number, series);
            let strength = if self.chart.series.len() > 1 { 0.8 } else { 0.3 };
            self.surface.draw(&Polygon::new(area, colour.mix(strength).filled()))?;
            self.surface.draw(&PathElement::new(edge, colour.stroke_width(self.times as u32)))?;
            below = above;
        }
        Ok(())
    }

    fn colour(&self, number: usize, series: &Series) -> RGBColor {
        let is_rest = self.chart.series.len() > 1 && series.label == "other";
        PALETTE.get(number).copied().filter(|_| !is_rest).unwrap_or(OTHER)
    }

    /// The axis of times.
    fn times(&self) -> Painted<B> {
        let foot = TOP + AREA_HEIGHT;
        self.line((LEFT, foot), (WIDTH - RIGHT, foot), QUIET)?;
        let (from, until) = (self.chart.from_ms, self.chart.until_ms());
        let width = f64::from(WIDTH - LEFT - RIGHT);
        for mark in time_marks(from, until, &self.chart.zone, 10) {
            let x = LEFT + ((mark.ms - from) as f64 / (until - from).max(1) as f64 * width).round() as i32;
            self.line((x, foot), (x, foot + 5), QUIET)?;
            self.text(&mark.label, (x, foot + 17), 13, DARK, HPos::Center, FontStyle::Normal)?;
            if let Some(day) = &mark.day {
                self.text(day, (x, foot + 34), 12, QUIET, HPos::Center, FontStyle::Normal)?;
            }
        }
        Ok(())
    }

    /// A table of the series: colour, name, mean and peak.
    fn legend(&self) -> Painted<B> {
        let unit = self.chart.measure.unit();
        let (mean_x, peak_x) = (WIDTH - RIGHT - 130, WIDTH - RIGHT);
        let mut y = TOP + AREA_HEIGHT + TIMES_HEIGHT + LEGEND_ROW / 2;
        self.text("mean", (mean_x, y), 12, QUIET, HPos::Right, FontStyle::Normal)?;
        self.text("peak", (peak_x, y), 12, QUIET, HPos::Right, FontStyle::Normal)?;
        for (number, series) in self.chart.series.iter().enumerate() {
            y += LEGEND_ROW;
            let corners = [self.at((LEFT, y - 6)), self.at((LEFT + 12, y + 6))];
            self.surface.draw(&Rectangle::new(corners, self.colour(number, series).filled()))?;
            self.text(&series.label, (LEFT + 22, y), 13, DARK, HPos::Left, FontStyle::Normal)?;
            self.text(&rate_text(series.mean(), unit), (mean_x, y), 13, DARK, HPos::Right, FontStyle::Normal)?;
            self.text(&rate_text(series.max(), unit), (peak_x, y), 13, DARK, HPos::Right, FontStyle::Normal)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use weir_print::plot::Measure;

    use super::*;

    fn chart() -> Chart {
        let rates = |times: f64| (0..300).map(|step| times * (1.0 + (f64::from(step) / 20.0).sin())).collect();
        let series = [("TCP", 2e7), ("2001:db8:1234:5678:9abc:def0:1234:5678", 1e7), ("other", 3e6)];
        let series = series.map(|(label, times)| Series { label: label.to_owned(), rates: rates(times) });
        Chart {
            title: "proto tcp <b> & 'more'".to_owned(),
            measure: Measure::Bits,
            zone: TimeZone::UTC,
            from_ms: 1_767_225_600_000,
            step_ms: 300_000,
            series: series.to_vec(),
        }
    }

    #[test]
    fn a_picture_says_what_its_axes_say() {
        let text = svg(&chart()).expect("a picture");
        for told in ["Mbit/s", "2026-01-01", "03:00", "&lt;b&gt;", "2001:db8:1234:5678:9abc:def0:1234:5678", "other"] {
            assert!(text.contains(told), "no {told}");
        }
        assert_eq!(text.matches("<polygon").count(), 3);
    }

    #[test]
    fn pixels_are_those_of_the_palette() {
        let octets = png_octets(&chart()).expect("a picture");
        let (width, height) = size(&chart(), PIXELS_SCALE);
        assert_eq!(octets.get(16..24).expect("a header"), [width.to_be_bytes(), height.to_be_bytes()].concat());
        if let Ok(folder) = std::env::var("WEIR_TEST_PICTURES") {
            std::fs::write(Path::new(&folder).join("three.png"), octets).expect("written");
        }
    }

    #[test]
    fn the_name_tells_the_kind() {
        assert_eq!("a/b.SVG".parse(), Ok(PictureFile::Svg("a/b.SVG".into())));
        assert!("proto tcp".parse::<PictureFile>().is_err_and(|error| error.contains("hint: ")));
    }
}
