//! What flows amount to, all together or by the minute in which they start.

use std::collections::BTreeMap;

use arrow::array::{Array, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use foldhash::{HashMap, HashMapExt};
use weir_archive::Rollup;
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};

use super::{tables, tell};
use crate::archive::{Archive, Flows, decoder, go_on};
use crate::group::{Sums, rows_of};
use crate::run::share_out;
use crate::scan::Wanted;
use crate::{AskError, FlowQuery, Select, TimeWindow};

const MINUTE_MS: i64 = 60_000;

/// What flows amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rows of the archive; `None` by the minute, because what segments are summed up to does not tell it.
    pub rows: Option<u64>,
    /// Flows; a row may stand for several.
    pub flows: u64,
    /// Packets; `None` when no flow tells any.
    pub packets: Option<u64>,
    /// Octets; `None` when no flow tells any.
    pub bytes: Option<u64>,
    /// First start, milliseconds since the epoch; `None` when no flow tells it.
    pub start_ms: Option<i64>,
    /// Last end, milliseconds since the epoch; `None` when no flow tells it.
    pub end_ms: Option<i64>,
}

/// Sums and rows, by the minute in which flows start; `None` for those that do not tell it.
type Minutes = HashMap<Option<i64>, (Sums, u64)>;

fn add(minutes: &mut Minutes, minute: Option<i64>, sums: &Sums, rows: u64) {
    let entry = minutes.entry(minute).and_modify(|(all, _)| all.join(sums)).or_insert((*sums, 0));
    entry.1 += rows;
}

impl Archive {
    /// What the flows of a window that pass a filter amount to; without a filter, whatever segments have been summed up
    /// to is used.
    pub fn totals(&self, filter: &Predicate, window: &TimeWindow) -> Result<Totals, AskError> {
        let minutes = self.by_minute(filter, window, false)?;
        let all = minutes.into_values().reduce(|(mut all, rows), (sums, more)| {
            all.join(&sums);
            (all, rows + more)
        });
        Ok(all.map_or(Totals { rows: Some(0), ..Totals::default() }, |(sums, rows)| Totals {
            rows: Some(rows),
            ..of_sums(&sums)
        }))
    }

    /// The same by the minute in which flows start, in milliseconds since the epoch: the key is the first millisecond.
    /// Flows that do not tell when they start have no key.
    pub fn minutes(&self, filter: &Predicate, window: &TimeWindow) -> Result<BTreeMap<Option<i64>, Totals>, AskError> {
        let minutes = self.by_minute(filter, window, true)?;
        Ok(minutes.into_iter().map(|(minute, (sums, _))| (minute, of_sums(&sums))).collect())
    }

    fn by_minute(&self, filter: &Predicate, window: &TimeWindow, tells_minutes: bool) -> Result<Minutes, AskError> {
        let mut flows = self.flows(window)?;
        let mut minutes = Minutes::new();
        if self.options.summaries && *filter == Predicate::True {
            let tables = tables(&flows.segments, window, &[Rollup::Minute], &self.options)?;
            let segments = std::mem::take(&mut flows.segments);
            for (segment, tables) in segments.into_iter().zip(tables) {
                let Some(tables) = tables else {
                    flows.segments.push(segment);
                    continue;
                };
                for table in &tables {
                    add_batch(&mut minutes, &table.rows, tells_minutes, 0);
                }
                // what a minute has of the rows is not told, but all of them belong to some minute
                if let Some((_, (_, rows))) = minutes.iter_mut().next().filter(|_| !tells_minutes) {
                    *rows += segment.rows;
                }
                tell(&segment, &self.options);
            }
        }
        for read in self.read_minutes(&flows, filter, window, tells_minutes)? {
            for (minute, (sums, rows)) in &read {
                add(&mut minutes, *minute, sums, *rows);
            }
        }
        Ok(minutes)
    }

    /// The same from flows, one map for each thread.
    fn read_minutes(
        &self,
        flows: &Flows,
        filter: &Predicate,
        window: &TimeWindow,
        tells_minutes: bool,
    ) -> Result<Vec<Minutes>, AskError> {
        let select = Select::List { columns: Vec::new(), sorting: None, limit: None };
        let question = FlowQuery { filter: filter.clone(), window: *window, select, scaled: false };
        let counted = [Column::Flows, Column::Packets, Column::Bytes, Column::Start, Column::End];
        let wanted = Wanted::new(&question, counted);
        let morsels = flows.morsels(&wanted, &self.options)?;
        let make = || Ok((decoder()?, Minutes::new()));
        let read = share_out(self.options.threads, morsels.len(), make, |(decoder, minutes), number| {
            morsels[number].read(&wanted, decoder, |batch| {
                add_batch(minutes, &batch, tells_minutes, 1);
                Ok(())
            })?;
            morsels[number].tell(&self.options.progress);
            go_on(&self.options, 0)
        })?;
        Ok(read.into_iter().map(|(_, minutes)| minutes).collect())
    }
}

/// Adds flows, each of which is `rows` rows.
fn add_batch(minutes: &mut Minutes, batch: &FlowBatch, tells_minutes: bool, rows: u64) {
    if !tells_minutes {
        let all = rows_of(batch).reduce(|mut all, sums| {
            all.join(&sums);
            all
        });
        if let Some(all) = all {
            add(minutes, None, &all, rows * batch.rows() as u64);
        }
        return;
    }
    let starts: Option<&TimestampMillisecondArray> = batch.primitive::<TimestampMillisecondType>(Column::Start);
    for (row, sums) in rows_of(batch).enumerate() {
        let start = starts.filter(|starts| starts.is_valid(row)).map(|starts| starts.value(row));
        let minute = start.map(|start| start.div_euclid(MINUTE_MS).saturating_mul(MINUTE_MS));
        add(minutes, minute, &sums, rows);
    }
}

fn of_sums(sums: &Sums) -> Totals {
    Totals {
        rows: None,
        flows: sums.flows,
        packets: sums.packets(),
        bytes: sums.bytes(),
        start_ms: sums.start(),
        end_ms: sums.end(),
    }
}
