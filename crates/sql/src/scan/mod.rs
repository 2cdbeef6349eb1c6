//! Scans of a table: segments and tail as one.
//!
//! A scan is the union of two plans. One reads the segments, prunes files by the times in their names, pages by the
//! archive's index of them, row groups and pages by Parquet's statistics,
//! and evaluates the filters while it decodes, so that columns of the answer are decoded only for rows that match.
//! The other filters the batches of the tail. Both apply the filters completely, hence nothing above them filters
//! again.

mod at_offset;
mod page_index;
mod pages;
mod reader;
mod segments;
mod table;
mod tail;

pub(crate) use at_offset::AtOffset;
pub(crate) use reader::is_segment;
pub(crate) use table::ViewTable;
