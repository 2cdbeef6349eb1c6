//! `weir series`: statistics over time.

#[cfg(feature = "cassandra")]
mod cluster;
mod export;
mod forward;
mod plot;
mod rrdtool;

use std::io;
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::Schema;
use clap::Subcommand;
use jiff::tz::TimeZone;
use weir_chain::TimeSpan;
use weir_print::{OutputOptions, PrintError, write_batches};
use weir_series::{Catalogue, Coverage, Family, FamilyId, Fetched, Resolution, RowSelection, SeriesError, SeriesStore};

use super::FormatArg;
use crate::time_args::TimeArgs;

/// Folder of the statistics of an archive.
pub(crate) const FOLDER: &str = "statistics";

/// What the address of a cluster begins with.
const CLUSTER: &str = "cassandra://";

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
    /// Folder of the archive, which has the statistics in its folder statistics; to list and fetch also the keyspace of a cluster
    /// that has statistics: cassandra://HOST/KEYSPACE
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: Option<PathBuf>,
    /// Folder of the statistics, when they are not those of the archive
    #[arg(long, value_name = "DIR")]
    statistics: Option<PathBuf>,
}

impl StoreArgs {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        match (&self.statistics, &self.archive) {
            (Some(folder), _) => Ok(folder.clone()),
            (None, Some(archive)) if archive.to_str().is_some_and(|text| text.starts_with(CLUSTER)) => {
                bail!(
                    "this needs a folder, and not a cluster\nhint: weir series ls and weir series fetch read from a cluster"
                )
            }
            (None, Some(archive)) => Ok(archive.join(FOLDER)),
            (None, None) => bail!("no folder of statistics is named\nhint: -R ARCHIVE or --statistics DIR"),
        }
    }

    fn open(&self) -> anyhow::Result<SeriesStore> {
        SeriesStore::open(&self.folder()?).map_err(|error| match error {
            SeriesError::NoStore(_) => {
                anyhow!("{error}\nhint: weir collect --statistics keeps statistics of what it collects")
            }
            error => error.into(),
        })
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

    /// The steps that are read, and from when until when.
    fn selected(&self, store: &SeriesStore) -> anyhow::Result<(Resolution, i64, i64)> {
        let (from, until) = self.range()?;
        let resolution = match self.step {
            Some(step) => resolution_of(store, step)?,
            None => finest_with(store, from)?,
        };
        let (first, last) = store.extent(resolution)?.unwrap_or((0, 0));
        Ok((resolution, from.max(first), until.min(last.saturating_add(1))))
    }
}

/// The resolution that has steps of this length.
fn resolution_of(store: &SeriesStore, step: TimeSpan) -> anyhow::Result<Resolution> {
    let known = store.resolutions().iter().find(|one| Duration::from_secs(u64::from(one.step_secs)) == step.duration());
    known
        .copied()
        .with_context(|| format!("there are no steps of {step}\nhint: there are steps of {}", steps_text(store)))
}

/// The finest resolution that still has steps of this time, or everything that there ever was after it.
fn finest_with(store: &SeriesStore, from: i64) -> anyhow::Result<Resolution> {
    let mut begins = Vec::new();
    for &resolution in store.resolutions() {
        begins.extend(store.extent(resolution)?.map(|(first, _)| (resolution, first)));
    }
    // a coarse step begins before what it is made of, by less than its length
    let reaches_back =
        |first: i64| begins.iter().all(|(other, begin)| first < begin.saturating_add(i64::from(other.step_secs)));
    let found = begins.iter().find(|(_, first)| *first <= from || reaches_back(*first));
    Ok(found.map_or(store.resolutions()[0], |(resolution, _)| *resolution))
}

