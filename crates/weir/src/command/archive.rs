//! `weir archive`: looking after an archive.

mod ls;
mod status;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::time_args::moment;
use anyhow::{Context, bail};
use clap::Subcommand;
use weir_archive::{
    ArchiveError, CompactionOptions, ExpiryReport, ExportSelection, Merge, Segment, SegmentSummary, check, compact,
    expire, export, import, rebuild_manifest,
};
use weir_blocks::sinks::archive::{ArchiveSinkOptions, RetentionOptions};
use weir_chain::{ByteSize, Options};
use weir_flow::Table;

use self::ls::{LsArgs, amount, places};
use super::archive_args::ArchiveArg;
use super::report::counted;
use crate::flags::Flags;

/// List, check, merge, expire, export and import an archive, and say how it is
///
/// All of these work beside a collector that writes to the archive and beside readers, except import, which needs the
/// archive for itself.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir archive status --archive /var/lib/weir\n  weir archive check --archive /var/lib/weir\n  weir archive expire --archive /var/lib/weir --max-age 90d --dry-run"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    Ls(LsArgs),
    Status(status::StatusArgs),
    Check(CheckArgs),
    Compact(CompactArgs),
    Expire(ExpireArgs),
    Export(ExportArgs),
    Import(ImportArgs),
}

/// Read every file and compare it with its name and its checksums
///
/// The exit status is 1 when anything is wrong.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir archive check --archive /var/lib/weir\n  weir archive check --archive /var/lib/weir --repair"
)]
struct CheckArgs {
    #[command(flatten)]
    place: ArchiveArg,
    /// Set damaged files aside, under names that end in .damaged; nothing is deleted
    #[arg(long)]
    repair: bool,
    /// Make the manifest anew of the files that are there, before the check; end the collector first
    ///
    /// The manifest names the files that count. When it is damaged or lost, the names and the contents of the files say
    /// the same, but for files that had ceased to count and were still there: an expired segment may count again.
    #[arg(long)]
    rebuild_manifest: bool,
}

/// Merge small segments of a day into larger ones
///
/// A collector does so by itself, in the background and in steps; this does all of it now.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir archive compact --archive /var/lib/weir")]
struct CompactArgs {
    #[command(flatten)]
    place: ArchiveArg,
    /// Merge into segments of at most this many rows
    #[arg(long, value_name = "ROWS", default_value_t = CompactionOptions::default().segment_rows_max)]
    segment_rows: u64,
    /// Merge into segments of at most this size
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    segment_size: ByteSize,
}

/// Remove the oldest segments, by age and by size
///
/// When a limit is hit, data goes down to the low-water mark, a percentage of that limit. A segment goes as a whole,
/// when its newest flow is too old. The newest segments always stay. What flows amounted to by host, port, minute and so
/// on stays as a summary, for weir query --approximate, until limits of its own are hit.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir archive expire --archive /var/lib/weir --max-age 90d --dry-run\n  weir archive expire --archive /var/lib/weir --max-size 500GiB"
)]
struct ExpireArgs {
    #[command(flatten)]
    place: ArchiveArg,
    #[command(flatten)]
    retention: Flags<RetentionOptions>,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// Copy a part of the archive to a folder of Parquet files that any tool reads and import takes
///
/// Segments are copied whole: every one that may have a flow in the range of times. What is not sealed yet is left out.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir archive export --archive /var/lib/weir --from 2026-11-01 --until 2026-11-02 november-1st"
)]
struct ExportArgs {
    #[command(flatten)]
    place: ArchiveArg,
    /// New or empty folder for the files
    #[arg(value_name = "FOLDER")]
    to: PathBuf,
    /// Copy flows from this time on, such as 2026-11-21T08:30
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    from: Option<i64>,
    /// Copy flows before this time
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    until: Option<i64>,
    /// Copy only this table; may be repeated
    #[arg(long, value_name = "NAME", value_parser = table)]
    table: Vec<Table>,
}

