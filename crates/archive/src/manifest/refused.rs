//! Why a commit is refused.

/// Why an edit cannot be applied: a defect, or a manifest that is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditRefused {
    /// It removes a segment that does not count.
    #[error("a segment that the edit removes does not count")]
    UnknownSegment,
    /// It removes a summary that does not count.
    #[error("a summary that the edit removes does not count")]
    UnknownSummary,
    /// It adds a segment of a tail that another one has.
    #[error("a segment that the edit adds was made of a tail that another one was made of")]
    SameTail,
    /// It seals a tail that is not the next.
    #[error("the tail is not the next one to be sealed")]
    WrongTail,
    /// It merges segments into one that is not what they were.
    #[error("the merged segment is not what its inputs were")]
    WrongMerge,
    /// It goes on before the last position.
    #[error("a position goes back")]
    PositionGoesBack,
    /// It goes on before the last epoch.
    #[error("an epoch goes back")]
    EpochGoesBack,
    /// It adds a summary of flows that are there.
    #[error("a summary is added whose flows are there")]
    SummaryOfLiveFlows,
}
