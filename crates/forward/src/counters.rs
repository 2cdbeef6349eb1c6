//! What a forwarder counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of a forwarder, which others read while it runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ForwardCounters(Arc<Atomics>);

#[derive(Debug, Default)]
struct Atomics {
    rows_forwarded: AtomicU64,
    rows_refused: AtomicU64,
    rows_lost: AtomicU64,
    deliveries_forwarded: AtomicU64,
    deliveries_lost: AtomicU64,
    deliveries_waiting: AtomicU64,
    rows_in_flight: AtomicU64,
    retries: AtomicU64,
    failures: AtomicU64,
    rewinds: AtomicU64,
    is_refused: AtomicBool,
}

/// Values of the counters. Those of rows and deliveries that were forwarded, refused or lost are kept over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardCounts {
    /// Rows that the store has acknowledged, each counted once.
    pub rows_forwarded: u64,
    /// Rows that the store can never take.
    pub rows_refused: u64,
    /// Rows that are known to have expired, or to have been set aside as damaged, before they were forwarded. They are worked
    /// out from all that the archive ever had, so they may be known some time after `deliveries_lost`.
    pub rows_lost: u64,
    /// Deliveries, acknowledged or without flows.
    pub deliveries_forwarded: u64,
    /// Deliveries that expired, or were set aside as damaged, before they were forwarded; also while a store is away.
    pub deliveries_lost: u64,
    /// Deliveries in the archive that are not acknowledged yet.
    pub deliveries_waiting: u64,
    /// Rows that were handed to the store and are not acknowledged yet.
    pub rows_in_flight: u64,
    /// Deliveries that were handed to the store again after an error.
    pub retries: u64,
    /// Errors of the store.
    pub failures: u64,
    /// Crashes of the machine after which the archive went back behind what was forwarded.
    pub rewinds: u64,
}

impl ForwardCounters {
    /// Whether what the store did last was to refuse, for good, what it got.
    pub fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }

    pub(crate) fn set_refused(&self, is_refused: bool) {
        self.0.is_refused.store(is_refused, Ordering::Relaxed);
    }
}

macro_rules! counters {
    ($($name:ident),*) => {
        impl ForwardCounters {
            /// The values now.
            pub fn read(&self) -> ForwardCounts {
                ForwardCounts { $($name: self.0.$name.load(Ordering::Relaxed)),* }
            }

            /// Replaces all values.
            pub(crate) fn write(&self, counts: &ForwardCounts) {
                $(self.0.$name.store(counts.$name, Ordering::Relaxed);)*
            }
        }

        impl ForwardCounts {
            /// All values with their names.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters!(
    rows_forwarded,
    rows_refused,
    rows_lost,
    deliveries_forwarded,
    deliveries_lost,
    deliveries_waiting,
    rows_in_flight,
    retries,
    failures,
    rewinds
);
