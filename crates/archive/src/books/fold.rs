//! Rows of the books that say the same of the same time, as one row.
//!
//! What becomes of each column:
//!
//! | column | rule |
//! | --- | --- |
//! | `minute` | key: the start of its minute or, where days are added up, of its UTC day |
//! | `exporter`, `observation_domain`, `export_version` | key; null is a value of its own |
//! | `span_minutes` | key: 1, or 1440 where days are added up; a row that covers more keeps what it covers |
//! | every counter | sum; the largest number there is where it does not fit; null counts as 0 |
//!
//! Rows come out in the order of their keys, so that adding up is the same whatever came first. What speaks against a
//! sorted order is that rows do not stay as they were received; the time of reception is the first key.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, TimestampMillisecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow::datatypes::{Field, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::books::SPAN_COLUMN;

use crate::civil::MS_PER_DAY;

const MS_PER_MINUTE: i64 = 60_000;
const MINUTES_PER_DAY: u16 = 1440;

/// The time that a row of the books covers after rows were added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BooksStep {
    Minute,
    Day,
}

impl BooksStep {
    /// Start and length in minutes of what a row covers that covered `span` minutes from `minute_ms` on.
    fn cover(self, minute_ms: i64, span: u16) -> (i64, u16) {
        match self {
            Self::Day => (minute_ms - minute_ms.rem_euclid(MS_PER_DAY), MINUTES_PER_DAY),
            Self::Minute if span > 1 => (minute_ms, span),
            Self::Minute => (minute_ms - minute_ms.rem_euclid(MS_PER_MINUTE), 1),
        }
    }
}

/// The columns that are keys, of all rows; a column that no row has a value of is `None`.
#[derive(Debug)]
pub(crate) struct KeyColumns {
    columns: [Option<ArrayRef>; 5],
}

impl KeyColumns {
    /// Their names, in the order in which they are to be given.
    pub(crate) const NAMES: [&str; 5] = ["minute", "exporter", "observation_domain", "export_version", SPAN_COLUMN];

    pub(crate) fn new(columns: [Option<ArrayRef>; 5]) -> Self {
        Self { columns }
    }

