//! Flows that programs push, on their way into the chain that collects.
//!
//! An [`Intake`] is a queue between whoever answers those programs and the source `ingest`. It is bounded in octets and never
//! waits: when there is no room the sender is told so, and comes again. What is in it is in memory only, so a process that is
//! killed loses it; the answer to the sender must not promise more, unless the sender waits for the [receipts](Receipt) of its flows.
//!
//! The chain that collects is made of options, which a queue is not one of. So a process offers its intake, as it does with
//! sockets that it [inherits](crate::inherited), and the source takes it up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::{FlowBatch, Receipt};

static OFFERED: Mutex<Option<Arc<Intake>>> = Mutex::new(None);

/// Has sources of this process hand on what is pushed into an intake.
pub fn offer(intake: Arc<Intake>) {
    *locked(&OFFERED) = Some(intake);
}

/// The intake of this process, where there is one.
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

/// What became of pushes.
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

    /// Pushes that came while there was no room, or while the chain began or ended.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Pushes of which nothing was taken because something was wrong with them.
    pub fn bad(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }
}

/// Why flows were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// There is no room now.
    #[error("{octets} octets of flows wait already")]
    Full {
        /// Octets that wait.
        octets: usize,
    },
    /// There will never be room for so much at once.
    #[error("the queue has {octets_max} octets at most")]
    TooLarge {
        /// Octets of the queue.
        octets_max: usize,
    },
    /// The chain has ended, or is ending.
    #[error("flows are not collected any more")]
    Closed,
}

/// What an intake has for its source.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// The flows of one push, and a receipt for each batch where the sender waits for them.
    Flows(Vec<FlowBatch>, Vec<Receipt>),
    /// Nothing came meanwhile.
    Nothing,
    /// It is closed and empty.
    Ended,
}

impl Intake {
    /// An intake of so many octets at most.
    pub fn new(octets_max: usize) -> Self {
        Self { octets_max, waiting: Mutex::default(), came: Condvar::new(), counts: IntakeCounts::default() }
    }

    /// Takes the flows of one push, all or none; `octets` is the memory that they keep.
    pub fn push(&self, flows: Vec<FlowBatch>, octets: usize) -> Result<(), NotTaken> {
        self.push_with(flows, Vec::new(), octets)
    }

    /// The same with a receipt for each batch.
    pub fn push_with(&self, flows: Vec<FlowBatch>, receipts: Vec<Receipt>, octets: usize) -> Result<(), NotTaken> {
        if octets > self.octets_max {
            self.count_bad();
            return Err(NotTaken::TooLarge { octets_max: self.octets_max });
        }
        let mut waiting = locked(&self.waiting);
        if waiting.is_closed || waiting.octets + octets > self.octets_max {
            self.count_full();
            return Err(if waiting.is_closed { NotTaken::Closed } else { NotTaken::Full { octets: waiting.octets } });
        }
        waiting.octets += octets;
        waiting.pushes.push_back(Push { flows, receipts, octets });
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        self.came.notify_one();
        Ok(())
    }

    /// The flows of the push that has waited longest; waits for one so long.
    pub fn take(&self, wait: Duration) -> Taken {
        let is_idle = |waiting: &mut Waiting| waiting.pushes.is_empty() && !waiting.is_closed;
        let waited = self.came.wait_timeout_while(locked(&self.waiting), wait, is_idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match waiting.pushes.pop_front() {
            Some(push) => {
                waiting.octets -= push.octets;
                Taken::Flows(push.flows, push.receipts)
            }
            None if waiting.is_closed => Taken::Ended,
            None => Taken::Nothing,
        }
    }

    /// Takes nothing any more; what waits can still be [taken](Self::take).
    pub fn close(&self) {
        locked(&self.waiting).is_closed = true;
        self.came.notify_all();
    }

    /// What became of pushes.
    pub fn counts(&self) -> &IntakeCounts {
        &self.counts
    }

    /// Counts a push that is refused because something is wrong with it.
    pub fn count_bad(&self) {
        self.counts.bad.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a push that is refused because there is no room.
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
        assert_eq!(intake.take(NOT_AT_ALL), Taken::Nothing);
        assert_eq!(intake.push(flows(1), 60), Ok(()));
        assert_eq!(intake.push(flows(2), 41), Err(NotTaken::Full { octets: 60 }));
        assert_eq!(intake.push(flows(3), 40), Ok(()));
        assert_eq!(intake.push(flows(4), 101), Err(NotTaken::TooLarge { octets_max: 100 }));
        assert_eq!(intake.take(NOT_AT_ALL), Taken::Flows(flows(1), Vec::new()));
        assert_eq!(intake.push(flows(5), 60), Ok(()), "there is room again");
        intake.close();
        assert_eq!(intake.push(flows(6), 1), Err(NotTaken::Closed));
        assert_eq!(intake.take(NOT_AT_ALL), Taken::Flows(flows(3), Vec::new()));
        assert_eq!(intake.take(NOT_AT_ALL), Taken::Flows(flows(5), Vec::new()));
        assert_eq!(intake.take(NOT_AT_ALL), Taken::Ended);
        let counts = intake.counts();
        assert_eq!((counts.taken(), counts.full(), counts.bad()), (3, 2, 1));
    }
}
