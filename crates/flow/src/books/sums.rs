//! Rows of the books added up, by exporter, Observation Domain and version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Schema, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use super::balance::Counts;
use super::{BooksBatch, Counter, SPAN_COLUMN};
use crate::Table;

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// Sums of books, by exporter, Observation Domain and version: what is late to one is no consolation for another.
/// A sum that does not fit is the largest number there is.
#[derive(Debug, Clone, Default)]
pub struct BooksSums {
    by_key: BTreeMap<Key, Counts>,
    /// The latest begin and the latest end of a row of a key: its last record came between the two.
    last_ms: BTreeMap<Key, (i64, i64)>,
    cut_days: BTreeSet<i64>,
    /// Begin and end of what was added, milliseconds since the epoch.
    extent_ms: Option<(i64, i64)>,
}

type Key = (Option<Vec<u8>>, Option<u32>, Option<u8>);

/// The books of an exporter's Observation Domain in one version of the export protocol, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterSums {
    /// Its address, 4 or 16 octets.
    pub address: Option<Vec<u8>>,
    /// Its Observation Domain.
    pub domain: Option<u32>,
    /// Version of the export protocol.
    pub version: Option<u8>,
    /// Sums by [`Counter`].
    pub counts: Counts,
    /// Begin and end of the last minute that has anything of it, in milliseconds since the epoch; of the day, where the books
    /// have no minutes any more. The end of a minute that is not over is in the future.
    pub last_ms: Option<(i64, i64)>,
}

impl BooksSums {
    /// Adds the rows that touch a time range (milliseconds since the epoch, `end_ms` not included).
    pub fn add(&mut self, books: &BooksBatch, start_ms: i64, end_ms: i64) {
        self.add_rows(books.record_batch(), start_ms, end_ms);
    }

    /// As [`add`](Self::add), for rows that may lack counters: what was written before a counter existed has none of it.
    pub fn add_rows(&mut self, batch: &RecordBatch, start_ms: i64, end_ms: i64) {
        let column = |name| batch.column_by_name(name);
        let (Some(minutes), Some(exporters), Some(domains), Some(versions)) =
            (column("minute"), column("exporter"), column("observation_domain"), column("export_version"))
        else {
            return;
        };
        let (Some(minutes), Some(exporters), Some(domains), Some(versions)) = (
            minutes.as_primitive_opt::<TimestampMillisecondType>(),
            exporters.as_binary_opt::<i32>(),
            domains.as_primitive_opt::<UInt32Type>(),
            versions.as_primitive_opt::<UInt8Type>(),
        ) else {
            return;
        };
        let spans = column(SPAN_COLUMN).and_then(|spans| spans.as_primitive_opt::<UInt16Type>());
        let counters: Vec<_> = Counter::ALL
            .iter()
            .filter_map(|c| Some((*c as usize, column(c.name())?.as_primitive_opt::<UInt64Type>()?)))
            .collect();
        for row in 0..batch.num_rows() {
            let from_ms = minutes.value(row);
            let span = spans.filter(|spans| spans.is_valid(row)).map_or(1, |spans| spans.value(row).max(1));
            let until_ms = from_ms.saturating_add(i64::from(span) * MINUTE_MS);
            if from_ms >= end_ms || until_ms <= start_ms {
                continue;
            }
            if span > 1 && (from_ms < start_ms || until_ms > end_ms) {
                self.cut_days.insert(from_ms.div_euclid(DAY_MS));
            }
            let (first_ms, last_ms) = self.extent_ms.unwrap_or((from_ms, until_ms));
            self.extent_ms = Some((first_ms.min(from_ms), last_ms.max(until_ms)));
            let exporter = exporters.is_valid(row).then(|| exporters.value(row).to_vec());
            let domain = domains.is_valid(row).then(|| domains.value(row));
            let key: Key = (exporter, domain, versions.is_valid(row).then(|| versions.value(row)));
            let last_ms = self.last_ms.entry(key.clone()).or_insert((from_ms, until_ms));
            *last_ms = (last_ms.0.max(from_ms), last_ms.1.max(until_ms));
            let sums = self.of_key(key);
            for (counter, values) in counters.iter().filter(|(_, values)| values.is_valid(row)) {
                sums[*counter] = sums[*counter].saturating_add(values.value(row));
            }
        }
    }

