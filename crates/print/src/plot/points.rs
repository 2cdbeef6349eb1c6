//! Points of some series as a figure: joined, as dots, or as bars.
//!
//! Text in SVG is drawn by the program that shows it, in a font that is not known here, so space for it is reserved by the
//! number of its letters.

use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::canvas::{Drawn, Figure, GRID, INK, PALETTE, QUIET, SCALE, Surface, WIDTH, px, text_style};
use crate::time_text;

/// How points are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointStyle {
    /// Joined, in the order of x.
    Line,
    /// As dots.
    Scatter,
    /// As bars from zero.
    Bars,
}

/// What the values of x are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizontal {
    /// Milliseconds since the epoch.
    Time,
    /// Numbers.
    Number,
    /// Numbers of names, which [`PointChart::places`] has.
    Name,
}

/// Points of some series.
#[derive(Debug, Clone)]
pub struct PointChart {
    /// How points are shown.
    pub style: PointStyle,
    /// What is shown, in a few words; may be empty.
    pub title: String,
    /// Name of the horizontal axis.
    pub x_label: String,
    /// Name of the vertical axis.
    pub y_label: String,
    /// What the values of x are.
    pub horizontal: Horizontal,
    /// Names on the horizontal axis.
    pub places: Vec<String>,
    /// Name and points of each series, none of them empty. Those after the sixteenth are not drawn.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// Lengths in pixels.
const HEIGHT: i32 = 560;
const TITLE_SIZE: i32 = 18;
const TEXT_SIZE: i32 = 12;
const MARGIN: i32 = 16;

/// Longest name that is written out, in letters.
const NAME_LETTERS_MAX: usize = 28;
/// Series with no more points than this have a dot at each.
const DOTS_MAX: usize = 120;

type ChartArea<'b, B> = ChartContext<'b, B, Cartesian2d<Axis, Axis>>;

impl Figure for PointChart {
    fn height(&self) -> i32 {
        HEIGHT
    }

    fn draw_on<B: DrawingBackend>(&self, surface: &Surface<B>) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        draw_on(surface, self)
    }
}

fn draw_on<B: DrawingBackend>(area: &Surface<B>, picture: &PointChart) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let layout = Layout::of(picture);
    if !picture.title.is_empty() {
        let style = text(TITLE_SIZE).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw_text(&clean(&picture.title, 90), &style, (px(MARGIN), px(MARGIN)))?;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(layout.top))
        .margin_right(px(layout.right))
        .margin_left(px(MARGIN))
        .margin_bottom(px(MARGIN))
        .set_label_area_size(LabelAreaPosition::Left, px(layout.left))
        .set_label_area_size(LabelAreaPosition::Bottom, px(layout.bottom))
        .build_cartesian_2d(layout.x.clone(), layout.y.clone())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(SCALE as u32))
        .axis_style(QUIET.stroke_width(SCALE as u32))
        .label_style(text(TEXT_SIZE))
        .x_desc(clean(&layout.x_label, 90))
        .y_desc(clean(&picture.y_label, 60))
        .set_all_tick_mark_size(px(4));
    if picture.horizontal == Horizontal::Name {
        mesh.disable_x_mesh();
    }
    mesh.draw()?;
    draw_names(area, &chart, &layout)?;
    match picture.style {
        PointStyle::Line => picture
            .series
            .iter()
            .zip(PALETTE)
            .try_for_each(|((_, points), colour)| draw_line(&mut chart, points, colour))?,
        PointStyle::Scatter => picture
            .series
            .iter()
            .zip(PALETTE)
            .try_for_each(|((_, points), colour)| draw_dots(&mut chart, points, colour.mix(0.7), 2 * SCALE))?,
        PointStyle::Bars => draw_bars(&mut chart, picture, &layout)?,
    }
    draw_legend(area, picture, &layout)
}

/// A size that the backend divides by 1.24 before it writes it.
fn text(size: i32) -> TextStyle<'static> {
    text_style(f64::from(size) * 1.24, &INK, FontStyle::Normal, Pos::new(HPos::Left, VPos::Top))
}

/// Pixels that a text of `letters` takes, in a wide font.
fn width(letters: usize) -> i32 {
    (letters as f64 * f64::from(TEXT_SIZE) * 0.6).ceil() as i32
}

