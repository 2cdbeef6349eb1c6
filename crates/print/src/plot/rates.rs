//! Rates over time as a figure of stacked areas, so that the upper edge is the total.
//!
//! Everything is placed by hand on a plain surface, by the same marks as in the terminal.

use plotters::prelude::{Color, DrawingBackend, PathElement, Polygon, RGBColor, Rectangle, Text};
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{Drawn, Figure, GRID, INK, PALETTE, QUIET, SCALE, Surface, WIDTH, px, text_style};
use super::ticks::{Scale, rate_text, scale, time_marks};
use super::{RateChart, Series};

/// Flows of no series of their own.
const OTHER: RGBColor = RGBColor(170, 170, 170);
/// Steps of which nothing is known.
const GAP: RGBColor = RGBColor(232, 228, 218);
/// Most series next to the others.
pub(super) const SERIES_MAX: usize = 6;

/// Lengths in pixels.
const AREA_HEIGHT: i32 = 340;
const LEFT: i32 = 76;
const RIGHT: i32 = 28;
const TOP: i32 = 86;
const TIMES_HEIGHT: i32 = 56;
const LEGEND_ROW: i32 = 22;
const BOTTOM: i32 = 18;
/// Steps of a chart that is drawn: one for each two pixels of the area.
pub(super) const STEPS_MAX: usize = ((WIDTH - LEFT - RIGHT) / 2) as usize;

impl Figure for RateChart {
    fn height(&self) -> i32 {
        let rows = self.series.len() as i32 + 1 + i32::from(!self.gaps.is_empty());
        TOP + AREA_HEIGHT + TIMES_HEIGHT + LEGEND_ROW * rows + BOTTOM
    }

    fn draw_on<B: DrawingBackend>(&self, surface: &Surface<B>) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        let max = self.totals().iter().copied().fold(0.0, f64::max);
        Painter { surface, chart: self, scale: scale(max, 5) }.paint()
    }
}

struct Painter<'a, B: DrawingBackend> {
    surface: &'a Surface<B>,
    chart: &'a RateChart,
    scale: Scale,
}

