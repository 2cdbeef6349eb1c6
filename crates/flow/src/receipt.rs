//! Receipts: whether the flows that a sender handed over were stored.
//!
//! A sender that must not lose flows wants to know when they survive a crash. Between it and the disk are queues and other
//! components, which know nothing of senders; so a receipt travels with the flows, next to the books, and the sink that
//! stores the flows resolves it. A receipt dropped unresolved means that they were not stored. What speaks against it is
//! that a receipt is no value, as all other side tables are.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What happened to the flows of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// They survive a crash of the machine.
    Durable {
        /// Number of the delivery in the archive that has the flows, or the last of them.
        position: u64,
    },
    /// Some of them were refused or lost.
    NotAll,
}

type Callback = Box<dyn FnOnce(DeliveryOutcome) + Send>;

/// Whether the flows of one burst were stored. Clones are the same receipt; the first call of [`resolve`](Self::resolve) counts.
#[derive(Clone)]
pub struct Receipt(Arc<Mutex<Option<Callback>>>);

impl Receipt {
    /// A receipt that calls `callback` when it is resolved. `callback` must not wait. When all clones are dropped unresolved, it is
    /// dropped and not called.
    pub fn new(callback: impl FnOnce(DeliveryOutcome) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(callback)))))
    }

    /// Reports what happened to the flows. Later calls do nothing.
    pub fn resolve(&self, outcome: DeliveryOutcome) {
        let callback = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(callback) = callback {
            callback(outcome);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt")
    }
}

/// Only clones are equal.
impl PartialEq for Receipt {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_is_resolved_once_or_dropped() {
        let (sender, outcomes) = mpsc::channel();
        let receipt = Receipt::new(move |outcome| {
            let _ = sender.send(outcome);
        });
        let clone = receipt.clone();
        assert_eq!(clone, receipt);
        clone.resolve(DeliveryOutcome::Durable { position: 7 });
        receipt.resolve(DeliveryOutcome::NotAll);
        assert_eq!(outcomes.iter().collect::<Vec<_>>(), [DeliveryOutcome::Durable { position: 7 }]);
        let (sender, outcomes) = mpsc::channel::<DeliveryOutcome>();
        drop(Receipt::new(move |outcome| {
            let _ = sender.send(outcome);
        }));
        assert_eq!(outcomes.recv(), Err(mpsc::RecvError));
    }
}
