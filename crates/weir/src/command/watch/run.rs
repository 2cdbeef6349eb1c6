//! `weir watch run`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_chain::{ByteSize, StopSignal};
use weir_serve::Status;
use weir_sql::standing::HistoryCounts;
use weir_watch::{LoadedFiles, Message, NotifyCounts, Runner, RunnerOptions, WatchCounts};

use super::{JournalArgs, ReportArgs};
use crate::running::Signals;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often what watches leave out is printed, when it has grown.
const LOSSES_EVERY: Duration = Duration::from_mins(1);

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir watch run -R flows watches
  weir watch run -R flows watches/portscan.toml --json";

/// Run watches on an archive while it grows
///
/// Each report is one line on standard output and is kept in the journal. A watch goes on where it was when it ran last:
/// windows that closed meanwhile are asked first. Files that are added, changed or removed are noticed within 2 s, and so
/// is a pause: windows that end meanwhile are skipped, and the watch goes on with the next one. `weir watch pause` pauses a watch,
/// and so does a line 'paused = true' in its file.
/// A file of a folder that is wrong is reported, and runs once it is right; one that is named on the command line ends the command.
/// Ends in order at SIGINT or SIGTERM.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct RunArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// Watch files, or folders of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print reports as objects of JSON, one a line
    #[arg(long)]
    json: bool,
    /// Sort, group and join in at most this much memory
    #[arg(long, value_name = "SIZE", default_value = "2GiB", help_heading = "Limits")]
    memory_limit: ByteSize,
    #[command(flatten)]
    reports: ReportArgs,
}

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::new()?;
    let options = args.reports.applied(args.journal.options(args.memory_limit))?;
    let attended =
        WatchSession { options, files: args.files.clone(), json: args.json, ends_with_reader: true, status: None };
    attended.run(|| signals.is_stopping())?;
    Ok(ExitCode::SUCCESS)
}

/// Watch files that are run, and how their reports are printed.
pub(crate) struct WatchSession {
    pub(crate) options: RunnerOptions,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) json: bool,
    /// Whether the watches end when nobody reads reports any more.
    pub(crate) ends_with_reader: bool,
    /// The service that shows what the watches do. Their folder may then be empty: the service makes files in it.
    pub(crate) status: Option<Arc<Status>>,
}

impl WatchSession {
    /// Runs the watches until `is_stopping`, or until nobody reads reports any more.
    pub(crate) fn run(&self, is_stopping: impl Fn() -> bool) -> anyhow::Result<()> {
        let stop = StopSignal::new();
        let mut runner = Runner::start(&self.options, &stop)?;
        let outcome = self.attend(&mut runner, is_stopping);
        let (for_all, history) = (runner.notify_counters(), runner.history_counters().counts());
        let counts = runner.end(|message| {
            self.print(message);
        })?;
        for (name, counts) in &counts {
            eprintln!("{}", summary(name, counts));
        }
        if !self.options.actions.is_empty() {
            eprintln!("{}", sent_summary(for_all.counts()));
        }
        if history != HistoryCounts::default() {
            eprintln!("{}", history_summary(history));
        }
        outcome
    }

