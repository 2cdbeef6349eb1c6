//! The flows that wait, by their hash and by the time when they may leave.

use std::collections::VecDeque;

use weir_chain::Outlet;

use super::output::{Output, Shape};
use crate::five_tuple::Key;
use crate::keys::IdTable;

/// A flow record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub hash: u64,
    pub key: Key,
    pub exporter: [u64; 3],
    /// The key is that of the other direction.
    pub is_turned: bool,
    pub start_ms: i64,
    pub end_ms: i64,
    pub packets: u64,
    pub bytes: u64,
    pub flows: u64,
    pub tcp_flags: u16,
}

/// A flow that waits for more records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub key: Key,
    pub start_ms: i64,
    pub end_ms: i64,
    pub packets: u64,
    pub bytes: u64,
    /// How many flows there were before this one; tells those that end together apart.
    pub number: u64,
    pub flows: u32,
    /// The upper half of its hash.
    tag: u32,
    pub tcp_flags: u16,
    /// The first record was of the other direction.
    pub is_turned: bool,
    /// Still found by its hash.
    is_open: bool,
}

/// What flows have only when they are joined in both directions, or exporters are kept apart.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct More {
    pub exporter: [u64; 3],
    pub packets_reverse: u64,
    pub bytes_reverse: u64,
}

pub(super) struct Table {
    waiting_ms: i64,
    duration_ms: i64,
    flows: Vec<Flow>,
    /// At the index of its flow; empty when no flow has more.
    more: Vec<More>,
    has_more: bool,
    free: Vec<u32>,
    index: IdTable,
    /// Flows by the time when they may leave: bucket `first_bucket` and those after it.
    buckets: VecDeque<Vec<u32>>,
    first_bucket: i64,
    bucket_ms: i64,
    /// The largest end seen.
    now: Option<i64>,
    numbers: u64,
    len: usize,
    output: Output,
    /// Flows of one bucket that leave.
    leaving: Vec<u32>,
}

/// Buckets in the waiting time.
const BUCKETS: i64 = 1024;
/// Times beyond these are nonsense; with them in bounds no sum of times overflows.
const TIME_MAX: i64 = 1 << 60;

impl Table {
    pub(super) fn new(waiting_ms: i64, duration_ms: i64, shape: Shape) -> Self {
        Self {
            waiting_ms,
            duration_ms,
            flows: Vec::new(),
            more: Vec::new(),
            has_more: shape.both_ways || shape.exporters,
            free: Vec::new(),
            index: IdTable::new(),
            buckets: VecDeque::new(),
            first_bucket: 0,
            bucket_ms: (waiting_ms / BUCKETS).max(1),
            now: None,
            numbers: 0,
            len: 0,
            output: Output::new(shape),
            leaving: Vec::new(),
        }
    }

    /// Number of flows that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Octets of memory, about.
    pub(super) fn octets(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(|bucket| bucket.capacity() * size_of::<u32>()).sum();
        self.flows.capacity() * size_of::<Flow>()
            + self.more.capacity() * size_of::<More>()
            + self.index.octets()
            + self.free.capacity() * size_of::<u32>()
            + buckets
    }

    /// Flows that end before this have been handed on.
    pub(super) fn edge_ms(&self) -> Option<i64> {
        self.now?;
        Some((self.first_bucket * self.bucket_ms).saturating_sub(self.waiting_ms))
    }

    /// Reads the place of a hash and of the flow there, so that their memory comes in time.
    #[inline]
    pub(super) fn touch(&self, hash: u64) {
        if let Some(flow) = self.index.touch(hash) {
            std::hint::black_box(self.flows[flow as usize].key[4]);
        }
    }

    /// Moves the data time on: flows whose bucket is over leave.
    #[inline]
    pub(super) fn advance(&mut self, end_ms: i64) {
        let end_ms = end_ms.clamp(-TIME_MAX, TIME_MAX);
        if self.now.is_some_and(|now| end_ms <= now) {
            return;
        }
        if self.now.is_none() {
            self.first_bucket = end_ms.div_euclid(self.bucket_ms);
        }
        self.now = Some(end_ms);
        let until = end_ms.div_euclid(self.bucket_ms);
        while self.first_bucket < until {
            if self.buckets.is_empty() {
                // a gap in the data is crossed in one step
                self.first_bucket = until;
                return;
            }
            self.leave_bucket();
        }
    }

    /// Adds a record to its flow, or begins a new one; true when it came too late to wait.
    #[inline]
    pub(super) fn join(&mut self, record: &Record) -> bool {
        let Self { index, flows, more, has_more, .. } = self;
        let found = index.find(record.hash, |id| {
            flows[id as usize].key == record.key && (!*has_more || more[id as usize].exporter == record.exporter)
        });
        let Some(id) = found else { return self.begin(record) };
        let flow = &self.flows[id as usize];
        let start_ms = flow.start_ms.min(record.start_ms);
        let end_ms = flow.end_ms.max(record.end_ms);
        let is_over = record.end_ms.saturating_sub(flow.end_ms) > self.waiting_ms;
        if is_over || end_ms.saturating_sub(start_ms) > self.duration_ms {
            // it leaves in its turn, but takes no more records
            self.close(id);
            return self.begin(record);
        }
        self.add(id, record);
        false
    }

