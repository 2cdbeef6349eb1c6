//! `weir series plot`.

use std::io::{self, Write};
use std::ops::Range;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use weir_chain::TimeSpan;
use weir_print::plot::{Measure, PictureFile, Plot, RateChart, Series, terminal as letters};

use super::source::{SeriesRequest, SeriesSource, SeriesValues, StepLength};
use super::{OTHER, StepArgs, StoreArgs, check_by, check_keys};
use crate::foreground_query::terminal;
use crate::time_args::range_text;

/// Columns of a terminal whose width is not known.
const WIDTH_DEFAULT: usize = 100;

/// Draw rates over time, in the terminal or into a file
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir series plot -R flows --by total --last 1d\n  weir series plot -R flows --by src_addr --limit 8 --last 7d hosts.svg"
)]
pub(super) struct PlotArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Draw these series: total, exporter, src_addr and so on
    #[arg(long, value_name = "NAME", default_value = "total")]
    by: String,
    /// Draw the series of this key; the option may be repeated [default: the largest]
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Draw this many of the largest series, and the sum of the others
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    limit: usize,
    /// Draw this per second
    #[arg(long, value_enum, value_name = "MEASURE", default_value_t = MeasureArg::Bits)]
    of: MeasureArg,
    /// Draw into this file, which ends in .svg or .png
    #[arg(value_name = "FILE")]
    file: Option<PictureFile>,
}

/// What is drawn per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MeasureArg {
    /// Bits
    Bits,
    /// Packets
    Packets,
    /// Flows
    Flows,
}

impl MeasureArg {
    /// What it is in a chart, the metric that it is made of, and how many of it are one.
    fn of(self) -> (Measure, &'static str, f64) {
        match self {
            Self::Bits => (Measure::Bits, "bytes", 8.0),
            Self::Packets => (Measure::Packets, "packets", 1.0),
            Self::Flows => (Measure::Flows, "flows", 1.0),
        }
    }
}

pub(super) fn run(args: &PlotArgs) -> anyhow::Result<()> {
    let source = args.store.source()?;
    check_by(&*source, &args.by)?;
    let width = terminal::width().unwrap_or(WIDTH_DEFAULT);
    let cells = if args.file.is_some() { Plot::RATES_STEPS_MAX } else { letters::cells(letters::MARGIN, width) };
    let (finest, from_secs, until_secs) = args.steps.selected(&*source, &args.by)?;
    let is_named = args.steps.step.is_some();
    let step = if is_named { finest } else { fitting(&source.steps(), finest, until_secs - from_secs, cells) };
    check_keys(&*source, &args.by, &args.keys)?;
    let of = |step| source.values(&SeriesRequest { by: &args.by, keys: &args.keys, step, from_secs, until_secs });
    let mut values = of(step)?;
    // coarser steps are there when they have ended: of some minutes there may be finer ones only
    let is_finer = |one: &StepLength| !is_named && (finest.step_secs..step.step_secs).contains(&one.step_secs);
    for finer in source.steps().into_iter().rev().filter(is_finer) {
        if values.count() == 0 {
            values = of(finer)?;
        }
    }
    if values.count() == 0 {
        let others = if is_named { Vec::new() } else { source.steps() };
        return Err(no_steps(&*source, args, [step].into_iter().chain(others))?);
    }
    let chart = chart(args, &*values, cells)?;
    match &args.file {
        Some(file) => Ok(Plot::Rates(&chart).save(file)?),
        None => match io::stdout().lock().write_all(letters::draw(&chart, width).as_bytes()) {
            // the reader has gone
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        },
    }
}

/// Nothing is known of the time that was asked for; the error has the time of which there are steps, of the first length that
/// has any.
fn no_steps(
    source: &dyn SeriesSource,
    args: &PlotArgs,
    lengths: impl Iterator<Item = StepLength>,
) -> anyhow::Result<anyhow::Error> {
    for step in lengths {
        let Some((first_secs, last_secs)) = source.extent(step, Some(&args.by))? else { continue };
        let secs = i64::from(step.step_secs);
        let range = range_text(first_secs * 1_000, (last_secs + secs) * 1_000, &args.steps.zone());
        let length = TimeSpan::from_secs(u64::from(step.step_secs));
        return Ok(anyhow!("there are no steps of this time; there are steps of {length} {range}"));
    }
    Ok(anyhow!("there are no steps of this time, and none of any other"))
}

