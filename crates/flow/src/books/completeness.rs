//! How complete an answer is: what the books say about the time that it is about.
//!
//! An answer over flows is only as good as the flows that are there. The books know what is missing by sequence
//! numbers, what was dropped here and what could not be decoded. Some of that is known in records, some only in
//! datagrams: those are turned into records by what datagrams of the same exporter held on average, and the result is
//! called an estimate. Rows that a transform of a chain made of others came from no exporter: they count as flows that
//! are there, but neither as flows that should be there nor as content of datagrams. The books are kept by minute of
//! reception, so the edges of a time range are a minute wide. Days long past are kept as one row for each exporter: of a
//! day that a time range cuts the whole day counts, and [`Completeness::cut_days`] lists such days.

use std::fmt::{self, Write as _};

use arrow::temporal_conversions::timestamp_ms_to_datetime;

use super::balance::{Counts, LEFT_OUT, sets_waiting, sum};
use super::{BooksSums, Counter, ExporterSums};

const DAY_MS: i64 = 86_400_000;

impl ExporterSums {
    /// How complete its flows are.
    pub fn completeness(&self) -> Completeness {
        let mut sums = BooksSums::default();
        sums.add_counts((self.address.clone(), self.domain, self.version), &self.counts);
        sums.completeness()
    }
}

impl BooksSums {
    /// How complete the flows are that these sums are about.
    pub fn completeness(&self) -> Completeness {
        let mut all = Completeness::default();
        let (mut datagrams, mut records, mut missing, mut unread) = (0_u64, 0_u64, 0_u64, 0_u64);
        let add = |to: &mut u64, count: u64| *to = to.saturating_add(count);
        for counts in self.counts() {
            let of = |counter: Counter| counts[counter as usize];
            let decoded = of(Counter::DatagramsDecoded);
            let located = of(Counter::RecordsStored)
                .saturating_sub(of(Counter::RecordsMade))
                .saturating_add(of(Counter::RecordsOptions));
            add(&mut datagrams, decoded);
            add(&mut records, located);
            add(&mut all.stored, of(Counter::RecordsStored).saturating_sub(sum(counts, &LEFT_OUT)));
            add(&mut all.not_stored, of(Counter::RecordsNotStored));
            add(&mut all.received, received(counts));
            add(&mut all.lost_records, of(Counter::RecordsLost).saturating_sub(of(Counter::RecordsLate)));
            let lost = of(Counter::DatagramsLost).saturating_sub(of(Counter::DatagramsLate));
            add(&mut all.lost_datagrams, lost);
            let estimate = times(lost, located, decoded);
            add(&mut all.lost_estimate, estimate);
            let samples = of(Counter::SamplesLost).saturating_sub(of(Counter::SamplesLate));
            add(&mut all.lost_samples, samples);
            // samples of datagrams that did not come are missing by both numbers
            add(&mut missing, estimate.max(samples));
            let dropped =
                [Counter::KernelDrops, Counter::QueueDrops, Counter::DatagramsRefused, Counter::DatagramsOverRate];
            add(&mut all.dropped_datagrams, sum(counts, &dropped));
            add(&mut all.undecodable_datagrams, of(Counter::DatagramsUndecodable));
            add(&mut all.undecodable_sets, sum(counts, &[Counter::SetsUndecodable, Counter::SetsExpired]));
            add(&mut all.waiting_sets, sets_waiting(counts));
            add(&mut unread, sets_waiting(counts).saturating_add(of(Counter::SetsExpired)));
            add(&mut all.unsequenced_datagrams, of(Counter::DatagramsUnsequenced));
        }
        // What was dropped before its sender was known is like the average of all; some of it is also missing by
        // sequence numbers, so the larger of both is what is missing at least.
        let dropped = times(all.dropped_datagrams, records, datagrams);
        // How many records a set has is not known before its Template comes. Most datagrams are of one set, so it is as
        // many as they had.
        all.unread_sets = unread;
        let unread = times(unread, records, datagrams);
        for (place, day) in all.cut_days.iter_mut().zip(self.cut_days()) {
            *place = Some(day);
        }
        let lost = all.lost_records.saturating_add(missing).max(dropped);
        all.missing = lost.saturating_add(all.not_stored).saturating_add(unread);
        all
    }
}

