//! `weir watch`: standing questions over now and then.

mod backtest;
mod list;
mod run;
mod timeline;

pub(crate) use run::WatchSession;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Subcommand;
use weir_chain::{ByteSize, TimeSpan};
use weir_sql::standing::StandingOptions;
use weir_watch::journal::has_run;
use weir_watch::report::time_text;
use weir_watch::{Action, Retention, RunnerOptions, WatchFile, acknowledge, check_key, check_name, plan, watch_paths};

use super::archive_args::{ArchiveArg, SamplingArgs};

const EXAMPLES: &str = "\
Examples:
  See whether watches are right, and what one would have reported of the flows that are there:
    weir watch check watches
    weir watch test -R flows watches/portscan.toml
  Run them, and see what they do:
    weir watch run -R flows watches
    weir watch list -R flows";

/// Run standing questions on live flows and their history, and test them on the past
///
/// A watch is a file with a statement of SQL that names a window of the live stream. It is asked each time a window
/// closes; each row of the answer is evidence of a report.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    Run(run::RunArgs),
    Test(backtest::TestArgs),
    Check(CheckArgs),
    Explain(ExplainArgs),
    Ack(AckArgs),
    List(list::ListArgs),
    Pause(list::PauseArgs),
    Resume(list::ResumeArgs),
}

/// Check watch files: the options, the statement and its windows
///
/// The exit status is 1 when a file is wrong, or when two of them have the same name, of which only one can run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir watch check watches\n  weir watch check watches/portscan.toml")]
struct CheckArgs {
    /// Watch files, or folders of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Print the windows, columns and plan of a watch
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir watch explain watches/portscan.toml")]
struct ExplainArgs {
    /// The watch file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Acknowledge reports of a watch: none is made of the key until the time is over
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir watch ack -R flows portscan --key src_addr=198.51.100.7\n  weir watch ack -R flows portscan --for 7d"
)]
struct AckArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// Name of the watch
    #[arg(value_name = "WATCH")]
    watch: String,
    /// Acknowledge this key only, as its reports have it; all of them by default
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// For this long
    #[arg(long = "for", value_name = "DURATION", default_value = "1d")]
    length: TimeSpan,
}

/// How long reports are kept, where all of them go, and what is known better about sampling.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReportArgs {
    /// Send the reports of all watches where the tables [[actions]] of this file say
    #[arg(long = "watch-actions", value_name = "FILE", help_heading = "Watching")]
    actions: Option<PathBuf>,
    /// Remove the oldest reports when their file is larger than this
    #[arg(long, value_name = "SIZE", default_value = "256MiB", help_heading = "Watching")]
    reports_max_size: ByteSize,
    /// Remove reports that are older than this, up to a day later
    #[arg(long, value_name = "DURATION", default_value = "365d", help_heading = "Watching")]
    reports_max_age: TimeSpan,
    /// Keep the flows of windows of all watches in at most this much memory
    ///
    /// When it is full, the watch that keeps most of it leaves out flows, which are counted in rows_over_memory. It is beside the
    /// memory that statements sort, group and join in.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", help_heading = "Watching")]
    watch_memory: ByteSize,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl ReportArgs {
    /// The options with these arguments.
    pub(crate) fn applied(&self, options: RunnerOptions) -> anyhow::Result<RunnerOptions> {
        let age_max = std::time::Duration::from_millis(self.reports_max_age.millis().unsigned_abs());
        let retention = Retention { octets_max: self.reports_max_size.bytes(), age_max };
        let actions = self.actions.as_deref().map(Action::read_file).transpose()?.unwrap_or_default();
        let corrections = self.sampling.corrections()?;
        let window_octets_max = self.watch_memory.bytes();
        let standing = StandingOptions { corrections, window_octets_max, ..options.standing };
        Ok(RunnerOptions { retention, actions, standing, ..options })
    }
}

/// The archive, and what is kept of watches.
#[derive(Debug, clap::Args)]
struct JournalArgs {
    #[command(flatten)]
    folder: ArchiveArg,
    /// Keep reports and the state of watches in this folder [default: watch in the archive]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl JournalArgs {
    fn options(&self, memory_limit: ByteSize) -> RunnerOptions {
        let memory_octets_max = usize::try_from(memory_limit.bytes()).unwrap_or(usize::MAX);
        let standing = StandingOptions { memory_octets_max, ..StandingOptions::default() };
        RunnerOptions { journal: self.journal.clone(), standing, ..RunnerOptions::new(&self.folder.archive) }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.work {
        Work::Run(args) => run::run(args),
        Work::Test(args) => backtest::run(args),
        Work::Check(args) => check(args),
        Work::Explain(args) => {
            // whoever reads it may have gone
            drop(write!(io::stdout(), "{}", plan(WatchFile::read(&args.file)?)?));
            Ok(ExitCode::SUCCESS)
        }
        Work::Ack(args) => ack(args),
        Work::List(args) => list::list(args),
        Work::Pause(args) => list::pause(args),
        Work::Resume(args) => list::resume(args),
    }
}

fn ack(args: &AckArgs) -> anyhow::Result<ExitCode> {
    let (journal, watch) = (args.journal.options(ByteSize::default()).journal_folder(), &args.watch);
    if !has_run(&journal, watch) {
        bail!("no watch '{watch}' has run on this archive");
    }
    let key = args.key.as_ref().map(|key| check_key(&journal, watch, key)).transpose();
    let key = key.map_err(|error| match error.hint() {
        Some(hint) => anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    })?;
    let until_ms = jiff::Timestamp::now().as_millisecond().saturating_add(args.length.millis());
    acknowledge(&journal, watch, key.as_deref(), until_ms)?;
    let what = key.map_or_else(|| format!("all reports of '{watch}'"), |key| format!("{key} of '{watch}'"));
    eprintln!("acknowledged until {}: {what}", time_text(until_ms));
    Ok(ExitCode::SUCCESS)
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut has_mistake = false;
    let found = watch_paths(&args.files)?;
    for path in found.keys() {
        let planned = check_name(&found, path).and_then(|()| {
            let windows = plan(WatchFile::read(path)?)?;
            Ok(windows.lines().next().unwrap_or_default().to_owned())
        });
        match planned {
            Ok(window) => drop(writeln!(io::stdout(), "{}: {window}", path.display())),
            Err(error) => {
                has_mistake = true;
                eprintln!("error: {}", error.of_file(path));
            }
        }
    }
    Ok(if has_mistake { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Plans the watches of the files that are named themselves, so that a mistake is met before anything runs. Those of folders are
/// reported once the others run.
pub(crate) fn check_named(files: &[PathBuf]) -> anyhow::Result<()> {
    let found = watch_paths(files)?;
    for path in found.keys().filter(|path| files.contains(path)) {
        let planned = check_name(&found, path).and_then(|()| WatchFile::read(path)).and_then(plan);
        if let Err(error) = planned {
            bail!("{}", error.of_file(path));
        }
    }
    Ok(())
}