/// A text without control characters, which XML does not allow, and not longer than `letters_max`.
fn clean(text: &str, letters_max: usize) -> String {
    let is_allowed = |letter: &char| !letter.is_control() && !matches!(letter, '\u{fffe}' | '\u{ffff}');
    let mut letters = text.chars().filter(is_allowed);
    let mut clean: String = letters.by_ref().take(letters_max).collect();
    if letters.next().is_some() {
        clean.pop();
        clean.push('…');
    }
    clean
}

/// Where everything goes, in pixels.
#[derive(Debug)]
struct Layout {
    x: Axis,
    y: Axis,
    x_label: String,
    top: i32,
    left: i32,
    right: i32,
    bottom: i32,
    legend: i32,
    /// Names along the horizontal axis, and whether they are upright.
    names: Option<(Vec<(f64, String)>, bool)>,
    /// Width of all bars at one place.
    bar: f64,
}

impl Layout {
    fn of(picture: &PointChart) -> Self {
        let names = picture.series.iter().map(|(name, _)| clean(name, NAME_LETTERS_MAX).chars().count());
        let legend = if picture.series.len() > 1 { 30 + width(names.max().unwrap_or(0)) } else { 0 };
        let y = vertical_axis(picture);
        let left = 30 + width(y.letters_max()) + 12;
        let bar = bar_width(picture);
        let (low, high) = bounds(picture.series.iter().flat_map(|(_, points)| points).map(|(x, _)| *x));
        let pad = if picture.style == PointStyle::Bars { bar / 2.0 } else { 0.0 };
        let (low, high) = apart(low - pad, high + pad, picture.horizontal);
        let space = WIDTH - 2 * MARGIN - left - legend;
        let (x, x_label) = horizontal_axis(picture, (low, high), space);
        let letters = if picture.horizontal == Horizontal::Name { 1 } else { x.letters_max() };
        let mut layout = Self {
            top: if picture.title.is_empty() { MARGIN } else { MARGIN + TITLE_SIZE + 18 },
            right: MARGIN + legend + width(letters) / 2,
            bottom: 50,
            legend,
            names: None,
            bar,
            left,
            x_label,
            y,
            x,
        };
        if picture.horizontal == Horizontal::Name {
            layout.place_names(space);
        }
        layout
    }

    /// Takes the names from the axis, which would write them one over the other.
    fn place_names(&mut self, space: i32) {
        let names = std::mem::take(&mut self.x.ticks);
        let apart = space / names.len().max(1) as i32;
        let names: Vec<_> = names.into_iter().map(|(at, name)| (at, clean(&name, NAME_LETTERS_MAX))).collect();
        let letters_max = names.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
        let is_upright = width(letters_max) + 8 > apart;
        if is_upright {
            self.bottom = 30 + 12 + width(letters_max);
        }
        // When there are more names than fit side by side, some are left out, evenly.
        let each = ((TEXT_SIZE + 4) / apart.max(1)).max(1) as usize;
        let names = names.into_iter().step_by(if is_upright { each } else { 1 }).collect();
        self.names = Some((names, is_upright));
    }
}

/// The axis, `space` pixels long, and the label below it.
fn horizontal_axis(picture: &PointChart, (low, high): (f64, f64), space: i32) -> (Axis, String) {
    let label = picture.x_label.clone();
    if picture.series.is_empty() {
        return (Axis { low, high, ticks: Vec::new() }, label);
    }
    match picture.horizontal {
        Horizontal::Number => (Axis::of_numbers(low, high, 8), label),
        Horizontal::Name => (Axis::of_names(&picture.places), label),
        Horizontal::Time => {
            // Labels are `01-31 12:00` at most times.
            let ticks = space / (width(11) + 24);
            (Axis::of_times(low, high, ticks as usize), label + &dates(low, high))
        }
    }
}

/// Smallest and largest value; 0 and 1 when there is none.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Bounds that are not the same.
fn apart(low: f64, high: f64, horizontal: Horizontal) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    let pad = if horizontal == Horizontal::Time { 500.0 } else { low.abs().max(1.0) / 2.0 };
    (low - pad, high + pad)
}

