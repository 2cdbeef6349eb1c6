//! The surface of every plot: SVG or PNG, with the same size, colours and text.
//!
//! The canvas has two units to a pixel. Positions in SVG are whole units, so there they are twice as fine as pixels; PNG is
//! twice as large, so that it is sharp on screens of many pixels too.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    BitMapBackend, DrawingArea, DrawingBackend, IntoDrawingArea, IntoFont, RGBColor, SVGBackend, WHITE,
};
use plotters::style::text_anchor::Pos;
use plotters::style::{FontStyle, TextStyle};

use super::{PlotError, png};

/// Units of the canvas in a pixel.
pub(super) const SCALE: i32 = 2;
/// Width of every plot in pixels.
pub(super) const WIDTH: i32 = 1000;

/// Colours of series. The first six are Okabe and Ito's but black and yellow, which is too light on white: people see them
/// apart however they see colours. Of the others, neighbours differ in hue and lightness.
pub(super) const PALETTE: [RGBColor; 16] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0xb0, 0x7a, 0xa1),
    RGBColor(0xff, 0x9d, 0xa7),
    RGBColor(0x9c, 0x75, 0x5f),
    RGBColor(0xba, 0xb0, 0xac),
    RGBColor(0x1b, 0x4f, 0x72),
    RGBColor(0x93, 0x51, 0x16),
    RGBColor(0x7b, 0x24, 0x1c),
    RGBColor(0x0e, 0x66, 0x55),
    RGBColor(0x6c, 0x34, 0x83),
    RGBColor(0x42, 0x49, 0x49),
];
/// Texts, and axes.
pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
/// What is read second.
pub(super) const QUIET: RGBColor = RGBColor(95, 95, 95);
/// Lines across.
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);

const FONT: &str = "sans-serif";

/// Where a plot is drawn.
pub(super) type Surface<B> = DrawingArea<B, Shift>;
/// How drawing ended.
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// What can be drawn on a canvas.
pub(super) trait Figure {
    /// Height in pixels.
    fn height(&self) -> i32;
    /// Draws it; the surface is white.
    fn draw_on<B: DrawingBackend>(&self, surface: &Surface<B>) -> Drawn<B>
    where
        B::ErrorType: 'static;
}

/// Pixels in units of the canvas.
pub(super) fn px(pixels: i32) -> i32 {
    pixels * SCALE
}

/// A style of text, with its size in pixels.
pub(super) fn text_style(size: f64, colour: &RGBColor, font: FontStyle, position: Pos) -> TextStyle<'_> {
    TextStyle::from((FONT, size * f64::from(SCALE)).into_font().style(font)).color(colour).pos(position)
}

/// A figure as SVG.
pub(super) fn svg(figure: &impl Figure) -> Result<String, PlotError> {
    let (width, height) = (WIDTH, figure.height());
    let mut text = String::new();
    draw(figure, &SVGBackend::with_string(&mut text, (px(width) as u32, px(height) as u32)).into_drawing_area())?;
    // two units of the canvas are one pixel
    let canvas = format!("width=\"{}\" height=\"{}\"", px(width), px(height));
    Ok(text.replacen(&canvas, &format!("width=\"{width}\" height=\"{height}\""), 1))
}

/// A figure as PNG.
pub(super) fn png(figure: &impl Figure) -> Result<Vec<u8>, PlotError> {
    plotters::style::register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
        .and_then(|()| plotters::style::register_font(FONT, FontStyle::Bold, dejavu::sans::bold()))
        .map_err(|_| PlotError::Font)?;
    let size = (px(WIDTH) as u32, px(figure.height()) as u32);
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    draw(figure, &BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area())?;
    let mut octets = Vec::new();
    png::write(&pixels, size, &mut octets).map_err(PlotError::Encode)?;
    Ok(octets)
}

fn draw<B: DrawingBackend>(figure: &impl Figure, surface: &Surface<B>) -> Result<(), PlotError>
where
    B::ErrorType: 'static,
{
    let drawn = surface.fill(&WHITE).and_then(|()| figure.draw_on(surface)).and_then(|()| surface.present());
    drawn.map_err(|error| PlotError::Draw(error.to_string()))
}
