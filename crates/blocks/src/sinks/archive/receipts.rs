//! Receipts of flows that were appended and are not durable yet.

use std::collections::VecDeque;

use weir_archive::{Position, Statistics};
use weir_flow::{DeliveryOutcome, Receipt};

/// A receipt, and how far the archive was when its flows were appended.
struct Waiting {
    receipt: Receipt,
    /// Of the last of its flows.
    position: Position,
    /// Flows that the archive had lost before the first of its flows was written.
    rows_lost: u64,
}

/// Receipts that wait until their flows survive a crash, in the order of their positions.
#[derive(Default)]
pub(super) struct Receipts(VecDeque<Waiting>);

impl Receipts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes receipts of flows that are in the archive: the last of them at `position`, and `rows_lost` flows were lost before
    /// the first of them was written.
    pub(super) fn add(&mut self, receipts: Vec<Receipt>, position: Position, rows_lost: u64) {
        self.0.extend(receipts.into_iter().map(|receipt| Waiting { receipt, position, rows_lost }));
    }

    /// Resolves those whose flows are durable now. A disk that did not confirm may have lost any flows since they were appended.
    pub(super) fn resolve(&mut self, now: &Statistics) {
        while self.0.front().is_some_and(|waiting| waiting.position <= now.durable) {
            let Some(Waiting { receipt, position, rows_lost }) = self.0.pop_front() else { break };
            let is_whole = rows_lost == now.rows_lost;
            receipt.resolve(if is_whole {
                DeliveryOutcome::Durable { position: position.get() }
            } else {
                DeliveryOutcome::NotAll
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn at(durable: u64, rows_lost: u64) -> Statistics {
        let mut statistics = Statistics::default();
        statistics.durable = Position::new(durable);
        statistics.rows_lost = rows_lost;
        statistics
    }

    #[test]
    fn what_is_lost_between_the_first_piece_and_the_last_is_not_confirmed() {
        let (sender, told) = mpsc::channel();
        let receipt = |name| {
            let sender = sender.clone();
            vec![Receipt::new(move |kept| {
                let _ = sender.send((name, kept));
            })]
        };
        let mut receipts = Receipts::default();
        // flows of the first of its pieces were lost before the second, at position 2, was written
        receipts.add(receipt("in two pieces"), Position::new(2), 0);
        receipts.add(receipt("later"), Position::new(3), 5);
        receipts.resolve(&at(1, 5));
        assert!(told.try_recv().is_err(), "nothing of them is durable");
        receipts.resolve(&at(3, 5));
        let kept: Vec<_> = told.try_iter().collect();
        assert_eq!(
            kept,
            [("in two pieces", DeliveryOutcome::NotAll), ("later", DeliveryOutcome::Durable { position: 3 })]
        );
        assert!(receipts.is_empty());
    }
}
