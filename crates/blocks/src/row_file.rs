//! Rows in a file: what components that write one share.
//!
//! A [`RowFile`] takes rows of any columns, brings them to those of the file, and writes them in the format that was
//! asked for. Text goes out as it comes; Parquet and plots get their name when they are whole, so that nobody reads
//! half of one.

mod parquet_file;
mod target;

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use weir_chain::{ComponentContext, ComponentError, Counter, OptionError, State, choices, options};
use weir_print::{Format, OutputOptions, Printer};

use crate::plot::{Plot, PlotPlan, Style};
use parquet_file::ParquetFile;
use target::{Opening, Target};
use weir_rows::fit::Fit;

choices! {
    /// How rows are written.
    pub enum RowFormat {
        /// Comma-separated values (RFC 4180) with a header line.
        Csv = "csv",
        /// One JSON array.
        Json = "json",
        /// One JSON object a line.
        Ndjson = "ndjson",
        /// Aligned columns for people.
        Table = "table",
        /// Parquet, compressed with zstd.
        Parquet = "parquet",
        /// A plot, as SVG.
        Plot = "plot",
    }
}

choices! {
    /// How a plot shows its points.
    pub enum PlotStyle {
        /// Joined in the order of `x`.
        Line = "line",
        /// As dots.
        Scatter = "scatter",
        /// As bars.
        Bars = "bars",
    }
}

options! {
    /// Options of every component that writes a file of rows.
    pub struct RowFileOptions {
        /// File to write; a path whose last part is `-` means standard output.
        path: PathBuf,
        /// Format of the file.
        format: RowFormat = RowFormat::Csv,
        /// Write these columns, in this order; `*` means all columns of flows. Without it the columns of the first rows
        /// are written, and a column that comes later is an error.
        columns: Vec<String> = Vec::new(),
        /// Stop after this many rows.
        rows_max: Option<u64> => 1..=i64::MAX as u64,
        /// Replace a file of this name; without it an existing file is an error.
        overwrite: bool = false,
    }
    includes {
        /// How a plot is drawn.
        plot: PlotOptions,
    }
}

options! {
    /// Options of a plot.
    pub struct PlotOptions {
        /// Column of the horizontal axis of a plot: a time or a number, or for bars anything.
        x: Option<String>,
        /// Columns of numbers on the vertical axis of a plot; each makes a series of points.
        y: Vec<String> = Vec::new(),
        /// Column whose values split the rows of a plot into series, the first 16 at most; points of further ones are
        /// counted in `points_series_dropped`.
        series: Option<String>,
        /// How the points are shown.
        style: PlotStyle = PlotStyle::Line,
        /// Title of a plot.
        title: Option<String>,
        /// Keep at most this many points; over the limit every other point of the longest series is left out, again and
        /// again, and counted in `points_thinned`.
        points_max: usize = 20_000 => 100..=10_000_000,
    }
}

/// A file of rows as its options describe it.
#[derive(Debug, Clone)]
pub(crate) struct RowFilePlan {
    path: PathBuf,
    format: FileFormat,
    columns: Vec<String>,
    rows_max: Option<u64>,
    overwrite: bool,
}

#[derive(Debug, Clone)]
enum FileFormat {
    Text(Format),
    Parquet,
    Plot(PlotPlan),
}

impl RowFilePlan {
    /// Makes sense of the options.
    pub(crate) fn new(options: RowFileOptions) -> Result<Self, OptionError> {
        refuse_unused(&options)?;
        let columns = options.columns;
        if let Some(twice) = (1..columns.len()).find(|&at| columns[..at].contains(&columns[at])) {
            return Err(OptionError::new("columns", format!("column '{}' is there twice", columns[twice])));
        }
        let format = match options.format {
            RowFormat::Parquet => FileFormat::Parquet,
            RowFormat::Plot => FileFormat::Plot(plot_plan(options.plot)?),
            text => FileFormat::Text(Format::by_name(text.word()).unwrap_or_default()),
        };
        Ok(Self { path: options.path, format, columns, rows_max: options.rows_max, overwrite: options.overwrite })
    }
}

/// Options of plots are of no use for other files, nor the other way round.
fn refuse_unused(options: &RowFileOptions) -> Result<(), OptionError> {
    let plot = &options.plot;
    let (given, which) = if options.format == RowFormat::Plot {
        ((!options.columns.is_empty()).then_some("columns"), "not for plots")
    } else {
        let of_plots = [
            ("x", plot.x.is_some()),
            ("y", !plot.y.is_empty()),
            ("series", plot.series.is_some()),
            ("title", plot.title.is_some()),
        ];
        (of_plots.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key), "for plots only")
    };
    given.map_or(Ok(()), |key| Err(OptionError::new(key, format!("'{key}' is {which}"))))
}

