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
        let pairs = options.fields.tunnel_endpoints.then(Arc::default);
        let exchange = Arc::new(Exchange::new(sources, workers, pairs));
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::block::{PacketBlock, PacketMeta, Pulled};
    use crate::worker::Step;

    /// Hands on empty frames for ever, and panics once after some blocks.
    struct Panics(u32);

    impl PacketSource for Panics {
        fn fill(&mut self, block: &mut PacketBlock) -> Result<Pulled, SourceError> {
            self.0 = self.0.wrapping_sub(1);
            assert!(self.0 > 0, "this is the panic of the test");
            block.clear();
            let link = weir_wire::packet::LinkType::Ethernet;
            block.push(PacketMeta { time_us: 0, offset: 0, captured: 0, length: 0, interface: 0, link }, &[]);
            Ok(Pulled::Packets)
        }

        fn interfaces(&self) -> &[Interface] {
            &[]
        }

        fn counts(&self) -> SourceCounts {
            SourceCounts::default()
        }
    }

    #[test]
    fn workers_do_not_wait_for_one_that_panicked() {
        let (_, workers) = Metering::new(&MeterOptions::default(), vec![Box::new(Panics(20))], 3);
        let run = |mut worker: Worker| thread::spawn(move || while worker.step(&mut |_| {}) != Step::Ended {});
        let threads: Vec<_> = workers.into_iter().map(run).collect();
        let panicked = threads.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
        assert_eq!(panicked, 1);
    }
}
