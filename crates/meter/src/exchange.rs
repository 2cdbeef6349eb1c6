//! What workers share: the source, the order of blocks, the table of fragments, and an inbox for each of them.
//!
//! A block gets its number when it is filled, and its turn goes by these numbers: in its turn a parcel of it is put into
//! every inbox. So each inbox has the parcels in the order of the blocks, and the shard that a worker owns takes in
//! packets in the order in which they were captured, whichever worker dissected them. A worker that has dissected a block before
//! its turn leaves it to the one that dissects the block before, and does not wait. Locks are taken once for each block, not for
//! each packet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::counts::MeterCounts;
use crate::digest::Digest;
use crate::dissection::Dissection;
use crate::endpoints::Pairs;
use crate::fragments::{Fragment, Fragments, Resolved};
use weir_capture::{FillOutcome, Interface, PacketBlock, PacketSource, SourceCounts, SourceError};

/// Parcels that may wait in an inbox before no worker takes another block. Blocks that wait for their turn come on top, and
/// those that are being dissected.
const PARCELS_MAX: usize = 16;
/// Blocks that may wait for their turn before no worker takes another one.
const READY_MAX: usize = 16;
/// Parcels that are kept to be filled again.
const SPARE_MAX: usize = 64;
/// How long to sleep at most when there is nothing to do; what is waited for wakes up earlier.
const NAP: Duration = Duration::from_millis(50);

/// What one block has for one shard.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    pub(crate) digests: Vec<Digest>,
    /// The packets themselves, for those who look into them.
    pub(crate) block: Option<Arc<PacketBlock>>,
    /// The time it is after the block, microseconds since the epoch.
    pub(crate) clock_us: i64,
    /// No fragment is held that came when no packet was later than this.
    pub(crate) none_held_through_us: i64,
    /// Nothing comes after it.
    pub(crate) is_last: bool,
}

/// A block that was taken from a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Its number among blocks.
    pub(crate) number: u64,
    /// The number of its first packet among packets.
    pub(crate) first_packet: u64,
    /// The time it is after it.
    pub(crate) clock_us: i64,
    /// There are no packets in it, and there will be none.
    pub(crate) is_last: bool,
}

/// What asking for a block came to.
#[derive(Debug)]
pub(crate) enum Feed {
    /// Here it is.
    Taken(Taken),
    /// First empty the inboxes.
    Full,
    /// All blocks were taken.
    Over,
}

/// Numbers given to blocks.
#[derive(Debug)]
struct Given {
    blocks: u64,
    packets: u64,
    clock_us: i64,
    /// The latest time of any packet.
    latest_us: i64,
    /// Sources that have not ended.
    sources: usize,
}

/// Whose turn it is.
#[derive(Debug)]
struct Turn {
    block: u64,
    fragments: Fragments,
    /// Blocks that were dissected before their turn, by their numbers.
    ready: BTreeMap<u64, Ready>,
}

/// A block that was dissected.
#[derive(Debug)]
struct Ready {
    taken: Taken,
    shards: Vec<Vec<Digest>>,
    fragments: Vec<Fragment>,
    block: Option<Arc<PacketBlock>>,
}

/// A source, as long as it has not ended, and what it counted.
struct Feeder {
    source: Box<dyn PacketSource>,
    has_ended: bool,
}

/// What workers share.
pub(crate) struct Exchange {
    feeders: Vec<Mutex<Feeder>>,
    given: Mutex<Given>,
    turn: Mutex<Turn>,
    inboxes: Vec<Mutex<VecDeque<Parcel>>>,
    spare: Mutex<Vec<Vec<Digest>>>,
    /// Told whenever parcels were put into inboxes and the turn was passed on.
    moved: Condvar,
    failure: Mutex<Option<SourceError>>,
    stop: AtomicBool,
    /// A worker has gone before its end, so that the others wait in vain for its blocks.
    abandoned: AtomicBool,
    counts: Vec<Mutex<MeterCounts>>,
    /// Of each worker: the flows of what had come when no packet was later than this were handed on.
    handed_on: Vec<AtomicI64>,
    /// The ends of tunnels, where they are part of the key.
    pub(crate) pairs: Option<Arc<Pairs>>,
}

