//! Questions about flows as nfdump asks them, answered over an archive or over batches.
//!
//! A [`FlowQuery`] says which flows, of which time, and what to make of them. [`Archive::ask`] answers it from segments
//! and tail, [`ask_batches`] from flows that come from anywhere else. A general engine would answer the same, and
//! does for SQL; what is asked most is asked here, because here it costs what it reads: pages are decoded one by one
//! (`decode`), nothing is planned, and the index and the summaries of segments are known (`scan`, `group`). What speaks
//! against it is that filters and groups are computed in two places. Tests hold both against each other.
//!
//! No SQL, nothing asynchronous, no text.

mod admission;
mod archive;
mod biflow;
mod decode;
mod error;
mod estimate;
mod flows;
mod fold;
mod group;
mod keys;
mod list;
mod memory;
mod options;
mod order;
mod ordered;
mod parse;
mod passes;
mod progress;
mod question;
mod run;
mod sample;
pub mod scan;
mod several;
mod stream;
mod summary;

pub use admission::{Admission, Admitted};
pub use archive::{Answer, Archive, ask_batches};
pub use biflow::{Conversation, Conversations};
pub use decode::Damage;
pub use error::QueryError;
pub use estimate::{Estimate, EstimateLimits, FilteredEstimate};
pub use flows::FlowSources;
pub use keys::{AggregateKey, KeyError, StatisticKey};
pub use memory::{MemoryError, MemoryPool, Reservation};
pub use options::QueryOptions;
pub use order::{Direction, Order, Sorting};
pub use parse::SelectError;
pub use progress::{Progress, ProgressCounts, SaturationFlag};
pub use question::{FlowQuery, Measure, Select, TimeWindow, WindowRule};
pub use sample::{Sample, SampleSize, SampleSpread};
pub use stream::{BatchSink, Rescale, ask_stream};
pub use summary::{ERROR_COLUMNS, Totals};
pub use weir_filter::times;
