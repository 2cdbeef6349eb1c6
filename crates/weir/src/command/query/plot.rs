//! `weir query --plot`: rates over time, in the terminal or as a picture.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

use anyhow::bail;
use arrow::array::{ArrayRef, TimestampMillisecondArray, UInt64Array};
use arrow::record_batch::RecordBatch;
use clap::ValueEnum;
use weir_filter::Predicate;
use weir_flow::Column;
use weir_print::ColumnText;
use weir_print::plot::{Chart, Measure, terminal as letters};
use weir_query::{Archive, Totals};
use weir_sql::{Engine, FlowQuery, Order, Select, Sorting, StatisticKey, TimeLine, TimeWindow};

use super::Args;
use crate::asking::{Asking, terminal};
use crate::picture::{self, PictureFile};

/// Columns where nobody tells the width of the terminal.
const USUAL_WIDTH: usize = 100;
/// Values told apart unless another number is asked for.
const SERIES_USUAL: usize = 5;

/// From the first millisecond of a minute to its last.
const LAST_OF_MINUTE_MS: i64 = 59_999;

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
    show(&line.chart(title(args), steps_max), file, width, asking)
}

/// The same with flows that have expired. Sums by the minute are what is kept of these, so all flows are drawn in the
/// minute in which they started, rather than over their duration.
pub(super) fn draw_approximately(
    args: &Args,
    file: Option<&PictureFile>,
    (filter, window): (&Predicate, TimeWindow),
    archive: &Archive,
    asking: &Asking,
) -> anyhow::Result<()> {
    let width = terminal::width().unwrap_or(USUAL_WIDTH);
    let steps_max = if file.is_some() { picture::STEPS_MAX } else { letters::cells(letters::MARGIN, width) };
    let minutes = archive.minutes(filter, &window)?;
    let mut line = TimeLine::new(args.plot_of.measure(), window, args.zone());
    line.add(&as_flows(&minutes)?);
    asking.told();
    let errors: u64 = minutes.values().map(|minute| minute.flows_error_max).sum();
    if errors > 0 && !args.quiet {
        eprintln!("{errors} flows that have expired may belong to the ends of this time, and are not drawn");
    }
    if let Some(lost) = minutes.get(&None).filter(|_| !args.quiet) {
        eprintln!("{} flows do not tell when they started, and are not drawn", lost.flows);
    }
    show(&line.chart(title(args), steps_max), file, width, asking)
}

/// Minutes as flows that last a minute.
fn as_flows(minutes: &BTreeMap<Option<i64>, Totals>) -> anyhow::Result<RecordBatch> {
    let all: Vec<(i64, &Totals)> = minutes.iter().filter_map(|(minute, totals)| Some(((*minute)?, totals))).collect();
    let times = |after_ms: i64| -> ArrayRef {
        let times = all.iter().map(|(minute, _)| minute.saturating_add(after_ms));
        Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"))
    };
    let counts = |of: fn(&Totals) -> Option<u64>| -> ArrayRef {
        Arc::new(all.iter().map(|(_, totals)| of(totals)).collect::<UInt64Array>())
    };
    let columns = [
        (Column::Start, times(0)),
        (Column::End, times(LAST_OF_MINUTE_MS)),
        (Column::Flows, counts(|totals| Some(totals.flows))),
        (Column::Packets, counts(|totals| totals.packets)),
        (Column::Bytes, counts(|totals| totals.bytes)),
    ];
    Ok(RecordBatch::try_from_iter(columns.map(|(column, values)| (column.name(), values)))?)
}

fn show(chart: &Chart, file: Option<&PictureFile>, width: usize, asking: &Asking) -> anyhow::Result<()> {
    if chart.steps() == 0 {
        bail!("no flow passes, so there is nothing to draw");
    }
    match file {
        Some(file) => picture::draw(chart, file),
        None => print(chart, width, asking),
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
