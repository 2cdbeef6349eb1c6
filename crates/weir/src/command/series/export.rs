//! `weir series export`: for programs that keep series themselves.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use weir_rrdtool::{RrdFile, Rrdtool, file_name, last_update, reading};
use weir_series::MetricKind;

use super::source::{SeriesRequest, SeriesValues};
use super::{StepArgs, StoreArgs, check_by, check_keys};

/// Steps that a file of rrdtool has room for, at least, when it is not known how long steps are kept: a day of minutes.
const ROWS_MIN: u64 = 1_440;

/// Print series for other programs
///
/// openmetrics is for promtool tsdb create-blocks-from openmetrics; rrdtool prints commands for rrdtool -, which make
/// one file of each series in the current folder. With --update files that are there go on with the steps after their last one.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir series export -R flows --by exporter --step 1m --to openmetrics > exporters.om\n  weir series export -R flows --by total --step 5m --to rrdtool | rrdtool -\n  weir series export -R flows --by total --step 5m --to rrdtool --update | rrdtool -"
)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Export these series: total, exporter, src_addr and so on
    #[arg(long, value_name = "NAME")]
    by: String,
    /// Export the series of this key; the option may be repeated [default: all]
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Openmetrics)]
    to: Format,
    /// Add to the files of rrdtool that are in the current folder, rather than make them anew
    #[arg(long)]
    update: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// OpenMetrics 1.0 with the times of steps
    Openmetrics,
    /// Commands for rrdtool
    Rrdtool,
}

/// What is exported.
struct Exported<'a> {
    by: &'a str,
    /// How long the steps are kept, when that is known.
    keep_secs: Option<u64>,
    values: Box<dyn SeriesValues>,
    /// When files that are there were updated last, in seconds since the epoch.
    last_updates: HashMap<String, i64>,
}

pub(super) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    if args.update && args.to != Format::Rrdtool {
        bail!("only files of rrdtool are updated\nhint: --to rrdtool --update");
    }
    let source = args.store.source()?;
    check_by(&*source, &args.by)?;
    let (step, from_secs, mut until_secs) = args.steps.selected(&*source, &args.by)?;
    if args.update && source.may_grow(step) {
        // another part of the newest step may come, and rrdtool takes each step once
        until_secs = source.extent(step, None)?.map_or(until_secs, |(_, newest)| until_secs.min(newest));
    }
    check_keys(&*source, &args.by, &args.keys)?;
    let values = source.values(&SeriesRequest { by: &args.by, keys: &args.keys, step, from_secs, until_secs })?;
    let mut exported = Exported { by: &args.by, keep_secs: step.keep_secs, values, last_updates: HashMap::new() };
    if args.update {
        let values = &exported.values;
        let files = (0..values.count()).map(|series| file_name(&args.by, values.key(series)));
        exported.last_updates = last_updates(files)?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match args.to {
        Format::Openmetrics => exported.write_openmetrics(&mut out),
        Format::Rrdtool => exported.write_rrdtool(&mut out),
    };
    match written.and_then(|()| out.flush()) {
        // the reader has gone
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

impl Exported<'_> {
    /// Series as OpenMetrics has them: counters grow from the first step on, gauges have the average of each step.
    fn write_openmetrics(&self, out: &mut impl Write) -> io::Result<()> {
        let (values, steps) = (&self.values, self.values.steps());
        let step = i64::from(steps.step_secs);
        for (metric, spec) in values.metrics().iter().enumerate() {
            let (kind, ending) = match spec.kind {
                MetricKind::Counter => ("counter", "_total"),
                MetricKind::Gauge => ("gauge", ""),
            };
            writeln!(out, "# TYPE weir_{} {kind}", spec.name)?;
            writeln!(out, "# HELP weir_{} {} in steps of {step} seconds.", spec.name, spec.name)?;
            for series in 0..values.count() {
                let (by, key) = (label(self.by), label(values.key(series)));
                let mut total = 0_u64;
                for (at, value) in values.totals(series, metric).enumerate() {
                    let Some(value) = value else { continue };
                    total = total.saturating_add(value);
                    // a step is known when it has ended
                    let time = steps.time_secs(at) + step;
                    let value = if spec.kind == MetricKind::Counter { total } else { value };
                    writeln!(out, "weir_{}{ending}{{by=\"{by}\",key=\"{key}\"}} {value} {time}", spec.name)?;
                }
            }
        }
        writeln!(out, "# EOF")
    }

    /// Steps that a file of rrdtool has room for.
    fn rows(&self) -> u64 {
        let steps = self.values.steps();
        let kept = self.keep_secs.map(|secs| secs / u64::from(steps.step_secs));
        kept.unwrap_or_else(|| ROWS_MIN.max(steps.known.len() as u64))
    }

    /// Commands that make a file of each series, where there is none, and put its steps in.
    fn write_rrdtool(&self, out: &mut impl Write) -> io::Result<()> {
        let (values, steps) = (&self.values, self.values.steps());
        let step = i64::from(steps.step_secs);
        for series in 0..values.count() {
            let name = file_name(self.by, values.key(series));
            let last_update = self.last_updates.get(&name);
            if last_update.is_none() {
                let (metrics, rows) = (values.metrics(), self.rows());
                let file = RrdFile { name: &name, step_secs: steps.step_secs, metrics, rows, is_replaced: true };
                writeln!(out, "{}", file.create(steps.first_secs))?;
            }
            let metrics: Vec<Vec<_>> =
                (0..values.metrics().len()).map(|metric| values.totals(series, metric).collect()).collect();
            for at in 0..steps.known.len() {
                let end = steps.time_secs(at) + step;
                if last_update.is_some_and(|last| end <= *last) {
                    continue;
                }
                writeln!(out, "update {name} {}", reading(end, metrics.iter().map(|totals| totals[at])))?;
            }
        }
        Ok(())
    }
}

/// The value of a label, quoted as OpenMetrics has it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// When each of these files of the current folder was updated last, in seconds since the epoch; of those that are there.
///
/// # Errors
/// When rrdtool cannot be run, or cannot read one of them: making it anew would lose what it has.
fn last_updates(files: impl Iterator<Item = String>) -> anyhow::Result<HashMap<String, i64>> {
    let files: Vec<String> = files.filter(|file| Path::new(file).exists()).collect();
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let rrdtool = Rrdtool::start(Path::new("rrdtool"), Path::new("."));
    let mut rrdtool = rrdtool.context("cannot run rrdtool, which says what the files in this folder have already")?;
    let commands: Vec<String> = files.iter().map(|file| format!("last {file}")).collect();
    let mut answers = Vec::new();
    let asked = rrdtool.ask(commands.iter().map(String::as_str), |answer| answers.push(last_update(answer)));
    let mut found = HashMap::new();
    for (file, answer) in files.iter().zip(answers) {
        let time = answer.map_err(|error| {
            anyhow!("rrdtool cannot read {file}: ERROR: {error}\nhint: without --update it is made anew")
        })?;
        found.insert(file.clone(), time);
    }
    asked.context("cannot ask rrdtool what the files in this folder have already")?;
    Ok(found)
}
