//! Lines of the books for flows that are known one by one: those that a filter behind the collector dropped, and those that no
//! datagram brought.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{
    Array, ArrowPrimitiveType, BinaryArray, PrimitiveArray, RecordBatch, TimestampMillisecondArray, UInt8Array,
    UInt32Array,
};
use arrow::compute::{max, min};

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
/// ones as stored and as made, by minute, exporter, Observation Domain and version, and what is the same on both sides is in
/// none of these.
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
                let counters: &[Counter] = if grown > 0 {
                    &[Counter::RecordsStored, Counter::RecordsMade]
                } else {
                    &[Counter::RecordsFiltered]
                };
                let mut counts = [0; Counter::COUNT];
                for counter in counters {
                    counts[*counter as usize] = grown.unsigned_abs();
                }
                BooksRow { minute_ms, exporter, observation_domain, export_version, counts }
            })
            .collect();
        (!rows.is_empty()).then(|| BooksBatch::from_rows(&rows))
    }
}

/// Counts flows by minute, exporter, Observation Domain and version. Rows that nobody received are of the minute of their end,
/// or of their start; those without any time are of now, as the archive has them.
fn rows_of(flows: &FlowBatch, counter: Counter) -> Vec<BooksRow> {
    let keys = Keys::of(flows);
    let mut counted = BTreeMap::new();
    // rows of one key are mostly neighbours
    let begins = keys.begins(flows.rows());
    let ends = begins.iter().skip(1).copied().chain([flows.rows()]);
    for (begin, end) in begins.iter().zip(ends) {
        *counted.entry(keys.at(*begin)).or_insert(0) += (end - begin) as u64;
    }
    let rows = counted.into_iter().map(|((minute_ms, exporter, observation_domain, export_version), flows)| {
        let mut counts = [0; Counter::COUNT];
        counts[counter as usize] = flows;
        BooksRow { minute_ms, exporter: exporter.map(<[u8]>::to_vec), observation_domain, export_version, counts }
    });
    rows.collect()
}

/// The columns that say to which line a flow belongs.
struct Keys<'a> {
    /// The first that has a time counts.
    times: [Option<&'a TimestampMillisecondArray>; 3],
    exporter: Option<&'a BinaryArray>,
    domain: Option<&'a UInt32Array>,
    version: Option<&'a UInt8Array>,
    now_ms: i64,
}

