//! A question in the foreground: how long it may run, signals that cancel it, progress, and the exit status.

mod drawing;
pub(crate) mod terminal;

use std::io::{self, IsTerminal, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use jiff::tz::TimeZone;
use tokio::signal::unix::{SignalKind, signal};
use weir_filter::{Predicate, Reader, resolve_by_system};
use weir_query::QueryError;
use weir_sql::{Engine, EngineError, Progress, Terms};

use drawing::Drawing;

/// Exit status of a question that ran out of time, as that of timeout(1).
const OUT_OF_TIME: u8 = 124;
/// Added to the number of the signal that ended a question.
const SIGNALLED: u8 = 128;
/// How long a cancelled question may take to remove what it wrote to disk.
const CLOSING_MAX: Duration = Duration::from_secs(10);

/// How long a question may run and what is told of it meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct AskingArgs {
    /// Longest time the question may take, such as 30s, 5m or 1h; beyond it the exit status is 124
    #[arg(long, value_name = "TIME", value_parser = span)]
    time_limit: Option<Duration>,
    /// Show on standard error how far a long question has come; auto is on terminals only
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    progress: When,
}

/// When to do what only people look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal
    Auto,
    /// Also into files and pipes
    Always,
    /// Not at all
    Never,
}

impl When {
    /// Whether to, where `is_terminal` tells whether people look.
    pub(crate) fn holds(self, is_terminal: bool) -> bool {
        match self {
            Self::Auto => is_terminal,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Reads a span of time: `30s`, `5m`, `1h 30m`; a bare number is seconds.
fn span(text: &str) -> Result<Duration, String> {
    let refused = || format!("'{text}' is no span of time such as 30s, 5m or 1h");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| refused());
    }
    let span: jiff::SignedDuration = text.parse().map_err(|_| refused())?;
    Duration::try_from(span).map_err(|_| refused())
}

/// Reads filters of a command line: they may name files and hosts, and their times are local.
pub(crate) fn filter_reader() -> Reader {
    Reader::new().in_zone(TimeZone::system()).with_files(".").with_host_names(resolve_by_system)
}

/// Reads a filter; a mistake is shown in its place.
pub(crate) fn parse_filter(reader: &Reader, text: &str) -> anyhow::Result<Predicate> {
    reader.parse(text).map_err(|error| anyhow::anyhow!("{}", error.render(text)))
}

/// A question in the foreground, from the moment that signals are caught.
pub(crate) struct Asking {
    terms: Terms,
    /// The signal that came, 0 for none.
    signalled: Arc<AtomicU8>,
    drawing: Drawing,
}

impl Asking {
    pub(crate) fn new(args: &AskingArgs) -> io::Result<Self> {
        let terms = Terms { progress: Arc::default(), time_max: args.time_limit };
        let signalled = Arc::new(AtomicU8::new(0));
        catch(Arc::clone(&terms.progress), Arc::clone(&signalled))?;
        if let Some(limit) = args.time_limit {
            stop_after(limit, Arc::clone(&terms.progress))?;
        }
        let is_shown = args.progress.holds(io::stderr().is_terminal());
        let drawing = if is_shown { Drawing::start(Arc::clone(&terms.progress))? } else { Drawing::none() };
        Ok(Self { terms, signalled, drawing })
    }

    /// The terms on which the questions are asked.
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Standard output, which takes the progress away before anything is written where both would mix.
    pub(crate) fn output(&self) -> Output<'_> {
        Output { asking: self, is_mixed: io::stdout().is_terminal(), to: io::stdout() }
    }

    /// Takes the progress away for good.
    pub(crate) fn told(&self) {
        self.drawing.stop();
    }

    /// Tells why a question that needed no engine ended early.
    fn cancelled(&self) -> ExitCode {
        let signal = self.signalled.load(Ordering::Acquire);
        match (signal, self.terms.time_max) {
            (0, Some(limit)) => {
                eprintln!("error: the question took longer than its time limit of {limit:?}");
                ExitCode::from(OUT_OF_TIME)
            }
            (signal, _) => {
                eprintln!("error: the question was cancelled");
                ExitCode::from(SIGNALLED + signal)
            }
        }
    }

    /// Ends the engine in order, and tells the exit status of what was asked.
    pub(crate) fn close(self, engine: Option<Engine>, result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
        self.drawing.stop();
        let Err(error) = result else { return Ok(ExitCode::SUCCESS) };
        if let Some(engine) = engine {
            engine.close(CLOSING_MAX);
        }
        if let Some(QueryError::Cancelled) = error.downcast_ref() {
            return Ok(self.cancelled());
        }
        let status = match error.downcast_ref() {
            Some(EngineError::TimeLimit { .. }) => OUT_OF_TIME,
            Some(EngineError::Cancelled { .. }) => SIGNALLED + self.signalled.load(Ordering::Acquire),
            _ => return Err(error),
        };
        eprintln!("error: {error:#}");
        Ok(ExitCode::from(status))
    }
}

/// Stops a question that takes too long. The engine has a clock of its own, which tells how far it came and goes first.
fn stop_after(limit: Duration, progress: Arc<Progress>) -> io::Result<()> {
    const ENGINE_FIRST: Duration = Duration::from_millis(200);
    let wait = move || {
        thread::sleep(limit.saturating_add(ENGINE_FIRST));
        progress.stop();
    };
    thread::Builder::new().name("weir-time-limit".to_owned()).spawn(wait).map(drop)
}

/// Catches SIGINT and SIGTERM. The first cancels the question, the second ends the process at once.
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

/// Standard output beside progress on standard error.
pub(crate) struct Output<'a> {
    asking: &'a Asking,
    /// Whether both are the same terminal, for all we know.
    is_mixed: bool,
    to: io::Stdout,
}

impl Write for Output<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.is_mixed {
            self.asking.drawing.stop();
        }
        self.to.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        let seconds = |text| span(text).map(|span| span.as_secs_f64());
        assert_eq!(seconds("30s"), Ok(30.0));
        assert_eq!(seconds("1.5"), Ok(1.5));
        assert_eq!(seconds("5m"), Ok(300.0));
        assert_eq!(seconds("1h 30m"), Ok(5400.0));
        assert!(span("soon").is_err() && span("-3s").is_err() && span("-1").is_err());
    }
}
