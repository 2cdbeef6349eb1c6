//! Flows of a snapshot that pass a filter, page by page.
//!
//! The unit of work is a *morsel*: some pages of a row group, or a batch of the tail. Threads take morsels from one
//! counter. Of a page the columns of the filter are decoded first, and the others only when a row passes.

mod at_offset;
mod file;
mod prune;
mod window;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::{filter, filter_record_batch};
use weir_archive::{PageSet, SegmentIndex};
use weir_archive::{Segment, Snapshot};
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch, Table};

use crate::decode::PageDecoder;
use crate::{FlowQuery, Progress, QueryError, TimeWindow};

pub(crate) use at_offset::AtOffset;
pub(crate) use file::SegmentFile;
pub(crate) use window::may_have;

/// Pieces of work for each thread, at least: this many make all of them end at about the same time.
const MORSELS_PER_THREAD: usize = 4;

/// What of every flow is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    predicate: Predicate,
    /// What every wanted flow passes besides, for leaving out pages only.
    hint: Predicate,
    window: TimeWindow,
    /// Columns of filter and window first, then those of the answer only.
    columns: Vec<Column>,
    /// How many of them are of the filter.
    tested: usize,
    /// The columns of the answer, in the order of the table.
    answered: Vec<Column>,
}

impl Wanted {
    /// The flows of a question, with these columns.
    pub(crate) fn new(question: &FlowQuery, answer: impl IntoIterator<Item = Column>) -> Self {
        let mut columns: Vec<Column> = question.filter.columns().into_iter().collect();
        columns.extend(
            window::columns(&question.window)
                .iter()
                .filter(|column| !columns.contains(column))
                .copied()
                .collect::<Vec<_>>(),
        );
        let tested = columns.len();
        let mut answered: Vec<Column> = answer.into_iter().collect();
        answered.sort_unstable();
        answered.dedup();
        for column in &answered {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
        Self {
            predicate: question.filter.clone(),
            hint: Predicate::True,
            window: question.window,
            columns,
            tested,
            answered,
        }
    }

    /// The same flows, of which those that fail `hint` need not be given.
    pub(crate) fn with_hint(self, hint: Predicate) -> Self {
        Self { hint, ..self }
    }

    /// Pages that may have wanted flows.
    fn pages(&self, index: &SegmentIndex) -> Result<PageSet, QueryError> {
        let mut pages = prune::of_window(index, &self.window)?;
        pages.and(&prune::of_predicate(index, &self.predicate)?);
        pages.and(&prune::of_predicate(index, &self.hint)?);
        Ok(pages)
    }

    /// Which rows of a batch pass; `None` for all.
    fn mask(&self, batch: &FlowBatch) -> Option<BooleanArray> {
        let of_filter = (self.predicate != Predicate::True).then(|| self.predicate.mask(batch));
        let of_window = window::mask(&self.window, batch);
        match (of_filter, of_window) {
            (Some(a), Some(b)) => Some(BooleanArray::from(a.values() & b.values())),
            (one, other) => one.or(other),
        }
    }

    /// The rows of a batch that pass, with the columns of the answer.
    pub(crate) fn of_batch(&self, batch: &FlowBatch) -> Result<Option<FlowBatch>, QueryError> {
        let kept: Vec<(Column, ArrayRef)> = self
            .answered
            .iter()
            .filter_map(|column| batch.column(*column).map(|values| (*column, Arc::clone(values))))
            .collect();
        let Some(mask) = self.mask(batch) else { return flow_batch(batch.rows(), kept).map(Some) };
        let rows = mask.true_count();
        if rows == 0 {
            return Ok(None);
        }
        let kept = flow_batch(batch.rows(), kept)?;
        if rows == batch.rows() {
            return Ok(Some(kept));
        }
        let filtered = filter_record_batch(kept.record_batch(), &mask)?;
        FlowBatch::try_new(filtered).map(Some).map_err(|error| QueryError::Source(error.into()))
    }
}

fn flow_batch(rows: usize, columns: Vec<(Column, ArrayRef)>) -> Result<FlowBatch, QueryError> {
    FlowBatch::from_columns(rows, columns).map_err(|error| QueryError::Source(error.into()))
}

/// A piece of work.
#[derive(Debug, Clone)]
pub(crate) enum Morsel {
    /// Pages of a row group of a segment.
    Pages { segment: Arc<SegmentFile>, group: usize, pages: Vec<usize> },
    /// A batch of the tail, or of wherever flows come from.
    Batch(FlowBatch),
}

/// Segments of a snapshot that may have flows of the window, and batches of its tail.
pub(crate) fn sources(snapshot: &Snapshot, window: &TimeWindow) -> Result<(Vec<Segment>, Vec<FlowBatch>), QueryError> {
    let segments =
        snapshot.segments(Table::Flows).iter().filter(|segment| window::may_have(window, segment.time_range_ms));
    let tail = snapshot.tail(Table::Flows).iter().cloned().map(FlowBatch::try_new);
    let tail = tail.collect::<Result<Vec<_>, _>>().map_err(|error| QueryError::Source(error.into()))?;
    Ok((segments.cloned().collect(), tail))
}

/// Pages of a row group of a segment that may have wanted flows.
#[derive(Debug)]
pub(crate) struct RowGroupPages {
    segment: Arc<SegmentFile>,
    group: usize,
    pages: Vec<usize>,
}

/// The stretches of a segment.
pub(crate) fn row_group_pages(
    segment: &Segment,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<Vec<RowGroupPages>, QueryError> {
    let index = segment.index()?;
    let pages = index.as_ref().map(|index| wanted.pages(index)).transpose()?;
    if pages.as_ref().is_some_and(PageSet::is_none) {
        progress.add_segments_pruned(1);
        progress.add_rows_pruned(segment.rows);
        return Ok(Vec::new());
    }
    let file = Arc::new(SegmentFile::open(segment, &wanted.columns, index.as_ref())?);
    let mut stretches = Vec::new();
    for group in 0..file.row_groups() {
        let first = index.as_ref().map_or(0, |index| index.row_group_pages(group).start);
        let is_wanted = |page: &usize| {
            // without pages of its own a group is read as a whole
            !file.has_pages(group) || pages.as_ref().is_none_or(|pages| pages.contains(first + page))
        };
        let (read, left): (Vec<usize>, Vec<usize>) = (0..file.pages(group)).partition(is_wanted);
        progress.add_rows_pruned(left.iter().map(|page| file.rows(group, *page) as u64).sum());
        stretches.push(RowGroupPages { segment: Arc::clone(&file), group, pages: read });
    }
    Ok(stretches)
}

/// Cuts pages of row groups into morsels of at most `pages_max` pages for `threads` threads.
pub(crate) fn cut(stretches: &[RowGroupPages], threads: usize, pages_max: usize) -> Vec<Morsel> {
    let pages: usize = stretches.iter().map(|stretch| stretch.pages.len()).sum();
    let length = (pages / (threads * MORSELS_PER_THREAD).max(1)).clamp(1, pages_max);
    let morsels = stretches.iter().flat_map(|RowGroupPages { segment, group, pages }| {
        let morsel =
            |pages: &[usize]| Morsel::Pages { segment: Arc::clone(segment), group: *group, pages: pages.to_vec() };
        pages.chunks(length).map(morsel)
    });
    morsels.collect()
}

impl Morsel {
    /// Rows that are looked at.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.rows(),
            Self::Pages { segment, group, pages } => pages.iter().map(|page| segment.rows(*group, *page)).sum(),
        }
    }

