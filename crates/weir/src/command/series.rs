//! `weir series`: statistics over time.

#[cfg(feature = "cassandra")]
mod cluster;
mod export;
mod folder;
mod forward;
mod plot;
mod source;

use std::io;
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use clap::Subcommand;
use jiff::tz::TimeZone;
use weir_chain::TimeSpan;
use weir_print::{OutputOptions, PrintError, write_batches};
use weir_series::{SeriesError, SeriesStore};

use self::folder::FolderSource;
use self::source::{SeriesRequest, SeriesSource, SourceRows, StepLength};
use super::answer_format::FormatArg;
use crate::time_args::TimeArgs;

/// Folder of the statistics of an archive.
pub(crate) const FOLDER: &str = "statistics";

/// What the address of a cluster begins with.
const CLUSTER: &str = "cassandra://";

/// What to do where a cluster is named in place of a folder.
#[cfg(feature = "cassandra")]
const CLUSTER_HINT: &str = "weir series ls, fetch, plot and export read from a cluster";
#[cfg(not(feature = "cassandra"))]
const CLUSTER_HINT: &str = "this weir was built without the feature cassandra, and reads from no cluster";

/// The key of what is not among the largest keys.
const OTHER: &str = "other";

/// List, print, plot, export and forward statistics over time
///
/// Statistics are series of flows, packets and bytes for each key, in steps of a second, a minute, 5 minutes and an hour.
/// The sink statistics of a chain and weir collect --statistics keep them.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir collect --archive flows --statistics\n  weir series ls -R flows\n  weir series plot -R flows --by total --last 1d"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    Ls(LsArgs),
    Fetch(FetchArgs),
    Plot(plot::PlotArgs),
    Export(export::ExportArgs),
    Forward(Box<forward::ForwardArgs>),
}

/// Where the statistics are.
#[derive(Debug, clap::Args)]
struct StoreArgs {
    /// Folder of the archive, which has the statistics in its folder statistics; to list, fetch, plot and export also the keyspace of
    /// a cluster that has statistics: cassandra://HOST/KEYSPACE
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: Option<PathBuf>,
    /// Folder of the statistics, when they are not those of the archive
    #[arg(long, value_name = "DIR")]
    statistics: Option<PathBuf>,
}

impl StoreArgs {
    /// The address of the cluster that is named in place of a folder.
    fn cluster(&self) -> Option<&str> {
        let archive = self.archive.as_ref().filter(|_| self.statistics.is_none())?;
        archive.to_str().filter(|text| text.starts_with(CLUSTER))
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        if self.cluster().is_some() {
            bail!("this needs a folder, and not a cluster\nhint: {CLUSTER_HINT}");
        }
        match (&self.statistics, &self.archive) {
            (Some(folder), _) => Ok(folder.clone()),
            (None, Some(archive)) => Ok(archive.join(FOLDER)),
            (None, None) => bail!("no folder of statistics is named\nhint: -R ARCHIVE or --statistics DIR"),
        }
    }

    /// The statistics of a folder.
    fn open(&self) -> anyhow::Result<FolderSource> {
        let store = SeriesStore::open(&self.folder()?).map_err(|error| match error {
            SeriesError::NoStore(_) => {
                anyhow!("{error}\nhint: weir collect --statistics keeps statistics of what it collects")
            }
            error => error.into(),
        });
        store.map(FolderSource::new)
    }

    /// The statistics of a folder or a cluster.
    fn source(&self) -> anyhow::Result<Box<dyn SeriesSource>> {
        #[cfg(feature = "cassandra")]
        if let Some(url) = self.cluster() {
            return Ok(Box::new(cluster::ClusterSource::connect(url)?));
        }
        Ok(Box::new(self.open()?))
    }
}

/// Which steps.
#[derive(Debug, clap::Args)]
struct StepArgs {
    #[command(flatten)]
    times: TimeArgs,
    /// Take steps of this length [default: the shortest that are kept for so long]
    #[arg(long, value_name = "DURATION")]
    step: Option<TimeSpan>,
}

impl StepArgs {
    fn zone(&self) -> TimeZone {
        self.times.zone()
    }

    /// The time asked for, in seconds since the epoch; all of it when nothing is asked.
    fn range(&self) -> anyhow::Result<(i64, i64)> {
        let [from, until] = self.times.range()?.map(|end| end.map(|ms| ms.div_euclid(1_000)));
        Ok((from.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX)))
    }

    /// The steps that are read of series, and from when until when.
    fn selected(&self, source: &dyn SeriesSource, by: &str) -> anyhow::Result<(StepLength, i64, i64)> {
        let (from, until) = self.range()?;
        let step = match self.step {
            Some(step) => step_of(source, step)?,
            None => finest_with(source, from, by)?,
        };
        let (first, last) = source.extent(step, Some(by))?.unwrap_or((0, 0));
        Ok((step, from.max(first), until.min(last.saturating_add(1))))
    }
}

/// The steps of this length.
fn step_of(source: &dyn SeriesSource, step: TimeSpan) -> anyhow::Result<StepLength> {
    let steps = source.steps();
    let found = steps.iter().find(|one| Duration::from_secs(u64::from(one.step_secs)) == step.duration());
    found.copied().with_context(|| {
        let steps: Vec<String> = steps.iter().map(|one| format!("{}s", one.step_secs)).collect();
        format!("there are no steps of {step}\nhint: there are steps of {}", steps.join(", "))
    })
}