/// Add an export to an archive: all of it or nothing
///
/// Files that the archive has imported before are passed over, so the same export can be imported again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir archive import --archive /var/lib/weir november-1st")]
struct ImportArgs {
    #[command(flatten)]
    place: ArchiveArg,
    /// Folder that `weir archive export` wrote
    #[arg(value_name = "FOLDER")]
    from: PathBuf,
}

fn table(name: &str) -> Result<Table, String> {
    let known = || Table::ALL.iter().map(|table| table.name()).collect::<Vec<_>>().join(", ");
    let found = Table::ALL.iter().copied().find(|table| table.name() == name);
    found.ok_or_else(|| format!("there is no table '{name}', but {}", known()))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.work {
        Work::Ls(args) => ls::run(args),
        Work::Status(args) => status::run(args),
        Work::Check(args) => run_check(args),
        Work::Compact(args) => run_compact(args),
        Work::Expire(args) => run_expire(args),
        Work::Export(args) => run_export(args),
        Work::Import(args) => run_import(args),
    }
}

/// An error of an import, with what can be done about it that the archive itself cannot know.
fn hinted(error: ArchiveError) -> anyhow::Error {
    match error {
        ArchiveError::Locked { .. } => {
            anyhow::anyhow!("{error}\nhint: end the collector first")
        }
        _ => error.into(),
    }
}

fn run_check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if args.rebuild_manifest {
        let left_out = rebuild_manifest(&args.place.archive).map_err(hinted)?;
        eprintln!("the manifest was made anew");
        for segment in left_out {
            eprintln!(
                "warning: {} was left out: another segment with more rows has some of the same",
                segment.path().display()
            );
        }
    }
    let checked = check(&args.place.archive, args.repair, |_| {})?;
    let shown = |path: &Path| path.strip_prefix(&args.place.archive).unwrap_or(path).display().to_string();
    for finding in &checked.findings {
        println!("{}: {}", shown(&finding.path), finding.fault);
        if let Some(aside) = &finding.set_aside {
            println!("  set aside as {}", shown(aside));
        }
    }
    for path in &checked.set_aside {
        eprintln!("{}: set aside before", shown(path));
    }
    for path in &checked.leftovers {
        eprintln!("{}: left by a process that was killed; the next writer removes it", shown(path));
    }
    eprintln!(
        "{} with {} and {}, {} and {} read; {} wrong",
        counted(checked.segments, "segment"),
        counted(checked.rows, "row"),
        amount(checked.octets),
        counted(checked.tails, "tail"),
        counted(checked.summaries, "summary"),
        checked.findings.len()
    );
    if checked.findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if !args.repair {
        eprintln!("hint: --repair sets damaged files aside, so that the rest can be read");
    }
    Ok(ExitCode::FAILURE)
}