    /// The distinct addresses, in their order.
    fn exporters(&self) -> Vec<Vec<u8>> {
        let Some(column) = &self.columns[1] else { return Vec::new() };
        let distinct: std::collections::BTreeSet<&[u8]> = column.as_binary::<i32>().iter().flatten().collect();
        distinct.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// The keys of all rows with the numbers of the rows.
    fn keys(&self, step: BooksStep, exporters: &[Vec<u8>]) -> Vec<(Key, u32)> {
        let [minutes, addresses, domains, versions, spans] = &self.columns;
        let Some(minutes) = minutes.as_ref().map(AsArray::as_primitive::<TimestampMillisecondType>) else {
            return Vec::new();
        };
        let addresses = addresses.as_ref().map(AsArray::as_binary::<i32>);
        let domains = domains.as_ref().map(AsArray::as_primitive::<UInt32Type>);
        let versions = versions.as_ref().map(AsArray::as_primitive::<UInt8Type>);
        let spans = spans.as_ref().map(AsArray::as_primitive::<UInt16Type>);
        let rows = 0..minutes.len();
        let keys = rows.map(|row| {
            let span = spans.filter(|spans| spans.is_valid(row)).map_or(1, |spans| spans.value(row));
            let (from_ms, span_minutes) = step.cover(minutes.value(row), span);
            let address = addresses.filter(|column| column.is_valid(row)).map(|column| column.value(row));
            let rank = |address: &[u8]| exporters.binary_search_by(|known| known.as_slice().cmp(address)).ok();
            let key = Key {
                from_ms,
                exporter: address.and_then(rank).map(|rank| rank as u32),
                domain: domains.filter(|column| column.is_valid(row)).map(|column| column.value(row)),
                version: versions.filter(|column| column.is_valid(row)).map(|column| column.value(row)),
                span_minutes,
            };
            (key, row as u32)
        });
        keys.collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    from_ms: i64,
    /// Its place among the distinct addresses.
    exporter: Option<u32>,
    domain: Option<u32>,
    version: Option<u8>,
    span_minutes: u16,
}

/// Which rows become one. In memory are 32 octets for each row while this is made, then 4 for each row and 32 for each
/// key.
#[derive(Debug)]
pub(crate) struct BooksFold {
    exporters: Vec<Vec<u8>>,
    keys: Vec<Key>,
    /// The number of its key, for each row.
    key_of_row: Vec<u32>,
}

impl BooksFold {
    pub(crate) fn new(columns: &KeyColumns, step: BooksStep) -> Self {
        let exporters = columns.exporters();
        let mut rows = columns.keys(step, &exporters);
        rows.sort_unstable();
        let mut keys: Vec<Key> = Vec::new();
        let mut key_of_row = vec![0; rows.len()];
        for (key, row) in rows {
            if keys.last() != Some(&key) {
                keys.push(key);
            }
            key_of_row[row as usize] = (keys.len() - 1) as u32;
        }
        Self { exporters, keys, key_of_row }
    }

    /// Rows that are left.
    pub(crate) fn rows(&self) -> usize {
        self.keys.len()
    }

    /// A column of the rows that are left, if it is a key.
    pub(crate) fn key_column(&self, field: &Field) -> Option<ArrayRef> {
        let keys = self.keys.iter();
        Some(match field.name().as_str() {
            "minute" => {
                let minutes: TimestampMillisecondArray = keys.map(|key| Some(key.from_ms)).collect();
                Arc::new(minutes.with_timezone("UTC"))
            }
            "exporter" => {
                let mut column = BinaryBuilder::new();
                for key in keys {
                    column.append_option(key.exporter.and_then(|rank| self.exporters.get(rank as usize)));
                }
                Arc::new(column.finish())
            }
            "observation_domain" => Arc::new(keys.map(|key| key.domain).collect::<UInt32Array>()),
            "export_version" => Arc::new(keys.map(|key| key.version).collect::<UInt8Array>()),
            SPAN_COLUMN => Arc::new(keys.map(|key| Some(key.span_minutes)).collect::<UInt16Array>()),
            _ => return None,
        })
    }

    /// Sums of a counter for the rows that are left, of which `add` is given every piece in the order of the rows.
    pub(crate) fn sums(&self) -> CounterSums<'_> {
        CounterSums { rows: self.key_of_row.iter(), sums: vec![0; self.keys.len()] }
    }
}

/// Sums of one counter, while its column is read.
#[derive(Debug)]
pub(crate) struct CounterSums<'a> {
    rows: std::slice::Iter<'a, u32>,
    sums: Vec<u64>,
}

