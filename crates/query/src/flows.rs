//! Where the flows of a question are.

use std::sync::Arc;

use weir_archive::{Segment, Snapshot};
use weir_flow::{FlowBatch, Table};

use crate::scan::may_have;
use crate::{Progress, QueryError, TimeWindow};

/// Where flows are.
pub(crate) struct FlowSources {
    pub(crate) segments: Vec<Segment>,
    pub(crate) tail: Vec<FlowBatch>,
    /// Keeps the files of the segments in their places.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

impl FlowSources {
    /// Segments of a snapshot that may have flows of the window, and its tail.
    pub(crate) fn of(snapshot: &Arc<Snapshot>, window: &TimeWindow, progress: &Progress) -> Result<Self, QueryError> {
        let all = snapshot.segments(Table::Flows);
        let of_window = all.iter().filter(|segment| may_have(window, segment.time_range_ms));
        let segments: Vec<Segment> = of_window.cloned().collect();
        progress.add_segments_all(all.len() as u64);
        progress.add_segments_pruned((all.len() - segments.len()) as u64);
        progress.add_rows_all(snapshot.rows(Table::Flows));
        Self::of_segments(snapshot, segments, true)
    }

    /// Some segments of a snapshot, and its tail if it is wanted.
    pub(crate) fn of_segments(
        snapshot: &Arc<Snapshot>,
        segments: Vec<Segment>,
        has_tail: bool,
    ) -> Result<Self, QueryError> {
        let tail = snapshot.tail(Table::Flows).iter().filter(|_| has_tail).cloned().map(FlowBatch::try_new);
        let tail = tail.collect::<Result<Vec<_>, _>>().map_err(|error| QueryError::Source(error.into()))?;
        Ok(Self { segments, tail, snapshot: Some(Arc::clone(snapshot)) })
    }

    /// Flows of no archive.
    pub(crate) fn of_batches(tail: Vec<FlowBatch>) -> Self {
        Self { segments: Vec::new(), tail, snapshot: None }
    }

    /// Some of the segments instead of all, and another tail.
    pub(crate) fn with(&self, segments: Vec<Segment>, tail: Vec<FlowBatch>) -> Self {
        Self { segments, tail, snapshot: self.snapshot.clone() }
    }
}