/// Records that came and were not lost since, those that were dropped on purpose among them.
fn received(counts: &Counts) -> u64 {
    let of = |counter: Counter| counts[counter as usize];
    let (stored, not_stored) = (of(Counter::RecordsStored), of(Counter::RecordsNotStored));
    let sent = stored.saturating_sub(of(Counter::RecordsMade)).saturating_sub(not_stored);
    // Where rows that were made could not be written, what is missing is counted in such rows, and so is what is there.
    if not_stored > 0 { sent.max(stored.saturating_sub(sum(counts, &LEFT_OUT))) } else { sent }
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
    /// Records that came and were not lost since: the flows that are there but for those that a transform made of others, and
    /// what was dropped on purpose or taken by a transform.
    pub received: u64,
    /// Records that came and could not be written.
    pub not_stored: u64,
    /// Records that did not come, by sequence numbers that count records.
    pub lost_records: u64,
    /// Datagrams that did not come, by sequence numbers that count datagrams.
    pub lost_datagrams: u64,
    /// The records that those datagrams would have held, by the average of their exporter.
    pub lost_estimate: u64,
    /// Flow samples of sFlow that did not come, by the sequence numbers of their sources. Counters samples hold no flow.
    pub lost_samples: u64,
    /// Datagrams dropped by this machine: its kernel, a full queue, the limits on exporters and on what one sends.
    pub dropped_datagrams: u64,
    /// Datagrams of which nothing could be read.
    pub undecodable_datagrams: u64,
    /// Data Sets with errors, or whose Template did not come.
    pub undecodable_sets: u64,
    /// Data Sets that wait for their Template.
    pub waiting_sets: u64,
    /// Data Sets that wait for their Template, or have waited for nothing.
    pub unread_sets: u64,
    /// Datagrams of exporters whose numbering is of no use.
    pub unsequenced_datagrams: u64,
    /// Records that are missing, as far as known or estimated, those of unread sets among them. Datagrams dropped here are most often missing by
    /// sequence numbers as well, so this is the larger of both and not their sum.
    pub missing: u64,
    /// Days that the time range cuts, and of which all of the day is in these numbers because their books are kept by
    /// day: the first and the last at most, counted from 1970-01-01 in UTC.
    pub cut_days: [Option<i64>; 2],
}

impl Completeness {
    /// The counters that completeness is made of; no other column of counters need be read.
    pub const COUNTERS: &[Counter] = &[
        Counter::DatagramsDecoded,
        Counter::RecordsStored,
        Counter::RecordsOptions,
        Counter::RecordsFiltered,
        Counter::RecordsMade,
        Counter::RecordsNotStored,
        Counter::RecordsLost,
        Counter::RecordsLate,
        Counter::DatagramsLost,
        Counter::DatagramsLate,
        Counter::SamplesLost,
        Counter::SamplesLate,
        Counter::KernelDrops,
        Counter::QueueDrops,
        Counter::DatagramsRefused,
        Counter::DatagramsOverRate,
        Counter::DatagramsUndecodable,
        Counter::DatagramsUnsequenced,
        Counter::SetsUndecodable,
        Counter::SetsExpired,
        Counter::SetsWaitingIn,
        Counter::SetsWaitingOut,
    ];

    /// Whether nothing is known to be missing.
    pub fn is_complete(&self) -> bool {
        let Self { missing, undecodable_datagrams, undecodable_sets, waiting_sets, .. } = *self;
        [missing, undecodable_datagrams, undecodable_sets, waiting_sets, self.dropped_datagrams] == [0; 5]
    }

    /// Whether part of what is missing is estimated.
    pub fn is_estimate(&self) -> bool {
        self.lost_datagrams > 0 || self.dropped_datagrams > 0 || self.unread_sets > 0
    }

