//! Times of reception that files tell, as an archive can take them.
//!
//! An archive is divided by the day of reception, and each day of a delivery is a file for each table. A damaged file has any
//! times: one of 195 KB became 6,000 files of 142 MB. So a time that cannot be one of reception is replaced by the present, and so
//! are those of more days than a file of real flows has. Flows of packets were received when a packet showed that they had
//! ended, or soon after they had where none came, and captures of any time are real: of these only the days are limited.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::compute::{max, min};
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{ComponentContext, Counter};
use weir_flow::{Column, FlowBatch};

/// 1990-01-01: no flow was exported before.
const FIRST_MS: i64 = 631_152_000_000;
const DAY_MS: i64 = 86_400_000;
/// Days that the flows of one file may have been received on.
const DAYS_MAX: usize = 1_000;

/// Judges times of reception, and counts those that it replaces.
pub(crate) struct Reception {
    /// The present, in milliseconds since the epoch.
    clock: fn() -> i64,
    /// Whether there are times that cannot be: before [`FIRST_MS`], or of the future.
    is_limited: bool,
    /// Days of the files that are being read.
    days: HashSet<i64>,
    /// Files that have begun, of those whose flows come among each other.
    files: usize,
    replaced: Counter,
}

impl Reception {
    /// For times in files that are read one after the other. A clock may be a day ahead of ours.
    pub(crate) fn new(context: &ComponentContext) -> Self {
        Self { is_limited: true, ..Self::of_packets(context) }
    }

    /// For times of packets, which may be any.
    pub(crate) fn of_packets(context: &ComponentContext) -> Self {
        let replaced = context.counters.counter("times_replaced");
        Self { clock: now_ms, is_limited: false, days: HashSet::new(), files: 0, replaced }
    }

    /// Another file begins, when all flows of the one before have come.
    pub(crate) fn begin_file(&mut self) {
        self.days.clear();
    }

    /// So many other files begin, whose flows come among and long after those of the files before.
    pub(crate) fn add_files(&mut self, files: usize) {
        self.files += files;
    }

    /// The time, or the present where it makes no sense.
    pub(crate) fn judged(&mut self, received_ms: i64) -> i64 {
        let day = received_ms.div_euclid(DAY_MS);
        let days_max = DAYS_MAX.saturating_mul(self.files.max(1));
        if self.is_possible(received_ms) && (self.days.contains(&day) || self.days.len() < days_max) {
            self.days.insert(day);
            return received_ms;
        }
        self.replaced.add(1);
        (self.clock)()
    }

    fn is_possible(&self, received_ms: i64) -> bool {
        !self.is_limited || (FIRST_MS..=(self.clock)().saturating_add(DAY_MS)).contains(&received_ms)
    }

    /// Flows whose times of reception are judged.
    pub(crate) fn judged_flows(&mut self, flows: FlowBatch) -> FlowBatch {
        let Some(times) = flows.column(Column::Received).map(AsArray::as_primitive::<TimestampMillisecondType>) else {
            return flows;
        };
        if self.are_of_known_day(times) {
            return flows;
        }
        let before = self.replaced.get();
        let judged: TimestampMillisecondArray = times.iter().map(|time| time.map(|ms| self.judged(ms))).collect();
        if self.replaced.get() == before {
            return flows;
        }
        let (schema, mut columns, _) = flows.record_batch().clone().into_parts();
        if let Ok(at) = schema.index_of(Column::Received.name())
            && let Some(place) = columns.get_mut(at)
        {
            let judged: ArrayRef = Arc::new(judged.with_timezone("UTC"));
            *place = judged;
        }
        RecordBatch::try_new(schema, columns).ok().and_then(|rows| FlowBatch::try_new(rows).ok()).unwrap_or(flows)
    }

    /// Whether all are of one day that there is a place for, as nearly always.
    fn are_of_known_day(&self, times: &TimestampMillisecondArray) -> bool {
        let Some((first, last)) = min(times).zip(max(times)) else { return false };
        let [day, last_day] = [first, last].map(|ms| ms.div_euclid(DAY_MS));
        let are_possible = [first, last].iter().all(|ms| self.is_possible(*ms));
        are_possible && day == last_day && self.days.contains(&day)
    }
}

/// The present, in milliseconds since the epoch.
fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use weir_flow::FlowBatchBuilder;

    use super::*;

    #[test]
    fn times_that_cannot_be_become_the_present() {
        let context = ComponentContext::default();
        let now_ms = 1_800_000_000_000;
        let mut reception = Reception { clock: || 1_800_000_000_000, ..Reception::new(&context) };
        let given =
            [FIRST_MS, FIRST_MS - 1, i64::MAX, i64::MIN, now_ms + DAY_MS, now_ms + DAY_MS + 1, 1_767_225_600_000];
        let expected = [FIRST_MS, now_ms, now_ms, now_ms, now_ms + DAY_MS, now_ms, 1_767_225_600_000];
        assert_eq!(given.map(|ms| reception.judged(ms)), expected);
        let mut builder = FlowBatchBuilder::new(given.len());
        builder.begin_rows(given.len());
        builder.time(Column::Received).extend(given.into_iter());
        let flows = reception.judged_flows(builder.finish());
        let times = flows.primitive::<TimestampMillisecondType>(Column::Received).expect("the column");
        assert_eq!(times.values(), &expected);
        assert_eq!(context.counters.counter("times_replaced").get(), 8);
    }

    #[test]
    fn a_file_tells_of_so_many_days() {
        let context = ComponentContext::default();
        let mut reception = Reception::new(&context);
        let day = |number: usize| FIRST_MS + number as i64 * DAY_MS;
        let kept = |reception: &mut Reception| {
            (0..2_000).filter(|number| reception.judged(day(*number)) == day(*number)).count()
        };
        assert_eq!((kept(&mut reception), kept(&mut reception)), (DAYS_MAX, DAYS_MAX));
        assert_eq!(context.counters.counter("times_replaced").get(), 2_000);
        reception.begin_file();
        assert_eq!(reception.judged(day(1_999)), day(1_999), "another file has days of its own");
    }

    #[test]
    fn files_whose_flows_come_among_each_other_have_their_days_together() {
        let mut reception = Reception::of_packets(&ComponentContext::default());
        let kept = |reception: &mut Reception| {
            (0..9_000_i64).filter(|day| reception.judged(day * DAY_MS) == day * DAY_MS).count()
        };
        assert_eq!(kept(&mut reception), DAYS_MAX);
        reception.add_files(1);
        assert_eq!(kept(&mut reception), DAYS_MAX);
        reception.add_files(2);
        assert_eq!(kept(&mut reception), 3 * DAYS_MAX);
    }

    /// A pipe may be read for years.
    #[test]
    fn the_present_is_that_of_the_flow() {
        use std::sync::atomic::{AtomicI64, Ordering};

        static NOW_MS: AtomicI64 = AtomicI64::new(1_800_000_000_000);
        let clock = || NOW_MS.load(Ordering::Relaxed);
        let mut reception = Reception { clock, ..Reception::new(&ComponentContext::default()) };
        assert_eq!(reception.judged(i64::MAX), 1_800_000_000_000);
        NOW_MS.store(1_900_000_000_000, Ordering::Relaxed);
        assert_eq!(reception.judged(i64::MAX), 1_900_000_000_000);
        assert_eq!(reception.judged(1_900_000_000_000), 1_900_000_000_000);
        assert_eq!(reception.replaced.get(), 2);
    }
}