fn plot_plan(options: PlotOptions) -> Result<PlotPlan, OptionError> {
    let missing = |key| OptionError::new(key, format!("a plot needs '{key}'")).with_hint("name a column of the rows");
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let x = given(options.x).ok_or_else(|| missing("x"))?;
    if options.y.is_empty() {
        return Err(missing("y"));
    }
    Ok(PlotPlan {
        x,
        y: options.y,
        series: given(options.series),
        style: match options.style {
            PlotStyle::Line => Style::Line,
            PlotStyle::Scatter => Style::Scatter,
            PlotStyle::Bars => Style::Bars,
        },
        title: given(options.title),
        points_max: options.points_max,
    })
}

/// A file that takes rows.
#[derive(Debug)]
pub(crate) struct RowFile {
    writer: Writer,
    fit: Fit,
    name: String,
    /// `None` when there is no limit.
    rows_left: Option<u64>,
    /// Nobody reads what is written any more.
    is_closed: bool,
    rows_written: Counter,
}

#[derive(Debug)]
enum Writer {
    Text(Printer<Target>),
    Parquet(ParquetFile),
    Plot(Box<Plot>, Target),
}

impl RowFile {
    /// Opens the file. `is_patient` tells whether a full disk is waited for.
    pub(crate) fn open(
        plan: RowFilePlan,
        is_patient: bool,
        context: &ComponentContext,
    ) -> Result<Self, ComponentError> {
        let is_text = matches!(plan.format, FileFormat::Text(_));
        let opening = Opening { overwrite: plan.overwrite, name_at_end: !is_text, is_patient };
        let rows_written = context.counters.counter("rows_written");
        let target = Target::open(&plan.path, opening, context)?;
        let name = target.name();
        let writer = match plan.format {
            FileFormat::Text(format) => {
                let options = OutputOptions { scaled: false, ..OutputOptions::default() };
                Writer::Text(Printer::new(format, &options, target))
            }
            FileFormat::Parquet => Writer::Parquet(ParquetFile::Empty(target)),
            FileFormat::Plot(plot) => Writer::Plot(Box::new(Plot::new(plot, &context.counters)), target),
        };
        let rows_left = plan.rows_max;
        Ok(Self { writer, fit: Fit::new(plan.columns), name, rows_left, is_closed: false, rows_written })
    }

    /// Whether more rows are of no use: the limit is reached, or nobody reads any more.
    pub(crate) fn is_full(&self) -> bool {
        self.is_closed || self.rows_left == Some(0)
    }

    /// Writes rows, up to the limit.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        let count = rows.num_rows().min(self.rows_left.map_or(usize::MAX, |left| left as usize));
        if count == 0 || self.is_closed {
            return Ok(());
        }
        let rows = rows.slice(0, count);
        let written = match &mut self.writer {
            Writer::Text(printer) => printer.write(&self.fit.rows(&rows)?),
            Writer::Parquet(file) => file.write(&self.fit.rows(&rows)?),
            Writer::Plot(plot, _) => {
                plot.rows(&rows)?;
                Ok(())
            }
        };
        self.done(written)?;
        self.rows_written.add(count as u64);
        self.rows_left = self.rows_left.map(|left| left - count as u64);
        Ok(())
    }

    /// Writes out text that waits, so that it can be read while the chain runs.
    pub(crate) fn flush(&mut self) -> Result<(), ComponentError> {
        let flushed = match &mut self.writer {
            Writer::Text(printer) if !self.is_closed => printer.flush(),
            _ => Ok(()),
        };
        self.done(flushed)
    }

    /// Writes what is still held, and closes the file.
    pub(crate) fn finish(self) -> Result<(), ComponentError> {
        let Self { writer, fit, name, is_closed, .. } = self;
        if is_closed {
            return Ok(());
        }
        let finished = match writer {
            Writer::Text(mut printer) => {
                if printer.rows_written() == 0 && fit.is_told() {
                    printer.begin(&fit.columns_of_flows());
                }
                printer.finish().and_then(Target::finish)
            }
            Writer::Parquet(file) => file.finish(&fit.columns_of_flows()),
            Writer::Plot(plot, mut target) => {
                let image = plot.draw().map_err(|error| failed(&name, error))?;
                target.write_all(image.as_bytes()).and_then(|()| target.finish())
            }
        };
        match finished {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(failed(&name, error)),
            _ => Ok(()),
        }
    }

    /// What is held in memory.
    pub(crate) fn state(&self) -> State {
        let (rows, octets) = match &self.writer {
            Writer::Text(_) => (0, 0),
            Writer::Parquet(file) => file.held(),
            Writer::Plot(plot, _) => plot.held(),
        };
        State { rows, octets, edge_ms: None }
    }

    /// That whoever reads goes away is no error: it has had enough.
    fn done(&mut self, written: io::Result<()>) -> Result<(), ComponentError> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            other => other.map_err(|error| failed(&self.name, error)),
        }
    }
}

fn failed(name: &str, error: io::Error) -> ComponentError {
    ComponentError::caused(format!("cannot write {name}"), error)
}
