//! Receives export datagrams and hands on their flows with the books.
//!
//! A thin shell around [`weir_collect::Collector`], whose threads receive and decode: the thread of this block only
//! takes what they have ready, so that nothing in the chain can reach back to a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use weir_chain::{
    BlockContext, BlockError, BlockKind, Built, Burst, Counter, Opener, Outlet, ParameterError, ParameterSpec,
    ParameterType, Parameters, Pulled, Role, Source,
};
use weir_collect::{Collector, CollectorOptions, DecoderStatistics, Next, SocketInfo};
use weir_flow::{Counter as BooksCounter, Delivery};

/// A live collector.
pub const KIND: BlockKind = BlockKind {
    name: "collector",
    role: Role::Source,
    inputs: &[],
    doc: "Receives NetFlow v5, NetFlow v9 and IPFIX over UDP. It hands on flows, in the order in which each socket \
          received them, together with the lines of the books that account for them. What does not fit into its queue \
          is dropped there and counted in queue_drops, what the kernel drops in kernel_drops. When the chain stops, it \
          hands on what the kernel still holds first. Its counters are those of the books, and one for each kind of \
          decoding error.",
    parameters: &[
        ParameterSpec {
            key: "listen",
            parameter_type: ParameterType::Text,
            default: Some("\"127.0.0.1:2055\""),
            doc: "Address and port to listen on; port 0 takes a free one.",
        },
        ParameterSpec {
            key: "sockets",
            parameter_type: ParameterType::Integer(1, 1024),
            default: Some("1"),
            doc: "Sockets that share the port, each with a thread that receives and one that decodes.",
        },
        ParameterSpec {
            key: "buffer_octets",
            parameter_type: ParameterType::Integer(1, 1 << 40),
            default: Some("67108864"),
            doc: "Receive buffer to ask the kernel for, per socket.",
        },
        ParameterSpec {
            key: "queue_datagram_bursts",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("256"),
            doc: "Bursts of up to 64 datagrams between a socket and its decoder.",
        },
        ParameterSpec {
            key: "queue_deliveries",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("8"),
            doc: "Deliveries of some 32768 flows between the decoders and the chain.",
        },
    ],
    configure,
};

/// Longest time that the block waits for a delivery.
const WAIT: Duration = Duration::from_millis(100);

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let listen = parameters.text("listen");
    let listen: SocketAddr = listen.parse().map_err(|_| {
        ParameterError::new("listen", format!("'{listen}' is no address and port")).with_hint("write 127.0.0.1:2055")
    })?;
    let options = CollectorOptions {
        sockets: parameters.integer("sockets") as usize,
        buffer_octets: parameters.integer("buffer_octets") as usize,
        queue_bursts_max: parameters.integer("queue_datagram_bursts") as usize,
        queue_deliveries_max: parameters.integer("queue_deliveries") as usize,
        ..CollectorOptions::new(listen)
    };
    Ok(Box::new(move |context| {
        let collector = Collector::start(&options).map_err(|error| BlockError::caused("cannot collect", error))?;
        tell(collector.sockets());
        Ok(Built::Source(Box::new(Live { collector, counters: Counters::new(context) })))
    }))
}

/// Scripts wait for this line, whatever is logged.
fn tell(sockets: &[SocketInfo]) {
    let Some(first) = sockets.first() else { return };
    eprintln!(
        "listening on {} with {} sockets, receive buffer {} KiB each",
        first.local,
        sockets.len(),
        first.buffer_octets_granted / 1024
    );
    if first.buffer_octets_granted < first.buffer_octets_asked {
        eprintln!(
            "asked for a receive buffer of {} KiB\nhint: sysctl -w net.core.rmem_max={}",
            first.buffer_octets_asked / 1024,
            first.buffer_octets_asked
        );
    }
}

struct Live {
    collector: Collector,
    counters: Counters,
}

