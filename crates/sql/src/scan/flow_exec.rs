//! A scan of flows as a step of a plan.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use weir_archive::{Segment, Snapshot};
use weir_filter::Predicate;
use weir_flow::schema::field;
use weir_flow::{Column, Table};
use weir_query::scan::{FlowScan, ScanSpec};
use weir_query::{FlowSources, Progress, TimeWindow};

use super::flow_stream::FlowStream;
use super::row_mixer::RowMixer;
use crate::Pseudonyms;

/// Rows that are worth a partition of their own.
const PARTITION_ROWS_MIN: u64 = 1 << 16;

/// How partitions divide the units of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// All are of one process: each takes the next unit of one scan.
    Queue,
    /// Each may be in a process of its own: it scans by itself and reads the units whose number, modulo the number of
    /// partitions, is its own. Units and their numbers are the same in every process.
    Numbers,
}

/// The flows of some segments, and of the tail, that pass a filter.
///
/// Every filter is exact; rows come in no particular order. With a limit, each partition ends after as many rows.
#[derive(Debug)]
pub struct FlowScanExec {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) segments: Arc<[Segment]>,
    pub(super) has_tail: bool,
    pub(super) predicate: Predicate,
    pub(super) columns: Arc<[Column]>,
    pub(super) limit: Option<usize>,
    /// What addresses are replaced by, in what is handed on. The order of rows is random then: that of the archive is by addresses.
    pub(super) pseudonyms: Option<Arc<Pseudonyms>>,
    pub(super) sharing: Sharing,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What the partitions share, begun by the first that is executed.
    queue: Mutex<Option<Arc<FlowScan>>>,
}

impl FlowScanExec {
    pub(crate) fn new(
        snapshot: &Arc<Snapshot>,
        segments: Vec<Segment>,
        has_tail: bool,
        predicate: Predicate,
        columns: Vec<Column>,
        partitions: usize,
    ) -> Self {
        let has_tail = has_tail && !snapshot.tail_frames().is_empty();
        let rows = rows_of(snapshot, &segments, has_tail);
        let partitions = partitions.clamp(1, (rows / PARTITION_ROWS_MIN).max(1) as usize);
        let schema = Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            snapshot: Arc::clone(snapshot),
            segments: segments.into(),
            has_tail,
            predicate,
            columns: columns.into(),
            limit: None,
            pseudonyms: None,
            sharing: Sharing::Queue,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            queue: Mutex::default(),
        }
    }

    /// As many partitions as are said, each of which may be executed in a process of its own.
    pub(super) fn divided(self, partitions: usize) -> Self {
        let properties = PlanProperties::clone(&self.properties);
        let properties = properties.with_partitioning(Partitioning::UnknownPartitioning(partitions.max(1)));
        Self { sharing: Sharing::Numbers, properties: Arc::new(properties), ..self }
    }

    /// Of which some rows are enough.
    pub(crate) fn limited(self, limit: Option<usize>) -> Self {
        Self { limit, ..self }
    }

    /// Whose addresses are replaced.
    pub(super) fn seen_as(self, pseudonyms: Option<Arc<Pseudonyms>>) -> Self {
        Self { pseudonyms, ..self }
    }

    /// The same scan, not begun.
    fn again(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            segments: Arc::clone(&self.segments),
            has_tail: self.has_tail,
            predicate: self.predicate.clone(),
            columns: Arc::clone(&self.columns),
            limit: self.limit,
            pseudonyms: self.pseudonyms.clone(),
            sharing: self.sharing,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            queue: Mutex::default(),
        }
    }

    pub(super) fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// Segments that the table has, and those that are opened unless their indexes say that it is not necessary.
    pub(crate) fn segments(&self) -> (usize, usize) {
        (self.snapshot.segments(Table::Flows).len(), self.segments.len())
    }

    /// Rows that the table has, and those of the segments and the tail that are read.
    pub(crate) fn rows(&self) -> (u64, u64) {
        (self.snapshot.flows(), rows_of(&self.snapshot, &self.segments, self.has_tail))
    }

    /// First and last time of the flows in the segments that are opened, in milliseconds; `None` when nothing says.
    pub(crate) fn times_ms(&self) -> Option<(i64, i64)> {
        let ranges = self.segments.iter().filter_map(|segment| segment.time_range_ms);
        ranges.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
    }

    /// Whether flows that are in no segment yet are read.
    pub(crate) fn has_tail(&self) -> bool {
        self.has_tail
    }

    /// The filter, when there is one.
    pub(crate) fn filter(&self) -> Option<&Predicate> {
        Some(&self.predicate).filter(|predicate| **predicate != Predicate::True)
    }

    fn scan(&self, progress: &Arc<Progress>) -> Arc<FlowScan> {
        let columns = self.read_columns();
        let segments = self.segments.to_vec();
        let sources = FlowSources::of_segments(&self.snapshot, segments, self.has_tail);
        let spec = ScanSpec::of(self.predicate.clone(), &TimeWindow::default(), columns);
        let scan = FlowScan::of(&sources, spec, progress);
        // scans of several processes, which must agree on the numbers of units, have no pseudonyms
        Arc::new(if self.pseudonyms.is_some() { scan.in_random_order() } else { scan })
    }

    /// The columns that are read: what is hidden stays where it is.
    pub(crate) fn read_columns(&self) -> impl Iterator<Item = Column> + '_ {
        let is_hidden = |column: Column| self.pseudonyms.is_some() && Pseudonyms::hides(column);
        self.columns.iter().copied().filter(move |column| !is_hidden(*column))
    }

    fn queue(&self) -> MutexGuard<'_, Option<Arc<FlowScan>>> {
        // the one step under the lock leaves whole values behind
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scan that a partition takes units of.
    fn scan_of_partition(&self, partition: usize, progress: &Arc<Progress>) -> Arc<FlowScan> {
        if self.sharing == Sharing::Numbers {
            if partition == 0 {
                self.count(progress);
            }
            // what others plan too is not counted again
            return self.scan(progress);
        }
        let mut queue = self.queue();
        if let Some(scan) = &*queue {
            return Arc::clone(scan);
        }
        self.count(progress);
        let scan = self.scan(progress);
        *queue = Some(Arc::clone(&scan));
        scan
    }

    /// Counts the table, and what of it is not opened.
    fn count(&self, progress: &Progress) {
        let ((segments_all, segments), (rows_all, rows)) = (self.segments(), self.rows());
        progress.add_segments_all(segments_all as u64);
        progress.add_segments_pruned((segments_all - segments) as u64);
        progress.add_rows_all(rows_all);
        progress.add_rows_pruned(rows_all - rows);
        progress.add_octets_all(self.snapshot.segments(Table::Flows).iter().map(|segment| segment.octets).sum());
    }
}

