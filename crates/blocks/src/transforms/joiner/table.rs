//! The flows that wait for another record.

use weir_flow::Column;

use super::kept::Kept;
use super::records::{HAS_ALL, HAS_REVERSE, Record, Records};
use super::wheel::Wheel;
use weir_rows::keys::{FlowKey, FlowKeys, IdTable, WideWords};

/// A flow, in one line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Which flow it is, in the order in which they began.
    number: u64,
    /// Sum of the flows of its records; nobody joins more than 4 thousand million of them.
    pub(super) flows: u32,
    pub(super) tcp_flags: u16,
    /// Which values it has, and the state of its place in the table.
    pub(super) bits: u16,
}

/// Source and destination of the first record had changed places.
pub(super) const REVERSED: u16 = 1 << 8;
/// It waits no more.
const CLOSED: u16 = 1 << 9;
/// It is not in the wheel.
const UNLISTED: u16 = 1 << 10;
/// It was handed on. A place is free when its flow was handed on and is in the wheel no more.
const HANDED_ON: u16 = 1 << 11;
const FREE: u16 = 1 << 12;

/// What a flow must keep to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Column,
    pub(super) duration_ms: i64,
    pub(super) waiting_ms: i64,
    pub(super) rows_max: usize,
}

/// A flow that waits no more, and the time by which it is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Closed {
    expiry: i64,
    number: u64,
    place: u32,
}

/// Flows by their keys. A place in the table has its number in every column here.
#[derive(Debug)]
pub(super) struct FlowTable {
    limits: Limits,
    pub(super) flows: Vec<Flow>,
    pub(super) wide: WideWords,
    /// Packets and octets of the opposite direction; empty until there are any.
    pub(super) reverse: Vec<[u64; 2]>,
    pub(super) kept: Kept,
    ids: IdTable,
    free: Vec<u32>,
    /// The largest time seen, and the flows by the time at which they may have to leave.
    clock: Option<(i64, Wheel)>,
    /// Flows that began.
    number: u64,
    /// Closed flows that are still in the wheel.
    listed_closed: usize,
    closed: Vec<Closed>,
    /// Places of flows to be handed on, in this order.
    pub(super) ready: Vec<u32>,
    passed: Vec<u32>,
    pub(super) rows_late: u64,
    pub(super) rows_shed: u64,
}

/// Rows whose memory is fetched together, see [`IdTable::touch`].
const BLOCK: usize = 32;
/// Closed flows in the wheel that are worth no sweep.
const LISTED_CLOSED_MIN: usize = 1 << 16;

/// A record with its key.
struct Keyed<'a> {
    row: usize,
    record: &'a Record,
    reverse: [u64; 2],
    key: FlowKey,
    words: &'a [u64],
    hash: u64,
    reversed: bool,
}

impl FlowTable {
    pub(super) fn new(limits: Limits, words: usize, kept: Kept) -> Self {
        Self {
            limits,
            flows: Vec::new(),
            wide: WideWords::new(words),
            reverse: Vec::new(),
            kept,
            ids: IdTable::new(),
            free: Vec::new(),
            clock: None,
            number: 0,
            listed_closed: 0,
            closed: Vec::new(),
            ready: Vec::new(),
            passed: Vec::new(),
            rows_late: 0,
            rows_shed: 0,
        }
    }

    /// Flows that are held.
    pub(super) fn len(&self) -> usize {
        self.ids.len() + self.closed.len() + self.ready.len()
    }

