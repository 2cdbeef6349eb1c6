//! Begins of associations (RFC 9260 section 5.1), kept until the first user data comes.
//!
//! INIT has the number of the first chunk of its sender, but not yet the tag that its peer will choose.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::capture::sctp::BeginChunk;

/// Most begins that wait for user data; the oldest is forgotten for another.
pub(super) const BEGINS_MAX: usize = 1024;
/// Most further addresses of a sender.
const ADDRESSES_MAX: usize = 8;

/// Source and destination.
type Path = (SocketAddr, SocketAddr);

/// What the sender of INIT or INIT ACK said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begin {
    /// The TSN of its first chunk of user data.
    pub(super) initial_tsn: u32,
    /// The tag of packets that are sent to it.
    pub(super) initiate_tag: u32,
    /// Further addresses that its packets may come from.
    pub(super) addresses: Vec<IpAddr>,
}

/// Begins that wait for user data.
#[derive(Debug, Default)]
pub(super) struct Begins {
    by_path: HashMap<Path, Begin, foldhash::fast::RandomState>,
    /// The oldest first; those that were taken are among them.
    order: VecDeque<Path>,
}

impl Begins {
    /// Adds a begin, in place of an earlier one of the same addresses and ports.
    pub(super) fn add(&mut self, path: Path, chunk: &BeginChunk<'_>) {
        let addresses = chunk.addresses().take(ADDRESSES_MAX).collect();
        let begin = Begin { initial_tsn: chunk.initial_tsn, initiate_tag: chunk.initiate_tag, addresses };
        if self.by_path.insert(path, begin).is_none() {
            self.order.push_back(path);
        }
        if self.order.len() > BEGINS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_path.remove(&oldest);
        }
    }

    /// Takes the begin of what goes from one address and port to another.
    pub(super) fn take(&mut self, path: Path) -> Option<Begin> {
        self.by_path.remove(&path)
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_path.len().max(self.order.len())
    }
}
