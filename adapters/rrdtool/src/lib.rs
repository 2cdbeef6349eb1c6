//! Statistics to files of rrdtool.
//!
//! A [`RrdStore`] is where a [`StatisticsForwarder`](weir_forward::StatisticsForwarder) hands steps to: each series has a file,
//! which `rrdtool -` at the other end of a pipe makes and updates. rrdtool takes each step of a file once, and only after the
//! one before it. So the store knows of each file the last update that rrdtool has confirmed; of any other it asks when the file was
//! updated last, and what it lacks until the step at hand is read from the statistics: steps are neither sent twice nor left out,
//! whatever ended in between.
//!
//! The program does the work, not its library, so that weir is built and runs without it. What speaks against it is a process
//! more, and errors that are text.

pub mod files;
pub mod process;

mod commands;
mod history;
pub mod options;
mod rows;
pub mod store;

pub use files::{RrdFile, file_name, reading};
pub use options::{RrdError, RrdOptions};
pub use process::{FileInfo, Rrdtool, RrdtoolEnd, file_info, last_update};
pub use store::RrdStore;
