//! What is said of steps that cannot be read.

use std::fmt;

/// Steps that cannot be read because a file is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, and what is wrong with it.
    pub what: String,
    /// When the steps begin, in seconds since the epoch, ascending.
    pub times_secs: Vec<i64>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, times_secs } = self;
        let first_secs = times_secs.first().copied().unwrap_or_default();
        write!(f, "{what} ({} steps, the first at {first_secs} s, are not known)", times_secs.len())
    }
}
