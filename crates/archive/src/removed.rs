//! Why the file of a segment is gone.
//!
//! A segment that expired or was merged keeps its file for readers, but neither for ever nor whatever it takes. A reader
//! that comes too late gets an error that says so: the system only knows that there is no such file.

use std::fs::File;
use std::io::ErrorKind;

use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::{Action, ArchiveError, Segment};

impl Segment {
    /// Opens the file, once it is certain that it is this segment: that it has the size and the header that were
    /// written. What is behind the header is verified when it is read. When the segment has ceased to count since and its
    /// file was removed, that is [`ArchiveError::RemovedSegment`].
    pub fn open_file(&self) -> Result<File, ArchiveError> {
        self.file().map_err(|error| explained(self, error))
    }
}

/// The error of reading a segment. One that says that there is no such file becomes one that says why, unless the segment
/// still counts: then the archive has lost it.
pub(crate) fn explained(segment: &Segment, error: ArchiveError) -> ArchiveError {
    let is_gone = matches!(error.io(), Some((Action::OpenSegment, source)) if source.kind() == ErrorKind::NotFound);
    if !is_gone {
        return error;
    }
    let Ok(state) = Manifest::load_or_rebuild(&Layout::new(&segment.root)) else { return error };
    if state.segments.get(&segment.key()) == Some(segment) {
        return error;
    }
    let mut others = state.segments_of(segment.table).filter(|other| other.is_beside(segment));
    let is_merged = others.any(|other| other.tails.includes(&segment.tails));
    ArchiveError::RemovedSegment { path: segment.path(), is_merged }
}
