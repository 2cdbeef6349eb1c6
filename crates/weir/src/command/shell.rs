//! `weir completions` and `weir man`: what shells and `man` know of the command line, made from its own tree.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions zsh > ~/.zfunc/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write a manual page for each command into a folder
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  weir man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Folder for the pages; made when missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // made whole before it is written: making it panics where a reader such as head has gone
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "weir", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write the completions"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

pub(crate) fn man(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let folder = args.folder.display();
    fs::create_dir_all(&args.folder).with_context(|| format!("cannot make the folder {folder}"))?;
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("cannot write manual pages into {folder}"))?;
    Ok(ExitCode::SUCCESS)
}
