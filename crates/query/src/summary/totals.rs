//! What flows amount to, all together or by the minute in which they start.

use std::collections::BTreeMap;

use arrow::array::{Array, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use foldhash::{HashMap, HashMapExt};
use weir_archive::Rollup;
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};

use super::past::{Amounts, ExpiredSegment, WindowShare, amounts, minute_of};
use super::table::{count_as_summed, tables};
use crate::archive::Archive;
use crate::flows::FlowSources;
use crate::group::{Sums, rows_of};
use crate::options::go_on;
use crate::passes::decoder;
use crate::run::share_out_from;
use crate::scan::ScanSpec;
use crate::{FlowQuery, QueryError, Select, TimeWindow};

/// What flows amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rows of the archive; `None` by the minute, because what segments are summed up to lacks it, nor do
    /// summaries that lie in the window in part.
    pub rows: Option<u64>,
    /// Flows; a row may be several.
    pub flows: u64,
    /// Packets; `None` when no flow has any.
    pub packets: Option<u64>,
    /// Octets; `None` when no flow has any.
    pub bytes: Option<u64>,
    /// First start, milliseconds since the epoch; `None` when no flow has it.
    pub start_ms: Option<i64>,
    /// Last end, milliseconds since the epoch; `None` when no flow has it.
    pub end_ms: Option<i64>,
    /// Whether flows, packets or bytes are more than 64 bits hold, and given as the largest number.
    pub is_saturated: bool,
    /// How much `flows` may be too small: 0 unless flows that have expired count, and their summaries lie in the window
    /// in part only. Times are those of all flows of these summaries then.
    pub flows_error_max: u64,
    /// How much `packets` may be too small.
    pub packets_error_max: u64,
    /// How much `bytes` may be too small.
    pub bytes_error_max: u64,
}

/// What some flows amount to.
#[derive(Debug, Clone, Copy)]
struct Amount {
    sums: Sums,
    /// `None` when that is not known.
    rows: Option<u64>,
    /// How much the sums may be too small.
    error: Amounts,
}

impl Amount {
    const NONE: Self = Self { sums: Sums::NONE, rows: Some(0), error: [0; 3] };

    fn join(&mut self, other: &Self) {
        self.sums.join(&other.sums);
        self.rows = self.rows.zip(other.rows).map(|(rows, more)| rows + more);
        self.error.iter_mut().zip(other.error).for_each(|(error, more)| *error = error.saturating_add(more));
    }

    fn totals(&self) -> Totals {
        let [flows_error_max, packets_error_max, bytes_error_max] = self.error;
        Totals {
            rows: self.rows,
            flows: self.sums.flows,
            packets: self.sums.packets(),
            bytes: self.sums.bytes(),
            start_ms: self.sums.start(),
            end_ms: self.sums.end(),
            is_saturated: self.sums.is_saturated(),
            flows_error_max,
            packets_error_max,
            bytes_error_max,
        }
    }
}

/// Amounts by the minute in which flows start; `None` for those that lack it, and for all of them when nobody
/// asks for minutes.
type Minutes = HashMap<Option<i64>, Amount>;

fn add(minutes: &mut Minutes, minute: Option<i64>, amount: &Amount) {
    minutes.entry(minute).or_insert(Amount::NONE).join(amount);
}

impl Archive {
    /// What the flows of a window that pass a filter amount to; without a filter, whatever segments have been summed up
    /// to is used.
    pub fn totals(&self, filter: &Predicate, window: &TimeWindow) -> Result<Totals, QueryError> {
        let minutes = self.by_minute(filter, window, false)?;
        let all = minutes.into_values().reduce(|mut all, more| {
            all.join(&more);
            all
        });
        Ok(all.unwrap_or(Amount::NONE).totals())
    }

    /// The same by the minute in which flows start, in milliseconds since the epoch: the key is the first millisecond.
    /// Flows without a start have no key.
    pub fn minutes(
        &self,
        filter: &Predicate,
        window: &TimeWindow,
    ) -> Result<BTreeMap<Option<i64>, Totals>, QueryError> {
        let minutes = self.by_minute(filter, window, true)?;
        let totals = |amount: &Amount| Totals { rows: None, ..amount.totals() };
        Ok(minutes.iter().map(|(minute, amount)| (*minute, totals(amount))).collect())
    }

