//! Fragments and the flows that they belong to.
//!
//! Only the first fragment of a packet has ports, and shows the protocol behind headers that are in it alone. They are
//! remembered for the others; a fragment that comes before the first is held until that comes. Both have limits in
//! number and time ([`FRAGMENTS_HELD_MAX`], [`FIRST_FRAGMENTS_MAX`], [`FRAGMENT_TIMEOUT_US`]); a fragment whose first one
//! does not come within them is counted in the flow that has no ports (`fragments_without_first`), so that no packet is
//! lost. Time passes with all packets, a block at a time: a fragment that is held keeps what came since from being known
//! as handed on, and there may be no other fragment for hours.
//!
//! Where a packet that carries another one in a tunnel is in fragments, the first one shows the headers of the packet
//! within, which is metered with its whole length. The further ones would count the same octets again, in a flow of
//! their own: they are counted and in no flow (`fragments_of_tunnels`).
//!
//! This is one table for all workers, since fragments find their worker only when they have ports. Whoever
//! hands a block on locks it once, in the order of the blocks, and takes more than a look at it only when there is a fragment in
//! the block or the time of one that is held has passed.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;

use crate::digest::{Digest, FragmentId};
use crate::key::FragmentTransport;

/// How long ports are remembered and fragments held, in microseconds of packet time (RFC 791 section 3.2 has 15 seconds
/// as a lower bound, RFC 8200 section 4.5 has 60).
pub const FRAGMENT_TIMEOUT_US: i64 = 60_000_000;
/// Most packets whose ports are remembered.
pub const FIRST_FRAGMENTS_MAX: usize = 65_536;
/// Most fragments that are held.
pub const FRAGMENTS_HELD_MAX: usize = 65_536;

/// What fragments of one block come to. Those of this block keep their places among its packets. Those that were held
/// take the place of the first one, or the beginning of the block, and are marked [`Digest::HELD`].
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Fragments with the protocol and the ports of their flow.
    pub(crate) with_transport: Vec<(Digest, FragmentTransport)>,
    /// Fragments whose ports did not come.
    pub(crate) without_ports: Vec<Digest>,
    /// Fragments of packets whose first one was metered by what it carries.
    pub(crate) of_tunnels: u64,
}

/// A fragment, as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fragment {
    /// The first of its packet: what the others learn from it, its time, and its number in the block.
    First(FragmentId, FragmentTransport, i64, u32),
    /// The first of a packet that carries another one, which is metered: its time.
    Carrier(FragmentId, i64),
    /// Another.
    Later(FragmentId, Digest),
}

/// What is known of a packet in fragments.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// The first fragment has not come.
    Awaited,
    /// The first fragment has shown this.
    Transport(FragmentTransport),
    /// It carries the packet that was metered.
    Carrier,
}

/// A fragment that waits for the first one.
#[derive(Debug, Clone, Copy)]
struct Held {
    digest: Digest,
    /// The block that it came in.
    block: u64,
}

impl Held {
    /// The digest, to be taken in with this block, at the place of packet number `packet` if it came before.
    fn placed(self, block: u64, packet: u32) -> Digest {
        if self.block == block {
            return self.digest;
        }
        Digest { packet, marks: self.digest.marks | Digest::HELD, ..self.digest }
    }
}

/// Whether what came at one time has had its time at another.
fn is_over(since_us: i64, now_us: i64) -> bool {
    now_us.saturating_sub(since_us) >= FRAGMENT_TIMEOUT_US
}

/// The table of all fragments.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    /// Packets in fragments.
    known: HashMap<FragmentId, Known, RandomState>,
    /// Packets in the order in which they were first seen, with the time of that.
    order: VecDeque<(FragmentId, i64)>,
    held: HashMap<FragmentId, Vec<Held>, RandomState>,
    held_count: usize,
    /// Blocks that had fragments so far.
    blocks: u64,
}

impl Fragments {
    /// Fragments that are held.
    pub(crate) fn held(&self) -> usize {
        self.held_count
    }

