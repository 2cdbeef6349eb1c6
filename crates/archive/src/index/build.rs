//! What the index of a segment is made of, collected while its columns are encoded.

use std::collections::HashMap;

use arrow::array::{Array, BinaryArray};
use arrow::datatypes::DataType;

use super::key::{OTHER_KEY, address_key, text_key};
use super::postings::Lists;
use super::zones::Zones;
use crate::order::hosts::Mixer;

/// Most distinct values of a column that is indexed value by value; one with more has its zone maps only.
const VALUES_MAX: usize = 1 << 17;

/// Values below this find their slot without hashing.
const DIRECT_VALUES: usize = 1 << 16;

/// Octets that the lists of one column may take, per 1000 rows. A column that needs more forgets first the values that
/// are on the most pages.
const LIST_OCTETS_PER_1000_ROWS: usize = 15;

/// The same of a column of text, which is looked for by single values and by nothing else, and whose pages are large.
const TEXT_LIST_OCTETS_PER_1000_ROWS: usize = 60;

/// One column of flows.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    pub(crate) zones: Zones,
    octets_per_1000_rows: usize,
    slots: Option<Slots>,
}

impl ColumnBuilder {
    /// A column of this type; `None` when columns of the type are not indexed. `lists` tells whether its single values
    /// are.
    pub(crate) fn new(data_type: &DataType, lists: bool) -> Option<Self> {
        let zones = match data_type {
            // texts by their keys
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 | DataType::Utf8 => {
                Zones::numbers()
            }
            DataType::Timestamp(..) => Zones::times(),
            DataType::Binary => Zones::addresses(),
            _ => return None,
        };
        let octets_per_1000_rows = match data_type {
            DataType::Utf8 => TEXT_LIST_OCTETS_PER_1000_ROWS,
            _ => LIST_OCTETS_PER_1000_ROWS,
        };
        Some(Self { zones, octets_per_1000_rows, slots: lists.then(Slots::new) })
    }

    /// The values of the next page of addresses.
    pub(crate) fn add_addresses(&mut self, values: &BinaryArray) {
        let page = self.zones.pages() as u32;
        self.zones.add_addresses(values);
        if let Some(slots) = &mut self.slots {
            slots.add_addresses(values, page);
        }
        self.forget();
    }

    /// The texts of the next page, as octets.
    pub(crate) fn add_texts(&mut self, texts: &BinaryArray) {
        let mut last = None;
        let keys: Vec<u64> =
            texts.iter().flatten().filter(|text| last.replace(*text) != Some(*text)).map(text_key).collect();
        let zone = keys.iter().copied().min().zip(keys.iter().copied().max());
        self.add_keys(zone, texts.null_count() > 0, keys.into_iter());
    }

    /// The next page of addresses, by the smallest and the largest of each family. Their single values are not listed.
    pub(crate) fn add_hosts(&mut self, ranges: [Option<(u128, u128)>; 2], nulls: bool) {
        let [short, long] = ranges;
        let key = |host: u128| address_key(&host.to_be_bytes()).unwrap_or(OTHER_KEY);
        self.zones.add_ranges([short, long.map(|(low, high)| (key(low), key(high)))], nulls);
    }

    /// The next page, all values of which lie from `zone.0` to `zone.1`, by their keys.
    pub(crate) fn add_keys(&mut self, zone: Option<(u64, u64)>, nulls: bool, keys: impl Iterator<Item = u64>) {
        let page = self.zones.pages() as u32;
        self.zones.add_zone(zone, nulls);
        let (Some(slots), Some((low, high))) = (&mut self.slots, zone) else { return };
        if low == high {
            slots.add(low.into(), page);
        } else {
            keys.for_each(|key| slots.add_key(key, page));
        }
        self.forget();
    }

    /// Gives up the single values when there are too many.
    fn forget(&mut self) {
        if self.slots.as_ref().is_some_and(|slots| slots.values.len() > VALUES_MAX) {
            self.slots = None;
        }
    }

