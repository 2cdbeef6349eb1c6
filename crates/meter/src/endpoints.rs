//! The ends of tunnels as part of the Flow Key.
//!
//! A key has no space for two more addresses, and they should cost nothing where they are not requested. So the pair of
//! addresses is a number in the key, in the place of the tunnel's identifier, which the number refers to as well. The number
//! and its opposite direction differ in the lowest bit.
//!
//! Workers must know a pair by the same number. It is given by a table that all share; each worker remembers what it has
//! asked for, and asks under a lock only for what is new to it.
//!
//! **When the table is full** half of it is forgotten, the pairs that no packet came for while the other half became full.
//! Numbers are not given twice, so that no flow gets packets of another; a flow whose pair was forgotten and comes again
//! is exported as two. With several workers it depends on which asks first what is forgotten.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use weir_wire::packet::{Ip, Packet, Tunnel};

use crate::cache::Flow;
use crate::digest::Digest;

/// Most pairs of ends that are known at the same time. It is more than twice what can wait in inboxes, so that the worker
/// that takes a packet in still finds its pair.
pub const TUNNEL_PAIRS_MAX: usize = 1 << 20;

/// Addresses of the packet that carries another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Endpoints {
    src: [u8; 16],
    dst: [u8; 16],
    is_ipv6: bool,
}

impl Endpoints {
    fn of(ip: &Ip<'_>) -> Option<Self> {
        let is_ipv6 = ip.source.len() == 16;
        let octets = |address: &[u8]| {
            let mut octets = [0; 16];
            octets.get_mut(..address.len())?.copy_from_slice(address);
            Some(octets)
        };
        Some(Self { src: octets(ip.source)?, dst: octets(ip.destination)?, is_ipv6 })
    }

    fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, ..self }
    }

    /// Source address, 4 or 16 octets.
    pub(crate) fn src(&self) -> &[u8] {
        if self.is_ipv6 { &self.src } else { &self.src[..4] }
    }

    /// Destination address.
    pub(crate) fn dst(&self) -> &[u8] {
        if self.is_ipv6 { &self.dst } else { &self.dst[..4] }
    }
}

/// What a number refers to: the ends, the lesser as the source, and the tunnel's identifier where that is in the key. A
/// tunnel in something else than IP has no ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    ends: Option<Endpoints>,
    id: Option<u32>,
}

/// The number of the opposite direction.
const fn opposite(label: u32) -> u32 {
    if label == 0 { 0 } else { label ^ 1 }
}

/// The pairs that are known.
#[derive(Debug)]
pub(crate) struct Pairs {
    known: Mutex<Known>,
    /// Changes when pairs were forgotten.
    generation: AtomicU64,
    forgotten: AtomicU64,
    half: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// Pairs that were asked for since the last change of generations.
    new: HashMap<Pair, u32, RandomState>,
    /// Those of the generation before, as far as they were not asked for since.
    old: HashMap<Pair, u32, RandomState>,
    /// The pair of each number.
    by_label: HashMap<u32, Option<Endpoints>, RandomState>,
    last: u32,
}

impl Default for Pairs {
    fn default() -> Self {
        Self::new(TUNNEL_PAIRS_MAX)
    }
}

