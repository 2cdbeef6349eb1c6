//! Passwords that a person types.

use std::io::{self, BufRead, IsTerminal};
use std::process::{Command as Process, Stdio};

use anyhow::{Context, anyhow};

/// Reads a password, which a terminal does not show.
pub(super) fn read_password() -> anyhow::Result<String> {
    let stdin = io::stdin();
    let is_terminal = stdin.is_terminal();
    if is_terminal {
        eprint!("password: ");
        echo("-echo");
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if is_terminal {
        echo("echo");
        eprintln!();
    }
    read.context("cannot read the password from standard input")?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(anyhow!("the password is empty\nhint: it is read from standard input"));
    }
    Ok(password.to_owned())
}

/// Has the terminal show what is typed, or not.
fn echo(word: &str) {
    // a terminal that cannot do it shows the password, and nothing else is wrong
    let _ = Process::new("stty").arg(word).stdin(Stdio::inherit()).status();
}
