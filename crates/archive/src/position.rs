//! The numbers by which everything in an archive is ordered: of frames, and of the tails that they are written to.

use std::fmt;

/// Number of a committed frame. Every delivery gets the next one; a reader at position P has seen the deliveries 1 to
/// P and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

/// Number of a tail; tails are numbered without gaps in the order in which they were begun.
pub(crate) type TailNumber = u64;

/// Who appends: several writers of one archive would have a number and a folder of tails each. The local writer is 0.
pub(crate) type WriterId = u32;

/// The writer of an archive in a folder of this machine.
pub(crate) const LOCAL: WriterId = 0;

impl Position {
    /// The position of an empty archive.
    pub const ZERO: Self = Self(0);

    /// The position with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position of the delivery after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