    /// The lists of this column, unless they would say nothing.
    pub(crate) fn lists(&mut self, rows: usize) -> Option<Lists> {
        let pages = self.zones.pages();
        let slots = self.slots.take()?;
        let mut counts = vec![0u32; slots.values.len()];
        slots.pairs.iter().for_each(|pair| counts[pair.0 as usize] += 1);
        if counts.iter().all(|count| *count as usize * 8 > pages * 7) {
            return None;
        }
        let limit = widest_listed(&counts, pages, rows * self.octets_per_1000_rows / 1000);
        let mut order: Vec<(u128, u32)> = slots.values.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let pairs: Vec<_> = slots.pairs.into_iter().filter(|pair| counts[pair.0 as usize] <= limit).collect();
        Some(Lists::new(&order, &[pairs]))
    }
}

/// Values on more pages than this are not listed.
fn widest_listed(counts: &[u32], pages: usize, budget: usize) -> u32 {
    let mut octets_of = vec![0; pages + 1];
    for count in counts {
        // about a bit a page for the dense ones, eight a page for the others
        octets_of[(*count as usize).min(pages)] += (*count as usize).min(pages / 8) + 1;
    }
    let mut sum = 0;
    let listed = octets_of.iter().take_while(|octets| {
        sum += **octets;
        sum <= budget
    });
    listed.count().saturating_sub(1) as u32
}

/// Distinct values, numbered as they come, and the pages that they are on.
#[derive(Debug)]
struct Slots {
    values: Vec<u128>,
    /// Last page of each value.
    last: Vec<u32>,
    direct: Vec<u32>,
    /// The last page of each value that needs no hashing, and one more.
    direct_pages: Vec<u32>,
    hashed: HashMap<u128, u32, Mixer>,
    pairs: Vec<(u32, u32)>,
    before: Option<(u128, u32)>,
}

impl Slots {
    fn new() -> Self {
        Self {
            values: Vec::new(),
            last: Vec::new(),
            direct: Vec::new(),
            direct_pages: Vec::new(),
            hashed: HashMap::with_hasher(Mixer::new()),
            pairs: Vec::new(),
            before: None,
        }
    }

    /// Most values were on this page before, and most are small: for these it takes one look.
    #[inline]
    fn add_key(&mut self, key: u64, page: u32) {
        match self.direct_pages.get_mut(key as usize) {
            Some(last) if *last == page + 1 => return,
            Some(last) => *last = page + 1,
            None if key < DIRECT_VALUES as u64 => {
                self.direct_pages.resize((key as usize + 1).next_power_of_two().max(256), 0);
                self.direct_pages[key as usize] = page + 1;
            }
            None => {}
        }
        self.add(key.into(), page);
    }

    #[inline]
    fn add(&mut self, value: u128, page: u32) {
        if self.before == Some((value, page)) {
            return;
        }
        self.before = Some((value, page));
        let slot = self.slot(value);
        let last = &mut self.last[slot as usize];
        if *last != page {
            *last = page;
            self.pairs.push((slot, page));
        }
    }

    #[inline]
    fn slot(&mut self, value: u128) -> u32 {
        const NEW: u32 = u32::MAX;
        let next = self.values.len() as u32;
        let slot = if value < DIRECT_VALUES as u128 {
            if self.direct.is_empty() {
                self.direct = vec![NEW; DIRECT_VALUES];
            }
            &mut self.direct[value as usize]
        } else {
            self.hashed.entry(value).or_insert(NEW)
        };
        if *slot == NEW {
            *slot = next;
            self.values.push(value);
            self.last.push(u32::MAX);
        }
        *slot
    }

    fn add_addresses(&mut self, values: &BinaryArray, page: u32) {
        values.iter().flatten().for_each(|octets| self.add(address_key(octets).unwrap_or(OTHER_KEY), page));
    }
}
