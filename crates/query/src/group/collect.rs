//! Flows, dealt out to groups.
//!
//! Every thread groups what it reads in a table of its own, which grows while flows repeat. When it is as large as it
//! may be, its groups are dealt out to parts by their hash and it begins anew; when flows hardly repeat, they are dealt
//! out at once. In the end each part is grouped by itself, in any thread, with an index that is near the processor.
//! What speaks against it: parts hold a row for each time that a key left the table, so very many groups take more memory
//! than a single large table would. When they take more than allowed, the flows are read several times, and each time
//! for some of the parts only.

use std::hash::BuildHasher;

use foldhash::HashSet;
use foldhash::fast::RandomState;
use weir_flow::FlowBatch;

use super::keys::KeyLayout;
use super::measures::MeasureColumns;
use super::pieces::{Pieces, part_chunk_bits};
use super::row::{GroupSums, Key, Row};
use super::rows::Rows;
use super::sums::{Counters, RankingCounter, Sums};
use super::table::{BLOCK_ROWS, Groups, PARTS, part_of};
use crate::{Measure, MemoryError, QueryOptions, Reservation};

/// Groups after which it is looked at whether flows repeat.
const PROBE_GROUPS: usize = 1 << 14;
/// Groups of other threads' tables that one thread takes over by itself, at most: dealing out fewer is not worth it.
const JOINED_GROUPS_MAX: usize = 1 << 17;
/// Groups of a thread's own table, at most: with its index some 80 MiB.
const OWN_GROUPS_MAX: usize = 1 << 20;
/// Groups of a thread's own table, at least.
const OWN_GROUPS_MIN: usize = 1 << 6;
/// Bytes that the index takes for a group, at most.
const INDEX_BYTES: usize = 24;
/// The share of the memory that the tables of all threads may take: one part of so many.
const OWN_SHARE: usize = 4;
/// Rows of a chunk of a table, as a power of two.
const OWN_CHUNK_BITS: u32 = 12;

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
    pub(super) fn takes(&self, part: usize) -> bool {
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
struct PartitionedGroups<K, S> {
    own: Groups<K, S>,
    own_max: usize,
    rows_seen: usize,
    /// Flows hardly repeat, so they are dealt out at once.
    is_direct: bool,
    /// A full table showed that they do. What a new one sees first never repeats much, and says nothing then.
    repeats: bool,
    /// None before anything was dealt out.
    parts: Vec<Rows<K, S>>,
    memory: Reservation,
}

impl<K: Key, S: GroupSums> PartitionedGroups<K, S> {
    fn new(own_max: usize, measures: usize, memory: &Reservation) -> Self {
        Self {
            own: Groups::new(OWN_CHUNK_BITS, measures, memory),
            own_max,
            rows_seen: 0,
            is_direct: false,
            repeats: false,
            parts: Vec::new(),
            memory: memory.empty(),
        }
    }

    #[inline]
    fn add(
        &mut self,
        counting: &Counting,
        hash: u64,
        key: &K,
        sums: &S,
        more: &[Option<u64>],
    ) -> Result<(), MemoryError> {
        if self.is_direct {
            return self.parts[part_of(hash)].try_push(key.clone(), *sums, more);
        }
        self.rows_seen += 1;
        self.own.add(hash, key, sums, more, &counting.measures)?;
        let groups = self.own.len();
        let is_full = groups >= self.own_max;
        if groups.is_power_of_two() && (is_full || (groups >= PROBE_GROUPS && !self.repeats)) {
            self.is_direct = self.rows_seen < groups + groups / 2;
            self.repeats |= is_full && !self.is_direct;
            if self.is_direct || is_full {
                self.deal(counting);
            }
        }
        Ok(())
    }

    /// Moves the groups of the table to their parts. Chunk by chunk as much memory is returned as is taken.
    fn deal(&mut self, counting: &Counting) {
        self.rows_seen = 0;
        if self.parts.is_empty() {
            let part = || Rows::new(part_chunk_bits::<K, S>(), counting.measures.len(), &self.memory);
            self.parts = std::iter::repeat_with(part).take(PARTS).collect();
        }
        let measures = counting.measures.len();
        for mut chunk in self.own.take_rows().into_chunks() {
            let (rows, more) = chunk.drain();
            for (number, row) in rows.enumerate() {
                let part = part_of(counting.hasher.hash_one(&row.key));
                self.parts[part].push(row.key, row.sums, &more[number * measures..(number + 1) * measures]);
            }
        }
    }

    /// Whether all groups are in the table.
    fn is_whole(&self) -> bool {
        self.parts.is_empty()
    }

    /// Counts the groups of another table, too.
    fn join(&mut self, other: Self, counting: &Counting) -> Result<(), MemoryError> {
        let measures = counting.measures.len();
        for mut chunk in other.own.into_rows().into_chunks() {
            let (rows, more) = chunk.drain();
            for (number, row) in rows.enumerate() {
                let more = &more[number * measures..(number + 1) * measures];
                let hash = counting.hasher.hash_one(&row.key);
                self.own.add(hash, &row.key, &row.sums, more, &counting.measures)?;
            }
        }
        Ok(())
    }
}

/// The groups that a thread has seen.
pub(crate) struct Collected<S> {
    short: PartitionedGroups<u128, S>,
    long: PartitionedGroups<Box<[u8]>, S>,
    /// The further measures of a row.
    more: Vec<Option<u64>>,
    /// Rows that are counted together, with the hashes of their keys.
    block: Vec<(u64, u32)>,
}

impl<S: Count> Collected<S> {
    pub(crate) fn new(counting: &Counting, options: &QueryOptions) -> Self {
        let memory = options.memory.reservation("groups");
        let own_bytes = options.memory.limit_bytes() / OWN_SHARE / options.threads.max(1);
        let measures = counting.measures.len();
        let group_bytes = size_of::<Row<u128, S>>() + measures * size_of::<Option<u64>>() + INDEX_BYTES;
        let own_max = (own_bytes / group_bytes).clamp(OWN_GROUPS_MIN, OWN_GROUPS_MAX);
        let own_max = 1 << own_max.ilog2();
        Self {
            short: PartitionedGroups::new(own_max, measures, &memory),
            long: PartitionedGroups::new(own_max, measures, &memory),
            more: Vec::new(),
            block: Vec::with_capacity(BLOCK_ROWS),
        }
    }

    /// What all threads have seen, as that of one, when that is few groups; else what was given.
    pub(crate) fn join_few(mut all: Vec<Self>, counting: &Counting) -> Result<Result<Self, Vec<Self>>, MemoryError> {
        let is_whole = |one: &Self| one.short.is_whole() && one.long.is_whole();
        let groups = |one: &Self| one.short.own.len() + one.long.own.len();
        all.sort_unstable_by_key(groups);
        let moved: usize = all.iter().rev().skip(1).map(groups).sum();
        if counting.passes > 1 || moved > JOINED_GROUPS_MAX || !all.iter().all(is_whole) {
            return Ok(Err(all));
        }
        let Some(mut largest) = all.pop() else { return Ok(Err(all)) };
        for other in all {
            largest.short.join(other.short, counting)?;
            largest.long.join(other.long, counting)?;
        }
        Ok(Ok(largest))
    }

    /// Groups that there are; `None` when some were dealt out, which are not known to be others.
    pub(crate) fn groups(&self) -> Option<usize> {
        let is_whole = self.short.is_whole() && self.long.is_whole();
        is_whole.then(|| self.short.own.len() + self.long.own.len())
    }

    /// All of it as one part, of which nothing was dealt out.
    pub(crate) fn into_whole(self) -> Pieces<S> {
        Pieces { short: vec![self.short.own.into_rows()], long: vec![self.long.own.into_rows()] }
    }

    /// Counts the flows of a batch.
    pub(crate) fn add(
        &mut self,
        counting: &Counting,
        how: &S::How,
        only: Option<&KeySet>,
        batch: &FlowBatch,
    ) -> Result<(), MemoryError> {
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
                if self.block.len() == BLOCK_ROWS {
                    self.add_block(counting, how, &keys.short, &counters, &further)?;
                }
                let long = long.next_if(|(number, _)| *number as usize == row);
                let is_wanted = only.is_none_or(|only| match long {
                    None => only.short.contains(key),
                    Some((_, key)) => only.long.contains(key),
                });
                if !is_wanted || !is_kept(row) {
                    continue;
                }
                let hash = match long {
                    None => counting.hasher.hash_one(key),
                    Some((_, key)) => counting.hasher.hash_one(key),
                };
                if !counting.takes(part_of(hash)) {
                    continue;
                }
                match long {
                    None => self.block.push((hash, row as u32)),
                    Some((_, key)) => {
                        further.row(row, &counting.measures, &mut self.more);
                        self.long.add(counting, hash, key, &S::row(how, &counters, row), &self.more)?;
                    }
                }
            }
            self.add_block(counting, how, &keys.short, &counters, &further)?;
        }
        Ok(())
    }

    /// Counts the rows of the block, and empties it.
    fn add_block(
        &mut self,
        counting: &Counting,
        how: &S::How,
        keys: &[u128],
        counters: &Counters<'_>,
        further: &MeasureColumns,
    ) -> Result<(), MemoryError> {
        if !self.short.is_direct {
            self.short.own.fetch(self.block.iter().map(|(hash, row)| (*hash, &keys[*row as usize])));
        }
        for (hash, row) in self.block.drain(..) {
            let row = row as usize;
            if !counting.measures.is_empty() {
                further.row(row, &counting.measures, &mut self.more);
            }
            self.short.add(counting, hash, &keys[row], &S::row(how, counters, row), &self.more)?;
        }
        Ok(())
    }

    /// What it has of each part.
    pub(crate) fn into_parts(mut self, counting: &Counting) -> Vec<Pieces<S>> {
        self.short.deal(counting);
        self.long.deal(counting);
        let parts = self.short.parts.into_iter().zip(self.long.parts);
        parts.map(|(short, long)| Pieces { short: vec![short], long: vec![long] }).collect()
    }
}