impl CounterSums<'_> {
    /// Adds the next piece of the column.
    pub(crate) fn add(&mut self, piece: &ArrayRef) {
        let counts = piece.as_primitive::<UInt64Type>();
        for (row, key) in (0..counts.len()).zip(self.rows.by_ref()) {
            if counts.is_valid(row)
                && let Some(sum) = self.sums.get_mut(*key as usize)
            {
                *sum = sum.saturating_add(counts.value(row));
            }
        }
    }

    pub(crate) fn finish(self) -> ArrayRef {
        Arc::new(UInt64Array::from(self.sums))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::RecordBatch;
    use proptest::prelude::*;
    use weir_flow::{BooksBatch, BooksRow, Counter, Table};

    use super::*;

    /// The rows of a batch, added up.
    fn folded(batch: &RecordBatch, step: BooksStep) -> RecordBatch {
        let keys = KeyColumns::NAMES.map(|name| batch.column_by_name(name).cloned());
        let fold = BooksFold::new(&KeyColumns::new(keys), step);
        let schema = Table::ExporterBooks.schema();
        let columns = schema.fields().iter().map(|field| {
            fold.key_column(field).unwrap_or_else(|| {
                let mut sums = fold.sums();
                let column = batch.column_by_name(field.name()).expect("a counter");
                // in two pieces, as they come from files
                let half = column.len() / 2;
                sums.add(&column.slice(0, half));
                sums.add(&column.slice(half, column.len() - half));
                sums.finish()
            })
        });
        let columns = columns.collect();
        RecordBatch::try_new(schema, columns).expect("columns in the order of the schema")
    }

    type Sums = BTreeMap<(i64, Option<Vec<u8>>, Option<u32>, Option<u8>), Vec<u64>>;

    /// Sums of every counter by key and length of time, counted from rows.
    fn counted(rows: &[BooksRow], length_ms: i64) -> Sums {
        let mut sums = Sums::new();
        for row in rows {
            let key =
                (row.minute_ms.div_euclid(length_ms), row.exporter.clone(), row.observation_domain, row.export_version);
            let sums = sums.entry(key).or_insert_with(|| vec![0; Counter::COUNT]);
            sums.iter_mut().zip(row.counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        }
        sums
    }

    /// The same, of a batch in which every row has a key of its own.
    fn read(batch: &RecordBatch, length_ms: i64) -> Sums {
        let mut sums = Sums::new();
        let column = |name: &str| batch.column_by_name(name).expect("a column");
        let minutes = column("minute").as_primitive::<TimestampMillisecondType>();
        let exporters = column("exporter").as_binary::<i32>();
        let domains = column("observation_domain").as_primitive::<UInt32Type>();
        let versions = column("export_version").as_primitive::<UInt8Type>();
        for row in 0..batch.num_rows() {
            assert_eq!(minutes.value(row) % length_ms, 0, "it begins with what it covers");
            let key = (
                minutes.value(row) / length_ms,
                exporters.is_valid(row).then(|| exporters.value(row).to_vec()),
                domains.is_valid(row).then(|| domains.value(row)),
                versions.is_valid(row).then(|| versions.value(row)),
            );
            let counts = Counter::ALL.iter().map(|c| column(c.name()).as_primitive::<UInt64Type>().value(row));
            assert!(sums.insert(key, counts.collect()).is_none(), "one row for each key");
        }
        sums
    }

    fn rows() -> impl Strategy<Value = Vec<BooksRow>> {
        let exporter = prop::option::of(prop::sample::select(vec![vec![192, 0, 2, 1], vec![10, 0, 0, 1], vec![1; 16]]));
        let count = prop_oneof![0..1000_u64, Just(u64::MAX - 3)];
        let some = prop::collection::vec((0..Counter::COUNT, count), 0..4);
        let row = (-3_000_000_000..3_000_000_000_i64, exporter, prop::option::of(0..2_u32), prop::option::of(9..11_u8));
        let row =
            (row, some, any::<bool>()).prop_map(|((ms, exporter, observation_domain, export_version), some, at)| {
                let mut counts = [0; Counter::COUNT];
                for (counter, count) in some {
                    counts[counter] = count;
                }
                // some in few minutes, so that keys repeat
                let minute_ms = if at { ms.rem_euclid(5) * 60_000 } else { ms };
                BooksRow { minute_ms, exporter, observation_domain, export_version, counts }
            });
        prop::collection::vec(row, 0..60)
    }

    proptest! {
        #[test]
        fn every_counter_stays_by_key_and_there_is_a_row_for_each(mut rows in rows(), seed in any::<u64>()) {
            let batch = BooksBatch::from_rows(&rows).record_batch().clone();
            let by_minute = folded(&batch, BooksStep::Minute);
            let expected = counted(&rows, 60_000);
            prop_assert_eq!(by_minute.num_rows(), expected.len());
            prop_assert_eq!(read(&by_minute, 60_000), expected);
            let by_day = folded(&batch, BooksStep::Day);
            let expected = counted(&rows, 86_400_000);
            prop_assert_eq!(by_day.num_rows(), expected.len());
            prop_assert_eq!(read(&by_day, 86_400_000), expected);
            // twice is as once, and so is by day what was added up by minute
            prop_assert_eq!(&folded(&by_minute, BooksStep::Minute), &by_minute);
            prop_assert_eq!(&folded(&by_minute, BooksStep::Day), &by_day);
            prop_assert_eq!(&folded(&by_day, BooksStep::Day), &by_day);
            prop_assert_eq!(&folded(&by_day, BooksStep::Minute), &by_day);
            // whatever the order of the rows
            rows.sort_by_key(|row| (row.minute_ms as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let batch = BooksBatch::from_rows(&rows);
            prop_assert_eq!(&folded(batch.record_batch(), BooksStep::Minute), &by_minute);
        }
    }

    #[test]
    fn every_column_has_a_rule() {
        let fold = BooksFold::new(&KeyColumns::new(Default::default()), BooksStep::Minute);
        for field in Table::ExporterBooks.schema().fields() {
            let is_counter = Counter::ALL.iter().any(|counter| counter.name() == field.name());
            assert_ne!(fold.key_column(field).is_some(), is_counter, "{}", field.name());
        }
    }
}
