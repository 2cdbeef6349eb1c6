//! The first of a ranking, from lists of the heavy keys of each segment.
//!
//! Every list has the sums of its keys, and what any other key has at most. A key's total lies between what lists have
//! and that plus the bounds of the lists that it is missing from. When the last of the first ones has more than a key
//! that is in no list can have, only keys of lists come into question; those of them whose upper end reaches that far
//! are looked up where they are missing, through the index, and are exact then. This is the threshold algorithm of
//! Fagin, Lotem and Naor (2003), with bounds kept per segment instead of sorted access. When too many keys would have
//! to be looked up, or the bounds are too wide, the ranking stays open.

use super::lists::{List, ListedValue, SortedKeys, keys_of};
use super::table::Table;
use crate::flows::FlowSources;
use crate::group::{Grouping, Key, KeySet, Part, RankingCounter, Rows, Sums, add_saturating};
use crate::passes::all_passes;
use crate::run::share_out;
use crate::scan::ScanSpec;
use crate::{FlowQuery, QueryError, QueryOptions};

/// Keys that are looked up in one list, at most: as many as the index is asked for.
const LOOK_UP_MAX: usize = 64;

/// The groups that a ranking is made from; `None` when it is left open.
pub(super) fn ranking(
    flows: &FlowSources,
    tables: &[Option<Vec<Table>>],
    question: &FlowQuery,
    (grouping, lean): (&Grouping, RankingCounter),
    options: &QueryOptions,
) -> Result<Option<Part<Sums>>, QueryError> {
    let limit = grouping.limit.unwrap_or(usize::MAX);
    let left = tables.iter().zip(&flows.segments).filter(|(tables, _)| tables.is_none());
    let left = flows.with_segments(left.map(|(_, segment)| segment.clone()).collect());
    let lists = lists_of(tables, grouping, lean, options)?;
    let mut ranking = Ranking { flows, left, question, grouping, lean, options, lists };
    // Whatever else there is only adds to the keys of these lists, so it need not be read to see that bounds are too
    // wide.
    if ranking.contenders(limit).is_none() {
        return Ok(None);
    }
    match ranking.read_left().and_then(|()| ranking.settle(limit)) {
        // the flows themselves can be read several times, for some of the keys each time
        Err(QueryError::Memory(_)) => Ok(None),
        settled => settled,
    }
}

/// What a key that is in no list has at most.
fn bounds_of(lists: &[List]) -> u64 {
    let mut sum = 0;
    for list in lists {
        add_saturating(&mut sum, list.bound.unwrap_or(0));
    }
    sum
}

/// The last of the `limit` largest numbers; `None` when there are fewer, or it is nothing.
fn largest(mut numbers: Vec<u64>, limit: usize) -> Option<u64> {
    let at = numbers.len().checked_sub(limit)?;
    let (_, threshold, _) = numbers.select_nth_unstable(at);
    Some(*threshold).filter(|threshold| *threshold > 0)
}

fn lists_of(
    tables: &[Option<Vec<Table>>],
    grouping: &Grouping,
    lean: RankingCounter,
    options: &QueryOptions,
) -> Result<Vec<List>, QueryError> {
    let numbered = tables.iter().enumerate().flat_map(|(segment, tables)| {
        let sides = tables.iter().flatten().enumerate();
        sides.map(move |(side, table)| ((segment, side), table))
    });
    let numbered: Vec<_> = numbered.collect();
    let lists = share_out(
        options.threads,
        numbered.len(),
        || Ok(Vec::new()),
        |lists: &mut Vec<List>, number| {
            let (place, table) = &numbered[number];
            let counting = &grouping.counting;
            let (short, long) = keys_of(&table.rows, &counting.sides[place.1], counting.skip_null, lean);
            let bound = table.rest.map(|rest| match lean {
                RankingCounter::Flows => rest.flows_max,
                RankingCounter::Packets => rest.packets_max,
                RankingCounter::Bytes => rest.bytes_max,
            });
            lists.push(List { place: Some(*place), table: Some(table.rows.clone()), short, long, bound });
            Ok(())
        },
    )?;
    Ok(lists.into_iter().flatten().collect())
}

