//! Flows, dealt out to groups.
//!
//! Every thread groups what it reads in a table of its own, which grows while flows repeat. When it is as large as it
//! may be, its groups are dealt out to parts by their hash and it begins anew; when flows hardly repeat, they are dealt
//! out at once. In the end each part is grouped by itself, in any thread. What speaks against it: parts hold a row for
//! each time that a key left the table, so very many groups take more memory than a single large table would. When they
//! take more than allowed, the flows are read several times, and each time for some of the parts only.

use std::hash::BuildHasher;

use foldhash::HashSet;
use foldhash::fast::RandomState;
use weir_flow::FlowBatch;

use super::keys::KeyLayout;
use super::sums::{Counters, RankingCounter, Sums};
use super::table::{GroupSums, Groups, Key, MeasureColumns, PARTS, Rows, part_of};
use crate::Measure;

/// Groups after which it is looked at whether flows repeat.
const PROBE_GROUPS: usize = 1 << 14;
/// Groups that there is room for at first, at most.
const ROOM_GROUPS_MAX: usize = 1 << 17;
/// Groups of other threads' tables that one thread takes over by itself, at most: dealing out fewer is not worth it.
const JOINED_GROUPS_MAX: usize = 1 << 17;
/// Groups of a thread's own table, at most: with 64 octets each some 64 MiB.
const OWN_GROUPS_MAX: usize = 1 << 20;

/// What a thread counts.
#[derive(Debug, Clone)]
pub(crate) struct Counting {
    /// The keys; a question about either side has one layout for each, and counts a flow for each.
    pub(crate) sides: Vec<KeyLayout>,
    /// Flows whose first key is null are left out.
    pub(crate) skip_null: bool,
    pub(crate) measures: Vec<Measure>,
    pub(crate) hasher: RandomState,
    /// Which parts are of interest: those whose number is `pass` modulo `passes`.
    pub(crate) pass: usize,
    pub(crate) passes: usize,
}

impl Counting {
    fn takes(&self, part: usize) -> bool {
        self.passes == 1 || part % self.passes == self.pass
    }
}

/// Keys that alone are counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeySet {
    pub(crate) short: HashSet<u128>,
    pub(crate) long: HashSet<Box<[u8]>>,
}

/// How a row is counted.
pub(crate) trait Count: GroupSums {
    /// What decides about it.
    type How: Sync;
    fn row(how: &Self::How, counters: &Counters<'_>, row: usize) -> Self;
}

impl Count for Sums {
    type How = ();
    #[inline]
    fn row((): &(), counters: &Counters<'_>, row: usize) -> Self {
        counters.row(row)
    }
}

impl Count for u64 {
    type How = RankingCounter;
    #[inline]
    fn row(how: &RankingCounter, counters: &Counters<'_>, row: usize) -> Self {
        counters.one(*how, row)
    }
}

/// The groups of one kind of key that a thread has seen.
pub(crate) struct PartitionedGroups<K, S> {
    own: Groups<K, S>,
    rows_seen: usize,
    /// Flows hardly repeat, so they are dealt out at once.
    is_direct: bool,
    pub(crate) parts: Vec<Rows<K, S>>,
}

impl<K: Key, S: GroupSums> PartitionedGroups<K, S> {
    /// Capacity for this many groups.
    fn new(groups: usize) -> Self {
        Self {
            own: Groups::with_capacity(groups),
            rows_seen: 0,
            is_direct: false,
            parts: (0..PARTS).map(|_| Rows::default()).collect(),
        }
    }

    #[inline]
    fn add(&mut self, counting: &Counting, key: &K, sums: &S, more: &[Option<u64>]) {
        let hash = counting.hasher.hash_one(key);
        let part = part_of(hash);
        if !counting.takes(part) {
            return;
        }
        if self.is_direct {
            self.parts[part].push(key.clone(), sums, more);
            return;
        }
        self.rows_seen += 1;
        self.own.add(&counting.hasher, hash, key, sums, more, &counting.measures);
        let groups = self.own.len();
        if groups >= PROBE_GROUPS && groups.is_power_of_two() {
            self.is_direct = self.rows_seen < groups + groups / 2;
            if self.is_direct || groups == OWN_GROUPS_MAX {
                self.deal(counting);
            }
        }
    }

