//! The wish to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells everyone in a chain that it is to stop. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// A signal that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone to stop; it cannot be taken back.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the chain is to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