    /// Counts its rows as read.
    pub(crate) fn count_read(&self, progress: &Progress) {
        progress.add_rows_done(self.rows() as u64);
    }

    /// Gives the rows that pass to `each`, batch by batch.
    pub(crate) fn read(
        &self,
        wanted: &Wanted,
        decoder: &mut PageDecoder,
        mut each: impl FnMut(FlowBatch) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        match self {
            Self::Batch(batch) => wanted.of_batch(batch)?.map_or(Ok(()), each),
            Self::Pages { segment, group, .. } if !segment.has_pages(*group) => {
                for batch in segment.row_group(*group)? {
                    if let Some(batch) = wanted.of_batch(&batch)? {
                        each(batch)?;
                    }
                }
                Ok(())
            }
            Self::Pages { segment, group, pages } => {
                for page in pages {
                    if let Some(batch) = read_page(segment, *group, *page, wanted, decoder)? {
                        each(batch)?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn read_page(
    segment: &SegmentFile,
    group: usize,
    page: usize,
    wanted: &Wanted,
    decoder: &mut PageDecoder,
) -> Result<Option<FlowBatch>, QueryError> {
    let rows = segment.rows(group, page);
    let mut decoded: Vec<Option<ArrayRef>> = Vec::with_capacity(wanted.columns.len());
    for position in 0..wanted.tested {
        decoded.push(segment.column(decoder, group, page, position)?);
    }
    let mut mask = None;
    if wanted.tested > 0 {
        let mut tested: Vec<_> = wanted
            .columns
            .iter()
            .zip(&decoded)
            .filter_map(|(column, values)| Some((*column, values.clone()?)))
            .collect();
        tested.sort_unstable_by_key(|(column, _)| *column);
        mask = wanted.mask(&flow_batch(rows, tested)?);
        match mask.as_ref().map(BooleanArray::true_count) {
            Some(0) => return Ok(None),
            Some(count) if count == rows => mask = None,
            _ => {}
        }
    }
    for position in wanted.tested..wanted.columns.len() {
        decoded.push(segment.column(decoder, group, page, position)?);
    }
    let mut kept = Vec::with_capacity(wanted.answered.len());
    for column in &wanted.answered {
        let position = wanted.columns.iter().position(|wanted| wanted == column);
        let Some(values) = position.and_then(|position| decoded[position].clone()) else { continue };
        kept.push((
            *column,
            match &mask {
                Some(mask) => filter(&values, mask)?,
                None => values,
            },
        ));
    }
    let rows = mask.as_ref().map_or(rows, BooleanArray::true_count);
    flow_batch(rows, kept).map(Some)
}
