//! `weir nfdump`: the options, formats and exit status of nfdump 1.7, by [`weir_nfdump`].

use std::io;
use std::process::ExitCode;

pub(crate) use weir_nfdump::Arguments as Args;

/// Ends the program because of its arguments. What is called as nfdump is expected to return what nfdump returns.
pub(crate) fn exit(error: &clap::Error) -> ! {
    let is_nfdump = std::env::args_os().nth(1).is_some_and(|command| command == "nfdump");
    // there is nowhere to report that nothing can be printed
    let _ = error.print();
    std::process::exit(if error.use_stderr() && is_nfdump { weir_nfdump::FAILED.into() } else { error.exit_code() })
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match weir_nfdump::run(args, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if let Some(hint) = crate::hint(&error) {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(weir_nfdump::FAILED)
        }
    }
}
