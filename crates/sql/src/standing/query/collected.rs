//! The rows of a plan that runs, as long as there is time and they are not too many.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use crate::EngineError;

/// All rows of a plan; `None` when they have more octets than this.
pub(super) async fn until(
    until: Instant,
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    octets_max: usize,
) -> Result<Option<Vec<RecordBatch>>, EngineError> {
    let mut stream = execute_stream(plan, task).map_err(EngineError::run)?;
    let (mut batches, mut octets) = (Vec::new(), 0);
    loop {
        let next = tokio::time::timeout_at(until.into(), stream.next()).await;
        let Ok(next) = next else { return Err(EngineError::AnswerTime) };
        let Some(batch) = next else { return Ok(Some(batches)) };
        let batch = batch.map_err(EngineError::run)?;
        octets += batch.get_array_memory_size();
        if octets > octets_max {
            return Ok(None);
        }
        if batch.num_rows() > 0 {
            batches.push(batch);
        }
    }
}
