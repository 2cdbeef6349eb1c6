//! What is known not to hold, each with its reason.

use super::Wrong;
use super::mutation::{Kind, Mutation};
use super::written::Written;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exception {
    /// Nothing in a tail or in a file of the manifest says which archive it is of: the file of another one with the same
    /// number, and for tails the same positions, is believed as far as it fits.
    OtherArchive,
    /// The commits before one that is gone are a state too. The tails and segments that were committed after it are
    /// missing then, and the error names one of these.
    CommitGone,
    /// How many frames the last tail has is noted nowhere else, for that would have to be durable as often as they are.
    LastTail,
    /// A snapshot does not compare the positions of one tail with those of the next. The check does, and a writer that
    /// opens the archive.
    EarlierTail,
    /// Files that no reader reads: commits before the checkpoint, segments that were merged, lists of imports (an import
    /// verifies them), locks, leases and the reserve.
    NotRead,
    /// A question for elements reads row groups by Parquet's library, which has no checksums of their pages, nor of the
    /// footer: a segment that has elements can give others, or its footer makes the library panic.
    Elements,
    /// Only the first line of the marker is read.
    MarkerEnd,
    /// Without its marker a folder is no archive, and the error names the folder.
    MarkerGone,
}

impl Exception {
    pub(crate) fn of(kind: Kind, mutation: &Mutation, written: &Written) -> Option<Self> {
        let is_cut_between = |ends: &[u64]| match mutation {
            Mutation::Truncate { octets } => *octets == 0 || ends.contains(&(*octets as u64)),
            Mutation::Empty => true,
            _ => false,
        };
        let of_other = matches!(mutation, Mutation::Replace { by } if by.starts_with(&written.other));
        let is_removed = matches!(mutation, Mutation::Remove);
        match kind {
            Kind::Tail | Kind::LastTail | Kind::Checkpoint | Kind::Edit if of_other => Some(Self::OtherArchive),
            Kind::Edit if is_removed => Some(Self::CommitGone),
            Kind::LastTail if is_removed || is_cut_between(&written.frame_ends[1]) => Some(Self::LastTail),
            Kind::Tail if is_cut_between(&written.frame_ends[0]) => Some(Self::EarlierTail),
            Kind::OldEdit | Kind::Merged | Kind::Imported | Kind::Service => Some(Self::NotRead),
            Kind::Flows | Kind::Index => Some(Self::Elements),
            Kind::Marker if is_removed => Some(Self::MarkerGone),
            Kind::Marker => Some(Self::MarkerEnd),
            _ => None,
        }
    }

    pub(crate) fn excuses(self, wrong: &Wrong) -> bool {
        match self {
            Self::OtherArchive => !matches!(wrong, Wrong::Panicked),
            Self::Elements => matches!(wrong, Wrong::Elements(_)),
            Self::CommitGone | Self::MarkerGone => matches!(wrong, Wrong::Error(_) | Wrong::Elements(_)),
            Self::LastTail => matches!(wrong, Wrong::Answer | Wrong::Check),
            Self::EarlierTail => matches!(wrong, Wrong::Answer | Wrong::Elements(_)),
            Self::NotRead | Self::MarkerEnd => matches!(wrong, Wrong::Check),
        }
    }
}
