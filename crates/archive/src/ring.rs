//! The newest deliveries in memory, for followers in the writer's own process.
//!
//! The writer puts each delivery in when it has appended it, and never waits: what is too much falls out at the old
//! end, and a follower that needed it reads it from its file. A delivery that all followers have had goes at once, and
//! without a follower nothing is kept. Batches are shared, not copied, so what is kept here is memory that would have
//! been given back. What speaks against one ring for all is that the slowest follower decides how much that is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::FlowBatch;

use crate::Position;

/// Tells followers apart.
pub(crate) type FollowerId = u64;

#[derive(Debug)]
pub(crate) struct Ring {
    deliveries: Mutex<Deliveries>,
    moved: Condvar,
}

#[derive(Debug)]
struct Deliveries {
    /// One position after another, the last appended at the end.
    kept: VecDeque<Kept>,
    octets: u64,
    /// Octets that were ever put in.
    octets_total: u64,
    /// The last that was appended.
    last: Position,
    followers: BTreeMap<FollowerId, Follower>,
    next_id: FollowerId,
    /// No more will come.
    has_ended: bool,
}

#[derive(Debug)]
struct Kept {
    position: Position,
    flows: Option<FlowBatch>,
    octets: u64,
    /// Octets that were put in up to this one, itself included.
    octets_through: u64,
}

#[derive(Debug)]
struct Follower {
    /// What it needs next.
    next: Position,
    octets_max: u64,
}

/// What the ring has of a delivery.
#[derive(Debug)]
pub(crate) enum InRing {
    Flows(Option<FlowBatch>),
    /// It is in a file.
    Gone,
    /// It has not been appended yet.
    NotYet,
    /// It will never be appended by this writer.
    Ended,
}

impl Ring {
    /// Of a writer that goes on after this position.
    pub(crate) fn new(last: Position) -> Self {
        let deliveries = Deliveries {
            kept: VecDeque::new(),
            octets: 0,
            octets_total: 0,
            last,
            followers: BTreeMap::new(),
            next_id: 0,
            has_ended: false,
        };
        Self { deliveries: Mutex::new(deliveries), moved: Condvar::new() }
    }

    fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a follower; from now on deliveries are kept for it, up to so many octets.
    pub(crate) fn join(&self, next: Position, octets_max: u64) -> FollowerId {
        let mut deliveries = self.deliveries();
        let id = deliveries.next_id;
        deliveries.next_id += 1;
        deliveries.followers.insert(id, Follower { next, octets_max });
        id
    }

    pub(crate) fn leave(&self, id: FollowerId) {
        let mut deliveries = self.deliveries();
        deliveries.followers.remove(&id);
        deliveries.drop_used();
    }

    /// Puts in what was appended; called in the order of positions, for each.
    pub(crate) fn push(&self, position: Position, flows: Option<&FlowBatch>) {
        let mut deliveries = self.deliveries();
        deliveries.last = position;
        if deliveries.followers.is_empty() {
            return;
        }
        let octets = flows.map_or(0, |flows| flows.record_batch().get_array_memory_size() as u64);
        deliveries.octets += octets;
        deliveries.octets_total += octets;
        let octets_through = deliveries.octets_total;
        deliveries.kept.push_back(Kept { position, flows: flows.cloned(), octets, octets_through });
        let octets_max = deliveries.followers.values().map(|follower| follower.octets_max).max().unwrap_or(0);
        while deliveries.octets > octets_max {
            deliveries.drop_first();
        }
        drop(deliveries);
        self.moved.notify_all();
    }

    /// No more will come.
    pub(crate) fn end(&self) {
        self.deliveries().has_ended = true;
        self.moved.notify_all();
    }

    /// What is here of a delivery that a follower needs next. It needs none before.
    pub(crate) fn take(&self, id: FollowerId, next: Position) -> InRing {
        let mut deliveries = self.deliveries();
        let found = deliveries.find(next);
        let has_it = matches!(found, InRing::Flows(_));
        if let Some(follower) = deliveries.followers.get_mut(&id) {
            follower.next = if has_it { next.next() } else { next };
        }
        deliveries.drop_used();
        found
    }

