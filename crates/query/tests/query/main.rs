//! The engine over archives whose rows are known.

mod filters;
mod questions;
mod rows;
mod slt;
