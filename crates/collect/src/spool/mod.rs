//! Data Sets that wait for their template on disk.
//!
//! What does not fit into memory, or has waited there for some seconds, goes to a folder of segments and comes back
//! when its template has come, in order; also after the process was killed and another has taken its place.
//! [`Spool`] does the I/O and belongs to a thread of its own, for disks may be slow; a decoder only makes
//! [`Request`]s and takes [`Answer`]s.
//!
//! Nothing is synced: what a killed process has written is in the page cache. After a power failure the checksums find
//! what did not get to the disk, and it is counted.

mod format;
mod segment;
mod store;
pub(crate) mod thread;

pub use store::{Spool, SpoolError, SpoolStatistics};

use crate::waiting::SpoolAnswer;
use crate::waiting::spooled::SpoolRequest;

/// What a decoder asks of the spool.
#[derive(Debug)]
pub struct Request(pub(crate) SpoolRequest);

/// What the spool answers to a decoder.
#[derive(Debug)]
pub struct Answer(pub(crate) SpoolAnswer);
