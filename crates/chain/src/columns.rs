//! Columns that flows do not have, followed through a chain before anything is opened.
//!
//! A component that adds columns in front of one that takes flows only ends a chain at its first row, after hours perhaps.
//! What a component does to such columns follows from its options, so the check needs no row. It knows those that are added;
//! whether a column that a component needs is there depends on what comes, and stays an error of the first row.

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
