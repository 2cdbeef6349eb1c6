//! Keys of one source of sums, with the value of each.

use std::collections::BTreeMap;

use arrow::array::Array;
use weir_flow::FlowBatch;

use crate::group::{Counters, Key, KeyLayout, RankingCounter, Rows, Sums};

/// The number that a group is ranked by.
pub(super) fn decisive(lean: RankingCounter, sums: &Sums) -> u64 {
    match lean {
        RankingCounter::Flows => sums.flows,
        RankingCounter::Packets => sums.packets,
        RankingCounter::Bytes => sums.bytes,
    }
}

/// The value that a list has of a key: the number that it is ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListedValue {
    /// The value, and all other sums are known too.
    All(u64),
    /// The value; other sums must be looked up.
    Decisive(u64),
    /// The key is not in the list, so its value is the bound of the list at most.
    AtMost(u64),
}

/// The keys of one kind, in order.
#[derive(Debug)]
pub(super) struct SortedKeys<K> {
    keys: Vec<K>,
    /// The value of each key.
    values: Vec<u64>,
    /// The row of each key, in a table that has everything else; empty when that must be looked up.
    rows: Vec<u32>,
    /// Sums that have been looked up; `None` of a key without flows.
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

    /// The value of each key.
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The keys whose value is at least `value`.
    pub(super) fn from(&self, value: u64) -> impl Iterator<Item = &K> {
        self.keys.iter().zip(&self.values).filter(move |(_, own)| **own >= value).map(|(key, _)| key)
    }

    /// The value of a key in a list whose other keys have at most `bound`.
    pub(super) fn listed_value(&self, key: &K, bound: Option<u64>, lean: RankingCounter) -> ListedValue {
        match (self.keys.binary_search(key), bound) {
            _ if self.looked_up.contains_key(key) => {
                let sums = self.looked_up.get(key).and_then(Option::as_ref);
                ListedValue::All(sums.map_or(0, |sums| decisive(lean, sums)))
            }
            (Ok(at), _) if self.rows.is_empty() => ListedValue::Decisive(self.values[at]),
            (Ok(at), _) => ListedValue::All(self.values[at]),
            (Err(_), Some(bound)) => ListedValue::AtMost(bound),
            (Err(_), None) => ListedValue::All(0),
        }
    }

    /// The sums of a key, if all are known.
    pub(super) fn sums(&self, key: &K, table: Option<&FlowBatch>) -> Option<Sums> {
        if let Some(sums) = self.looked_up.get(key) {
            return *sums;
        }
        let at = self.keys.binary_search(key).ok()?;
        Some(Counters::of(table?).row(*self.rows.get(at)? as usize))
    }

    /// Keeps the sums of keys that were looked up; keys that are not in `found` have no flows.
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
