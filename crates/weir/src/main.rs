//! The `weir` command: arguments in, a running process out.
//!
//! One file per subcommand under [`command`], each with the same two things: `Args`, which clap fills, and `run`.
//! What a command does is done by the crates; here are only arguments, wiring, signals and what is said to people.
//! Data goes to standard output, everything else to standard error.

// first: its macros hold for the modules after it
#[macro_use]
mod stderr;

mod command;
mod flags;
mod foreground_query;
mod open_files;
mod running;
mod service_manager;
mod time_args;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// DataFusion allocates from many threads at once, which this allocator was made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  Receive what routers export, and keep it:
    weir collect --listen 0.0.0.0:2055 --archive flows
  Meter the traffic of an interface:
    weir meter eth0 --archive flows
  Import a capture of NetFlow:
    weir import --archive flows router.pcap --port 2055
  Who sends most, and whether anything was lost:
    weir query -R flows --statistic srcip/bytes --limit 10 'proto tcp'
    weir books --archive flows";

/// Meter, collect, keep and question network flows: NetFlow, IPFIX and sFlow.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, after_long_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Meter(Box<command::meter::Args>),
    Collect(Box<command::collect::Args>),
    Import(command::import::Args),
    Chain(command::chain::Args),
    Generate(command::generate::Args),
    Query(command::query::Args),
    Nfdump(Box<command::nfdump::Args>),
    Sql(command::sql::Args),
    Series(command::series::Args),
    Watch(command::watch::Args),
    Serve(Box<command::serve::Args>),
    Config(command::config::Args),
    User(command::user::Args),
    #[cfg(feature = "cassandra")]
    Forward(command::forward::Args),
    Books(command::books::Args),
    Archive(command::archive::Args),
    Doctor(command::doctor::Args),
    Completions(command::shell::CompletionsArgs),
    Man(command::shell::ManArgs),
}

/// Exits quietly when standard output is closed or its disk is full. `println!` panics then, which would look like a defect of
/// weir.
fn end_when_printing_fails() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        let Some(error) = message.strip_prefix("failed printing to stdout: ") else { return default(panic) };
        if error.contains("Broken pipe") {
            // as one that a signal ended for it: what was found may be what nobody reads
            std::process::exit(141);
        }
        eprintln!("error: cannot write to standard output: {error}");
        std::process::exit(1);
    }));
}

/// What the program is asked to do. An error of a value is found after all commands are parsed, and has the usage of its own one.
fn parsed(arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    Arguments::from_arg_matches(&matches).map_err(|error| {
        // names of commands with those that they belong to
        command.build();
        let (mut asked, mut given) = (&command, &matches);
        while let Some((name, inner)) = given.subcommand() {
            let Some(next) = asked.find_subcommand(name) else { break };
            (asked, given) = (next, inner);
        }
        error.format(&mut asked.clone())
    })
}

fn main() -> ExitCode {
    end_when_printing_fails();
    log_to_standard_error();
    open_files::raise_limit();
    let arguments = parsed(command::nfdump::arguments()).unwrap_or_else(|error| command::nfdump::exit(&error));
    let result = match arguments.command {
        Command::Meter(args) => command::meter::run(&args),
        Command::Collect(args) => command::collect::run(&args),
        Command::Import(args) => command::import::run(&args),
        Command::Chain(args) => command::chain::run(&args),
        Command::Generate(args) => command::generate::run(&args),
        Command::Query(args) => command::query::run(&args),
        Command::Nfdump(args) => Ok(command::nfdump::run(&args)),
        Command::Sql(args) => command::sql::run(&args),
        Command::Series(args) => command::series::run(&args),
        Command::Watch(args) => command::watch::run(&args),
        Command::Serve(args) => command::serve::run(&args),
        Command::Config(args) => command::config::run(&args),
        Command::User(args) => command::user::run(&args),
        #[cfg(feature = "cassandra")]
        Command::Forward(args) => command::forward::run(&args),
        Command::Books(args) => command::books::run(&args),
        Command::Archive(args) => command::archive::run(&args),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Completions(args) => command::shell::completions(&args, Arguments::command()),
        Command::Man(args) => command::shell::man(&args, Arguments::command()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        if let Some(hint) = hint(&error) {
            eprintln!("hint: {hint}");
        }
        ExitCode::FAILURE
    })
}

