//! Flows as exporters send them: NetFlow v5, NetFlow v9 and IPFIX over UDP.
//!
//! The threads that receive and decode are those of `weir-collect`. They never wait for the chain: what finds a full
//! queue is dropped and counted there. This block takes deliveries from them, one burst each, because flows and the
//! lines of the books that account for them must not be parted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use weir_chain::{
    BlockContext, BlockError, BlockKind, Built, Burst, Opener, Outlet, ParameterError, ParameterSpec, ParameterType,
    Parameters, Pulled, Role, Source,
};
use weir_collect::{Collected, CollectorOptions, SocketInfo};
use weir_flow::Delivery;

use crate::decoded::DecodedCounters;
use crate::decoder_limits;

const LIMITS: [ParameterSpec; 5] = decoder_limits::SPECS;

/// Receives flows from exporters.
pub const KIND: BlockKind = BlockKind {
    name: "collector",
    role: Role::Source,
    inputs: &[],
    doc: "Receives NetFlow v5, NetFlow v9 and IPFIX over UDP and hands on the flows together with the books of what was \
          received. Flows have the columns that exporters fill, and received, exporter, observation_domain and \
          export_version. Flows of one exporter come in the order in which they were received; those of exporters at \
          different sockets in any order. Receiving never waits for the chain: when queues are full, datagrams are \
          dropped and counted in queue_drops, and what the kernel drops in kernel_drops. When the chain is stopped, \
          what the kernel and the queues still hold is handed on first, for at most 5 seconds of receiving. Every \
          counter of the books is a counter of this block; decoding errors are counted by their names.",
    parameters: &[
        ParameterSpec {
            key: "listen",
            parameter_type: ParameterType::Text,
            default: Some("\"127.0.0.1:2055\""),
            doc: "Address and port to listen on; port 0 takes a free one, and [::]:2055 takes IPv4 as well.",
        },
        ParameterSpec {
            key: "sockets",
            parameter_type: ParameterType::Integer(1, 256),
            default: Some("1"),
            doc: "Sockets that share the port, each with a thread that receives and one that decodes; the kernel spreads \
                  exporters over them.",
        },
        ParameterSpec {
            key: "buffer_octets",
            parameter_type: ParameterType::Integer(4096, 1 << 31),
            default: Some("67108864"),
            doc: "Receive buffer to ask the kernel for, per socket.",
        },
        ParameterSpec {
            key: "datagram_bursts_max",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("256"),
            doc: "Bursts of up to 64 datagrams that wait between a socket and its decoder; beyond it datagrams are \
                  dropped and counted in queue_drops.",
        },
        ParameterSpec {
            key: "deliveries_max",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("8"),
            doc: "Deliveries that wait between the decoders and the chain; when there are so many, decoders wait.",
        },
        ParameterSpec {
            key: "delivery_rows_max",
            parameter_type: ParameterType::Integer(1, 65_536),
            default: Some("32768"),
            doc: "Flows of a delivery, about.",
        },
        ParameterSpec {
            key: "delivery_interval_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("0.2"),
            doc: "Longest time that a flow waits for others to join its delivery.",
        },
        LIMITS[0],
        LIMITS[1],
        LIMITS[2],
        LIMITS[3],
        LIMITS[4],
    ],
    configure,
};

/// Longest time to wait for a delivery.
const WAIT: Duration = Duration::from_millis(100);

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let options = options(parameters)?;
    Ok(Box::new(move |context| {
        let collector =
            weir_collect::Collector::start(&options).map_err(|error| BlockError::caused("cannot collect", error))?;
        tell_sockets(collector.sockets(), context);
        let counters = DecodedCounters::new(&context.meter);
        Ok(Built::Source(Box::new(Collector { collector, counters })))
    }))
}

fn options(parameters: &Parameters) -> Result<CollectorOptions, ParameterError> {
    let text = parameters.text("listen");
    let Ok(listen) = text.parse::<SocketAddr>() else {
        let message = format!("'{text}' is not an address and a port");
        return Err(ParameterError::new("listen", message).with_hint("write them like 127.0.0.1:2055 or [::]:2055"));
    };
    Ok(CollectorOptions {
        sockets: parameters.integer("sockets") as usize,
        buffer_octets: parameters.integer("buffer_octets") as usize,
        queue_bursts_max: parameters.integer("datagram_bursts_max") as usize,
        queue_deliveries_max: parameters.integer("deliveries_max") as usize,
        delivery_rows_max: parameters.integer("delivery_rows_max") as usize,
        delivery_interval: parameters.duration("delivery_interval_secs"),
        limits: decoder_limits::read(parameters),
        ..CollectorOptions::new(listen)
    })
}

fn tell_sockets(sockets: &[SocketInfo], context: &BlockContext) {
    let Some(first) = sockets.first() else { return };
    context.notes.add(format!(
        "listening on {} with {} sockets, receive buffer {} KiB each",
        first.local,
        sockets.len(),
        first.buffer_octets_granted / 1024
    ));
    if first.buffer_octets_granted < first.buffer_octets_asked {
        context.notes.add(format!(
            "warning: asked for a receive buffer of {} KiB\nhint: sysctl -w net.core.rmem_max={}",
            first.buffer_octets_asked / 1024,
            first.buffer_octets_asked
        ));
    }
}

struct Collector {
    collector: weir_collect::Collector,
    counters: DecodedCounters,
}

impl Source for Collector {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, BlockError> {
        let collected = self.collector.next(WAIT);
        match collected {
            Ok(Collected::Delivery(delivery)) => {
                self.counters.update(&self.collector.statistics());
                out.burst(burst(delivery));
                Ok(Pulled::More)
            }
            Ok(Collected::Nothing) => {
                self.counters.update(&self.collector.statistics());
                Ok(Pulled::Nothing)
            }
            Ok(Collected::Ended) => {
                self.counters.end(&self.collector.statistics());
                Ok(Pulled::Ended)
            }
            Err(error) => {
                self.counters.end(&self.collector.statistics());
                Err(BlockError::caused("cannot go on collecting", error))
            }
        }
    }

    fn stop(&mut self) {
        self.collector.stop();
    }
}

/// A delivery as a burst, which may have lines of the books and no flows.
pub(crate) fn burst(delivery: Delivery) -> Burst {
    let rows = match delivery.flows {
        Some(flows) => flows.record_batch().clone(),
        None => RecordBatch::new_empty(Arc::new(Schema::empty())),
    };
    Burst::with_books(rows, delivery.books)
}

#[cfg(test)]
mod tests;
