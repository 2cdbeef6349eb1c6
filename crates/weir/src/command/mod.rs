//! The subcommands, in data-path order, and what several of them share.

// The comments on arguments are the text of `--help`, where backticks are noise.
#![allow(clippy::doc_markdown)]
// A switch on the command line is a bool.
#![allow(clippy::struct_excessive_bools)]

pub(crate) mod books;
pub(crate) mod chain;
pub(crate) mod collect;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod query;
pub(crate) mod sql;

use std::path::PathBuf;

use clap::ValueEnum;
use weir_archive::Recovery;
use weir_collect::DecoderStatistics;
use weir_flow::Counter;
use weir_query::output::Format;
use weir_query::{Engine, EngineOptions};

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
    /// Threads that work on the question [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl ArchiveArgs {
    pub(crate) fn open(&self) -> anyhow::Result<Engine> {
        let mut options = EngineOptions { memory_octets_max: self.memory_limit.0, ..EngineOptions::default() };
        if let Some(threads) = self.threads {
            options.threads = threads;
        }
        Ok(Engine::open(&self.archive, &options)?)
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

/// Tells what opening the archive found, when there is something to tell.
pub(crate) fn tell_recovery(recovery: &Recovery) {
    if recovery.tails > 0 || recovery.torn_octets > 0 {
        eprintln!(
            "recovered: {} tails with {} flows to seal, {} octets of an unfinished write cut",
            recovery.tails, recovery.rows, recovery.torn_octets
        );
    }
    for damage in &recovery.damages {
        eprintln!(
            "warning: a damaged tail was set aside: {} ({} octets and {} whole flows behind the damage are not read)",
            damage.path.display(),
            damage.octets_lost,
            damage.rows_behind
        );
    }
}

/// Tells what a decoder met: counters that are not zero, and errors by kind.
pub(crate) fn tell_decoded(statistics: &[DecoderStatistics]) {
    for &counter in Counter::ALL {
        let total: u64 = statistics.iter().map(|decoder| decoder.total(counter)).sum();
        if total > 0 {
            eprintln!("  {:<22} {total:>14}  {}", counter.name(), counter.doc());
        }
    }
    let waiting: usize = statistics.iter().map(|decoder| decoder.sets_waiting).sum();
    if waiting > 0 {
        eprintln!("  {:<22} {waiting:>14}  Data Sets whose Template never came.", "sets still waiting");
    }
    for (label, count) in statistics.iter().flat_map(|decoder| &decoder.problems) {
        eprintln!("  {label:<22} {count:>14}  decoding error");
    }
}