/// The shortest steps, not shorter than `finest`, that fit into the picture; the longest when none do.
fn fitting(steps: &[StepLength], finest: StepLength, secs: i64, cells: usize) -> StepLength {
    let mut coarser = steps.iter().copied().filter(|one| one.step_secs >= finest.step_secs);
    let fits = |one: &StepLength| secs / i64::from(one.step_secs) <= cells as i64;
    coarser.clone().find(fits).or(coarser.next_back()).unwrap_or(finest)
}

fn chart(args: &PlotArgs, values: &dyn SeriesValues, cells: usize) -> anyhow::Result<RateChart> {
    let (measure, name, factor) = args.of.of();
    let Some(metric) = values.metrics().iter().position(|metric| metric.name == name) else {
        bail!("series by {} have no {name}", args.by)
    };
    let sums = |series| values.totals(series, metric).map(Option::unwrap_or_default).collect();
    let labelled: Vec<(&str, Vec<u64>)> =
        (0..values.count()).map(|series| (values.key(series), sums(series))).collect();
    let limit = if args.keys.is_empty() { args.limit.clamp(1, Plot::RATES_SERIES_MAX - 1) } else { usize::MAX };
    let steps = values.steps();
    let factor = factor / steps.finest_secs;
    // several steps share a cell when they are more than cells
    let width = steps.known.len().div_ceil(cells.max(1)).max(1);
    let series = with_other(labelled, limit)
        .into_iter()
        .map(|(label, sums)| Series { label: label.to_owned(), rates: rates(&steps.known, &sums, width, factor) });
    Ok(RateChart {
        title: format!("{name} by {}", args.by),
        measure,
        zone: args.steps.zone(),
        from_ms: steps.first_secs * 1_000,
        step_ms: i64::from(steps.step_secs) * 1_000 * width as i64,
        series: series.collect(),
        gaps: gaps(&steps.known, width),
    })
}

/// The cells of `width` steps of which nothing is known.
fn gaps(known: &[u32], width: usize) -> Vec<Range<usize>> {
    let mut gaps: Vec<Range<usize>> = Vec::new();
    let cells = known.chunks(width).enumerate();
    for (cell, _) in cells.filter(|(_, known)| known.iter().all(|known| *known == 0)) {
        match gaps.last_mut() {
            Some(last) if last.end == cell => last.end += 1,
            _ => gaps.push(cell..cell + 1),
        }
    }
    gaps
}

/// The largest series, and the sum of the rest together with what the statistics have as the sum of other keys.
fn with_other(mut series: Vec<(&str, Vec<u64>)>, limit: usize) -> Vec<(&str, Vec<u64>)> {
    let total = |sums: &[u64]| sums.iter().fold(0_u64, |sum, more| sum.saturating_add(*more));
    series.sort_by_key(|(key, sums)| (*key == OTHER, std::cmp::Reverse(total(sums))));
    let others = series.split_off(series.len().min(limit).min(series.iter().filter(|(key, _)| *key != OTHER).count()));
    let rest = others.into_iter().map(|(_, sums)| sums).reduce(|mut sum, more| {
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        sum
    });
    series.extend(rest.filter(|rest| total(rest) > 0).map(|rest| (OTHER, rest)));
    series
}

/// The mean rate of each cell, over the finest steps that are known of it; `factor` makes a sum over one of them a rate.
fn rates(known: &[u32], sums: &[u64], width: usize, factor: f64) -> Vec<f64> {
    let cell = |(sums, known): (&[u64], &[u32])| {
        let sum: u64 = sums.iter().fold(0, |sum, more| sum.saturating_add(*more));
        let steps: u64 = known.iter().map(|known| u64::from(*known)).sum();
        sum as f64 * factor / steps.max(1) as f64
    };
    sums.chunks(width).zip(known.chunks(width)).map(cell).collect()
}
