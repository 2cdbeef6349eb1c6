//! The flows of a capture by conversation.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use arrow::array::Array;
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use weir_flow::{Column, FlowBatch};
use weir_meter::{KeyFields, KeyHeaders, MeterOptions, Timeouts};

use crate::conversation::{Conversation, Side, Sides};
use crate::expected::Answer;
use crate::metered::meter;
use crate::source::capture;

/// A biflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) conversation: Conversation,
    /// Whether the lower end began.
    pub(crate) by_low: bool,
    pub(crate) sides: Sides,
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
    /// TCP control bits of what the source sent, and of what it was sent.
    pub(crate) tcp_flags: (u16, u16),
    pub(crate) vlan: Option<u16>,
}

pub(crate) type Flows = BTreeMap<Conversation, Vec<Flow>>;

/// The biflows of a capture as a program would have them, by its timeouts and keys.
pub(crate) fn flows(answer: &Answer, headers: KeyHeaders) -> Flows {
    let [tcp, others] = answer.timeouts;
    let mut flows = Flows::new();
    for (timeouts, is_tcp) in [(tcp, true), (others, false)] {
        for flow in metered(answer, headers, timeouts) {
            if (flow.conversation.protocol == 6) == is_tcp {
                flows.entry(answer.conversation(flow.conversation)).or_default().push(flow);
            }
        }
    }
    flows
}

fn metered(answer: &Answer, headers: KeyHeaders, timeouts: Timeouts) -> Vec<Flow> {
    let fields = KeyFields { tos: false, vlan: answer.by_vlan, interface: false, headers, ..KeyFields::default() };
    let options =
        MeterOptions { fields, is_biflow: true, timeouts, flows_max: 1 << 18, seed: 7, ..MeterOptions::default() };
    let metered = meter(capture(&answer.capture), &options, 1);
    assert!(metered.counts.balances(), "{}: {:?}", answer.name, metered.counts);
    metered.batches.iter().flat_map(of_batch).collect()
}

fn number<T: ArrowPrimitiveType>(batch: &FlowBatch, column: Column, row: usize) -> Option<T::Native> {
    let values = batch.primitive::<T>(column)?;
    values.is_valid(row).then(|| values.value(row))
}

fn address(batch: &FlowBatch, column: Column, row: usize) -> IpAddr {
    let octets = batch.binary(column).expect("addresses").value(row);
    let ipv4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    ipv4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).expect("an address")
}

fn of_batch(batch: &FlowBatch) -> Vec<Flow> {
    let flow = |row| {
        let port = |column| number::<UInt16Type>(batch, column, row).unwrap_or_default();
        let count = |column| number::<UInt64Type>(batch, column, row).unwrap_or_default();
        let flags = |column| number::<UInt16Type>(batch, column, row).unwrap_or_default();
        let time = |column| number::<TimestampMillisecondType>(batch, column, row).expect("a time");
        let source = SocketAddr::new(address(batch, Column::SrcAddr, row), port(Column::SrcPort));
        let destination = SocketAddr::new(address(batch, Column::DstAddr, row), port(Column::DstPort));
        let protocol = number::<UInt8Type>(batch, Column::Protocol, row).expect("a protocol");
        let icmp = number::<UInt8Type>(batch, Column::IcmpType, row);
        let (conversation, by_low) = Conversation::of(protocol, source, destination, icmp);
        let forward = Side { packets: count(Column::Packets), octets: count(Column::Bytes) };
        let backward = Side { packets: count(Column::PacketsReverse), octets: count(Column::BytesReverse) };
        Flow {
            conversation,
            by_low,
            sides: Conversation::sides(by_low, forward, backward),
            first_ms: time(Column::Start),
            last_ms: time(Column::End),
            tcp_flags: (flags(Column::TcpFlags), flags(Column::TcpFlagsReverse)),
            vlan: number::<UInt16Type>(batch, Column::SrcVlan, row),
        }
    };
    (0..batch.rows()).map(flow).collect()
}
