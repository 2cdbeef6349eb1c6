//! Rows of the tables beside flows: books, options and counters.
//!
//! They are few, so segments are read by the Parquet library as they are, only the columns that are asked for. Partitions
//! take every so many segments, and the first of them the tail.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use datafusion::parquet::errors::ParquetError;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use weir_archive::{Segment, Snapshot};
use weir_flow::Table;
use weir_query::{Progress, QueryError};

/// The rows of some segments of a table, and of its tail.
#[derive(Debug)]
pub(crate) struct RowsExec {
    /// Keeps the files in their places.
    snapshot: Arc<Snapshot>,
    table: Table,
    segments: Vec<Segment>,
    tail: Vec<RecordBatch>,
    properties: Arc<PlanProperties>,
}

impl RowsExec {
    pub(crate) fn new(
        snapshot: &Arc<Snapshot>,
        table: Table,
        segments: Vec<Segment>,
        schema: SchemaRef,
        partitions: usize,
    ) -> Result<Self> {
        let tail = snapshot.tail(table).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.clamp(1, segments.len().max(1))),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { snapshot: Arc::clone(snapshot), table, segments, tail, properties: Arc::new(properties) })
    }

    /// The table.
    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// Segments that the table has, and those that are opened.
    pub(crate) fn segments(&self) -> (usize, usize) {
        (self.snapshot.segments(self.table).len(), self.segments.len())
    }

    /// Rows that the table has, and those of the segments and the tail that are read.
    pub(crate) fn rows(&self) -> (u64, u64) {
        let all = self.snapshot.segments(self.table).iter().map(|segment| segment.rows).sum::<u64>();
        let read = self.segments.iter().map(|segment| segment.rows).sum::<u64>();
        let tail = self.tail.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        (all + tail, read + tail)
    }

    fn count(&self, progress: &Progress) {
        let ((segments_all, segments), (rows_all, rows)) = (self.segments(), self.rows());
        progress.add_segments_all(segments_all as u64);
        progress.add_segments_pruned((segments_all - segments) as u64);
        progress.add_rows_all(rows_all);
        progress.add_rows_pruned(rows_all - rows);
    }
}

/// What a partition has not read yet.
struct RowsReader {
    schema: SchemaRef,
    segments: VecDeque<Segment>,
    tail: VecDeque<RecordBatch>,
    /// The segment that is being read.
    open: Option<(Segment, ParquetRecordBatchReader)>,
    batch_rows: usize,
    progress: Arc<Progress>,
    _snapshot: Arc<Snapshot>,
}

impl RowsReader {
    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            if let Some((segment, reader)) = &mut self.open {
                if let Some(batch) = reader.next() {
                    let batch = batch.map_err(|error| unreadable(segment, error.into()))?;
                    self.progress.add_rows_done(batch.num_rows() as u64);
                    return Ok(Some(padded(&batch, &self.schema)?));
                }
                self.open = None;
                self.progress.add_segments_done(1);
            }
            if let Some(segment) = self.segments.pop_front() {
                let reader = open(&segment, &self.schema, self.batch_rows)?;
                self.open = Some((segment, reader));
                continue;
            }
            let Some(batch) = self.tail.pop_front() else { return Ok(None) };
            self.progress.add_rows_done(batch.num_rows() as u64);
            return Ok(Some(padded(&batch, &self.schema)?));
        }
    }
}

/// The columns of a schema out of a batch, absent ones as nulls.
pub(crate) fn padded(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(values) => Arc::clone(values),
        None => new_null_array(field.data_type(), batch.num_rows()),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options)
}

fn open(segment: &Segment, schema: &SchemaRef, batch_rows: usize) -> Result<ParquetRecordBatchReader, QueryError> {
    let file = segment.open_file()?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| unreadable(segment, error))?;
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let mask = ProjectionMask::columns(builder.parquet_schema(), names);
    let reader = builder.with_projection(mask).with_batch_size(batch_rows).build();
    reader.map_err(|error| unreadable(segment, error))
}

fn unreadable(segment: &Segment, source: ParquetError) -> QueryError {
    QueryError::Parquet { path: segment.path(), source }
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowsExec: table={}, segments={}", self.table.name(), self.segments.len())
    }
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &'static str {
        "RowsExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(self.properties.eq_properties.schema())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let progress = context.session_config().get_extension::<Progress>().unwrap_or_default();
        let mut tail = VecDeque::new();
        if partition == 0 {
            self.count(&progress);
            tail.extend(self.tail.iter().cloned());
        }
        let partitions = self.properties.partitioning.partition_count();
        let reader = RowsReader {
            schema: self.schema(),
            segments: self.segments.iter().skip(partition).step_by(partitions).cloned().collect(),
            tail,
            open: None,
            batch_rows: context.session_config().batch_size(),
            progress,
            _snapshot: Arc::clone(&self.snapshot),
        };
        let batches = futures::stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next() {
                Ok(batch) => batch.map(|batch| (Ok(batch), Some(reader))),
                Err(error) => Some((Err(DataFusionError::External(Box::new(error))), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let (_, rows) = self.rows();
        let num_rows = match args.partition() {
            None => Precision::Exact(rows as usize),
            Some(_) => Precision::Absent,
        };
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.schema()) }))
    }
}
