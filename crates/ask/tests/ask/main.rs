//! Questions to an archive against answers that are counted row by row.

mod naive;
mod questions;
mod summaries;
