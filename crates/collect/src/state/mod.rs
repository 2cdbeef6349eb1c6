//! What is remembered of exporters from one process to the next, so that the first datagram after a restart is decoded.
//!
//! [`crate::Decoder::export_state`] and [`crate::Decoder::import_state`] do no I/O. The file is written by a thread of
//! its own, beside the old one and then renamed over it, so that it is whole whenever the process is killed. It is
//! written every [`WRITE_INTERVAL`](file::WRITE_INTERVAL) when something has changed, and at the end.
//!
//! Sequence numbers are not remembered: by a number that is some seconds old, what was received in these seconds would
//! count as lost.

pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod keeping;

/// Why remembered state cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It is something else.
    #[error("this is no state of a collector")]
    Foreign,
    /// Another version of the program wrote it.
    #[error("state of version {found}, and only version {known} is known")]
    UnknownVersion {
        /// What it says.
        found: u32,
        /// What we know.
        known: u32,
    },
    /// It is not as it was written.
    #[error("the state is damaged at octet {offset}")]
    Damaged {
        /// Octets from the start of the part that is damaged.
        offset: usize,
    },
}
