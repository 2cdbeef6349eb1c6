//! Reports to the program that runs the chain when all flows of a file are stored.
//!
//! Each delivery of a file gets a [receipt](weir_flow::receipt). When the flows of all of them survive a crash, and the
//! source has reported how the file ended, the file is reported, while the chain goes on with other files. A file of which
//! a delivery is lost, refused or dropped is never reported. What speaks against it is that a file without flows is not
//! reported either: whether it was read at all shows only at the end of the chain, in the list of all files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use weir_flow::{Delivery, DeliveryOutcome, Receipt};

/// How the reading of a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEnd {
    /// All of it was read.
    Whole,
    /// It was read up to damage, and what is before the damage was handed on.
    Damaged,
}

/// Called with each file whose flows are stored.
pub(crate) type KeptTaker = dyn Fn(&Path, FileEnd) + Send + Sync;

/// Receipts of the deliveries of one file. Without a function that takes the file there are none. The default is of no file.
#[derive(Clone, Default)]
pub struct FileReceipts(Option<Arc<FollowedFile>>);

struct FollowedFile {
    path: PathBuf,
    taker: Arc<KeptTaker>,
    deliveries: Mutex<FileDeliveries>,
}

/// State of the deliveries of a file.
#[derive(Default)]
struct FileDeliveries {
    handed_on: u64,
    durable: u64,
    has_flows: bool,
    end: Option<FileEnd>,
}

impl FileReceipts {
    /// Those of a file, for a function that must not wait.
    pub(crate) fn new(path: &Path, taker: Option<&Arc<KeptTaker>>) -> Self {
        let followed = |taker: &Arc<KeptTaker>| {
            let (path, taker) = (path.to_owned(), Arc::clone(taker));
            Arc::new(FollowedFile { path, taker, deliveries: Mutex::default() })
        };
        Self(taker.map(followed))
    }

    /// Gives a receipt to a delivery that is about to be handed on.
    pub fn attach(&self, delivery: &mut Delivery) {
        let Some(file) = &self.0 else { return };
        file.change(|deliveries| {
            deliveries.handed_on += 1;
            deliveries.has_flows |= delivery.flows.is_some();
        });
        let file = Arc::clone(file);
        delivery.side_tables.receipts.push(Receipt::new(move |kept| {
            if matches!(kept, DeliveryOutcome::Durable { .. }) {
                file.change(|deliveries| deliveries.durable += 1);
            }
        }));
    }

    /// Notes how the file ended, after its last delivery was handed on.
    pub fn ended(&self, end: FileEnd) {
        if let Some(file) = &self.0 {
            file.change(|deliveries| deliveries.end = Some(end));
        }
    }
}

impl FollowedFile {
    /// Notes something, and reports the file when nothing is missing any more.
    fn change(&self, change: impl FnOnce(&mut FileDeliveries)) {
        let end = {
            let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut deliveries);
            let is_kept = deliveries.has_flows && deliveries.durable == deliveries.handed_on;
            deliveries.end.filter(|_| is_kept)
        };
        if let Some(end) = end {
            (self.taker)(&self.path, end);
        }
    }
}

impl fmt::Debug for FileReceipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileReceipts").field(&self.0.as_ref().map(|file| &file.path)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use weir_flow::FlowBatchBuilder;

    use super::*;

    /// Hands on deliveries with flows, or without, and resolves their receipts; then the file ends, and the receipt of one
    /// more delivery is resolved. Returns how often the file is reported before that, and in all.
    fn reported(before: &[(bool, DeliveryOutcome)], last: Option<(bool, DeliveryOutcome)>) -> [usize; 2] {
        let (sender, files) = mpsc::channel();
        let taker: Arc<KeptTaker> = Arc::new(move |path: &Path, end| {
            let _ = sender.send((path.to_owned(), end));
        });
        let receipts = FileReceipts::new(Path::new("flows.csv"), Some(&taker));
        let receipt = |has_flows: bool| {
            let flows = has_flows.then(|| FlowBatchBuilder::new(0).finish());
            let mut delivery = Delivery { flows, ..Delivery::default() };
            receipts.attach(&mut delivery);
            delivery.side_tables.receipts.remove(0)
        };
        let last = last.map(|(has_flows, kept)| (receipt(has_flows), kept));
        for &(has_flows, kept) in before {
            receipt(has_flows).resolve(kept);
        }
        receipts.ended(FileEnd::Damaged);
        let first = files.try_iter().count();
        if let Some((receipt, kept)) = last {
            receipt.resolve(kept);
        }
        let then: Vec<_> = files.try_iter().collect();
        assert!(then.iter().all(|file| *file == (PathBuf::from("flows.csv"), FileEnd::Damaged)), "{then:?}");
        [first, first + then.len()]
    }

    #[test]
    fn a_file_is_kept_when_all_of_its_flows_are() {
        let durable = DeliveryOutcome::Durable { position: 1 };
        let flows = (true, durable);
        for (before, last, expected) in [
            (&[flows, flows][..], None, [1, 1]),
            (&[flows], Some(flows), [0, 1]),
            (&[flows], Some((false, durable)), [0, 1]),
            (&[flows], Some((true, DeliveryOutcome::NotAll)), [0, 0]),
            (&[(true, DeliveryOutcome::NotAll)], Some(flows), [0, 0]),
            // there may be nothing that could be read
            (&[(false, durable)], None, [0, 0]),
            (&[], None, [0, 0]),
        ] {
            assert_eq!(reported(before, last), expected, "{before:?}, {last:?}");
        }
    }

    #[test]
    fn nobody_who_does_not_ask_gets_receipts() {
        let mut delivery = Delivery::default();
        FileReceipts::new(Path::new("flows.csv"), None).attach(&mut delivery);
        assert!(delivery.is_empty());
    }
}
