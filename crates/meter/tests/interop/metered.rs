//! What the Metering Process makes of a source.

use std::thread;

use weir_capture::PacketSource;
use weir_flow::FlowBatch;
use weir_meter::{MeterCounts, MeterOptions, Metering, Step, Worker};

/// Flows, and what was counted.
pub(crate) struct Metered {
    pub(crate) batches: Vec<FlowBatch>,
    pub(crate) counts: MeterCounts,
}

/// Meters a source to its end, with as many threads as workers.
pub(crate) fn meter(source: Box<dyn PacketSource>, options: &MeterOptions, workers: usize) -> Metered {
    let (metering, made) = Metering::new(options, vec![source], workers);
    let batches = if made.len() == 1 {
        made.into_iter().flat_map(run).collect()
    } else {
        let threads: Vec<_> = made.into_iter().map(|worker| thread::spawn(move || run(worker))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a worker")).collect()
    };
    let failure = metering.take_failure();
    assert!(failure.is_none(), "{failure:?}");
    Metered { batches, counts: metering.counts() }
}

fn run(mut worker: Worker) -> Vec<FlowBatch> {
    let mut batches = Vec::new();
    while worker.step(&mut |batch| batches.push(batch)) != Step::Ended {}
    batches
}
