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
use crate::{Answer, Archive, EstimateLimits, FlowQuery, QueryError, Select, TimeWindow, ask_batches};

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
            filter => self.estimate_filtered(&question.window, filter, LIMITS)?.rows_max,
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
