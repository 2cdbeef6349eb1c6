//! nfdump's command line: its options become a question, and the answer becomes its text, octet for octet.
//!
//! [`Arguments`] are the options of nfdump 1.7. [`run`] reads nfcapd files or an archive, asks [`weir_query`] and writes
//! the answer with the formats of [`text`]. People have scripts around nfdump that cut its lines at columns and scrape
//! its footer, so its spelling, widths, roundings and exit status are kept, where the rest of weir has its own.
//! What speaks against a crate for it is that rankings and groupings have two command lines; the question behind both is
//! one type, [`weir_query::FlowQuery`].
//!
//! The SQL engine is never needed here: the comparisons with nfdump build and run without it. The program of this crate,
//! `weir-nfdump`, is `weir nfdump` alone, and is what those comparisons start.

pub mod text;
pub mod times;

mod answer;
mod arguments;
mod files;
mod format_file;
mod input;
mod keys;
mod run;
mod source;
mod view;

pub use arguments::Arguments;
pub use run::{FAILED, exit_status, hint, run};
