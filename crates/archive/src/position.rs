//! The numbers by which everything in an archive is ordered: of frames, and of the tails that they are written to.

use std::fmt;
use std::str::FromStr;

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

/// The position of a delivery, with the epoch in which it was appended: so a position whose delivery was lost in a crash
/// is known from one that was given out again. Written `epoch:position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FollowPosition {
    /// Each writer begins a new one when it opens the archive; the first is 1.
    pub epoch: u32,
    /// The position.
    pub position: Position,
}

impl FollowPosition {
    /// Before the first delivery of any archive.
    pub const START: Self = Self { epoch: 0, position: Position::ZERO };
}

impl fmt::Display for FollowPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.position)
    }
}

/// A text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no position; one is written EPOCH:POSITION")]
pub struct BadFollowPosition {
    /// The text.
    pub text: String,
}

impl FromStr for FollowPosition {
    type Err = BadFollowPosition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (epoch, position) = text.split_once(':')?;
            Some(Self { epoch: epoch.parse().ok()?, position: Position::new(position.parse().ok()?) })
        };
        parse().ok_or_else(|| BadFollowPosition { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back() {
        for position in [FollowPosition::START, FollowPosition { epoch: 7, position: Position::new(u64::MAX) }] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in ["", "7", ":", "1:", "1:x", "1:2:3", "-1:2"] {
            assert_eq!(text.parse::<FollowPosition>(), Err(BadFollowPosition { text: text.to_owned() }));
        }
    }
}
