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

use weir_wire::TemplateId;

use crate::session::DomainKey;
use crate::waiting::HeldSet;

/// What a set waits for: a template of an Observation Domain of a transport session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub domain: DomainKey,
    pub template: TemplateId,
}

/// What a decoder asks of the spool.
#[derive(Debug)]
pub struct Request(pub(crate) Asked);

/// What the spool tells a decoder.
#[derive(Debug)]
pub struct Answer(pub(crate) Told);

#[derive(Debug)]
pub(crate) enum Asked {
    /// Keep this set.
    Put(SetKey, HeldSet),
    /// Return the sets of this key and forget them: their template has come.
    Recall(SetKey),
}

#[derive(Debug)]
pub(crate) enum Told {
    /// A process before this one left so many sets of this key.
    Found(SetKey, u64),
    /// A set that was recalled; oldest first.
    Returned(SetKey, HeldSet),
    /// Those were all.
    Done(SetKey),
    /// So many sets of this key were given up. Every set that was put is returned or given up, once.
    GivenUp(SetKey, u64),
    /// So many of those found went to another decoder, or were given up there.
    Gone(SetKey, u64),
    /// So many places in files were damaged.
    Damaged(u64),
}
