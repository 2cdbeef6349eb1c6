//! Joined flows as columns.

use weir_chain::Outlet;
use weir_flow::{Column, FlowBatchBuilder};

use super::table::{Flow, More};
use crate::five_tuple::{self, turned};

/// What joined flows have beside the key and the sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Counts of the other direction.
    pub both_ways: bool,
    /// The exporter.
    pub exporters: bool,
}

/// Flows that have left and are not handed on yet.
pub(super) struct Output {
    shape: Shape,
    flows: Vec<Flow>,
    /// As many as flows, or none.
    more: Vec<More>,
}

/// Rows of a batch that is handed on.
const BATCH_ROWS: usize = 8192;

impl Output {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, flows: Vec::new(), more: Vec::new() }
    }

    pub(super) fn add(&mut self, flow: &Flow, more: Option<&More>) {
        self.flows.push(*flow);
        self.more.extend(more);
    }

    pub(super) fn hand_on(&mut self, out: &mut Outlet) {
        for (at, flows) in self.flows.chunks(BATCH_ROWS).enumerate() {
            let from = at * BATCH_ROWS;
            let more = self.more.get(from..from + flows.len()).unwrap_or_default();
            out.flows(self.batch(flows, more));
        }
        self.flows.clear();
        self.more.clear();
    }

    fn batch(&self, flows: &[Flow], more: &[More]) -> weir_flow::FlowBatch {
        let mut builder = FlowBatchBuilder::new(flows.len());
        builder.begin_rows(flows.len());
        builder.time(Column::Start).extend(flows.iter().map(|flow| flow.start_ms));
        builder.time(Column::End).extend(flows.iter().map(|flow| flow.end_ms));
        if self.shape.exporters {
            for more in more {
                let [high, low, len] = more.exporter;
                let octets = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
                builder.address(Column::Exporter).push((len > 0).then(|| &octets[..len as usize - 1]));
            }
        }
        let key = |flow: &Flow| if flow.is_turned { turned(&flow.key) } else { flow.key };
        five_tuple::append(&mut builder, flows.iter().map(key));
        builder.u16(Column::TcpFlags).extend(flows.iter().map(|flow| flow.tcp_flags));
        builder.u64(Column::Packets).extend(flows.iter().map(|flow| flow.packets));
        builder.u64(Column::Bytes).extend(flows.iter().map(|flow| flow.bytes));
        if self.shape.both_ways {
            builder.u64(Column::BytesReverse).extend(more.iter().map(|more| more.bytes_reverse));
            builder.u64(Column::PacketsReverse).extend(more.iter().map(|more| more.packets_reverse));
        }
        builder.u64(Column::Flows).extend(flows.iter().map(|flow| flow.flows.into()));
        builder.finish()
    }
}
