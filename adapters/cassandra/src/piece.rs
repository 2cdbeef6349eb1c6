//! What is sent at once.

use scylla::serialize::batch::BatchValues;
use scylla::serialize::row::SerializeRow;

/// What belongs to one partition, and may be sent together.
pub(crate) trait Piece: BatchValues + SerializeRow + Clone + Send + Sync {
    /// Statements of it.
    fn len(&self) -> usize;

    /// Flows of it.
    fn flows(&self) -> u64;

    /// The first and the second half.
    fn halves(&self) -> [Self; 2];
}
