//! The subcommands, in data-path order, and what several of them share.

// The comments on arguments are the text of `--help`, where backticks are noise.
#![allow(clippy::doc_markdown)]
// A switch on the command line is a bool.
#![allow(clippy::struct_excessive_bools)]

pub(crate) mod archive;
pub(crate) mod books;
pub(crate) mod chain;
#[cfg(feature = "cassandra")]
mod cluster;
pub(crate) mod collect;
pub(crate) mod config;
pub(crate) mod doctor;
#[cfg(feature = "cassandra")]
pub(crate) mod forward;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod meter;
mod new_archive;
mod nfcapd_options;
pub(crate) mod nfdump;
mod no_rows;
mod note_thread;
mod password;
pub(crate) mod query;
mod read_before;
pub(crate) mod series;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod sql;
pub(crate) mod user;
pub(crate) mod watch;

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use weir_blocks::sinks::statistics::{SeriesOptions, StatisticsSinkOptions};
use weir_blocks::transforms::enrich::{self, AddressFileOptions, EnrichOptions, ExporterFileOptions, RouteFileOptions};
use weir_chain::config::ThreadChoice;
use weir_chain::run::ComponentProgress;
use weir_chain::{ByteSize, Chain, ChainBuilder, Progress};
use weir_flow::Counter;
use weir_flow::scaling::Corrections;
use weir_query::{Archive, MemoryPool, QueryOptions};
use weir_sql::output::Format;
use weir_sql::stored_flows::StoredFlows;
use weir_sql::stored_series::StoredSeries;
use weir_sql::{Engine, EngineOptions, FlowAnswers, QueryControl};
use weir_wire::WireError;

use crate::flags::Flags;
use crate::running::was_stopped;

/// Where the archive is and how much a question may use.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveArgs {
    /// Folder of the archive, or the keyspace of a cluster that has flows: cassandra://HOST/KEYSPACE
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
    /// Sort, group and join in at most this much memory; write the rest to temporary files
    #[arg(long, value_name = "SIZE", default_value = "2GiB", help_heading = "Limits")]
    memory_limit: ByteSize,
    /// Use at most this many threads [default: one per core]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Corrections of the sampling intervals that exporters report.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SamplingArgs {
    /// Override the sampling intervals that exporters report by those of a CSV file
    ///
    /// Its header is exporter,domain,sampler,in_if,from,to,interval; any field but the last may be empty, which means any.
    #[arg(long, value_name = "FILE", env = "WEIR_SAMPLING_CORRECTIONS")]
    sampling_corrections: Option<PathBuf>,
}

impl SamplingArgs {
    /// The corrections of the file; none without a file.
    pub(crate) fn corrections(&self) -> anyhow::Result<Arc<Corrections>> {
        let read = self.sampling_corrections.as_deref().map(Corrections::read);
        Ok(Arc::new(read.transpose()?.unwrap_or_default()))
    }
}

impl ArchiveArgs {
    /// Opens the SQL engine for a statement; with an empty statement, only checks that it can be opened.
    pub(crate) fn engine(&self, options: EngineOptions, statement: &str) -> anyhow::Result<Engine> {
        let options = EngineOptions { corrections: self.sampling.corrections()?, ..options };
        match self.elsewhere()? {
            Some(store) => {
                let options = EngineOptions { stored_series: self.series_elsewhere(statement)?, ..options };
                Ok(Engine::over_stored(store, &options, &QueryControl::default())?)
            }
            None => Ok(Engine::open(&self.archive, &options)?),
        }
    }

    /// The store that the argument names when it is no folder.
    #[cfg(feature = "cassandra")]
    fn elsewhere(&self) -> anyhow::Result<Option<Arc<dyn StoredFlows>>> {
        let named = cluster::ClusterFlows::named(&self.archive)?;
        Ok(named.map(|flows| Arc::new(flows) as Arc<dyn StoredFlows>))
    }

    #[cfg(not(feature = "cassandra"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "there is no other store without the feature")]
    fn elsewhere(&self) -> anyhow::Result<Option<Arc<dyn StoredFlows>>> {
        Ok(None)
    }

