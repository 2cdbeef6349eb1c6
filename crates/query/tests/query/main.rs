//! Questions to an archive against answers that are counted row by row.

mod approximate;
mod format;
mod mutations;
mod naive;
mod questions;
mod summaries;