    fn deal(&mut self, counting: &Counting) {
        self.rows_seen = 0;
        let count = counting.measures.len();
        let Rows { keys, sums, more } = &self.own.rows;
        for (group, (key, sums)) in keys.iter().zip(sums).enumerate() {
            let part = part_of(counting.hasher.hash_one(key));
            self.parts[part].push(key.clone(), sums, &more[group * count..(group + 1) * count]);
        }
        self.own.clear();
    }

    /// Whether all groups are in the table.
    fn is_whole(&self) -> bool {
        !self.is_direct && self.parts.iter().all(|part| part.keys.is_empty())
    }

    /// Counts the groups of another table, too.
    fn join(&mut self, other: &Self, counting: &Counting) {
        let count = counting.measures.len();
        let Rows { keys, sums, more } = &other.own.rows;
        for (group, (key, sums)) in keys.iter().zip(sums).enumerate() {
            let more = &more[group * count..(group + 1) * count];
            self.own.add(&counting.hasher, counting.hasher.hash_one(key), key, sums, more, &counting.measures);
        }
    }

    /// The groups of the table.
    pub(crate) fn into_rows(self) -> Rows<K, S> {
        self.own.rows
    }

    fn octets(&self) -> usize {
        self.parts.iter().map(Rows::octets).sum::<usize>() + self.own.rows.octets()
    }
}

/// The groups that a thread has seen.
pub(crate) struct Collected<S> {
    pub(crate) short: PartitionedGroups<u128, S>,
    pub(crate) long: PartitionedGroups<Box<[u8]>, S>,
    more: Vec<Option<u64>>,
}

impl<S: Count> Collected<S> {
    /// Capacity for the groups of this many flows, or of as many as usual.
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            short: PartitionedGroups::new(rows.min(ROOM_GROUPS_MAX)),
            long: PartitionedGroups::new(0),
            more: Vec::new(),
        }
    }

    /// What all threads have seen, as that of one, when that is few groups; else what was given.
    pub(crate) fn join_few(mut all: Vec<Self>, counting: &Counting) -> Result<Self, Vec<Self>> {
        let is_whole = |one: &Self| one.short.is_whole() && one.long.is_whole();
        let groups = |one: &Self| one.short.own.len() + one.long.own.len();
        all.sort_unstable_by_key(groups);
        let moved: usize = all.iter().rev().skip(1).map(groups).sum();
        if counting.passes > 1 || moved > JOINED_GROUPS_MAX || !all.iter().all(is_whole) {
            return Err(all);
        }
        let Some(mut largest) = all.pop() else { return Err(all) };
        for other in &all {
            largest.short.join(&other.short, counting);
            largest.long.join(&other.long, counting);
        }
        Ok(largest)
    }

    /// Counts the flows of a batch.
    pub(crate) fn add(&mut self, counting: &Counting, how: &S::How, only: Option<&KeySet>, batch: &FlowBatch) {
        let counters = Counters::of(batch);
        let further = MeasureColumns::of(batch, &counting.measures);
        for layout in &counting.sides {
            let valid = layout.parts().first().filter(|_| counting.skip_null).map(|part| batch.column(part.column()));
            if valid == Some(None) {
                continue;
            }
            let nulls = valid.flatten().and_then(|values| values.nulls().cloned());
            let is_kept = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let keys = layout.keys(batch);
            let mut long = keys.long.iter().peekable();
            for (row, key) in keys.short.iter().enumerate() {
                let long = long.next_if(|(number, _)| *number as usize == row);
                let is_wanted = only.is_none_or(|only| match long {
                    None => only.short.contains(key),
                    Some((_, key)) => only.long.contains(key),
                });
                if !is_wanted || !is_kept(row) {
                    continue;
                }
                if !counting.measures.is_empty() {
                    further.row(row, &counting.measures, &mut self.more);
                }
                let sums = S::row(how, &counters, row);
                match long {
                    None => self.short.add(counting, key, &sums, &self.more),
                    Some((_, key)) => self.long.add(counting, key, &sums, &self.more),
                }
            }
        }
    }

    /// Octets of what is held.
    pub(crate) fn octets(&self) -> usize {
        self.short.octets() + self.long.octets()
    }

    /// Deals out what is still in the tables.
    pub(crate) fn finish(mut self, counting: &Counting) -> Self {
        self.short.deal(counting);
        self.long.deal(counting);
        self
    }
}
