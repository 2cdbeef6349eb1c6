//! `weir series export`: for programs that keep series themselves.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, bail};
use clap::ValueEnum;
use weir_series::MetricKind;

use super::rrdtool::last_updates;
use super::source::{SeriesValues, Wanted};
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
    let values = source.values(&Wanted { by: &args.by, keys: &args.keys, step, from_secs, until_secs })?;
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

    /// Commands that make a file of each series, where there is none, and put its steps in. Counters are given as what there was in each step
    /// (ABSOLUTE), which rrdtool makes a rate of.
    fn write_rrdtool(&self, out: &mut impl Write) -> io::Result<()> {
        let (values, steps, rows) = (&self.values, self.values.steps(), self.rows());
        let step = i64::from(steps.step_secs);
        for series in 0..values.count() {
            let file = file_name(self.by, values.key(series));
            let last_update = self.last_updates.get(&file);
            if last_update.is_none() {
                let start = steps.first_secs;
                write!(out, "create {file} --start {start} --step {step}")?;
                for spec in values.metrics() {
                    let kind = if spec.kind == MetricKind::Counter { "ABSOLUTE" } else { "GAUGE" };
                    write!(out, " DS:{}:{kind}:{}:0:U", spec.name, 2 * step)?;
                }
                writeln!(out, " RRA:AVERAGE:0.5:1:{rows} RRA:MAX:0.5:12:{}", rows / 12 + 1)?;
            }
            let metrics: Vec<Vec<_>> =
                (0..values.metrics().len()).map(|metric| values.totals(series, metric).collect()).collect();
            for at in 0..steps.known.len() {
                let end = steps.time_secs(at) + step;
                if last_update.is_some_and(|last| end <= *last) {
                    continue;
                }
                let mut line = format!("update {file} {end}");
                for totals in &metrics {
                    let _ = match totals[at] {
                        None => write!(line, ":U"),
                        Some(total) => write!(line, ":{total}"),
                    };
                }
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// The value of a label, quoted as OpenMetrics has it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The name of a file, another one for each key, without letters that a shell or rrdtool reads otherwise: `-` for a blank, `,` for a
/// colon, `+` for a slash, and `%` with its octets for every other one.
fn file_name(by: &str, key: &str) -> String {
    let mut name = format!("{by}_");
    for letter in key.chars() {
        match letter {
            ' ' => name.push('-'),
            ':' | '/' => name.push(if letter == ':' { ',' } else { '+' }),
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_') => name.push(letter),
            letter => letter.encode_utf8(&mut [0; 4]).bytes().for_each(|octet| {
                // writing to a string cannot fail
                let _ = write!(name, "%{octet:02x}");
            }),
        }
    }
    name.push_str(".rrd");
    name
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn each_key_has_a_file_of_its_own() {
        let keys = ["a b", "a/b", "a:b", "a-b", "a%2db", "a\nb", "ä", "-", "2001:db8::1", "10.0.0.0/8", "a,b", "a+b"];
        let mut names: Vec<_> = keys.iter().map(|key| file_name("host", key)).collect();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-,+%".contains(letter);
        assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
        assert_eq!(names[8..10], ["host_2001,db8,,1.rrd", "host_10.0.0.0+8.rrd"]);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), keys.len());
    }
}