fn steps_text(store: &SeriesStore) -> String {
    let steps: Vec<String> = store.resolutions().iter().map(|one| format!("{}s", one.step_secs)).collect();
    steps.join(", ")
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
    if ran_on_cluster(&args.work)? {
        return Ok(ExitCode::SUCCESS);
    }
    match &args.work {
        Work::Ls(args) => ls(args)?,
        Work::Fetch(args) => fetch(args)?,
        Work::Plot(args) => plot::run(args)?,
        Work::Export(args) => export::run(args)?,
        Work::Forward(args) => return forward::run(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Does the work when it is about the statistics of a cluster, and returns whether it was.
#[cfg(feature = "cassandra")]
fn ran_on_cluster(work: &Work) -> anyhow::Result<bool> {
    cluster::run(work)
}

#[cfg(not(feature = "cassandra"))]
#[expect(clippy::unnecessary_wraps, reason = "there is no cluster without the feature")]
fn ran_on_cluster(_work: &Work) -> anyhow::Result<bool> {
    Ok(false)
}

/// Checks that there are such series.
fn family(store: &SeriesStore, by: &str) -> anyhow::Result<FamilyId> {
    store.family(by).map(|(id, _)| id).with_context(|| {
        let names: Vec<&str> = store.families().iter().map(|family| family.name.as_str()).collect();
        format!("there are no series by {by}\nhint: there are series by {}", names.join(", "))
    })
}

/// Checks that there are series of these keys.
fn check_keys(catalogue: &Catalogue, id: FamilyId, by: &str, keys: &[String]) -> anyhow::Result<()> {
    let unknown: Vec<_> = keys.iter().filter(|key| catalogue.id(id, key).is_none()).map(String::as_str).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    bail!("there are no series by {by} of {}\nhint: weir series ls --by {by} lists the keys", unknown.join(", "))
}

fn ls(args: &LsArgs) -> anyhow::Result<()> {
    let store = args.store.open()?;
    let catalogue = catalogue(&store)?;
    if let Some(by) = &args.by {
        let family = family(&store, by)?;
        let is_wanted = |key: &&str| args.matched.as_ref().is_none_or(|text| key.contains(text.as_str()));
        let mut keys: Vec<&str> = catalogue.series(family).map(|(_, key)| key).filter(is_wanted).collect();
        keys.sort_unstable();
        let keys: ArrayRef = Arc::new(StringArray::from(keys));
        return print(iter::once(Ok(RecordBatch::try_from_iter([("key", keys)])?)), args.format, TimeZone::UTC);
    }
    let families = || (0..).map(FamilyId).zip(store.families());
    let texts = |of: &dyn Fn((FamilyId, &Family)) -> String| -> ArrayRef {
        Arc::new(families().map(of).map(Some).collect::<StringArray>())
    };
    let keys: UInt64Array = families().map(|(id, _)| Some(catalogue.series(id).count() as u64)).collect();
    let metrics =
        |family: &Family| family.metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(" ");
    let coverage = |family: &Family| match family.coverage {
        Coverage::Complete => "all",
        Coverage::Largest => "the largest of each step, and other",
    };
    let table = RecordBatch::try_from_iter([
        ("by", texts(&|(_, family)| family.name.clone())),
        ("keys", Arc::new(keys) as ArrayRef),
        ("metrics", texts(&|(_, family)| metrics(family))),
        ("kept", texts(&|(_, family)| coverage(family).to_owned())),
    ])?;
    print(iter::once(Ok(table)), args.format, TimeZone::UTC)?;
    for &resolution in store.resolutions() {
        let keep = TimeSpan::from_secs(resolution.keep_secs);
        let step = TimeSpan::from_secs(u64::from(resolution.step_secs));
        match store.extent(resolution)? {
            Some((first, last)) => eprintln!("steps of {step}, kept for {keep}: {} to {}", utc(first), utc(last)),
            None => eprintln!("steps of {step}, kept for {keep}: none yet"),
        }
    }
    Ok(())
}

/// A time as text.
fn utc(secs: i64) -> String {
    jiff::Timestamp::from_second(secs).map_or_else(|_| secs.to_string(), |time| time.to_string())
}

fn fetch(args: &FetchArgs) -> anyhow::Result<()> {
    let store = args.store.open()?;
    let id = family(&store, &args.by)?;
    let (resolution, from_secs, until_secs) = args.steps.selected(&store)?;
    let catalogue = Arc::new(catalogue(&store)?);
    check_keys(&catalogue, id, &args.by, &args.keys)?;
    let keys = (!args.keys.is_empty()).then(|| args.keys.clone());
    let selection = RowSelection { resolution, families: Some(vec![args.by.clone()]), keys, from_secs, until_secs };
    let store = Arc::new(store);
    let is_finest = resolution == store.resolutions()[0];
    let spec = &store.families()[usize::from(id.0)];
    let rows = store.rows_with(&selection, catalogue)?;
    let columns = columns_of(&rows.schema(), spec, is_finest);
    let empty = RecordBatch::new_empty(rows.schema()).project(&columns)?;
    // steps that are damaged hide no other ones
    let readable = rows.filter(|batch| match batch {
        Err(error) if error.is_damage() => {
            eprintln!("warning: {error}");
            false
        }
        _ => true,
    });
    let mut batches = readable.map(|batch| Ok(batch?.project(&columns)?)).peekable();
    if batches.peek().is_none() {
        return print(iter::once(Ok(empty)), args.format, args.steps.zone());
    }
    print(batches, args.format, args.steps.zone())
}

/// Reads which series there are, and says when the file is damaged.
fn catalogue(store: &SeriesStore) -> anyhow::Result<Catalogue> {
    let catalogue = store.catalogue()?;
    let (repaired, damaged) = (catalogue.repaired_lines(), catalogue.damaged_lines());
    if repaired > 0 {
        eprintln!("warning: the catalogue of keys is damaged: {repaired} wrong bits are corrected");
    }
    if damaged > 0 {
        eprintln!(
            "warning: the catalogue of keys is damaged: {damaged} lines cannot be read, and their series have no key"
        );
    }
    Ok(catalogue)
}

/// Says which steps are gaps because they cannot be read.
fn warn_of_damage(fetched: &Fetched) {
    for damage in &fetched.damaged {
        eprintln!("warning: {damage}");
    }
}

/// The columns that say something of a family: those of its metrics, and in the finest steps only their values.
fn columns_of(schema: &Schema, family: &Family, is_finest: bool) -> Vec<usize> {
    let says_something = |name: &str| {
        let metric =
            ["_min", "_max", "_last", "_p50", "_p95", "_p99"].iter().find_map(|ending| name.strip_suffix(ending));
        match (metric, family.metric(metric.unwrap_or(name))) {
            (Some(_), known) => known.is_some() && !is_finest,
            (None, Some(_)) => true,
            (None, None) => {
                matches!(name, "time" | "step" | "by" | "key") || matches!(name, "known" | "count") && !is_finest
            }
        }
    };
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| says_something(field.name())).map(|(place, _)| place).collect()
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
