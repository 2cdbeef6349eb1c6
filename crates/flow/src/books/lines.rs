//! Lines of the books for flows that are known one by one: those that a filter behind the collector dropped, and those that no
//! datagram brought.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt32Type};

use super::{BooksBatch, BooksRow, Counter};
use crate::field::arrow_type;
use crate::{Column, FlowBatch};

const MINUTE_MS: i64 = 60_000;

/// The lines that account for flows which a filter dropped, under `records_filtered`. They are to be sent on with the
/// lines that came with the flows, and say minute and exporter as those do.
pub fn filtered_rows(dropped: &FlowBatch) -> Vec<BooksRow> {
    rows_of(dropped, Counter::RecordsFiltered)
}

/// The lines that account for flows which could not be written, under `records_not_stored`.
pub fn not_stored_rows(left_out: &FlowBatch) -> Vec<BooksRow> {
    rows_of(left_out, Counter::RecordsNotStored)
}

/// The lines that account for flows of packets and files, under `records_stored`.
pub fn stored_rows(flows: &FlowBatch) -> Vec<BooksRow> {
    rows_of(flows, Counter::RecordsStored)
}

/// What accounts for rows that a transform took, and for those that it made of them: taken ones are counted as filtered, made
/// ones as stored, by minute, exporter, Observation Domain and version, and what is the same on both sides is in neither.
#[derive(Debug, Default)]
pub struct ChangedRows {
    /// How many more were made than taken.
    grown: BTreeMap<LineKey, i64>,
}

/// Minute, exporter, Observation Domain and version of a line.
type LineKey = (i64, Option<Vec<u8>>, Option<u32>, Option<u8>);

impl ChangedRows {
    /// Columns that say to which line a row belongs; others are not looked at.
    const KEYS: [Column; 6] = [
        Column::Received,
        Column::Start,
        Column::End,
        Column::Exporter,
        Column::ObservationDomain,
        Column::ExportVersion,
    ];

    /// Counts rows that a transform took.
    pub fn take(&mut self, rows: &RecordBatch) {
        self.add(rows, -1);
    }

    /// Counts rows that it handed on.
    pub fn make(&mut self, rows: &RecordBatch) {
        self.add(rows, 1);
    }

    fn add(&mut self, rows: &RecordBatch, sign: i64) {
        let column = |column: Column| {
            let values = rows.column_by_name(column.name())?;
            (*values.data_type() == arrow_type(column.column_type())).then(|| (column, Arc::clone(values)))
        };
        let keys = Self::KEYS.into_iter().filter_map(column).collect();
        // each has the type of its column, and as many rows as the others
        let Ok(keys) = FlowBatch::from_columns(rows.num_rows(), keys) else { return };
        for row in rows_of(&keys, Counter::RecordsStored) {
            let count = row.counts[Counter::RecordsStored as usize];
            let key = (row.minute_ms, row.exporter, row.observation_domain, row.export_version);
            *self.grown.entry(key).or_default() += sign * i64::try_from(count).unwrap_or(i64::MAX);
        }
    }

    /// Takes out the lines for what was counted; `None` when as many were made as taken.
    pub fn take_lines(&mut self) -> Option<BooksBatch> {
        let changed = std::mem::take(&mut self.grown).into_iter().filter(|(_, grown)| *grown != 0);
        let rows: Vec<BooksRow> = changed
            .map(|((minute_ms, exporter, observation_domain, export_version), grown)| {
                let counter = if grown > 0 { Counter::RecordsStored } else { Counter::RecordsFiltered };
                let mut counts = [0; Counter::COUNT];
                counts[counter as usize] = grown.unsigned_abs();
                BooksRow { minute_ms, exporter, observation_domain, export_version, counts }
            })
            .collect();
        (!rows.is_empty()).then(|| BooksBatch::from_rows(&rows))
    }
}

