//! A Metering Process: workers and what they share.

use std::sync::Arc;

use crate::counts::MeterCounts;
use crate::exchange::Exchange;
use crate::options::MeterOptions;
use crate::worker::Worker;
use weir_capture::{Interface, PacketSource, SourceCounts, SourceError};

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

    /// Sources end soon, and workers when everything that came before is in flows that were delivered.
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

    /// The latest time of all packets that came, microseconds since the epoch. It waits for a source that is being read.
    pub fn latest_us(&self) -> i64 {
        self.exchange.latest_us()
    }

    /// The flows of all packets that had come when [`latest_us`](Self::latest_us) was not later than this were handed on by
    /// workers. It follows the time of packets by the active and the idle timeout, and moves on when batches are handed on.
    pub fn handed_on_through_us(&self) -> i64 {
        self.exchange.handed_on_through_us()
    }

    /// The interfaces that packets came by.
    pub fn interfaces(&self) -> Vec<Interface> {
        self.exchange.interfaces()
    }

    /// Why a source ended early; `None` when it was reported before.
    pub fn take_failure(&self) -> Option<SourceError> {
        self.exchange.take_failure()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::worker::Step;
    use weir_capture::{FillOutcome, PacketBlock, PacketMeta};

    /// Hands on empty frames for ever, and panics once after some blocks.
    struct Panics(u32);

    impl PacketSource for Panics {
        fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
            self.0 = self.0.wrapping_sub(1);
            assert!(self.0 > 0, "this is the panic of the test");
            block.clear();
            let link = weir_wire::packet::LinkType::Ethernet;
            block.push(PacketMeta { time_us: 0, offset: 0, captured: 0, length: 0, interface: 0, link }, &[]);
            Ok(FillOutcome::Packets)
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

    /// So many blocks of some frames, with a pause now and then; it may fail in the end.
    struct Uneven {
        left: u32,
        state: u64,
        fails: bool,
        given: Arc<std::sync::atomic::AtomicU64>,
        frame: Vec<u8>,
    }

    impl PacketSource for Uneven {
        fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
            block.clear();
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            if self.left == 0 {
                if self.fails {
                    return Err(SourceError::Unusable { what: "it".to_owned(), hint: None });
                }
                return Ok(FillOutcome::Ended);
            }
            self.left -= 1;
            if self.state.is_multiple_of(97) {
                thread::sleep(std::time::Duration::from_millis(3));
            }
            if self.state.is_multiple_of(11) {
                return Ok(FillOutcome::Nothing { clock_us: 5 });
            }
            let link = weir_wire::packet::LinkType::Ethernet;
            for number in 0..self.state % 40 {
                let length = self.frame.len();
                let (a, b) = ((self.state >> 8) as u8, number as u8);
                self.frame[length - 8..length - 6].copy_from_slice(&[a, b]);
                let frame =
                    if number == 7 && self.state.is_multiple_of(5) { &self.frame[..20] } else { &self.frame[..] };
                block.push(PacketMeta { time_us: 5, offset: 0, captured: 0, length: 60, interface: 0, link }, frame);
                self.given.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(FillOutcome::Packets)
        }

        fn interfaces(&self) -> &[Interface] {
            &[]
        }

        fn counts(&self) -> SourceCounts {
            SourceCounts::default()
        }
    }

    /// An Ethernet frame with UDP in IPv4.
    fn frame() -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([4, 0, 0, 53, 0, 8, 0, 0]);
        frame
    }

    #[test]
    fn every_packet_is_counted_once_with_any_sources_and_workers() {
        for round in 0..60_u64 {
            let workers = 1 + (round % 7) as usize;
            let each = round % 2 == 0;
            let given = Arc::new(std::sync::atomic::AtomicU64::new(0));
            let fails = round % 3 == 0;
            let source = |number: usize| -> Box<dyn PacketSource> {
                Box::new(Uneven {
                    left: if fails && number == 1 { 20 } else { [0, 3, 400][(round as usize + number) % 3] },
                    state: round * 77 + number as u64 + 1,
                    fails: fails && number == usize::from(each && workers > 1),
                    given: Arc::clone(&given),
                    frame: frame(),
                })
            };
            let sources = (0..if each { workers } else { 1 }).map(source).collect();
            let (metering, made) = Metering::new(&MeterOptions::default(), sources, workers);
            let (sender, receiver) = std::sync::mpsc::channel();
            for mut worker in made {
                let sender = sender.clone();
                thread::spawn(move || {
                    let mut packets = 0;
                    while worker.step(&mut |batch| {
                        let batch = batch.to_full();
                        let column = batch.column(weir_flow::Column::Packets as usize);
                        packets += arrow_sum(column);
                    }) != Step::Ended
                    {}
                    sender.send(packets).expect("a receiver");
                });
            }
            let mut packets = 0;
            for _ in 0..workers {
                packets += receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("it ends");
            }
            let counts = metering.counts();
            let given = given.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(counts.packets, given, "round {round}");
            let none: u64 = counts.not_flows.iter().sum();
            assert_eq!(packets + none, given, "round {round}: {counts:?}");
            assert_eq!(metering.take_failure().is_some(), fails, "round {round}");
        }
    }

    fn arrow_sum(column: &arrow::array::ArrayRef) -> u64 {
        use arrow::array::AsArray as _;
        column.as_primitive::<arrow::datatypes::UInt64Type>().iter().flatten().sum()
    }
}