    fn attend(&self, runner: &mut Runner, is_stopping: impl Fn() -> bool) -> anyhow::Result<()> {
        let mut watches =
            LoadedFiles::new(self.options.journal_folder(), self.status.is_none(), |line| eprintln!("{line}"));
        watches.refresh(runner, &self.files)?;
        let journal = self.options.journal_folder();
        let wrong = match watches.wrong_files() {
            0 => String::new(),
            1 => ", 1 file is wrong".to_owned(),
            wrong => format!(", {wrong} files are wrong"),
        };
        eprintln!("{} watches run{wrong}; reports are kept in {}", runner.counts().len(), journal.display());
        let (mut looked, mut is_read) = (Instant::now(), true);
        let mut losses = Losses::default();
        let history = runner.history_counters();
        while !is_stopping() && !runner.is_ended() {
            if let Some(message) = runner.next_timeout(Duration::from_millis(50))
                && (is_read || matches!(message, Message::Notice(_)))
                && !self.print(message)
            {
                is_read = false;
                if self.ends_with_reader {
                    break;
                }
                eprintln!("reports cannot be printed any more; they are kept in {}", journal.display());
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                watches.refresh(runner, &self.files)?;
                losses.print(runner);
                if let Some(status) = &self.status {
                    status.set_watches(runner.counts());
                    status.set_history(history.counts());
                    if !self.options.actions.is_empty() {
                        status.set_sent(runner.notify_counters().counts());
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints a message; false when nobody reads reports any more.
    fn print(&self, message: Message) -> bool {
        match message {
            Message::Notice(text) => {
                eprintln!("{text}");
                true
            }
            Message::Report(report) => {
                let text = if self.json { report.json().to_string() } else { report.text() };
                let mut out = io::stdout().lock();
                writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
            }
        }
    }
}

/// What a watch did, in a line.
fn summary(name: &str, counts: &WatchCounts) -> String {
    let WatchCounts { panes, windows_closed, windows_answered, reports, reports_suppressed, .. } = counts;
    let text = format!(
        "{name}: flows {}, windows {windows_closed}, answered {windows_answered}, reports {reports}, repeated {reports_suppressed}",
        panes.rows
    );
    let named = ["windows_closed", "windows_answered", "reports", "reports_suppressed"];
    let rest = counts.all().chain(counts.waiting.all()).filter(|(counter, _)| !named.contains(counter));
    rest.filter(|(_, count)| *count > 0).fold(text, |text, (counter, count)| format!("{text}, {counter} {count}"))
}

/// What became of reports for the actions of all watches, in a line.
fn sent_summary(counts: NotifyCounts) -> String {
    let texts: Vec<_> = counts.all().map(|(counter, count)| format!("{counter} {count}")).collect();
    format!("actions of all watches: {}", texts.join(", "))
}

/// What is kept of history for all watches, in a line.
fn history_summary(counts: HistoryCounts) -> String {
    let HistoryCounts { rows_octets, answers_octets, scans_kept, scans_too_large } = counts;
    format!(
        "history of all watches: rows_octets {rows_octets}, answers_octets {answers_octets}, scans_kept {scans_kept}, \
         scans_too_large {scans_too_large}"
    )
}

/// What was left out by watches, as it was printed last.
#[derive(Default)]
struct Losses {
    printed: BTreeMap<String, Vec<u64>>,
    printed_at: Option<Instant>,
}

impl Losses {
    /// Prints the counters of watches that have left out more, once a minute.
    fn print(&mut self, runner: &Runner) {
        if self.printed_at.is_some_and(|at| at.elapsed() < LOSSES_EVERY) {
            return;
        }
        let of_watch = |(name, counts): (String, WatchCounts)| {
            let losses = counts.losses().into_iter().chain(counts.notify.losses()).map(|(_, count)| count);
            (name.clone(), losses.collect(), summary(&name, &counts))
        };
        let for_all = runner.notify_counters().counts();
        let lost_for_all = for_all.losses().into_iter().map(|(_, count)| count).collect();
        // no watch has this name
        let of_all = (String::new(), lost_for_all, sent_summary(for_all));
        for (name, now, text) in runner.counts().into_iter().map(of_watch).chain([of_all]) {
            self.print_new(name, now, &text);
        }
    }

    fn print_new(&mut self, name: String, now: Vec<u64>, text: &str) {
        let is_new = match self.printed.get(&name) {
            Some(before) => now != *before,
            None => now.iter().any(|count| *count > 0),
        };
        self.printed.insert(name, now);
        if is_new {
            self.printed_at = Some(Instant::now());
            eprintln!("{text}");
        }
    }
}