    /// The share of records that are there, in ten thousandths; less than 10,000 where any is missing, or may be.
    pub fn share(&self) -> u64 {
        if self.is_complete() {
            return 10_000;
        }
        let whole = u128::from(self.received) + u128::from(self.missing);
        if whole == 0 {
            // something came, and nothing could be decoded
            return 0;
        }
        let share = u128::from(self.received) * 10_000 / whole;
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
        reason(self.lost_samples, "samples lost on the way");
        reason(self.not_stored, "records not written");
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
        let days: Vec<String> = self.cut_days.iter().flatten().map(|day| day_text(*day)).collect();
        if !days.is_empty() {
            write!(f, "\nthe books of {} are kept by day, and count as a whole", days.join(" and "))?;
        }
        Ok(())
    }
}

/// `YYYY-MM-DD` of a day since 1970-01-01.
fn day_text(day: i64) -> String {
    let begin = day.checked_mul(DAY_MS).and_then(timestamp_ms_to_datetime);
    begin.map_or_else(|| format!("day {day}"), |begin| begin.date().to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{RecordBatch, UInt16Array};

    use super::*;
    use crate::books::SPAN_COLUMN;
    use crate::{BooksBatch, BooksRow};

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
        // 9,987 records came in 400 datagrams, so 2 sets have some 50
        check(&[whole, waiting], "about 99.50 % complete: 2 sets waiting for a template");
        // of a datagram of sFlow that did not come the samples are missing, too
        let values = [(RecordsStored, 80), (DatagramsDecoded, 10), (DatagramsLost, 1), (Counter::SamplesLost, 20)];
        check(
            &[row(60_000, Some(4), &values)],
            "about 80.00 % complete: 1 datagrams lost on the way, 20 samples lost on the way",
        );
        let values = [(RecordsStored, 80), (Counter::SamplesLost, 21), (Counter::SamplesLate, 1)];
        check(&[row(60_000, Some(4), &values)], "80.00 % complete: 20 samples lost on the way");
        let values = [(RecordsStored, 100), (Counter::RecordsFiltered, 10), (Counter::RecordsNotStored, 20)];
        check(&[row(60_000, Some(4), &values)], "80.00 % complete: 20 records not written");
    }

    /// Of 100 records that came in 10 datagrams a transform made rows under keys of its own.
    #[test]
    fn rows_that_were_made_of_others_have_not_come() {
        use Counter::{RecordsFiltered, RecordsLost, RecordsMade, RecordsNotStored, RecordsStored};
        let taken = |values: &[(Counter, u64)]| {
            let came = [(RecordsStored, 100), (Counter::DatagramsDecoded, 10), (RecordsFiltered, 100)];
            row(60_000, Some(1), &[&came[..], values].concat())
        };
        let made = |values: &[(Counter, u64)]| row(60_000, None, values);
        let forty = made(&[(RecordsStored, 40), (RecordsMade, 40)]);
        check(&[taken(&[(RecordsLost, 100)]), forty.clone()], "50.00 % complete: 100 records lost on the way");
        // ten records a datagram, under the key of what was taken as well
        check(
            &[taken(&[(Counter::DatagramsLost, 10)]), forty.clone()],
            "about 50.00 % complete: 10 datagrams lost on the way",
        );
        check(
            &[taken(&[(RecordsStored, 140), (RecordsMade, 40), (Counter::DatagramsLost, 10)])],
            "about 50.00 % complete: 10 datagrams lost on the way",
        );
        let dropped = row(60_000, None, &[(Counter::KernelDrops, 10)]);
        check(&[taken(&[]), forty.clone(), dropped], "about 50.00 % complete: 10 datagrams dropped here");
        // flows are what is there in the end
        let mut sums = BooksSums::default();
        sums.add(&BooksBatch::from_rows(&[taken(&[]), forty]), 60_000, 180_000);
        let found = sums.completeness();
        assert_eq!((found.stored, found.received, found.is_complete()), (40, 100, true));
        // rows that could not be written are missing of those that were made
        let some = made(&[(RecordsStored, 40), (RecordsMade, 40), (RecordsNotStored, 10)]);
        check(&[some], "75.00 % complete: 10 records not written");
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
    fn what_could_not_be_decoded_is_no_hundred_percent() {
        let mut sums = BooksSums::default();
        let undecodable = row(60_000, Some(1), &[(Counter::RecordsStored, 10), (Counter::SetsExpired, 3)]);
        sums.add(&BooksBatch::from_rows(&[undecodable]), 60_000, 180_000);
        let found = sums.completeness();
        assert_eq!((found.share(), found.to_string().as_str()), (7_692, "about 76.92 % complete: 3 sets undecodable"));
        assert_eq!(BooksSums::default().completeness().share(), 10_000);
        // nothing else came: no flow is there of none that is known
        let (is_estimated, is_not) = ("about 0.00 % complete: 1 ", "complete as far as is known: 1 ");
        for (counter, expected) in [
            (Counter::SetsExpired, is_estimated),
            (Counter::SetsWaitingIn, is_estimated),
            (Counter::DatagramsUndecodable, is_not),
        ] {
            let mut sums = BooksSums::default();
            sums.add(&BooksBatch::from_rows(&[row(60_000, Some(1), &[(counter, 1)])]), 60_000, 180_000);
            assert_eq!((sums.completeness().share(), sums.completeness().is_complete()), (0, false));
            assert!(sums.completeness().to_string().starts_with(expected));
        }
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

    /// Rows that cover a day.
    fn of_days(rows: &[BooksRow]) -> RecordBatch {
        let batch = BooksBatch::from_rows(rows).record_batch().clone();
        let (schema, mut columns, _) = batch.into_parts();
        let at = schema.index_of(SPAN_COLUMN).expect("the column");
        columns[at] = Arc::new(UInt16Array::from(vec![1440; rows.len()]));
        RecordBatch::try_new(schema, columns).expect("the same schema")
    }

    #[test]
    fn a_day_that_is_cut_counts_as_a_whole_and_is_named() {
        let lost = |day: i64| row(day * DAY_MS, Some(1), &[(Counter::RecordsLost, 1), (Counter::RecordsStored, 9)]);
        // 2026-01-01 is day 20,454 (date -u -d 2026-01-01 +%s divided by 86,400)
        let days = of_days(&[lost(20_454), lost(20_455), lost(20_456)]);
        let check = |start_ms: i64, end_ms: i64, stored: u64, expected: &str| {
            let mut sums = BooksSums::default();
            sums.add_rows(&days, start_ms, end_ms);
            let found = sums.completeness();
            assert_eq!((found.stored, found.to_string().as_str()), (stored, expected));
        };
        let text = "90.00 % complete: 1 records lost on the way";
        check(20_455 * DAY_MS, 20_456 * DAY_MS, 9, text);
        let noon = 20_455 * DAY_MS + DAY_MS / 2;
        check(noon, noon + 1, 9, &format!("{text}\nthe books of 2026-01-02 are kept by day, and count as a whole"));
        let text = "90.00 % complete: 3 records lost on the way";
        let both = format!("{text}\nthe books of 2026-01-01 and 2026-01-03 are kept by day, and count as a whole");
        check(20_455 * DAY_MS - 1, 20_456 * DAY_MS + 1, 27, &both);
        check(i64::MIN, i64::MAX, 27, text);
    }

    /// With each counter alone changed, completeness changes if the counter is listed, and does not if it is not.
    #[test]
    fn only_the_listed_counters_matter() {
        let mut base = [0; Counter::COUNT];
        for counter in Completeness::COUNTERS {
            base[*counter as usize] = 1000;
        }
        // so that one more of either is seen
        base[Counter::SetsWaitingIn as usize] = 5000;
        base[Counter::RecordsLost as usize] = 5000;
        base[Counter::DatagramsLost as usize] = 5000;
        base[Counter::SamplesLost as usize] = 5_000_000;
        base[Counter::RecordsStored as usize] = 5000;
        let of = |counts| {
            let mut sums = BooksSums::default();
            sums.add_counts((None, None, None), &counts);
            sums.completeness()
        };
        for counter in Counter::ALL {
            let mut counts = base;
            counts[*counter as usize] += 500;
            let is_listed = Completeness::COUNTERS.contains(counter);
            assert_eq!(of(counts) != of(base), is_listed, "{}", counter.name());
        }
    }
}
