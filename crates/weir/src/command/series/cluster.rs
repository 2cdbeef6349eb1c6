//! Statistics that a cluster of Cassandra keeps, listed and printed.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use jiff::tz::TimeZone;
use weir_cassandra::{StatisticsPartition, StatisticsReader};
use weir_chain::TimeSpan;

use super::{CLUSTER, FetchArgs, LsArgs, StoreArgs, Work, print};

/// Partitions whose rows are in memory at once.
const PARTITIONS_AT_ONCE: usize = 256;

/// Does the work when it is about the statistics of a cluster, and returns whether it was.
pub(super) fn run(work: &Work) -> anyhow::Result<bool> {
    let done = match work {
        Work::Ls(args) => named(&args.store)?.map(|reader| ls(args, &reader)),
        Work::Fetch(args) => named(&args.store)?.map(|reader| fetch(args, &reader)),
        Work::Plot(_) | Work::Export(_) | Work::Forward(_) => None,
    };
    Ok(done.transpose()?.is_some())
}

/// Connects to the cluster that the argument for the folder of an archive names; `None` when it is a folder.
fn named(store: &StoreArgs) -> anyhow::Result<Option<StatisticsReader>> {
    let archive = store.archive.as_ref().filter(|_| store.statistics.is_none());
    let Some(url) = archive.and_then(|archive| archive.to_str()).filter(|text| text.starts_with(CLUSTER)) else {
        return Ok(None);
    };
    let options = crate::command::forward::cluster(url).map_err(anyhow::Error::msg)?;
    Ok(Some(StatisticsReader::connect(options).context("cannot read from Cassandra")?))
}

fn ls(args: &LsArgs, reader: &StatisticsReader) -> anyhow::Result<()> {
    let partitions = reader.partitions()?;
    if let Some(by) = &args.by {
        check_by(&partitions, by)?;
        let is_wanted = |key: &&str| args.matched.as_ref().is_none_or(|text| key.contains(text.as_str()));
        let of = partitions.iter().filter(|partition| partition.by == *by);
        let keys: BTreeSet<&str> = of.map(|partition| partition.key.as_str()).filter(is_wanted).collect();
        let keys: ArrayRef = Arc::new(StringArray::from_iter_values(keys));
        return print(iter::once(Ok(RecordBatch::try_from_iter([("key", keys)])?)), args.format, TimeZone::UTC);
    }
    let mut families: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<u32>)> = BTreeMap::new();
    for partition in &partitions {
        let (keys, steps) = families.entry(&partition.by).or_default();
        keys.insert(&partition.key);
        steps.insert(partition.step_secs);
    }
    let keys: UInt64Array = families.values().map(|(keys, _)| Some(keys.len() as u64)).collect();
    let steps = families.values().map(|(_, steps)| steps_text(steps));
    let table = RecordBatch::try_from_iter([
        ("by", Arc::new(StringArray::from_iter_values(families.keys())) as ArrayRef),
        ("keys", Arc::new(keys) as ArrayRef),
        ("steps", Arc::new(StringArray::from_iter_values(steps)) as ArrayRef),
    ])?;
    print(iter::once(Ok(table)), args.format, TimeZone::UTC)
}

fn fetch(args: &FetchArgs, reader: &StatisticsReader) -> anyhow::Result<()> {
    let mut partitions = reader.partitions()?;
    check_by(&partitions, &args.by)?;
    partitions.retain(|partition| partition.by == args.by);
    let known: BTreeSet<&str> = partitions.iter().map(|partition| partition.key.as_str()).collect();
    if let Some(key) = args.keys.iter().find(|key| !known.contains(key.as_str())) {
        bail!("there are no series by {} of {key}\nhint: weir series ls --by {} lists the keys", args.by, args.by);
    }
    let steps: BTreeSet<u32> = partitions.iter().map(|partition| partition.step_secs).collect();
    let step_secs = match args.steps.step {
        Some(step) => {
            let has_length = |secs: &&u32| Duration::from_secs(u64::from(**secs)) == step.duration();
            let missing = || format!("there are no steps of {step}\nhint: there are steps of {}", steps_text(&steps));
            steps.iter().find(has_length).copied().with_context(missing)?
        }
        None => steps.first().copied().unwrap_or_default(),
    };
    let (from, until) = args.steps.range()?;
    let times_ms = from.saturating_mul(1_000)..until.saturating_mul(1_000);
    partitions.retain(|partition| {
        let is_wanted = args.keys.is_empty() || args.keys.contains(&partition.key);
        partition.step_secs == step_secs && is_wanted && partition.overlaps(&times_ms)
    });
    let read = |some: &[StatisticsPartition]| -> Vec<anyhow::Result<RecordBatch>> {
        match reader.rows(some, &times_ms) {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error.into())],
        }
    };
    let mut batches = partitions.chunks(PARTITIONS_AT_ONCE).flat_map(read).peekable();
    if batches.peek().is_none() {
        let empty = RecordBatch::new_empty(reader.schema());
        return print(iter::once(Ok(empty)), args.format, args.steps.zone());
    }
    print(batches, args.format, args.steps.zone())
}

/// Checks that there are such series.
fn check_by(partitions: &[StatisticsPartition], by: &str) -> anyhow::Result<()> {
    let known: BTreeSet<&str> = partitions.iter().map(|partition| partition.by.as_str()).collect();
    if known.contains(by) {
        return Ok(());
    }
    let known: Vec<&str> = known.into_iter().collect();
    bail!("the cluster has no series by {by}\nhint: it has series by {}", known.join(", "))
}

fn steps_text(steps: &BTreeSet<u32>) -> String {
    let texts: Vec<String> = steps.iter().map(|secs| TimeSpan::from_secs(u64::from(*secs)).to_string()).collect();
    texts.join(", ")
}
