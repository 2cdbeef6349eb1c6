//! Captures of others and live interfaces, and what other programs read in them.

mod captures;
mod filters;
mod live;
