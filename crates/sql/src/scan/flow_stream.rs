//! The rows of one partition of a scan of flows.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, RecordOutput,
};
use futures::Stream;
use weir_flow::{Column, FlowBatch};
use weir_query::QueryError;
use weir_query::scan::{FlowScan, PageDecoder};

use super::row_mixer::RowMixer;
use crate::Pseudonyms;
use crate::view::Images;

/// Reads one unit after the other. Between two of them the task pauses, so that a question that is cancelled ends even
/// while no row passes.
pub(super) struct FlowStream {
    scan: Arc<FlowScan>,
    /// Which units are read, when not all that come: those whose number is the first modulo the second.
    only: Option<(u64, u64)>,
    columns: Arc<[Column]>,
    schema: SchemaRef,
    /// Rows that are still wanted.
    left: usize,
    decoder: PageDecoder,
    images: Option<Images>,
    /// Mixes rows whose order would tell of addresses that are replaced.
    mixer: Option<RowMixer>,
    /// Batches of the last unit, or of several that were mixed.
    waiting: VecDeque<RecordBatch>,
    counters: Option<Counters>,
}

struct Counters {
    baseline: BaselineMetrics,
    rows_tested: Count,
}

impl FlowStream {
    pub(super) fn new(
        scan: Arc<FlowScan>,
        only: Option<(u64, u64)>,
        columns: Arc<[Column]>,
        schema: SchemaRef,
        limit: Option<usize>,
    ) -> Result<Self> {
        let decoder = PageDecoder::new().map_err(DataFusionError::IoError)?;
        let left = limit.unwrap_or(usize::MAX);
        let (images, mixer, waiting, counters) = (None, None, VecDeque::new(), None);
        Ok(Self { scan, only, columns, schema, left, decoder, images, mixer, waiting, counters })
    }

    /// Whose addresses are replaced, and whose rows `mixer` mixes.
    pub(super) fn seen_as(self, pseudonyms: &Pseudonyms, mixer: RowMixer) -> Self {
        // rows without columns are all the same
        let mixer = (!self.columns.is_empty()).then_some(mixer);
        Self { images: Some(pseudonyms.images()), mixer, ..self }
    }

    pub(super) fn with_metrics(self, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let baseline = BaselineMetrics::new(metrics, partition);
        let rows_tested = MetricBuilder::new(metrics).counter("rows_tested", partition);
        Self { counters: Some(Counters { baseline, rows_tested }), ..self }
    }

    /// Reads the next unit, or at the end takes the rows that still wait to be mixed; whether there was anything.
    fn read_unit(&mut self) -> Result<bool, QueryError> {
        let _timer = self.counters.as_ref().map(|counters| counters.baseline.elapsed_compute().timer());
        let Some(unit) = self.scan.next_unit()? else {
            let Some(mixer) = self.mixer.take() else { return Ok(false) };
            self.waiting.extend(mixer.rest()?);
            return Ok(true);
        };
        if self.only.is_some_and(|(own, all)| unit.number() % all != own) {
            return Ok(true);
        }
        let (columns, schema, waiting) = (&self.columns, &self.schema, &mut self.waiting);
        let (images, mixer) = (&mut self.images, &mut self.mixer);
        unit.read(&mut self.decoder, |batch| {
            let rows = in_schema(&batch, columns, schema, images.as_mut())?;
            if let Some(mixer) = mixer.as_mut() {
                mixer.add(rows);
            } else {
                waiting.push_back(rows);
            }
            Ok(())
        })?;
        if let Some(mixer) = &mut self.mixer {
            self.waiting.extend(mixer.half()?);
        }
        if let Some(counters) = &self.counters {
            counters.rows_tested.add(unit.rows());
        }
        Ok(true)
    }
}

/// The rows of a batch under the schema of the scan: columns that no row has, or that are hidden, are null.
fn in_schema(
    batch: &FlowBatch,
    columns: &[Column],
    schema: &SchemaRef,
    mut images: Option<&mut Images>,
) -> Result<RecordBatch, QueryError> {
    let is_replaced = images.is_some();
    let is_seen = |column: Column| !(is_replaced && Pseudonyms::hides(column));
    let values = columns.iter().zip(schema.fields()).map(|(column, field)| match batch.column(*column) {
        Some(values) if is_seen(*column) => match &mut images {
            Some(images) => images.of(*column, values),
            None => Arc::clone(values),
        },
        _ => new_null_array(field.data_type(), batch.rows()),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), values.collect(), &options)?)
}

impl Stream for FlowStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let Some(batch) = self.waiting.pop_front() {
            let batch = batch.slice(0, batch.num_rows().min(self.left));
            self.left -= batch.num_rows();
            if let Some(counters) = &self.counters {
                (&batch).record_output(&counters.baseline);
            }
            return Poll::Ready(Some(Ok(batch)));
        }
        match self.read_unit() {
            Ok(false) => Poll::Ready(None),
            Ok(true) if self.waiting.is_empty() => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(true) => self.poll_next(context),
            Err(error) => {
                self.left = 0;
                Poll::Ready(Some(Err(DataFusionError::External(Box::new(error)))))
            }
        }
    }
}

impl RecordBatchStream for FlowStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
