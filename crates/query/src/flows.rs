//! Where the flows of a query are read from.

use std::sync::Arc;

use weir_archive::{Segment, SegmentIndex, Snapshot, TailFrame};
use weir_flow::{FlowBatch, Table};

use crate::scan::may_have;
use crate::{Progress, QueryError, TimeWindow};

/// Where flows are read from: segments and the tail of a snapshot, or batches.
#[derive(Debug)]
pub struct FlowSources {
    pub(crate) segments: Vec<Segment>,
    /// Deliveries that are in no segment.
    pub(crate) frames: Vec<TailFrame>,
    /// Flows that are in no archive, or sums of flows.
    pub(crate) batches: Vec<FlowBatch>,
    /// Keeps the files of the segments in their places.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

impl FlowSources {
    /// Segments of a snapshot that may have flows of the window, and its tail.
    pub(crate) fn of(snapshot: &Arc<Snapshot>, window: &TimeWindow, progress: &Progress) -> Self {
        let all = snapshot.segments(Table::Flows);
        let of_window = all.iter().filter(|segment| may_have(window, segment.time_range_ms));
        let segments: Vec<Segment> = of_window.cloned().collect();
        progress.add_segments_all(all.len() as u64);
        progress.add_segments_pruned((all.len() - segments.len()) as u64);
        progress.add_rows_all(snapshot.flows());
        Self::of_segments(snapshot, segments, true)
    }

    /// Some segments of a snapshot, and its tail if `has_tail`.
    pub fn of_segments(snapshot: &Arc<Snapshot>, segments: Vec<Segment>, has_tail: bool) -> Self {
        let frames = if has_tail { snapshot.tail_frames().to_vec() } else { Vec::new() };
        Self { segments, frames, batches: Vec::new(), snapshot: Some(Arc::clone(snapshot)) }
    }

    /// Flows of no archive.
    pub(crate) fn of_batches(batches: Vec<FlowBatch>) -> Self {
        Self { segments: Vec::new(), frames: Vec::new(), batches, snapshot: None }
    }

    /// What a segment knows about its pages.
    pub(crate) fn index_of(&self, segment: &Segment) -> Result<Option<SegmentIndex>, QueryError> {
        Ok(match &self.snapshot {
            Some(snapshot) => snapshot.index_of(segment)?,
            None => segment.index()?,
        })
    }

    /// Whether there is nothing to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.frames.is_empty() && self.batches.is_empty()
    }

    /// Some of the segments instead of all.
    pub(crate) fn with_segments(&self, segments: Vec<Segment>) -> Self {
        let (frames, batches) = (self.frames.clone(), self.batches.clone());
        Self { segments, frames, batches, snapshot: self.snapshot.clone() }
    }

    /// One of the segments and nothing else.
    pub(crate) fn of_segment(&self, segment: &Segment) -> Self {
        let segments = vec![segment.clone()];
        Self { segments, frames: Vec::new(), batches: Vec::new(), snapshot: self.snapshot.clone() }
    }
}
