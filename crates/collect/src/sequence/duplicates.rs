//! Datagrams that came twice.
//!
//! Networks and mirrors deliver a datagram more than once, and its flows must not be stored more than once. Exporters
//! also send different datagrams under one number, and those must not be lost. So a datagram is a duplicate only when
//! its number and all of its octets are those of one of the last datagrams, the octets compared by a keyed hash of
//! 64 bits.

use std::collections::VecDeque;
use std::hash::BuildHasher;

/// The last datagrams of one Observation Domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Duplicates {
    last: VecDeque<(u32, u64)>,
    newest: u32,
}

/// Numbers farther behind than this belong to an exporter that has started again.
const BEHIND_MAX: u32 = 1 << 16;

/// Hashes datagrams. The seed is random, so that no sender can make a datagram that is taken for one of another
/// exporter.
#[derive(Debug, Clone, Default)]
pub(crate) struct DatagramHasher(foldhash::fast::RandomState);

impl DatagramHasher {
    #[inline]
    pub(crate) fn hash(&self, payload: &[u8]) -> u64 {
        self.0.hash_one(payload)
    }
}

impl Duplicates {
    /// Whether this datagram is one of the last.
    #[inline]
    pub(crate) fn has(&self, sequence: u32, hash: u64) -> bool {
        // Numbers that move on are new: the common case needs no search.
        (sequence.wrapping_sub(self.newest) as i32) <= 0 && self.last.contains(&(sequence, hash))
    }

    /// Remembers a datagram, and forgets the oldest beyond `datagrams_max`.
    #[inline]
    pub(crate) fn remember(&mut self, sequence: u32, hash: u64, datagrams_max: usize) {
        while self.last.len() >= datagrams_max {
            if self.last.pop_front().is_none() {
                return;
            }
        }
        if self.last.is_empty() || self.newest.wrapping_sub(sequence) > BEHIND_MAX {
            self.newest = sequence;
        }
        self.last.push_back((sequence, hash));
    }
}
