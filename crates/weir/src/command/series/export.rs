//! `weir series export`: for programs that keep series themselves.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, bail};
use clap::ValueEnum;
use weir_series::{Catalogue, Family, FamilyId, Fetched, FetchedSeries, MetricKind, Resolution, SeriesId, SeriesStore};

use super::rrdtool::last_updates;
use super::{StepArgs, StoreArgs, catalogue, check_keys, family, warn_of_damage};

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
    spec: &'a Family,
    id: FamilyId,
    resolution: Resolution,
    fetched: Fetched,
    catalogue: &'a Catalogue,
    /// When files that are there were updated last, in seconds since the epoch.
    last_updates: HashMap<String, i64>,
}

pub(super) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    if args.update && args.to != Format::Rrdtool {
        bail!("only files of rrdtool are updated\nhint: --to rrdtool --update");
    }
    let store: SeriesStore = args.store.open()?;
    let id = family(&store, &args.by)?;
    let catalogue = catalogue(&store)?;
    let (resolution, from, mut until) = args.steps.selected(&store)?;
    if args.update && resolution == store.resolutions()[0] {
        // another part of the newest step may come, and rrdtool takes each step once
        until = store.extent(resolution)?.map_or(until, |(_, newest)| until.min(newest));
    }
    check_keys(&catalogue, id, &args.by, &args.keys)?;
    let ids: Vec<SeriesId> = args.keys.iter().filter_map(|key| catalogue.id(id, key)).collect();
    let ids = (!args.keys.is_empty()).then_some(&ids[..]);
    let fetched = store.fetch(id, ids, resolution, from, until)?;
    warn_of_damage(&fetched);
    let spec = &store.families()[usize::from(id.0)];
    let mut exported = Exported { spec, id, resolution, fetched, catalogue: &catalogue, last_updates: HashMap::new() };
    if args.update {
        let files = exported.fetched.series.iter().map(|series| file_name(&spec.name, exported.key(series)));
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
    fn key(&self, series: &FetchedSeries) -> &str {
        self.catalogue.key(self.id, series.id).unwrap_or("?")
    }

    /// Series as OpenMetrics has them: counters grow from the first step on, gauges have the average of each step.
    fn write_openmetrics(&self, out: &mut impl Write) -> io::Result<()> {
        let step = i64::from(self.fetched.step_secs);
        for (metric, spec) in self.spec.metrics.iter().enumerate() {
            let (kind, ending) = match spec.kind {
                MetricKind::Counter => ("counter", "_total"),
                MetricKind::Gauge => ("gauge", ""),
            };
            writeln!(out, "# TYPE weir_{} {kind}", spec.name)?;
            writeln!(out, "# HELP weir_{} {} in steps of {step} seconds.", spec.name, spec.name)?;
            for series in &self.fetched.series {
                let (by, key) = (label(&self.spec.name), label(self.key(series)));
                let mut total = 0_u64;
                for (at, value) in self.fetched.totals(self.spec, series, metric).enumerate() {
                    let Some(value) = value else { continue };
                    total = total.saturating_add(value);
                    // a step is known when it has ended
                    let time = self.fetched.time_secs(at) + step;
                    let value = if spec.kind == MetricKind::Counter { total } else { value };
                    writeln!(out, "weir_{}{ending}{{by=\"{by}\",key=\"{key}\"}} {value} {time}", spec.name)?;
                }
            }
        }
        writeln!(out, "# EOF")
    }

    /// Commands that make a file of each series, where there is none, and put its steps in. Counters are given as what there was in each step
    /// (ABSOLUTE), which rrdtool makes a rate of.
    fn write_rrdtool(&self, out: &mut impl Write) -> io::Result<()> {
        let step = i64::from(self.fetched.step_secs);
        let rows = self.resolution.keep_secs / u64::from(self.resolution.step_secs);
        for series in &self.fetched.series {
            let file = file_name(&self.spec.name, self.key(series));
            let last_update = self.last_updates.get(&file);
            if last_update.is_none() {
                let start = self.fetched.first_secs;
                write!(out, "create {file} --start {start} --step {step}")?;
                for spec in &self.spec.metrics {
                    let kind = if spec.kind == MetricKind::Counter { "ABSOLUTE" } else { "GAUGE" };
                    write!(out, " DS:{}:{kind}:{}:0:U", spec.name, 2 * step)?;
                }
                writeln!(out, " RRA:AVERAGE:0.5:1:{rows} RRA:MAX:0.5:12:{}", rows / 12 + 1)?;
            }
            let metrics: Vec<Vec<_>> = (0..self.spec.metrics.len())
                .map(|metric| self.fetched.totals(self.spec, series, metric).collect())
                .collect();
            for at in 0..self.fetched.known.len() {
                let end = self.fetched.time_secs(at) + step;
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
