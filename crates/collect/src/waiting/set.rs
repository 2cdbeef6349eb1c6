//! A Data Set that waits, and what it waits for.

use weir_wire::TemplateId;

use crate::clock::MessageClock;
use crate::domain::DomainKey;

/// A Data Set whose template has not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingSet {
    pub clock: MessageClock,
    pub body: Box<[u8]>,
    /// Running number, by which the account of sequence numbers identifies it; [`UNNUMBERED`] when a process before this one has
    /// left it on disk.
    pub number: u64,
}

/// The number of sets that no account of sequence numbers waits for.
pub(crate) const UNNUMBERED: u64 = u64::MAX;

/// Octets that a waiting set costs in addition to its body: its entries in three trees that are at least half full.
pub(super) const OVERHEAD_OCTETS: usize = 320;

impl WaitingSet {
    /// What it costs while it is kept.
    pub(crate) fn octets(&self) -> usize {
        self.body.len() + OVERHEAD_OCTETS
    }
}

/// What a set waits for: a template of an Observation Domain of a transport session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub domain: DomainKey,
    pub template: TemplateId,
}
