//! Groups, found by their keys.

use std::hash::{BuildHasher, Hash};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use weir_flow::{ColumnType, FlowBatch};

use super::sums::Sums;
use crate::{Measure, Sorting};

/// Parts that keys are dealt to by their hash, so that each part is grouped by itself.
pub(crate) const PARTS: usize = 64;

/// A key of a group.
pub(crate) trait Key: Eq + Hash + Ord + Clone + Send + Sync {
    /// Octets that it takes besides those of its own size.
    fn more_octets(&self) -> usize;
}

impl Key for u128 {
    fn more_octets(&self) -> usize {
        0
    }
}

impl Key for Box<[u8]> {
    fn more_octets(&self) -> usize {
        self.len() + 16
    }
}

/// What is counted for a key.
pub(crate) trait GroupSums: Copy + Send + Sync {
    /// Adds what was counted elsewhere.
    fn add(&mut self, other: &Self);
    /// A number by which groups are sorted, the smallest first.
    fn rank(&self, sorting: Sorting) -> u64;
}

impl GroupSums for Sums {
    #[inline]
    fn add(&mut self, other: &Self) {
        self.join(other);
    }

    fn rank(&self, sorting: Sorting) -> u64 {
        self.rank_by(sorting)
    }
}

/// One counter alone: enough to know which groups come first.
impl GroupSums for u64 {
    #[inline]
    fn add(&mut self, other: &Self) {
        *self = self.wrapping_add(*other);
    }

    fn rank(&self, _sorting: Sorting) -> u64 {
        !*self
    }
}

/// The part that a key of this hash belongs to. Tables use the lowest and the highest bits.
pub(crate) fn part_of(hash: u64) -> usize {
    (hash >> 48) as usize % PARTS
}

/// Keys and what was counted for each, as columns.
#[derive(Debug, Clone)]
pub(crate) struct Rows<K, S> {
    pub(crate) keys: Vec<K>,
    pub(crate) sums: Vec<S>,
    /// What else is measured: one number for each key and measure.
    pub(crate) more: Vec<Option<u64>>,
}

impl<K, S> Default for Rows<K, S> {
    fn default() -> Self {
        Self { keys: Vec::new(), sums: Vec::new(), more: Vec::new() }
    }
}

impl<K: Key, S: GroupSums> Rows<K, S> {
    pub(crate) fn push(&mut self, key: K, sums: &S, more: &[Option<u64>]) {
        self.keys.push(key);
        self.sums.push(*sums);
        self.more.extend_from_slice(more);
    }

    /// Capacity for this many rows.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { keys: Vec::with_capacity(rows), sums: Vec::with_capacity(rows), more: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.sums.clear();
        self.more.clear();
    }

    pub(crate) fn octets(&self) -> usize {
        let heap: usize = self.keys.first().map_or(0, Key::more_octets);
        self.keys.len() * (size_of::<K>() + size_of::<S>() + heap) + self.more.len() * size_of::<Option<u64>>()
    }
}

/// Groups, found by their keys.
pub(crate) struct Groups<K, S> {
    index: HashTable<u32>,
    pub(crate) rows: Rows<K, S>,
}

impl<K: Key, S: GroupSums> Groups<K, S> {
    pub(crate) fn with_capacity(groups: usize) -> Self {
        Self { index: HashTable::with_capacity(groups), rows: Rows::with_capacity(groups) }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.keys.len()
    }

    pub(crate) fn clear(&mut self) {
        self.index.clear();
        self.rows.clear();
    }

    /// Counts for a key.
    #[inline]
    pub(crate) fn add(
        &mut self,
        hasher: &RandomState,
        hash: u64,
        key: &K,
        sums: &S,
        more: &[Option<u64>],
        measures: &[Measure],
    ) {
        let Rows { keys, sums: all, more: all_more } = &mut self.rows;
        if let Some(&group) = self.index.find(hash, |&group| keys[group as usize] == *key) {
            let group = group as usize;
            all[group].add(sums);
            let into = &mut all_more[group * measures.len()..(group + 1) * measures.len()];
            for ((into, value), measure) in into.iter_mut().zip(more).zip(measures) {
                *into = joined(*measure, *into, *value);
            }
            return;
        }
        let group = keys.len() as u32;
        self.index.insert_unique(hash, group, |&group| hasher.hash_one(&keys[group as usize]));
        self.rows.push(key.clone(), sums, more);
    }
}

fn joined(measure: Measure, a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(match measure {
            Measure::Sum(_) => a.wrapping_add(b),
            Measure::Or(_) => a | b,
        }),
        (one, other) => one.or(other),
    }
}

/// The numbers of further measures, of the rows of a batch.
pub(crate) struct MeasureColumns(Vec<Option<ArrayRef>>);

impl MeasureColumns {
    pub(crate) fn of(batch: &FlowBatch, measures: &[Measure]) -> Self {
        Self(measures.iter().map(|measure| batch.column(measure.column()).cloned()).collect())
    }

    /// The numbers of a row, put into `into`.
    #[inline]
    pub(crate) fn row(&self, row: usize, measures: &[Measure], into: &mut Vec<Option<u64>>) {
        into.clear();
        for (values, measure) in self.0.iter().zip(measures) {
            let values = values.as_ref().filter(|values| values.is_valid(row));
            into.push(values.and_then(|values| match measure.column().column_type() {
                ColumnType::U8 => Some(u64::from(values.as_primitive::<UInt8Type>().value(row))),
                ColumnType::U16 => Some(u64::from(values.as_primitive::<UInt16Type>().value(row))),
                ColumnType::U32 => Some(u64::from(values.as_primitive::<UInt32Type>().value(row))),
                ColumnType::U64 => Some(values.as_primitive::<UInt64Type>().value(row)),
                _ => None,
            }));
        }
    }
}