    /// Time before which no flow is held that waits no more.
    pub(super) fn start_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|(_, wheel)| wheel.start_ms())
    }

    /// Octets of memory, about.
    pub(super) fn octets(&self) -> usize {
        let flows = self.flows.capacity() * size_of::<Flow>() + self.wide.octets() + self.reverse.capacity() * 16;
        let lists = self.clock.as_ref().map_or(0, |(_, wheel)| wheel.octets());
        flows + self.kept.octets() + self.ids.octets() + lists + self.free.capacity() * 4
    }

    /// Joins the records of a batch from `from` on, up to the one with which many flows are ready to be handed on;
    /// returns the row after it. Records without a key or a time are passed over.
    pub(super) fn join(&mut self, keys: &FlowKeys, records: &Records, from: usize, ready_max: usize) -> usize {
        let rows = records.rows.len();
        for block in (from..rows).step_by(BLOCK) {
            let block = block..rows.min(block + BLOCK);
            let near = keys.hashes()[block.clone()].iter().filter_map(|&hash| self.ids.touch(hash));
            std::hint::black_box(near.fold(0, |sum, id| sum ^ self.flows[id as usize].end));
            for row in block {
                let (record, key) = (&records.rows[row], keys.keys()[row]);
                if key.is_refused() || !record.has_time() {
                    continue;
                }
                self.go_on(record, keys);
                let reverse = if record.has & HAS_REVERSE == 0 { [0; 2] } else { records.reverse(row) };
                let words = if key.is_wide() { keys.wide().of(row) } else { &[] };
                let (hash, reversed) = (keys.hashes()[row], keys.is_reversed(row));
                self.take(&Keyed { row, record, reverse, key, words, hash, reversed });
                if self.ids.len() > self.limits.rows_max {
                    self.shed(keys);
                }
                if self.ready.len() >= ready_max {
                    return row + 1;
                }
            }
        }
        rows
    }

    /// Time goes on with a record.
    #[inline]
    fn go_on(&mut self, record: &Record, keys: &FlowKeys) {
        let time = record.time(self.limits.time);
        let (now, wheel) = self.clock.get_or_insert_with(|| {
            let now = time.unwrap_or(record.end);
            (now, Wheel::new(self.limits.waiting_ms, now))
        });
        let Some(time) = time.filter(|time| time > now) else { return };
        *now = time;
        let tick = wheel.tick_of(time);
        if tick > wheel.now() {
            wheel.advance(tick, &mut self.passed);
            self.expire(tick, keys);
        }
    }

    fn now(&self) -> i64 {
        self.clock.as_ref().map_or(i64::MIN, |(now, _)| *now)
    }

    /// Looks at the flows whose tick has passed, and gets those ready that wait no more.
    fn expire(&mut self, tick: i64, keys: &FlowKeys) {
        let Some((_, wheel)) = &mut self.clock else { return };
        let mut gone = Vec::new();
        for &place in &self.passed {
            let flow = &mut self.flows[place as usize];
            if flow.bits & CLOSED != 0 {
                self.listed_closed -= 1;
                flow.bits |= UNLISTED;
                if flow.bits & HANDED_ON != 0 {
                    flow.bits |= FREE;
                    self.free.push(place);
                }
                continue;
            }
            let due = flow.end.saturating_add(self.limits.waiting_ms);
            if wheel.tick_of(due) >= tick {
                wheel.insert(place, due);
                continue;
            }
            flow.bits |= CLOSED | UNLISTED;
            self.closed.push(Closed { expiry: due, number: flow.number, place });
            gone.push((place, flow.key));
        }
        self.passed.clear();
        for block in gone.chunks(BLOCK) {
            let hashes = block.iter().map(|&(place, key)| keys.hash(key, self.wide.of(place as usize)));
            let hashes: [u64; BLOCK] = filled(hashes);
            std::hint::black_box(hashes.iter().fold(0, |sum, &hash| sum ^ self.ids.touch(hash).unwrap_or_default()));
            for (&(place, _), &hash) in block.iter().zip(&hashes) {
                self.ids.remove(hash, place);
            }
        }
        self.closed.sort_unstable();
        self.ready.extend(self.closed.drain(..).map(|closed| closed.place));
    }

    /// Adds a record to its flow, or begins one.
    #[inline]
    fn take(&mut self, keyed: &Keyed) {
        let is_it = |place: u32| {
            let key = self.flows[place as usize].key;
            key == keyed.key && (!key.is_wide() || self.wide.of(place as usize) == keyed.words)
        };
        let Some(place) = self.ids.find(keyed.hash, is_it) else { return self.begin(keyed) };
        let (flow, record, now) = (&self.flows[place as usize], keyed.record, self.now());
        let due = flow.end.saturating_add(self.limits.waiting_ms);
        let (start, end) = (flow.start.min(record.start), flow.end.max(record.end));
        if due < now {
            self.close(place, keyed.hash, due);
            self.begin(keyed);
        } else if end.saturating_sub(start) > self.limits.duration_ms {
            self.close(place, keyed.hash, now);
            self.begin(keyed);
        } else {
            self.add(place, keyed);
        }
    }

    /// A flow waits no more, before its tick has passed.
    fn close(&mut self, place: u32, hash: u64, expiry: i64) {
        self.ids.remove(hash, place);
        let flow = &mut self.flows[place as usize];
        flow.bits |= CLOSED;
        self.listed_closed += 1;
        self.closed.push(Closed { expiry, number: flow.number, place });
    }

    fn begin(&mut self, keyed: &Keyed) {
        let record = keyed.record;
        let flow = Flow {
            key: keyed.key,
            start: record.start,
            end: record.end,
            packets: record.packets,
            bytes: record.bytes,
            number: self.number,
            flows: u32::try_from(record.flows).unwrap_or(u32::MAX),
            tcp_flags: record.tcp_flags,
            bits: record.has & HAS_ALL | if keyed.reversed { REVERSED } else { 0 },
        };
        self.number += 1;
        let place = self.free.pop().unwrap_or(self.flows.len() as u32);
        match self.flows.get_mut(place as usize) {
            Some(free) => *free = flow,
            None => self.flows.push(flow),
        }
        if keyed.key.is_wide() {
            self.wide.of_mut(place as usize).copy_from_slice(keyed.words);
        }
        if flow.bits & HAS_REVERSE != 0 || !self.reverse.is_empty() {
            *self.reverse_of(place) = keyed.reverse;
        }
        self.kept.set(place, keyed.row);
        let due = record.end.saturating_add(self.limits.waiting_ms);
        let Some((now, wheel)) = &mut self.clock else { return };
        if due < *now {
            // it came when its time was over: nobody can join it
            self.rows_late += 1;
            self.flows[place as usize].bits |= CLOSED | UNLISTED;
            self.closed.push(Closed { expiry: *now, number: flow.number, place });
            return;
        }
        wheel.insert(place, due);
        self.ids.insert(keyed.hash, place);
    }

    fn reverse_of(&mut self, place: u32) -> &mut [u64; 2] {
        if self.reverse.len() <= place as usize {
            self.reverse.resize(self.flows.len(), [0; 2]);
        }
        &mut self.reverse[place as usize]
    }

    #[inline]
    fn add(&mut self, place: u32, keyed: &Keyed) {
        let record = keyed.record;
        let flow = &mut self.flows[place as usize];
        flow.start = flow.start.min(record.start);
        flow.end = flow.end.max(record.end);
        flow.flows = flow.flows.saturating_add(u32::try_from(record.flows).unwrap_or(u32::MAX));
        flow.tcp_flags |= record.tcp_flags;
        let is_opposite = (flow.bits & REVERSED != 0) != keyed.reversed;
        let forward = [record.packets, record.bytes];
        let (forward, reverse) = if is_opposite { (keyed.reverse, forward) } else { (forward, keyed.reverse) };
        let has = if is_opposite { opposite(record.has) } else { record.has };
        flow.bits |= has & HAS_ALL;
        flow.packets = flow.packets.saturating_add(forward[0]);
        flow.bytes = flow.bytes.saturating_add(forward[1]);
        if has & HAS_REVERSE != 0 {
            let sums = self.reverse_of(place);
            *sums = [sums[0].saturating_add(reverse[0]), sums[1].saturating_add(reverse[1])];
        }
    }

    /// There are more flows than may be: the quarter that will have waited long enough first waits no more.
    #[cold]
    fn shed(&mut self, keys: &FlowKeys) {
        let count = self.ids.len().div_ceil(4);
        let open = self.flows.iter().enumerate().filter(|(_, flow)| flow.bits & (CLOSED | FREE) == 0);
        let mut open: Vec<(i64, u64, u32)> = open.map(|(place, flow)| (flow.end, flow.number, place as u32)).collect();
        open.select_nth_unstable(count - 1);
        let now = self.now();
        for &(_, _, place) in &open[..count] {
            let hash = keys.hash(self.flows[place as usize].key, self.wide.of(place as usize));
            self.close(place, hash, now);
        }
        self.rows_shed += count as u64;
        self.sweep();
    }

    /// Takes closed flows out of the wheel when they are many, so that they do not fill the memory.
    fn sweep(&mut self) {
        let Some((_, wheel)) = &mut self.clock else { return };
        if self.listed_closed < LISTED_CLOSED_MIN.max(self.ids.len()) {
            return;
        }
        wheel.retain(|place| {
            let flow = &mut self.flows[place as usize];
            if flow.bits & CLOSED == 0 {
                return true;
            }
            flow.bits |= UNLISTED;
            if flow.bits & HANDED_ON != 0 {
                flow.bits |= FREE;
                self.free.push(place);
            }
            false
        });
        self.listed_closed = 0;
    }

    /// Gets all flows ready, as far as they are not.
    pub(super) fn close_all(&mut self) {
        let open = self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.bits & (CLOSED | FREE) == 0);
        self.closed.extend(open.map(|(place, flow)| {
            flow.bits |= CLOSED | UNLISTED;
            let expiry = flow.end.saturating_add(self.limits.waiting_ms);
            Closed { expiry, number: flow.number, place: place as u32 }
        }));
        self.ids.clear();
        self.closed.sort_unstable();
        self.ready.extend(self.closed.drain(..).map(|closed| closed.place));
    }

    /// The flows that were ready have been handed on.
    pub(super) fn release(&mut self) {
        for place in self.ready.drain(..) {
            let flow = &mut self.flows[place as usize];
            flow.bits |= HANDED_ON;
            if flow.bits & UNLISTED != 0 {
                flow.bits |= FREE;
                self.free.push(place);
            }
        }
        self.sweep();
    }
}

/// The same bits with packets and octets of the two directions exchanged.
fn opposite(has: u16) -> u16 {
    let forward = has & (HAS_REVERSE >> 3);
    has & !(HAS_REVERSE | HAS_REVERSE >> 3) | forward << 3 | (has & HAS_REVERSE) >> 3
}

/// The values of an iterator, and zeros after them.
fn filled(values: impl Iterator<Item = u64>) -> [u64; BLOCK] {
    let mut filled = [0; BLOCK];
    filled.iter_mut().zip(values).for_each(|(target, value)| *target = value);
    filled
}
