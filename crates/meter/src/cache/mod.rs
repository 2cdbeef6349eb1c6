//! The flow cache: from digests of packets to flows.
//!
//! A flow is kept in a table of entries of 128 octets, two lines of the processor's cache, and is found through an index of
//! 8 octets for each place. Who takes in many packets first touches the index and then the entries of all of them, so
//! that waiting for memory overlaps; this is what makes a table of millions of flows as fast as one of a thousand.
//!
//! **When a flow ends** depends on the times of its packets alone ([`Flow::deadline`]): a packet that comes at or after
//! the deadline of its flow begins a new one. The wheel of timeouts only finds flows that nothing more comes for, so
//! that how often it is looked at changes nothing but when a flow is delivered. Where packets go back in time, one that comes
//! after the clock has passed the deadline begins a new flow too, whether the wheel has found the old one or not: what
//! the wheel finds when depends on which flows share the table, and so on the number of workers.
//!
//! **When the table is full** the next flow takes the place of another: of some entries that a hand steps over
//! (8, or up to 64 when all of them have several packets), the one with the fewest packets, of these the one seen
//! last the longest ago. A flood of new flows so drives
//! out itself rather than the flows that were there, and every packet stays counted in some flow.

mod flow;
mod index;
mod pages;
mod wheel;

#[cfg(test)]
mod tests;

pub use flow::{EndReason, Flow, Side};

use std::collections::VecDeque;

use crate::digest::Digest;
use crate::key::KeyHasher;
use crate::options::Timeouts;
use index::Index;
use wheel::Wheel;

/// Entries that are looked at to find one to drop.
const VICTIMS: usize = 8;
/// Entries that are looked at when all of these have more than one packet.
const VICTIMS_MAX: usize = 64;
/// A clock that goes back by more microseconds than this was set, or belongs to another capture; by less, packets are
/// not quite in order.
const BACK_US_MAX: i64 = 4 << 20;
/// Packets taken in at a time.
const BATCH: usize = 64;
/// How much later than at its deadline a flow is found at most, beside the idle timeout, in microseconds: the ticks of the wheel
/// by which a clock may go back, and those before and behind them.
const FOUND_LATE_US: i64 = 8 << 20;

/// What a cache counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Flows begun.
    pub flows_begun: u64,
    /// Flows that ended before their time since the table was full.
    pub flows_evicted: u64,
    /// Most flows at the same time.
    pub flows_peak: u64,
    /// Packets taken in.
    pub packets: u64,
}

/// Takes flows as they end.
pub trait FlowSink {
    /// A flow has ended for this reason; its entry is number `slot` of the table. `ended_us` is when, by the time of the
    /// packets: between the flow's last packet and the latest time at which a clock that goes on finds that it is over.
    fn flow(&mut self, slot: u32, flow: &Flow, reason: EndReason, ended_us: i64);
    /// A packet was counted in the flow of entry number `slot`.
    fn packet(&mut self, slot: u32, flow: &Flow, digest: &Digest);
}

/// How much later than at its deadline a flow is found at most, by a clock that goes on.
const fn found_late_us(timeouts: &Timeouts) -> i64 {
    timeouts.idle_us.saturating_add(FOUND_LATE_US)
}

/// Capacity for this many flows. Memory that is reserved and not touched costs nothing, and growing would copy the table.
fn table(flows_max: usize) -> Vec<Flow> {
    let mut flows = Vec::with_capacity(flows_max);
    pages::make_large(&mut flows);
    flows
}

/// The flows that packets come for.
#[derive(Debug)]
pub struct FlowCache {
    flows: Vec<Flow>,
    index: Index,
    wheel: Wheel,
    /// Entries that hold no flow.
    free: Vec<u32>,
    flows_max: usize,
    timeouts: Timeouts,
    is_biflow: bool,
    hasher: KeyHasher,
    hand: usize,
    /// Entries that [`finish_some`](Self::finish_some) is through with.
    finished: usize,
    /// Flows that TCP has ended, in the order in which that happened, with the time at which they are delivered.
    closing: VecDeque<(u32, i64)>,
    /// The time it is, by the last [`advance`](Self::advance).
    clock_us: i64,
    counts: CacheCounts,
}

