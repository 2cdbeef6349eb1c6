//! Pages of segments, decoded straight into Arrow columns.
//!
//! Segments use few of Parquet's encodings, their columns are flat, and their pages hold the same rows in every column.
//! So a page can be decoded by itself, without readers that carry state over row groups. That is what a question about
//! few pages needs: it costs what it reads. What speaks against it is a second reader of the format next to the
//! library's; whatever is unusual about a file (nested columns, other encodings, pages that do not line up) is left to
//! the library, see `scan`.

mod header;
mod packed;
mod values;

pub(crate) use header::{PageAt, page_locations};
pub use values::PageDecoder;
pub(crate) use values::{Dictionary, PageLayout};

/// Octets of a page that cannot be what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub(crate) &'static str);
