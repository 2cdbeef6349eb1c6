//! Flows that agree in some fields, as one row each.

mod collect;
mod keys;
mod sums;
mod table;

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt16Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Field, Schema, SchemaRef, UInt16Type};
use foldhash::fast::RandomState;
use weir_filter::Predicate;
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType, FlowBatch};

pub(crate) use collect::{Collected, Count, Counting, KeySet};
pub(crate) use keys::{KeyLayout, KeyPart};
pub(crate) use sums::{Counters, RankingCounter, Sums};
pub(crate) use table::Rows;

use keys::key_field;
use sums::{COUNTED, sum_columns, sum_fields};
use table::{GroupSums, Groups, Key, PARTS};

use crate::{AggregateKey, Measure, QueryError, Select, Sorting};

/// Rows of a batch of an answer.
const BATCH_ROWS: usize = 8192;

/// How flows are grouped, and which groups are in the answer.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub(crate) counting: Counting,
    pub(crate) sorting: Option<Sorting>,
    pub(crate) limit: Option<usize>,
}

impl Grouping {
    /// The grouping that a question asks for; `None` for a list.
    pub(crate) fn of(select: &Select) -> Option<Self> {
        let counting = |sides: Vec<Vec<KeyPart>>, skip_null, measures| Counting {
            sides: sides.into_iter().map(KeyLayout::new).collect(),
            skip_null,
            measures,
            hasher: RandomState::default(),
            pass: 0,
            passes: 1,
        };
        match select {
            Select::List { .. } => None,
            Select::Statistic { key, per_protocol, sorting, limit } => {
                let name = key.name();
                let protocol = (*per_protocol && name != Column::Protocol.name()).then(|| KeyPart {
                    from: AggregateKey::Column(Column::Protocol),
                    name: Column::Protocol.name().to_owned(),
                });
                let side = |column: &Column| {
                    let part = KeyPart { from: AggregateKey::Column(*column), name: name.to_owned() };
                    std::iter::once(part).chain(protocol.clone()).collect()
                };
                Some(Self {
                    counting: counting(key.columns().iter().map(side).collect(), true, Vec::new()),
                    sorting: Some(*sorting),
                    limit: *limit,
                })
            }
            Select::Aggregate { keys, more, sorting, limit } => {
                let keys = if keys.is_empty() { AggregateKey::FIVE_TUPLE.to_vec() } else { keys.clone() };
                let parts = keys.into_iter().map(|from| {
                    let name = from.column().name().to_owned();
                    KeyPart { from, name }
                });
                let counting = counting(vec![parts.collect()], false, more.clone());
                Some(Self { counting, sorting: *sorting, limit: *limit })
            }
        }
    }

