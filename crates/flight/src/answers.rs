//! Answers that are being computed and sent.
//!
//! A question works in its own thread and puts batches into a short queue, which the call reads as fast as HTTP/2 lets it send.
//! Dropping the call, which happens when the client leaves or cancels, cancels the question.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow_flight::error::FlightError;
use futures::{FutureExt, Stream};
use jiff::tz::TimeZone;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::Status;
use weir_sql::service::check_whole;
use weir_sql::{
    AnswerSender, Asker, Engine, ParameterValue, Progress, QueryControl, Question, Reason, Refusal, TableDescription,
};

use crate::counts::FlightCounts;
use crate::errors::status;

/// Batches in the queue, at most.
const BATCHES_WAITING_MAX: usize = 2;

/// Running answers by user and handle, for requests to cancel.
pub(crate) type RunningAnswers = Arc<Mutex<ProgressByHandle>>;

type ProgressByHandle = HashMap<(String, Vec<u8>), Arc<Progress>>;

fn locked(running: &RunningAnswers) -> MutexGuard<'_, ProgressByHandle> {
    // every step under the lock leaves whole values behind
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels an answer of a user; false when there is none of that handle.
pub(crate) fn cancel(running: &RunningAnswers, user: &str, handle: &[u8]) -> bool {
    let found = locked(running).get(&(user.to_owned(), handle.to_vec())).cloned();
    found.inspect(|progress| progress.stop()).is_some()
}

fn question(text: String) -> Question {
    Question { text, zone: TimeZone::UTC, time_max: None }
}

/// What the columns of a statement and the types of its parameters are.
pub(crate) async fn describe(asker: &Arc<dyn Asker>, text: &str) -> Result<(SchemaRef, Vec<FieldRef>), Refusal> {
    let statement = text.to_owned();
    let described = with_engine(asker, format!("flight describe {text}"), move |engine, control| {
        let description = engine.describe_on(&statement, &[], control)?;
        Ok((description.columns, description.parameters))
    });
    described.await
}

/// The tables that a user sees.
pub(crate) async fn tables(asker: &Arc<dyn Asker>) -> Result<Vec<TableDescription>, Refusal> {
    with_engine(asker, "flight tables".to_owned(), |engine, _| Ok(engine.tables())).await
}

async fn with_engine<T: Send + 'static>(
    asker: &Arc<dyn Asker>,
    text: String,
    work: impl FnOnce(&Engine, &QueryControl) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let (sender, given) = tokio::sync::oneshot::channel();
    let work = move |engine: &Engine, control: &QueryControl| {
        // the caller may have gone
        let _ = sender.send(work(engine, control)?);
        Ok(())
    };
    asker.ask(question(text), Box::new(work)).await?;
    given.await.map_err(|_| Refusal::new(Reason::Internal, "the question gave nothing"))
}

/// A running answer.
pub(crate) struct Answer {
    batches: mpsc::Receiver<RecordBatch>,
    task: JoinHandle<Result<(), Refusal>>,
    counts: Arc<FlightCounts>,
    rows_left: u64,
    is_ended: bool,
    _listed: Listed,
}

/// The entry of an answer in the list of those that may be cancelled, until it ends.
struct Listed {
    running: RunningAnswers,
    key: (String, Vec<u8>),
}

impl Drop for Listed {
    fn drop(&mut self) {
        locked(&self.running).remove(&self.key);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A statement to answer.
pub(crate) struct Statement {
    /// SQL.
    pub(crate) text: String,
    /// Values of its parameters.
    pub(crate) values: Vec<ParameterValue>,
    /// The handle by which a request to cancel names it.
    pub(crate) handle: Vec<u8>,
    /// Rows of the answer, at most.
    pub(crate) rows_max: u64,
}

impl Answer {
    /// Begins to answer a statement.
    pub(crate) fn start(
        asker: &Arc<dyn Asker>,
        statement: Statement,
        running: &RunningAnswers,
        counts: &Arc<FlightCounts>,
    ) -> Self {
        let Statement { text, values, handle, rows_max } = statement;
        counts.statements.add_one();
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let runtime = Handle::current();
        let key = (asker.name().to_owned(), handle);
        let (list, listed) = (Arc::clone(running), key.clone());
        let asked = question(format!("flight {text}"));
        let work = move |engine: &Engine, control: &QueryControl| {
            locked(&list).insert(listed, Arc::clone(&control.progress));
            let sender = AnswerSender::new(sender, runtime, control);
            for batch in engine.sql_with(&text, &values, control)? {
                sender.send(batch?)?;
            }
            check_whole(control)
        };
        let task = tokio::spawn(asker.ask(asked, Box::new(work)));
        let listed = Listed { running: Arc::clone(running), key };
        Self { batches, task, counts: Arc::clone(counts), rows_left: rows_max, is_ended: false, _listed: listed }
    }

    fn fail(&mut self, refusal: &Refusal) -> FlightError {
        self.is_ended = true;
        self.counts.statements_failed.add_one();
        FlightError::Tonic(Box::new(status(refusal)))
    }
}

impl Stream for Answer {
    type Item = Result<RecordBatch, FlightError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(batch) = self.batches.poll_recv(context) else { return Poll::Pending };
        if let Some(batch) = batch {
            let rows = batch.num_rows() as u64;
            let Some(left) = self.rows_left.checked_sub(rows) else {
                self.counts.answers_cut.add_one();
                let refusal = Refusal::new(Reason::Limit, "the answer has more rows than it may");
                let refusal = refusal.with_hint("write LIMIT, or raise the option rows_max");
                return Poll::Ready(Some(Err(self.fail(&refusal))));
            };
            self.rows_left = left;
            self.counts.rows.add(rows);
            return Poll::Ready(Some(Ok(batch)));
        }
        // how it ended
        let Poll::Ready(ended) = self.task.poll_unpin(context) else { return Poll::Pending };
        let ended =
            ended.unwrap_or_else(|_| Err(Refusal::new(Reason::Internal, "the question ended without an answer")));
        match ended {
            Ok(()) => {
                self.is_ended = true;
                Poll::Ready(None)
            }
            Err(refusal) => Poll::Ready(Some(Err(self.fail(&refusal)))),
        }
    }
}

/// A stream of one batch that is there.
pub(crate) fn one(batch: Result<RecordBatch, FlightError>) -> impl Stream<Item = Result<RecordBatch, FlightError>> {
    futures::stream::iter([batch])
}

/// Why an answer fails as the status of its call.
pub(crate) fn of_flight(error: FlightError) -> Status {
    Status::from(error)
}
