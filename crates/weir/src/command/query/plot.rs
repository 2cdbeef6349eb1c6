//! `weir query --plot`: rates over time, in the terminal or as a picture.

use std::io::{ErrorKind, Write};

use anyhow::bail;
use arrow::record_batch::RecordBatch;
use clap::ValueEnum;
use weir_filter::Predicate;
use weir_flow::Column;
use weir_print::ColumnText;
use weir_print::plot::{Chart, Measure, terminal as letters};
use weir_query::{Engine, FlowQuery, Order, Select, Sorting, StatisticKey, TimeLine, TimeWindow};

use super::Args;
use crate::asking::{Asking, terminal};
use crate::picture::{self, PictureFile};

/// Columns where nobody tells the width of the terminal.
const USUAL_WIDTH: usize = 100;
/// Values told apart unless another number is asked for.
const SERIES_USUAL: usize = 5;

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
    file: Option<&PictureFile>,
    filter: &Predicate,
    window: TimeWindow,
    engine: &Engine,
    asking: &Asking,
) -> anyhow::Result<()> {
    let width = terminal::width().unwrap_or(USUAL_WIDTH);
    let steps_max = if file.is_some() { picture::STEPS_MAX } else { letters::cells(letters::MARGIN, width) };
    let question = |select| FlowQuery { filter: filter.clone(), window, select, scaled: args.scaled };
    let mut line = TimeLine::new(args.plot_of.measure(), window, args.zone());
    if let Some(name) = &args.plot_by {
        let (column, select) = most_frequent(args, name)?;
        line = line.by(column, labels(engine, &question(select), asking)?);
    }
    let select = Select::List { columns: line.columns(), sorting: None, limit: None };
    for batch in engine.ask_on(&question(select), asking.terms())? {
        line.add(&batch?);
    }
    asking.told();
    let chart = line.chart(title(args), steps_max);
    if chart.steps() == 0 {
        bail!("no flow passes, so there is nothing to draw");
    }
    match file {
        Some(file) => picture::draw(&chart, file),
        None => print(&chart, width, asking),
    }
}

fn print(chart: &Chart, width: usize, asking: &Asking) -> anyhow::Result<()> {
    match asking.output().write_all(letters::draw(chart, width).as_bytes()) {
        // whoever read it has gone
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// What stands above the picture.
fn title(args: &Args) -> String {
    let filter = args.filter.join(" ");
    let flows = if filter.trim().is_empty() { "all flows".to_owned() } else { filter };
    let by = args.plot_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    let title = format!("{flows}{by}");
    title.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The column of a field, and the question for its most frequent values.
fn most_frequent(args: &Args, name: &str) -> anyhow::Result<(Column, Select)> {
    let key = StatisticKey::parse(name)?;
    let [column] = key.columns() else {
        bail!("'{name}' has two sides, and a flow would be drawn twice\nhint: write src{name} or dst{name}");
    };
    let limit = args.limit.unwrap_or(SERIES_USUAL).clamp(1, picture::SERIES_MAX);
    let sorting = Sorting::usual(args.plot_of.order());
    Ok((*column, Select::Statistic { key, per_protocol: false, sorting, limit: Some(limit) }))
}

/// The values of a statistic as texts, in their order.
fn labels(engine: &Engine, question: &FlowQuery, asking: &Asking) -> anyhow::Result<Vec<String>> {
    let mut labels = Vec::new();
    for batch in engine.ask_on(question, asking.terms())? {
        let batch: RecordBatch = batch?;
        let (Some(field), Some(values)) = (batch.schema_ref().fields().first(), batch.columns().first()) else {
            continue;
        };
        let mut texts = ColumnText::new(field, values);
        for row in 0..batch.num_rows() {
            let mut text = Vec::new();
            texts.push(row, &mut text);
            labels.push(String::from_utf8_lossy(&text).into_owned());
        }
    }
    Ok(labels)
}
