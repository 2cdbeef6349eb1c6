//! Charts of letters.
//!
//! One series is an area of block characters, eight levels to a cell. Several are areas below each other on one scale:
//! lines that cross are hard to distinguish without colour, and many terminals have eight colours, some of which are
//! hard to see. What speaks against it is that it needs more lines.

use std::fmt::Write;

use super::ticks::{rate_text, scale, time_marks};
use super::{RateChart, Series};

/// Blocks of a cell, by eighths from below.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A cell of which nothing is known.
const GAP: char = '░';
/// Lines of the area of a single series.
const ROWS_SINGLE: usize = 12;
/// Lines of each of several.
const ROWS_EACH: usize = 4;
/// Fewest cells that an area is drawn with.
const CELLS_MIN: usize = 10;
/// Cells between marks of time, label and gap.
const CELLS_PER_MARK: usize = 16;

/// Cells of an area in a terminal of this width: as many steps as a chart for it should have.
pub fn cells(chart_margin: usize, columns: usize) -> usize {
    columns.saturating_sub(chart_margin + 1).max(CELLS_MIN)
}

/// Cells at the left of an area: the longest label of its marks, and the axis.
pub const MARGIN: usize = 8;

/// Draws a chart for a terminal of this width. Lines end with a line feed.
pub fn draw(chart: &RateChart, columns: usize) -> String {
    // A step is as many cells wide as there is room for, so that few steps fill the terminal too.
    let steps = chart.steps().max(1);
    let width = (cells(MARGIN, columns) / steps).max(1);
    let cells = cells(MARGIN, columns).min(steps * width);
    let mut text = String::new();
    // writing to a text does not fail
    let _ = writeln!(text, "{}", cut(&chart.title, columns));
    let is_single = chart.series.len() <= 1;
    let max = chart.series.iter().map(Series::max).fold(0.0, f64::max);
    let rows = if is_single { ROWS_SINGLE } else { ROWS_EACH };
    let scale = scale(max, if is_single { 4 } else { 2 });
    let unit = format!("{}{}", scale.prefix, chart.measure.unit());
    let _ = writeln!(text, "{unit:>MARGIN$}");
    for series in &chart.series {
        if !is_single {
            let unit = chart.measure.unit();
            let told = format!("mean {}, peak {}", rate_text(chart.mean(series), unit), rate_text(series.max(), unit));
            let _ = writeln!(
                text,
                "{:MARGIN$} {}",
                "",
                cut(&format!("{}: {told}", series.label), columns.saturating_sub(MARGIN + 1))
            );
        }
        // A mark is at the foot of its line, so the last one needs a line above the area.
        for row in (0..=rows).rev() {
            let mark = scale.marks.iter().find(|mark| row_of(**mark / scale.top(), rows) == row);
            let label = mark.map(|mark| scale.label(*mark)).unwrap_or_default();
            let axis = if mark.is_some() { '┤' } else { '│' };
            let is_gap = |cell: usize| row < rows && chart.is_gap(cell / width);
            let block = |cell: usize| block(series, cell / width, row, rows, scale.top());
            let area: String = (0..cells).map(|cell| if is_gap(cell) { GAP } else { block(cell) }).collect();
            let _ = writeln!(text, "{label:>width$} {axis}{}", area.trim_end(), width = MARGIN - 2);
        }
    }
    push_times(&mut text, chart, cells, width);
    if is_single && let Some(series) = chart.series.first() {
        let unit = chart.measure.unit();
        let _ = writeln!(text, "mean {}, peak {}", rate_text(chart.mean(series), unit), rate_text(series.max(), unit));
    }
    if !chart.gaps.is_empty() {
        let steps = match chart.gap_steps() {
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        };
        let _ = writeln!(text, "{}", cut(&format!("{GAP} nothing is known of {steps}"), columns));
    }
    let _ = writeln!(text, "{}", cut(&chart.caption(), columns));
    text
}

/// Draws how much there was in each step as one line of blocks for each series, over an axis of times. Steps without anything
/// are dots.
pub fn strip(chart: &RateChart, columns: usize) -> String {
    let steps = chart.steps().max(1);
    let width = (cells(MARGIN, columns) / steps).max(1);
    let cells = cells(MARGIN, columns).min(steps * width);
    let top = chart.series.iter().map(Series::max).fold(0.0, f64::max).max(1.0);
    let mut text = String::new();
    for series in &chart.series {
        let mark = |cell: usize| match block(series, cell / width, 0, 1, top) {
            ' ' => '·',
            mark => mark,
        };
        let line: String = (0..cells).map(mark).collect();
        // writing to a text does not fail
        let _ = writeln!(text, "{:>label$} │{line}", cut(&series.label, MARGIN - 2), label = MARGIN - 2);
    }
    push_times(&mut text, chart, cells, width);
    text
}

fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

/// The line that begins at a height, from 0 to 1, from below.
fn row_of(height: f64, rows: usize) -> usize {
    (height * rows as f64).round() as usize
}

/// The block of a cell, from what of the series is above the line below.
fn block(series: &Series, cell: usize, row: usize, rows: usize, top: f64) -> char {
    let rate = series.rates.get(cell).copied().unwrap_or(0.0);
    let eighths = rate / top * (rows * 8) as f64;
    // What is not nothing is seen.
    let eighths = if rate > 0.0 { eighths.round().max(1.0) } else { 0.0 };
    LEVELS[(eighths - (row * 8) as f64).clamp(0.0, 8.0) as usize]
}

