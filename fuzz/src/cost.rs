//! What work has cost: time of the processor and memory of this thread, so that a busy machine is no failure.

// the one that the address sanitizer watches
use std::alloc::System as Allocator;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

#[path = "../../crates/collect/tests/collect/counting.rs"]
mod counting;

/// What some work has cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Of this thread.
    pub(crate) time: Duration,
    /// The most that was allocated at a time beside what was before; what libraries written in C allocate is not in it.
    pub(crate) octets: usize,
}

impl Cost {
    /// The less of each: what was more is not the work's.
    pub(crate) fn least(self, other: Self) -> Self {
        Self { time: self.time.min(other.time), octets: self.octets.min(other.octets) }
    }
}

/// Measures some work.
pub(crate) fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    counting::take_most();
    let (live, began) = (counting::live(), now());
    let done = work();
    let cost = Cost {
        time: now().saturating_sub(began),
        octets: usize::try_from(counting::take_most() - live).unwrap_or_default(),
    };
    (done, cost)
}

/// Time of the processor that this thread has had.
pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
