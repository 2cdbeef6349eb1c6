//! Rows held back for a while and handed on in the order of their start.
//!
//! Components that look among later rows for the counterpart of a row (`dedup`, `stitch`) hold rows until the data has
//! moved on by some seconds. What they share is here: [`Gate`] decides which rows may be held and moves time on,
//! [`RowStore`] has the columns of held rows, [`StartOrder`] finds the row to hand on next, and [`Nearest`] finds the row
//! with the same key and the nearest start.
//!
//! Time is that of `start` and not of `end`, because rows that come out in the order of their start can be merged with
//! others. What speaks against it is that flows are exported at their end: a window must be longer than the longest
//! flow an exporter reports as one, its active timeout.

mod gate;
mod nearest;
mod order;
mod store;

pub use gate::{Admission, Gate, GateOptions, Late, Times, WhenFull};
pub use nearest::Nearest;
pub use order::{Place, StartOrder};
pub use store::RowStore;
