//! Deliveries into the cluster: the store that a forwarder hands them to.
//!
//! Each delivery is a task on a small runtime of its own. Its rows are grouped by partition, cut into batches and sent, at
//! most so many at a time over all deliveries. A batch has rows of one partition only: the driver sends it to a replica of
//! that partition, which applies it as one mutation, so a batch saves work instead of making some.

mod insert;
mod task;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use weir_archive::FollowPosition;
use weir_forward::{ForwardDelivery, ForwardOutcome, ForwardStore, StoreError, StoredRows};

use crate::{CassandraError, CassandraOptions};
pub(crate) use insert::{prepare, using_ttl};
use task::Cluster;

/// Threads of the runtime.
const THREADS: usize = 2;

/// Stores deliveries in Cassandra.
pub struct CassandraStore {
    threads: Arc<Threads>,
    cluster: Arc<Cluster>,
    ended: Receiver<ForwardOutcome>,
    ending: Sender<ForwardOutcome>,
}

/// The runtime of a store and of those that share it, which ends with the last of them.
struct Threads(Option<Runtime>);

impl CassandraStore {
    /// A store that connects when the first delivery comes; a cluster that is away then is waited for. Fails when the
    /// options cannot be used.
    pub fn new(options: CassandraOptions) -> Result<Self, CassandraError> {
        options.check().map_err(|error| CassandraError::Options(error.message))?;
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(THREADS).thread_name("weir-cassandra").enable_all();
        let runtime = builder.build().map_err(|error| CassandraError::Options(format!("no threads: {error}")))?;
        let (threads, cluster) = (Arc::new(Threads(Some(runtime))), Arc::new(Cluster::new(options)));
        let (ending, ended) = channel();
        Ok(Self { threads, cluster, ended, ending })
    }

    /// A store for another forwarder: with the connections of this one, and its limit of batches in flight.
    #[must_use]
    pub fn share(&self) -> Self {
        let (ending, ended) = channel();
        Self { threads: Arc::clone(&self.threads), cluster: Arc::clone(&self.cluster), ended, ending }
    }

    /// Connects now, and makes sure of the tables: for a user who waits for the answer.
    pub fn connect(&self) -> Result<(), CassandraError> {
        match &self.threads.0 {
            Some(runtime) => runtime.block_on(self.cluster.ready()).map(drop),
            None => Ok(()),
        }
    }
}

impl ForwardStore for CassandraStore {
    fn begin(&mut self, delivery: ForwardDelivery) {
        let Some(runtime) = &self.threads.0 else { return };
        let outcome = TaskOutcome { position: delivery.position, ending: self.ending.clone(), result: None };
        let cluster = Arc::clone(&self.cluster);
        spawn(runtime, outcome, async move { cluster.store(delivery).await });
    }

    fn ended(&mut self, timeout: Duration) -> Vec<ForwardOutcome> {
        let began = Instant::now();
        let first = self.ended.recv_timeout(timeout.saturating_sub(began.elapsed()));
        first.into_iter().chain(self.ended.try_iter()).collect()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // what is on its way is not waited for: it comes again
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The outcome of a task, which is sent when the task ends. One that panics has an outcome too: a delivery without one would be
/// waited for without end, and what comes after it with it.
struct TaskOutcome {
    position: FollowPosition,
    ending: Sender<ForwardOutcome>,
    /// `None` until it is known.
    result: Option<Result<StoredRows, StoreError>>,
}

impl TaskOutcome {
    fn end(mut self, result: Result<StoredRows, CassandraError>) {
        self.result = Some(result.map_err(Into::into));
    }
}

impl Drop for TaskOutcome {
    fn drop(&mut self) {
        let panicked = || Err(StoreError::Unavailable("the task that stores flows has ended by a panic".to_owned()));
        let result = self.result.take().unwrap_or_else(panicked);
        // a forwarder that has ended wants no answer
        let _ = self.ending.send(ForwardOutcome { position: self.position, result });
    }
}

fn spawn(
    runtime: &Runtime,
    outcome: TaskOutcome,
    storing: impl Future<Output = Result<StoredRows, CassandraError>> + Send + 'static,
) {
    runtime.spawn(async move { outcome.end(storing.await) });
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_task_that_panics_has_an_outcome() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("a thread");
        let (ending, ended) = channel();
        let outcome = TaskOutcome { position: FollowPosition::START, ending, result: None };
        let panics =
            |_: &mut std::task::Context<'_>| -> Poll<Result<StoredRows, CassandraError>> { panic!("a defect") };
        spawn(&runtime, outcome, std::future::poll_fn(panics));
        let outcome = ended.recv_timeout(Duration::from_mins(1)).expect("an outcome");
        assert_eq!(outcome.position, FollowPosition::START);
        assert!(matches!(outcome.result, Err(StoreError::Unavailable(_))), "{:?}", outcome.result);
    }
}
