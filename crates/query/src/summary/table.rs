//! The sums of segments by one kind of key, as flows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_archive::{ArchiveError, OmittedKeys, Rollup, RollupTable, Segment};
use weir_flow::{Column, FlowBatch};

use crate::group::Grouping;
use crate::options::go_on;
use crate::run::share_out;
use crate::{AggregateKey, QueryError, QueryOptions, TimeWindow, WindowRule};

/// Octets that a row of a table takes, with what is made of it: an address, five numbers, a key.
const ROW_OCTETS: usize = 100;

/// The sums of a segment by one kind of key, as flows.
pub(super) struct Table {
    pub(super) rows: FlowBatch,
    pub(super) rest: Option<OmittedKeys>,
}

/// Counts the flows of a segment as not to be read.
pub(super) fn count_as_summed(segment: &Segment, options: &QueryOptions) {
    options.progress.add_segments_summed(1);
    options.progress.add_rows_pruned(segment.rows);
}

/// What the sides of a grouping are summed up by; `None` when they are not.
pub(super) fn rollups_of(grouping: &Grouping) -> Option<Vec<Rollup>> {
    let counting = &grouping.counting;
    let of_side = |parts: &[crate::group::KeyPart]| match parts {
        [part] => match part.from {
            AggregateKey::Column(column) => rollup_by(column),
            _ => None,
        },
        _ => None,
    };
    counting
        .sides
        .iter()
        .filter(|_| counting.measures.is_empty())
        .map(|side| of_side(side.parts()))
        .collect::<Option<_>>()
        .filter(|rollups: &Vec<Rollup>| !rollups.is_empty())
}

fn rollup_by(column: Column) -> Option<Rollup> {
    Rollup::ALL.iter().copied().find(|rollup| rollup.column() == Some(column))
}

/// Whether all flows of a segment that has rollups belong to the window. Each of them has its times.
pub(super) fn is_inside(window: &TimeWindow, time_range_ms: Option<(i64, i64)>) -> bool {
    if window.from_ms.is_none() && window.until_ms.is_none() {
        return true;
    }
    let Some((min, max)) = time_range_ms else { return false };
    match window.rule {
        WindowRule::Overlaps => {
            window.from_ms.is_none_or(|from| from <= min) && window.until_ms.is_none_or(|until| max <= until)
        }
        WindowRule::Inside => {
            window.from_ms.is_none_or(|from| from < min) && window.until_ms.is_none_or(|until| max < until)
        }
    }
}

/// For each segment its tables; `None` when it lacks one or has flows outside of the window.
pub(super) fn tables(
    segments: &[Segment],
    window: &TimeWindow,
    rollups: &[Rollup],
    options: &QueryOptions,
) -> Result<Vec<Option<Vec<Table>>>, QueryError> {
    let held = AtomicUsize::new(0);
    let read = share_out(
        options.threads,
        segments.len(),
        || Ok(Vec::new()),
        |read: &mut Vec<(usize, Option<Vec<Table>>)>, number| {
            // segments that come after the memory is full are read flow by flow
            let is_full = held.load(Ordering::Relaxed) > options.memory.limit_bytes();
            let tables = if is_full { Ok(None) } else { segment_tables(&segments[number], window, rollups) };
            let tables = match tables {
                // what is damaged is not needed: the flows have the same
                Err(QueryError::Archive(ArchiveError::DamagedSegment { .. })) => {
                    options.progress.add_summaries_damaged(1);
                    None
                }
                other => other?,
            };
            let rows = tables.iter().flatten().map(|table| table.rows.rows()).sum::<usize>();
            held.fetch_add(rows * ROW_OCTETS, Ordering::Relaxed);
            read.push((number, tables));
            go_on(options)
        },
    )?;
    let mut read: Vec<_> = read.into_iter().flatten().collect();
    read.sort_unstable_by_key(|(number, _)| *number);
    Ok(read.into_iter().map(|(_, tables)| tables).collect())
}

fn segment_tables(
    segment: &Segment,
    window: &TimeWindow,
    rollups: &[Rollup],
) -> Result<Option<Vec<Table>>, QueryError> {
    if !is_inside(window, segment.time_range_ms) {
        return Ok(None);
    }
    let Some(index) = segment.index()? else { return Ok(None) };
    let mut tables = Vec::with_capacity(rollups.len());
    for rollup in rollups {
        let Some(table) = index.rollup(*rollup)? else { return Ok(None) };
        tables.push(table_of(&table, *rollup)?);
    }
    Ok(Some(tables))
}

/// Sums by one kind of key, as flows.
pub(super) fn table_of(table: &RollupTable, rollup: Rollup) -> Result<Table, QueryError> {
    let mut columns = vec![Column::Flows, Column::Packets, Column::Bytes, Column::Start, Column::End];
    let mut values = table.rows.columns()[1..].to_vec();
    if let Some(key) = rollup.column() {
        columns.push(key);
        values.push(Arc::clone(table.rows.column(0)));
    }
    let mut columns: Vec<_> = columns.into_iter().zip(values).collect();
    columns.sort_unstable_by_key(|(column, _)| *column);
    let rows = FlowBatch::from_columns(table.rows.num_rows(), columns);
    Ok(Table { rows: rows.map_err(|error| QueryError::Source(error.into()))?, rest: table.rest })
}
