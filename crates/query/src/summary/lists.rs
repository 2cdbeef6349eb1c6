//! Keys of one source of sums, with what is known of each.

use std::collections::BTreeMap;

use arrow::array::Array;
use weir_flow::FlowBatch;

use crate::group::{Counters, Key, KeyLayout, RankingCounter, Rows, Sums};

/// The number that decides about a group.
pub(super) fn decisive(lean: RankingCounter, sums: &Sums) -> u64 {
    match lean {
        RankingCounter::Flows => sums.flows,
        RankingCounter::Packets => sums.packets,
        RankingCounter::Bytes => sums.bytes,
    }
}

/// What a list knows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// What decides, and that there is nothing to look up.
    All(u64),
    /// What decides.
    Decisive(u64),
    /// That it has no more than the bound of the list.
    AtMost(u64),
}

/// The keys of one kind, in order.
#[derive(Debug)]
pub(super) struct SortedKeys<K> {
    keys: Vec<K>,
    /// What decides.
    values: Vec<u64>,
    /// The row of each key, in a table that has everything else; empty when that must be looked up.
    rows: Vec<u32>,
    /// What has been looked up.
    looked_up: BTreeMap<K, Option<Sums>>,
}

impl<K: Key> SortedKeys<K> {
    fn of_rows(mut rows: Vec<(K, u64, u32)>) -> Self {
        if !rows.is_sorted_by(|a, b| a.0 <= b.0) {
            rows.sort_unstable();
        }
        let mut keyed = Self::of_values(Vec::new());
        for (key, value, row) in rows {
            keyed.keys.push(key);
            keyed.values.push(value);
            keyed.rows.push(row);
        }
        keyed
    }

    pub(super) fn of_values(mut rows: Vec<(K, u64)>) -> Self {
        rows.sort_unstable();
        let (keys, values) = rows.into_iter().unzip();
        Self { keys, values, rows: Vec::new(), looked_up: BTreeMap::new() }
    }

    /// What decides, of each key.
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The keys of which what decides is at least `value`.
    pub(super) fn from(&self, value: u64) -> impl Iterator<Item = &K> {
        self.keys.iter().zip(&self.values).filter(move |(_, own)| **own >= value).map(|(key, _)| key)
    }

    /// What is known of a key in a list whose other keys have at most `bound`.
    pub(super) fn known(&self, key: &K, bound: Option<u64>, lean: RankingCounter) -> Known {
        match (self.keys.binary_search(key), bound) {
            _ if self.looked_up.contains_key(key) => {
                let sums = self.looked_up.get(key).and_then(Option::as_ref);
                Known::All(sums.map_or(0, |sums| decisive(lean, sums)))
            }
            (Ok(at), _) if self.rows.is_empty() => Known::Decisive(self.values[at]),
            (Ok(at), _) => Known::All(self.values[at]),
            (Err(_), Some(bound)) => Known::AtMost(bound),
            (Err(_), None) => Known::All(0),
        }
    }

    /// What a key has, of which all is known.
    pub(super) fn sums(&self, key: &K, table: Option<&FlowBatch>) -> Option<Sums> {
        if let Some(sums) = self.looked_up.get(key) {
            return *sums;
        }
        let at = self.keys.binary_search(key).ok()?;
        Some(Counters::of(table?).row(*self.rows.get(at)? as usize))
    }

    /// Remembers what these keys were found to have: those that `found` lacks have nothing.
    pub(super) fn learn(&mut self, asked: impl IntoIterator<Item = K>, found: impl IntoIterator<Item = Rows<K, Sums>>) {
        self.looked_up.extend(asked.into_iter().map(|key| (key, None)));
        for rows in found {
            self.looked_up.extend(rows.into_rows().map(|row| (row.key, Some(row.sums))));
        }
    }
}

/// The keys of one source.
#[derive(Debug)]
pub(super) struct List {
    /// Number of the segment, and of the side; `None` for all that was read flow by flow.
    pub(super) place: Option<(usize, usize)>,
    /// The table that keys are from.
    pub(super) table: Option<FlowBatch>,
    pub(super) short: SortedKeys<u128>,
    pub(super) long: SortedKeys<Box<[u8]>>,
    /// What a key that is not in the list has at most; `None` when all keys are.
    pub(super) bound: Option<u64>,
}

/// The keys of a table of sums, whose rows look like flows.
pub(super) fn keys_of(
    table: &FlowBatch,
    layout: &KeyLayout,
    skip_null: bool,
    lean: RankingCounter,
) -> (SortedKeys<u128>, SortedKeys<Box<[u8]>>) {
    let column = layout.parts().first().and_then(|part| table.column(part.column()));
    let is_null = |row: usize| column.is_none_or(|values| values.is_null(row));
    let counters = Counters::of(table);
    let keys = layout.keys(table);
    let mut long_keys = keys.long.into_iter().peekable();
    let (mut short, mut long) = (Vec::with_capacity(table.rows()), Vec::new());
    for (row, key) in keys.short.into_iter().enumerate() {
        let long_key = long_keys.next_if(|(at, _)| *at as usize == row);
        if skip_null && is_null(row) {
            continue;
        }
        let value = counters.one(lean, row);
        match long_key {
            Some((_, key)) => long.push((key, value, row as u32)),
            None => short.push((key, value, row as u32)),
        }
    }
    (SortedKeys::of_rows(short), SortedKeys::of_rows(long))
}
