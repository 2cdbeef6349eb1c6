//! Interfaces that have gone away, tried again.
//!
//! A tunnel or a cable is gone for a while, and a service that also collects, or answers questions, must not end for it. What
//! was in flows when the interfaces went is handed on; what passes until they are captured again is not seen, by anybody.

use std::thread;
use std::time::{Duration, Instant};

use weir_chain::{Counter, Counters};
use weir_routes::SharedRouteTable;

/// When interfaces are tried again.
pub(super) struct Retry {
    every: Duration,
    /// Routes of the meter that ended, for the next one.
    routes: Option<SharedRouteTable>,
    /// When the next try is; `None` while packets are captured.
    due: Option<Instant>,
    lost: Counter,
    failures: Counter,
}

impl Retry {
    pub(super) fn new(every: Duration, routes: Option<SharedRouteTable>, counters: &Counters) -> Self {
        let (lost, failures) = (counters.counter("interfaces_lost"), counters.counter("interface_retries_failed"));
        Self { every, routes, due: None, lost, failures }
    }

    pub(super) fn every(&self) -> Duration {
        self.every
    }

    pub(super) fn routes(&self) -> Option<SharedRouteTable> {
        self.routes.clone()
    }

    /// The interfaces have gone away.
    pub(super) fn begin(&mut self) {
        self.lost.add(1);
        self.due = Some(Instant::now() + self.every);
    }

    /// Whether nothing is captured now.
    pub(super) fn is_waiting(&self) -> bool {
        self.due.is_some()
    }

    /// Whether it is time to try; waits for it so long at most.
    pub(super) fn is_due(&self, wait_max: Duration) -> bool {
        let Some(due) = self.due else { return false };
        let left = due.saturating_duration_since(Instant::now());
        thread::sleep(left.min(wait_max));
        left <= wait_max
    }

    pub(super) fn succeeded(&mut self) {
        self.due = None;
    }

    pub(super) fn failed(&mut self) {
        self.failures.add(1);
        self.due = Some(Instant::now() + self.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_until_it_succeeds() {
        let counters = Counters::new();
        let mut retry = Retry::new(Duration::ZERO, None, &counters);
        assert!(!retry.is_waiting() && !retry.is_due(Duration::ZERO));
        retry.begin();
        for _ in 0..3 {
            assert!(retry.is_waiting() && retry.is_due(Duration::ZERO));
            retry.failed();
        }
        retry.succeeded();
        assert!(!retry.is_waiting());
        assert_eq!(counters.read(), [("interfaces_lost", 1), ("interface_retries_failed", 3)]);
        let mut long = Retry::new(Duration::from_hours(1), None, &counters);
        long.begin();
        assert!(!long.is_due(Duration::ZERO));
    }
}