/// Counts flows by minute, exporter, Observation Domain and version. Rows that nobody received are of the minute of their end,
/// or of their start; those without any time are of now, as the archive has them.
fn rows_of(flows: &FlowBatch, counter: Counter) -> Vec<BooksRow> {
    let times = [Column::Received, Column::End, Column::Start]
        .map(|column| flows.primitive::<TimestampMillisecondType>(column));
    let exporter = flows.binary(Column::Exporter);
    let domain = flows.primitive::<UInt32Type>(Column::ObservationDomain);
    let version = flows.primitive::<UInt8Type>(Column::ExportVersion);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let key = |row| {
        let mut known = times.iter().flatten().filter(|values| values.is_valid(row));
        let received_ms = known.next().map_or(now_ms, |values| values.value(row));
        (
            received_ms.saturating_sub(received_ms.rem_euclid(MINUTE_MS)),
            exporter.filter(|values| values.is_valid(row)).map(|values| values.value(row)),
            domain.filter(|values| values.is_valid(row)).map(|values| values.value(row)),
            version.filter(|values| values.is_valid(row)).map(|values| values.value(row)),
        )
    };
    let mut counted = BTreeMap::new();
    // rows of one key are mostly neighbours
    let mut begin = 0;
    for row in 1..=flows.rows() {
        if row == flows.rows() || key(row) != key(begin) {
            *counted.entry(key(begin)).or_insert(0) += (row - begin) as u64;
            begin = row;
        }
    }
    let rows = counted.into_iter().map(|((minute_ms, exporter, observation_domain, export_version), flows)| {
        let mut counts = [0; Counter::COUNT];
        counts[counter as usize] = flows;
        BooksRow { minute_ms, exporter: exporter.map(<[u8]>::to_vec), observation_domain, export_version, counts }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowBatchBuilder;
    use crate::books::BooksSums;

    #[test]
    fn dropped_flows_are_counted_by_exporter_and_minute() {
        let mut builder = FlowBatchBuilder::new(8);
        for (received_ms, exporter, domain) in [(60_001, 1, 7), (119_999, 1, 7), (120_000, 1, 7), (60_000, 2, 7)] {
            builder.begin_rows(1);
            builder.time(Column::Received).repeat(received_ms, 1);
            builder.address(Column::Exporter).repeat(&[192, 0, 2, exporter], 1);
            builder.u32(Column::ObservationDomain).repeat(domain, 1);
        }
        let rows = filtered_rows(&builder.finish());
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                assert_eq!((row.observation_domain, row.export_version), (Some(7), None));
                let last = row.exporter.as_deref().and_then(<[u8]>::last).copied();
                (row.minute_ms, last, row.counts[Counter::RecordsFiltered as usize])
            })
            .collect();
        assert_eq!(told, [(60_000, Some(1), 2), (60_000, Some(2), 1), (120_000, Some(1), 1)]);
    }

    #[test]
    fn rows_that_are_taken_and_made_cancel_out() {
        let batch = |times: &[i64], exporter: Option<[u8; 4]>| {
            let mut builder = FlowBatchBuilder::new(8);
            builder.begin_rows(times.len());
            // what somebody makes of flows has not been received
            let column = if exporter.is_some() { Column::Received } else { Column::End };
            builder.time(column).extend(times.iter().copied());
            if let Some(exporter) = exporter {
                builder.address(Column::Exporter).repeat(&exporter, times.len());
            }
            builder.finish().record_batch().clone()
        };
        let counted = |changed: &mut ChangedRows| {
            let mut sums = BooksSums::default();
            changed.take_lines().iter().for_each(|lines| sums.add(lines, i64::MIN, i64::MAX));
            let totals = sums.totals();
            [Counter::RecordsStored, Counter::RecordsFiltered].map(|counter| totals[counter as usize])
        };
        let mut changed = ChangedRows::default();
        // a filter: one of two minutes loses a row
        changed.take(&batch(&[60_000, 60_001, 120_000], Some([1; 4])));
        changed.make(&batch(&[60_001, 120_000], Some([1; 4])));
        assert_eq!(counted(&mut changed), [0, 1]);
        // groups: other rows, of no exporter
        changed.take(&batch(&[60_000, 60_001, 120_000], Some([1; 4])));
        changed.make(&batch(&[61_000], None));
        let lines = changed.take_lines().expect("lines");
        let mut sums = BooksSums::default();
        sums.add(&lines, i64::MIN, i64::MAX);
        assert_eq!(sums.extent_ms().map(|(from_ms, _)| from_ms), Some(60_000));
        assert_eq!(sums.totals()[Counter::RecordsFiltered as usize], 3);
        assert_eq!(sums.totals()[Counter::RecordsStored as usize], 1);
        // the same again
        changed.take(&batch(&[60_000], Some([1; 4])));
        changed.make(&batch(&[60_000], Some([1; 4])));
        assert!(changed.take_lines().is_none());
    }

    #[test]
    fn rows_without_any_time_are_of_now() {
        let minute =
            || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64 / MINUTE_MS;
        let mut builder = FlowBatchBuilder::new(8);
        builder.begin_rows(1);
        builder.address(Column::Exporter).repeat(&[192, 0, 2, 1], 1);
        let (before, mut changed) = (minute(), ChangedRows::default());
        changed.make(builder.finish().record_batch());
        let mut sums = BooksSums::default();
        sums.add(&changed.take_lines().expect("lines"), i64::MIN, i64::MAX);
        let (from_ms, _) = sums.extent_ms().expect("a minute");
        assert!((before..=minute()).contains(&(from_ms / MINUTE_MS)), "{from_ms}");
    }

    #[test]
    fn what_is_stored_is_accounted_for() {
        let mut builder = FlowBatchBuilder::new(8);
        builder.begin_rows(6);
        builder.time(Column::Received).extend([0, 59_999, 60_000, 1, 60_001, 60_002].into_iter());
        builder.address(Column::Exporter).extend_fixed([[1; 4], [1; 4], [1; 4], [1; 4], [2; 4], [1; 4]].into_iter());
        let rows = stored_rows(&builder.finish());
        let stored: Vec<_> = rows.iter().map(|row| row.counts[Counter::RecordsStored as usize]).collect();
        assert_eq!(stored, [3, 2, 1]);
        assert!(stored_rows(&FlowBatchBuilder::new(1).finish()).is_empty());
    }
}