    /// Columns that are read.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let parts = self.counting.sides.iter().flat_map(keys::KeyLayout::parts);
        let keys = parts.flat_map(KeyPart::columns);
        keys.chain(COUNTED).chain(self.counting.measures.iter().map(|measure| measure.column())).collect()
    }

    /// The one counter that decides which groups are in the answer, when that is few of them: then it alone is counted
    /// first, and everything else for these groups only.
    pub(crate) fn lean(&self) -> Option<RankingCounter> {
        const FEW: usize = 1000;
        let few = self.limit.is_some_and(|limit| (1..=FEW).contains(&limit));
        self.sorting.filter(|_| few).and_then(RankingCounter::of)
    }

    /// Columns that are read when one counter decides.
    pub(crate) fn lean_columns(&self, lean: RankingCounter) -> Vec<Column> {
        let parts = self.counting.sides.iter().flat_map(keys::KeyLayout::parts);
        parts.flat_map(KeyPart::columns).chain([lean.column()]).collect()
    }

    /// A filter that every flow of these groups passes, and few others.
    pub(crate) fn hint(&self, only: &KeySet) -> Predicate {
        const TESTED_MAX: usize = 64;
        if only.short.len() + only.long.len() > TESTED_MAX {
            return Predicate::True;
        }
        let short: Vec<u128> = only.short.iter().copied().collect();
        let long: Vec<&[u8]> = only.long.iter().map(|key| &**key).collect();
        let sides = self.counting.sides.iter().map(|layout| {
            let columns = layout.columns(&short, &long);
            let rows = (0..short.len() + long.len()).map(|row| {
                let tests = layout.parts().iter().zip(&columns).filter_map(|(part, values)| part.equals(values, row));
                Predicate::and(tests)
            });
            Predicate::or(rows)
        });
        Predicate::or(sides)
    }

    fn layout(&self) -> &KeyLayout {
        // every grouping has a side
        &self.counting.sides[0]
    }

    /// Columns of the answer.
    pub(crate) fn schema(&self) -> SchemaRef {
        let mut fields: Vec<Field> = self.layout().parts().iter().map(key_field).collect();
        fields.extend(sum_fields());
        fields.extend(self.counting.measures.iter().map(|measure| field(measure.column())));
        Arc::new(Schema::new(fields))
    }

    /// Groups one part of what all threads have collected.
    pub(crate) fn part<S: Count>(&self, part: usize, collected: &[Collected<S>]) -> Part<S> {
        let short = self.grouped(collected.iter().map(|collected| &collected.short.parts[part]));
        let long = self.grouped(collected.iter().map(|collected| &collected.long.parts[part]));
        Part { short: self.first(short), long: self.first(long) }
    }

    /// All groups, as one part.
    pub(crate) fn whole<S: Count>(&self, collected: Collected<S>) -> Part<S> {
        let Collected { short, long, .. } = collected;
        Part { short: self.first(short.into_rows()), long: self.first(long.into_rows()) }
    }

    fn grouped<'a, K: Key + 'a, S: GroupSums + 'a>(
        &self,
        pieces: impl Iterator<Item = &'a Rows<K, S>> + Clone,
    ) -> Rows<K, S> {
        let most = pieces.clone().map(|rows| rows.keys.len()).sum::<usize>();
        let mut groups = Groups::with_capacity(most);
        let Counting { hasher, measures, .. } = &self.counting;
        for rows in pieces {
            for (row, (key, sums)) in rows.keys.iter().zip(&rows.sums).enumerate() {
                let more = &rows.more[row * measures.len()..(row + 1) * measures.len()];
                groups.add(hasher, hasher.hash_one(key), key, sums, more, measures);
            }
        }
        groups.rows
    }

    /// Those of these groups that may be among the first ones asked for.
    fn first<K: Key, S: GroupSums>(&self, rows: Rows<K, S>) -> Rows<K, S> {
        let (Some(sorting), Some(limit)) = (self.sorting, self.limit) else { return rows };
        if rows.keys.len() <= limit {
            return rows;
        }
        let mut ranked: Vec<(u64, u32)> =
            rows.sums.iter().enumerate().map(|(row, sums)| (sums.rank(sorting), row as u32)).collect();
        if limit == 0 {
            ranked.clear();
        } else {
            let by_rank_and_key = |a: &(u64, u32), b: &(u64, u32)| {
                a.0.cmp(&b.0).then_with(|| rows.keys[a.1 as usize].cmp(&rows.keys[b.1 as usize]))
            };
            ranked.select_nth_unstable_by(limit - 1, by_rank_and_key);
            ranked.truncate(limit);
        }
        let count = self.counting.measures.len();
        let mut first = Rows::default();
        for (_, row) in ranked {
            let row = row as usize;
            first.push(rows.keys[row].clone(), &rows.sums[row], &rows.more[row * count..(row + 1) * count]);
        }
        first
    }

    /// The rows of the answer, from what is left of all parts.
    pub(crate) fn answer<S: GroupSums>(&self, parts: &[Part<S>]) -> AnswerOrder {
        let mut order: Vec<Place> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let place = |is_long, row: usize, sums: &S| Place {
                rank: self.sorting.map_or(0, |sorting| sums.rank(sorting)),
                part: number as u32,
                is_long,
                row: row as u32,
            };
            order.extend(part.short.sums.iter().enumerate().map(|(row, sums)| place(false, row, sums)));
            order.extend(part.long.sums.iter().enumerate().map(|(row, sums)| place(true, row, sums)));
        }
        if self.sorting.is_some() {
            order.sort_unstable_by(|a, b| a.rank.cmp(&b.rank).then_with(|| key_order(parts, a, b)));
        }
        order.truncate(self.limit.unwrap_or(usize::MAX));
        AnswerOrder { order }
    }

    /// Columns of the rows at these places.
    fn batch(&self, parts: &[Part<Sums>], places: &[Place]) -> Result<RecordBatch, QueryError> {
        let (long, short): (Vec<&Place>, Vec<&Place>) = places.iter().partition(|place| place.is_long);
        let rows = |place: &Place| &parts[place.part as usize];
        let short_keys: Vec<u128> = short.iter().map(|place| rows(place).short.keys[place.row as usize]).collect();
        let long_keys: Vec<&[u8]> = long.iter().map(|place| &*rows(place).long.keys[place.row as usize]).collect();
        let sums = |place: &Place| {
            if place.is_long {
                rows(place).long.sums[place.row as usize]
            } else {
                rows(place).short.sums[place.row as usize]
            }
        };
        let all: Vec<Sums> = short.iter().chain(&long).map(|place| sums(place)).collect();
        let mut columns = self.layout().columns(&short_keys, &long_keys);
        columns.extend(sum_columns(&all));
        let measures = &self.counting.measures;
        for (number, measure) in measures.iter().enumerate() {
            let values = short.iter().chain(&long).map(|place| {
                let more = if place.is_long { &rows(place).long.more } else { &rows(place).short.more };
                more[place.row as usize * measures.len() + number]
            });
            columns.push(further_column(*measure, values));
        }
        let batch = RecordBatch::try_new(self.schema(), columns)?;
        if long.is_empty() || short.is_empty() {
            return Ok(batch);
        }
        // rows have the short keys first: put them back into the order asked for
        let mut shorts = 0_u32..;
        let mut longs = short.len() as u32..;
        let rows: Vec<u32> = places
            .iter()
            .map(|place| if place.is_long { longs.next() } else { shorts.next() }.unwrap_or_default())
            .collect();
        Ok(arrow::compute::take_record_batch(&batch, &UInt32Array::from(rows))?)
    }
}

