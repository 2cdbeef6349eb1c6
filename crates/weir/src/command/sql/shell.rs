//! The shell: statements one after the other, typed or from a file.
//!
//! Each statement sees the archive as it is when the statement is asked, so the same question asked again counts what came
//! meanwhile. Commands begin with a backslash, as in psql. Who types gets editing, history, completion and a pager; what
//! comes out of a pipe is answered in order, and ends at the first mistake.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::signal::unix::{SignalKind, signal};
use weir_sql::functions::function_names;
use weir_sql::output::write_answer;
use weir_sql::{Engine, EngineError, Enrichment, Progress, QueryControl};

use super::completion::Completion;
use super::{Args, report_warnings};
use crate::command::answer_format::FormatArg;
use crate::command::report::counted;
use crate::foreground_query::{CLOSING_MAX, terminal};

const PROMPT: &str = "weir> ";
/// Statements that the history keeps.
const HISTORY_ENTRIES_MAX: usize = 10_000;
/// How often `\watch` asks again unless it is told.
const WATCH_SECS_DEFAULT: f64 = 2.0;

const HELP: &str = "\
A statement ends with ; and may have several lines. Ctrl-C cancels it.
  \\d            list the tables
  \\d TABLE      list the columns of a table, with units and meanings
  \\df           list the functions that know what a flow is
  \\format NAME  print answers as table, csv, json or ndjson
  \\timing       print how long answers take, or stop printing it
  \\watch SECS   ask the last statement again every so many seconds, until Ctrl-C
  \\q            leave";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Nothing,
    Help,
    Quit,
    Describe(&'a str),
    Functions,
    Format(&'a str),
    Timing,
    Watch(&'a str),
    Statement(&'a str),
    Unknown(&'a str),
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (word, rest) = text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()));
        match word.to_ascii_lowercase().as_str() {
            "" => Self::Nothing,
            "help" | "\\?" | "\\h" | "\\help" => Self::Help,
            "quit" | "exit" | "\\q" => Self::Quit,
            "\\d" | "\\dt" | "\\d+" => Self::Describe(rest),
            "\\df" => Self::Functions,
            "\\format" => Self::Format(rest),
            "\\timing" => Self::Timing,
            "\\watch" => Self::Watch(rest),
            other if other.starts_with('\\') => Self::Unknown(word),
            _ => Self::Statement(text),
        }
    }
}

/// What the shell remembers between lines.
struct Shell<'a> {
    args: &'a Args,
    enrichment: Arc<Enrichment>,
    format: FormatArg,
    shows_time: bool,
    /// The statement that `\watch` asks again.
    last: Option<String>,
    running: Interrupts,
}

/// Takes statements until there are no more.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_typed = io::stdin().is_terminal();
    let shows_time = is_typed && !args.quiet;
    let enrichment = args.load_enrichment()?;
    let mut shell = Shell {
        args,
        enrichment: Arc::clone(&enrichment),
        format: args.format,
        shows_time,
        last: None,
        running: Interrupts::catch()?,
    };
    // a folder that is no archive is an error at once, and not of the first statement
    drop(args.engine(&enrichment, "")?);
    if is_typed { shell.interactive() } else { shell.piped() }
}