/// The finest steps that series still have of this time, or of everything that there ever was of them after it.
fn finest_with(source: &dyn SeriesSource, from: i64, by: &str) -> anyhow::Result<StepLength> {
    let steps = source.steps();
    let mut begins = Vec::new();
    for &step in &steps {
        begins.extend(source.extent(step, Some(by))?.map(|(first, _)| (step, first)));
    }
    // a coarse step begins before what it is made of, by less than its length
    let reaches_back =
        |first: i64| begins.iter().all(|(other, begin)| first < begin.saturating_add(i64::from(other.step_secs)));
    let found = begins.iter().find(|(_, first)| *first <= from || reaches_back(*first));
    found.map(|(step, _)| *step).or(steps.first().copied()).context("there are no steps")
}

/// List what statistics there are, or the keys of one kind
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir series ls -R flows\n  weir series ls -R flows --by src_addr --match 192.0.2.\n  weir series ls -R cassandra://10.0.0.1/weir"
)]
struct LsArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// List the keys of these series
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// List the keys that have this text
    #[arg(long = "match", value_name = "TEXT", requires = "by")]
    matched: Option<String>,
    /// Write the list in this format
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table)]
    format: FormatArg,
}

/// Print series as rows: time, key, and the sum, smallest, largest and last value of each metric
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir series fetch -R flows --by total --last 1h\n  weir series fetch -R flows --by src_addr --key 192.0.2.7 --step 5m --format csv"
)]
struct FetchArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Print these series: total, exporter, src_addr and so on, as weir series ls lists them
    #[arg(long, value_name = "NAME")]
    by: String,
    /// Print the series of this key; the option may be repeated [default: all]
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Write the rows in this format
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table)]
    format: FormatArg,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.work {
        Work::Ls(args) => ls(args)?,
        Work::Fetch(args) => fetch(args)?,
        Work::Plot(args) => plot::run(args)?,
        Work::Export(args) => export::run(args)?,
        Work::Forward(args) => return forward::run(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that there are such series.
fn check_by(source: &dyn SeriesSource, by: &str) -> anyhow::Result<()> {
    let families = source.families();
    if families.contains(&by) {
        return Ok(());
    }
    bail!("there are no series by {by}\nhint: there are series by {}", families.join(", "))
}

/// Checks that there are series of these keys.
fn check_keys(source: &dyn SeriesSource, by: &str, keys: &[String]) -> anyhow::Result<()> {
    let mut unknown = Vec::new();
    for key in keys {
        if !source.has_key(by, key)? {
            unknown.push(key.as_str());
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let is_damaged = source.may_have_lost_keys(by)?;
    let lost = if is_damaged { ", without those that are lost: the catalogue of keys was damaged" } else { "" };
    bail!("there are no series by {by} of {}\nhint: weir series ls --by {by} lists the keys{lost}", unknown.join(", "))
}

fn ls(args: &LsArgs) -> anyhow::Result<()> {
    let source = args.store.source()?;
    if let Some(by) = &args.by {
        check_by(&*source, by)?;
        let is_wanted = |key: &&str| args.matched.as_ref().is_none_or(|text| key.contains(text.as_str()));
        let keys = source.keys(by)?.into_iter().filter(is_wanted);
        let keys: ArrayRef = Arc::new(StringArray::from_iter_values(keys));
        return print(iter::once(Ok(RecordBatch::try_from_iter([("key", keys)])?)), args.format, TimeZone::UTC);
    }
    print(iter::once(Ok(source.listing()?)), args.format, TimeZone::UTC)?;
    for step in source.steps() {
        let length = TimeSpan::from_secs(u64::from(step.step_secs));
        let kept = step.keep_secs.map(|secs| format!(", kept for {}", TimeSpan::from_secs(secs))).unwrap_or_default();
        match source.extent(step, None)? {
            Some((first, last)) => eprintln!("steps of {length}{kept}: {} to {}", utc(first), utc(last)),
            None => eprintln!("steps of {length}{kept}: none yet"),
        }
    }
    Ok(())
}

/// A time as text.
fn utc(secs: i64) -> String {
    jiff::Timestamp::from_second(secs).map_or_else(|_| secs.to_string(), |time| time.to_string())
}

fn fetch(args: &FetchArgs) -> anyhow::Result<()> {
    let source = args.store.source()?;
    check_by(&*source, &args.by)?;
    let (step, from_secs, until_secs) = args.steps.selected(&*source, &args.by)?;
    check_keys(&*source, &args.by, &args.keys)?;
    let wanted = SeriesRequest { by: &args.by, keys: &args.keys, step, from_secs, until_secs };
    let SourceRows { schema, batches } = source.rows(&wanted)?;
    let mut batches = batches.peekable();
    if batches.peek().is_none() {
        return print(iter::once(Ok(RecordBatch::new_empty(schema))), args.format, args.steps.zone());
    }
    print(batches, args.format, args.steps.zone())
}

/// Writes batches to standard output.
fn print(
    batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
    format: FormatArg,
    zone: TimeZone,
) -> anyhow::Result<()> {
    let mut batches = batches.peekable();
    let Some(Ok(first)) = batches.peek() else { return batches.next().transpose().map(drop) };
    let schema = first.schema();
    let options = OutputOptions { zone, scaled: false, ..OutputOptions::default() };
    match write_batches(batches, &schema, format.into(), &options, &mut io::stdout().lock()) {
        // the reader has gone
        Err(PrintError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(PrintError::Write(error)) => Err(error).context("cannot write to standard output"),
        Err(PrintError::Batches(error)) => Err(error),
        Ok(_) => Ok(()),
    }
}