impl Source for Live {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, BlockError> {
        let next = self.collector.next(WAIT);
        self.counters.set(&self.collector.statistics());
        match next {
            Ok(Next::Delivery(delivery)) => {
                out.burst(burst(delivery));
                Ok(Pulled::More)
            }
            Ok(Next::Nothing) => Ok(Pulled::Nothing),
            Ok(Next::Ended) => Ok(Pulled::Ended),
            Err(error) => Err(BlockError::caused("collecting ended", error)),
        }
    }

    fn stop(&mut self) {
        self.collector.stop();
    }
}

/// A delivery as a burst.
pub(crate) fn burst(delivery: Delivery) -> Burst {
    let rows = match delivery.flows {
        Some(flows) => flows.record_batch().clone(),
        None => RecordBatch::new_empty(Arc::new(Schema::empty())),
    };
    Burst::with_beside(rows, delivery.beside)
}

/// The counters of the books and of decoding errors as counters of a block.
#[derive(Debug)]
pub(crate) struct Counters {
    context: BlockContext,
    books: Vec<Counter>,
}

impl Counters {
    pub(crate) fn new(context: &BlockContext) -> Self {
        let books = BooksCounter::ALL.iter().map(|counter| context.meter.counter(counter.name())).collect();
        Self { context: context.clone(), books }
    }

    /// Brings the counters up to what decoders have seen.
    pub(crate) fn set(&self, decoders: &[DecoderStatistics]) {
        for (&counter, shown) in BooksCounter::ALL.iter().zip(&self.books) {
            raise(shown, decoders.iter().map(|decoder| decoder.total(counter)).sum());
        }
        let mut problems: Vec<(&'static str, u64)> = Vec::new();
        for &(label, count) in decoders.iter().flat_map(|decoder| &decoder.problems) {
            match problems.iter_mut().find(|(known, _)| *known == label) {
                Some((_, sum)) => *sum += count,
                None => problems.push((label, count)),
            }
        }
        // labels come from the decoder's own closed set
        for (label, sum) in problems {
            raise(&self.context.meter.counter(label), sum);
        }
    }
}

fn raise(counter: &Counter, to: u64) {
    counter.add(to.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use weir_chain::compliance;
    use weir_export::{ExporterConfig, Version};
    use weir_generate::{SendPlan, Stream, TrafficModel, send};

    use super::*;

    /// The compliance test takes a reference that lives as long as the program. It has no end of its own, so the test
    /// of sources cannot read it; what follows asks for the same.
    const COLLECTOR: &BlockKind = &KIND;

    #[test]
    fn what_was_sent_is_handed_on_with_its_books_before_it_ends() {
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let (Built::Source(mut source), context) =
            compliance::open(COLLECTOR, &format!("listen = '{free}'\nsockets = 2"))
        else {
            panic!("a source")
        };
        let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(20_000).expect("a model");
        let streams = [Version::V5, Version::V9, Version::Ipfix]
            .map(|version| Stream { source: None, config: ExporterConfig::new(version) });
        let plan = SendPlan { target: free, ..SendPlan::to_loopback(0) };
        let sent = send(&mut flows, &streams, &plan).expect("sent");
        source.stop();
        let (mut out, mut numbers, mut booked) = (Outlet::new(), Vec::new(), 0);
        let mut ended = false;
        while !ended {
            ended = source.pull(&mut out).expect("no failure") == Pulled::Ended;
            for burst in out.drain() {
                let (rows, beside) = burst.into_parts();
                let bytes =
                    rows.column_by_name("bytes").map(|bytes| bytes.as_primitive::<UInt64Type>().values().to_vec());
                numbers.extend(bytes.unwrap_or_default());
                let stored = beside.batches().filter_map(|(_, books)| books.column_by_name("records_stored"));
                booked += stored.flat_map(|stored| stored.as_primitive::<UInt64Type>().values()).sum::<u64>();
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20_000).collect::<Vec<_>>());
        let counter = |name| context.meter.counter(name).get();
        assert_eq!((booked, counter("records_stored"), counter("datagrams")), (20_000, 20_000, sent.datagrams));
    }
}
