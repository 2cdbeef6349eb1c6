//! Reports of watches as the table `reports`.
//!
//! The journal is read when a question runs, a batch at a time, from its begin to its end. It has a limit, and no index: a question
//! takes seconds when the journal is as long as it may be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use weir_reports::table::{ReportRows, TableError, schema};

/// The table `reports`.
#[derive(Debug)]
pub(crate) struct ReportsTable {
    journal: PathBuf,
    schema: SchemaRef,
}

impl ReportsTable {
    pub(crate) fn new(journal: &Path) -> Self {
        Self { journal: journal.to_owned(), schema: schema() }
    }
}

#[async_trait]
impl TableProvider for ReportsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let part = Arc::new(ReportsPart { journal: self.journal.clone(), columns, schema: Arc::clone(&schema) });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![part], None, None, false, None)?))
    }
}

/// Reads the journal when it runs.
#[derive(Debug)]
struct ReportsPart {
    journal: PathBuf,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for ReportsPart {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let external = |error: TableError| DataFusionError::External(Box::new(error));
        let rows: Box<dyn Iterator<Item = Result<_>> + Send> = match ReportRows::read(&self.journal, &self.columns) {
            Ok(rows) => Box::new(rows.map(move |batch| batch.map_err(external))),
            Err(error) => Box::new(std::iter::once(Err(external(error)))),
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(rows)))
    }
}
