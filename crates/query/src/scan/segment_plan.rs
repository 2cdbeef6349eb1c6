//! What is known of a segment once it is planned.

use std::sync::Arc;

use super::file::SegmentFile;
use super::filter::PagedFilter;
use crate::Progress;

/// A segment of which some pages are read.
#[derive(Debug)]
pub(super) struct SegmentPlan {
    pub(super) file: SegmentFile,
    pub(super) filter: PagedFilter,
    pub(super) progress: Arc<Progress>,
}

impl Drop for SegmentPlan {
    /// The last unit of the segment is gone.
    fn drop(&mut self) {
        if !self.progress.is_stopped() {
            self.progress.add_segments_done(1);
        }
    }
}
