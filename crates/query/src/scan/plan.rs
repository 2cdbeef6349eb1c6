//! What of a segment is read, by its index.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_archive::{PageSet, Segment};
use weir_filter::Predicate;

use super::Wanted;
use super::file::SegmentFile;
use super::filter::PagedFilter;
use super::segment_plan::SegmentPlan;
use super::unit::UnitContent;
use crate::{Progress, QueryError};

/// The units of a segment; none when the index says that it has no wanted flow. `length` says how many pages a unit has
/// at most, of as many as are read.
pub(super) fn plan(
    segment: &Segment,
    wanted: &Arc<Wanted>,
    progress: &Arc<Progress>,
    length: impl Fn(usize) -> usize,
) -> Result<VecDeque<UnitContent>, QueryError> {
    let index = segment.index()?;
    let filter = PagedFilter::of_wanted(wanted, index.as_ref())?;
    let mut pages: Option<PageSet> = filter.pages().cloned();
    if let (Some(index), Some(pages)) = (&index, &mut pages)
        && wanted.hint != Predicate::True
        && !pages.is_none()
        && let Some(of_hint) = PagedFilter::pages_of_hint(&wanted.hint, index, pages)?
    {
        pages.and(&of_hint);
    }
    if let (Some(index), Some(pages)) = (&index, &pages) {
        progress.add_pages_all(index.pages() as u64);
        progress.add_pages_pruned((index.pages() - pages.count()) as u64);
    }
    if pages.as_ref().is_some_and(PageSet::is_none) {
        progress.add_segments_pruned(1);
        progress.add_rows_pruned(segment.rows);
        return Ok(VecDeque::new());
    }
    let file = SegmentFile::open(segment, &wanted.columns, index.as_ref())?;
    // the index is no longer needed, and nor is its file
    drop(index);
    let plan = Arc::new(SegmentPlan { file, filter, progress: Arc::clone(progress) });
    let file = &plan.file;
    let is_wanted = |page: &usize| pages.as_ref().is_none_or(|pages| pages.contains(*page));
    let all = pages.as_ref().map_or_else(|| file.pages(), PageSet::count);
    let length = length(all);
    let mut units = VecDeque::new();
    for group in 0..file.row_groups() {
        let of_group = file.group_pages(group);
        if !file.has_pages(group) {
            units.push_back(UnitContent::Group { segment: Arc::clone(&plan), group });
            continue;
        }
        let (read, left): (Vec<usize>, Vec<usize>) = of_group.partition(is_wanted);
        progress.add_rows_pruned(left.iter().map(|page| file.page_rows(*page) as u64).sum());
        for pages in read.chunks(length) {
            units.push_back(UnitContent::Pages { segment: Arc::clone(&plan), group, pages: pages.to_vec() });
        }
    }
    Ok(units)
}
