//! What watches reported, on disk and as a table.
//!
//! Reports are lines of JSON in one file ([`log`]), which a [`Journal`] appends to and cuts from the front when it is too long or too
//! old. Where a line is does not change by that, so whoever sends reports elsewhere keeps one number. Everybody else reads:
//! the newest ([`reports`]), or all of them as rows ([`table`]). No reader takes a lock, and none disturbs the process that
//! runs the watches.
//!
//! What speaks against lines of JSON in one file is the time that it takes to read all of them: some seconds at the limit of
//! its length. People read reports one at a time, and other programs read JSON.

pub mod journal;
pub mod lines;
pub mod log;
pub mod reports;
pub mod table;
pub mod watches;

mod acknowledged_key;
mod acknowledgements;
mod error;
mod report_key;
mod severity;

pub use acknowledged_key::{KeyError, check_key};
pub use acknowledgements::{Acknowledgements, acknowledge};
pub use error::JournalError;
pub use journal::Journal;
pub use log::Retention;
pub use report_key::report_key;
pub use severity::Severity;
