//! The subcommands, in data-path order, and what several of them share.

// The comments on arguments are the text of `--help`, where backticks are noise.
#![allow(clippy::doc_markdown)]
// A switch on the command line is a bool.
#![allow(clippy::struct_excessive_bools)]

pub(crate) mod archive;
pub(crate) mod books;
pub(crate) mod chain;
pub(crate) mod collect;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod meter;
pub(crate) mod nfdump;
pub(crate) mod query;
pub(crate) mod shell;
pub(crate) mod sql;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use weir_chain::{Chain, ChainBuilder, Progress};
use weir_flow::Counter;
use weir_flow::scaling::Corrections;
use weir_query::{Archive, QueryOptions};
use weir_sql::output::Format;
use weir_sql::{Engine, EngineOptions, UserTable};
use weir_wire::WireError;

use crate::octets::Octets;

/// Where the archive is and how much a question may use.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveArgs {
    /// Folder of the archive
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
    /// Memory for sorting, grouping and joining; beyond it they write to disk
    #[arg(long, value_name = "OCTETS", default_value = "2G")]
    memory_limit: Octets,
    /// What is known better about sampling than exporters told: a CSV file with the header
    /// exporter,domain,sampler,in_if,from,to,interval, of which any field but the last may be empty
    #[arg(long, value_name = "FILE", env = "WEIR_SAMPLING_CORRECTIONS")]
    sampling_corrections: Option<PathBuf>,
    /// Threads that work on the question [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl ArchiveArgs {
    pub(crate) fn open(&self) -> anyhow::Result<Engine> {
        self.open_beside(Vec::new())
    }

    /// With files as tables beside those of the archive.
    pub(crate) fn open_beside(&self, tables: Vec<UserTable>) -> anyhow::Result<Engine> {
        let memory_octets_max = self.memory_limit.0;
        let mut options = EngineOptions { memory_octets_max, tables, ..EngineOptions::default() };
        if let Some(threads) = self.threads {
            options.threads = threads;
        }
        if let Some(path) = &self.sampling_corrections {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            options.corrections =
                Corrections::parse(&text).with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok(Engine::open(&self.archive, &options)?)
    }
}

impl ArchiveArgs {
    /// The archive without the engine; whether flows that have expired count as far as their summaries tell.
    pub(crate) fn direct(&self, progress: Arc<weir_query::Progress>, approximate: bool) -> anyhow::Result<Archive> {
        let usual = QueryOptions::default();
        let threads = self.threads.unwrap_or(usual.threads).max(1);
        let memory_octets_max = self.memory_limit.0;
        let options = QueryOptions { threads, memory_octets_max, progress, approximate, ..usual };
        Ok(Archive::open(&self.archive, options)?)
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// Nothing; rows are counted only
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

/// Prints what decoders met: counters of the books that are not zero, and errors by kind.
pub(crate) fn print_books(progress: &Progress, block: &str) {
    let Some(block) = progress.component(block) else { return };
    for &counter in Counter::ALL {
        let total = block.counter(counter.name());
        if total > 0 {
            eprintln!("  {:<22} {total:>14}  {}", counter.name(), counter.doc());
        }
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
            eprintln!("  {label:<22} {count:>14}  decoding error");
        }
    }
}

/// Prints what the archive of a chain took.
pub(crate) fn print_archived(progress: &Progress) {
    let Some(archive) = progress.component("archive") else { return };
    eprintln!(
        "archive: {} flows stored, {} segments sealed with {} octets",
        archive.counter("rows_stored"),
        archive.counter("segments_sealed"),
        archive.counter("octets_sealed")
    );
    let lost = archive.counter("rows_refused") + archive.rows_discarded;
    if lost > 0 {
        eprintln!("warning: {lost} flows could not be written");
    }
}
