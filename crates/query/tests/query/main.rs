//! The engine over archives whose rows are known.

mod files;
mod filters;
mod questions;
mod rows;
mod scaling;
mod slt;
mod tables;
mod terms;