    /// Whether a delivery is here, or is still to be appended.
    pub(crate) fn has(&self, position: Position) -> bool {
        matches!(self.deliveries().find(position), InRing::Flows(_) | InRing::NotYet)
    }

    /// Waits until this position is appended, or none will be any more, or the time is over.
    pub(crate) fn wait(&self, position: Position, timeout: Duration) {
        let is_missing = |deliveries: &mut Deliveries| deliveries.last < position && !deliveries.has_ended;
        drop(self.moved.wait_timeout_while(self.deliveries(), timeout, is_missing));
    }

    /// The last position that was appended.
    pub(crate) fn last(&self) -> Position {
        self.deliveries().last
    }

    /// Octets in memory of the deliveries after this one, when all of them are here.
    pub(crate) fn octets_after(&self, position: Position) -> Option<u64> {
        let deliveries = self.deliveries();
        if position >= deliveries.last {
            return Some(0);
        }
        let at = position.next().get().checked_sub(deliveries.kept.front()?.position.get())?;
        let next = deliveries.kept.get(at as usize)?;
        Some(deliveries.octets_total - (next.octets_through - next.octets))
    }
}

impl Deliveries {
    fn find(&self, position: Position) -> InRing {
        if position > self.last {
            return if self.has_ended { InRing::Ended } else { InRing::NotYet };
        }
        let first = self.kept.front().map(|kept| kept.position.get());
        let at = first.and_then(|first| position.get().checked_sub(first));
        match at.and_then(|at| self.kept.get(at as usize)) {
            Some(kept) => InRing::Flows(kept.flows.clone()),
            None => InRing::Gone,
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.kept.pop_front() {
            self.octets -= first.octets;
        }
    }

    /// Drops what no follower needs.
    fn drop_used(&mut self) {
        let needed = self.followers.values().map(|follower| follower.next).min();
        while self.kept.front().is_some_and(|kept| needed.is_none_or(|needed| kept.position < needed)) {
            self.drop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{Column, FlowBatchBuilder};

    use super::*;

    fn flows(rows: usize) -> FlowBatch {
        let mut builder = FlowBatchBuilder::new(rows);
        builder.begin_rows(rows);
        builder.time(Column::Received).repeat(7, rows);
        builder.finish()
    }

    #[test]
    fn what_is_too_much_falls_out_and_nobody_waits() {
        let (one, at) = (flows(1000), Position::new);
        let octets = one.record_batch().get_array_memory_size() as u64;
        let ring = Ring::new(at(10));
        ring.push(at(11), Some(&one));
        let slow = ring.join(at(12), 3 * octets);
        assert!(matches!(ring.take(slow, at(11)), InRing::Gone), "nothing is kept without a follower");
        for position in 12..=16 {
            ring.push(at(position), Some(&one));
        }
        assert!(matches!(ring.take(slow, at(13)), InRing::Gone));
        assert_eq!([13, 14, 16, 17].map(|position| ring.has(at(position))), [false, true, true, true]);
        assert_eq!((ring.octets_after(at(13)), ring.octets_after(at(12))), (Some(3 * octets), None));
        let quick = ring.join(at(17), 0);
        assert!(matches!(ring.take(quick, at(17)), InRing::NotYet));
        assert!(matches!(ring.take(slow, at(14)), InRing::Flows(Some(_))));
        assert_eq!(ring.deliveries().kept.len(), 2, "what all have had goes");
        ring.leave(slow);
        assert_eq!(ring.deliveries().kept.len(), 0);
        assert_eq!(ring.deliveries().octets, 0);
        ring.end();
        assert!(matches!(ring.take(quick, at(17)), InRing::Ended));
        ring.wait(at(17), Duration::MAX);
    }
}
