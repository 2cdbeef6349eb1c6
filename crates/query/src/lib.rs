//! Questions about flows as nfdump asks them, answered over an archive or over batches.
//!
//! A [`FlowQuery`] says which flows, of which time, and what to make of them. [`Archive::ask`] answers it from segments
//! and tail, [`ask_batches`] from flows that come from anywhere else. A general engine would answer the same, and
//! does for SQL; what is asked most is asked here, because here it costs what it reads: pages are decoded one by one
//! (`decode`), nothing is planned, and the index and the summaries of segments are known (`scan`, `group`). What speaks
//! against it is that filters and groups are computed in two places. Tests hold both against each other.
//!
//! No SQL, nothing asynchronous, no text.

pub mod archive;
pub mod biflow;
pub mod error;
pub mod keys;
pub mod order;
pub mod parse;
pub mod progress;
pub mod question;
pub mod scan;
pub mod stream;

mod decode;
mod group;
mod list;
mod ordered;
mod run;
mod summary;

pub use archive::{Answer, Archive, AskOptions, ask_batches};
pub use biflow::{Conversation, Conversations};
pub use decode::Damage;
pub use error::AskError;
pub use keys::{AggregateKey, KeyError, StatisticKey};
pub use order::{Direction, Order, Sorting};
pub use parse::SelectError;
pub use progress::{Progress, Seen};
pub use question::{FlowQuery, Measure, Select, TimeWindow, WindowRule};
pub use stream::{Counted, Take, ask_stream};
pub use summary::{ERROR_COLUMNS, Totals};
