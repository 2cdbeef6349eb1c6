//! The bounded queues of bursts between threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use crate::Burst;
use crate::graph::Graph;
use crate::run::progress::QueueCounters;

/// The end of a queue that bursts are put into. Dropping it tells the other end that nothing comes any more.
#[derive(Debug)]
pub(crate) struct QueueSender {
    sender: Sender<Burst>,
    counters: Arc<QueueCounters>,
    burst_records: usize,
    /// Batches that do not make a burst yet, all with the columns of the first.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
}

/// The end of a queue that bursts are taken from.
#[derive(Debug)]
pub(crate) struct QueueReceiver {
    pub receiver: Receiver<Burst>,
    pub counters: Arc<QueueCounters>,
}

/// Nobody takes from the queue any more.
#[derive(Debug)]
pub(crate) struct Closed;

/// Meters of all queues, and for each edge the two ends of its queue, if it has one.
#[expect(clippy::type_complexity, reason = "both ends of every queue are handed out once, right after this")]
pub(crate) fn for_edges(
    graph: &Graph,
) -> (Vec<Arc<QueueCounters>>, Vec<Option<QueueSender>>, Vec<Option<QueueReceiver>>) {
    let (mut meters, mut senders, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
    for edge in &graph.edges {
        let Some(queue) = edge.queue else {
            senders.push(None);
            receivers.push(None);
            continue;
        };
        let counters = Arc::new(QueueCounters::new(edge.from, edge.to, edge.input, queue));
        let (sender, receiver) = bounded(queue.queue_bursts);
        senders.push(Some(QueueSender {
            sender,
            counters: Arc::clone(&counters),
            burst_records: queue.burst_records,
            pending: Vec::new(),
            pending_rows: 0,
        }));
        receivers.push(Some(QueueReceiver { receiver, counters: Arc::clone(&counters) }));
        meters.push(counters);
    }
    (meters, senders, receivers)
}

impl QueueSender {
    /// Puts a burst into the queue, cut and joined to bursts of the stated size. Waits while the queue is full.
    pub(crate) fn push(&mut self, burst: Burst) -> Result<(), Closed> {
        self.counters.rows.fetch_add(burst.len() as u64, Ordering::Relaxed);
        // Side tables stay with their rows.
        if self.burst_records == 0 || !burst.side_tables().is_empty() {
            self.flush()?;
            return self.send(burst);
        }
        let rows = burst.into_parts().0;
        if self.pending.first().is_some_and(|first| first.schema() != rows.schema()) {
            self.flush()?;
        }
        let mut from = 0;
        while from < rows.num_rows() {
            let count = (self.burst_records - self.pending_rows).min(rows.num_rows() - from);
            self.pending.push(if count == rows.num_rows() { rows.clone() } else { rows.slice(from, count) });
            self.pending_rows += count;
            from += count;
            if self.pending_rows == self.burst_records {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Sends what does not make a whole burst.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        self.pending_rows = 0;
        let rows = match self.pending.len() {
            0 => return Ok(()),
            1 => self.pending.remove(0),
            _ => {
                let schema = self.pending[0].schema();
                let joined = concat_batches(&schema, &self.pending);
                match joined {
                    Ok(rows) => {
                        self.pending.clear();
                        rows
                    }
                    // columns too long for their offsets: they go as they are
                    Err(_) => {
                        return std::mem::take(&mut self.pending)
                            .into_iter()
                            .try_for_each(|rows| self.send(Burst::new(rows)));
                    }
                }
            }
        };
        self.send(Burst::new(rows))
    }

    fn send(&mut self, burst: Burst) -> Result<(), Closed> {
        let counters = &self.counters;
        counters.bursts.fetch_add(1, Ordering::Relaxed);
        counters.held.fetch_add(1, Ordering::Relaxed);
        match self.sender.try_send(burst) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(Closed),
            Err(TrySendError::Full(burst)) => {
                let waiting = Instant::now();
                let sent = self.sender.send(burst);
                counters.full_ns.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
                sent.map_err(|_| Closed)
            }
        }
    }
}
