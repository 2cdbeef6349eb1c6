//! Where a thread gets rows from: its sources and the queues in front of it.

use crate::run::queue::QueueReceiver;

/// A source of the thread, or a queue in front of it.
#[derive(Debug)]
pub(crate) struct Feed {
    pub from: From,
    /// Place in the thread of the source, or of the component behind the queue.
    pub slot: usize,
}

/// What a feed is.
#[derive(Debug)]
pub(crate) enum From {
    /// The source of the slot.
    Source,
    /// A queue that leads to an input of the slot.
    Queue {
        /// Where bursts come out.
        queue: QueueReceiver,
        /// Index of the edge in the graph.
        edge: usize,
        /// Which input of the slot.
        input: usize,
    },
    /// It has ended.
    Ended,
}

impl Feed {
    pub(crate) fn source(slot: usize) -> Self {
        Self { from: From::Source, slot }
    }

    pub(crate) fn queue(queue: QueueReceiver, edge: usize, slot: usize, input: usize) -> Self {
        Self { from: From::Queue { queue, edge, input }, slot }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.from, From::Ended)
    }
}
