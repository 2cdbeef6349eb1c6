//! What is known of exporters, stored for the next process, so that the first datagram after a restart is decoded.
//!
//! [`crate::Decoder::export_state`] and [`crate::Decoder::import_state`] do no I/O. The file is written by a thread of
//! its own, next to the old one, and then renamed over it, so that it is whole whenever the process is killed. It is
//! written every [`WRITE_INTERVAL`](file::WRITE_INTERVAL) when something has changed, and at the end.
//!
//! Sequence numbers are not stored here: by a number that is some seconds old, what was received in these seconds would
//! count as lost. They are told with the flows, see [`crate::Decoder::with_sequences`].

pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod persistence;

/// Why stored state cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The octets are something else.
    #[error("not the state of a collector")]
    Foreign,
    /// Another version of the program wrote it.
    #[error("state has version {found}, and only version {known} can be read")]
    UnknownVersion {
        /// The version in the file.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
    /// The octets are not as they were written.
    #[error("state is damaged at octet {offset}")]
    Damaged {
        /// Octets from the start of the part that is damaged.
        offset: usize,
    },
}