/// The remedy of an error, if one of its causes has one.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        let archive = cause.downcast_ref::<weir_archive::ArchiveError>().and_then(weir_archive::ArchiveError::hint);
        let query = || cause.downcast_ref::<weir_query::QueryError>()?.hint();
        let watch = || cause.downcast_ref::<weir_watch::WatchError>()?.hint();
        archive.or_else(query).or_else(|| cause.downcast_ref::<weir_sql::EngineError>()?.hint()).or_else(watch)
    })
}

/// Writes the log of running commands to standard error; `WEIR_LOG` sets its level, `warn` or `debug` for instance. The driver of
/// Cassandra logs each connection that fails, and the client of SNMP each datagram that is no answer; the component that uses the
/// driver logs the outcome once, so these are off by default.
fn log_to_standard_error() {
    let filter =
        EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| EnvFilter::new("info,scylla=off,async_snmp=off"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // it would report with a macro that panics
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(colours)
        .without_time()
        .init();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::{CommandFactory, Parser};

    use super::Arguments;

    /// Every command that does something, with its full name.
    fn leaves(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
        let mut subcommands = command.get_subcommands().filter(|command| command.get_name() != "help").peekable();
        if subcommands.peek().is_none() {
            return vec![(name.to_owned(), command.clone())];
        }
        subcommands.flat_map(|command| leaves(command, &format!("{name} {}", command.get_name()))).collect()
    }

    /// Every command, groups of commands too, with its full name.
    fn all(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
        let subcommands = command.get_subcommands().filter(|command| command.get_name() != "help");
        let below = subcommands.flat_map(|command| all(command, &format!("{name} {}", command.get_name())));
        std::iter::once((name.to_owned(), command.clone())).chain(below).collect()
    }

    #[test]
    fn every_command_has_examples() {
        for (name, command) in all(&Arguments::command(), "weir") {
            let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            // that of nfdump has the help of nfdump
            assert!(after.contains("Examples:") || name == "weir nfdump", "{name} has no examples");
            assert!(after.contains(&name) || name == "weir nfdump", "the examples of {name} do not call it");
        }
    }

    /// The words of a line for a shell, as far as examples need one: quotes, redirections and comments.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for letter in line.chars().chain([' ']) {
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), letter) if letter == open => quote = None,
                (None, ' ') => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
                (_, letter) => word.push(letter),
            }
        }
        let end = words.iter().position(|word| matches!(word.as_str(), "#" | ">" | "<" | "|" | "&"));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    /// Examples are what people copy, so none may have an option that is gone.
    #[test]
    fn examples_are_commands() {
        let mut examples = 0;
        for (name, command) in all(&Arguments::command(), "weir") {
            let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            // a line that is too long for a help goes on after a backslash
            let after = after.replace("\\\n", " ");
            for line in after.lines().map(str::trim).filter(|line| line.starts_with("weir ")) {
                examples += 1;
                if let Err(error) = Arguments::try_parse_from(words(line)) {
                    panic!("an example of {name}: {line}\n{error}");
                }
            }
        }
        assert!(examples > 60, "only {examples} examples were found");
    }

    /// A flag of a component's switch that is on by default has a sentence of its own, and not that of the switch.
    #[test]
    fn every_flag_that_turns_something_off_has_a_help() {
        let mut flags = 0;
        for (name, command) in leaves(&Arguments::command(), "weir") {
            for argument in command.get_arguments().filter(|_| name != "weir nfdump") {
                let Some(long) = argument.get_long().filter(|long| long.starts_with("no-")) else { continue };
                flags += 1;
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "--{long} of {name} has no help");
            }
        }
        assert!(flags > 1, "only {flags} flags were found");
    }

    #[test]
    fn a_letter_means_the_same_in_every_command() {
        let mut known: BTreeMap<char, (String, String)> = BTreeMap::new();
        for (name, command) in
            leaves(&Arguments::command(), "weir").into_iter().filter(|(name, _)| name != "weir nfdump")
        {
            for argument in command.get_arguments() {
                let (Some(letter), Some(long)) = (argument.get_short(), argument.get_long()) else { continue };
                let (before, of) = known.entry(letter).or_insert_with(|| (long.to_owned(), name.clone()));
                assert_eq!(before, long, "-{letter} of {name} and of {of}");
            }
        }
    }
}
