//! Receipts: whether what a sender handed over is kept.
//!
//! A sender that must not lose flows wants to know when they survive a crash. Between it and the disk are queues and other components,
//! which know nothing of senders; so a receipt travels with the flows, next to the books, and whoever keeps them tells it. One that
//! is dropped untold says that nobody kept them. What speaks against it is that a receipt is no value, as all other side tables are.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What became of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// They survive a crash of the machine.
    Durable {
        /// Number of the delivery in the archive that has them, or the last of them.
        position: u64,
    },
    /// Some of them were refused, or are lost.
    NotAll,
}

type Tell = Box<dyn FnOnce(Kept) + Send>;

/// Whether the flows of one burst are kept. Clones are of one receipt, which is told once: by the first that knows.
#[derive(Clone)]
pub struct Receipt(Arc<Mutex<Option<Tell>>>);

impl Receipt {
    /// A receipt that calls `tell`, which must not wait. When all clones are dropped and nobody has kept the flows, `tell` is dropped
    /// and not called.
    pub fn new(tell: impl FnOnce(Kept) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(tell)))))
    }

    /// Says what became of the flows.
    pub fn tell(&self, kept: Kept) {
        let tell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tell) = tell {
            tell(kept);
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
    fn it_is_told_once_or_dropped() {
        let (sender, told) = mpsc::channel();
        let receipt = Receipt::new(move |kept| {
            let _ = sender.send(kept);
        });
        let clone = receipt.clone();
        assert_eq!(clone, receipt);
        clone.tell(Kept::Durable { position: 7 });
        receipt.tell(Kept::NotAll);
        assert_eq!(told.iter().collect::<Vec<_>>(), [Kept::Durable { position: 7 }]);
        let (sender, told) = mpsc::channel::<Kept>();
        drop(Receipt::new(move |kept| {
            let _ = sender.send(kept);
        }));
        assert_eq!(told.recv(), Err(mpsc::RecvError));
    }
}
