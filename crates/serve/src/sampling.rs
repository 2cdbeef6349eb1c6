//! Whether the counts of an answer are scaled by sampling, and how many of its flows were sampled.
//!
//! An exporter that samples one packet in 1000 reports a thousandth of what another one does. Counts are as measured unless
//! a request has `scaled=true`, as with `weir query --scaled`; the answer says which, and whether it makes a difference.
//!
//! Flows are counted by their intervals in the pass over them that makes the totals. Totals of much that come from summaries
//! read no flows: then only the index of segments is asked whether any was sampled. What speaks against it is that the
//! number is not always there.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_filter::{Comparison, Operand, Predicate, Test};
use weir_flow::Column;
use weir_query::{AggregateKey, FlowQuery, Select};
use weir_sql::{FlowAnswer, Totals};

use crate::problem::{Answered, Problem};
use crate::service::Question;

/// Rows up to which flows are counted by their intervals though their totals come from summaries.
const COUNTED_ROWS_MAX: u64 = 500_000;

/// What packets and octets were multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScalingSource {
    /// Nothing: they are as measured.
    None,
    /// The sampling interval that the exporter reported; 1 where it reported none.
    Reported,
    /// The sampling interval of the table of corrections; that which the exporter reported where no line fits.
    Corrections,
}

/// Whether packets and octets are scaled by sampling, and how many flows were sampled as far as exporters report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct SamplingBody {
    /// Whether they are scaled. The filter was then applied to the scaled ones.
    pub(crate) is_scaled: bool,
    /// By what.
    pub(crate) by: ScalingSource,
    /// Whether any flow was sampled: its interval is larger than 1.
    pub(crate) has_sampled: bool,
    /// Flows that were sampled; null where they were not counted.
    pub(crate) sampled_flows: Option<u64>,
    /// Flows whose exporter reported no sampling interval; null where they were not counted.
    pub(crate) unknown_flows: Option<u64>,
}

/// What all flows of a question carried together, and how they were sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overview {
    pub(crate) totals: Totals,
    pub(crate) sampling: SamplingBody,
}

/// Flows by what their exporters report of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SamplingCounts {
    sampled: u64,
    unknown: u64,
}

impl SamplingCounts {
    /// The columns of a list of flows, and those that are counted.
    pub(crate) fn with_columns(mut columns: Vec<Column>) -> Vec<Column> {
        for column in [Column::SamplingInterval, Column::Flows] {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }

    /// Adds flows, or groups of flows of one interval.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        let column = |column: Column| batch.column_by_name(column.name());
        let intervals = column(Column::SamplingInterval).and_then(|values| values.as_primitive_opt::<UInt32Type>());
        let flows = column(Column::Flows).and_then(|values| values.as_primitive_opt::<UInt64Type>());
        // as nearly all exporters report them: every record is one flow, and all or none have an interval
        if flows.is_none_or(|flows| flows.null_count() == flows.len()) {
            let nulls = intervals.map_or(batch.num_rows(), Array::null_count);
            if nulls == batch.num_rows() {
                self.unknown = self.unknown.saturating_add(nulls as u64);
                return;
            }
            if let Some(intervals) = intervals.filter(|_| nulls == 0) {
                let sampled = intervals.values().iter().filter(|interval| **interval > 1).count();
                self.sampled = self.sampled.saturating_add(sampled as u64);
                return;
            }
        }
        for row in 0..batch.num_rows() {
            let flows = flows.filter(|flows| flows.is_valid(row)).map_or(1, |flows| flows.value(row));
            match intervals.filter(|intervals| intervals.is_valid(row)).map(|intervals| intervals.value(row)) {
                None => self.unknown = self.unknown.saturating_add(flows),
                Some(interval) if interval > 1 => self.sampled = self.sampled.saturating_add(flows),
                Some(_) => {}
            }
        }
    }

    /// Adds what was counted of other flows.
    pub(crate) fn join(&mut self, other: &Self) {
        self.sampled = self.sampled.saturating_add(other.sampled);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }
}

/// Flows by their sampling interval.
fn by_interval() -> Select {
    let keys = vec![AggregateKey::Column(Column::SamplingInterval)];
    Select::Aggregate { keys, more: Vec::new(), sorting: None, limit: None }
}

