//! Standard error, which may have no reader any more and no disk below it.
//!
//! The macros of the standard library panic when a line cannot be written. A log on a full disk must not cost a flow, and
//! a `tee` that ended by the same Ctrl-C must not cost the summary, so these take their place in all of this crate. They
//! have the same names, for a second name would be forgotten at the next line. What speaks against it is that a reader
//! has to know; Clippy, which forbids those of the standard library (`print_stderr`), does.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Prints to standard error, where that is possible.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::stderr::print(format_args!($($text)*)) };
}

/// Prints a line to standard error, where that is possible.
macro_rules! eprintln {
    () => { $crate::stderr::print_line(format_args!("")) };
    ($($text:tt)*) => { $crate::stderr::print_line(format_args!($($text)*)) };
}

pub(crate) fn print(text: Arguments<'_>) {
    // there is nowhere to report it
    let _ = io::stderr().lock().write_fmt(text);
}

pub(crate) fn print_line(text: Arguments<'_>) {
    print(format_args!("{text}\n"));
}
