//! Runs: the pieces of an archive that are read one after another, segments and what is in no segment yet.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_archive::{Segment, Snapshot, TailFrame};
use weir_chain::ComponentError;
use weir_filter::{Comparison, Predicate, Test};
use weir_flow::{Column, FlowBatch, Table};
use weir_query::scan::{FlowScan, PageDecoder, ScanSpec, columns_with_values};
use weir_query::{FlowSources, Progress, QueryError, TimeWindow};

/// Rows of the tail that are read as one run: as many as a segment has by default.
const TAIL_ROWS: usize = 2_000_000;

/// A piece of an archive.
#[derive(Debug, Clone)]
pub(super) enum Run {
    /// A segment, which the snapshot keeps in its place.
    Segment(Arc<Snapshot>, Segment),
    /// Deliveries that are in no segment yet, in the order in which they were appended.
    Tail(Vec<TailFrame>),
}

impl Run {
    /// The runs of a snapshot that may have a row which starts in the span, in their order.
    pub(super) fn of(snapshot: &Arc<Snapshot>, span: StartSpan) -> Vec<Self> {
        let segments = snapshot.segments(Table::Flows).iter().filter(|segment| span.may_hold(segment));
        let mut runs: Vec<Self> =
            segments.map(|segment| Self::Segment(Arc::clone(snapshot), segment.clone())).collect();
        let mut rows = TAIL_ROWS;
        for frame in snapshot.tail_frames().iter().filter(|frame| frame.flows() > 0) {
            match runs.last_mut() {
                Some(Self::Tail(frames)) if rows + frame.flows() <= TAIL_ROWS => frames.push(frame.clone()),
                _ => {
                    runs.push(Self::Tail(vec![frame.clone()]));
                    rows = 0;
                }
            }
            rows += frame.flows();
        }
        runs
    }

    /// Opens the run.
    pub(super) fn open(&self) -> Result<OpenRun, ComponentError> {
        match self {
            Self::Segment(snapshot, segment) => OpenRun::segment(snapshot, segment),
            Self::Tail(frames) => OpenRun::tail(frames),
        }
    }
}

/// Which flows are wanted, by their start: from the first time, and before the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StartSpan {
    pub(super) from_ms: Option<i64>,
    pub(super) to_ms: Option<i64>,
}

impl StartSpan {
    /// True when every flow is wanted, also one without a start.
    fn is_open(self) -> bool {
        self == Self::default()
    }

    /// What a flow that is wanted passes.
    fn predicate(self) -> Predicate {
        let test = |comparison, ms| Predicate::Test(Test::Time { column: Column::Start, comparison, ms });
        let from = self.from_ms.map(|ms| test(Comparison::GreaterOrEqual, ms));
        let to = self.to_ms.map(|ms| test(Comparison::Less, ms));
        Predicate::and(from.into_iter().chain(to))
    }

    fn may_hold(self, segment: &Segment) -> bool {
        match segment.time_range_ms {
            Some((first_ms, last_ms)) => {
                self.from_ms.is_none_or(|from_ms| from_ms <= last_ms) && self.to_ms.is_none_or(|to_ms| first_ms < to_ms)
            }
            None => self.is_open(),
        }
    }
}

/// A run that is open. It can be read several times, and gives the same rows each time.
#[derive(Debug)]
pub(super) struct OpenRun {
    stored: Stored,
    /// Columns that have a value in some row.
    pub(super) columns: Vec<Column>,
}

/// Where the rows of a run are.
#[derive(Debug)]
enum Stored {
    Segment(Arc<Snapshot>, Segment),
    Tail(Vec<FlowBatch>),
}

fn broken(segment: &Segment, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ComponentError {
    ComponentError::caused(format!("cannot read segment '{}'", segment.path().display()), cause)
}

impl OpenRun {
    fn segment(snapshot: &Arc<Snapshot>, segment: &Segment) -> Result<Self, ComponentError> {
        if segment.rows >= u64::from(u32::MAX) {
            return Err(broken(segment, "it has more rows than can be put in order"));
        }
        let columns = guarded(|| columns_with_values(snapshot, segment)).map_err(|error| broken(segment, error))?;
        Ok(Self { stored: Stored::Segment(Arc::clone(snapshot), segment.clone()), columns })
    }

    fn tail(frames: &[TailFrame]) -> Result<Self, ComponentError> {
        let read = |frame: &TailFrame| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            Ok(frame.read_flows(Column::ALL)?.map(FlowBatch::try_new).transpose()?)
        };
        let flows = frames.iter().filter_map(|frame| read(frame).transpose()).collect::<Result<Vec<_>, _>>();
        let flows = flows.map_err(|error| ComponentError::caused("cannot read the tail of the archive", error))?;
        let has_value = |column: &Column| flows.iter().any(|batch| batch.column(*column).is_some());
        let columns = Column::ALL.iter().copied().filter(has_value).collect();
        Ok(Self { stored: Stored::Tail(flows), columns })
    }

    /// Reads these columns of the flows that are wanted, in batches of at most so many rows. Every batch has those of
    /// them that have a value in it.
    pub(super) fn read(&self, columns: &[Column], span: StartSpan, batch_rows: usize) -> Input {
        let (predicate, columns, progress) = (span.predicate(), columns.iter().copied(), Arc::new(Progress::default()));
        let (scan, segment) = match &self.stored {
            Stored::Segment(snapshot, segment) => {
                let sources = FlowSources::of_segments(snapshot, vec![segment.clone()], false);
                let spec = ScanSpec::of(predicate, &TimeWindow::default(), columns);
                (FlowScan::of(&sources, spec, &progress), Some(segment.clone()))
            }
            Stored::Tail(batches) => (FlowScan::of_batches(batches.clone(), predicate, columns, &progress), None),
        };
        Input { scan, segment, decoder: None, ready: VecDeque::new(), batch_rows }
    }
}

/// The rows of a run that are wanted, in the order in which they are stored.
#[derive(Debug)]
pub(super) struct Input {
    scan: FlowScan,
    segment: Option<Segment>,
    decoder: Option<PageDecoder>,
    ready: VecDeque<FlowBatch>,
    batch_rows: usize,
}

impl Input {
    /// The next batch; `None` when all rows have come.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ComponentError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                let rows = batch.record_batch();
                if rows.num_rows() <= self.batch_rows {
                    return Ok(Some(rows.clone()));
                }
                let (first, rest) =
                    (rows.slice(0, self.batch_rows), rows.slice(self.batch_rows, rows.num_rows() - self.batch_rows));
                let rest = FlowBatch::try_new(rest);
                self.ready.push_front(rest.map_err(|error| ComponentError::caused("cannot cut a batch", error))?);
                return Ok(Some(first));
            }
            if !guarded(|| self.read_unit()).map_err(|error| match &self.segment {
                Some(segment) => broken(segment, error),
                None => ComponentError::caused("cannot read the tail of the archive", error),
            })? {
                return Ok(None);
            }
        }
    }

    /// Reads the next unit; false when there is none.
    fn read_unit(&mut self) -> Result<bool, QueryError> {
        let Some(unit) = self.scan.next_unit()? else { return Ok(false) };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(PageDecoder::new().map_err(|source| QueryError::Source(source.into()))?),
        };
        unit.read(decoder, |batch| {
            self.ready.push_back(batch);
            Ok(())
        })?;
        Ok(true)
    }
}

/// Calls a reader, which may panic on octets that make no sense.
fn guarded<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let done = catch_unwind(AssertUnwindSafe(work)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("the reader panicked: {text}")
    })?;
    Ok(done?)
}
