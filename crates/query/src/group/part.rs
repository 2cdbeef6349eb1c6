//! One part of all groups, from what threads have collected of it.

use std::hash::BuildHasher;

use super::Grouping;
use super::collect::{Collected, Count, Counting};
use super::pieces::{Pieces, part_chunk_bits};
use super::row::{GroupSums, Key};
use super::rows::Rows;
use super::table::{BLOCK_ROWS, Groups};
use crate::{MemoryError, Reservation};

/// Places that are kept while the first ones are looked for, at least.
const RANKED_MIN: usize = 1 << 10;

/// Groups of a part from which on its index is larger than what a processor has for itself.
const FAR_GROUPS: usize = 1 << 16;

/// The groups of one part.
#[derive(Debug)]
pub(crate) struct Part<S> {
    pub(crate) short: Rows<u128, S>,
    pub(crate) long: Rows<Box<[u8]>, S>,
}

impl<S: GroupSums> Part<S> {
    /// No groups.
    pub(crate) fn new(measures: usize, memory: &Reservation) -> Self {
        let short = Rows::new(part_chunk_bits::<u128, S>(), measures, memory);
        Self { short, long: Rows::new(part_chunk_bits::<Box<[u8]>, S>(), measures, memory) }
    }
}

impl Grouping {
    /// Groups one part: at least the groups that the answer has.
    pub(crate) fn part<S: Count>(&self, pieces: Pieces<S>, memory: &Reservation) -> Result<Part<S>, MemoryError> {
        let short = grouped(&self.counting, pieces.short, memory);
        let long = grouped(&self.counting, pieces.long, memory);
        Ok(Part { short: self.first(short, memory)?, long: self.first(long, memory)? })
    }

    /// All groups, as one part.
    pub(crate) fn whole<S: Count>(
        &self,
        collected: Collected<S>,
        memory: &Reservation,
    ) -> Result<Part<S>, MemoryError> {
        let mut part = Part::new(self.counting.measures.len(), memory);
        let whole = collected.into_whole();
        // its keys are there once
        for short in whole.short {
            part.short = self.first(short, memory)?;
        }
        for long in whole.long {
            part.long = self.first(long, memory)?;
        }
        Ok(part)
    }

    /// Those of these groups that may be among the first ones asked for.
    fn first<K: Key, S: GroupSums>(&self, rows: Rows<K, S>, memory: &Reservation) -> Result<Rows<K, S>, MemoryError> {
        let (Some(sorting), Some(limit)) = (self.sorting, self.limit) else { return Ok(rows) };
        if rows.len() <= limit {
            return Ok(rows);
        }
        let mut first = Rows::new(part_chunk_bits::<K, S>(), rows.measures(), memory);
        if limit == 0 {
            return Ok(first);
        }
        let ranked_max = limit.saturating_mul(2).max(RANKED_MIN).min(rows.len());
        let mut memory = memory.empty();
        memory.try_grow(ranked_max * size_of::<(u64, u32)>())?;
        let mut ranked: Vec<(u64, u32)> = Vec::with_capacity(ranked_max);
        let by_rank_and_key = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0).then_with(|| rows.row(a.1 as usize).key.cmp(&rows.row(b.1 as usize).key))
        };
        let mut last_rank = u64::MAX;
        for (number, row) in rows.iter().enumerate() {
            let rank = row.sums.rank(sorting);
            if rank > last_rank {
                continue;
            }
            if ranked.len() == ranked_max {
                ranked.select_nth_unstable_by(limit - 1, by_rank_and_key);
                ranked.truncate(limit);
                last_rank = ranked[limit - 1].0;
            }
            ranked.push((rank, number as u32));
        }
        if ranked.len() > limit {
            ranked.select_nth_unstable_by(limit - 1, by_rank_and_key);
            ranked.truncate(limit);
        }
        for (_, row) in ranked {
            let row = row as usize;
            first.try_push(rows.row(row).key.clone(), rows.row(row).sums, rows.more(row))?;
        }
        Ok(first)
    }
}

/// Groups rows of which keys may be there several times. The chunks of these rows become those of the groups, so that
/// what is taken beyond the limit of memory is one chunk and the index of a part.
fn grouped<K: Key, S: GroupSums>(counting: &Counting, pieces: Vec<Rows<K, S>>, memory: &Reservation) -> Rows<K, S> {
    let Counting { hasher, measures, .. } = counting;
    let most = pieces.iter().map(Rows::len).sum::<usize>();
    if most == 0 {
        return Rows::new(part_chunk_bits::<K, S>(), measures.len(), memory);
    }
    let mut groups = Groups::beyond(most, part_chunk_bits::<K, S>(), measures.len(), memory);
    let mut hashes = Vec::with_capacity(BLOCK_ROWS);
    for piece in pieces {
        for mut chunk in piece.into_chunks() {
            hashes.clear();
            hashes.extend(chunk.rows().iter().map(|row| hasher.hash_one(&row.key)));
            if most > FAR_GROUPS {
                groups.fetch(hashes.iter().copied().zip(chunk.rows().iter().map(|row| &row.key)));
            }
            let (rows, more) = chunk.drain();
            for (number, (row, hash)) in rows.zip(&hashes).enumerate() {
                let more = &more[number * measures.len()..(number + 1) * measures.len()];
                // memory is taken beyond the limit, so it does not fail
                let _ = groups.add(*hash, &row.key, &row.sums, more, measures);
            }
            groups.rows_mut().reuse(chunk);
        }
    }
    groups.rows_mut().drop_spare();
    groups.into_rows()
}