impl Pairs {
    fn new(pairs_max: usize) -> Self {
        let half = (pairs_max / 2).max(1);
        Self { known: Mutex::default(), generation: AtomicU64::new(0), forgotten: AtomicU64::new(0), half }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pairs that were forgotten to make room.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// The number of a pair, which it has from now on.
    fn label(&self, pair: Pair) -> u32 {
        let mut known = self.known();
        if let Some(&label) = known.new.get(&pair) {
            return label;
        }
        let label = match known.old.remove(&pair) {
            Some(label) => label,
            None => known.give(pair.ends),
        };
        known.new.insert(pair, label);
        if known.new.len() >= self.half {
            let forgotten = known.turn();
            self.forgotten.fetch_add(forgotten as u64, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
        }
        label
    }

    /// The ends that a number refers to, in its direction.
    fn ends(&self, label: u32) -> Option<Endpoints> {
        let ends = self.known().by_label.get(&(label & !1)).copied().flatten();
        ends.map(|ends| if label & 1 == 0 { ends } else { ends.reversed() })
    }
}

impl Known {
    /// Gives a number that no pair has.
    fn give(&mut self, ends: Option<Endpoints>) -> u32 {
        loop {
            // even, and not 0, which is none; after 2 thousand millions it begins again
            self.last = self.last.wrapping_add(2).max(2);
            if let std::collections::hash_map::Entry::Vacant(free) = self.by_label.entry(self.last) {
                free.insert(ends);
                return self.last;
            }
        }
    }

    /// Forgets the old pairs; returns how many.
    fn turn(&mut self) -> usize {
        for label in self.old.values() {
            self.by_label.remove(label);
        }
        let forgotten = self.old.len();
        self.old = std::mem::take(&mut self.new);
        forgotten
    }
}

/// Puts numbers into keys. Every worker has one.
#[derive(Debug)]
pub(crate) struct Labeller {
    pairs: Arc<Pairs>,
    has_id: bool,
    asked: HashMap<Pair, u32, RandomState>,
    generation: u64,
}

impl Labeller {
    /// `has_id` when the identifier of the tunnel is part of the key.
    pub(crate) fn new(pairs: Arc<Pairs>, has_id: bool) -> Self {
        Self { pairs, has_id, asked: HashMap::default(), generation: 0 }
    }

    /// Forgets what others may have forgotten.
    pub(crate) fn begin_block(&mut self) {
        let generation = self.pairs.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.asked.clear();
        }
    }

    /// The number of the ends of the outermost tunnel and the identifier of this one, in the direction of the packet; 0
    /// where nothing of a tunnel is in the key. A tunnel whose packets carry no IP has no ends but those of the flow
    /// itself.
    pub(crate) fn label(&mut self, packet: &Packet<'_>, tunnel: Option<Tunnel>) -> u32 {
        let Some(tunnel) = tunnel else { return 0 };
        let carrier = packet.outer.ip.filter(|_| packet.inner().is_some());
        let ends = carrier.and_then(|ip| Endpoints::of(&ip));
        let is_reversed = ends.is_some_and(|ends| ends.src > ends.dst);
        let ends = if is_reversed { ends.map(Endpoints::reversed) } else { ends };
        let pair = Pair { ends, id: tunnel.id.filter(|_| self.has_id) };
        if pair == (Pair { ends: None, id: None }) {
            return 0;
        }
        let label = *self.asked.entry(pair).or_insert_with(|| self.pairs.label(pair));
        label | u32::from(is_reversed)
    }
}

/// Puts a number into the key of a packet that was digested in this direction.
pub(crate) fn set_label(digest: &mut Digest, label: u32) {
    let is_reversed = digest.marks & Digest::REVERSED != 0;
    digest.key.set_tunnel_id(if is_reversed { opposite(label) } else { label });
}

/// Turns the number in a key that was turned.
pub(crate) fn turn(key: &mut crate::key::FlowKey) {
    key.set_tunnel_id(opposite(key.parts().tunnel_id));
}

/// The ends of the tunnels of flows: of those under way by the number of their entry, and of those that have ended until
/// they are delivered.
#[derive(Debug)]
pub(crate) struct FlowEndpoints {
    pairs: Arc<Pairs>,
    under_way: Vec<Option<Endpoints>>,
    ended: Vec<Option<Endpoints>>,
}

impl FlowEndpoints {
    pub(crate) fn new(pairs: Arc<Pairs>) -> Self {
        Self { pairs, under_way: Vec::new(), ended: Vec::new() }
    }

    /// Notes the ends when a flow begins with this packet.
    pub(crate) fn packet(&mut self, slot: u32, flow: &Flow, digest: &Digest) {
        if flow.packets_total() > 1 {
            return;
        }
        let slot = slot as usize;
        if self.under_way.len() <= slot {
            self.under_way.resize(slot + 1, None);
        }
        let label = digest.key.parts().tunnel_id;
        let label = if digest.marks & Digest::REVERSED == 0 { label } else { opposite(label) };
        self.under_way[slot] = if label == 0 { None } else { self.pairs.ends(label) };
    }

    /// The flow of an entry has ended.
    pub(crate) fn end(&mut self, slot: u32) {
        self.ended.push(self.under_way.get_mut(slot as usize).and_then(Option::take));
    }

    /// The ends of the flows that have ended, in order, taken once.
    pub(crate) fn take_ended(&mut self) -> std::vec::Drain<'_, Option<Endpoints>> {
        self.ended.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u32) -> Pair {
        let address = |number: u32| {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&number.to_be_bytes());
            octets
        };
        Pair { ends: Some(Endpoints { src: address(number), dst: address(u32::MAX), is_ipv6: false }), id: None }
    }

    #[test]
    fn a_number_stands_for_a_pair_and_its_opposite() {
        let pairs = Pairs::default();
        let (one, other) = (pairs.label(pair(1)), pairs.label(pair(2)));
        assert!(one != other && one % 2 == 0 && other % 2 == 0 && one != 0 && other != 0);
        assert_eq!(pairs.label(pair(1)), one);
        assert_ne!(pairs.label(Pair { id: Some(0), ..pair(1) }), one, "an identifier makes another pair");
        assert_eq!((pairs.ends(one), pairs.ends(opposite(one))), (pair(1).ends, pair(1).ends.map(Endpoints::reversed)));
        assert_eq!((opposite(0), opposite(opposite(one))), (0, one));
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_forgotten() {
        let pairs = Pairs::new(16);
        let (first, stays) = (pairs.label(pair(0)), pairs.label(pair(1)));
        let mut labels = std::collections::HashSet::from([first, stays]);
        for number in 2..1_000 {
            assert!(labels.insert(pairs.label(pair(number))), "a number is given twice");
            assert_eq!(pairs.label(pair(1)), stays);
        }
        assert!(pairs.generation.load(Ordering::Relaxed) > 100);
        let known = pairs.known();
        assert!(known.new.len() + known.old.len() <= 16 && known.by_label.len() <= 16);
        drop(known);
        assert_eq!((pairs.ends(first), pairs.ends(stays)), (None, pair(1).ends));
        assert!(labels.insert(pairs.label(pair(0))), "it comes under another number");
        assert_eq!(pairs.forgotten() as usize, 1_001 - pairs.known().by_label.len());
    }

    #[test]
    fn numbers_begin_again_after_the_last() {
        let pairs = Pairs::default();
        pairs.known().last = u32::MAX - 3;
        let last = pairs.label(pair(1));
        assert_eq!((last, pairs.label(pair(2)), pairs.label(pair(1))), (u32::MAX - 1, 2, last));
    }
}
