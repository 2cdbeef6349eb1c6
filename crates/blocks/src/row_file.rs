//! Rows in a file: what sinks and blocks that write one share.
//!
//! A [`RowFile`] takes rows of any columns, brings them to those of the file, and writes them in the format that was
//! asked for. Text goes out as it comes; Parquet and plots get their name when they are whole, so that nobody reads
//! half of one.

mod parquet_file;
mod target;

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use weir_chain::{
    ComponentContext, ComponentError, Counter, ParameterError, ParameterSpec, ParameterType, Parameters, State,
};
use weir_print::{Format, OutputOptions, Printer};

use crate::plot::{Plot, PlotPlan, Style};
use parquet_file::ParquetFile;
use target::{Opening, Target};
use weir_rows::fit::Fit;

/// The parameters of every block that writes a file of rows.
pub(crate) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "path",
        parameter_type: ParameterType::Path,
        default: None,
        doc: "File to write; a path of which the last part is `-` stands for standard output.",
    },
    ParameterSpec {
        key: "format",
        parameter_type: ParameterType::Choice(&["csv", "json", "ndjson", "table", "parquet", "plot"]),
        default: Some("\"csv\""),
        doc: "How rows are written: comma-separated values (RFC 4180) with a header line, one JSON array, one JSON \
              object a line, aligned columns for people, Parquet with zstd, or a plot as SVG.",
    },
    ParameterSpec {
        key: "columns",
        parameter_type: ParameterType::Texts,
        default: Some(""),
        doc: "Columns to write, in this order; `*` stands for all columns of flows. When they are not given, the columns \
              of the first rows are written, and a column that comes later is an error.",
    },
    ParameterSpec {
        key: "rows_max",
        parameter_type: ParameterType::Integer(0, i64::MAX as u64),
        default: Some("0"),
        doc: "Most rows to write; 0 for no limit.",
    },
    ParameterSpec {
        key: "overwrite",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether a file of that name is replaced; otherwise it is an error that there is one.",
    },
    ParameterSpec {
        key: "x",
        parameter_type: ParameterType::Text,
        default: Some(""),
        doc: "Column of the horizontal axis of a plot: a time or a number, or for bars anything.",
    },
    ParameterSpec {
        key: "y",
        parameter_type: ParameterType::Texts,
        default: Some(""),
        doc: "Columns of numbers on the vertical axis of a plot; each makes a series of points.",
    },
    ParameterSpec {
        key: "series",
        parameter_type: ParameterType::Text,
        default: Some(""),
        doc: "Column of a plot that parts rows: each of its values makes a series of points of its own, the first 16 \
              at most; points of further ones are counted in `points_series_dropped`.",
    },
    ParameterSpec {
        key: "style",
        parameter_type: ParameterType::Choice(&["line", "scatter", "bars"]),
        default: Some("\"line\""),
        doc: "How a plot shows its points: joined in the order of `x`, as dots, or as bars.",
    },
    ParameterSpec { key: "title", parameter_type: ParameterType::Text, default: Some(""), doc: "Title of a plot." },
    ParameterSpec {
        key: "points_max",
        parameter_type: ParameterType::Integer(100, 10_000_000),
        default: Some("20000"),
        doc: "Most points that a plot keeps; over it, every other point of the longest series is left out, again and \
              again, and counted in `points_thinned`.",
    },
];

/// A file of rows as its parameters tell it.
#[derive(Debug, Clone)]
pub(crate) struct RowFilePlan {
    path: PathBuf,
    format: FileFormat,
    columns: Vec<String>,
    rows_max: u64,
    overwrite: bool,
}

#[derive(Debug, Clone)]
enum FileFormat {
    Text(Format),
    Parquet,
    Plot(PlotPlan),
}

impl RowFilePlan {
    /// Makes sense of the parameters, which are [`PARAMETERS`].
    pub(crate) fn new(parameters: &Parameters) -> Result<Self, ParameterError> {
        let format = match parameters.text("format") {
            "parquet" => FileFormat::Parquet,
            "plot" => FileFormat::Plot(plot_plan(parameters)?),
            name => FileFormat::Text(Format::by_name(name).unwrap_or_default()),
        };
        let is_plot = matches!(format, FileFormat::Plot(_));
        let others: &[&str] = if is_plot { &["columns"] } else { &["x", "y", "series", "title"] };
        if let Some(key) = others.iter().find(|key| parameters.has(key)) {
            let what = if is_plot { "not for plots" } else { "for plots only" };
            return Err(ParameterError::new(*key, format!("'{key}' is {what}")));
        }
        let columns = parameters.texts("columns");
        if let Some(twice) = (1..columns.len()).find(|&at| columns[..at].contains(&columns[at])) {
            return Err(ParameterError::new("columns", format!("column '{}' is there twice", columns[twice])));
        }
        Ok(Self {
            path: parameters.path("path").unwrap_or_default(),
            format,
            columns,
            rows_max: parameters.integer("rows_max"),
            overwrite: parameters.boolean("overwrite"),
        })
    }
}

fn plot_plan(parameters: &Parameters) -> Result<PlotPlan, ParameterError> {
    let missing =
        |key| ParameterError::new(key, format!("a plot needs '{key}'")).with_hint("name a column of the rows");
    if parameters.text("x").is_empty() {
        return Err(missing("x"));
    }
    if parameters.texts("y").is_empty() {
        return Err(missing("y"));
    }
    let given = |key| Some(parameters.text(key)).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(PlotPlan {
        x: parameters.text("x").to_owned(),
        y: parameters.texts("y"),
        series: given("series"),
        style: match parameters.text("style") {
            "scatter" => Style::Scatter,
            "bars" => Style::Bars,
            _ => Style::Line,
        },
        title: given("title"),
        points_max: parameters.integer("points_max") as usize,
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
        let rows_left = Some(plan.rows_max).filter(|&rows| rows > 0);
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
