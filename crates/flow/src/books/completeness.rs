//! How complete an answer is: what the books say about the time that it is about.
//!
//! An answer over flows is only as good as the flows that are there. The books know what is missing by sequence
//! numbers, what was dropped here and what could not be decoded. Some of that is known in records, some only in
//! datagrams: those are turned into records by what datagrams of the same exporter held on average, and the result is
//! called an estimate. The books are kept by minute of reception, so the edges of a time range are a minute wide.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt32Type, UInt64Type};

use super::balance::{Counts, sets_waiting};
use super::{BooksBatch, Counter};

const MINUTE_MS: i64 = 60_000;

/// Sums of books, by exporter, Observation Domain and version: what is late to one is no consolation for another.
#[derive(Debug, Clone, Default)]
pub struct BooksSums(BTreeMap<Key, Counts>);

type Key = (Option<Vec<u8>>, Option<u32>, Option<u8>);

impl BooksSums {
    /// Adds the lines whose minute touches a time range (milliseconds since the epoch, `end_ms` not included).
    pub fn add(&mut self, books: &BooksBatch, start_ms: i64, end_ms: i64) {
        let batch = books.record_batch();
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
        let counters: Vec<_> =
            Counter::ALL.iter().map(|c| column(c.name()).and_then(|c| c.as_primitive_opt::<UInt64Type>())).collect();
        for row in 0..batch.num_rows() {
            let minute_ms = minutes.value(row);
            if minute_ms >= end_ms || minute_ms.saturating_add(MINUTE_MS) <= start_ms {
                continue;
            }
            let mut counts = [0; Counter::COUNT];
            for (count, values) in counts.iter_mut().zip(&counters) {
                *count = values.map_or(0, |values| values.value(row));
            }
            let exporter = exporters.is_valid(row).then(|| exporters.value(row).to_vec());
            let domain = domains.is_valid(row).then(|| domains.value(row));
            self.add_counts((exporter, domain, versions.is_valid(row).then(|| versions.value(row))), &counts);
        }
    }

    /// Adds counts of one exporter (address, Observation Domain, version).
    pub fn add_counts(&mut self, key: Key, counts: &Counts) {
        let sums = self.0.entry(key).or_insert([0; Counter::COUNT]);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    /// How complete the flows are that these sums are about.
    pub fn completeness(&self) -> Completeness {
        let mut all = Completeness::default();
        let (mut datagrams, mut records) = (0_u64, 0_u64);
        for counts in self.0.values() {
            let of = |counter: Counter| counts[counter as usize];
            let decoded = of(Counter::DatagramsDecoded);
            let located = of(Counter::RecordsStored) + of(Counter::RecordsOptions);
            datagrams += decoded;
            records += located;
            all.stored += of(Counter::RecordsStored).saturating_sub(of(Counter::RecordsFiltered));
            all.filtered += of(Counter::RecordsFiltered);
            all.lost_records += of(Counter::RecordsLost).saturating_sub(of(Counter::RecordsLate));
            let lost = of(Counter::DatagramsLost).saturating_sub(of(Counter::DatagramsLate));
            all.lost_datagrams += lost;
            all.lost_estimate += times(lost, located, decoded);
            all.dropped_datagrams += of(Counter::KernelDrops) + of(Counter::QueueDrops) + of(Counter::DatagramsRefused);
            all.undecodable_datagrams += of(Counter::DatagramsUndecodable);
            all.undecodable_sets += of(Counter::SetsUndecodable) + of(Counter::SetsExpired);
            all.waiting_sets += sets_waiting(counts);
            all.unsequenced_datagrams += of(Counter::DatagramsUnsequenced);
        }
        // What was dropped before its sender was known is like the average of all; some of it is also missing by
        // sequence numbers, so the larger of both is what is missing at least.
        let dropped = times(all.dropped_datagrams, records, datagrams);
        all.missing = (all.lost_records + all.lost_estimate).max(dropped);
        all
    }
}

/// Datagrams as records, by the average of those that came.
fn times(datagrams: u64, records: u64, of_datagrams: u64) -> u64 {
    if of_datagrams == 0 {
        return datagrams;
    }
    let product = u128::from(datagrams) * u128::from(records);
    u64::try_from(product.div_ceil(u128::from(of_datagrams))).unwrap_or(u64::MAX)
}

/// How complete flows are. As text: one line, or two when there is something to explain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Flows that are there.
    pub stored: u64,
    /// Flows that were dropped on purpose; they do not count as missing.
    pub filtered: u64,
    /// Records that did not come, by sequence numbers that count records.
    pub lost_records: u64,
    /// Datagrams that did not come, by sequence numbers that count datagrams.
    pub lost_datagrams: u64,
    /// The records that those datagrams would have held, by the average of their exporter.
    pub lost_estimate: u64,
    /// Datagrams dropped by this machine: its kernel, a full queue, the limit on exporters.
    pub dropped_datagrams: u64,
    /// Datagrams of which nothing could be read.
    pub undecodable_datagrams: u64,
    /// Data Sets with errors, or whose Template did not come.
    pub undecodable_sets: u64,
    /// Data Sets that wait for their Template.
    pub waiting_sets: u64,
    /// Datagrams of exporters whose numbering is of no use.
    pub unsequenced_datagrams: u64,
    /// Records that are missing, as far as known or estimated. Datagrams dropped here are most often missing by
    /// sequence numbers as well, so this is the larger of both and not their sum.
    pub missing: u64,
}

