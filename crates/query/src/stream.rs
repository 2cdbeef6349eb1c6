//! Questions about flows that come from files and are read once, from the first to the last.
//!
//! Nothing is kept but what the answer is made of: groups, or the rows that may be among the first. Groups that do not
//! fit into memory are counted in several passes, each for some of the groups; rows to be sorted likewise, each pass
//! for those that come after the rows of the one before. So nothing is written to disk, and what speaks against it is
//! that flows are then read several times. Decoding is done by one thread at a time, grouping by all.

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, RecordBatch, UInt32Array};
use weir_flow::{Column, FlowBatch};

use crate::group::{Collected, Grouping, Part, Sums, rows_of};
use crate::list::{in_schema, list_columns, order_columns, schema};
use crate::options::go_on;
use crate::passes::{self, PASSES_MAX, is_worth_more_passes};
use crate::run::share_out;
use crate::{MemoryError, QueryError, QueryOptions, Select, Sorting};

/// Rows of a batch of an answer.
const BATCH_ROWS: usize = 8192;

/// Takes the batches of an answer, one after the other.
pub type BatchSink<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<(), QueryError>;

/// How flows are counted: what is made of each batch before it is grouped, or ranked among others.
pub type Rescale<'a> = &'a (dyn Fn(&FlowBatch) -> FlowBatch + Sync);

/// Answers a question about flows that `open` yields from their beginning, each time that it is called. The batches of
/// the answer are given to `take`. Groups are made of the flows as `counted` has them; rows of a list stay what they
/// are and only stand where `counted` has them.
pub fn ask_stream<I>(
    select: &Select,
    open: impl Fn() -> Result<I, QueryError>,
    counted: Rescale<'_>,
    options: &QueryOptions,
    take: BatchSink<'_>,
) -> Result<(), QueryError>
where
    I: Iterator<Item = Result<FlowBatch, QueryError>> + Send,
{
    match select {
        Select::List { columns, sorting, limit } => {
            let columns = list_columns(columns);
            match sorting {
                Some(sorting) => sorted(columns, (*sorting, *limit), open, counted, options, take),
                None => listed(columns, *limit, open()?, options, take),
            }
        }
        Select::Statistic { .. } | Select::Aggregate { .. } => {
            let grouping = Grouping::of(select).ok_or(QueryError::NeedsEngine("this question"))?;
            grouped(grouping, open, counted, options, take)
        }
    }
}

