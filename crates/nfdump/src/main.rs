//! `weir nfdump` as a program of its own, without the rest of weir.

use std::io::{self, Write};
use std::process::{self, ExitCode};

use clap::Parser;

/// Query nfcapd files or an archive with the options of nfdump 1.7
#[derive(Debug, Parser)]
#[command(name = "weir-nfdump", max_term_width = 100)]
struct Program {
    #[command(flatten)]
    arguments: weir_nfdump::Arguments,
}

fn main() -> ExitCode {
    let log = tracing_subscriber::fmt().with_writer(io::stderr).log_internal_errors(false);
    log.with_target(false).with_ansi(false).without_time().init();
    let program = Program::try_parse().unwrap_or_else(|error| {
        // there is nowhere to report that nothing can be printed
        let _ = error.print();
        process::exit(if error.use_stderr() { weir_nfdump::FAILED.into() } else { error.exit_code() })
    });
    match weir_nfdump::run(&program.arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = weir_nfdump::hint(&error).map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
            // not `eprintln!`, which panics where nothing can be printed
            let _ = write!(io::stderr(), "error: {error:#}\n{hint}");
            ExitCode::from(weir_nfdump::exit_status(&error))
        }
    }
}
