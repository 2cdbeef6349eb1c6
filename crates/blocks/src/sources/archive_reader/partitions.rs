//! The order of a run's rows by a time, and where their values lie until they are handed on in that order.
//!
//! Picking the rows of a burst from all over a segment would miss the processor's caches for every value. So rows first
//! go to *partitions*: stretches of time with some ten thousand rows each, found by counting rows per tick. Within a
//! partition rows lie in their old order, one behind the other, so that writing to all partitions at once goes to one
//! cache line each. A partition fits into the cache; it is sorted when its rows are handed on. What speaks against it
//! is that every value is copied twice. Measured on segments of two million rows with eleven columns, decoding included:
//! 105 ns per row, and 127 ns where all rows are sorted and picked.

use std::ops::Range;

/// The time of a row that has none: such rows come after all others.
pub(super) const NO_TIME: i64 = i64::MAX;

/// Rows of a partition: 256 KiB of a wide column, which leaves room in the second cache.
const PARTITION_ROWS: usize = if cfg!(test) { 300 } else { 32_768 };
/// Most partitions of a usual run: each costs a cache line that is written to.
const PARTITIONS_MAX: usize = 1024;
/// Ticks into which the times of a run are counted, as a power of two; one more is for rows without a time.
const TICKS_LOG2: u32 = 16;
/// Slots left free between partitions. Without them partitions would begin at the same place of different pages, which
/// share the same few cache lines.
const GAP_SLOTS: usize = 72;

/// A stretch of time.
#[derive(Debug, Clone, Copy, Default)]
struct Partition {
    first_slot: u32,
    /// The next free slot, and after all rows are placed the end.
    free: u32,
    first_tick: u32,
    end_tick: u32,
}

/// The places of rows. Every column of a run has the same. Memory is used again from run to run.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    first_ms: i64,
    /// Milliseconds of a tick, as a power of two.
    tick_log2: u32,
    /// The tick of rows without a time, the last one.
    no_time: usize,
    /// By tick, the partition.
    partition_of: Vec<u32>,
    partitions: Vec<Partition>,
    slots_total: usize,
    /// By slot.
    times: Vec<i64>,
    /// Slots of the rows placed last.
    slots: Vec<u32>,
    /// Slots of sorted partitions, and which of them were asked for last.
    order: Vec<u32>,
    given: Range<usize>,
    /// The next partition to be sorted.
    next: usize,
    counts: Vec<u32>,
}

impl Partitions {
    /// Begins a run of rows with these times.
    pub(super) fn begin(&mut self, times: &[i64]) {
        let span = self.measure(times);
        let ticks = (span >> self.tick_log2) as usize + 2;
        self.counts.clear();
        self.counts.resize(ticks, 0);
        self.no_time = ticks - 1;
        let mut counts = std::mem::take(&mut self.counts);
        for &time in times {
            counts[self.tick(time)] += 1;
        }
        self.counts = counts;
        self.cut(times.len());
        self.order.clear();
        (self.given, self.next) = (0..0, 0);
    }

    /// Finds the first time and how long a tick is; tells the span of all times.
    fn measure(&mut self, times: &[i64]) -> u64 {
        let known = |time: i64| if time == NO_TIME { i64::MIN } else { time };
        let first = times.iter().fold(NO_TIME, |first, time| first.min(*time));
        let last = times.iter().fold(i64::MIN, |last, time| last.max(known(*time)));
        let span = if first <= last { last.abs_diff(first) } else { 0 };
        self.first_ms = first;
        self.tick_log2 = (u64::BITS - span.leading_zeros()).saturating_sub(TICKS_LOG2);
        span
    }

    /// The tick of a time.
    fn tick(&self, time: i64) -> usize {
        if time == NO_TIME {
            self.no_time
        } else {
            (time.wrapping_sub(self.first_ms) as u64 >> self.tick_log2) as usize
        }
    }

    /// Cuts the ticks counted into partitions.
    fn cut(&mut self, rows: usize) {
        let rows_max = PARTITION_ROWS.max(rows / PARTITIONS_MAX) as u32;
        self.partitions.clear();
        self.partition_of.clear();
        let mut partition = Partition::default();
        let mut rows_of_partition = 0;
        for (&count, tick) in self.counts.iter().zip(0..) {
            if rows_of_partition > 0 && rows_of_partition + count > rows_max {
                let first_slot = partition.first_slot + rows_of_partition + GAP_SLOTS as u32;
                self.partitions.push(Partition { end_tick: tick, ..partition });
                partition = Partition { first_slot, free: first_slot, first_tick: tick, end_tick: tick };
                rows_of_partition = 0;
            }
            rows_of_partition += count;
            self.partition_of.push(self.partitions.len() as u32);
        }
        self.partitions.push(Partition { end_tick: self.counts.len() as u32, ..partition });
        self.slots_total = (partition.first_slot + rows_of_partition) as usize;
        self.times.resize(self.slots_total.max(self.times.len()), NO_TIME);
    }

    /// Slots that a column must have: one for each row, and the gaps.
    pub(super) fn slots_total(&self) -> usize {
        self.slots_total
    }

