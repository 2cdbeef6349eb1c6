//! Rankings that reach into time whose flows have expired.
//!
//! The flows that are kept are grouped as always, all of them; what summaries have of the same keys is added. A key
//! that a list lacks counts as having nothing there, and what it may have instead is its error: the bound
//! of that list. So the sums of a row are never too large, and too small by its error at most. The order is that of
//! these sums.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir_filter::Predicate;

use super::past::{Amounts, ExpiredSegment, amounts};
use super::table::{Table, rollups_of};
use crate::archive::{Answer, Archive, parts_of_flows};
use crate::group::{Counters, Grouping, Key, KeyLayout, Part, RankingCounter, Row, Rows, Sums};
use crate::options::go_on;
use crate::{FlowQuery, QueryError, QueryOptions, Reservation, Select};

/// Columns that follow those of the exact answer: how much flows, packets and bytes may be too small.
pub const ERROR_COLUMNS: [&str; 3] = ["flows_error_max", "packets_error_max", "bytes_error_max"];

/// Bytes that a key takes beyond those of its own and of what is known of it.
const ENTRY_BYTES: usize = 16;

/// What is known of a key.
#[derive(Debug, Clone, Copy)]
struct BoundedSums {
    sums: Sums,
    /// How much it may be too small, by the lists that have the key.
    error: [u128; 3],
    /// What these lists would have added to the error of a key that they lack.
    absent: [u128; 3],
}

impl BoundedSums {
    fn new(sums: Sums) -> Self {
        Self { sums, error: [0; 3], absent: [0; 3] }
    }
}

/// All keys, and what a key may have that is in no list.
#[derive(Default)]
struct Keys {
    short: HashMap<u128, BoundedSums>,
    long: HashMap<Box<[u8]>, BoundedSums>,
    absent: [u128; 3],
}

/// The groups of the answer, with their errors.
struct Approximate {
    part: Part<Sums>,
    short_errors: Vec<Amounts>,
    long_errors: Vec<Amounts>,
    /// What a key has at most that is not among them.
    unlisted_max: Amounts,
}

impl Archive {
    /// Answers a ranking from flows where they are kept, and from summaries where they have expired.
    pub(crate) fn answer_approximately<T: Send + 'static>(
        &self,
        question: &FlowQuery,
        each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
    ) -> Result<Answer<T>, QueryError> {
        let mut grouping = grouping_of(question)?;
        let rollups = rollups_of(&grouping).ok_or(QueryError::NotApproximate("a grouping by these fields"))?;
        let mut keys = Keys::default();
        let mut memory = self.options.memory.reservation("keys of expired flows");
        let mut is_complete = true;
        for past in self.past(&question.window)? {
            for (layout, rollup) in grouping.counting.sides.iter().zip(&rollups) {
                let table = past.table(*rollup)?;
                is_complete &= past.is_whole() && table.as_ref().is_some_and(|table| table.rest.is_none());
                keys.add(&past, table.as_ref(), layout, grouping.counting.skip_null);
            }
            go_on(&self.options)?;
            memory.try_resize(keys.bytes())?;
        }
        if !is_complete && grouping.sorting.and_then(RankingCounter::of).is_none() {
            return Err(QueryError::NotApproximate("an order other than the most flows, packets or bytes"));
        }
        let (sorting, limit) = (grouping.sorting.take(), grouping.limit.take());
        for part in parts_of_flows(&self.flows(&question.window), question, &mut grouping, &self.options)? {
            keys.add_exact(part);
            go_on(&self.options)?;
            memory.try_resize(keys.bytes())?;
        }
        (grouping.sorting, grouping.limit) = (sorting, limit);
        let schema = with_errors(&grouping.schema());
        let found = keys.finish(&memory);
        let unlisted_max = found.unlisted_max;
        let batches = found.batches(&grouping, &schema, &self.options)?;
        Ok(Answer::of_batches(schema, batches, &self.options, each).with_unlisted_max(unlisted_max))
    }
}

