//! A part of the flows, drawn evenly: for a picture that has to be there before an exact answer can be.
//!
//! Of the pages that may have flows of a question one of every so many is read, over all segments, and of the deliveries in the
//! tail. Flows of a segment lie by service and host, so pages that are evenly apart have of each of them in proportion; a span of
//! time is no part of a segment that can be read by itself, once segments are merged. What speaks against it is that all flows of
//! a page are taken or none: of what is in few pages a sample has much or nothing. [`SampleSpread`] says how far its number of
//! flows may be off for that reason.

use std::time::Duration;

use arrow::array::RecordBatch;
use weir_filter::Predicate;
use weir_flow::FlowBatch;

use crate::archive::listed;
use crate::list::list_columns;
use crate::scan::ScanSpec;
use crate::{
    Answer, Archive, EstimateLimits, FilteredEstimate, FlowQuery, QueryError, Select, TimeWindow, ask_batches,
};

/// What it may cost to find out how many flows may pass a filter.
const LIMITS: EstimateLimits = EstimateLimits { indexes_max: 400, time_max: Duration::from_millis(50) };

/// How much of the flows of a question is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleSize {
    /// About so many flows at most, by what indexes of segments know of the filter. So the size of the sample depends on all
    /// flows in the pages that are left, also on those that do not pass.
    Rows(u64),
    /// One of so many pages, however many there are. The size says nothing about flows that do not pass.
    OneOf(u64),
}

/// A part of the flows of a question.
pub struct Sample<T> {
    /// What was made of the flows, in the order of the archive: of the flows of each page or delivery, one item.
    pub answer: Answer<T>,
    /// Of so many pages one was read: each flow stands for so many. 1 when all flows are there.
    pub one_of: u64,
}

/// Over how many pages the flows of a sample are spread.
///
/// All flows of a page are in a sample or none, so a thousand flows of one page say as much about the whole as one flow would.
/// What speaks against it as a measure is that it counts flows: of octets, which few flows may have, more may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SampleSpread {
    sum: f64,
    squares: f64,
}

impl SampleSpread {
    /// Adds the flows of one page or delivery.
    pub fn add(&mut self, rows: usize) {
        let rows = rows as f64;
        self.sum += rows;
        self.squares += rows * rows;
    }

    /// Pages with equally many flows that would say as much: `(Σn)² / Σn²` of the numbers *n* of flows of each page (the
    /// effective sample size; Kish, *Survey Sampling*, 1965). 0 without flows.
    pub fn pages(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }

    /// Standard error of the number of flows that the sample stands for, as a part of it; infinite without flows. That of
    /// Horvitz and Thompson (1952) for pages that are drawn independently, without the correction for a large part of all:
    /// pages that are evenly apart have less.
    pub fn error(&self) -> f64 {
        self.pages().sqrt().recip()
    }
}

impl Archive {
    /// What `each` makes, in threads, of a list of a part of the flows that pass. The question must be a list in no order,
    /// without a limit.
    pub fn sample<T: Send + 'static>(
        &self,
        question: &FlowQuery,
        size: SampleSize,
        each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
    ) -> Result<Sample<T>, QueryError> {
        let Select::List { columns, sorting: None, limit: None } = &question.select else {
            return Err(QueryError::NeedsEngine("a part of other answers than lists of flows"));
        };
        if question.scaled {
            return Err(QueryError::NeedsEngine("scaling by sampling intervals"));
        }
        let admitted = self.admitted()?;
        let one_of = match size {
            SampleSize::OneOf(one_of) => one_of.max(1),
            SampleSize::Rows(rows_max) => self.rows_looked_at(question)?.div_ceil(rows_max.max(1)).max(1),
        };
        let columns = list_columns(columns).to_vec();
        let wanted = ScanSpec::new(question, columns.iter().copied());
        let scan = self.flows(&question.window).scan(&wanted, &self.options);
        let scan = scan.with_one_of(usize::try_from(one_of).unwrap_or(usize::MAX));
        let answer = listed(scan, columns, &self.options, each);
        Ok(Sample { answer: answer.in_turn(admitted), one_of })
    }

    /// Flows that a list of all flows of a question is likely to look at.
    fn rows_looked_at(&self, question: &FlowQuery) -> Result<u64, QueryError> {
        let rows_all = self.estimate(&question.window).rows_max;
        if question.filter == Predicate::True {
            return Ok(rows_all);
        }
        let estimate = self.estimate_filtered(&question.window, &question.filter, LIMITS)?;
        Ok(expected_rows(&estimate, rows_all))
    }

    /// Answers a question about the flows of a sample, which have passed its filter, are of its time and are scaled if it says
    /// so. Batches have their columns in the order of the table.
    pub fn ask_sample(
        &self,
        question: &FlowQuery,
        flows: impl IntoIterator<Item = Result<RecordBatch, QueryError>>,
    ) -> Result<Answer<RecordBatch>, QueryError> {
        let question =
            FlowQuery { filter: Predicate::True, window: TimeWindow::default(), scaled: false, ..question.clone() };
        let flows = flows.into_iter().map(|batch: Result<RecordBatch, QueryError>| {
            FlowBatch::try_new(batch?).map_err(|error| QueryError::Source(error.into()))
        });
        ask_batches(&question, flows, &self.options)
    }
}

/// The flows that are likely to be looked at, of `rows_all`: segments that were not looked at are taken to be as those that were.
fn expected_rows(estimate: &FilteredEstimate, rows_all: u64) -> u64 {
    let (looked_at, left) =
        (rows_all.saturating_sub(estimate.rows_unchecked), estimate.rows_max.saturating_sub(estimate.rows_unchecked));
    if looked_at == 0 {
        return estimate.rows_max;
    }
    let expected = u128::from(left) * u128::from(rows_all) / u128::from(looked_at);
    u64::try_from(expected).unwrap_or(estimate.rows_max).min(estimate.rows_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_were_not_looked_at_are_as_those_that_were() {
        let of =
            |rows_max, rows_unchecked| FilteredEstimate { rows_max, rows_unchecked, ..FilteredEstimate::default() };
        assert_eq!(expected_rows(&of(500, 0), 10_000), 500);
        // of 1,000 that were looked at 10 are left, so of all 100
        assert_eq!(expected_rows(&of(9_010, 9_000), 10_000), 100);
        assert_eq!(expected_rows(&of(10_000, 10_000), 10_000), 10_000);
        assert_eq!(expected_rows(&of(0, 0), 0), 0);
    }

    #[test]
    fn flows_of_few_pages_say_little() {
        let of = |pages: &[usize]| {
            let mut spread = SampleSpread::default();
            for rows in pages {
                spread.add(*rows);
            }
            spread
        };
        // 25 pages alike: a standard error of one in five
        let even = of(&[40; 25]);
        assert!((even.pages() - 25.0).abs() < 1e-9 && (even.error() - 0.2).abs() < 1e-9, "{even:?}");
        // pages without flows say nothing, and neither do many flows of a single one
        assert_eq!(of(&[[40; 25], [0; 25]].concat()), even);
        assert!((of(&[8000]).pages() - 1.0).abs() < 1e-9);
        // (90 + 10)² / (90² + 10²)
        assert!((of(&[90, 10]).pages() - 10_000.0 / 8200.0).abs() < 1e-9);
        assert!(of(&[]).error().is_infinite() && of(&[0]).error().is_infinite());
    }
}
