//! Questions to an archive against answers that are counted row by row.

mod approximate;
mod format;
mod memory;
mod naive;
mod questions;
mod saturation;
mod summaries;