    /// Adds counts of one exporter (address, Observation Domain, version).
    pub fn add_counts(&mut self, key: Key, counts: &Counts) {
        add(self.of_key(key), counts);
    }

    fn of_key(&mut self, key: Key) -> &mut Counts {
        self.by_key.entry(key).or_insert([0; Counter::COUNT])
    }

    /// The sums of each exporter, Observation Domain and version.
    pub(super) fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.by_key.values()
    }

    /// Begin of the first minute and end of the last one that were added, milliseconds since the epoch.
    pub fn extent_ms(&self) -> Option<(i64, i64)> {
        self.extent_ms
    }

    /// The sums of each exporter, Observation Domain and version; what is not known per exporter has no address. A number
    /// is another domain in each protocol, and flows of one say nothing of what datagrams of another had.
    pub fn exporters(&self) -> Vec<ExporterSums> {
        let of_key = |(key, counts): (&Key, &Counts)| {
            let last_ms = self.last_ms.get(key).copied();
            let (address, domain, version) = key.clone();
            ExporterSums { address, domain, version, counts: *counts, last_ms }
        };
        self.by_key.iter().map(of_key).collect()
    }

    /// Days, counted from 1970-01-01 in UTC, that a time range has only a part of, and whose rows were added as a whole
    /// because they cover the day. At most two for each time range.
    pub fn cut_days(&self) -> impl Iterator<Item = i64> {
        self.cut_days.iter().copied()
    }

    /// The sum of all exporters.
    pub fn totals(&self) -> Counts {
        let mut totals = [0; Counter::COUNT];
        self.counts().for_each(|counts| add(&mut totals, counts));
        totals
    }

    /// A row for each exporter, version and Observation Domain, in that order: these three columns, then the sums of
    /// `counters`. What is not known per exporter comes last.
    pub fn table(&self, counters: &[Counter]) -> RecordBatch {
        let mut rows: Vec<_> = self.by_key.iter().collect();
        rows.sort_by_key(|((exporter, domain, version), _)| {
            ((exporter.is_none(), exporter), (version.is_none(), version), (domain.is_none(), domain))
        });
        let exporters: BinaryArray = rows.iter().map(|((exporter, ..), _)| exporter.as_deref()).collect();
        let domains: UInt32Array = rows.iter().map(|((_, domain, _), _)| *domain).collect();
        let versions: UInt8Array = rows.iter().map(|((.., version), _)| *version).collect();
        let keys: [(&str, ArrayRef); 3] = [
            ("exporter", Arc::new(exporters)),
            ("observation_domain", Arc::new(domains)),
            ("export_version", Arc::new(versions)),
        ];
        let sums = counters.iter().map(|counter| {
            let sums: UInt64Array = rows.iter().map(|(_, counts)| Some(counts[*counter as usize])).collect();
            (counter.name(), Arc::new(sums) as ArrayRef)
        });
        let schema = Table::ExporterBooks.schema();
        let (fields, columns): (Vec<_>, Vec<_>) = keys
            .into_iter()
            .chain(sums)
            .filter_map(|(name, column)| Some((Arc::clone(schema.fields().find(name)?.1), column)))
            .unzip();
        match RecordBatch::try_new(Arc::new(Schema::new(fields)), columns) {
            Ok(table) => table,
            Err(error) => unreachable!("every column has a value in each row: {error}"),
        }
    }
}