/// The flows as they come.
fn listed(
    columns: &[Column],
    limit: Option<usize>,
    flows: impl Iterator<Item = Result<FlowBatch, QueryError>>,
    options: &QueryOptions,
    take: BatchSink<'_>,
) -> Result<(), QueryError> {
    let schema = schema(columns);
    let mut left = limit.unwrap_or(usize::MAX);
    for flows in flows {
        go_on(options)?;
        let batch = in_schema(&flows?, columns, &schema)?;
        let rows = batch.num_rows().min(left);
        take(batch.slice(0, rows))?;
        left -= rows;
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// The flows in groups, read as often as memory makes necessary.
fn grouped<I>(
    mut grouping: Grouping,
    open: impl Fn() -> Result<I, QueryError>,
    counted: Rescale<'_>,
    options: &QueryOptions,
    take: BatchSink<'_>,
) -> Result<(), QueryError>
where
    I: Iterator<Item = Result<FlowBatch, QueryError>> + Send,
{
    let parts = loop {
        match all_passes(&mut grouping, &open, counted, options) {
            Err(error) if is_worth_more_passes(&error, &mut grouping) => {}
            other => break other?,
        }
    };
    let chosen = grouping.answer(&parts, &options.memory.reservation("the order of groups"))?;
    let progress = &options.progress;
    (0..chosen.batches()).try_for_each(|number| take(chosen.batch(&grouping, &parts, number, progress)?))
}

fn all_passes<I>(
    grouping: &mut Grouping,
    open: &impl Fn() -> Result<I, QueryError>,
    counted: Rescale<'_>,
    options: &QueryOptions,
) -> Result<Vec<Part<Sums>>, QueryError>
where
    I: Iterator<Item = Result<FlowBatch, QueryError>> + Send,
{
    let mut parts = Vec::new();
    for pass in 0..grouping.counting.passes {
        grouping.counting.pass = pass;
        let counting = &grouping.counting;
        let flows = Mutex::new(open()?);
        let next = || flows.lock().unwrap_or_else(PoisonError::into_inner).next();
        let make = || Ok((Collected::<Sums>::new(counting, options), options.memory.reservation("flows")));
        // a thread goes on until there is nothing left to read
        let collected = share_out(options.threads, options.threads, make, |(collected, read), _| {
            while let Some(flows) = next() {
                let flows = flows?;
                read.resize(flows.record_batch().get_array_memory_size());
                collected.add(counting, &(), None, &counted(&flows))?;
                go_on(options)?;
            }
            Ok(())
        })?;
        let collected = collected.into_iter().map(|(collected, _)| collected).collect();
        parts.extend(passes::grouped(collected, grouping, options)?);
    }
    Ok(parts)
}

/// The flows in an order.
fn sorted<I>(
    columns: &[Column],
    (sorting, limit): (Sorting, Option<usize>),
    open: impl Fn() -> Result<I, QueryError>,
    counted: Rescale<'_>,
    options: &QueryOptions,
    take: BatchSink<'_>,
) -> Result<(), QueryError>
where
    I: Iterator<Item = Result<FlowBatch, QueryError>>,
{
    let mut left = limit.unwrap_or(usize::MAX);
    let mut after = None;
    for _ in 0..PASSES_MAX {
        let mut kept = FirstRows::new(columns, sorting, left, after, options.memory.limit_bytes());
        for flows in open()? {
            let flows = flows?;
            kept.add(&flows, &counted(&flows))?;
            go_on(options)?;
        }
        let Some(last) = kept.give(&mut left, take)? else { return Ok(()) };
        after = Some(last);
    }
    let (used_bytes, limit_bytes) = (options.memory.used_bytes(), options.memory.limit_bytes());
    Err(MemoryError { user: "sorted rows", wanted_bytes: limit_bytes, used_bytes, limit_bytes }.into())
}

/// A row that is kept: its rank, its number among all rows read, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    rank: u64,
    number: u64,
    batch: u32,
    row: u32,
}

impl Row {
    fn place(&self) -> (u64, u64) {
        (self.rank, self.number)
    }

    fn order(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// The first rows of a pass, as many as are asked for and memory holds.
struct FirstRows<'a> {
    columns: &'a [Column],
    sorting: Sorting,
    limit: usize,
    /// Only rows after this one are of interest.
    after: Option<(u64, u64)>,
    octets_max: usize,
    /// What the batches take.
    octets: usize,
    batches: Vec<FlowBatch>,
    rows: Vec<Row>,
    rows_read: u64,
    /// Rows were left out for want of memory: those after this one.
    cut: Option<(u64, u64)>,
}

/// Rows beyond those wanted that are collected before they are thrown out.
const SLACK_ROWS: usize = 1 << 16;

impl<'a> FirstRows<'a> {
    fn new(
        columns: &'a [Column],
        sorting: Sorting,
        limit: usize,
        after: Option<(u64, u64)>,
        octets_max: usize,
    ) -> Self {
        let (batches, rows) = (Vec::new(), Vec::new());
        Self { columns, sorting, limit, after, octets_max, octets: 0, batches, rows, rows_read: 0, cut: None }
    }

    /// Takes the rows of a batch that may be among the first, ranked by the same rows as they are counted.
    fn add(&mut self, flows: &FlowBatch, counted: &FlowBatch) -> Result<(), QueryError> {
        let batch = self.batches.len() as u32;
        let first = self.rows_read;
        self.rows_read += flows.rows() as u64;
        let rows = rows_of(counted).enumerate().map(|(row, sums)| Row {
            rank: sums.rank_by(self.sorting),
            number: first + row as u64,
            batch,
            row: row as u32,
        });
        let before = self.rows.len();
        self.rows.extend(rows.filter(|row| {
            self.after.is_none_or(|after| row.place() > after) && self.cut.is_none_or(|cut| row.place() <= cut)
        }));
        if self.rows.len() == before {
            return Ok(());
        }
        let flows = self.projected(flows, before)?;
        self.octets += flows.record_batch().get_array_memory_size() + (self.rows.len() - before) * size_of::<Row>();
        self.batches.push(flows);
        if self.rows.len() >= self.limit.saturating_add(self.limit.max(SLACK_ROWS)) {
            self.shrink(self.limit)?;
        }
        if self.octets > self.octets_max {
            let half = self.rows.len().div_ceil(2);
            self.shrink(half)?;
            self.cut = self.rows.iter().map(Row::place).max();
        }
        Ok(())
    }

    /// The wanted columns of the rows that were kept last; they follow one another from then on.
    fn projected(&mut self, flows: &FlowBatch, first: usize) -> Result<FlowBatch, QueryError> {
        let wanted = self.columns.iter().chain(order_columns(self.sorting.order));
        let mut wanted: Vec<Column> = wanted.copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let columns = wanted.into_iter().filter_map(|column| Some((column, flows.column(column)?.clone()))).collect();
        let batch = FlowBatch::from_columns(flows.rows(), columns).map_err(|error| QueryError::Source(error.into()))?;
        let rows = self.rows.get_mut(first..).unwrap_or_default();
        if rows.len() == flows.rows() {
            return Ok(batch);
        }
        let indices: UInt32Array = rows.iter().map(|row| row.row).collect::<Vec<_>>().into();
        for (place, row) in rows.iter_mut().enumerate() {
            row.row = place as u32;
        }
        taken(&batch, &indices)
    }

    /// Forgets all but the first rows.
    fn shrink(&mut self, rows: usize) -> Result<(), QueryError> {
        if rows == 0 || self.rows.len() <= rows {
            self.rows.truncate(rows);
        } else {
            self.rows.select_nth_unstable_by(rows - 1, Row::order);
            self.rows.truncate(rows);
        }
        self.rows.sort_unstable_by_key(|row| (row.batch, row.row));
        let mut kept: Vec<FlowBatch> = Vec::new();
        let mut octets = 0;
        for group in self.rows.chunk_by_mut(|a, b| a.batch == b.batch) {
            let indices: UInt32Array = group.iter().map(|row| row.row).collect::<Vec<_>>().into();
            let number = kept.len() as u32;
            let Some(batch) = group.first().and_then(|row| self.batches.get(row.batch as usize)) else { continue };
            let batch = if indices.len() == batch.rows() { batch.clone() } else { taken(batch, &indices)? };
            for (place, row) in group.iter_mut().enumerate() {
                (row.batch, row.row) = (number, place as u32);
            }
            octets += batch.record_batch().get_array_memory_size();
            kept.push(batch);
        }
        self.batches = kept;
        self.octets = octets + self.rows.len() * size_of::<Row>();
        Ok(())
    }

    /// Gives the rows in their order; the last of them when there are more to come.
    fn give(mut self, left: &mut usize, take: BatchSink<'_>) -> Result<Option<(u64, u64)>, QueryError> {
        self.rows.sort_unstable_by(Row::order);
        self.rows.truncate(*left);
        *left -= self.rows.len();
        let schema = schema(self.columns);
        let batches = self.batches.iter().map(|batch| in_schema(batch, self.columns, &schema));
        let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>()?;
        let columns: Vec<Vec<&dyn Array>> = (0..self.columns.len())
            .map(|position| batches.iter().map(|batch| batch.column(position).as_ref()).collect())
            .collect();
        for chunk in self.rows.chunks(BATCH_ROWS) {
            let places: Vec<(usize, usize)> = chunk.iter().map(|row| (row.batch as usize, row.row as usize)).collect();
            let values = columns.iter().map(|pieces| arrow::compute::interleave(pieces, &places));
            take(RecordBatch::try_new(schema.clone(), values.collect::<Result<_, _>>()?)?)?;
        }
        let last = self.rows.last().map(Row::place).or(self.cut);
        Ok(last.filter(|_| self.cut.is_some() && *left > 0))
    }
}

fn taken(batch: &FlowBatch, rows: &UInt32Array) -> Result<FlowBatch, QueryError> {
    if batch.record_batch().num_columns() == 0 {
        // rows without columns are all alike
        let alike = batch.record_batch().slice(0, rows.len());
        return FlowBatch::try_new(alike).map_err(|error| QueryError::Source(error.into()));
    }
    let taken = arrow::compute::take_record_batch(batch.record_batch(), rows)?;
    FlowBatch::try_new(taken).map_err(|error| QueryError::Source(error.into()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, TimestampMillisecondArray, UInt64Array};

    use super::*;
    use crate::{AggregateKey, Direction, FlowQuery, MemoryPool, Order, StatisticKey, TimeWindow, ask_batches};

    const BATCHES: u64 = 40;
    const ROWS: u64 = 500;

    /// Flows whose counters tie now and then.
    fn flows() -> Vec<FlowBatch> {
        let batch = |batch: u64| {
            let rows = (0..ROWS).map(|row| (batch * ROWS + row) * 2_654_435_761 % 1_000_003);
            let numbers =
                |of: fn(u64) -> u64| -> ArrayRef { Arc::new(rows.clone().map(of).map(Some).collect::<UInt64Array>()) };
            let address = |of: fn(u64) -> u64| -> ArrayRef {
                Arc::new(rows.clone().map(|row| Some((of(row) as u32).to_be_bytes())).collect::<BinaryArray>())
            };
            let starts: TimestampMillisecondArray = rows.clone().map(|row| Some(row as i64)).collect();
            let mut columns: Vec<(Column, ArrayRef)> = vec![
                (Column::Start, Arc::new(starts.with_timezone("UTC"))),
                (Column::SrcAddr, address(|row| row % 15_013)),
                (Column::DstAddr, address(|row| row % 17)),
                (Column::Packets, numbers(|row| row % 7 + 1)),
                (Column::Bytes, numbers(|row| row % 997)),
            ];
            columns.sort_unstable_by_key(|(column, _)| *column);
            FlowBatch::from_columns(ROWS as usize, columns).expect("a batch")
        };
        (0..BATCHES).map(batch).collect()
    }

    /// Answers within a limit of memory; returns how often the flows were read.
    fn asked(select: &Select, memory_octets_max: usize) -> (RecordBatch, usize) {
        let (flows, opened) = (flows(), Cell::new(0));
        let open = || {
            opened.set(opened.get() + 1);
            Ok(flows.iter().cloned().map(Ok))
        };
        let options =
            QueryOptions { threads: 2, memory: MemoryPool::new(memory_octets_max), ..QueryOptions::default() };
        let mut batches = Vec::new();
        let mut take = |batch| {
            batches.push(batch);
            Ok(())
        };
        ask_stream(select, open, &FlowBatch::clone, &options, &mut take).expect("an answer");
        let schema = batches.first().expect("an answer").schema();
        (arrow::compute::concat_batches(&schema, &batches).expect("one batch"), opened.get())
    }

    /// The answer is that of flows that are all in memory, however little of it there is.
    #[track_caller]
    fn check(select: &Select, memory_octets_max: usize, passes_min: usize) {
        let filter = weir_filter::Predicate::True;
        let question = FlowQuery { filter, window: TimeWindow::default(), select: select.clone(), scaled: false };
        // one thread keeps rows that tie in the order in which they came
        let options = QueryOptions { threads: 1, ..QueryOptions::default() };
        let all = ask_batches(&question, flows().into_iter().map(Ok::<_, QueryError>), &options).expect("an answer");
        let all: Vec<RecordBatch> = all.collect::<Result<_, _>>().expect("batches");
        let expected = arrow::compute::concat_batches(&all[0].schema(), &all).expect("one batch");
        let (found, passes) = asked(select, memory_octets_max);
        assert!(found == expected, "{select:?}");
        assert!(passes >= passes_min, "{select:?}: {passes} passes");
    }

    fn list(order: Order, direction: Direction, limit: Option<usize>) -> Select {
        let columns = vec![Column::SrcAddr, Column::Bytes, Column::Start];
        Select::List { columns, sorting: Some(Sorting { order, direction }), limit }
    }

    #[test]
    fn lists_are_sorted_in_passes() {
        for (order, direction) in [
            (Order::Bytes, Direction::Descending),
            (Order::Packets, Direction::Ascending),
            (Order::Start, Direction::Ascending),
        ] {
            check(&list(order, direction, None), 200_000, 3);
            check(&list(order, direction, None), 1 << 30, 1);
            check(&list(order, direction, Some(11)), 1 << 30, 1);
            check(&list(order, direction, Some(9000)), 200_000, 2);
        }
    }

    #[test]
    fn groups_are_counted_in_passes() {
        let sorting = Sorting::usual(Order::Bytes);
        let key = StatisticKey::parse("ip").expect("a statistic");
        let statistic = |limit| Select::Statistic { key, per_protocol: false, sorting, limit };
        let keys = vec![AggregateKey::Column(Column::SrcAddr), AggregateKey::Column(Column::DstAddr)];
        let aggregate = Select::Aggregate { keys, more: Vec::new(), sorting: Some(sorting), limit: None };
        check(&statistic(Some(10)), 500_000, 2);
        check(&statistic(Some(10)), 1 << 30, 1);
        check(&statistic(None), 1 << 30, 1);
        check(&aggregate, 1 << 30, 1);
    }

    #[test]
    fn memory_that_holds_nothing_is_an_error() {
        let options = QueryOptions { memory: MemoryPool::new(10), ..QueryOptions::default() };
        let flows = flows();
        let open = || Ok(flows.iter().cloned().map(Ok));
        let select = list(Order::Bytes, Direction::Descending, None);
        let asked = ask_stream(&select, open, &FlowBatch::clone, &options, &mut |_| Ok(()));
        assert!(matches!(asked, Err(QueryError::Memory(_))), "{asked:?}");
    }
}
