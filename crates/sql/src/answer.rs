//! An answer on its way.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use futures::task::AtomicWaker;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;

use crate::EngineError;
use crate::control::Watch;
use crate::threads::{LOOK_EVERY, QuestionThreads, panic_text};

/// Batches that may wait between the engine and the reader of the answer.
const BATCHES_WAITING_MAX: usize = 4;

/// An answer on its way: batches come while the engine still works on the rest.
///
/// It is an iterator for synchronous callers and becomes a stream for asynchronous ones. The engine works in its own threads,
/// so that writing one batch and making the next overlap. Dropping the answer cancels the question.
///
/// An answer that ends without an error is whole: when the engine panics or goes away before the last batch, the
/// answer ends with an error.
#[derive(Debug)]
pub struct Answer {
    schema: SchemaRef,
    batches: mpsc::Receiver<Message>,
    watch: Watch,
    threads: Arc<QuestionThreads>,
    is_ended: bool,
}

/// What the engine says: a batch, why there will be no more, or (`None`) that the answer is whole.
type Message = Option<Result<RecordBatch, EngineError>>;

/// Sends the batches of `stream` until its end, its first error, until the reader is gone, or until it must end.
async fn drive(stream: &mut SendableRecordBatchStream, sender: &mpsc::Sender<Message>, watch: &Watch) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        // The receiver may go while the engine is far from the next batch; without watching for it, a
        // cancelled question would run on until it had something to say.
        let batch = tokio::select! {
            batch = stream.next() => batch.map(|batch| {
                // a scan that was stopped fails too
                batch.map_err(|error| watch.verdict().unwrap_or_else(|| EngineError::run(error)))
            }),
            () = sender.closed() => return,
            error = verdict(watch, &mut looks) => Some(Err(error)),
        };
        let is_last = !matches!(batch, Some(Ok(_)));
        if sender.send(batch).await.is_err() || is_last {
            return;
        }
    }
}

/// Waits until the question must end, and says why.
async fn verdict(watch: &Watch, looks: &mut tokio::time::Interval) -> EngineError {
    loop {
        looks.tick().await;
        if let Some(error) = watch.verdict() {
            return error;
        }
    }
}

/// Wakes a thread that waits for a batch.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Answer {
    /// Drives `stream` in the threads of its question.
    pub(crate) fn spawn(threads: Arc<QuestionThreads>, mut stream: SendableRecordBatchStream, watch: Watch) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let schema = stream.schema();
        let driven_watch = watch.clone();
        let answer = Self { schema, batches, watch, threads, is_ended: false };
        // without threads, the answer says that they were stopped
        let Some(handle) = answer.threads.handle() else { return answer };
        handle.spawn(async move {
            // A segment with spoiled octets can make its decoder panic; the stream is not touched again after that.
            let driven = AssertUnwindSafe(drive(&mut stream, &sender, &driven_watch)).catch_unwind().await;
            if let Err(panic) = driven {
                // An error here means that the reader of the answer is gone.
                let _ = sender.send(Some(Err(EngineError::Panicked(panic_text(&*panic))))).await;
            }
        });
        answer
    }

    /// Why the question must end now, if it must; its threads are ended then.
    fn end_by_verdict(&mut self) -> Option<EngineError> {
        let error = self.watch.verdict().filter(|_| !self.is_ended)?;
        self.batches.close();
        self.threads.end();
        self.is_ended = true;
        Some(error)
    }

    /// The item that a message stands for; `None` is a channel that closed.
    fn item(&mut self, message: Option<Message>) -> Option<Result<RecordBatch, EngineError>> {
        let item = if self.is_ended { None } else { message.unwrap_or(Some(Err(EngineError::Stopped))) };
        self.is_ended = !matches!(item, Some(Ok(_)));
        item
    }

    /// Columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The answer for asynchronous callers.
    ///
    /// A thread looks at the control of the query, as the wait of a synchronous caller does.
    pub fn into_stream(self) -> AnswerStream {
        let waker = Arc::new(AtomicWaker::new());
        let (watched, watch) = (Arc::downgrade(&waker), self.watch.clone());
        let look = move || {
            while let Some(waker) = watched.upgrade() {
                if watch.verdict().is_some() {
                    waker.wake();
                    return;
                }
                drop(waker);
                thread::sleep(LOOK_EVERY);
            }
        };
        // without it, the threads of the question look at the limits whenever they are not busy
        let _ = thread::Builder::new().name("query-watch".to_owned()).spawn(look);
        AnswerStream { answer: self, waker }
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, EngineError>;

    /// Waits for the next batch. Must not be called from an asynchronous task, which must take the answer as a stream.
    ///
    /// The wait looks at the control of the query itself: when every thread of the engine sorts or hashes, none of
    /// them may be there to look.
    fn next(&mut self) -> Option<Self::Item> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Some(error) = self.end_by_verdict() {
                return Some(Err(error));
            }
            if let Poll::Ready(message) = self.batches.poll_recv(&mut context) {
                return self.item(message);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
    }
}