    /// The statistics of that store, if it has any and the statement can name them.
    #[cfg(feature = "cassandra")]
    fn series_elsewhere(&self, statement: &str) -> anyhow::Result<Option<Arc<dyn StoredSeries>>> {
        let named = cluster::ClusterSeries::named(&self.archive, statement)?;
        Ok(named.map(|series| Arc::new(series) as Arc<dyn StoredSeries>))
    }

    #[cfg(not(feature = "cassandra"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "there is no other store without the feature")]
    fn series_elsewhere(&self, _statement: &str) -> anyhow::Result<Option<Arc<dyn StoredSeries>>> {
        Ok(None)
    }

    /// Opens the archive for questions about flows. Corrections of sampling are read only when they are `scaled`;
    /// `approximate` answers count flows that have expired by their summaries.
    pub(crate) fn flow_answers(
        &self,
        control: &QueryControl,
        scaled: bool,
        approximate: bool,
    ) -> anyhow::Result<FlowAnswers> {
        if let Some(store) = self.elsewhere()? {
            if approximate {
                anyhow::bail!("only an archive keeps summaries of flows that have expired");
            }
            let options = EngineOptions { corrections: self.sampling.corrections()?, ..self.engine_options() };
            return Ok(FlowAnswers::by(Engine::over_stored(store, &options, control)?, control.clone()));
        }
        let usual = QueryOptions::default();
        let options = QueryOptions {
            threads: self.threads.map_or(usual.threads, NonZeroUsize::get),
            memory: MemoryPool::new(self.memory_octets()),
            progress: Arc::clone(&control.progress),
            approximate,
            ..usual
        };
        let archive = Archive::open(&self.archive, options)?;
        let mut options = self.engine_options();
        if scaled {
            options.corrections = self.sampling.corrections()?;
        }
        Ok(FlowAnswers::new(archive, options, control.clone(), approximate))
    }

    fn memory_octets(&self) -> usize {
        usize::try_from(self.memory_limit.bytes()).unwrap_or(usize::MAX)
    }

    /// The folder of versions of files about addresses; `None` when nothing has kept any.
    pub(crate) fn versions(&self) -> Option<PathBuf> {
        Some(self.archive.join(weir_sql::VERSIONS_FOLDER)).filter(|folder| folder.is_dir())
    }

    /// Limits of the engine.
    pub(crate) fn engine_options(&self) -> EngineOptions {
        let mut options = EngineOptions { memory_octets_max: self.memory_octets(), ..EngineOptions::default() };
        if let Some(threads) = self.threads {
            options.threads = threads.get();
        }
        let statistics = self.archive.join(series::FOLDER);
        options.statistics = statistics.join("store.toml").is_file().then_some(statistics);
        options.reports = Some(self.archive.join(weir_watch::runner::JOURNAL_FOLDER)).filter(|folder| folder.is_dir());
        options
    }
}

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    Ndjson,
    /// Nothing: count the rows only
    Null,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Table => Self::Table,
            FormatArg::Csv => Self::Csv,
            FormatArg::Json => Self::Json,
            FormatArg::Ndjson => Self::Ndjson,
            FormatArg::Null => Self::Null,
        }
    }
}

/// Where the archive is.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveArg {
    /// Folder of the archive
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    pub(crate) archive: PathBuf,
}

/// What else names an archive, for an error about arguments that name none.
fn hint_at_archive(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_missing = missing.iter().any(|argument| argument.starts_with("--archive "));
    is_missing
        .then_some("the variable WEIR_ARCHIVE of the environment names the archive, too: export WEIR_ARCHIVE=flows")
}

/// Files of what is known of addresses and exporters, which is kept with the flows.
#[derive(Debug, clap::Args)]
pub(crate) struct EnrichmentArgs {
    #[command(flatten)]
    addresses: Flags<AddressFileOptions>,
    #[command(flatten)]
    exporters: Flags<ExporterFileOptions>,
    #[command(flatten)]
    routes: Flags<RouteFileOptions>,
}

impl EnrichmentArgs {
    /// As options of the component `enrich`.
    pub(crate) fn options(&self) -> EnrichOptions {
        let (addresses, exporters, routes) =
            (self.addresses.0.clone(), self.exporters.0.clone(), self.routes.0.clone());
        EnrichOptions { addresses, exporters, routes, ..EnrichOptions::default() }
    }
}