impl Completeness {
    /// Whether nothing is known to be missing.
    pub fn is_complete(&self) -> bool {
        let Self { missing, undecodable_datagrams, undecodable_sets, waiting_sets, .. } = *self;
        missing + undecodable_datagrams + undecodable_sets + waiting_sets + self.dropped_datagrams == 0
    }

    /// Whether part of what is missing is estimated.
    pub fn is_estimate(&self) -> bool {
        self.lost_datagrams + self.dropped_datagrams > 0
    }

    /// The share of records that are there, in ten thousandths; less than 10,000 where any is missing.
    pub fn share(&self) -> u64 {
        let present = self.stored + self.filtered;
        if self.missing == 0 {
            return 10_000;
        }
        let share = u128::from(present) * 10_000 / (u128::from(present) + u128::from(self.missing));
        share.min(9_999) as u64
    }
}

impl fmt::Display for Completeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons = String::new();
        let mut reason = |count: u64, what: &str| {
            if count > 0 {
                let separator = if reasons.is_empty() { "" } else { ", " };
                // writing to a text does not fail
                let _ = write!(reasons, "{separator}{count} {what}");
            }
        };
        reason(self.lost_records, "records lost on the way");
        reason(self.lost_datagrams, "datagrams lost on the way");
        reason(self.dropped_datagrams, "datagrams dropped here");
        reason(self.undecodable_datagrams, "datagrams undecodable");
        reason(self.undecodable_sets, "sets undecodable");
        reason(self.waiting_sets, "sets waiting for a template");
        let share = self.share();
        if self.is_complete() {
            f.write_str("complete")?;
        } else if self.missing == 0 {
            write!(f, "complete as far as is known: {reasons}")?;
        } else {
            let about = if self.is_estimate() { "about " } else { "" };
            write!(f, "{about}{}.{:02} % complete: {reasons}", share / 100, share % 100)?;
        }
        if self.unsequenced_datagrams > 0 {
            write!(
                f,
                "\nloss is unknown for {} datagrams without a useful sequence number",
                self.unsequenced_datagrams
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BooksRow;

    fn row(minute_ms: i64, exporter: Option<u8>, values: &[(Counter, u64)]) -> BooksRow {
        let mut counts = [0; Counter::COUNT];
        for (counter, value) in values {
            counts[*counter as usize] = *value;
        }
        let exporter = exporter.map(|last| vec![192, 0, 2, last]);
        BooksRow { minute_ms, exporter, observation_domain: Some(0), export_version: Some(9), counts }
    }

    fn check(rows: &[BooksRow], expected: &str) {
        let mut sums = BooksSums::default();
        sums.add(&BooksBatch::from_rows(rows), 60_000, 180_000);
        assert_eq!(sums.completeness().to_string(), expected);
    }

    #[test]
    fn what_is_there_and_what_is_not() {
        use Counter::{DatagramsDecoded, DatagramsLost, KernelDrops, RecordsLate, RecordsLost, RecordsStored};
        let whole = row(60_000, Some(1), &[(RecordsStored, 9_987), (DatagramsDecoded, 400)]);
        check(std::slice::from_ref(&whole), "complete");
        check(&[], "complete");
        let lost = row(120_000, Some(1), &[(RecordsLost, 20), (RecordsLate, 7)]);
        check(&[whole.clone(), lost], "99.87 % complete: 13 records lost on the way");
        // 100 records came in 5 datagrams, so 2 that did not come had 40
        let nine = row(60_000, Some(2), &[(RecordsStored, 100), (DatagramsDecoded, 5), (DatagramsLost, 2)]);
        check(&[nine], "about 71.42 % complete: 2 datagrams lost on the way");
        let dropped = row(60_000, None, &[(KernelDrops, 4)]);
        check(&[whole.clone(), dropped], "about 99.00 % complete: 4 datagrams dropped here");
        let waiting = row(60_000, Some(3), &[(Counter::SetsWaitingIn, 3), (Counter::SetsWaitingOut, 1)]);
        check(&[whole, waiting], "complete as far as is known: 2 sets waiting for a template");
    }

    #[test]
    fn a_single_record_of_many_is_no_hundred_percent() {
        check(
            &[row(60_000, Some(1), &[(Counter::RecordsStored, 10_000_000), (Counter::RecordsLost, 1)])],
            "99.99 % complete: 1 records lost on the way",
        );
    }

    #[test]
    fn late_records_of_one_exporter_do_not_make_up_for_another() {
        let (lost, late) = (Counter::RecordsLost, Counter::RecordsLate);
        let rows =
            [row(60_000, Some(1), &[(Counter::RecordsStored, 99), (lost, 1)]), row(60_000, Some(2), &[(late, 1)])];
        check(&rows, "99.00 % complete: 1 records lost on the way");
    }

    #[test]
    fn only_minutes_that_the_range_touches_count() {
        let lost = |minute_ms| row(minute_ms, Some(1), &[(Counter::RecordsLost, 1)]);
        let mut sums = BooksSums::default();
        let batch = BooksBatch::from_rows(&[lost(0), lost(60_000), lost(120_000), lost(180_000)]);
        sums.add(&batch, 119_999, 180_000);
        assert_eq!(sums.completeness().lost_records, 2);
    }

    #[test]
    fn exporters_whose_numbers_tell_nothing_are_named() {
        check(
            &[row(60_000, Some(1), &[(Counter::RecordsStored, 5), (Counter::DatagramsUnsequenced, 3)])],
            "complete\nloss is unknown for 3 datagrams without a useful sequence number",
        );
    }
}
