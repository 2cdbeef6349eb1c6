//! What can happen to an archive, as one commit each.

use super::key::SegmentKey;
use crate::position::{TailNumber, WriterId};
use crate::{Position, Segment, SegmentSummary};

/// One commit. Whatever files it names are durable before it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// A writer has opened the archive and goes on behind this position. A new epoch says that positions behind it may
    /// have been used before, by frames that a crash of the machine took away.
    Opened { writer: WriterId, epoch: u32, position: Position },
    /// Tails became segments, which may be none: their files count no more.
    Sealed { writer: WriterId, tails: (TailNumber, TailNumber), last: Position, segments: Vec<Segment> },
    /// A tail that cannot be sealed is left behind: it counts as a tail, and the next one is sealed.
    Skipped { writer: WriterId, tail: TailNumber },
    /// Segments became one.
    Merged { inputs: Vec<SegmentKey>, output: Segment },
    /// Segments and summaries expired; of some segments a summary was written.
    Expired { segments: Vec<SegmentKey>, written: Vec<SegmentSummary>, summaries: Vec<SegmentKey> },
    /// Segments and summaries that are damaged or gone do not count any more; their files, if any, stay under another
    /// name.
    SetAside { segments: Vec<SegmentKey>, summaries: Vec<SegmentKey> },
    /// Summaries of segments that had expired before, for which there was no room then.
    Summarised { written: Vec<SegmentSummary> },
    /// The files that were pending deletion since this commit or before are gone.
    Deleted { through: u64 },
}
