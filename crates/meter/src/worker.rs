//! A worker: it dissects whichever block comes next, and keeps the flows of its shard.

use std::sync::Arc;

use weir_flow::FlowBatch;

use crate::cache::FlowCache;
use crate::counts::MeterCounts;
use crate::digest::Digester;
use crate::dissection::Dissection;
use crate::endpoints::{FlowEndpoints, Labeller};
use crate::exchange::{Exchange, Feed, Parcel, Taken};
use crate::key::KeyHasher;
use crate::options::MeterOptions;
use crate::rows::{BatchDelivery, FlowRows};
use weir_capture::PacketBlock;

/// Room of a block; sources may take more.
const BLOCK_OCTETS: usize = 1 << 20;
const BLOCK_PACKETS: usize = 8 << 10;
/// Entries of the table that are delivered at a time in the end.
const ENDING_FLOWS: usize = 16 << 10;

/// What a step of a worker came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more to do at once.
    More,
    /// Nothing was there to be done; the worker has slept for a moment.
    Nothing,
    /// All packets are in flows that were delivered.
    Ended,
}

/// One worker of a Metering Process.
pub struct Worker {
    number: usize,
    exchange: Arc<Exchange>,
    dissection: Dissection,
    /// Blocks, of which all but those that others look into are free.
    blocks: Vec<Arc<PacketBlock>>,
    cache: FlowCache,
    rows: FlowRows,
    /// Packets up to this time are in flows that are handed on once so many flows are.
    marked: Option<(i64, u64)>,
    counts: MeterCounts,
    /// The time it is when all packets are in flows, which are then delivered in portions.
    ending_us: Option<i64>,
    has_ended: bool,
}

impl Worker {
    pub(crate) fn new(number: usize, workers: usize, options: &MeterOptions, exchange: Arc<Exchange>) -> Self {
        let hasher = KeyHasher::new(options.seed);
        let digester = Digester::new(options.fields, options.is_biflow, hasher.clone());
        let labeller = exchange.pairs.clone().map(|pairs| Labeller::new(pairs, options.fields.tunnel));
        let endpoints = exchange.pairs.clone().map(FlowEndpoints::new);
        let flows_max = options.flows_max.div_ceil(workers);
        Self {
            number,
            exchange,
            dissection: Dissection::new(digester, options.sampler(), labeller, workers),
            blocks: Vec::new(),
            cache: FlowCache::new(flows_max, options.timeouts, options.is_biflow, hasher),
            rows: FlowRows::new(options, endpoints),
            marked: None,
            counts: MeterCounts::default(),
            ending_us: None,
            has_ended: false,
        }
    }

    /// Sources end soon: flows are not wanted any more.
    pub fn stop(&self) {
        self.exchange.stop();
    }

    /// Does what is to be done next, and hands flows on in batches.
    pub fn step(&mut self, out: &mut dyn FnMut(FlowBatch)) -> Step {
        if self.has_ended || self.exchange.is_abandoned() {
            self.has_ended = true;
            return Step::Ended;
        }
        if let Some(clock_us) = self.ending_us {
            return self.end(clock_us, out);
        }
        let mut step = Step::Nothing;
        while let Some(parcel) = self.exchange.parcel(self.number) {
            step = Step::More;
            self.take(parcel, out);
        }
        if self.ending_us.is_some() {
            return Step::More;
        }
        let mut block = self.free_block();
        let Some(room) = Arc::get_mut(&mut block) else { return step };
        match self.exchange.feed(self.number, room) {
            Feed::Taken(taken) => {
                step = if room.packets().is_empty() { step } else { Step::More };
                self.dissect(&block, taken);
            }
            Feed::Over | Feed::Full => self.exchange.nap(self.number),
        }
        self.blocks.push(block);
        step
    }

    /// A block that no other worker looks into.
    fn free_block(&mut self) -> Arc<PacketBlock> {
        match self.blocks.iter().position(|block| Arc::strong_count(block) == 1) {
            Some(free) => self.blocks.swap_remove(free),
            None => Arc::new(PacketBlock::with_capacity(BLOCK_OCTETS, BLOCK_PACKETS)),
        }
    }

    fn dissect(&mut self, block: &Arc<PacketBlock>, taken: Taken) {
        self.dissection.block(block, taken.first_packet, &mut self.counts);
        let seen = self.rows.measurer().needs_packets().then_some(block);
        self.exchange.publish(taken, &mut self.dissection, seen, &mut self.counts);
    }

    /// Takes in the packets of a parcel.
    fn take(&mut self, parcel: Parcel, out: &mut dyn FnMut(FlowBatch)) {
        self.rows.measurer().look_into(parcel.block);
        let exchange = &self.exchange;
        let mut interfaces = || exchange.interfaces().iter().map(|interface| interface.index).collect();
        let mut delivery = BatchDelivery { rows: &mut self.rows, interfaces: &mut interfaces, out };
        self.cache.take(&parcel.digests, &mut delivery);
        self.cache.advance(parcel.clock_us, &mut delivery);
        self.rows.deliver(false, &mut interfaces, out);
        self.mark(self.cache.over_through_us().min(parcel.none_held_through_us));
        self.exchange.give_back(parcel.digests);
        if parcel.is_last {
            self.ending_us = Some(parcel.clock_us);
        }
        self.tell_counts();
    }

    /// Notes up to which time packets are in flows that have been handed on: flows are handed on in the order in which they end, so
    /// those that had ended at a time are once as many are. A worker with many flows always has some that wait for a batch.
    fn mark(&mut self, through_us: i64) {
        let (ended, waiting) = (self.rows.flows(), self.rows.waiting());
        if let Some((marked_us, _)) = self.marked.take_if(|(_, flows)| *flows <= ended - waiting) {
            self.exchange.set_handed_on(self.number, marked_us);
        }
        if waiting == 0 {
            self.exchange.set_handed_on(self.number, through_us);
        } else if self.marked.is_none() {
            self.marked = Some((through_us, ended));
        }
    }

    /// Hands a portion of the flows on that are left.
    fn end(&mut self, clock_us: i64, out: &mut dyn FnMut(FlowBatch)) -> Step {
        let exchange = &self.exchange;
        let mut interfaces = || exchange.interfaces().iter().map(|interface| interface.index).collect();
        let mut delivery = BatchDelivery { rows: &mut self.rows, interfaces: &mut interfaces, out };
        self.has_ended = self.cache.finish_some(clock_us, ENDING_FLOWS, &mut delivery);
        self.rows.deliver(self.has_ended, &mut interfaces, out);
        self.tell_counts();
        if self.has_ended { Step::Ended } else { Step::More }
    }

    fn tell_counts(&mut self) {
        self.counts.set_cache(&self.cache.counts());
        self.counts.set_inspections(&self.rows.measurer().inspections());
        self.counts.flows_ended = self.rows.flows();
        self.exchange.set_counts(self.number, &self.counts);
    }
}

impl Drop for Worker {
    /// A worker that goes before its end, by a panic or because it is not wanted any more, would be waited for.
    fn drop(&mut self) {
        if !self.has_ended {
            self.exchange.abandon();
        }
    }
}
