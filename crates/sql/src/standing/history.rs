//! The archive as a standing question sees it: at the snapshot that its slot holds.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use weir_flow::{Column, Table};

use super::key_rows::KeyRows;
use super::keyed_scan::KeyedScan;
use super::slot::Slot;
use crate::scan::{ArchiveTable, pushdown_of};

/// A table of the archive, at the snapshot of a slot.
#[derive(Debug)]
pub(crate) struct HistoryTable {
    table: Table,
    slot: Arc<Slot>,
    rows: Arc<KeyRows>,
}

impl HistoryTable {
    pub(crate) fn new(table: Table, slot: Arc<Slot>, rows: Arc<KeyRows>) -> Self {
        Self { table, slot, rows }
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }
}

#[async_trait]
impl TableProvider for HistoryTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown_of(self.table, filter)).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self.slot.held().history.clone();
        let Some(snapshot) = snapshot else {
            return Err(DataFusionError::Plan("the statement asks history, and there is no archive".to_owned()));
        };
        if self.table == Table::Flows && limit.is_none() {
            let columns = match projection {
                Some(positions) => positions.iter().map(|position| Column::ALL[*position]).collect(),
                None => Column::ALL.to_vec(),
            };
            if let Some(scan) = KeyedScan::of(columns, filters)
                && let Some(plan) = self.rows.scan(&snapshot, &scan, state).await?
            {
                return Ok(plan);
            }
        }
        ArchiveTable::new(self.table, snapshot, true).scan(state, projection, filters, limit).await
    }
}

/// A table that only HISTORY and the window functions may read: the name alone says neither which window nor how much
/// history.
#[derive(Debug)]
pub(crate) struct BaseTable(pub(crate) Table);

#[async_trait]
impl TableProvider for BaseTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let name = self.0.name();
        Err(DataFusionError::Plan(format!(
            "a standing question reads a window or history of '{name}', as in TUMBLE({name}, received, INTERVAL '1' MINUTE) or \
             HISTORY({name}, INTERVAL '7' DAY)"
        )))
    }
}