/// An answer on its way to an asynchronous caller.
#[derive(Debug)]
pub struct AnswerStream {
    answer: Answer,
    waker: Arc<AtomicWaker>,
}

impl AnswerStream {
    /// Columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        &self.answer.schema
    }
}

impl Stream for AnswerStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.waker.register(context.waker());
        if let Some(error) = self.answer.end_by_verdict() {
            return Poll::Ready(Some(Err(error)));
        }
        self.answer.batches.poll_recv(context).map(|message| self.answer.item(message))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::control::QueryControl;
    use crate::threads::EndingThreads;

    fn watch() -> Watch {
        Watch::new(&QueryControl::default(), true)
    }

    /// One thread for the question.
    fn threads() -> Arc<QuestionThreads> {
        Arc::new(QuestionThreads::start(1, &Arc::new(EndingThreads::default())).expect("a thread"))
    }

    /// Where an asynchronous caller is.
    fn runtime() -> Runtime {
        Builder::new_current_thread().build().expect("a runtime")
    }

    fn batch() -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1, 2])) as _)]).expect("a batch")
    }

    /// A stream of one batch, and then of what `next` does.
    fn one_batch_and_then(
        schema: Arc<Schema>,
        next: impl FnOnce() -> Option<RecordBatch> + Send + 'static,
    ) -> SendableRecordBatchStream {
        let rest = futures::stream::once(async move { next() }).filter_map(|batch| async move { batch.map(Ok) });
        let batches = futures::stream::iter([Ok(batch())]).chain(rest);
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(batches)))
    }

    fn answer(next: impl FnOnce() -> Option<RecordBatch> + Send + 'static) -> Answer {
        Answer::spawn(threads(), one_batch_and_then(batch().schema(), next), watch())
    }

    #[test]
    fn a_whole_answer_ends_without_an_error() {
        let answer = answer(|| Some(batch()));
        assert_eq!(answer.map(|batch| batch.expect("a batch").num_rows()).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_panic_of_the_engine_ends_the_answer_with_an_error() {
        let mut answer = answer(|| panic!("offset {} of a spoiled page", 7));
        assert_eq!(answer.next().expect("a batch").expect("a batch").num_rows(), 2);
        let error = answer.next().expect("an error").expect_err("an error");
        let expected = "the query engine panicked: offset 7 of a spoiled page; the answer is incomplete";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(answer.next().is_none());
    }

    #[test]
    fn an_asynchronous_caller_is_told_too() {
        let stream = answer(|| panic!("spoiled")).into_stream();
        let items: Vec<_> = runtime().block_on(stream.collect());
        let is_ok: Vec<_> = items.iter().map(Result::is_ok).collect();
        assert_eq!(is_ok, [true, false]);
    }

    #[test]
    fn an_engine_that_goes_away_leaves_an_error() {
        let threads = threads();
        let schema = batch().schema();
        let batches = futures::stream::iter([Ok(batch())]).chain(futures::stream::pending());
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
        let mut answer = Answer::spawn(Arc::clone(&threads), stream, watch());
        assert!(answer.next().expect("a batch").is_ok());
        threads.end();
        assert!(matches!(answer.next(), Some(Err(EngineError::Stopped))));
        assert!(answer.next().is_none());
    }

    /// An answer whose only thread is busy after its first batch, until the sender is dropped.
    fn busy_answer(control: &QueryControl) -> (std::sync::mpsc::Sender<()>, Answer) {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let next = move || {
            let _ = held.recv();
            None
        };
        let stream = one_batch_and_then(batch().schema(), next);
        (release, Answer::spawn(threads(), stream, Watch::new(control, true)))
    }

    /// The engine never says anything again.
    #[test]
    fn an_answer_that_does_not_come_ends_all_the_same() {
        for (is_stopped, is_stream) in [(true, false), (false, false), (true, true), (false, true)] {
            let time_max = (!is_stopped).then_some(Duration::from_millis(1));
            let control = QueryControl { time_max, ..QueryControl::default() };
            let (release, mut answer) = busy_answer(&control);
            if is_stopped {
                control.progress.stop();
            }
            let error = if is_stream {
                let items: Vec<_> = runtime().block_on(answer.into_stream().collect());
                items.into_iter().find_map(Result::err)
            } else {
                let error = answer.find_map(Result::err);
                assert!(answer.next().is_none());
                error
            };
            let error = error.expect("an error");
            let is_right = match error {
                EngineError::Cancelled { .. } => is_stopped,
                EngineError::TimeLimit { .. } => !is_stopped,
                _ => false,
            };
            assert!(is_right, "{error}");
            drop(release);
        }
    }
}
