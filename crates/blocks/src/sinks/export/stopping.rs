//! How long others are waited for once the chain was told to stop.
//!
//! A chain that is stopped should end soon, however patient it is otherwise, and yet what waits for a collector that is
//! well should reach it. So the wish to stop begins a time of its own.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use weir_chain::StopSignal;

/// The wish to stop, and how long waiting may go on after it.
#[derive(Debug)]
pub(super) struct Stopping {
    signal: StopSignal,
    timeout: Duration,
    /// When somebody looked first and the wish was there.
    seen: OnceLock<Instant>,
}

impl Stopping {
    pub(super) fn new(signal: StopSignal, timeout: Duration) -> Self {
        Self { signal, timeout, seen: OnceLock::new() }
    }

    /// The same, with the time not begun.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.signal.clone(), self.timeout)
    }

    /// Until when waiting may go on, once the chain is to stop.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.signal.is_set().then(|| *self.seen.get_or_init(Instant::now) + self.timeout)
    }
}
