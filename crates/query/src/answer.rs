//! An answer on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::EngineError;

/// Batches that may wait between the engine and whoever takes the answer.
const BATCHES_WAITING_MAX: usize = 4;

/// An answer on its way: batches come while the engine still works on the rest.
///
/// It is an iterator for synchronous callers and becomes a stream for asynchronous ones. The engine works in its own threads,
/// so that writing one batch and making the next overlap. Dropping the answer cancels the question.
#[derive(Debug)]
pub struct Answer {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch, EngineError>>,
}

impl Answer {
    /// Drives `stream` on the engine's runtime.
    pub(crate) fn spawn(runtime: &Handle, mut stream: SendableRecordBatchStream) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let schema = stream.schema();
        runtime.spawn(async move {
            loop {
                // The receiver may go while the engine is far from the next batch; without watching for it, a
                // cancelled question would run on until it had something to say.
                let batch = tokio::select! {
                    batch = stream.next() => batch,
                    () = sender.closed() => return,
                };
                let Some(batch) = batch else { return };
                let batch = batch.map_err(EngineError::run);
                let is_last = batch.is_err();
                if sender.send(batch).await.is_err() || is_last {
                    return;
                }
            }
        });
        Self { schema, batches }
    }

    /// Columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The answer for asynchronous callers.
    pub fn into_stream(self) -> AnswerStream {
        AnswerStream(self)
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, EngineError>;

    /// Waits for the next batch.
    ///
    /// # Panics
    /// Within an asynchronous task, which must take the answer as a stream.
    fn next(&mut self) -> Option<Self::Item> {
        self.batches.blocking_recv()
    }
}

/// An answer on its way to an asynchronous caller.
#[derive(Debug)]
pub struct AnswerStream(Answer);

impl AnswerStream {
    /// Columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }
}

impl Stream for AnswerStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.batches.poll_recv(context)
    }
}
