//! What threads have of one part, before it is grouped.

use super::row::Row;
use super::rows::Rows;

/// Bytes of a chunk of a part: there are many parts, and each has a chunk that is not full. Allocators lay out blocks of a
/// page of memory without gaps; for larger ones they took up to a third more than was asked for.
const PART_CHUNK_BYTES: usize = 4 << 10;

/// What threads have of one part: keys may be in it several times.
pub(crate) struct Pieces<S> {
    pub(super) short: Vec<Rows<u128, S>>,
    pub(super) long: Vec<Rows<Box<[u8]>, S>>,
}

/// Rows of a chunk of a part, as a power of two.
pub(super) fn part_chunk_bits<K, S>() -> u32 {
    (PART_CHUNK_BYTES / size_of::<Row<K, S>>()).max(1).ilog2()
}

impl<S> Pieces<S> {
    /// Adds what another thread has of the part.
    pub(crate) fn join(&mut self, other: Self) {
        self.short.extend(other.short);
        self.long.extend(other.long);
    }
}
