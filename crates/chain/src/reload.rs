//! The wish that files are read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells components to read again what they have from files. Clones share it, and each answers once for each wish.
#[derive(Debug, Clone, Default)]
pub struct ReloadSignal {
    asked: Arc<AtomicU64>,
    answered: u64,
}

impl ReloadSignal {
    /// Asks everyone who listens.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it was asked for since the last call.
    pub fn take(&mut self) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        std::mem::replace(&mut self.answered, asked) != asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clone_answers_once() {
        let signal = ReloadSignal::default();
        let [mut one, mut other] = [signal.clone(), signal.clone()];
        assert!(!one.take());
        signal.ask();
        signal.ask();
        assert!(one.take() && !one.take() && other.take());
    }
}
