//! Which flows a source keeps: those that a filter takes, before anything else sees the others.
//!
//! The transform `filter` does the same later in a chain. This one has the books at hand, so what it leaves out is
//! accounted for under `records_filtered`, exporter by exporter, and an answer over the archive can tell dropped on
//! purpose from lost.

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use weir_chain::{ComponentContext, ComponentError, Counter, OptionError};
use weir_filter::Predicate;
use weir_flow::books::filtered_rows;
use weir_flow::{BooksBatch, Counter as BooksCounter, Delivery, FlowBatch};

use crate::filter_error::option_error;

/// The flows that a filter takes, or all.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowFilter(Option<Predicate>);

impl FlowFilter {
    /// The filter of an option; without a text all flows pass.
    pub(crate) fn configure(text: Option<&str>, key: &'static str) -> Result<Self, OptionError> {
        let parse = |text| weir_filter::parse(text).map_err(|error| option_error(key, text, &error));
        text.filter(|text| !text.is_empty()).map(parse).transpose().map(Self)
    }

    /// The delivery without the flows that the filter does not take; its books say how many.
    pub(crate) fn apply(&self, delivery: Delivery, filtered: &Counter) -> Result<Delivery, ComponentError> {
        let (Some(predicate), Some(flows)) = (&self.0, &delivery.flows) else { return Ok(delivery) };
        let mask = predicate.mask(flows);
        let dropped = flows.rows() - mask.true_count();
        if dropped == 0 {
            return Ok(delivery);
        }
        let part = |mask: &BooleanArray| -> Result<FlowBatch, ArrowError> {
            let rows = filter_record_batch(flows.record_batch(), mask)?;
            FlowBatch::try_new(rows).map_err(|error| ArrowError::SchemaError(error.to_string()))
        };
        let failed = |error| ComponentError::caused("flows cannot be filtered", error);
        let kept = part(&mask).map_err(failed)?;
        let others = arrow::compute::not(&mask).and_then(|others| part(&others)).map_err(failed)?;
        let lines = BooksBatch::from_rows(&filtered_rows(&others));
        let mut side_tables = delivery.side_tables;
        side_tables.books = Some(match side_tables.books {
            Some(books) => books.followed_by(&lines),
            None => lines,
        });
        filtered.add(dropped as u64);
        Ok(Delivery { flows: (kept.rows() > 0).then_some(kept), side_tables })
    }
}

/// The counter of flows left out.
pub(crate) fn filtered_counter(context: &ComponentContext) -> Counter {
    context.counters.counter(BooksCounter::RecordsFiltered.name())
}
