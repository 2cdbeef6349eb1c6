//! Units of work, made when they are asked for.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rand::seq::SliceRandom;
use weir_archive::{Segment, Snapshot, TailFrame};
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};

use super::ScanSpec;
use super::every::Every;
use super::file::SegmentFile;
use super::frame;
use super::plan::plan;
use super::unit::{ScanUnit, UnitContent};
use crate::flows::FlowSources;
use crate::run::reason;
use crate::{Progress, QueryError, QueryOptions, TimeWindow};

/// Segments that are planned before their turn, at most.
pub const SEGMENTS_AHEAD_MAX: usize = 16;

/// Pages of a unit, at most: about 130,000 rows.
const UNIT_PAGES_MAX: usize = 16;
/// Rows of a page at least, but for the last of a row group.
const PAGE_ROWS_MIN: u64 = 1024;
/// Units that a segment is cut into, at least, unless they are single pages: enough to keep many threads busy.
const UNITS_PER_SEGMENT: usize = 32;

/// The flows of a snapshot that pass a filter, in units of work; see the [module](super).
#[derive(Debug)]
pub struct FlowScan {
    wanted: Arc<ScanSpec>,
    segments: Vec<Segment>,
    frames: Vec<TailFrame>,
    batches: Vec<FlowBatch>,
    unit_pages_max: usize,
    /// One of `one_of` pages and deliveries that may have selected flows is read.
    one_of: usize,
    is_in_random_order: bool,
    progress: Arc<Progress>,
    state: Mutex<State>,
    planned: Condvar,
    /// Keeps the files of segments in their places.
    snapshot: Option<Arc<Snapshot>>,
}

#[derive(Debug, Default)]
struct State {
    /// What is left of the segments whose turn has come or comes soon; `None` while a thread plans them.
    plans: VecDeque<Option<VecDeque<UnitContent>>>,
    /// Segments that are in `plans` or were there.
    segments: usize,
    /// Frames that were given out or left out.
    frames: usize,
    /// Batches that were given out.
    batches: usize,
    /// Units that were given out.
    units: u64,
}

/// Pages that a segment has, at most.
fn pages_max(segment: &Segment) -> usize {
    usize::try_from(segment.rows.div_ceil(PAGE_ROWS_MIN)).unwrap_or(usize::MAX)
}

/// The columns of a segment that have a value in some row. Reads no page.
pub fn columns_with_values(snapshot: &Snapshot, segment: &Segment) -> Result<Vec<Column>, QueryError> {
    let index = snapshot.index_of(segment)?;
    SegmentFile::open(segment, Column::ALL, index.as_ref())?.columns_with_values()
}

impl FlowSources {
    /// The flows that are wanted, in units of work.
    pub(crate) fn scan(&self, wanted: &ScanSpec, options: &QueryOptions) -> FlowScan {
        FlowScan::of(self, wanted.clone(), &options.progress)
    }
}

impl FlowScan {
    /// The flows of a window that pass the filter, with these columns. Opens no file. What is read is counted in
    /// `progress`, which also stops it.
    pub fn new(
        snapshot: &Arc<Snapshot>,
        window: &TimeWindow,
        predicate: Predicate,
        columns: impl IntoIterator<Item = Column>,
        progress: &Arc<Progress>,
    ) -> Self {
        let wanted = ScanSpec::of(predicate, window, columns);
        Self::of(&FlowSources::of(snapshot, window, progress), wanted, progress)
    }

    /// The flows of batches, of no archive or already read, that pass the filter, with these columns.
    pub fn of_batches(
        batches: Vec<FlowBatch>,
        predicate: Predicate,
        columns: impl IntoIterator<Item = Column>,
        progress: &Arc<Progress>,
    ) -> Self {
        let wanted = ScanSpec::of(predicate, &TimeWindow::default(), columns);
        Self::of(&FlowSources::of_batches(batches), wanted, progress)
    }

    /// The flows of `sources` that `spec` selects. Opens no file. Segments that are not among the sources are not counted in
    /// `progress`.
    pub fn of(sources: &FlowSources, spec: ScanSpec, progress: &Arc<Progress>) -> Self {
        Self {
            wanted: Arc::new(spec),
            segments: sources.segments.clone(),
            frames: sources.frames.clone(),
            batches: sources.batches.clone(),
            unit_pages_max: UNIT_PAGES_MAX,
            one_of: 1,
            is_in_random_order: false,
            progress: Arc::clone(progress),
            state: Mutex::default(),
            planned: Condvar::new(),
            snapshot: sources.snapshot.clone(),
        }
    }

