//! Flows that programs push, on their way into the chain that collects.
//!
//! An [`Intake`] is a queue between the server that answers those programs and the source `ingest`. It is bounded in octets
//! and never waits: when it is full the push is refused, and the sender tries again. Its content is in memory only, so a
//! process that is killed loses it; the answer to the sender must not promise more, unless the sender waits for the
//! [receipts](Receipt) of its flows.
//!
//! A chain is made of options, and a queue cannot be an option. So a process offers its intake, as it does with sockets that it
//! [inherits](crate::inherited), and the source takes it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::{FlowBatch, Receipt};

static OFFERED: Mutex<Option<Arc<Intake>>> = Mutex::new(None);

/// Sets the intake from which the source `ingest` of this process takes flows.
pub fn offer(intake: Arc<Intake>) {
    *locked(&OFFERED) = Some(intake);
}

/// The intake of this process, if there is one.
pub fn offered() -> Option<Arc<Intake>> {
    locked(&OFFERED).clone()
}

/// A queue of flows that were pushed.
#[derive(Debug)]
pub struct Intake {
    octets_max: usize,
    waiting: Mutex<Waiting>,
    came: Condvar,
    counts: IntakeCounts,
}

#[derive(Debug, Default)]
struct Waiting {
    pushes: VecDeque<Push>,
    octets: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Push {
    flows: Vec<FlowBatch>,
    receipts: Vec<Receipt>,
    octets: usize,
}

/// Counters of pushes.
#[derive(Debug, Default)]
pub struct IntakeCounts {
    taken: AtomicU64,
    full: AtomicU64,
    bad: AtomicU64,
}

impl IntakeCounts {
    /// Pushes that were taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Pushes that came while the queue was full, or while the chain began or ended.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Pushes that were refused as a whole because something was wrong with them.
    pub fn bad(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }
}

/// Why a push was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushRefused {
    /// The queue is full now.
    #[error("{octets} octets of flows wait already")]
    Full {
        /// Octets that wait.
        octets: usize,
    },
    /// The push is larger than the queue.
    #[error("the queue has {octets_max} octets at most")]
    TooLarge {
        /// Capacity of the queue in octets.
        octets_max: usize,
    },
    /// The chain has ended, or is ending.
    #[error("flows are not collected any more")]
    Closed,
}

/// Result of [`Intake::take`].
#[derive(Debug, PartialEq)]
pub enum NextPush {
    /// The flows of one push, and a receipt for each batch if the sender waits for them.
    Flows(Vec<FlowBatch>, Vec<Receipt>),
    /// No push came within the time.
    Nothing,
    /// The intake is closed and empty.
    Ended,
}

impl Intake {
    /// An intake of at most `octets_max` octets.
    pub fn new(octets_max: usize) -> Self {
        Self { octets_max, waiting: Mutex::default(), came: Condvar::new(), counts: IntakeCounts::default() }
    }

    /// Takes the flows of one push, all or none; `octets` is the memory that they keep.
    pub fn push(&self, flows: Vec<FlowBatch>, octets: usize) -> Result<(), PushRefused> {
        self.push_with(flows, Vec::new(), octets)
    }

    /// The same with a receipt for each batch.
    pub fn push_with(&self, flows: Vec<FlowBatch>, receipts: Vec<Receipt>, octets: usize) -> Result<(), PushRefused> {
        if octets > self.octets_max {
            self.count_bad();
            return Err(PushRefused::TooLarge { octets_max: self.octets_max });
        }
        let mut waiting = locked(&self.waiting);
        if waiting.is_closed || waiting.octets + octets > self.octets_max {
            self.count_full();
            return Err(if waiting.is_closed {
                PushRefused::Closed
            } else {
                PushRefused::Full { octets: waiting.octets }
            });
        }
        waiting.octets += octets;
        waiting.pushes.push_back(Push { flows, receipts, octets });
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        self.came.notify_one();
        Ok(())
    }

    /// The flows of the oldest push. Waits for one for `wait` at most.
    pub fn take(&self, wait: Duration) -> NextPush {
        let is_idle = |waiting: &mut Waiting| waiting.pushes.is_empty() && !waiting.is_closed;
        let waited = self.came.wait_timeout_while(locked(&self.waiting), wait, is_idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match waiting.pushes.pop_front() {
            Some(push) => {
                waiting.octets -= push.octets;
                NextPush::Flows(push.flows, push.receipts)
            }
            None if waiting.is_closed => NextPush::Ended,
            None => NextPush::Nothing,
        }
    }

    /// Refuses all further pushes; those in the queue can still be [taken](Self::take).
    pub fn close(&self) {
        locked(&self.waiting).is_closed = true;
        self.came.notify_all();
    }

    /// Counters of pushes.
    pub fn counts(&self) -> &IntakeCounts {
        &self.counts
    }

    /// Counts a push that is refused because something is wrong with it.
    pub fn count_bad(&self) {
        self.counts.bad.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a push that is refused because the queue is full.
    pub fn count_full(&self) {
        self.counts.full.fetch_add(1, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // every step under these locks leaves whole values behind
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use weir_flow::{Column, FlowBatchBuilder};

    use super::*;

    const NOT_AT_ALL: Duration = Duration::ZERO;

    fn flows(received_ms: i64) -> Vec<FlowBatch> {
        let mut builder = FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        builder.time(Column::Received).extend([received_ms].into_iter());
        vec![builder.finish()]
    }

    #[test]
    fn it_takes_whole_pushes_as_long_as_there_is_room() {
        let intake = Intake::new(100);
        assert_eq!(intake.take(NOT_AT_ALL), NextPush::Nothing);
        assert_eq!(intake.push(flows(1), 60), Ok(()));
        assert_eq!(intake.push(flows(2), 41), Err(PushRefused::Full { octets: 60 }));
        assert_eq!(intake.push(flows(3), 40), Ok(()));
        assert_eq!(intake.push(flows(4), 101), Err(PushRefused::TooLarge { octets_max: 100 }));
        assert_eq!(intake.take(NOT_AT_ALL), NextPush::Flows(flows(1), Vec::new()));
        assert_eq!(intake.push(flows(5), 60), Ok(()), "there is room again");
        intake.close();
        assert_eq!(intake.push(flows(6), 1), Err(PushRefused::Closed));
        assert_eq!(intake.take(NOT_AT_ALL), NextPush::Flows(flows(3), Vec::new()));
        assert_eq!(intake.take(NOT_AT_ALL), NextPush::Flows(flows(5), Vec::new()));
        assert_eq!(intake.take(NOT_AT_ALL), NextPush::Ended);
        let counts = intake.counts();
        assert_eq!((counts.taken(), counts.full(), counts.bad()), (3, 2, 1));
    }
}