fn run_compact(args: &CompactArgs) -> anyhow::Result<ExitCode> {
    let options = CompactionOptions {
        segment_rows_max: args.segment_rows.max(1),
        segment_octets_max: args.segment_size.bytes(),
        ..CompactionOptions::default()
    };
    let tell = |merge: Merge<'_>| match (merge.inputs.first(), &merge.result) {
        (Some(first), Ok(merged)) => eprintln!(
            "{} of {}: {} became one of {} and {}",
            first.table.name(),
            first.day_text(),
            counted(merge.inputs.len(), "segment"),
            counted(merged.rows, "row"),
            amount(merged.octets)
        ),
        (Some(first), Err(error)) => eprintln!(
            "warning: {} of {}, {}, cannot be merged: {:#}",
            counted(merge.inputs.len(), "segment"),
            first.table.name(),
            first.day_text(),
            anyhow::anyhow!("{error}")
        ),
        (None, _) => {}
    };
    let done = compact(&args.place.archive, &options, tell)?;
    eprintln!(
        "{} merged into {}, {} became {}",
        counted(done.segments_merged, "segment"),
        done.segments_written,
        amount(done.octets_before),
        amount(done.octets_after)
    );
    if done.waiting_for_readers {
        eprintln!("readers hold some of the old files; they are removed by the next writer, or the next compact");
    }
    if done.too_large > 0 {
        eprintln!(
            "some segments have too much in one column to be merged with all others of their day; they stay smaller"
        );
    }
    if done.postponed > 0 {
        bail!("there is no room for a merged segment beside those that it replaces");
    }
    if done.failures > 0 {
        eprintln!("hint: weir archive check tells which files are damaged");
    }
    Ok(if done.failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_expire(args: &ExpireArgs) -> anyhow::Result<ExitCode> {
    let retention = args.retention.0.clone();
    if !Options::changed(&retention).iter().any(|(key, _)| key.contains("max_")) {
        bail!("no limit is given\nhint: --max-age 30d, --max-size 500GB or --tables-max-age 2y");
    }
    let options = ArchiveSinkOptions { retention, ..ArchiveSinkOptions::default() }.archive_options().expiry;
    let expired = expire(&args.place.archive, &options, args.dry_run)?;
    let segments = expired.segments.iter().map(Segment::path);
    for path in segments.chain(expired.summaries.iter().map(SegmentSummary::path)) {
        println!("{}", path.strip_prefix(&args.place.archive).unwrap_or(&path).display());
    }
    eprintln!(
        "{} {} with {}; the archive had {} and {} {}",
        counted(expired.segments.len(), "segment"),
        if args.dry_run { "would go" } else { "expired" },
        counted(expired.segments.iter().map(|segment| segment.rows).sum::<u64>(), "row"),
        amount(expired.octets_before),
        if args.dry_run { "would have" } else { "has" },
        amount(expired.octets_after)
    );
    tell_summaries(&expired, args.dry_run);
    if expired.waiting_for_readers {
        eprintln!("readers hold some files; they are removed by the next writer, or the next expire");
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of summaries, on standard error.
fn tell_summaries(expired: &ExpiryReport, dry_run: bool) {
    if !expired.summaries.is_empty() {
        let summaries = counted(expired.summaries.len(), "summary");
        eprintln!("{summaries} {}", if dry_run { "would go" } else { "expired" });
    }
    if expired.summaries_written > 0 {
        let summaries = counted(expired.summaries_written, "summary");
        eprintln!("{summaries} with {} written", amount(expired.summaries_octets));
    }
    if expired.segments_without_sums > 0 {
        eprintln!(
            "{} could not be summed up: flows without packets, bytes or times, or damage",
            counted(expired.segments_without_sums, "segment")
        );
    }
    if expired.summaries_lost > 0 {
        let segments = counted(expired.summaries_lost, "segment");
        eprintln!("warning: {segments} went without a summary: the disk is full");
    }
}

fn run_export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    if args.from.zip(args.until).is_some_and(|(from, until)| until <= from) {
        bail!("the time --until is not after --from");
    }
    let part = ExportSelection { from_ms: args.from, until_ms: args.until, tables: args.table.clone() };
    let done = export(&args.place.archive, &args.to, &part).map_err(hinted)?;
    let (segments, rows) = (counted(done.segments, "segment"), counted(done.rows, "row"));
    eprintln!("{segments} with {rows} and {} exported", amount(done.octets));
    if done.flows_unsealed > 0 {
        eprintln!(
            "{} not sealed yet, left out\nhint: a collector seals every few minutes, and when it ends",
            counted(done.flows_unsealed, "flow")
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn run_import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let done = import(&args.place.archive, &args.from).map_err(hinted);
    let done = done.with_context(|| format!("nothing was imported from {}", args.from.display()))?;
    eprintln!(
        "{} with {} and {} imported, {} known from before; the archive is at position {}",
        counted(done.segments, "segment"),
        counted(done.rows, "row"),
        amount(done.octets),
        done.segments_known,
        places(done.position.get())
    );
    Ok(ExitCode::SUCCESS)
}
