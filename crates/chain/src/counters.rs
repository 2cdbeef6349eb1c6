//! Counters of a component, which others read while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A counter that only grows. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds to the counter.
    #[inline]
    pub fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters that a component has beside those of the framework (rows in and out, time, state). Clones share them.
///
/// A name says what is counted, unit first: `rows_late_dropped`. Names come from the code of a component, never from its
/// input, so that whoever sends flows cannot make them more.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<Mutex<Vec<(&'static str, Counter)>>>);

impl Counters {
    /// Counters without counters.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counter of a name, made at 0 when it is new.
    pub fn counter(&self, name: &'static str) -> Counter {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == name) {
            return counter.clone();
        }
        let counter = Counter::default();
        counters.push((name, counter.clone()));
        counter
    }

    /// All counters with their values, in the order in which they were made.
    pub fn read(&self) -> Vec<(&'static str, u64)> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|(name, counter)| (*name, counter.get())).collect()
    }
}