impl<'a> Keys<'a> {
    fn of(flows: &'a FlowBatch) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            times: [Column::Received, Column::End, Column::Start].map(|column| flows.primitive(column)),
            exporter: flows.binary(Column::Exporter),
            domain: flows.primitive(Column::ObservationDomain),
            version: flows.primitive(Column::ExportVersion),
            now_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn at(&self, row: usize) -> (i64, Option<&'a [u8]>, Option<u32>, Option<u8>) {
        let exporter = self.exporter.filter(|values| values.is_valid(row)).map(|values| values.value(row));
        (self.minute_ms(row), exporter, value(self.domain, row), value(self.version, row))
    }

    fn minute_ms(&self, row: usize) -> i64 {
        let known = self.times.iter().find_map(|times| value(*times, row));
        minute_of(known.unwrap_or(self.now_ms))
    }

    /// The rows whose line may be another one than that of the row before. Columns are looked at one by one: every flow of a
    /// chain comes by here twice for each transform.
    fn begins(&self, rows: usize) -> Vec<usize> {
        let mut differs = vec![false; rows];
        self.mark_minutes(&mut differs);
        mark_octets(self.exporter, &mut differs);
        mark_values(self.domain, &mut differs);
        mark_values(self.version, &mut differs);
        if let Some(first) = differs.first_mut() {
            *first = true;
        }
        (0..).zip(differs).filter_map(|(row, differs)| differs.then_some(row)).collect()
    }

    fn mark_minutes(&self, differs: &mut [bool]) {
        let whole = self.times.iter().flatten().next().filter(|times| times.null_count() == 0);
        if let Some(times) = whole
            && min(times).map(minute_of) == max(times).map(minute_of)
        {
            return;
        }
        mark(differs, |row| self.minute_ms(row));
    }
}

fn minute_of(time_ms: i64) -> i64 {
    time_ms.saturating_sub(time_ms.rem_euclid(MINUTE_MS))
}

fn value<T: ArrowPrimitiveType>(values: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    values.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}

/// Marks the rows that have another value than the one before.
fn mark<K: PartialEq>(differs: &mut [bool], key: impl Fn(usize) -> K) {
    for (row, differs) in differs.iter_mut().enumerate().skip(1) {
        *differs |= key(row) != key(row - 1);
    }
}

fn mark_all<T: PartialEq>(differs: &mut [bool], values: &[T]) {
    for (differs, (value, before)) in differs.iter_mut().skip(1).zip(values.iter().skip(1).zip(values)) {
        *differs |= value != before;
    }
}

fn mark_values<T: ArrowPrimitiveType>(values: Option<&PrimitiveArray<T>>, differs: &mut [bool]) {
    match values {
        Some(known) if known.null_count() == 0 => mark_all(differs, known.values()),
        Some(_) => mark(differs, |row| value(values, row)),
        None => {}
    }
}

fn mark_octets(values: Option<&BinaryArray>, differs: &mut [bool]) {
    let Some(values) = values else { return };
    let offsets = values.value_offsets();
    let (first, last) = (offsets.first().map_or(0, |at| *at as usize), offsets.last().map_or(0, |at| *at as usize));
    let is_ipv4 = values.null_count() == 0 && offsets.iter().zip(offsets.iter().skip(1)).all(|(at, end)| end - at == 4);
    match values.value_data().get(first..last) {
        Some(octets) if is_ipv4 => mark_all(differs, octets.as_chunks::<4>().0),
        _ => mark(differs, |row| values.is_valid(row).then(|| values.value(row))),
    }
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

    type Row = (Option<i64>, Option<&'static [u8]>, Option<u32>, Option<u8>);

    /// Neighbours of every kind: minutes, addresses of both lengths, numbers and absent ones.
    #[test]
    fn neighbours_are_of_one_line_only_when_all_of_it_is_the_same() {
        let rows: [Row; 12] = [
            (Some(59_999), Some(&[1; 4]), Some(1), Some(9)),
            (Some(60_000), Some(&[1; 4]), Some(1), Some(9)),
            (Some(119_999), Some(&[1; 4]), Some(1), Some(9)),
            (Some(60_000), Some(&[2; 4]), Some(1), Some(9)),
            (Some(60_000), Some(&[2; 4]), Some(2), Some(9)),
            (Some(60_000), Some(&[2; 4]), Some(2), Some(10)),
            (Some(60_000), Some(&[2; 16]), Some(2), Some(10)),
            (Some(60_000), None, Some(2), Some(10)),
            (Some(60_000), None, None, Some(10)),
            (Some(60_000), None, None, None),
            (Some(-1), None, None, None),
            (Some(60_001), Some(&[1; 4]), Some(1), Some(9)),
        ];
        // whole, and in parts that have no null or one length of addresses
        for part in [&rows[..], &rows[..6], &rows[..7], &rows[3..6], &rows[7..], &rows[..1], &[]] {
            let mut builder = FlowBatchBuilder::new(part.len());
            builder.begin_rows(part.len());
            for (received_ms, exporter, domain, version) in part {
                builder.time(Column::Received).push(*received_ms);
                builder.address(Column::Exporter).push(*exporter);
                builder.u32(Column::ObservationDomain).push(*domain);
                builder.u8(Column::ExportVersion).push(*version);
            }
            let mut expected: Vec<_> = part.iter().map(|row| (row.0.map(minute_of), row.1, row.2, row.3)).collect();
            expected.sort_unstable();
            let found = stored_rows(&builder.finish());
            let mut found: Vec<_> = found
                .iter()
                .flat_map(|row| {
                    let key =
                        (Some(row.minute_ms), row.exporter.as_deref(), row.observation_domain, row.export_version);
                    vec![key; row.counts[Counter::RecordsStored as usize] as usize]
                })
                .collect();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
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
            [Counter::RecordsStored, Counter::RecordsMade, Counter::RecordsFiltered]
                .map(|counter| totals[counter as usize])
        };
        let mut changed = ChangedRows::default();
        // a filter: one of two minutes loses a row
        changed.take(&batch(&[60_000, 60_001, 120_000], Some([1; 4])));
        changed.make(&batch(&[60_001, 120_000], Some([1; 4])));
        assert_eq!(counted(&mut changed), [0, 0, 1]);
        // groups: other rows, of no exporter
        changed.take(&batch(&[60_000, 60_001, 120_000], Some([1; 4])));
        changed.make(&batch(&[61_000], None));
        let lines = changed.take_lines().expect("lines");
        let mut sums = BooksSums::default();
        sums.add(&lines, i64::MIN, i64::MAX);
        assert_eq!(sums.extent_ms().map(|(from_ms, _)| from_ms), Some(60_000));
        assert_eq!(sums.totals()[Counter::RecordsFiltered as usize], 3);
        assert_eq!(sums.totals()[Counter::RecordsStored as usize], 1);
        assert_eq!(sums.totals()[Counter::RecordsMade as usize], 1);
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
