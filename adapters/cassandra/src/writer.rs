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
use weir_forward::{ForwardDelivery, ForwardOutcome, ForwardStore};

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
        let (cluster, ending) = (Arc::clone(&self.cluster), self.ending.clone());
        let Some(runtime) = &self.threads.0 else { return };
        runtime.spawn(async move {
            let position = delivery.position;
            let result = cluster.store(delivery).await.map_err(Into::into);
            // a forwarder that has ended wants no answer
            let _ = ending.send(ForwardOutcome { position, result });
        });
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
