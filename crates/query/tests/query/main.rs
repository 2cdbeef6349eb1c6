//! Questions to an archive against answers that are counted row by row.

mod approximate;
mod completeness;
mod elements;
mod estimate;
mod files;
mod fold;
mod format;
mod memory;
mod mutations;
mod naive;
mod networks;
mod questions;
mod sample;
mod saturation;
mod summaries;
mod ties;