/// A worker that panicked spoils nothing that others may not see.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    /// Workers with these sources: one for all, or one for each.
    pub(crate) fn new(sources: Vec<Box<dyn PacketSource>>, workers: usize, pairs: Option<Arc<Pairs>>) -> Self {
        let given = Given { blocks: 0, packets: 0, clock_us: 0, latest_us: i64::MIN, sources: sources.len() };
        let feeder = |source| Mutex::new(Feeder { source, has_ended: false });
        Self {
            feeders: sources.into_iter().map(feeder).collect(),
            given: Mutex::new(given),
            turn: Mutex::new(Turn { block: 0, fragments: Fragments::default(), ready: BTreeMap::new() }),
            inboxes: (0..workers).map(|_| Mutex::default()).collect(),
            spare: Mutex::default(),
            moved: Condvar::new(),
            failure: Mutex::default(),
            stop: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            counts: (0..workers).map(|_| Mutex::default()).collect(),
            handed_on: (0..workers).map(|_| AtomicI64::new(i64::MIN)).collect(),
            pairs,
        }
    }

    /// Sources end with the next block.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Says that a worker has gone before its end.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.moved.notify_all();
    }

    /// Whether a worker has gone before its end, so that the others can only end too.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// What sources counted.
    pub(crate) fn source_counts(&self) -> SourceCounts {
        self.feeders.iter().map(|feeder| lock(feeder).source.counts()).fold(SourceCounts::default(), SourceCounts::and)
    }

    /// What workers counted.
    pub(crate) fn counts(&self) -> MeterCounts {
        let mut sum = MeterCounts::default();
        self.counts.iter().for_each(|counts| sum.add(&lock(counts)));
        sum.tunnel_pairs_forgotten = self.pairs.as_ref().map_or(0, |pairs| pairs.forgotten());
        sum.fragments_held = lock(&self.turn).fragments.held() as u64;
        sum
    }

    pub(crate) fn set_counts(&self, worker: usize, counts: &MeterCounts) {
        *lock(&self.counts[worker]) = *counts;
    }

    /// The latest time of all packets that sources have delivered. It waits for a source that is being read.
    pub(crate) fn latest_us(&self) -> i64 {
        // times are noted before a source is let go
        self.feeders.iter().for_each(|feeder| drop(lock(feeder)));
        lock(&self.given).latest_us
    }

    /// A worker has handed on the flows of what had come when no packet was later than this.
    pub(crate) fn set_handed_on(&self, worker: usize, through_us: i64) {
        self.handed_on[worker].fetch_max(through_us, Ordering::Release);
    }

    /// Through when all workers have handed flows on.
    pub(crate) fn handed_on_through_us(&self) -> i64 {
        self.handed_on.iter().map(|through| through.load(Ordering::Acquire)).min().unwrap_or(i64::MIN)
    }

    /// The names of interfaces by the position that digests know them by.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.feeders.first().map(|feeder| lock(feeder).source.interfaces().to_vec()).unwrap_or_default()
    }

    /// Why a source ended early, reported once.
    pub(crate) fn take_failure(&self) -> Option<SourceError> {
        lock(&self.failure).take()
    }

    /// Fills a block.
    pub(crate) fn feed(&self, worker: usize, block: &mut PacketBlock) -> Feed {
        let is_full = |inbox: &Mutex<VecDeque<Parcel>>| lock(inbox).len() >= PARCELS_MAX;
        if self.inboxes.iter().any(is_full) || lock(&self.turn).ready.len() >= READY_MAX {
            return Feed::Full;
        }
        let mut feeder = lock(&self.feeders[worker % self.feeders.len()]);
        if feeder.has_ended {
            return Feed::Over;
        }
        // the source empties the block
        let pulled = if self.stop.load(Ordering::Acquire) {
            block.clear();
            FillOutcome::Ended
        } else {
            self.fill(&mut feeder, block)
        };
        // numbers are given while no other worker can fill a block from this source, so that they go by its order
        let mut given = lock(&self.given);
        let (number, first_packet) = (given.blocks, given.packets);
        given.packets += block.packets().len() as u64;
        given.latest_us = block.packets().iter().map(|packet| packet.time_us).fold(given.latest_us, i64::max);
        given.clock_us = match (pulled, block.packets().last()) {
            (FillOutcome::Nothing { clock_us }, _) => clock_us,
            (_, Some(last)) => last.time_us,
            _ => given.clock_us,
        };
        if pulled == FillOutcome::Ended {
            feeder.has_ended = true;
            given.sources -= 1;
            if given.sources > 0 {
                return Feed::Over;
            }
        }
        given.blocks += 1;
        Feed::Taken(Taken { number, first_packet, clock_us: given.clock_us, is_last: given.sources == 0 })
    }

    /// Asks the source; one that fails has ended, and what it put into the block is not used.
    fn fill(&self, feeder: &mut Feeder, block: &mut PacketBlock) -> FillOutcome {
        feeder.source.fill(block).unwrap_or_else(|error| {
            block.clear();
            lock(&self.failure).get_or_insert(error);
            self.stop();
            FillOutcome::Ended
        })
    }

    /// The next parcel of a worker.
    pub(crate) fn parcel(&self, worker: usize) -> Option<Parcel> {
        lock(&self.inboxes[worker]).pop_front()
    }

    /// Takes back what was in a parcel, to be filled again.
    pub(crate) fn give_back(&self, mut digests: Vec<Digest>) {
        digests.clear();
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX {
            spare.push(digests);
        }
    }

    /// Waits until something is in the inbox of a worker, or for a moment.
    pub(crate) fn nap(&self, worker: usize) {
        let turn = lock(&self.turn);
        if lock(&self.inboxes[worker]).is_empty() {
            // parcels are put into inboxes while the turn is locked, so that none comes between the look and the sleep
            drop(self.moved.wait_timeout(turn, NAP));
        }
    }

    /// Leaves what a block was dissected into for its turn; when it is here, puts the parcels of this block, and of those
    /// that waited for it, into the inboxes.
    pub(crate) fn publish(
        &self,
        taken: Taken,
        dissection: &mut Dissection,
        block: Option<&Arc<PacketBlock>>,
        counts: &mut MeterCounts,
    ) {
        let ready = Ready {
            taken,
            shards: dissection.shards.iter_mut().map(|digests| std::mem::replace(digests, self.empty())).collect(),
            fragments: std::mem::take(&mut dissection.fragments),
            block: block.map(Arc::clone),
        };
        let mut turn = lock(&self.turn);
        if turn.block != taken.number {
            turn.ready.insert(taken.number, ready);
            return;
        }
        let mut next = Some(ready);
        while let Some(ready) = next {
            self.publish_in_turn(&mut turn, ready, dissection, counts);
            turn.block += 1;
            let number = turn.block;
            next = turn.ready.remove(&number);
        }
        drop(turn);
        self.moved.notify_all();
    }

    /// A list to be filled.
    fn empty(&self) -> Vec<Digest> {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// Gives fragments their ports, and puts a parcel into every inbox.
    fn publish_in_turn(
        &self,
        turn: &mut Turn,
        mut ready: Ready,
        dissection: &mut Dissection,
        counts: &mut MeterCounts,
    ) {
        let taken = ready.taken;
        if !ready.fragments.is_empty() || taken.is_last || turn.fragments.is_due(taken.clock_us) {
            let mut resolved = Resolved::default();
            turn.fragments.take(&ready.fragments, &mut resolved);
            turn.fragments.pass(taken.clock_us, &mut resolved);
            if taken.is_last {
                turn.fragments.finish(&mut resolved);
            }
            dissection.resolve(&mut ready.shards, &mut resolved, counts);
        }
        let none_held_through_us = turn.fragments.none_held_through_us();
        let Taken { clock_us, is_last, .. } = taken;
        for (inbox, digests) in self.inboxes.iter().zip(ready.shards) {
            let block = ready.block.clone();
            let parcel = Parcel { digests, block, clock_us, none_held_through_us, is_last };
            lock(inbox).push_back(parcel);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::packet::LinkType;

    use super::*;
    use crate::digest::Digester;
    use crate::key::{KeyFields, KeyHasher};
    use weir_capture::PacketMeta;

    /// Hands on blocks of one packet each, for ever; the time of each is its number.
    struct Endless(i64);

    impl PacketSource for Endless {
        fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
            block.clear();
            self.0 += 1;
            let link = LinkType::Ethernet;
            let meta = PacketMeta { time_us: self.0, offset: 0, captured: 0, length: 0, interface: 0, link };
            block.push(meta, &[]);
            Ok(FillOutcome::Packets)
        }

        fn interfaces(&self) -> &[Interface] {
            &[]
        }

        fn counts(&self) -> SourceCounts {
            SourceCounts::default()
        }
    }

    fn dissection() -> Dissection {
        Dissection::new(Digester::new(KeyFields::default(), false, KeyHasher::new(1)), None, None, 2)
    }

    #[test]
    fn blocks_that_wait_for_one_before_are_bounded_and_come_in_order() {
        let exchange = Exchange::new(vec![Box::new(Endless(0))], 2, None);
        let (mut block, mut counts) = (PacketBlock::default(), MeterCounts::default());
        let Feed::Taken(slow) = exchange.feed(0, &mut block) else { panic!("the first block") };
        let mut early = 0;
        while let Feed::Taken(taken) = exchange.feed(1, &mut block) {
            exchange.publish(taken, &mut dissection(), None, &mut counts);
            early += 1;
            assert!(early <= READY_MAX, "nobody takes blocks without end while one is slow");
        }
        assert_eq!(early, READY_MAX);
        assert!(exchange.parcel(0).is_none() && exchange.parcel(1).is_none(), "not before their turn");
        exchange.publish(slow, &mut dissection(), None, &mut counts);
        assert!(matches!(exchange.feed(1, &mut block), Feed::Full), "the inboxes are full now");
        for worker in 0..2 {
            let times: Vec<i64> =
                std::iter::from_fn(|| exchange.parcel(worker)).map(|parcel| parcel.clock_us).collect();
            assert_eq!(times, (1..=READY_MAX as i64 + 1).collect::<Vec<_>>());
        }
        assert!(matches!(exchange.feed(0, &mut block), Feed::Taken(_)));
    }
}