    #[inline]
    fn add(&mut self, id: u32, record: &Record) {
        let flow = &mut self.flows[id as usize];
        flow.start_ms = flow.start_ms.min(record.start_ms);
        flow.end_ms = flow.end_ms.max(record.end_ms);
        flow.flows = flow.flows.saturating_add(u32::try_from(record.flows).unwrap_or(u32::MAX));
        flow.tcp_flags |= record.tcp_flags;
        if flow.is_turned == record.is_turned {
            flow.packets = flow.packets.saturating_add(record.packets);
            flow.bytes = flow.bytes.saturating_add(record.bytes);
        } else {
            let more = &mut self.more[id as usize];
            more.packets_reverse = more.packets_reverse.saturating_add(record.packets);
            more.bytes_reverse = more.bytes_reverse.saturating_add(record.bytes);
        }
    }

    /// Begins a flow with its first record; true when it is too late to wait.
    fn begin(&mut self, record: &Record) -> bool {
        let flow = Flow {
            key: record.key,
            start_ms: record.start_ms,
            end_ms: record.end_ms,
            packets: record.packets,
            bytes: record.bytes,
            number: self.numbers,
            flows: u32::try_from(record.flows).unwrap_or(u32::MAX),
            tag: (record.hash >> 32) as u32,
            tcp_flags: record.tcp_flags,
            is_turned: record.is_turned,
            is_open: true,
        };
        self.numbers += 1;
        self.len += 1;
        let id = if let Some(id) = self.free.pop() {
            self.flows[id as usize] = flow;
            id
        } else {
            self.flows.push(flow);
            (self.flows.len() - 1) as u32
        };
        if self.has_more {
            self.more.resize(self.flows.len(), More::default());
            self.more[id as usize] = More { exporter: record.exporter, ..More::default() };
        }
        self.index.insert(record.hash, id);
        self.put(id)
    }

    /// Puts a flow into the bucket of the time when it may leave; true when that is over and the next one has to do.
    fn put(&mut self, id: u32) -> bool {
        let end_ms = self.flows[id as usize].end_ms.clamp(-TIME_MAX, TIME_MAX);
        let bucket = (end_ms + self.waiting_ms).div_euclid(self.bucket_ms);
        let at = (bucket - self.first_bucket).max(0) as usize;
        if self.buckets.len() <= at {
            self.buckets.resize_with(at + 1, Vec::new);
        }
        self.buckets[at].push(id);
        bucket < self.first_bucket
    }

    /// A flow takes no more records.
    fn close(&mut self, id: u32) {
        let flow = &mut self.flows[id as usize];
        flow.is_open = false;
        self.index.remove(u64::from(flow.tag) << 32, id);
    }

    /// The first bucket is over: flows that were prolonged move to a later one, the others leave. Returns how many left.
    fn leave_bucket(&mut self) -> u64 {
        let Some(mut bucket) = self.buckets.pop_front() else { return 0 };
        self.first_bucket += 1;
        self.leaving.clear();
        for id in bucket.drain(..) {
            let end_ms = self.flows[id as usize].end_ms.clamp(-TIME_MAX, TIME_MAX);
            if (end_ms + self.waiting_ms).div_euclid(self.bucket_ms) < self.first_bucket {
                self.leaving.push(id);
            } else {
                self.put(id);
            }
        }
        let Self { leaving, flows, .. } = self;
        leaving.sort_unstable_by_key(|&id| (flows[id as usize].end_ms, flows[id as usize].number));
        let leaving = std::mem::take(&mut self.leaving);
        for &id in &leaving {
            let flow = self.flows[id as usize];
            if flow.is_open {
                self.index.remove(u64::from(flow.tag) << 32, id);
            }
            self.output.add(&flow, self.more.get(id as usize));
            self.free.push(id);
        }
        self.len -= leaving.len();
        let left = leaving.len() as u64;
        self.leaving = leaving;
        left
    }

    /// The flows that would leave first leave now; returns how many.
    pub(super) fn shed(&mut self) -> u64 {
        loop {
            let left = self.leave_bucket();
            if left > 0 || self.buckets.is_empty() {
                return left;
            }
        }
    }

    /// All flows leave.
    pub(super) fn empty(&mut self) {
        while !self.buckets.is_empty() {
            self.leave_bucket();
        }
    }

    /// Hands on the flows that have left.
    pub(super) fn hand_on(&mut self, out: &mut Outlet) {
        self.output.hand_on(out);
    }
}
