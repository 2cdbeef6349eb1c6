//! What of a segment is read, by its index.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_archive::{PageSet, Segment, Snapshot};
use weir_filter::Predicate;

use super::ScanSpec;
use super::every::Every;
use super::file::SegmentFile;
use super::filter::PagedFilter;
use super::segment_plan::SegmentPlan;
use super::unit::UnitContent;
use crate::{Progress, QueryError};

/// The units of a segment; none when the index says that it has no wanted flow. Of the pages that may have one, those of
/// `every` are read. `length` says how many pages a unit has at most, of as many as are read.
pub(super) fn plan(
    (segment, snapshot): (&Segment, Option<&Snapshot>),
    (wanted, every): (&Arc<ScanSpec>, Every),
    progress: &Arc<Progress>,
    length: impl Fn(usize) -> usize,
) -> Result<VecDeque<UnitContent>, QueryError> {
    let index = match snapshot {
        Some(snapshot) => snapshot.index_of(segment)?,
        None => segment.index()?,
    };
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
    let length = length(every.of(all));
    let mut units = VecDeque::new();
    let mut number = 0;
    let mut is_taken = || {
        number += 1;
        every.takes(number - 1)
    };
    for group in 0..file.row_groups() {
        let of_group = file.group_pages(group);
        if !file.has_pages(group) {
            if is_taken() {
                units.push_back(UnitContent::Group { segment: Arc::clone(&plan), group });
            } else {
                progress.add_rows_pruned(file.group_rows(group) as u64);
            }
            continue;
        }
        let (read, left): (Vec<usize>, Vec<usize>) = of_group.partition(|page| is_wanted(page) && is_taken());
        progress.add_rows_pruned(left.iter().map(|page| file.page_rows(*page) as u64).sum());
        for pages in read.chunks(length) {
            units.push_back(UnitContent::Pages { segment: Arc::clone(&plan), group, pages: pages.to_vec() });
        }
    }
    Ok(units)
}