    fn by_minute(&self, filter: &Predicate, window: &TimeWindow, per_minute: bool) -> Result<Minutes, QueryError> {
        let mut flows = self.flows(window);
        let mut minutes = Minutes::new();
        if self.options.approximate {
            if *filter != Predicate::True {
                return Err(QueryError::NotApproximate("a total with a filter"));
            }
            self.past(window)?.iter().for_each(|past| add_past(&mut minutes, past, per_minute));
        }
        if self.options.summaries && *filter == Predicate::True {
            let tables = tables(&flows, window, &[Rollup::Minute], &self.options)?;
            let segments = std::mem::take(&mut flows.segments);
            for (segment, tables) in segments.into_iter().zip(tables) {
                let Some(tables) = tables else {
                    flows.segments.push(segment);
                    continue;
                };
                for table in &tables {
                    add_batch(&mut minutes, &table.rows, per_minute, 0);
                }
                // what a minute has of the rows is not known, but all of them belong to some minute
                if !per_minute {
                    add(&mut minutes, None, &Amount { rows: Some(segment.rows), ..Amount::NONE });
                }
                count_as_summed(&segment, &self.options);
            }
        }
        for read in self.read_minutes(&flows, filter, window, per_minute)? {
            for (minute, amount) in &read {
                add(&mut minutes, *minute, amount);
            }
        }
        Ok(minutes)
    }

    /// The same from flows, one map for each thread.
    fn read_minutes(
        &self,
        flows: &FlowSources,
        filter: &Predicate,
        window: &TimeWindow,
        per_minute: bool,
    ) -> Result<Vec<Minutes>, QueryError> {
        let select = Select::List { columns: Vec::new(), sorting: None, limit: None };
        let question = FlowQuery { filter: filter.clone(), window: *window, select, scaled: false };
        let counted = [Column::Flows, Column::Packets, Column::Bytes, Column::Start, Column::End];
        let wanted = ScanSpec::new(&question, counted);
        let scan = flows.scan(&wanted, &self.options);
        let make = || Ok((decoder()?, Minutes::new()));
        let threads = self.options.threads.min(scan.units_max());
        let read = share_out_from(
            threads,
            || scan.next_unit(),
            make,
            |(decoder, minutes), unit| {
                unit.read(decoder, |batch| {
                    add_batch(minutes, &batch, per_minute, 1);
                    Ok(())
                })?;
                go_on(&self.options)
            },
        )?;
        Ok(read.into_iter().map(|(_, minutes)| minutes).collect())
    }
}

/// Adds flows, each of which is `rows` rows.
fn add_batch(minutes: &mut Minutes, batch: &FlowBatch, per_minute: bool, rows: u64) {
    if !per_minute {
        let all = rows_of(batch).reduce(|mut all, sums| {
            all.join(&sums);
            all
        });
        if let Some(sums) = all {
            add(minutes, None, &Amount { sums, rows: Some(rows * batch.rows() as u64), ..Amount::NONE });
        }
        return;
    }
    let starts: Option<&TimestampMillisecondArray> = batch.primitive::<TimestampMillisecondType>(Column::Start);
    for (row, sums) in rows_of(batch).enumerate() {
        let start = starts.filter(|starts| starts.is_valid(row)).map(|starts| starts.value(row));
        add(minutes, start.map(minute_of), &Amount { sums, rows: Some(rows), ..Amount::NONE });
    }
}

/// Adds what a summary has of the window, and what may be missing.
fn add_past(minutes: &mut Minutes, past: &ExpiredSegment, per_minute: bool) {
    for (sums, belonging) in past.minutes() {
        let minute = per_minute.then(|| minute_of(sums.start));
        match belonging {
            WindowShare::All => add(minutes, minute, &Amount { sums, ..Amount::NONE }),
            WindowShare::Some => add(minutes, minute, &Amount { error: amounts(&sums), ..Amount::NONE }),
            WindowShare::None => {}
        }
    }
    if !per_minute {
        let rows = past.is_whole().then(|| past.summary.rows());
        add(minutes, None, &Amount { rows, ..Amount::NONE });
    }
}
