//! The tail: batches in memory, sparse, filtered and projected like segments.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

/// What a scan takes from a table.
pub(crate) struct Wanted<'a> {
    /// Positions of the columns of the answer, in their order.
    pub(crate) projection: &'a [usize],
    /// Positions of all columns needed, those of the filters too, ascending.
    pub(crate) columns: &'a [usize],
    /// Filters, all of which a row must pass.
    pub(crate) filters: &'a [Expr],
}

/// A plan over the batches of the tail, dealt out to `partitions` partitions.
pub(crate) fn scan_tail(
    state: &dyn Session,
    schema: &SchemaRef,
    tail: &[RecordBatch],
    wanted: &Wanted<'_>,
    partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let narrow = Arc::new(schema.project(wanted.columns)?);
    let mut dealt = vec![Vec::new(); partitions.clamp(1, tail.len().max(1))];
    for (position, batch) in tail.iter().enumerate() {
        let partition = position % dealt.len();
        dealt[partition].push(pad(batch, &narrow)?);
    }
    let mut plan: Arc<dyn ExecutionPlan> = MemorySourceConfig::try_new_exec(&dealt, Arc::clone(&narrow), None)?;
    if let Some(filter) = conjunction(wanted.filters.iter().cloned()) {
        let columns = DFSchema::try_from(Arc::clone(&narrow))?;
        let predicate = state.create_physical_expr(filter, &columns)?;
        plan = Arc::new(FilterExec::try_new(predicate, plan)?);
    }
    if wanted.projection != wanted.columns {
        plan = Arc::new(ProjectionExec::try_new(projection(schema, &narrow, wanted.projection)?, plan)?);
    }
    Ok(plan)
}

fn projection(schema: &Schema, narrow: &Schema, positions: &[usize]) -> Result<Vec<ProjectionExpr>> {
    let expressions = positions.iter().map(|&position| {
        let name = schema.field(position).name();
        let column = Column::new_with_schema(name, narrow)?;
        Ok(ProjectionExpr { expr: Arc::new(column), alias: name.clone() })
    });
    expressions.collect()
}

/// The columns of `schema` out of a sparse batch, absent ones as nulls.
fn pad(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(values) => Arc::clone(values),
        None => new_null_array(field.data_type(), batch.num_rows()),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options)?)
}