/// The list of all keys of flows that are read one by one.
fn read_list(
    left: &FlowSources,
    question: &FlowQuery,
    grouping: &Grouping,
    lean: RankingCounter,
    options: &QueryOptions,
) -> Result<List, QueryError> {
    let wanted = ScanSpec::new(question, grouping.lean_columns(lean));
    let mut grouping = Grouping { sorting: None, limit: None, ..grouping.clone() };
    let parts = all_passes::<u64>(left, &wanted, &mut grouping, &lean, None, options)?;
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for part in parts {
        short.extend(part.short.into_rows().map(|row| (row.key, row.sums)));
        long.extend(part.long.into_rows().map(|row| (row.key, row.sums)));
    }
    Ok(List {
        place: None,
        table: None,
        short: SortedKeys::of_values(short),
        long: SortedKeys::of_values(long),
        bound: None,
    })
}

/// A ranking while it is being settled.
struct Ranking<'a> {
    flows: &'a FlowSources,
    /// What has been read flow by flow.
    left: FlowSources,
    question: &'a FlowQuery,
    grouping: &'a Grouping,
    lean: RankingCounter,
    options: &'a QueryOptions,
    lists: Vec<List>,
}

/// Keys that come into question.
#[derive(Default)]
struct Candidates {
    short: Vec<u128>,
    long: Vec<Box<[u8]>>,
}

/// What a key has, between these.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: u64,
    most: u64,
}