    /// The same flows in units of one page, in an order that is drawn anew for each scan and that nobody can guess: where a page
    /// lies in its segment depends on the addresses in it. One segment comes after the other, so that few are open, and the tail
    /// last.
    #[must_use]
    pub fn in_random_order(self) -> Self {
        let mut scan = Self { is_in_random_order: true, ..self.with_unit_pages_max(1) };
        let random = &mut rand::rng();
        scan.segments.shuffle(random);
        scan.frames.shuffle(random);
        scan.batches.shuffle(random);
        scan
    }

    /// The same flows in units of at most so many pages.
    pub(crate) fn with_unit_pages_max(self, pages: usize) -> Self {
        Self { unit_pages_max: pages.max(1), ..self }
    }

    /// One of `one_of` pages and deliveries that may have flows that pass, evenly over the archive.
    pub(crate) fn with_one_of(self, one_of: usize) -> Self {
        Self { one_of: one_of.max(1), ..self }
    }

    /// Units that there are, at most.
    pub(crate) fn units_max(&self) -> usize {
        let of_segment = |segment: &Segment| pages_max(segment).max(1);
        let of_segments = self.segments.iter().map(of_segment).fold(0, usize::saturating_add);
        of_segments.saturating_add(self.frames.len()).saturating_add(self.batches.len())
    }

    /// The next unit, or `None` when all have been given out. Plans the next segment when there is no unit left, or waits
    /// for another thread that does so.
    ///
    /// Fails only with [`QueryError::Cancelled`].
    pub fn next_unit(&self) -> Result<Option<ScanUnit>, QueryError> {
        let mut state = self.state();
        loop {
            if self.progress.is_stopped() {
                return Err(QueryError::Cancelled);
            }
            while let Some(Some(units)) = state.plans.front_mut() {
                if let Some(content) = units.pop_front() {
                    return Ok(Some(self.numbered(&mut state, content)));
                }
                state.plans.pop_front();
            }
            if state.segments < self.segments.len() && state.plans.len() < SEGMENTS_AHEAD_MAX {
                let number = state.segments;
                state.segments += 1;
                state.plans.push_back(None);
                drop(state);
                let units = self.plan(&self.segments[number], Every::spread(self.one_of, number));
                state = self.state();
                let first = state.segments - state.plans.len();
                state.plans[number - first] = Some(units);
                self.planned.notify_all();
            } else if state.plans.is_empty() {
                if let Some(frame) = self.frames.get(state.frames) {
                    // where it begins changes with the tail, so that a short one has its turn
                    let first = self.frames.first().map_or(0, |frame| frame.position().get() as usize);
                    let is_taken = Every::spread(self.one_of, first).takes(state.frames);
                    state.frames += 1;
                    if is_taken && frame::may_have(frame, &self.wanted) {
                        return Ok(Some(self.numbered(&mut state, UnitContent::Frame(frame.clone()))));
                    }
                    self.progress.add_rows_pruned(frame.flows() as u64);
                    continue;
                }
                let Some(batch) = self.batches.get(state.batches) else { return Ok(None) };
                state.batches += 1;
                return Ok(Some(self.numbered(&mut state, UnitContent::Batch(batch.clone()))));
            } else {
                state = self.planned.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn numbered(&self, state: &mut State, content: UnitContent) -> ScanUnit {
        let number = state.units;
        state.units += 1;
        ScanUnit { number, content, wanted: Arc::clone(&self.wanted), progress: Arc::clone(&self.progress) }
    }

    /// The units of a segment. A failure is a unit, so that its place does not depend on threads.
    fn plan(&self, segment: &Segment, every: Every) -> VecDeque<UnitContent> {
        // without opening its file: of very many segments most are left out
        if self.one_of > 1 && every.of(pages_max(segment)) == 0 {
            self.progress.add_segments_pruned(1);
            self.progress.add_rows_pruned(segment.rows);
            return VecDeque::new();
        }
        let length = |pages: usize| (pages / UNITS_PER_SEGMENT).clamp(1, self.unit_pages_max);
        let planned = catch_unwind(AssertUnwindSafe(|| {
            plan((segment, self.snapshot.as_deref()), (&self.wanted, every), &self.progress, length)
        }));
        match planned.unwrap_or_else(|panic| Err(QueryError::Panicked(reason(&*panic)))) {
            Ok(mut units) => {
                if self.is_in_random_order {
                    units.make_contiguous().shuffle(&mut rand::rng());
                }
                units
            }
            Err(error) => VecDeque::from([UnitContent::Failed(Mutex::new(Some(error)))]),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // every step under the lock leaves whole values behind
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
