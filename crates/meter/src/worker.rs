//! A worker: it dissects whichever block comes next, and keeps the flows of its shard.

use std::sync::Arc;

use weir_flow::FlowBatch;

use crate::block::PacketBlock;
use crate::cache::FlowCache;
use crate::counts::MeterCounts;
use crate::digest::Digester;
use crate::dissection::Dissection;
use crate::exchange::{Exchange, Feed, Parcel, Taken};
use crate::key::KeyHasher;
use crate::options::MeterOptions;
use crate::rows::{FlowRows, HandingOn};

/// Room of a block; sources may take more.
const BLOCK_OCTETS: usize = 1 << 20;
const BLOCK_PACKETS: usize = 8 << 10;

/// What a step of a worker came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more to do at once.
    More,
    /// Nothing was there to be done; the worker has slept for a moment.
    Nothing,
    /// All packets are in flows that were handed on.
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
    counts: MeterCounts,
    has_ended: bool,
}

impl Worker {
    pub(crate) fn new(number: usize, workers: usize, options: &MeterOptions, exchange: Arc<Exchange>) -> Self {
        let hasher = KeyHasher::new(options.seed);
        let digester = Digester::new(options.fields, options.is_biflow, hasher.clone());
        let flows_max = options.flows_max.div_ceil(workers);
        Self {
            number,
            exchange,
            dissection: Dissection::new(digester, options.sampler(), workers),
            blocks: Vec::new(),
            cache: FlowCache::new(flows_max, options.timeouts, options.is_biflow, hasher),
            rows: FlowRows::new(options),
            counts: MeterCounts::default(),
            has_ended: false,
        }
    }

    /// Sources end soon: nobody wants flows any more.
    pub fn stop(&self) {
        self.exchange.stop();
    }

    /// Does what is to be done next, and hands flows on in batches.
    pub fn step(&mut self, out: &mut dyn FnMut(FlowBatch)) -> Step {
        if self.has_ended {
            return Step::Ended;
        }
        let mut step = Step::Nothing;
        while let Some(parcel) = self.exchange.parcel(self.number) {
            step = Step::More;
            if self.take(parcel, out) {
                return Step::Ended;
            }
        }
        let mut block = self.free_block();
        let Some(room) = Arc::get_mut(&mut block) else { return step };
        match self.exchange.feed(self.number, room) {
            Feed::Taken(taken) => {
                step = if room.packets().is_empty() { step } else { Step::More };
                self.dissect(&block, taken, out);
            }
            Feed::Over | Feed::Full => self.exchange.nap(self.number),
        }
        self.blocks.push(block);
        if self.has_ended { Step::Ended } else { step }
    }

    /// A block that nobody else looks into.
    fn free_block(&mut self) -> Arc<PacketBlock> {
        match self.blocks.iter().position(|block| Arc::strong_count(block) == 1) {
            Some(free) => self.blocks.swap_remove(free),
            None => Arc::new(PacketBlock::with_capacity(BLOCK_OCTETS, BLOCK_PACKETS)),
        }
    }

    fn dissect(&mut self, block: &Arc<PacketBlock>, taken: Taken, out: &mut dyn FnMut(FlowBatch)) {
        self.dissection.block(block, taken.first_packet, &mut self.counts);
        let exchange = Arc::clone(&self.exchange);
        let turn = loop {
            match exchange.turn(self.number, taken.number) {
                Some(turn) => break turn,
                None => {
                    while let Some(parcel) = exchange.parcel(self.number) {
                        self.take(parcel, out);
                    }
                }
            }
        };
        let seen = self.rows.measurer().needs_packets().then_some(block);
        exchange.publish(turn, taken, &mut self.dissection, seen, &mut self.counts);
    }

    /// Takes in the packets of a parcel; true after the last one.
    fn take(&mut self, parcel: Parcel, out: &mut dyn FnMut(FlowBatch)) -> bool {
        self.rows.measurer().look_into(parcel.block);
        let exchange = &self.exchange;
        let mut interfaces = || exchange.interfaces().iter().map(|interface| interface.index).collect();
        let mut handing_on = HandingOn { rows: &mut self.rows, interfaces: &mut interfaces, out };
        self.cache.take(&parcel.digests, &mut handing_on);
        self.cache.advance(parcel.clock_us, &mut handing_on);
        if parcel.is_last {
            self.cache.finish(parcel.clock_us, &mut handing_on);
            self.has_ended = true;
        }
        self.rows.hand_on(parcel.is_last, &mut interfaces, out);
        self.exchange.give_back(parcel.digests);
        self.counts.set_cache(&self.cache.counts());
        self.counts.flows_ended = self.rows.flows();
        self.exchange.set_counts(self.number, &self.counts);
        parcel.is_last
    }
}