fn add(sums: &mut Counts, counts: &Counts) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BooksRow;
    use crate::books::KEY_DOCS;

    fn row(minute_ms: i64, exporter: Option<u8>, values: &[(Counter, u64)]) -> BooksRow {
        let mut counts = [0; Counter::COUNT];
        for (counter, value) in values {
            counts[*counter as usize] = *value;
        }
        let exporter = exporter.map(|last| vec![192, 0, 2, last]);
        BooksRow { minute_ms, exporter, observation_domain: Some(0), export_version: Some(9), counts }
    }

    #[test]
    fn a_table_has_the_sums_of_each_exporter() {
        let of_version = |version, domain, stored| {
            let row = row(0, Some(1), &[(Counter::RecordsStored, stored), (Counter::Octets, 1)]);
            BooksRow { export_version: Some(version), observation_domain: domain, ..row }
        };
        let rows = [
            row(0, None, &[(Counter::KernelDrops, 4)]),
            of_version(10, Some(7), 1),
            of_version(9, None, 2),
            of_version(9, Some(8), 4),
            of_version(9, Some(8), 8),
        ];
        let mut sums = BooksSums::default();
        sums.add(&BooksBatch::from_rows(&rows), i64::MIN, i64::MAX);
        let table = sums.table(&[Counter::RecordsStored, Counter::KernelDrops]);
        let names: Vec<_> = table.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["exporter", "observation_domain", "export_version", "records_stored", "kernel_drops"]);
        let stored = table.column(3).as_primitive::<UInt64Type>().values();
        assert_eq!(stored, &[12, 2, 1, 0], "by version, then domain; what has no exporter is last");
        assert!(table.column(0).is_null(3));
        assert_eq!(sums.totals()[Counter::RecordsStored as usize], 15);
    }

    #[test]
    fn rows_from_before_a_column_have_none_of_it_and_cover_a_minute() {
        let whole = BooksBatch::from_rows(&[row(0, Some(1), &[(Counter::RecordsStored, 5)])]);
        // the keys but for the span, and one counter
        let old: Vec<_> = (0..4).chain([KEY_DOCS.len() + Counter::RecordsStored as usize]).collect();
        let old = whole.record_batch().project(&old).expect("columns");
        for (window, expected) in [((i64::MIN, i64::MAX), 5), ((59_999, 60_000), 5), ((60_000, 120_000), 0)] {
            let mut sums = BooksSums::default();
            sums.add_rows(&old, window.0, window.1);
            let totals = sums.totals();
            assert_eq!((totals[Counter::RecordsStored as usize], totals.iter().sum::<u64>()), (expected, expected));
        }
    }

    #[test]
    fn an_exporter_was_seen_in_the_last_minute_that_has_anything_of_it() {
        let of_version =
            |version, minute_ms| BooksRow { export_version: Some(version), ..row(minute_ms, Some(1), &[]) };
        let mut sums = BooksSums::default();
        let rows = [of_version(9, 120_000), of_version(10, 60_000), of_version(9, 0)];
        sums.add(&BooksBatch::from_rows(&rows), i64::MIN, i64::MAX);
        let seen: Vec<_> = sums.exporters().iter().map(|each| (each.version, each.last_ms)).collect();
        assert_eq!(seen, [(Some(9), Some((120_000, 180_000))), (Some(10), Some((60_000, 120_000)))]);
    }

    /// A switch that sends IPFIX without loss, and sFlow of which half is lost, with one number: source ID 0 and sub-agent 0.
    #[test]
    fn loss_of_one_protocol_is_not_reckoned_in_flows_of_another() {
        let of_version = |version, values: &[(Counter, u64)]| {
            let row = row(0, Some(1), values);
            BooksRow { export_version: Some(version), ..row }
        };
        let decoded = Counter::DatagramsDecoded;
        let rows = [
            of_version(10, &[(Counter::RecordsStored, 7_450), (decoded, 300)]),
            of_version(crate::EXPORT_VERSION_SFLOW5, &[(Counter::DatagramsLost, 199), (decoded, 200)]),
        ];
        let mut sums = BooksSums::default();
        sums.add(&BooksBatch::from_rows(&rows), i64::MIN, i64::MAX);
        let found: Vec<_> = sums.exporters().iter().map(|each| (each.version, each.completeness())).collect();
        let found: Vec<_> =
            found.iter().map(|(version, of)| (*version, of.stored, of.lost_datagrams, of.missing)).collect();
        assert_eq!(found, [(Some(10), 7_450, 0, 0), (Some(crate::EXPORT_VERSION_SFLOW5), 0, 199, 0)]);
    }

    #[test]
    fn sums_stay_at_the_largest_number() {
        let most = row(0, Some(1), &[(Counter::Octets, u64::MAX)]);
        let rows = [most.clone(), most, row(0, Some(2), &[(Counter::Octets, 1)])];
        let mut sums = BooksSums::default();
        sums.add(&BooksBatch::from_rows(&rows), i64::MIN, i64::MAX);
        assert_eq!(sums.totals()[Counter::Octets as usize], u64::MAX);
    }
}
