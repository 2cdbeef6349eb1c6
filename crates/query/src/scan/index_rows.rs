//! How many rows of a segment are looked at, by its index alone.

use weir_archive::SegmentIndex;

use super::ScanSpec;
use super::filter::PagedFilter;
use crate::QueryError;

/// Rows of the pages that may have wanted flows. Reads lists of hosts where the filter has addresses, and no page.
pub(crate) fn rows_left(index: &SegmentIndex, wanted: &ScanSpec) -> Result<u64, QueryError> {
    let filter = PagedFilter::of_wanted(wanted, Some(index))?;
    let rows_of = |page: usize| {
        let rows = index.page_rows(page);
        rows.end - rows.start
    };
    Ok(match filter.pages() {
        Some(pages) => pages.iter().map(rows_of).sum(),
        None => (0..index.pages()).map(rows_of).sum(),
    })
}
