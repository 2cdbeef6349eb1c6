//! Columns that flows do not have, followed through a chain before anything is opened.
//!
//! A component that adds columns in front of one that takes flows only ends a chain at its first row, after hours perhaps.
//! What a component does to such columns follows from its options, so the check needs no row.
//!
//! Which columns of flows come depends on the flows, unless a source reads some of them only. Then what needs another one
//! would find nothing in it, or end the chain at the first row, so that is checked as well, as far as components say what they
//! need.

/// What a component does to columns that flows do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnRule {
    /// It hands them on as they come.
    Kept,
    /// It hands them on, and adds these.
    Adds(Vec<&'static str>),
    /// Of such columns its rows have these only.
    Replaced(Vec<&'static str>),
    /// It takes none; what can be done about it.
    Refused(&'static str),
}

/// Which columns of flows the rows have that a component hands on, and which it needs, as far as its options say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowColumnRule {
    /// That depends on what comes.
    Unknown,
    /// A source whose rows have these columns and no others.
    Only(Vec<&'static str>),
    /// It needs these columns, and hands on all that come.
    Kept(Vec<&'static str>),
    /// It needs these columns, and hands on rows of its own.
    Read(Vec<&'static str>),
}

impl FlowColumnRule {
    /// The columns without which a component makes no sense.
    pub(crate) fn needed(&self) -> &[&'static str] {
        match self {
            Self::Unknown | Self::Only(_) => &[],
            Self::Kept(needed) | Self::Read(needed) => needed,
        }
    }
}