fn rows_of(snapshot: &Snapshot, segments: &[Segment], has_tail: bool) -> u64 {
    let sealed: u64 = segments.iter().map(|segment| segment.rows).sum();
    sealed + if has_tail { snapshot.flows_unsealed() } else { 0 }
}

impl DisplayAs for FlowScanExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, segments) = self.segments();
        write!(f, "FlowScanExec: segments={segments}, tail={}", self.has_tail)?;
        let columns: Vec<_> = self.columns.iter().map(|column| column.name()).collect();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        if let Some(filter) = self.filter() {
            write!(f, ", filter={filter}")?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl ExecutionPlan for FlowScanExec {
    fn name(&self) -> &'static str {
        "FlowScanExec"
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

    /// A scan that is executed again begins anew.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.again()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let progress = context.session_config().get_extension::<Progress>().unwrap_or_default();
        let scan = self.scan_of_partition(partition, &progress);
        let only = (self.sharing == Sharing::Numbers).then(|| (partition as u64, self.partitions() as u64));
        let stream = FlowStream::new(scan, only, Arc::clone(&self.columns), self.schema(), self.limit)?;
        let stream = match self.pseudonyms.as_deref() {
            Some(pseudonyms) => stream.seen_as(pseudonyms, RowMixer::new(&context, partition, self.partitions())),
            None => stream,
        };
        Ok(Box::pin(stream.with_metrics(&self.metrics, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let (_, rows) = self.rows();
        let rows = self.limit.map_or(rows as usize, |limit| limit.min(rows as usize));
        let is_exact = self.filter().is_none() && self.limit.is_none();
        let num_rows = match args.partition() {
            None if is_exact => Precision::Exact(rows),
            None => Precision::Inexact(rows),
            Some(_) => Precision::Inexact(rows / self.partitions()),
        };
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.schema()) }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.again().limited(limit)))
    }
}
