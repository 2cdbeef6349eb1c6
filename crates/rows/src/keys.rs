//! Keys of rows: the values of some columns, compared exactly and found by their hash.
//!
//! [`KeyColumns`] numbers the distinct keys of any list of columns in the order in which they are first seen. Components
//! that count per key (aggregates, statistics, top lists, duplicates) keep what they count in columns of their own, at
//! the index of that number.
//!
//! Keys are made column by column and compared as a few machine words, never as octets of a row. Hashes are seeded at
//! random in each process, so that no sender can choose flows that all meet in one place of the table; what is handed on
//! never depends on them, because nothing is ever listed in the order of the table.

mod columns;
mod flow;
mod table;
mod wide;

pub use columns::{KeyColumns, NO_KEY};
pub use flow::{FIVE_TUPLE, FlowKey, FlowKeys, KeyRows};
pub use table::{IdTable, Seed};
pub use wide::WideWords;
