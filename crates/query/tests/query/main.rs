//! Questions to an archive against answers that are counted row by row.

mod approximate;
mod completeness;
mod format;
mod naive;
mod questions;
mod summaries;