impl<B: DrawingBackend> Painter<'_, B> {
    fn paint(&self) -> Drawn<B> {
        self.text(&self.chart.title, (LEFT, 26), 20, INK, HPos::Left, FontStyle::Bold)?;
        self.text(&self.chart.caption(), (LEFT, 49), 13, QUIET, HPos::Left, FontStyle::Normal)?;
        self.values()?;
        self.series()?;
        self.gaps()?;
        self.times()?;
        self.legend()
    }

    fn at((x, y): (i32, i32)) -> (i32, i32) {
        (px(x), px(y))
    }

    /// A text whose middle line is at a height.
    fn text(&self, text: &str, at: (i32, i32), size: i32, colour: RGBColor, side: HPos, font: FontStyle) -> Drawn<B> {
        let style = text_style(f64::from(size), &colour, font, Pos::new(side, VPos::Center));
        self.surface.draw(&Text::new(text.to_owned(), Self::at(at), style))
    }

    fn line(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn<B> {
        let style = colour.stroke_width(SCALE as u32);
        self.surface.draw(&PathElement::new(vec![Self::at(from), Self::at(to)], style))
    }

    /// The axis of values, with its unit and lines across.
    fn values(&self) -> Drawn<B> {
        let unit = format!("{}{}", self.scale.prefix, self.chart.measure.unit());
        self.text(&unit, (LEFT - 10, TOP - 16), 13, QUIET, HPos::Right, FontStyle::Normal)?;
        for &mark in &self.scale.marks {
            let y = TOP + AREA_HEIGHT - (mark / self.scale.top() * f64::from(AREA_HEIGHT)).round() as i32;
            self.line((LEFT, y), (WIDTH - RIGHT, y), GRID)?;
            self.text(&self.scale.label(mark), (LEFT - 10, y), 13, INK, HPos::Right, FontStyle::Normal)?;
        }
        Ok(())
    }

    /// Where a step begins, in pixels of the surface.
    fn x(&self, step: usize) -> i32 {
        let width = f64::from(px(WIDTH - LEFT - RIGHT));
        px(LEFT) + (step as f64 / self.chart.steps().max(1) as f64 * width).round() as i32
    }

    fn y(&self, rate: f64) -> i32 {
        let height = f64::from(px(AREA_HEIGHT));
        px(TOP + AREA_HEIGHT) - (rate / self.scale.top() * height).round() as i32
    }

    /// The edge above a height of each step, as stairs.
    fn stairs(&self, heights: &[f64]) -> Vec<(i32, i32)> {
        let corners = heights.iter().enumerate();
        corners.flat_map(|(step, rate)| [(self.x(step), self.y(*rate)), (self.x(step + 1), self.y(*rate))]).collect()
    }

    fn series(&self) -> Drawn<B> {
        let mut below = vec![0.0; self.chart.steps()];
        for (number, series) in self.chart.series.iter().enumerate() {
            let above: Vec<f64> = below.iter().zip(&series.rates).map(|(below, rate)| below + rate).collect();
            let edge = self.stairs(&above);
            let mut area = edge.clone();
            area.extend(self.stairs(&below).into_iter().rev());
            let colour = self.colour(number, series);
            let strength = if self.chart.series.len() > 1 { 0.8 } else { 0.3 };
            self.surface.draw(&Polygon::new(area, colour.mix(strength).filled()))?;
            self.surface.draw(&PathElement::new(edge, colour.stroke_width(SCALE as u32)))?;
            below = above;
        }
        Ok(())
    }

    /// What is not known hides the edge of the areas, which is at 0 there.
    fn gaps(&self) -> Drawn<B> {
        for gap in &self.chart.gaps {
            let corners = [(self.x(gap.start), px(TOP)), (self.x(gap.end), px(TOP + AREA_HEIGHT))];
            self.surface.draw(&Rectangle::new(corners, GAP.filled()))?;
        }
        Ok(())
    }

    fn colour(&self, number: usize, series: &Series) -> RGBColor {
        let is_rest = self.chart.series.len() > 1 && series.label == "other";
        PALETTE[..SERIES_MAX].get(number).copied().filter(|_| !is_rest).unwrap_or(OTHER)
    }

    /// The axis of times.
    fn times(&self) -> Drawn<B> {
        let foot = TOP + AREA_HEIGHT;
        self.line((LEFT, foot), (WIDTH - RIGHT, foot), QUIET)?;
        let (from, until) = (self.chart.from_ms, self.chart.until_ms());
        let width = f64::from(WIDTH - LEFT - RIGHT);
        for mark in time_marks(from, until, &self.chart.zone, 10) {
            let x = LEFT + ((mark.ms - from) as f64 / (until - from).max(1) as f64 * width).round() as i32;
            self.line((x, foot), (x, foot + 5), QUIET)?;
            self.text(&mark.label, (x, foot + 17), 13, INK, HPos::Center, FontStyle::Normal)?;
            if let Some(day) = &mark.day {
                self.text(day, (x, foot + 34), 12, QUIET, HPos::Center, FontStyle::Normal)?;
            }
        }
        Ok(())
    }

    /// A table of the series: colour, name, mean and peak.
    fn legend(&self) -> Drawn<B> {
        let unit = self.chart.measure.unit();
        let (mean_x, peak_x) = (WIDTH - RIGHT - 130, WIDTH - RIGHT);
        let mut y = TOP + AREA_HEIGHT + TIMES_HEIGHT + LEGEND_ROW / 2;
        self.text("mean", (mean_x, y), 12, QUIET, HPos::Right, FontStyle::Normal)?;
        self.text("peak", (peak_x, y), 12, QUIET, HPos::Right, FontStyle::Normal)?;
        for (number, series) in self.chart.series.iter().enumerate() {
            y += LEGEND_ROW;
            let corners = [Self::at((LEFT, y - 6)), Self::at((LEFT + 12, y + 6))];
            self.surface.draw(&Rectangle::new(corners, self.colour(number, series).filled()))?;
            self.text(&series.label, (LEFT + 22, y), 13, INK, HPos::Left, FontStyle::Normal)?;
            let mean = self.chart.mean(series);
            self.text(&rate_text(mean, unit), (mean_x, y), 13, INK, HPos::Right, FontStyle::Normal)?;
            self.text(&rate_text(series.max(), unit), (peak_x, y), 13, INK, HPos::Right, FontStyle::Normal)?;
        }
        if !self.chart.gaps.is_empty() {
            y += LEGEND_ROW;
            let corners = [Self::at((LEFT, y - 6)), Self::at((LEFT + 12, y + 6))];
            self.surface.draw(&Rectangle::new(corners, GAP.filled()))?;
            self.text("nothing is known", (LEFT + 22, y), 13, INK, HPos::Left, FontStyle::Normal)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Measure;
    use crate::plot::canvas::{png, svg};
    use jiff::tz::TimeZone;

    fn chart() -> RateChart {
        let rates = |times: f64| (0..300).map(|step| times * (1.0 + (f64::from(step) / 20.0).sin())).collect();
        let series = [("TCP", 2e7), ("2001:db8:1234:5678:9abc:def0:1234:5678", 1e7), ("other", 3e6)];
        let series = series.map(|(label, times)| Series { label: label.to_owned(), rates: rates(times) });
        RateChart {
            title: "proto tcp <b> & 'more'".to_owned(),
            measure: Measure::Bits,
            zone: TimeZone::UTC,
            from_ms: 1_767_225_600_000,
            step_ms: 300_000,
            series: series.to_vec(),
            gaps: Vec::new(),
        }
    }

    #[test]
    fn a_gap_has_a_colour_of_its_own() {
        // the colour in SVG
        let gap = "#E8E4DA";
        assert!(!svg(&chart()).expect("a picture").contains(gap));
        let chart = RateChart { gaps: vec![10..20, 299..300], ..chart() };
        let text = svg(&chart).expect("a picture");
        // two gaps, and one entry of the legend
        assert_eq!((text.matches(gap).count(), text.matches("nothing is known").count()), (3, 1), "{text}");
        // what is not known is not in the mean
        let ones = Series { label: String::new(), rates: vec![1.0; 300] };
        assert!((chart.mean(&ones) - 300.0 / 289.0).abs() < 1e-12);
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
        let octets = png(&chart()).expect("a picture");
        let (width, height) = (px(WIDTH) as u32, px(chart().height()) as u32);
        assert_eq!(octets.get(16..24).expect("a header"), [width.to_be_bytes(), height.to_be_bytes()].concat());
        if let Ok(folder) = std::env::var("WEIR_TEST_PICTURES") {
            std::fs::write(std::path::Path::new(&folder).join("three.png"), octets).expect("written");
        }
    }
}