/// Which statistics are kept beside the flows.
#[derive(Debug, clap::Args)]
pub(crate) struct StatisticsArgs {
    /// Keep statistics over time in this folder [default: the folder statistics of the archive]
    ///
    /// weir series lists and draws them, and weir sql has them as the table series. --show-chain prints the options of the
    /// sink statistics, to be changed in a chain file.
    #[arg(
        long, value_name = "DIR", num_args = 0..=1, require_equals = true, help_heading = "Statistics"
    )]
    #[expect(clippy::option_option, reason = "not given, given without a folder, given with one")]
    statistics: Option<Option<PathBuf>>,
    /// Keep statistics by these columns of flows as well, several joined by +: src_net, exporter+in_if+dst_port
    ///
    /// Without it there are statistics by total, exporter, interface, protocol, port, host and as.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "statistics", help_heading = "Statistics")]
    statistics_by: Vec<String>,
}

impl StatisticsArgs {
    /// As options of the sink `statistics`, if statistics are asked for: in the folder that is given, else beside the flows
    /// of the archive.
    pub(crate) fn options(&self, archive: Option<&Path>) -> anyhow::Result<Option<StatisticsSinkOptions>> {
        let Some(given) = &self.statistics else { return Ok(None) };
        let beside = || archive.map(|archive| archive.join(series::FOLDER));
        let folder = given.clone().or_else(beside).context(
            "no folder is given that statistics are kept in\nhint: --statistics=DIR, or --archive DIR to keep them beside the flows",
        )?;
        let mut series = SeriesOptions::default();
        series.by.extend(self.statistics_by.iter().cloned());
        Ok(Some(StatisticsSinkOptions { statistics: folder, series }))
    }
}

/// Every kind of component that chain files may name.
pub(crate) fn registry() -> weir_chain::Registry {
    let mut registry = weir_blocks::registry();
    registry.add(&weir_watch::transform::KIND);
    #[cfg(feature = "cassandra")]
    weir_cassandra::kinds().for_each(|kind| registry.add(kind));
    #[cfg(feature = "snmp")]
    weir_snmp::kinds().for_each(|kind| registry.add(kind));
    registry
}

/// The chain that a command is, when it is to run; with `shows` it is printed as a chain file instead.
pub(crate) fn show_or_build(chain: ChainBuilder, shows: bool) -> anyhow::Result<Option<Chain>> {
    if shows {
        print!("{}", chain.text());
        return Ok(None);
    }
    chain.build().map(Some).map_err(|errors| {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", texts.join("\n"))
    })
}

/// Puts the component `enrich` behind another one when anything is to be added; gives the name of the last of both.
pub(crate) fn enriched(
    chain: ChainBuilder,
    input: &'static str,
    options: EnrichOptions,
) -> (ChainBuilder, &'static str) {
    let (chain, outputs) = enriched_all(chain, vec![input], options);
    (chain, outputs.first().copied().unwrap_or(input))
}

/// As [`enriched`], behind several components.
pub(crate) fn enriched_all(
    chain: ChainBuilder,
    inputs: Vec<&str>,
    options: EnrichOptions,
) -> (ChainBuilder, Vec<&str>) {
    if options.columns().is_empty() {
        return (chain, inputs);
    }
    (chain.add("enrich", &enrich::KIND, options, &inputs, ThreadChoice::Default), vec!["enrich"])
}

/// Sums over datagrams, which mean something only when they are divided by their number.
const CLOCKS: [Counter; 2] = [Counter::ClockAheadMs, Counter::ClockBehindMs];

const CLOCK_MEAN_DOC: &str = "Milliseconds by which clocks of exporters were ahead of ours, delay included, as a mean over \
                              `datagrams_decoded`; negative when they were behind.";

