//! Standing questions over now and then.
//!
//! A *watch* is a file with a statement ([`WatchFile`]): SQL over a window of the live stream, joined with the history of
//! the archive where it says so. A [`Runner`] follows an archive, cuts its flows into *panes* as wide as the slide of the
//! windows ([`panes`]), asks the statement whenever a window closes, and makes [`Report`]s of the rows. [`backtest`] asks
//! the same of the past.
//!
//! The process that collects does not wait for any of this: the runner follows the archive, from memory in the same
//! process and from files in another, and what it cannot keep up with it reads later. So a watch sees each flow that
//! the archive has, exactly once, also over restarts: the [`journal`] keeps how far each watch is, and reports are
//! durable before they are sent, which `weir_notify` does. What speaks against following is a delay, of the collector's
//! deliveries (at most 0.2 s).

pub mod backtest;
pub mod error;
pub mod file;
pub mod panes;
pub mod report;
pub mod runner;
pub mod sessions;
pub mod transform;

mod corrections;
mod counters;
mod flow_source;
mod flows;
mod following;
mod grown;
mod loaded_files;
mod open_windows;
mod past;
mod paused;
mod runner_thread;
mod shared;
mod template;
mod waiting;
mod watch;
mod watch_paths;
mod window_clock;
mod worker;

pub use backtest::{Backtest, Firing, Outcome};
pub use counters::WatchCounts;
pub use error::WatchError;
pub use file::{LateFlows, TimeColumn, WatchFile, WatchOptions};
pub use flow_source::{FlowFeed, Follow};
pub use loaded_files::LoadedFiles;
pub use report::Report;
pub use runner::{Runner, RunnerOptions};
pub use shared::Message;
pub use waiting::WaitingCounts;
pub use watch::plan;
pub use watch_paths::{WatchPaths, check_name, watch_paths};
pub use weir_notify::{Action, NotifyCounts};
pub use weir_reports::{
    JournalError, KeyError, Retention, Severity, acknowledge, check_key, journal, reports, watches,
};
