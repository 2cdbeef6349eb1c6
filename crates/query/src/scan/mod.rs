//! Flows of a snapshot that pass a filter, read in numbered units.
//!
//! A [`FlowScan`] is made of a snapshot, a window of time, a filter and the columns that are wanted. It gives
//! [`ScanUnit`]s, each some pages of one segment or a batch of the tail, which threads read one by one:
//!
//! * **Exact.** [`ScanUnit::read`] gives the rows that pass, and no others; nothing is left to be filtered.
//! * **Ordered.** Units are numbered from 0 without gaps. A larger number is later in the archive, and the rows of a unit
//!   come in the order of the archive. Numbers and contents of units depend on the snapshot and the question only: not
//!   on threads, and not on who takes which unit. A scan [in random order](FlowScan::in_random_order) is the exception.
//! * **Lazy.** A segment is looked at when a unit of it is asked for, at most [`SEGMENTS_AHEAD_MAX`] segments before
//!   their turn. A file is opened with the first unit that is read and closed with the last one that is dropped. So open
//!   files and memory grow with the units that a caller keeps, not with the segments of the archive.
//! * **Parallel.** All methods take shared references. Threads that ask for units at the same time plan several segments
//!   at once.
//! * **Cancellable.** After [`Progress::stop`] no further segment is planned, and the next unit that is asked for or read
//!   is [`QueryError::Cancelled`].
//! * **Complete or an error.** A segment that cannot be planned is one unit, whose reading fails.
//!
//! Of a page the columns of the filter are decoded one after the other, the most selective first, until no row is left;
//! all other columns only when a row passes. What the index proves is not tested: neither the times of a page that lies
//! in the window as a whole, nor a filter that every row of the page passes.

mod at_offset;
mod elements;
mod every;
mod file;
mod filter;
mod flow_scan;
mod footer;
mod frame;
mod index_rows;
mod page;
mod plan;
mod prune;
mod segment_plan;
mod spec;
mod unit;
mod window;

pub use flow_scan::{FlowScan, SEGMENTS_AHEAD_MAX, columns_with_values};
pub use spec::ScanSpec;
pub use unit::ScanUnit;

pub use crate::decode::PageDecoder;

pub(crate) use frame::may_have as frame_may_have;
pub(crate) use index_rows::rows_left;
pub(crate) use window::may_have;

#[allow(unused_imports, reason = "named in the documentation")]
use crate::{Progress, QueryError};
#[cfg(test)]
mod tests;

use at_offset::AtOffset;