/// Prints what decoders met: counters of the books that are not zero, and errors by kind.
pub(crate) fn print_books(progress: &Progress, block: &str) {
    let Some(block) = progress.component(block) else { return };
    for &counter in Counter::ALL.iter().filter(|counter| !CLOCKS.contains(counter)) {
        let total = block.counter(counter.name());
        if total > 0 {
            eprintln!("  {:<22} {total:>14}  {}", counter.name(), counter.doc());
        }
    }
    let [ahead, behind] = CLOCKS.map(|counter| i128::from(block.counter(counter.name())));
    let datagrams = i128::from(block.counter(Counter::DatagramsDecoded.name()));
    if let Some(mean) = (ahead - behind).checked_div(datagrams).filter(|_| ahead + behind > 0) {
        eprintln!("  {:<22} {mean:>14}  {CLOCK_MEAN_DOC}", "clock ahead, mean ms");
    }
    let in_and_out = [Counter::SetsWaitingIn, Counter::SetsWaitingOut, Counter::SetsExpired];
    let [came, left, expired] = in_and_out.map(|counter| block.counter(counter.name()));
    let waiting = came.saturating_sub(left + expired);
    if waiting > 0 {
        eprintln!("  {:<22} {waiting:>14}  Data Sets whose Template never came.", "sets still waiting");
    }
    for label in WireError::LABELS {
        let count = block.counter(label);
        if count > 0 {
            let is_longer = *label == (WireError::TrailingOctets { octets: 0 }).label();
            let meaning = if is_longer { "octets behind the end of a message" } else { "decoding error" };
            eprintln!("  {label:<22} {count:>14}  {meaning}");
        }
    }
}

/// A number and what it is of: `1 row`, `2 rows`.
fn counted<N: Display + PartialEq + From<u8> + Copy>(number: N, noun: &str) -> String {
    format!("{number} {}", noun_of(number, noun))
}

/// A noun as it is behind a number; nouns that end in y have `ies`.
fn noun_of<N: PartialEq + From<u8> + Copy>(number: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == N::from(1) => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    }
}

/// What CSV does with texts, by the flag `--raw`.
fn texts(raw: bool) -> weir_print::Texts {
    if raw { weir_print::Texts::Raw } else { weir_print::Texts::Harmless }
}

/// Prints what the archive of a chain took.
pub(crate) fn print_archived(progress: &Progress) {
    let Some(archive) = progress.component("archive") else { return };
    eprintln!(
        "archive: {} stored, {} sealed with {}",
        counted(archive.counter("rows_stored"), "flow"),
        counted(archive.counter("segments_sealed"), "segment"),
        counted(archive.counter("octets_sealed"), "octet")
    );
    let lost = flows_not_stored(progress);
    if lost > 0 {
        eprintln!("warning: {} could not be written", counted(lost, "flow"));
    }
}

/// Flows that came as far as the archive of a chain and are not in it.
pub(crate) fn flows_not_stored(progress: &Progress) -> u64 {
    let lost = |archive: &ComponentProgress| {
        archive.counter("rows_refused") + archive.counter("rows_lost") + archive.rows_discarded
    };
    progress.component("archive").map_or(0, lost)
}

/// Whether a chain was stopped while its archive could not take all flows, on a full disk for instance: what was read before
/// the stop is then not all stored.
pub(crate) fn was_stopped_short(progress: &Progress) -> bool {
    was_stopped() && flows_not_stored(progress) > 0
}

/// Whether the archive of a chain that has ended has all that a source handed on, so that the files which it has read may be
/// noted. When something in the chain failed, only the counts can tell; they do for a source that notes a file after it has
/// handed on its flows.
pub(crate) fn has_all_of(progress: &Progress, source: &str, has_failed: bool) -> bool {
    if !has_failed {
        return !was_stopped_short(progress);
    }
    let (Some(archive), Some(source)) = (progress.component("archive"), progress.component(source)) else {
        return false;
    };
    flows_not_stored(progress) == 0 && archive.counter("rows_durable") == source.rows_out
}

/// Prints what the statistics of a chain have counted.
pub(crate) fn print_counted(progress: &Progress) {
    let Some(statistics) = progress.component("statistics") else { return };
    let of = |name: &str| statistics.counter(name);
    eprintln!("statistics: {} flows counted in {} steps", of("rows_counted"), of("steps_written"));
    if of("rows_late") > 0 {
        eprintln!("warning: {} flows came after their step was written, and count in a later one", of("rows_late"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|rows: u64| counted(rows, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(
            [0, 1, 11].map(|count: usize| counted(count, "summary")),
            ["0 summaries", "1 summary", "11 summaries"]
        );
    }
}
