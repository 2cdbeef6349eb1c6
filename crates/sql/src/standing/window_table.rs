//! A window as a table: its rows come from a slot when the plan runs.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::slot::Place;
use crate::scan::padded;

/// A window of the live stream.
#[derive(Debug)]
pub(crate) struct WindowTable {
    schema: SchemaRef,
    place: Place,
}

impl WindowTable {
    pub(crate) fn new(schema: SchemaRef, place: Place) -> Self {
        Self { schema, place }
    }

    /// Which window relation of its statement it is.
    pub(crate) fn relation(&self) -> usize {
        self.place.relation
    }
}

#[async_trait]
impl TableProvider for WindowTable {
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
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let stream = Arc::new(WindowStream { schema: Arc::clone(&schema), place: self.place.clone() });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![stream], None, None, false, None)?))
    }
}

/// Gives the rows that its slot holds when it runs.
#[derive(Debug)]
struct WindowStream {
    schema: SchemaRef,
    place: Place,
}

impl PartitionStream for WindowStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.place.slot.batches(self.place.relation).into_iter();
        let schema = Arc::clone(&self.schema);
        let rows = batches.map(move |batch| Ok(padded(&batch, &schema)?));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(rows)))
    }
}