/// The axis of times: a line with marks, their labels, and days below.
fn push_times(text: &mut String, chart: &RateChart, cells: usize, width: usize) {
    let until_ms = chart.until_ms();
    let marks = time_marks(chart.from_ms, until_ms, &chart.zone, (cells / CELLS_PER_MARK).max(1));
    let mut axis = vec!['─'; cells];
    let (mut labels, mut days) = (String::new(), String::new());
    for mark in marks {
        let cell = ((mark.ms - chart.from_ms) as f64 / chart.step_ms.max(1) as f64 * width as f64) as usize;
        let Some(place) = axis.get_mut(cell) else { continue };
        *place = '┬';
        place_label(&mut labels, cell, &mark.label);
        if let Some(day) = &mark.day {
            place_label(&mut days, cell, day);
        }
    }
    let axis: String = axis.into_iter().collect();
    let indent = MARGIN - 1;
    let _ = writeln!(text, "{:indent$}└{axis}", "");
    let _ = writeln!(text, "{:MARGIN$}{labels}", "");
    let _ = writeln!(text, "{:MARGIN$}{days}", "");
}

/// Puts a label at a cell, unless what is there already reaches so far.
fn place_label(line: &mut String, cell: usize, label: &str) {
    let filled = line.chars().count();
    if filled == 0 || filled < cell {
        line.extend(std::iter::repeat_n(' ', cell - filled));
        line.push_str(label);
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use jiff::tz::TimeZone;

    use super::*;
    use crate::plot::Measure;

    fn chart(series: &[(&str, &[f64])]) -> RateChart {
        let series = series.iter().map(|(label, rates)| Series { label: (*label).to_owned(), rates: rates.to_vec() });
        RateChart {
            title: "all flows".to_owned(),
            measure: Measure::Bits,
            zone: TimeZone::UTC,
            // 2026-01-01T00:00:00Z
            from_ms: 1_767_225_600_000,
            step_ms: 60_000,
            series: series.collect(),
            gaps: Vec::new(),
        }
    }

    #[test]
    fn one_series_is_an_area() {
        let rates = [0.0, 1e6, 2e6, 3e6, 4e6, 2.04e6, 10.0];
        let drawn = draw(&chart(&[("all", &rates)]), 80);
        let expected = "\
all flows
  Mbit/s
     4 ┤
       │                                        ██████████
       │                                        ██████████
     3 ┤                                        ██████████
       │                              ████████████████████
       │                              ████████████████████
     2 ┤                              ████████████████████▁▁▁▁▁▁▁▁▁▁
       │                    ████████████████████████████████████████
       │                    ████████████████████████████████████████
     1 ┤                    ████████████████████████████████████████
       │          ██████████████████████████████████████████████████
       │          ██████████████████████████████████████████████████
     0 ┤          ██████████████████████████████████████████████████▁▁▁▁▁▁▁▁▁▁
       └┬───────────────────┬───────────────────┬───────────────────┬─────────
        00:00               00:02               00:04               00:06
        2026-01-01
mean 1.72 Mbit/s, peak 4.00 Mbit/s
2026-01-01 00:00:00 to 00:07:00 UTC, steps of 1 min
";
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn a_gap_is_not_silence() {
        let rates = [4e6, 0.0, 0.0, 2e6];
        let drawn = draw(&RateChart { gaps: iter::once(1..2).collect(), ..chart(&[("all", &rates)]) }, 20);
        let expected = "\
all flows
  Mbit/s
     4 ┤
       │██░░
       │██░░
     3 ┤██░░
       │██░░
       │██░░
     2 ┤██░░
       │██░░  ██
       │██░░  ██
     1 ┤██░░  ██
       │██░░  ██
       │██░░  ██
     0 ┤██░░  ██
       └┬───────
        00:00
        2026-01-01
mean 2.00 Mbit/s, pe
░ nothing is known o
2026-01-01 00:00:00\x20
";
        let cut_lines: String = drawn.lines().map(|line| line.chars().take(20).collect::<String>() + "\n").collect();
        assert_eq!(cut_lines, expected, "\n{drawn}");
        let of = |gap: std::ops::Range<usize>| {
            draw(&RateChart { gaps: iter::once(gap).collect(), ..chart(&[("all", &rates)]) }, 80)
        };
        assert!(of(1..2).contains("░ nothing is known of 1 step\n") && of(1..3).contains("known of 2 steps\n"));
    }

    #[test]
    fn several_are_below_each_other_on_one_scale() {
        let drawn = draw(&chart(&[("TCP", &[4000.0, 2000.0]), ("UDP", &[0.0, 1000.0])]), 60);
        let expected = "\
all flows
  kbit/s
         TCP: mean 3.00 kbit/s, peak 4.00 kbit/s
     4 ┤
       │█████████████████████████
     2 ┤█████████████████████████
       │██████████████████████████████████████████████████
     0 ┤██████████████████████████████████████████████████
         UDP: mean 500 bit/s, peak 1.00 kbit/s
     4 ┤
       │
     2 ┤
       │
     0 ┤                         █████████████████████████
       └┬────────────────────────┬────────────────────────
        00:00                    00:01
        2026-01-01
2026-01-01 00:00:00 to 00:02:00 UTC, steps of 1 min
";
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn a_strip_is_a_line_for_each_series() {
        let drawn = strip(&chart(&[("first", &[0.0, 8.0, 1.0, 0.0]), ("second", &[4.0, 0.0, 0.0, 0.0])]), 33);
        let expected = "\
\x20first │······██████▁▁▁▁▁▁······
second │▄▄▄▄▄▄··················
       └┬───────────────────────
        00:00
        2026-01-01
";
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn lines_fit_the_terminal() {
        let rates: Vec<f64> = (0..500).map(f64::from).collect();
        for columns in [30, 80, 200] {
            let drawn = draw(&chart(&[("all", &rates)]), columns);
            let longest = drawn.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(columns), "{longest:?} of {columns}");
        }
    }
}
