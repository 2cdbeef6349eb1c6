//! A Metering Process: workers and what they share.

use std::sync::Arc;

use crate::block::{Interface, PacketSource, SourceCounts, SourceError};
use crate::counts::MeterCounts;
use crate::exchange::Exchange;
use crate::options::MeterOptions;
use crate::worker::Worker;

/// A handle on workers: what they have counted, and how to stop them.
#[derive(Clone)]
pub struct Metering {
    exchange: Arc<Exchange>,
}

impl Metering {
    /// Makes workers, one at least. Sources are one for all workers, or one for each; interfaces have the same positions in
    /// all of them. Whoever calls has each worker [step](Worker::step) in a thread until it has ended; one worker alone
    /// may share the thread of the caller.
    pub fn new(options: &MeterOptions, sources: Vec<Box<dyn PacketSource>>, workers: usize) -> (Self, Vec<Worker>) {
        let workers = workers.max(1);
        let exchange = Arc::new(Exchange::new(sources, workers));
        let worker = |number| Worker::new(number, workers, options, Arc::clone(&exchange));
        let made = (0..workers).map(worker).collect();
        (Self { exchange }, made)
    }

    /// Sources end soon, and workers when everything that came before is in flows that were handed on.
    pub fn stop(&self) {
        self.exchange.stop();
    }

    /// What workers have counted.
    pub fn counts(&self) -> MeterCounts {
        self.exchange.counts()
    }

    /// What sources have counted. It waits for a source that is being read.
    pub fn source_counts(&self) -> SourceCounts {
        self.exchange.source_counts()
    }

    /// The interfaces that packets came by.
    pub fn interfaces(&self) -> Vec<Interface> {
        self.exchange.interfaces()
    }

    /// Why a source ended early; `None` when told before.
    pub fn take_failure(&self) -> Option<SourceError> {
        self.exchange.take_failure()
    }
}