    /// Forgets the rows placed so far, so that the run can be placed anew.
    pub(super) fn begin_again(&mut self) {
        self.partitions.iter_mut().for_each(|partition| partition.free = partition.first_slot);
    }

    /// Gives the next rows of the run their slots, by the same times as when it began.
    pub(super) fn place(&mut self, times: &[i64]) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.extend(times.iter().map(|&time| self.next_slot(time)));
        for (&slot, &time) in slots.iter().zip(times) {
            self.times[slot as usize] = time;
        }
        self.slots = slots;
    }

    fn next_slot(&mut self, time: i64) -> u32 {
        let partition = self.partition_of[self.tick(time)];
        let free = &mut self.partitions[partition as usize].free;
        let slot = *free;
        *free += 1;
        slot
    }

    /// The slots of the rows placed last.
    pub(super) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Times by slot.
    pub(super) fn times(&self) -> &[i64] {
        &self.times
    }

    /// Finds the next rows in order, `rows` of them or what is left.
    pub(super) fn put_in_order(&mut self, rows: usize) {
        self.given.start = self.given.end;
        while self.order.len() - self.given.start < rows && self.next < self.partitions.len() {
            self.order.drain(..std::mem::take(&mut self.given.start));
            let partition = self.partitions[self.next];
            self.next += 1;
            self.sort(partition);
        }
        self.given.end = self.order.len().min(self.given.start.saturating_add(rows));
    }

    /// Slots of the rows found last, in order.
    pub(super) fn order(&self) -> &[u32] {
        &self.order[self.given.clone()]
    }

    /// Adds the slots of a partition to the order, those of the same time as they are.
    fn sort(&mut self, partition: Partition) {
        let slots = partition.first_slot..partition.free;
        let times = &self.times[slots.start as usize..slots.end as usize];
        let first_ms = self.first_ms.wrapping_add(i64::from(partition.first_tick) << self.tick_log2);
        let span = u64::from(partition.end_tick - partition.first_tick) << self.tick_log2;
        let key = |time: i64| if time == NO_TIME { span } else { time.wrapping_sub(first_ms) as u64 };
        if span > 4 * times.len() as u64 {
            // too few rows for so many times: a broken clock, or hardly any rows
            let mut keys: Vec<(u64, u32)> = times.iter().map(|&time| key(time)).zip(slots).collect();
            keys.sort_unstable();
            self.order.extend(keys.into_iter().map(|(_, slot)| slot));
            return;
        }
        self.counts.clear();
        self.counts.resize(span as usize + 1, 0);
        for &time in times {
            self.counts[key(time) as usize] += 1;
        }
        let mut before = self.order.len() as u32;
        for count in &mut self.counts {
            before += std::mem::replace(count, before);
        }
        self.order.resize(before as usize, 0);
        for (&time, slot) in times.iter().zip(slots) {
            let place = &mut self.counts[key(time) as usize];
            self.order[*place as usize] = slot;
            *place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => 1_700_000_000_000..1_700_000_000_100_i64,
            8 => 1_700_000_000_000..1_700_086_400_000_i64,
            1 => Just(NO_TIME),
        ]
    }

    /// Rows in order, found through the slots: the row that lies in each slot, in the order of slots told.
    fn ordered(times: &[i64], placed: usize, taken: usize) -> Vec<u32> {
        let mut partitions = Partitions::default();
        partitions.begin(times);
        let mut row_of_slot = vec![u32::MAX; partitions.slots_total()];
        for (first, piece) in (0..).step_by(placed).zip(times.chunks(placed)) {
            partitions.place(piece);
            partitions.slots().iter().zip(first as u32..).for_each(|(&slot, row)| row_of_slot[slot as usize] = row);
        }
        let mut order = Vec::new();
        loop {
            partitions.put_in_order(taken);
            let slots = partitions.order();
            if slots.is_empty() {
                assert_eq!(order.len(), times.len());
                return order;
            }
            order.extend(slots.iter().map(|&slot| row_of_slot[slot as usize]));
        }
    }

    fn check(times: &[i64]) {
        let mut expected: Vec<u32> = (0..times.len() as u32).collect();
        expected.sort_by_key(|row| times[*row as usize]);
        for (placed, taken) in [(usize::MAX, usize::MAX), (7, 10), (100, 1)] {
            assert_eq!(ordered(times, placed.min(times.len()).max(1), taken), expected);
        }
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_a_stable_sort(
            mut times in prop::collection::vec(time(), 0..500),
            broken_clock in prop::option::of(any::<i64>()),
        ) {
            if let (Some(time), Some(first)) = (broken_clock, times.first_mut()) {
                *first = time;
            }
            check(&times);
        }
    }

    #[test]
    fn many_partitions_give_one_order() {
        // a multiplier without a common factor with 2^16 gives every number once
        let scattered: Vec<i64> = (0..1 << 16).map(|row: i64| row * 612_745 % (1 << 16)).collect();
        check(&scattered);
        let at_once: Vec<i64> = scattered.iter().map(|time| time / 10_000).collect();
        check(&at_once);
        let one_is_late: Vec<i64> = at_once.iter().map(|time| if *time == 5 { i64::MAX - 1 } else { *time }).collect();
        check(&one_is_late);
    }
}
