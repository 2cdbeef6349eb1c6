//! How the manifest calls a segment.

use weir_flow::Table;

use crate::position::{TailNumber, WriterId};

/// What tells one segment that counts from all others: no two of a table, day and writer were made of the same tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentKey {
    pub(crate) table: Table,
    pub(crate) day: i64,
    pub(crate) writer: WriterId,
    /// The first of the tails that it was made of.
    pub(crate) first_tail: TailNumber,
}
