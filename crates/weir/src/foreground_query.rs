//! A query in the foreground: how long it may run, signals that cancel it, progress, and the exit status.

mod progress_line;
pub(crate) mod terminal;

use std::io::{self, IsTerminal, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use weir_chain::TimeSpan;
use weir_filter::{ParseError, Predicate, Reader};
use weir_query::QueryError;
use weir_sql::{EngineError, Progress, QueryControl};

use progress_line::ProgressLine;

/// Exit status of a question that ran out of time, as that of timeout(1).
const OUT_OF_TIME: u8 = 124;
/// Added to the number of the signal that ended a question.
const SIGNALLED: u8 = 128;
/// How long threads of a query that failed may take to end before their temporary files are removed all the same.
pub(crate) const CLOSING_MAX: Duration = Duration::from_millis(300);

/// How long a query may run, and whether its progress is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct ForegroundArgs {
    /// Stop with exit status 124 after this long, such as 30s, 5m or 1h
    #[arg(long, value_name = "DURATION", help_heading = "Limits")]
    time_limit: Option<TimeSpan>,
    /// Show the progress of a long query on standard error
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto, help_heading = "Output")]
    progress: When,
}

impl ForegroundArgs {
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.time_limit.map(TimeSpan::duration)
    }
}

/// When to show what only people look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On terminals only
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

impl When {
    /// Whether to show it, where `is_terminal` says whether people look.
    pub(crate) fn holds(self, is_terminal: bool) -> bool {
        match self {
            Self::Auto => is_terminal,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Reads a filter; an error shows the place of the mistake.
pub(crate) fn parse_filter(text: &str) -> anyhow::Result<Predicate> {
    // carets are below the filter, which must be on a line of its own
    let wrong = |error: ParseError| anyhow::anyhow!("wrong filter\n{}", error.render(text));
    Reader::for_command_line().parse(text).map_err(wrong)
}

/// A query in the foreground, from the moment that signals are caught.
pub(crate) struct ForegroundQuery {
    control: QueryControl,
    /// The signal that came, 0 for none.
    signalled: Arc<AtomicU8>,
    progress_line: ProgressLine,
}

impl ForegroundQuery {
    pub(crate) fn new(args: &ForegroundArgs) -> io::Result<Self> {
        let control = QueryControl { progress: Arc::default(), time_max: args.time_limit.map(TimeSpan::duration) };
        let signalled = Arc::new(AtomicU8::new(0));
        catch(Arc::clone(&control.progress), Arc::clone(&signalled))?;
        if let Some(limit) = args.time_limit {
            stop_after(limit.duration(), Arc::clone(&control.progress))?;
        }
        let is_shown = args.progress.holds(io::stderr().is_terminal());
        let progress_line =
            if is_shown { ProgressLine::start(Arc::clone(&control.progress))? } else { ProgressLine::none() };
        Ok(Self { control, signalled, progress_line })
    }

    /// What watches and limits the query.
    pub(crate) fn control(&self) -> &QueryControl {
        &self.control
    }

    /// Standard output, which takes the progress away before anything is written where both would mix.
    pub(crate) fn output(&self) -> Output<'_> {
        Output { query: self, is_mixed: io::stdout().is_terminal(), to: io::stdout() }
    }

    /// Takes the progress away for good.
    pub(crate) fn clear_progress(&self) {
        self.progress_line.stop();
    }

    /// The exit status of a query that ended with this result.
    pub(crate) fn exit_code(self, result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
        self.progress_line.stop();
        let Err(error) = result else { return Ok(ExitCode::SUCCESS) };
        let signal = self.signalled.load(Ordering::Acquire);
        let status = match (error.downcast_ref(), self.control.time_max) {
            (Some(EngineError::TimeLimit { .. }), _) => OUT_OF_TIME,
            // without the engine, the time limit cancels as a signal does
            (Some(EngineError::Query(QueryError::Cancelled)), Some(limit)) if signal == 0 => {
                eprintln!("error: the query took longer than its time limit of {limit:?}");
                return Ok(ExitCode::from(OUT_OF_TIME));
            }
            (Some(EngineError::Cancelled { .. } | EngineError::Query(QueryError::Cancelled)), _) => SIGNALLED + signal,
            _ => return Err(error),
        };
        eprintln!("error: {error:#}");
        Ok(ExitCode::from(status))
    }
}

/// Stops a query that takes too long. The engine has a clock of its own, which reports how far it came and goes first.
fn stop_after(limit: Duration, progress: Arc<Progress>) -> io::Result<()> {
    const ENGINE_FIRST: Duration = Duration::from_millis(200);
    let wait = move || {
        thread::sleep(limit.saturating_add(ENGINE_FIRST));
        progress.stop();
    };
    thread::Builder::new().name("weir-time-limit".to_owned()).spawn(wait).map(drop)
}

/// Catches SIGINT and SIGTERM. The first cancels the query, the second ends the process at once.
fn catch(progress: Arc<Progress>, signalled: Arc<AtomicU8>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = async move {
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
                _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
            };
            if progress.is_stopped() {
                process::exit(i32::from(SIGNALLED) + number);
            }
            signalled.store(number as u8, Ordering::Release);
            progress.stop();
        }
    };
    thread::Builder::new().name("weir-signals".to_owned()).spawn(move || runtime.block_on(wait)).map(drop)
}

/// Standard output while progress is on standard error.
pub(crate) struct Output<'a> {
    query: &'a ForegroundQuery,
    /// Whether both are the same terminal, for all we know.
    is_mixed: bool,
    to: io::Stdout,
}

impl Write for Output<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.is_mixed {
            self.query.progress_line.stop();
        }
        self.to.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
