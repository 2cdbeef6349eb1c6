//! The subcommands, and what several of them share: arguments, parts of chains, reports.

// The comments on arguments are the text of `--help`, where backticks are noise.
#![allow(clippy::doc_markdown)]
// A switch on the command line is a bool.
#![allow(clippy::struct_excessive_bools)]

mod answer_format;
pub(crate) mod archive;
mod archive_args;
pub(crate) mod books;
pub(crate) mod chain;
mod chain_parts;
#[cfg(feature = "cassandra")]
mod cluster;
pub(crate) mod collect;
pub(crate) mod config;
pub(crate) mod doctor;
#[cfg(feature = "cassandra")]
pub(crate) mod forward;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod meter;
mod new_archive;
mod nfcapd_options;
pub(crate) mod nfdump;
mod no_rows;
mod note_thread;
mod password;
pub(crate) mod query;
mod read_before;
mod report;
pub(crate) mod series;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod sql;
pub(crate) mod user;
pub(crate) mod watch;