fn further_column(measure: Measure, values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let numbers: UInt64Array = values.collect();
    match measure.column().column_type() {
        ColumnType::U64 => Arc::new(numbers),
        // bits of narrow columns stay as narrow, sums of them do not occur
        ColumnType::U16 => {
            let narrow: UInt16Array = numbers.unary::<_, UInt16Type>(|number| number as u16);
            Arc::new(narrow)
        }
        _ => {
            let data_type = field(measure.column()).data_type().clone();
            arrow::compute::cast(&numbers, &data_type)
                .unwrap_or_else(|_| arrow::array::new_null_array(&data_type, numbers.len()))
        }
    }
}

/// The groups of one part.
pub(crate) struct Part<S> {
    pub(crate) short: Rows<u128, S>,
    pub(crate) long: Rows<Box<[u8]>, S>,
}

impl<S: GroupSums> Part<S> {
    pub(crate) fn octets(&self) -> usize {
        self.short.octets() + self.long.octets()
    }
}

/// Where a group of the answer is.
#[derive(Debug, Clone, Copy)]
struct Place {
    rank: u64,
    part: u32,
    is_long: bool,
    row: u32,
}

/// Groups of one rank are in the order of their keys, so that an answer does not depend on threads.
fn key_order<S>(parts: &[Part<S>], a: &Place, b: &Place) -> std::cmp::Ordering {
    let (left, right) = (&parts[a.part as usize], &parts[b.part as usize]);
    match (a.is_long, b.is_long) {
        (false, false) => left.short.keys[a.row as usize].cmp(&right.short.keys[b.row as usize]),
        (true, true) => left.long.keys[a.row as usize].cmp(&right.long.keys[b.row as usize]),
        (one, other) => one.cmp(&other),
    }
}

/// The groups of an answer, in their order.
pub(crate) struct AnswerOrder {
    order: Vec<Place>,
}

impl AnswerOrder {
    /// How many batches the answer has.
    pub(crate) fn batches(&self) -> usize {
        self.order.len().div_ceil(BATCH_ROWS)
    }

    /// The keys of the answer alone, to be counted again; `None` when a group among them has nothing of what decides,
    /// so that it cannot be distinguished from groups where that is null.
    pub(crate) fn keys(&self, parts: &[Part<u64>]) -> Option<KeySet> {
        let mut only = KeySet::default();
        for place in &self.order {
            let (part, row) = (&parts[place.part as usize], place.row as usize);
            let counted = if place.is_long { part.long.sums[row] } else { part.short.sums[row] };
            if counted == 0 {
                return None;
            }
            if place.is_long {
                only.long.insert(part.long.keys[row].clone());
            } else {
                only.short.insert(part.short.keys[row]);
            }
        }
        Some(only)
    }

    /// Where the rows of one of the batches are from, when all are of one part: whether their key is long, and which
    /// row.
    pub(crate) fn places(&self, number: usize) -> impl Iterator<Item = (bool, usize)> {
        let places = self.order.iter().skip(number * BATCH_ROWS).take(BATCH_ROWS);
        places.map(|place| (place.is_long, place.row as usize))
    }

    /// One of the batches.
    pub(crate) fn batch(
        &self,
        grouping: &Grouping,
        parts: &[Part<Sums>],
        number: usize,
    ) -> Result<RecordBatch, QueryError> {
        let first = number * BATCH_ROWS;
        grouping.batch(parts, &self.order[first..(first + BATCH_ROWS).min(self.order.len())])
    }
}

/// The counters of the rows of a batch, one by one.
pub(crate) fn rows_of(batch: &FlowBatch) -> impl Iterator<Item = Sums> {
    let counters = Counters::of(batch);
    (0..batch.rows()).map(move |row| counters.row(row))
}

/// Numbers of the parts that a pass is about.
pub(crate) fn parts_of(counting: &Counting) -> Vec<usize> {
    (0..PARTS).filter(|part| counting.passes == 1 || part % counting.passes == counting.pass).collect()
}
