//! Scans of a table: segments and tail as one.
//!
//! Flows are read by the scan of `weir_query`, which knows the index of segments and decodes pages by itself: what of a
//! condition is a filter ([`predicate`]) is given to it, and a step of the plan ([`flow_exec`]) takes units of its
//! work. So a condition costs the same in SQL and in a filter, and is evaluated in one place. The other tables are
//! small; they are read as Parquet ([`rows_exec`]), and the engine filters them. Nothing is opened while a question is
//! planned: segments are left out by the times in their names ([`segments`]), and everything else happens when
//! the plan runs, in its threads.

mod address_ranges;
pub(crate) mod encoded;
pub(crate) mod flow_exec;
mod flow_stream;
mod predicate;
mod row_mixer;
pub(crate) mod rows_exec;
mod segments;
mod table;

pub(crate) use flow_exec::FlowScanExec;
pub(crate) use predicate::{all, predicate_of};
pub(crate) use rows_exec::{RowsExec, padded};
pub(crate) use segments::may_be_of;
pub(crate) use table::{ArchiveTable, pushdown_of};