impl Ranking<'_> {
    /// Adds the list of what is not summed up.
    fn read_left(&mut self) -> Result<(), QueryError> {
        if !self.left.is_empty() {
            self.lists.push(read_list(&self.left, self.question, self.grouping, self.lean, self.options)?);
        }
        Ok(())
    }

    fn settle(&mut self, limit: usize) -> Result<Option<Part<Sums>>, QueryError> {
        let Some((contenders, mut threshold)) = self.contenders(limit) else { return Ok(None) };
        // those that lists alone put first, then those that may still come before the last of them
        for end in [|between: Bounds| between.least, |between: Bounds| between.most] {
            let candidates = self.reaching(&contenders, threshold, end);
            if !self.look_up(&candidates)? {
                return Ok(None);
            }
            match self.threshold(&contenders, limit) {
                Some(larger) => threshold = larger,
                None => return Ok(None),
            }
        }
        // by now all is known of them
        let first = self.reaching(&contenders, threshold, |between| between.most);
        let mut part = Part::new(0, &self.options.memory.reservation("groups"));
        self.join(&first.short, |list| &list.short, &mut part.short);
        self.join(&first.long, |list| &list.long, &mut part.long);
        Ok(Some(part))
    }

    /// The keys that may be among the first `limit`, perhaps with others, and what the last of them has at least.
    /// `None` when that is not more than a key may have that is in no list.
    ///
    /// Where a list has `limit` keys with some value, the last of the first ones has no less. Who reaches that in all
    /// lists together, less what bounds may add, reaches the part of one list in some list.
    fn contenders(&self, limit: usize) -> Option<(Candidates, u64)> {
        let bounds = bounds_of(&self.lists);
        let of_list = |list: &List| largest([list.short.values(), list.long.values()].concat(), limit);
        let at_least = self.lists.iter().filter_map(of_list).max().unwrap_or(0);
        let part = at_least.saturating_sub(bounds).div_ceil(self.lists.len().max(1) as u64).max(1);
        let mut contenders = Candidates::default();
        for list in &self.lists {
            contenders.short.extend(list.short.from(part));
            contenders.long.extend(list.long.from(part).cloned());
        }
        contenders.short.sort_unstable();
        contenders.short.dedup();
        contenders.long.sort_unstable();
        contenders.long.dedup();
        let threshold = self.threshold(&contenders, limit)?;
        (threshold > bounds).then_some((contenders, threshold))
    }

    /// What the last of the first `limit` keys has at least.
    fn threshold(&self, keys: &Candidates, limit: usize) -> Option<u64> {
        let short = keys.short.iter().map(|key| self.between(key, |list| &list.short));
        let long = keys.long.iter().map(|key| self.between(key, |list| &list.long));
        largest(short.chain(long).map(|between| between.least).collect(), limit)
    }

    /// What a key has.
    fn between<K: Key>(&self, key: &K, keyed: impl Fn(&List) -> &SortedKeys<K>) -> Bounds {
        let mut sum = Bounds { least: 0, most: 0 };
        for list in &self.lists {
            let (least, most) = match keyed(list).listed_value(key, list.bound, self.lean) {
                ListedValue::All(value) | ListedValue::Decisive(value) => (value, value),
                ListedValue::AtMost(bound) => (0, bound),
            };
            add_saturating(&mut sum.least, least);
            add_saturating(&mut sum.most, most);
        }
        sum
    }

    /// The keys one end of which reaches the threshold.
    fn reaching(&self, keys: &Candidates, threshold: u64, end: fn(Bounds) -> u64) -> Candidates {
        let mut reaching = Candidates::default();
        for key in &keys.short {
            if end(self.between(key, |list| &list.short)) >= threshold {
                reaching.short.push(*key);
            }
        }
        for key in &keys.long {
            if end(self.between(key, |list| &list.long)) >= threshold {
                reaching.long.push(key.clone());
            }
        }
        reaching
    }

    /// Looks up the candidates wherever not all is known of them. False when these are too many.
    fn look_up(&mut self, candidates: &Candidates) -> Result<bool, QueryError> {
        let asked: Vec<KeySet> = self.lists.iter().map(|list| self.missing(list, candidates)).collect();
        let is_much =
            |(list, only): (&List, &KeySet)| list.place.is_some() && only.short.len() + only.long.len() > LOOK_UP_MAX;
        if self.lists.iter().zip(&asked).any(is_much) {
            return Ok(false);
        }
        for (number, only) in asked.into_iter().enumerate() {
            if only.short.is_empty() && only.long.is_empty() {
                continue;
            }
            self.options.progress.add_keys_looked_up((only.short.len() + only.long.len()) as u64);
            let found = self.find(self.lists[number].place, &only)?;
            let list = &mut self.lists[number];
            let (short, long) = found.into_iter().map(|part| (part.short, part.long)).unzip::<_, _, Vec<_>, Vec<_>>();
            list.short.learn(only.short, short);
            list.long.learn(only.long, long);
        }
        Ok(true)
    }

    /// What the flows of one place have for some keys.
    fn find(&self, place: Option<(usize, usize)>, only: &KeySet) -> Result<Vec<Part<Sums>>, QueryError> {
        let mut grouping = Grouping { sorting: None, limit: None, ..self.grouping.clone() };
        let of_place;
        let flows = match place.and_then(|(segment, side)| self.flows.segments.get(segment).zip(Some(side))) {
            None => &self.left,
            Some((segment, side)) => {
                grouping.counting.sides = vec![grouping.counting.sides[side].clone()];
                of_place = self.flows.of_segment(segment);
                &of_place
            }
        };
        // as a filter, not only as a hint: of pages without such a key nothing but the key is decoded then
        let question = FlowQuery { filter: grouping.hint(only), ..self.question.clone() };
        let wanted = ScanSpec::new(&question, grouping.columns());
        all_passes::<Sums>(flows, &wanted, &mut grouping, &(), Some(only), self.options)
    }

    /// What these keys have, of which all is known.
    fn join<K: Key>(&self, keys: &[K], keyed: impl Fn(&List) -> &SortedKeys<K>, rows: &mut Rows<K, Sums>) {
        for key in keys {
            let known = self.lists.iter().filter_map(|list| keyed(list).sums(key, list.table.as_ref()));
            let joined = known.reduce(|mut joined, sums| {
                joined.join(&sums);
                joined
            });
            if let Some(sums) = joined {
                rows.push(key.clone(), sums, &[]);
            }
        }
    }

    /// Candidates of which a list does not know everything.
    fn missing(&self, list: &List, candidates: &Candidates) -> KeySet {
        let mut only = KeySet::default();
        let is_missing = |known| !matches!(known, ListedValue::All(_));
        let short = candidates.short.iter();
        only.short.extend(short.filter(|key| is_missing(list.short.listed_value(key, list.bound, self.lean))));
        let long = candidates.long.iter();
        only.long.extend(long.filter(|key| is_missing(list.long.listed_value(key, list.bound, self.lean))).cloned());
        only
    }
}
