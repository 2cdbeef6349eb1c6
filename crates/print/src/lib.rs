//! Record batches as text: aligned tables for people, CSV and JSON for programs.
//!
//! A [`Printer`] takes batches as they come and writes each at once; [`write_batches`] does the same for an iterator, and
//! [`CsvPieces`] makes text in the threads that make the batches. Every format knows what a flow is: addresses, flags,
//! times and Information Elements are written as people write them, which is why this is not left to the writers that
//! Arrow has. What speaks against it is that types which no column of flows has are written by a general formatter of
//! Arrow, and look like that.
//!
//! This crate knows neither where batches come from nor how they are queried.

pub mod format;
pub mod printer;

pub mod bars;
pub mod elements;
pub mod names;
pub mod plot;
pub mod value;

pub mod digits;
pub mod ordered;

mod cell;
mod harmless;
mod human;
mod pieces;

mod csv;
mod json;
mod table;

pub use bars::Bars;
pub use elements::{element_texts, elements_text, push_element_value};
pub use format::{Decimals, Format, OutputOptions, Texts, zone_name};
pub use json::JsonRows;
pub use names::tcp_flags_text;
pub use pieces::{CsvPieces, Piece};
pub use printer::{PrintError, Printer, write_batches};
pub use value::{ColumnText, time_text};

#[cfg(test)]
mod tests;
