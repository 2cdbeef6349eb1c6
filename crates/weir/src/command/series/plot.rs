//! `weir series plot`.

use std::io::{self, Write};
use std::ops::Range;

use anyhow::bail;
use clap::ValueEnum;
use weir_print::plot::{Measure, PictureFile, Plot, RateChart, Series, terminal as letters};
use weir_series::{Fetched, FetchedSeries, Resolution, SeriesId, SeriesStore};

use super::{OTHER, StepArgs, StoreArgs, catalogue, check_keys, family, warn_of_damage};
use crate::foreground_query::terminal;

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
    let store = args.store.open()?;
    let width = terminal::width().unwrap_or(WIDTH_DEFAULT);
    let cells = if args.file.is_some() { Plot::RATES_STEPS_MAX } else { letters::cells(letters::MARGIN, width) };
    let (finest, from, until) = args.steps.selected(&store)?;
    let resolution = if args.steps.step.is_some() { finest } else { fitting(&store, finest, until - from, cells) };
    let chart = chart(args, &store, resolution, (from, until), cells)?;
    match &args.file {
        Some(file) => Ok(Plot::Rates(&chart).save(file)?),
        None => match io::stdout().lock().write_all(letters::draw(&chart, width).as_bytes()) {
            // the reader has gone
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        },
    }
}

/// The finest resolution, not finer than `finest`, whose steps fit into the picture; the coarsest when none does.
fn fitting(store: &SeriesStore, finest: Resolution, secs: i64, cells: usize) -> Resolution {
    let mut coarser = store.resolutions().iter().copied().filter(|one| one.step_secs >= finest.step_secs);
    let fits = |one: &Resolution| secs / i64::from(one.step_secs) <= cells as i64;
    coarser.clone().find(fits).or(coarser.next_back()).unwrap_or(finest)
}

fn chart(
    args: &PlotArgs,
    store: &SeriesStore,
    resolution: Resolution,
    (from, until): (i64, i64),
    cells: usize,
) -> anyhow::Result<RateChart> {
    let id = family(store, &args.by)?;
    let spec = &store.families()[usize::from(id.0)];
    let (measure, name, factor) = args.of.of();
    let Some(metric) = spec.metric(name) else { bail!("series by {} have no {name}", args.by) };
    let catalogue = catalogue(store)?;
    let ids: Vec<SeriesId> = args.keys.iter().filter_map(|key| catalogue.id(id, key)).collect();
    check_keys(&catalogue, id, &args.by, &args.keys)?;
    let fetched = store.fetch(id, (!ids.is_empty()).then_some(&ids[..]), resolution, from, until)?;
    warn_of_damage(&fetched);
    let sums = |series: &FetchedSeries| -> Vec<u64> {
        fetched.totals(spec, series, metric).map(Option::unwrap_or_default).collect()
    };
    let labelled = fetched.series.iter().map(|series| (catalogue.key(id, series.id).unwrap_or("?"), sums(series)));
    let limit = if ids.is_empty() { args.limit.clamp(1, Plot::RATES_SERIES_MAX - 1) } else { usize::MAX };
    let drawn = with_other(labelled.collect(), limit);
    if drawn.is_empty() {
        bail!("there are no steps of this time");
    }
    let factor = factor / f64::from(store.resolutions()[0].step_secs);
    // several steps share a cell when they are more than cells
    let width = fetched.known.len().div_ceil(cells.max(1)).max(1);
    let series = drawn
        .into_iter()
        .map(|(label, sums)| Series { label: label.to_owned(), rates: rates(&fetched, &sums, width, factor) });
    Ok(RateChart {
        title: format!("{name} by {}", args.by),
        measure,
        zone: args.steps.zone(),
        from_ms: fetched.first_secs * 1_000,
        step_ms: i64::from(fetched.step_secs) * 1_000 * width as i64,
        series: series.collect(),
        gaps: gaps(&fetched.known, width),
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
fn rates(fetched: &Fetched, sums: &[u64], width: usize, factor: f64) -> Vec<f64> {
    let cell = |(sums, known): (&[u64], &[u32])| {
        let sum: u64 = sums.iter().fold(0, |sum, more| sum.saturating_add(*more));
        let steps: u64 = known.iter().map(|known| u64::from(*known)).sum();
        sum as f64 * factor / steps.max(1) as f64
    };
    sums.chunks(width).zip(fetched.known.chunks(width)).map(cell).collect()
}