impl Question<'_> {
    /// What all flows that a question is about carried together, and how they were sampled.
    pub(crate) fn overview(&self, query: &FlowQuery) -> Answered<Overview> {
        self.check(query)?;
        if self.is_summed(query) {
            let totals = self.answers.totals(query)?;
            return Ok(Overview { totals, sampling: self.sampling(query)? });
        }
        let answer = self.answers.ask(&FlowQuery { select: by_interval(), ..query.clone() })?;
        self.overview_of(query, answer)
    }

    /// The same, with what `take` makes of the totals and of the answers to several questions about groups of these flows, in
    /// their order. The flows are read once where that is possible.
    pub(crate) fn overview_with<T>(
        &self,
        query: &FlowQuery,
        selects: &[Select],
        mut take: impl FnMut(&Totals, FlowAnswer) -> Answered<T>,
    ) -> Answered<(Overview, Vec<T>)> {
        for select in selects {
            self.check(&FlowQuery { select: select.clone(), ..query.clone() })?;
        }
        if self.is_summed(query) {
            let overview = self.overview(query)?;
            let taken = self.answers.ask_several(query, selects, |answer| take(&overview.totals, answer))?;
            return Ok((overview, taken));
        }
        let selects: Vec<Select> = std::iter::once(by_interval()).chain(selects.iter().cloned()).collect();
        // the first answer has the totals
        let mut first: Option<Overview> = None;
        let taken = self.answers.ask_several(query, &selects, |answer| -> Answered<Option<T>> {
            let Some(overview) = first else {
                first = Some(self.overview_of(query, answer)?);
                return Ok(None);
            };
            take(&overview.totals, answer).map(Some)
        })?;
        let overview = first.ok_or_else(|| Problem::internal("a question has no answer"))?;
        Ok((overview, taken.into_iter().flatten().collect()))
    }

    /// Sums up the flows of a question by their intervals.
    fn overview_of(&self, query: &FlowQuery, answer: FlowAnswer) -> Answered<Overview> {
        let (mut totals, mut counts) = (Totals::default(), SamplingCounts::default());
        for batch in answer {
            let batch = batch?;
            totals.add(&batch);
            counts.add(&batch);
        }
        Ok(Overview { totals, sampling: self.sampling_of(query, &counts) })
    }

    /// Whether a question has sampled flows, which are not counted: the index leaves out what has none.
    pub(crate) fn sampling(&self, query: &FlowQuery) -> Answered<SamplingBody> {
        let operand = Operand::Column(Column::SamplingInterval);
        let sampled = Predicate::from(Test::Number { operand, comparison: Comparison::Greater, value: 1 });
        let filter = Predicate::and([query.filter.clone(), sampled]);
        let select = Select::List { columns: vec![Column::SamplingInterval], sorting: None, limit: Some(1) };
        let mut has_sampled = false;
        for batch in self.answers.ask(&FlowQuery { filter, select, ..query.clone() })? {
            has_sampled |= batch?.num_rows() > 0;
        }
        Ok(self.sampling_body(query, has_sampled))
    }

    /// The same where they were counted.
    pub(crate) fn sampling_of(&self, query: &FlowQuery, counts: &SamplingCounts) -> SamplingBody {
        SamplingBody {
            sampled_flows: Some(counts.sampled),
            unknown_flows: Some(counts.unknown),
            ..self.sampling_body(query, counts.sampled > 0)
        }
    }

    /// The same where some flows of many were counted.
    pub(crate) fn sampling_of_some(&self, query: &FlowQuery, counts: &SamplingCounts) -> SamplingBody {
        self.sampling_body(query, counts.sampled > 0)
    }

    fn sampling_body(&self, query: &FlowQuery, has_sampled: bool) -> SamplingBody {
        let by = if !query.scaled {
            ScalingSource::None
        } else if self.service.archive.corrections().is_empty() {
            ScalingSource::Reported
        } else {
            ScalingSource::Corrections
        };
        SamplingBody { is_scaled: query.scaled, by, has_sampled, sampled_flows: None, unknown_flows: None }
    }

    /// Whether the totals of a question come from summaries, and stand for more flows than are soon read.
    fn is_summed(&self, query: &FlowQuery) -> bool {
        let archive = self.answers.archive().filter(|_| query.filter == Predicate::True && !query.scaled);
        let is_many = archive.is_some_and(|archive| archive.estimate(&query.window).rows_max > COUNTED_ROWS_MAX);
        is_many && self.view.is_whole()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, UInt32Array, UInt64Array};

    use super::*;

    #[test]
    fn flows_are_counted_by_their_intervals() {
        let intervals: ArrayRef = Arc::new(UInt32Array::from(vec![Some(1000), Some(1), None, Some(2)]));
        // a record without a number of flows is one
        let flows: ArrayRef = Arc::new(UInt64Array::from(vec![Some(7), Some(3), Some(5), None]));
        let columns = [(Column::SamplingInterval.name(), intervals), (Column::Flows.name(), flows)];
        let mut counts = SamplingCounts::default();
        counts.add(&RecordBatch::try_from_iter(columns).expect("a batch"));
        assert_eq!(counts, SamplingCounts { sampled: 8, unknown: 5 });
        let lacking: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2]));
        counts.add(&RecordBatch::try_from_iter([("bytes", lacking)]).expect("a batch"));
        assert_eq!(counts, SamplingCounts { sampled: 8, unknown: 7 });
        let intervals: ArrayRef = Arc::new(UInt32Array::from(vec![1000, 1, 2]));
        let none: ArrayRef = Arc::new(UInt64Array::from(vec![None::<u64>; 3]));
        let columns = [(Column::SamplingInterval.name(), intervals), (Column::Flows.name(), none)];
        let mut others = SamplingCounts::default();
        others.add(&RecordBatch::try_from_iter(columns).expect("a batch"));
        counts.join(&others);
        assert_eq!(counts, SamplingCounts { sampled: 10, unknown: 7 });
    }

    #[test]
    fn a_list_has_each_counted_column_once() {
        let columns = SamplingCounts::with_columns(vec![Column::Start, Column::Flows]);
        assert_eq!(columns, [Column::Start, Column::Flows, Column::SamplingInterval]);
    }
}
