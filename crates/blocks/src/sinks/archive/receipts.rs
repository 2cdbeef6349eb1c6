//! Receipts of flows that were appended and are not durable yet.

use std::collections::VecDeque;

use weir_archive::{Position, Statistics};
use weir_flow::{Kept, Receipt};

/// A receipt, and what the archive had when its flows were appended.
struct Waiting {
    receipt: Receipt,
    position: Position,
    rows_lost: u64,
}

/// Receipts that wait until their flows survive a crash, in the order of their positions.
#[derive(Default)]
pub(super) struct Receipts(VecDeque<Waiting>);

impl Receipts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes receipts of flows that are in the archive, whose last position these statistics say.
    pub(super) fn add(&mut self, receipts: Vec<Receipt>, appended: &Statistics) {
        let Statistics { position, rows_lost, .. } = *appended;
        self.0.extend(receipts.into_iter().map(|receipt| Waiting { receipt, position, rows_lost }));
    }

    /// Tells those whose flows are durable now. A disk that did not confirm may have lost any flows since they were appended.
    pub(super) fn tell(&mut self, now: &Statistics) {
        while self.0.front().is_some_and(|waiting| waiting.position <= now.durable) {
            let Some(Waiting { receipt, position, rows_lost }) = self.0.pop_front() else { break };
            let is_whole = rows_lost == now.rows_lost;
            receipt.tell(if is_whole { Kept::Durable { position: position.get() } } else { Kept::NotAll });
        }
    }
}
