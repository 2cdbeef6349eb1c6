//! The engine over archives whose rows are known.

mod answers;
mod control;
mod damaged;
mod differential;
mod exact;
mod far_times;
mod files;
mod filters;
mod growth;
mod limits;
mod mixed;
mod questions;
mod routes;
mod rows;
mod samples;
mod scaling;
mod slt;
mod tables;
mod timelines;
mod versions;
mod view_order;
mod views;
