//! Times of reception that files tell, as an archive can take them.
//!
//! An archive is divided by the day of reception, and each day of a delivery is a file for each table. A damaged file has any
//! times: one of 195 KB became 6,000 files of 142 MB. So a time that cannot be one of reception becomes the present, and so
//! do those of more days than a file of real flows tells of. Flows of packets were received when a packet showed that they had
//! ended, and captures of any time are real: of these only the days are limited.

use std::collections::HashSet;
use std::ops::RangeInclusive;
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
    now_ms: i64,
    /// Times that may be.
    possible_ms: RangeInclusive<i64>,
    /// Days of the file that is being read.
    days: HashSet<i64>,
    replaced: Counter,
}

impl Reception {
    /// For times that files tell. A clock may be a day ahead of ours.
    pub(crate) fn new(context: &ComponentContext) -> Self {
        let any = Self::of_packets(context);
        Self { possible_ms: FIRST_MS..=any.now_ms.saturating_add(DAY_MS), ..any }
    }

    /// For times of packets, which may be any.
    pub(crate) fn of_packets(context: &ComponentContext) -> Self {
        let now_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
        let replaced = context.counters.counter("times_replaced");
        Self { now_ms, possible_ms: i64::MIN..=i64::MAX, days: HashSet::new(), replaced }
    }

    /// Another file begins.
    pub(crate) fn begin_file(&mut self) {
        self.days.clear();
    }

    /// The time, or now where it makes no sense.
    pub(crate) fn judged(&mut self, received_ms: i64) -> i64 {
        let day = received_ms.div_euclid(DAY_MS);
        let is_possible = self.possible_ms.contains(&received_ms);
        if is_possible && (self.days.contains(&day) || self.days.len() < DAYS_MAX) {
            self.days.insert(day);
            return received_ms;
        }
        self.replaced.add(1);
        self.now_ms
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
        let are_possible = [first, last].iter().all(|ms| self.possible_ms.contains(ms));
        are_possible && day == last_day && self.days.contains(&day)
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::FlowBatchBuilder;

    use super::*;

    #[test]
    fn times_that_cannot_be_become_the_present() {
        let context = ComponentContext::default();
        let mut reception = Reception::new(&context);
        let now_ms = reception.now_ms;
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
}