    /// Before the time of a packet that came no later than any fragment that is held; the end of time when none is. What came
    /// when no packet was later is in flows, or in this block.
    pub(crate) fn none_held_through_us(&self) -> i64 {
        let first = self.order.front().filter(|_| self.held_count > 0);
        first.map_or(i64::MAX, |(_, since_us)| since_us.saturating_sub(1))
    }

    /// Takes in the fragments of a block.
    pub(crate) fn take(&mut self, fragments: &[Fragment], resolved: &mut Resolved) {
        self.blocks += 1;
        for fragment in fragments {
            match *fragment {
                Fragment::First(id, transport, time_us, packet) => {
                    self.first(id, transport, (time_us, packet), resolved);
                }
                Fragment::Carrier(id, time_us) => self.carrier(id, time_us, resolved),
                Fragment::Later(id, digest) => self.later(id, digest, resolved),
            }
        }
    }

    fn first(
        &mut self,
        id: FragmentId,
        transport: FragmentTransport,
        (time_us, packet): (i64, u32),
        resolved: &mut Resolved,
    ) {
        let held = self.learn(id, Known::Transport(transport), time_us, resolved);
        let placed = held.into_iter().map(|held| (held.placed(self.blocks, packet), transport));
        resolved.with_transport.extend(placed);
    }

    fn carrier(&mut self, id: FragmentId, time_us: i64, resolved: &mut Resolved) {
        let held = self.learn(id, Known::Carrier, time_us, resolved);
        resolved.of_tunnels += held.len() as u64;
    }

    /// Remembers what a first fragment shows, and lets those go that waited for it.
    fn learn(&mut self, id: FragmentId, known: Known, time_us: i64, resolved: &mut Resolved) -> Vec<Held> {
        self.expire(time_us, resolved);
        if self.known.insert(id, known).is_none() {
            self.order.push_back((id, time_us));
        }
        let held = self.held.remove(&id).unwrap_or_default();
        self.held_count -= held.len();
        held
    }

    fn later(&mut self, id: FragmentId, digest: Digest, resolved: &mut Resolved) {
        self.expire(digest.time_us, resolved);
        match self.known.get(&id) {
            Some(&Known::Transport(transport)) => {
                resolved.with_transport.push((digest, transport));
                return;
            }
            Some(Known::Carrier) => {
                resolved.of_tunnels += 1;
                return;
            }
            Some(Known::Awaited) => {}
            None => {
                self.known.insert(id, Known::Awaited);
                self.order.push_back((id, digest.time_us));
            }
        }
        if self.held_count >= FRAGMENTS_HELD_MAX {
            resolved.without_ports.push(digest);
        } else {
            self.held_count += 1;
            self.held.entry(id).or_default().push(Held { digest, block: self.blocks });
        }
    }

    /// Whether fragments are held, and the oldest entry of the table has had its time.
    pub(crate) fn is_due(&self, now_us: i64) -> bool {
        self.held_count > 0 && self.order.front().is_some_and(|&(_, since_us)| is_over(since_us, now_us))
    }

    /// Gives back fragments that were held for their time, as packets without fragments show that it has passed.
    pub(crate) fn pass(&mut self, now_us: i64, resolved: &mut Resolved) {
        while self.is_due(now_us)
            && let Some((id, _)) = self.order.pop_front()
        {
            self.forget(id, resolved);
        }
    }

    /// Forgets what is too old or too much.
    fn expire(&mut self, now_us: i64, resolved: &mut Resolved) {
        while let Some(&(id, since_us)) = self.order.front()
            && (is_over(since_us, now_us) || self.order.len() >= FIRST_FRAGMENTS_MAX)
        {
            self.order.pop_front();
            self.forget(id, resolved);
        }
    }

    fn forget(&mut self, id: FragmentId, resolved: &mut Resolved) {
        self.known.remove(&id);
        if let Some(held) = self.held.remove(&id) {
            self.held_count -= held.len();
            resolved.without_ports.extend(held.into_iter().map(|held| held.placed(self.blocks, 0)));
        }
    }

    /// Gives back everything that is held.
    pub(crate) fn finish(&mut self, resolved: &mut Resolved) {
        while let Some((id, _)) = self.order.pop_front() {
            self.forget(id, resolved);
        }
    }
}
