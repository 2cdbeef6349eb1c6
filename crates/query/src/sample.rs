//! A part of the flows, drawn evenly: for a picture that has to be there before an exact answer can be.
//!
//! Of the pages that may have flows of a question one of every so many is read, over all segments, and of the deliveries in the
//! tail. Flows of a segment lie by service and host, so pages that are evenly apart have of each of them in proportion; a span of
//! time is no part of a segment that can be read by itself, once segments are merged. What speaks against it is that all flows of
//! a page are taken or none: of what is in few pages a sample has much or nothing.

use std::time::Duration;

use arrow::array::RecordBatch;
use weir_filter::Predicate;
use weir_flow::FlowBatch;

use crate::archive::listed;
use crate::list::list_columns;
use crate::scan::Wanted;
use crate::{
    Answer, Archive, EstimateLimits, FilteredEstimate, FlowQuery, QueryError, Select, TimeWindow, ask_batches,
};

/// What it may cost to find out how many flows may pass a filter.
const LIMITS: EstimateLimits = EstimateLimits { indexes_max: 400, time_max: Duration::from_millis(50) };

/// A part of the flows of a question.
pub struct Sample {
    /// The flows, in the order of the archive.
    pub answer: Answer<RecordBatch>,
    /// Of so many pages one was read: each flow stands for so many. 1 when all flows are there.
    pub one_of: u64,
}

impl Archive {
    /// A list of a part of the flows that pass, for which about `rows_max` flows are read at most. The question must be a list
    /// in no order, without a limit.
    pub fn sample(&self, question: &FlowQuery, rows_max: u64) -> Result<Sample, QueryError> {
        let Select::List { columns, sorting: None, limit: None } = &question.select else {
            return Err(QueryError::NeedsEngine("a part of other answers than lists of flows"));
        };
        if question.scaled {
            return Err(QueryError::NeedsEngine("scaling by sampling intervals"));
        }
        let admitted = self.admitted()?;
        let rows = match &question.filter {
            Predicate::True => self.estimate(&question.window).rows_max,
            filter => {
                let estimate = self.estimate_filtered(&question.window, filter, LIMITS)?;
                expected_rows(&estimate, self.estimate(&question.window).rows_max)
            }
        };
        let one_of = rows.div_ceil(rows_max.max(1)).max(1);
        let columns = list_columns(columns).to_vec();
        let wanted = Wanted::new(question, columns.iter().copied());
        let scan = self.flows(&question.window).scan(&wanted, &self.options);
        let scan = scan.with_one_of(usize::try_from(one_of).unwrap_or(usize::MAX));
        let answer = listed(scan, columns, &self.options, |batch| batch);
        Ok(Sample { answer: answer.in_turn(admitted), one_of })
    }

    /// Answers a question about the flows of a sample, which have passed its filter and are of its time.
    pub fn ask_sample(&self, question: &FlowQuery, sample: Sample) -> Result<Answer<RecordBatch>, QueryError> {
        let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), ..question.clone() };
        let flows = |batch: Result<RecordBatch, QueryError>| {
            FlowBatch::try_new(batch?).map_err(|error| QueryError::Source(error.into()))
        };
        ask_batches(&question, sample.answer.map(flows), &self.options)
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
}
