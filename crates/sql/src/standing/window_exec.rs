//! A window as a table: its rows come from a slot when the plan runs.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};

use super::slot::Place;

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
        Ok(Arc::new(WindowExec::new(schema, self.place.clone())))
    }
}

/// Gives the rows that its slot holds when it runs.
#[derive(Debug)]
struct WindowExec {
    place: Place,
    properties: Arc<PlanProperties>,
}

impl WindowExec {
    fn new(schema: SchemaRef, place: Place) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { place, properties: Arc::new(properties) }
    }
}

/// The columns of `schema` out of a batch, absent ones as nulls.
pub(crate) fn padded(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(values) => Arc::clone(values),
        None => new_null_array(field.data_type(), batch.num_rows()),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options)?)
}

impl DisplayAs for WindowExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WindowExec: window={}", self.place.relation)
    }
}

impl ExecutionPlan for WindowExec {
    fn name(&self) -> &'static str {
        "WindowExec"
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

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let batches = self.place.slot.batches(self.place.relation).into_iter();
        let padded_schema = Arc::clone(&schema);
        let rows = batches.map(move |batch| padded(&batch, &padded_schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(rows))))
    }
}
