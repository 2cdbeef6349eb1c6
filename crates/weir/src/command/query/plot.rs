//! `weir query --plot`: rates over time, in the terminal or as a picture.

use std::io::{ErrorKind, Write};

use anyhow::bail;
use clap::ValueEnum;
use weir_flow::Column;
use weir_print::plot::{Measure, PictureFile, Plot, RateChart, terminal as letters};
use weir_sql::{EngineError, FlowAnswers, FlowQuery, Order, Select, Sorting, StatisticKey, TimeLine};

use super::Args;
use crate::foreground_query::{ForegroundQuery, terminal};

/// Columns of a terminal whose width is not known.
const WIDTH_DEFAULT: usize = 100;
/// Series with a value of their own unless --limit asks for another number.
const SERIES_DEFAULT: usize = 5;

/// What is drawn.
#[derive(Debug, clap::Args)]
pub(super) struct PlotArgs {
    /// Draw rates over time instead of listing flows: in the terminal, or into a file that ends in .svg or .png
    ///
    /// What a flow carried is spread evenly over its duration. Without a file, write the option after the filter.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["statistic", "aggregate", "aggregate_five_tuple"], help_heading = "Plot")]
    #[expect(clippy::option_option, reason = "not given, given without a file, given with one")]
    plot: Option<Option<PictureFile>>,
    /// Draw this per second
    #[arg(long, value_enum, value_name = "MEASURE", default_value_t = MeasureArg::Bits, requires = "plot", help_heading = "Plot")]
    plot_of: MeasureArg,
    /// Draw a series for each of the most frequent values of a field, such as proto, srcip, dstport, srcas, router or inif
    ///
    /// --limit chooses how many [default: 5].
    #[arg(long, value_name = "FIELD", requires = "plot", help_heading = "Plot")]
    plot_by: Option<String>,
}

impl PlotArgs {
    pub(super) fn is_asked(&self) -> bool {
        self.plot.is_some()
    }

    fn file(&self) -> Option<&PictureFile> {
        self.plot.as_ref()?.as_ref()
    }
}

/// What is drawn per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MeasureArg {
    /// Bits
    Bits,
    /// Packets
    Packets,
    /// Flows
    Flows,
}

impl MeasureArg {
    fn measure(self) -> Measure {
        match self {
            Self::Bits => Measure::Bits,
            Self::Packets => Measure::Packets,
            Self::Flows => Measure::Flows,
        }
    }

    fn order(self) -> Order {
        match self {
            Self::Bits => Order::Bytes,
            Self::Packets => Order::Packets,
            Self::Flows => Order::Flows,
        }
    }
}

/// Asks for the flows and draws them.
pub(super) fn draw(
    args: &Args,
    question: &impl Fn(Select) -> FlowQuery,
    answers: &FlowAnswers,
    foreground: &ForegroundQuery,
) -> anyhow::Result<()> {
    let width = terminal::width().unwrap_or(WIDTH_DEFAULT);
    let file = args.plot.file();
    let steps_max = if file.is_some() { Plot::RATES_STEPS_MAX } else { letters::cells(letters::MARGIN, width) };
    let line = if args.approximate { minutes(args, answers)? } else { flows(args, question, answers)? };
    foreground.clear_progress();
    let chart = line.chart(title(args), steps_max);
    if chart.steps() == 0 {
        bail!("no flow passes, so there is nothing to draw");
    }
    match file {
        Some(file) => Ok(Plot::Rates(&chart).save(file)?),
        None => print(&chart, width, foreground),
    }
}

/// The rates of flows, each spread over its duration.
fn flows(args: &Args, question: &impl Fn(Select) -> FlowQuery, answers: &FlowAnswers) -> anyhow::Result<TimeLine> {
    let mut line = TimeLine::new(args.plot.plot_of.measure(), args.window.window()?, args.zone());
    if let Some(name) = &args.plot.plot_by {
        let (column, select) = most_frequent(args, name)?;
        line = line.by(column, answers.labels(&question(select))?);
    }
    let list = |columns| Ok::<_, EngineError>(question(Select::List { columns, sorting: None, limit: None }));
    let (line, ()) = line.draw(answers, list)?;
    Ok(line)
}

/// The rates of flows and of those that have expired. Sums by the minute are what is kept of these, so all flows are drawn in
/// the minute in which they started, rather than over their duration.
fn minutes(args: &Args, answers: &FlowAnswers) -> anyhow::Result<TimeLine> {
    let mut line = TimeLine::new(args.plot.plot_of.measure(), args.window.window()?, args.zone());
    let filter = crate::foreground_query::parse_filter(&args.filter.join(" "))?;
    let Some(archive) = answers.archive() else { bail!("only an archive keeps summaries of flows that have expired") };
    let minutes = archive.minutes(&filter, &args.window.window()?)?;
    line.add_minutes(&minutes)?;
    let errors: u64 = minutes.values().map(|minute| minute.flows_error_max).sum();
    if errors > 0 && !args.is_quiet() {
        eprintln!("{errors} flows that have expired may belong to the ends of this time, and are not drawn");
    }
    if let Some(unknown) = minutes.get(&None).filter(|_| !args.is_quiet()) {
        eprintln!("{} flows have no start, and are not drawn", unknown.flows);
    }
    Ok(line)
}

fn print(chart: &RateChart, width: usize, foreground: &ForegroundQuery) -> anyhow::Result<()> {
    match foreground.output().write_all(letters::draw(chart, width).as_bytes()) {
        // the reader has gone
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The title of the picture.
fn title(args: &Args) -> String {
    let filter = args.filter.join(" ");
    let flows = if filter.trim().is_empty() { "all flows".to_owned() } else { filter };
    let by = args.plot.plot_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    let approximate = if args.approximate { ", those that have expired included" } else { "" };
    let title = format!("{flows}{by}{approximate}");
    title.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The column of a field, and the question for its most frequent values.
fn most_frequent(args: &Args, name: &str) -> anyhow::Result<(Column, Select)> {
    let key = StatisticKey::parse(name)?;
    let [column] = key.columns() else {
        bail!("'{name}' has two sides, and a flow would be drawn twice\nhint: write src{name} or dst{name}");
    };
    let limit = args.selection.limit.unwrap_or(SERIES_DEFAULT).clamp(1, Plot::RATES_SERIES_MAX);
    let sorting = Sorting::usual(args.plot.plot_of.order());
    Ok((*column, Select::Statistic { key, per_protocol: false, sorting, limit: Some(limit) }))
}
