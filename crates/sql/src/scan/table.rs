//! The tables of the archive as `DataFusion` sees them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use weir_archive::{Segment, Snapshot};
use weir_filter::Predicate;
use weir_flow::{Column, Table};

use super::predicate::{all, predicate_of};
use super::segments::{SegmentTimes, time_bound};
use super::{FlowScanExec, RowsExec};
use crate::FlowView;

/// A table at one position of its archive.
#[derive(Debug)]
pub(crate) struct ArchiveTable {
    table: Table,
    schema: SchemaRef,
    snapshot: Arc<Snapshot>,
    /// Whether scans filter. Without, they give every row and the engine filters, which is for checking answers.
    pruning: bool,
    view: FlowView,
}

/// What scans of a table do with a condition.
pub(crate) fn pushdown_of(table: Table, filter: &Expr) -> TableProviderFilterPushDown {
    match table {
        Table::Flows if predicate_of(filter).is_some() => TableProviderFilterPushDown::Exact,
        Table::Flows => TableProviderFilterPushDown::Unsupported,
        _ if time_bound(filter).is_some() => TableProviderFilterPushDown::Inexact,
        _ => TableProviderFilterPushDown::Unsupported,
    }
}

impl ArchiveTable {
    pub(crate) fn new(table: Table, snapshot: Arc<Snapshot>, pruning: bool) -> Self {
        Self { table, schema: table.schema(), snapshot, pruning, view: FlowView::default() }
    }

    /// The same, of whose flows only the view is seen.
    pub(crate) fn seen_through(self, view: FlowView) -> Self {
        Self { view, ..self }
    }

    fn flows(
        &self,
        projection: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
        partitions: usize,
    ) -> Result<FlowScanExec> {
        let unfit = |filter: &Expr| DataFusionError::Internal(format!("'{filter}' is no filter of flows"));
        let filters = filters.iter().map(|filter| predicate_of(filter).ok_or_else(|| unfit(filter)));
        let predicate = self.view.narrowed(&all(filters.collect::<Result<Vec<_>>>()?));
        let columns = projection.iter().map(|position| Column::ALL[*position]).collect::<Vec<_>>();
        let kept = self.kept(|times| times.may_pass(&predicate));
        let has_tail = predicate != Predicate::False;
        let scan = FlowScanExec::new(&self.snapshot, kept, has_tail, predicate, columns, partitions);
        Ok(scan.seen_as(self.view.pseudonyms.clone()).limited(limit))
    }

    /// The segments whose times are possible.
    fn kept(&self, is_possible: impl Fn(&SegmentTimes) -> bool) -> Vec<Segment> {
        let segments = self.snapshot.segments(self.table).iter();
        segments.filter(|segment| is_possible(&SegmentTimes::of(segment))).cloned().collect()
    }
}

#[async_trait]
impl TableProvider for ArchiveTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let decide = |filter: &&Expr| {
            if self.pruning { pushdown_of(self.table, filter) } else { TableProviderFilterPushDown::Unsupported }
        };
        Ok(filters.iter().map(decide).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let every: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&every);
        let partitions = state.config().target_partitions();
        if self.table == Table::Flows {
            return Ok(Arc::new(self.flows(projection, filters, limit, partitions)?));
        }
        let kept = self.kept(|times| times.may_have(filters));
        let schema = Arc::new(self.schema.project(projection)?);
        Ok(Arc::new(RowsExec::new(&self.snapshot, self.table, kept, schema, partitions)?))
    }
}
