//! `weir nfdump`: the options, formats and exit status of nfdump 1.7, by [`weir_nfdump`].

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use weir_nfdump::Arguments as Args;

use super::nfcapd_options;

/// The arguments of the program. Called as nfdump, by a link of that name, it is `weir nfdump`.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let is_nfdump =
        arguments.first().and_then(|program| Path::new(program).file_name()).is_some_and(|name| name == NAME);
    if is_nfdump {
        arguments.insert(1, NAME.into());
    }
    arguments
}

/// What people call the program that this stands for.
const NAME: &str = "nfdump";

/// Ends the program because of its arguments. What is called as nfdump is expected to return what nfdump returns.
pub(crate) fn exit(error: &clap::Error) -> ! {
    let command = arguments().into_iter().nth(1).unwrap_or_default();
    let is_nfdump = command == NAME;
    // there is nowhere to report that nothing can be printed
    let _ = error.print();
    let of_nfcapd = nfcapd_options::hint(error).filter(|_| command == "collect");
    if let Some(hint) = of_nfcapd.or_else(|| super::archive_args::hint_at_archive(error)) {
        eprintln!("\nhint: {hint}");
    }
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
            ExitCode::from(weir_nfdump::exit_status(&error))
        }
    }
}
