//! What forwarders of one store have in flight together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What forwarders that share a store have handed over and is not acknowledged yet. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Amounts>);

#[derive(Debug, Default)]
struct Amounts {
    deliveries: AtomicUsize,
    rows: AtomicU64,
}

impl InFlight {
    /// Deliveries of all forwarders.
    pub fn deliveries(&self) -> usize {
        self.0.deliveries.load(Ordering::Relaxed)
    }

    /// Rows of all forwarders.
    pub fn rows(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }
}

/// What one forwarder has of it, which it gives back when it ends.
#[derive(Debug)]
pub(crate) struct InFlightShare {
    all: InFlight,
    deliveries: usize,
    rows: u64,
}

impl InFlightShare {
    /// Nothing of what all have.
    pub(crate) fn of(all: InFlight) -> Self {
        Self { all, deliveries: 0, rows: 0 }
    }

    /// Rows of this forwarder.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether one more delivery may be handed over, by the limits of all forwarders. One of each always may, so that none waits
    /// for a busy one.
    pub(crate) fn has_room(&self, deliveries_max: usize, rows_max: u64) -> bool {
        self.deliveries == 0 || self.all.deliveries() < deliveries_max && self.all.rows() < rows_max
    }

    /// A delivery of so many rows is handed over.
    pub(crate) fn add(&mut self, rows: u64) {
        self.deliveries += 1;
        self.rows += rows;
        self.all.0.deliveries.fetch_add(1, Ordering::Relaxed);
        self.all.0.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// A delivery of so many rows is acknowledged.
    pub(crate) fn remove(&mut self, rows: u64) {
        self.deliveries -= 1;
        self.rows -= rows;
        self.all.0.deliveries.fetch_sub(1, Ordering::Relaxed);
        self.all.0.rows.fetch_sub(rows, Ordering::Relaxed);
    }
}

impl Drop for InFlightShare {
    fn drop(&mut self) {
        self.all.0.deliveries.fetch_sub(self.deliveries, Ordering::Relaxed);
        self.all.0.rows.fetch_sub(self.rows, Ordering::Relaxed);
    }
}
