//! `weir chain`: chains of components, wired by a file.

mod kinds;

use std::fs;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use weir_chain::options::schema::schema;
use weir_chain::{Chain, Progress, Setting, TimeSpan, draw};

use crate::running::Foreground;

const EXAMPLES: &str = "\
Examples:
  See whether a chain file is right, and what it looks like:
    weir chain check talkers.toml
    weir chain draw talkers.toml
  Run it with another window:
    weir chain run talkers.toml --set talkers.window=5m
  All about one kind of component:
    weir chain kinds aggregate
  Complete and check chain files in an editor:
    weir chain schema > weir-chain.schema.json";

/// Run flows through a chain of components that a file describes
///
/// A chain file names components, their options, which component feeds which, and the threads they run in. `weir chain kinds`
/// lists the kinds of components with their options.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read a chain file and print everything that is wrong with it, without opening anything
    #[command(after_long_help = "Examples:\n  weir chain check talkers.toml")]
    Check(FileArgs),
    /// Draw a chain with its threads and queues
    #[command(
        after_long_help = "Examples:\n  weir chain draw talkers.toml\n  weir chain draw talkers.toml --svg talkers.svg"
    )]
    Draw(DrawArgs),
    /// Run a chain until its sources end, or a signal stops it
    #[command(
        after_long_help = "Examples:\n  weir chain run talkers.toml\n  weir chain run talkers.toml --set talkers.window=5m --report run.json"
    )]
    Run(RunArgs),
    /// List the kinds of components, or print everything about one
    #[command(after_long_help = "Examples:\n  weir chain kinds\n  weir chain kinds aggregate")]
    Kinds(kinds::Args),
    /// Print a JSON schema of chain files, for editors
    #[command(after_long_help = "Examples:\n  weir chain schema > weir-chain.schema.json")]
    Schema,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// Chain file (TOML); - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Override the file: COMPONENT.KEY=VALUE, or KEY=VALUE for the whole chain
    #[arg(long = "set", value_name = "SETTING")]
    settings: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct DrawArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Write a drawing (SVG) to this file instead of text to standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Print a table of progress this often; 0s: never [default: 1s on a terminal, else 10s]
    #[arg(long, value_name = "DURATION")]
    report_interval: Option<TimeSpan>,
    /// Write what every component, queue and thread did to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check(args) => {
            let chain = args.read()?;
            println!("{}: nothing wrong", draw::summary(&chain));
        }
        Action::Draw(args) => draw(args)?,
        Action::Run(args) => run_chain(args)?,
        Action::Kinds(args) => kinds::run(args)?,
        // whoever reads it may have had enough before the end
        Action::Schema => drop(writeln!(std::io::stdout(), "{:#}", schema(&super::chain_parts::registry()))),
    }
    Ok(ExitCode::SUCCESS)
}

impl FileArgs {
    fn read(&self) -> anyhow::Result<Chain> {
        let mut settings = Vec::new();
        for setting in &self.settings {
            match Setting::parse(setting) {
                Ok(setting) => settings.push(setting),
                Err(error) => bail!("--set: {}\nhint: {}", error.message, error.hint.unwrap_or_default()),
            }
        }
        read(&self.file, &settings)
    }
}

/// Reads a chain file, or standard input for `-`. Everything that is wrong with it is the error.
pub(super) fn read(file: &Path, settings: &[Setting]) -> anyhow::Result<Chain> {
    let name = file.display();
    let is_stdin = file == Path::new("-");
    let mut text = String::new();
    if is_stdin {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = fs::read_to_string(file).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::NotFound {
                "\nhint: the chains of the examples are in the folder chains of the sources of weir"
            } else {
                ""
            };
            anyhow::anyhow!("cannot read {name}: {error}{hint}")
        })?;
    }
    let folder = if is_stdin { Path::new("") } else { file.parent().unwrap_or(Path::new("")) };
    Chain::parse(&text, folder, &super::chain_parts::registry(), settings).map_err(|errors| {
        let told: Vec<_> = errors.iter().map(|error| format!("{name}: {error}")).collect();
        anyhow::anyhow!("{}", told.join("\nerror: "))
    })
}

fn draw(args: &DrawArgs) -> anyhow::Result<()> {
    let chain = args.file.read()?;
    match &args.svg {
        None => print!("{}", draw::text(&chain)),
        Some(path) => {
            fs::write(path, draw::svg(&chain)).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

fn run_chain(args: &RunArgs) -> anyhow::Result<()> {
    let chain = args.file.read()?;
    let foreground = Foreground::new()?;
    let usual = || TimeSpan::from_secs(if std::io::stderr().is_terminal() { 1 } else { 10 });
    let interval = args.report_interval.unwrap_or_else(usual);
    let mut before: Option<Progress> = None;
    let report = |progress: &Progress| {
        eprintln!("{}", progress.table(before.as_ref()));
        before = Some(progress.clone());
    };
    let every = (!interval.is_zero()).then(|| interval.duration());
    let (progress, ended) = foreground.run_file(chain, every, report)?;
    eprint!("{}", progress.table(None));
    if let Some(path) = &args.report {
        fs::write(path, progress.json() + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ended?)
}