fn clamped(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

/// The grouping of a question that has an approximate answer.
fn grouping_of(question: &FlowQuery) -> Result<Grouping, QueryError> {
    if question.filter != Predicate::True {
        return Err(QueryError::NotApproximate("a question with a filter"));
    }
    if question.scaled {
        return Err(QueryError::NotApproximate("scaling by sampling intervals"));
    }
    let is_list = matches!(question.select, Select::List { .. });
    let what = if is_list { "a list of flows" } else { "a grouping by elements" };
    Grouping::of(&question.select).ok_or(QueryError::NotApproximate(what))
}

fn with_errors(schema: &Schema) -> SchemaRef {
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields.extend(ERROR_COLUMNS.map(|name| Arc::new(Field::new(name, DataType::UInt64, false))));
    Arc::new(Schema::new(fields))
}

impl Keys {
    fn bytes(&self) -> usize {
        let long: usize = self.long.keys().map(Key::heap_bytes).sum();
        self.short.capacity() * (size_of::<(u128, BoundedSums)>() + ENTRY_BYTES)
            + self.long.capacity() * (size_of::<(Box<[u8]>, BoundedSums)>() + ENTRY_BYTES)
            + long
    }

    /// Adds the keys of one side of a summary. Without a table a key may have all that flows of the window amount to.
    fn add(&mut self, past: &ExpiredSegment, table: Option<&Table>, layout: &KeyLayout, skip_null: bool) {
        let absent: Amounts = match table.map(|table| table.rest) {
            None => past.inside,
            Some(None) => [0; 3],
            Some(Some(rest)) => {
                let bounds = [rest.flows_max, rest.packets_max, rest.bytes_max];
                std::array::from_fn(|of| bounds[of].min(past.inside[of]))
            }
        };
        add_amounts(&mut self.absent, absent);
        let Some(table) = table else { return };
        let column = layout.parts().first().and_then(|part| table.rows.column(part.column()));
        let is_null = |row: usize| column.is_none_or(|values| values.is_null(row));
        let counters = Counters::of(&table.rows);
        let keys = layout.keys(&table.rows);
        let mut long = keys.long.into_iter().peekable();
        for (row, key) in keys.short.into_iter().enumerate() {
            let long = long.next_if(|(at, _)| *at as usize == row);
            if skip_null && is_null(row) {
                continue;
            }
            let all = counters.row(row);
            let told: Amounts = std::array::from_fn(|of| amounts(&all)[of].saturating_sub(past.outside[of]));
            let most: Amounts = std::array::from_fn(|of| amounts(&all)[of].min(past.inside[of]));
            let error: Amounts = std::array::from_fn(|of| most[of].saturating_sub(told[of]));
            let [flows, packets, bytes] = told;
            let mut sums = all;
            (sums.flows, sums.packets, sums.bytes) = (flows, packets, bytes);
            let known = match long {
                None => self.short.entry(key).or_insert_with(|| BoundedSums::new(Sums::NONE)),
                Some((_, key)) => self.long.entry(key).or_insert_with(|| BoundedSums::new(Sums::NONE)),
            };
            known.sums.join(&sums);
            add_amounts(&mut known.error, error);
            add_amounts(&mut known.absent, absent);
        }
    }

    /// Adds groups of flows.
    fn add_exact(&mut self, part: Part<Sums>) {
        add_rows(&mut self.short, part.short);
        add_rows(&mut self.long, part.long);
    }

    /// The groups of the answer, and how much their sums may be too small.
    fn finish(self, memory: &Reservation) -> Approximate {
        let all_absent = self.absent;
        let error = |known: &BoundedSums| -> Amounts {
            std::array::from_fn(|of| clamped((all_absent[of] + known.error[of]).saturating_sub(known.absent[of])))
        };
        let mut unlisted_max = all_absent.map(clamped);
        let mut part = Part::new(0, memory);
        let short_errors = list(self.short, error, &mut unlisted_max, &mut part.short);
        let long_errors = list(self.long, error, &mut unlisted_max, &mut part.long);
        Approximate { part, short_errors, long_errors, unlisted_max }
    }
}

fn add_rows<K: Key>(keys: &mut HashMap<K, BoundedSums>, rows: Rows<K, Sums>) {
    for Row { key, sums } in rows.into_rows() {
        keys.entry(key).or_insert_with(|| BoundedSums::new(Sums::NONE)).sums.join(&sums);
    }
}

/// Appends the keys of the answer to `rows` and returns their errors; what the others have at most goes to
/// `unlisted_max`.
fn list<K: Key>(
    keys: HashMap<K, BoundedSums>,
    error: impl Fn(&BoundedSums) -> Amounts,
    unlisted_max: &mut Amounts,
    rows: &mut Rows<K, Sums>,
) -> Vec<Amounts> {
    let mut errors = Vec::new();
    for (key, known) in keys {
        let error = error(&known);
        // what may have flows outside of the window only is no row
        if amounts(&known.sums) == [0; 3] && error != [0; 3] {
            unlisted_max.iter_mut().zip(error).for_each(|(most, error)| *most = (*most).max(error));
            continue;
        }
        errors.push(error);
        rows.push(key, known.sums, &[]);
    }
    errors
}

fn add_amounts(all: &mut [u128; 3], more: Amounts) {
    all.iter_mut().zip(more).for_each(|(all, more)| *all += u128::from(more));
}

impl Approximate {
    fn batches(
        self,
        grouping: &Grouping,
        schema: &SchemaRef,
        options: &QueryOptions,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let parts = [self.part];
        let chosen = grouping.answer(&parts, &options.memory.reservation("the order of groups"))?;
        let mut batches = Vec::with_capacity(chosen.batches());
        for number in 0..chosen.batches() {
            let mut columns = chosen.batch(grouping, &parts, number, &options.progress)?.columns().to_vec();
            let errors: Vec<Amounts> = chosen
                .places(number)
                .map(|(is_long, row)| if is_long { self.long_errors[row] } else { self.short_errors[row] })
                .collect();
            columns.extend((0..ERROR_COLUMNS.len()).map(|of| -> ArrayRef {
                Arc::new(UInt64Array::from_iter_values(errors.iter().map(|error| error[of])))
            }));
            batches.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
        }
        Ok(batches)
    }
}
