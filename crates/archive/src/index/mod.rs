//! What a segment knows about its pages, so that a question reads few of them.
//!
//! A page is the same rows of every column. For each page the index has the smallest and largest value of every column
//! of numbers, times and addresses (zone maps), and for columns whose values distinguish pages the pages of each value,
//! hosts included. It lies in the segment's own file, between the last row group and Parquet's footer, where no other
//! reader looks, so a segment stays one file that is renamed into its place whole. Opening it reads one place at the
//! start of the file and the index itself; neither Parquet's footer nor its page index is decoded. Lists of hosts are
//! most of its octets, and only the blocks that a question needs are read.
//!
//! What speaks against it: zone maps are in the file twice, because other tools look for Parquet's own.
//!
//! A set of pages is never too small: a page outside it has no row whose value fits. It may be too large. Nulls fit no
//! value, so a page of a lookup's complement may have rows whose value is null, and pages inside may as well. Whoever
//! negates a test must not take the complement of a [`PageSet`]: `not (a = 1)` holds on pages where some row is not 1,
//! which is another question, and rows where `a` is null are neither. [`SegmentIndex::pages_with_nulls`] has them.

pub(crate) mod bits;
mod build;
mod column_pages;
pub(crate) mod key;
mod lookup;
pub(crate) mod octets;
mod page_set;
mod place;
pub(crate) mod positions;
pub(crate) mod postings;
mod segment_index;
mod write;
mod zones;

pub use column_pages::{ColumnPages, GroupPages, PagePlace};
pub use page_set::PageSet;
pub use place::PageEncoding;
pub(crate) use place::{ChunkPlaces, HEADER_AT, HEADER_OCTETS, HOSTS, Header, POSITIONS, ROLLUPS, Section};
pub(crate) use segment_index::IndexContents;
pub use segment_index::SegmentIndex;
pub(crate) use write::IndexWriter;