/// From zero where that does not hide what there is to see, and for bars always.
fn vertical_axis(picture: &PointChart) -> Axis {
    let (mut low, mut high) = bounds(picture.series.iter().flat_map(|(_, points)| points).map(|(_, y)| *y));
    if picture.style == PointStyle::Bars || (low > 0.0 && low < 0.7 * high) {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    let (low, high) = apart(low, high, Horizontal::Number);
    let pad = (high - low) * 0.05;
    let low = if low == 0.0 { low } else { low - pad };
    let high = if high == 0.0 { high } else { high + pad };
    Axis::of_numbers(low, high, 6)
}

/// What bars at one place may take together: most of the way to the next place.
fn bar_width(picture: &PointChart) -> f64 {
    let mut places: Vec<f64> = picture.series.iter().flat_map(|(_, points)| points).map(|(x, _)| *x).collect();
    places.sort_unstable_by(f64::total_cmp);
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
    let gap = gaps.fold(f64::MAX, f64::min);
    if picture.horizontal == Horizontal::Name || gap >= f64::MAX { 0.8 } else { gap * 0.8 }
}

/// The zone, and the days that times are of.
fn dates(low: f64, high: f64) -> String {
    let [low, high] = [low, high].map(|ms| time_text(ms as i64).split('T').next().unwrap_or_default().to_owned());
    if low == high { format!(", UTC, {low}") } else { format!(", UTC, {low} to {high}") }
}

/// Names at their places along the horizontal axis.
fn draw_names<B: DrawingBackend>(area: &Surface<B>, chart: &ChartArea<'_, B>, layout: &Layout) -> Drawn<B> {
    let Some((names, is_upright)) = &layout.names else { return Ok(()) };
    for (at, name) in names {
        let (x, y) = chart.backend_coord(&(*at, layout.y.low));
        let style = if *is_upright {
            text(TEXT_SIZE).transform(FontTransform::Rotate270).pos(Pos::new(HPos::Right, VPos::Center))
        } else {
            text(TEXT_SIZE).pos(Pos::new(HPos::Center, VPos::Top))
        };
        area.draw_text(name, &style, (x, y + px(8)))?;
    }
    Ok(())
}

fn draw_line<B: DrawingBackend>(chart: &mut ChartArea<'_, B>, points: &[(f64, f64)], colour: RGBColor) -> Drawn<B> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if points.len() <= DOTS_MAX {
        draw_dots(chart, &points, colour.mix(1.0), 2 * SCALE)?;
    }
    let style = colour.stroke_width(2 * SCALE as u32 - 1);
    chart.draw_series([PathElement::new(points, style)]).map(drop)
}

fn draw_dots<B: DrawingBackend>(
    chart: &mut ChartArea<'_, B>,
    points: &[(f64, f64)],
    colour: RGBAColor,
    radius: i32,
) -> Drawn<B> {
    chart.draw_series(points.iter().map(|point| Circle::new(*point, radius, colour.filled()))).map(drop)
}

fn draw_bars<B: DrawingBackend>(chart: &mut ChartArea<'_, B>, picture: &PointChart, layout: &Layout) -> Drawn<B> {
    // A bar has a pixel at least.
    let (from, _) = chart.backend_coord(&(layout.x.low, 0.0));
    let (to, _) = chart.backend_coord(&(layout.x.high, 0.0));
    let pixel = (layout.x.high - layout.x.low) / f64::from((to - from).max(1)) * f64::from(SCALE);
    let share = layout.bar / picture.series.len().max(1) as f64;
    for (number, ((_, points), colour)) in picture.series.iter().zip(PALETTE).enumerate() {
        let bar = |&(x, y): &(f64, f64)| {
            let left = x - layout.bar / 2.0 + number as f64 * share;
            Rectangle::new([(left, 0.0), (left + share.max(pixel), y)], colour.filled())
        };
        chart.draw_series(points.iter().map(bar))?;
    }
    Ok(())
}

fn draw_legend<B: DrawingBackend>(area: &Surface<B>, picture: &PointChart, layout: &Layout) -> Drawn<B> {
    if picture.series.is_empty() {
        let style = text(TITLE_SIZE).pos(Pos::new(HPos::Center, VPos::Center));
        return area.draw_text("no points", &style, (px(WIDTH / 2), px(HEIGHT / 2)));
    }
    if picture.series.len() < 2 {
        return Ok(());
    }
    let left = WIDTH - MARGIN - layout.legend;
    for (number, ((name, _), colour)) in picture.series.iter().zip(PALETTE).enumerate() {
        let middle = layout.top + 10 + number as i32 * (TEXT_SIZE + 8);
        let key = [(px(left), px(middle - 5)), (px(left + 10), px(middle + 5))];
        area.draw(&Rectangle::new(key, colour.filled()))?;
        let style = text(TEXT_SIZE).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&clean(name, NAME_LETTERS_MAX), &style, (px(left + 18), px(middle)))?;
    }
    Ok(())
}