impl FlowCache {
    /// A cache of at most this many flows (at least 16). Memory is taken as flows come.
    pub fn new(flows_max: usize, timeouts: Timeouts, is_biflow: bool, hasher: KeyHasher) -> Self {
        let flows_max = flows_max.clamp(16, index::ENTRIES_MAX);
        Self {
            flows: table(flows_max),
            index: Index::new(),
            wheel: Wheel::new(flows_max),
            free: Vec::new(),
            flows_max,
            timeouts,
            is_biflow,
            hasher,
            hand: 0,
            finished: 0,
            closing: VecDeque::new(),
            clock_us: i64::MIN,
            counts: CacheCounts::default(),
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Of whatever was taken in when no packet had come that is later than this, all flows have ended. A flow goes on for the
    /// active timeout at most; and the wheel finds one by the idle timeout too late, or a little more.
    pub fn over_through_us(&self) -> i64 {
        self.clock_us.saturating_sub(self.timeouts.active_us).saturating_sub(found_late_us(&self.timeouts))
    }

    /// Flows that have not ended.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True when there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets of memory that entries, index, wheel and lists take.
    pub fn octets(&self) -> usize {
        self.flows.len() * size_of::<Flow>()
            + self.index.octets()
            + self.wheel.octets()
            + self.free.capacity() * size_of::<u32>()
            + self.closing.capacity() * size_of::<(u32, i64)>()
    }

    /// Takes in packets, in the order in which they were captured.
    pub fn take(&mut self, digests: &[Digest], ended: &mut impl FlowSink) {
        for batch in digests.chunks(BATCH) {
            self.touch(batch);
            for digest in batch {
                self.packet(digest, ended);
            }
        }
        self.counts.packets += digests.len() as u64;
    }

    /// Fetches what the packets will need. All of it is fetched independently of each other, so that the processor waits
    /// for many lines of memory at the same time.
    fn touch(&self, batch: &[Digest]) {
        let mut slots = [0_u32; BATCH];
        for (slot, digest) in slots.iter_mut().zip(batch) {
            *slot = self.index.guess(digest.hash);
        }
        let mut sum = 0;
        for &slot in &slots[..batch.len()] {
            if let Some(flow) = self.flows.get(slot as usize) {
                sum ^= flow.touch();
            }
        }
        std::hint::black_box(sum);
    }

    #[inline]
    fn packet(&mut self, digest: &Digest, ended: &mut impl FlowSink) {
        let found = self.index.find(digest.hash, |slot| *self.flows[slot as usize].index_key() == digest.key);
        let Some(slot) = found else {
            let slot = self.begin(digest, ended);
            ended.packet(slot, &self.flows[slot as usize], digest);
            return;
        };
        let flow = &mut self.flows[slot as usize];
        let now_us = digest.time_us.max(self.clock_us);
        if let Some(reason) = flow.over_before(digest, now_us, &self.timeouts, self.is_biflow) {
            let ended_us = flow.ended_us(now_us, found_late_us(&self.timeouts), &self.timeouts, self.is_biflow);
            ended.flow(slot, flow, reason, ended_us);
            flow.renew(digest);
            self.counts.flows_begun += 1;
        } else {
            flow.add(digest);
        }
        if flow.closes_now(self.is_biflow) {
            self.closing.push_back((slot, digest.time_us.saturating_add(self.timeouts.closed_us)));
        }
        ended.packet(slot, flow, digest);
    }

    /// Begins a flow and returns the number of its entry.
    #[inline(never)]
    fn begin(&mut self, digest: &Digest, ended: &mut impl FlowSink) -> u32 {
        self.counts.flows_begun += 1;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.flows.len() < self.flows_max => {
                self.flows.push(Flow::NONE);
                self.flows.len() as u32 - 1
            }
            None => self.evict(digest.time_us, ended),
        };
        let flow = &mut self.flows[slot as usize];
        flow.renew(digest);
        if flow.closes_now(self.is_biflow) {
            self.closing.push_back((slot, digest.time_us.saturating_add(self.timeouts.closed_us)));
        }
        let (deadline, _) = flow.deadline(&self.timeouts, self.is_biflow);
        self.wheel.enter(slot, flow, deadline, digest.time_us);
        self.index.insert(digest.hash, slot);
        self.counts.flows_peak = self.counts.flows_peak.max(self.index.len() as u64);
        slot
    }

    /// Ends a flow to have its entry.
    fn evict(&mut self, now_us: i64, ended: &mut impl FlowSink) -> u32 {
        let entries = self.flows.len();
        // neighbours were begun together and are alike: steps of the golden ratio look everywhere
        let stride = (entries as f64 * 0.618_033_988_75) as usize | 1;
        let (mut victim, mut least) = (self.hand, (u64::MAX, i64::MAX));
        for _ in 0..VICTIMS_MAX / VICTIMS {
            for _ in 0..VICTIMS {
                self.hand = (self.hand + stride) % entries;
                let flow = &self.flows[self.hand];
                let of = (flow.packets_total(), flow.last_us());
                if of < least {
                    (victim, least) = (self.hand, of);
                }
            }
            if least.0 == 1 {
                break;
            }
        }
        self.counts.flows_evicted += 1;
        let hash = self.hasher.hash(self.flows[victim].index_key());
        self.end(victim as u32, hash, EndReason::LackOfResources, now_us, ended);
        victim as u32
    }

    /// Tells a flow and takes it out of the index. Its entry may still be in the wheel, which knows how to go on.
    fn end(&mut self, slot: u32, hash: u64, reason: EndReason, now_us: i64, ended: &mut impl FlowSink) {
        let flow = &mut self.flows[slot as usize];
        let ended_us = flow.ended_us(now_us, found_late_us(&self.timeouts), &self.timeouts, self.is_biflow);
        ended.flow(slot, flow, reason, ended_us);
        self.index.remove(hash, slot);
        flow.clear();
    }

    /// Tells the flows whose time is over at `now_us`.
    pub fn advance(&mut self, now_us: i64, ended: &mut impl FlowSink) {
        if now_us < self.clock_us.saturating_sub(BACK_US_MAX) {
            self.set_back(ended);
            self.clock_us = now_us;
        }
        self.clock_us = self.clock_us.max(now_us);
        let now_us = self.clock_us;
        let mut slots = [0; BATCH];
        loop {
            let due = self.closing.iter().take(BATCH).take_while(|closing| closing.1 <= now_us);
            let taken = slots.iter_mut().zip(due).map(|(slot, due)| *slot = due.0).count();
            if taken == 0 {
                break;
            }
            self.closing.drain(..taken);
            self.end_those_due(&slots[..taken], now_us, ended);
        }
        loop {
            let taken = self.wheel.take_due(now_us, &mut slots);
            if taken == 0 {
                break;
            }
            let slots = &slots[..taken];
            for slot in slots {
                self.flows[*slot as usize].set_in_wheel(false);
            }
            self.end_those_due(slots, now_us, ended);
            for &slot in slots {
                let flow = &mut self.flows[slot as usize];
                if flow.is_live() {
                    let (deadline, _) = flow.deadline(&self.timeouts, self.is_biflow);
                    self.wheel.enter(slot, flow, deadline, now_us);
                }
            }
        }
    }

    /// Ends all flows whose time is over, before the clock goes back and that cannot be known any more.
    fn set_back(&mut self, ended: &mut impl FlowSink) {
        let entries = self.flows.len() as u32;
        for first in (0..entries).step_by(BATCH) {
            let slots: [u32; BATCH] = std::array::from_fn(|number| first + number as u32);
            self.end_those_due(&slots[..BATCH.min((entries - first) as usize)], self.clock_us, ended);
        }
        // in an order of times that no longer hold; the wheel finds these flows too
        self.closing.clear();
    }

    /// Ends the flows of these entries whose time is over, a batch at most. As with packets, what is needed of all of
    /// them is fetched first: their place in the index, too.
    fn end_those_due(&mut self, slots: &[u32], now_us: i64, ended: &mut impl FlowSink) {
        let mut hashes = [0_u64; BATCH];
        let mut sum = slots.iter().fold(0, |sum, slot| sum ^ self.flows[*slot as usize].touch());
        for (hash, &slot) in hashes.iter_mut().zip(slots) {
            *hash = self.hasher.hash(self.flows[slot as usize].index_key());
            sum ^= u64::from(self.index.guess(*hash));
        }
        std::hint::black_box(sum);
        for (&slot, hash) in slots.iter().zip(hashes) {
            let flow = &self.flows[slot as usize];
            let (deadline, reason) = flow.deadline(&self.timeouts, self.is_biflow);
            if flow.is_live() && deadline <= now_us {
                self.end(slot, hash, reason, now_us, ended);
                self.free.push(slot);
            }
        }
    }

    /// Ends every flow: those whose time is over at `now_us`, and the others as ended by force, or by TCP.
    pub fn finish(&mut self, now_us: i64, ended: &mut impl FlowSink) {
        while !self.finish_some(now_us, self.flows.len(), ended) {}
    }

    /// The same in portions of `entries`, one at least, for those who cannot take all flows at once; true when that
    /// was the last one. No packet is taken in between.
    pub fn finish_some(&mut self, now_us: i64, entries: usize, ended: &mut impl FlowSink) -> bool {
        if self.finished == 0 {
            self.advance(now_us, ended);
        }
        let now_us = self.clock_us;
        let until = self.finished.saturating_add(entries.max(1)).min(self.flows.len());
        for slot in self.finished..until {
            let flow = &self.flows[slot];
            if !flow.is_live() {
                continue;
            }
            let (deadline, reason) = flow.deadline(&self.timeouts, self.is_biflow);
            let reason = match reason {
                reason if deadline <= now_us => reason,
                EndReason::EndOfFlow => EndReason::EndOfFlow,
                _ => EndReason::Forced,
            };
            let ended_us = flow.ended_us(now_us, found_late_us(&self.timeouts), &self.timeouts, self.is_biflow);
            ended.flow(slot as u32, flow, reason, ended_us);
        }
        self.finished = until;
        if until < self.flows.len() {
            return false;
        }
        // what takes the flows may need the memory more
        self.flows = table(self.flows_max);
        self.free = Vec::new();
        self.closing = VecDeque::new();
        self.clock_us = i64::MIN;
        self.index = Index::new();
        self.wheel = Wheel::new(self.flows_max);
        self.finished = 0;
        true
    }
}