impl Shell<'_> {
    fn interactive(&mut self) -> anyhow::Result<ExitCode> {
        let config = Config::builder().max_history_size(HISTORY_ENTRIES_MAX)?.auto_add_history(true).build();
        let mut editor: Editor<Completion, FileHistory> = Editor::with_config(config)?;
        editor.set_helper(Some(Completion::new(&self.args.tables)));
        let history = history_file();
        if let Some(file) = &history {
            // the first time there is none
            let _ = editor.load_history(file);
        }
        println!("weir {}: \\? for help, \\d for tables, \\q to leave", env!("CARGO_PKG_VERSION"));
        loop {
            let line = match editor.readline(PROMPT) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(error).context("cannot read from the terminal"),
            };
            if let Some(file) = &history {
                // the history is a convenience: what cannot be kept is not
                let _ = editor.append_history(file);
            }
            match self.obey(&line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => eprintln!("error: {error:#}"),
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn piped(&mut self) -> anyhow::Result<ExitCode> {
        let text = io::read_to_string(io::stdin()).context("cannot read statements from standard input")?;
        for statement in statements(&text) {
            if !self.obey(statement)? {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Does what a line asks for; false when that is to leave.
    fn obey(&mut self, line: &str) -> anyhow::Result<bool> {
        match Line::of(line) {
            Line::Nothing => {}
            Line::Help => println!("{HELP}"),
            Line::Quit => return Ok(false),
            Line::Describe("") => self.ask("SHOW TABLES", true)?,
            Line::Describe(table) => self.ask(&format!("DESCRIBE {table}"), true)?,
            Line::Functions => function_names().iter().for_each(|name| println!("{name}")),
            Line::Format(name) => {
                self.format = FormatArg::from_str(name, true)
                    .map_err(|_| anyhow!("'{name}' is no format\nhint: table, csv, json or ndjson"))?;
            }
            Line::Timing => {
                self.shows_time = !self.shows_time;
                println!("timing is {}", if self.shows_time { "on" } else { "off" });
            }
            Line::Watch(secs) => self.watch(secs)?,
            Line::Statement(statement) => {
                self.last = Some(statement.to_owned());
                self.ask(statement, true)?;
            }
            Line::Unknown(word) => bail!("'{word}' is no command\nhint: \\? lists them"),
        }
        Ok(true)
    }

    fn ask(&self, statement: &str, is_paged: bool) -> anyhow::Result<()> {
        let began = Instant::now();
        let control = self.running.next(self.args.foreground.time_limit());
        let engine = self.args.engine(&self.enrichment, statement)?;
        let result = self.print(statement, &engine, &control, is_paged);
        report_warnings(&control.progress);
        match result {
            Ok(rows) => {
                if rows == 0 && io::stderr().is_terminal() {
                    self.args.explain_no_rows();
                }
                if self.shows_time {
                    eprintln!("{} in {:.3} s", counted(rows, "row"), began.elapsed().as_secs_f64());
                }
            }
            Err(error) => {
                engine.close(CLOSING_MAX);
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn print(
        &self,
        statement: &str,
        engine: &Engine,
        control: &QueryControl,
        is_paged: bool,
    ) -> Result<u64, EngineError> {
        let answer = engine.sql_on(statement, control)?;
        let options = self.args.output_options();
        let format = self.format.into();
        let mut pages = Pages::new(is_paged);
        let written = write_answer(answer, format, &options, &mut pages);
        pages.finish();
        written
    }

    /// Asks the last statement again and again.
    fn watch(&self, secs: &str) -> anyhow::Result<()> {
        let statement = self.last.as_deref().context("there is no statement to ask again")?;
        let secs: f64 = if secs.is_empty() { WATCH_SECS_DEFAULT } else { secs.parse().unwrap_or(0.0) };
        if !(0.1..=86_400.0).contains(&secs) {
            bail!("\\watch takes seconds from 0.1 to 86400");
        }
        let turns = self.running.count();
        loop {
            println!("{} (every {secs} s)", jiff::Zoned::now().strftime("%F %T %Z"));
            match self.ask(statement, false) {
                Err(error) if self.running.count() == turns => return Err(error),
                _ => {}
            }
            let next = Instant::now() + Duration::from_secs_f64(secs);
            while Instant::now() < next {
                if self.running.count() != turns {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// The statements of a text: parted by `;` outside of quotes and comments; lines with a backslash first are one each.
fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut begin, mut quote, mut is_comment) = (0, None, false);
    for (at, letter) in text.char_indices() {
        let is_command = || text[begin..at].trim_start().starts_with('\\');
        match (letter, quote) {
            ('\n', None) if is_comment => is_comment = false,
            (_, None) if is_comment => {}
            (letter, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => quote = Some(letter),
            ('-', None) if text[..at].ends_with('-') => is_comment = true,
            (';', None) => {
                found.push(&text[begin..=at]);
                begin = at + 1;
            }
            ('\n', None) if is_command() => {
                found.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[begin..]);
    found.retain(|statement| !statement.trim().is_empty());
    found
}

/// Where lines are kept that were typed.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    let folder = state.join("weir");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

/// Ctrl-C, which cancels the statement that runs.
struct Interrupts {
    running: Arc<Mutex<(Arc<Progress>, u64)>>,
}

impl Interrupts {
    fn catch() -> io::Result<Self> {
        let running = Arc::new(Mutex::new((Arc::<Progress>::default(), 0)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut interrupt = {
            let _entered = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        let shared = Arc::clone(&running);
        let wait = async move {
            while interrupt.recv().await.is_some() {
                let mut running = shared.lock().unwrap_or_else(PoisonError::into_inner);
                running.0.stop();
                running.1 += 1;
            }
        };
        thread::Builder::new().name("weir-signals".to_owned()).spawn(move || runtime.block_on(wait))?;
        Ok(Self { running })
    }

    /// What watches the next statement.
    fn next(&self, time_max: Option<Duration>) -> QueryControl {
        let progress = Arc::<Progress>::default();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).0 = Arc::clone(&progress);
        QueryControl { progress, time_max }
    }

    /// How often Ctrl-C was pressed.
    fn count(&self) -> u64 {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Standard output, or a program that shows text screen by screen once it is more than one.
struct Pages {
    /// What was written so far, while it fits on the screen.
    held: Vec<u8>,
    lines: usize,
    /// Lines of the screen; `None` when nobody looks page by page.
    lines_max: Option<usize>,
    pager: Option<Child>,
}

impl Pages {
    fn new(is_paged: bool) -> Self {
        let is_looked_at = io::stdout().is_terminal() && io::stdin().is_terminal();
        let lines_max = terminal::height().filter(|_| is_paged && is_looked_at).map(|height| height.saturating_sub(2));
        Self { held: Vec::new(), lines: 0, lines_max, pager: None }
    }

    /// Starts the program of `PAGER`, or `less`.
    fn start(&mut self) {
        let named = std::env::var("PAGER").ok();
        let mut words = named.as_deref().unwrap_or("less -RSX").split_whitespace();
        self.lines_max = None;
        if let Some(program) = words.next().filter(|program| *program != "cat") {
            // without one, the answer goes to the terminal as it is
            self.pager = Command::new(program).args(words).stdin(Stdio::piped()).spawn().ok();
        }
    }

    fn write_out(&mut self, text: &[u8]) -> io::Result<()> {
        match self.pager.as_mut().and_then(|pager| pager.stdin.as_mut()) {
            Some(input) => input.write_all(text),
            None => io::stdout().write_all(text),
        }
    }

    /// Writes what is held, and waits until nobody looks any more.
    fn finish(mut self) {
        let held = std::mem::take(&mut self.held);
        // a reader that has gone wants no more
        let _ = self.write_out(&held);
        if let Some(mut pager) = self.pager {
            drop(pager.stdin.take());
            let _ = pager.wait();
        }
    }
}

impl Write for Pages {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(text);
        self.lines += text.split(|octet| *octet == b'\n').count() - 1;
        if self.lines_max.is_some_and(|most| self.lines > most) {
            self.start();
        }
        if self.lines_max.is_none() {
            let held = std::mem::take(&mut self.held);
            self.write_out(&held)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_outside_of_quotes_and_comments() {
        let text = "SELECT ';' -- not; here\n, \"a;b\";\\d flows\nSELECT 2";
        assert_eq!(statements(text), ["SELECT ';' -- not; here\n, \"a;b\";", "\\d flows", "SELECT 2"]);
        assert!(statements(" \n\n").is_empty());
    }

    #[test]
    fn lines_are_commands_or_statements() {
        assert_eq!(Line::of("  \\d flows ;"), Line::Describe("flows"));
        assert_eq!(Line::of("HELP"), Line::Help);
        assert_eq!(Line::of("\\watch 5"), Line::Watch("5"));
        assert_eq!(Line::of("\\nothing"), Line::Unknown("\\nothing"));
        assert_eq!(Line::of("SELECT 1;"), Line::Statement("SELECT 1"));
        assert_eq!(Line::of(" ; "), Line::Nothing);
    }
}
