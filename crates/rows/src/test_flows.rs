//! Flows of a few columns as plain structures, for naive models to work with.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use proptest::prelude::*;
use weir_flow::{Column, FlowBatchBuilder};

/// A flow, any value of which may be null.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestFlow {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub exporter: Option<Vec<u8>>,
    pub key: TestKey,
    pub tcp_flags: Option<u16>,
    pub tos: Option<u8>,
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
}

/// The five values that identify a flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct TestKey {
    pub src_addr: Option<Vec<u8>>,
    pub dst_addr: Option<Vec<u8>>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    pub protocol: Option<u8>,
}

impl TestKey {
    /// The key of the opposite direction.
    #[allow(dead_code)]
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            src_addr: self.dst_addr.clone(),
            dst_addr: self.src_addr.clone(),
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }
}

/// Few addresses, so that they meet: of both families, the same octets short and long, odd lengths, none.
pub fn address() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        8 => (0..2u8).prop_map(|last| Some(vec![10, 0, 0, last])),
        4 => (0..2u8).prop_map(|last| Some([&[0x20, 1, 0xd, 0xb8], &[0; 11][..], &[last]].concat())),
        1 => Just(Some([&[10, 0, 0, 0], &[0; 12][..]].concat())),
        1 => Just(Some(vec![10, 0, 0, 0, 0, 0])),
        1 => Just(Some(vec![])),
        1 => Just(None),
    ]
}

/// Few keys.
pub fn key() -> impl Strategy<Value = TestKey> {
    let port = || prop_oneof![9 => (0..2u16).prop_map(Some), 1 => Just(None)];
    let protocol = prop_oneof![9 => Just(Some(6)), 1 => Just(Some(17)), 1 => Just(None)];
    (address(), address(), port(), port(), protocol).prop_map(|(src_addr, dst_addr, src_port, dst_port, protocol)| {
        TestKey { src_addr, dst_addr, src_port, dst_port, protocol }
    })
}

/// Flows with any key, whose other values the caller chooses.
pub fn flow(start: impl Strategy<Value = Option<i64>>) -> impl Strategy<Value = TestFlow> {
    let duration = prop_oneof![3 => Just(0), 5 => 0..4_000i64, 1 => 0..40_000i64, 1 => -5..0i64];
    let count = || prop_oneof![9 => (1..9u64).prop_map(Some), 1 => Just(None)];
    let flags = proptest::option::weighted(0.8, (0..5u16).prop_map(|bit| 1 << bit));
    let tos = proptest::option::weighted(0.8, 0..3u8);
    let exporter = prop_oneof![Just(Some(vec![192, 0, 2, 1])), Just(Some(vec![192, 0, 2, 2])), Just(None)];
    let end_is_there = proptest::bool::weighted(0.95);
    (key(), start, duration, end_is_there, count(), count(), flags, tos, exporter).prop_map(
        |(key, start, duration, end_is_there, packets, bytes, tcp_flags, tos, exporter)| TestFlow {
            key,
            end: start.filter(|_| end_is_there).map(|start| start + duration),
            start,
            exporter,
            tcp_flags,
            tos,
            packets,
            bytes,
        },
    )
}

/// The flows as a batch; columns without a value are absent.
pub fn batch(flows: &[TestFlow]) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(flows.len());
    for flow in flows {
        builder.begin_rows(1);
        let times = [(Column::Start, flow.start), (Column::End, flow.end)];
        let octets = [
            (Column::Exporter, &flow.exporter),
            (Column::SrcAddr, &flow.key.src_addr),
            (Column::DstAddr, &flow.key.dst_addr),
        ];
        let ports = [
            (Column::SrcPort, flow.key.src_port),
            (Column::DstPort, flow.key.dst_port),
            (Column::TcpFlags, flow.tcp_flags),
        ];
        let small = [(Column::Protocol, flow.key.protocol), (Column::Tos, flow.tos)];
        let counts = [(Column::Packets, flow.packets), (Column::Bytes, flow.bytes)];
        times.iter().filter(|t| t.1.is_some()).for_each(|t| builder.time(t.0).push(t.1));
        octets.iter().filter(|o| o.1.is_some()).for_each(|o| builder.address(o.0).push(o.1.as_deref()));
        ports.iter().filter(|p| p.1.is_some()).for_each(|p| builder.u16(p.0).push(p.1));
        small.iter().filter(|s| s.1.is_some()).for_each(|s| builder.u8(s.0).push(s.1));
        counts.iter().filter(|c| c.1.is_some()).for_each(|c| builder.u64(c.0).push(c.1));
    }
    builder.finish().record_batch().clone()
}

/// The flows of a batch with every column, in the order of the schema; absent columns are null.
pub fn full_batch(flows: &[TestFlow]) -> RecordBatch {
    let every = TestFlow {
        start: Some(0),
        end: Some(0),
        exporter: Some(vec![1]),
        key: TestKey {
            src_addr: Some(vec![1]),
            dst_addr: Some(vec![1]),
            src_port: Some(1),
            dst_port: Some(1),
            protocol: Some(1),
        },
        tcp_flags: Some(1),
        tos: Some(1),
        packets: Some(1),
        bytes: Some(1),
    };
    let all: Vec<TestFlow> = flows.iter().cloned().chain([every]).collect();
    batch(&all).slice(0, flows.len())
}

/// The flows of a batch.
pub fn flows(batch: &RecordBatch) -> Vec<TestFlow> {
    let time = |row, name: &str| {
        let column = batch.column_by_name(name)?.as_primitive::<TimestampMillisecondType>();
        column.is_valid(row).then(|| column.value(row))
    };
    let octets = |row, name: &str| {
        let column = batch.column_by_name(name)?.as_binary::<i32>();
        column.is_valid(row).then(|| column.value(row).to_vec())
    };
    let byte = |row, name: &str| {
        let column = batch.column_by_name(name)?.as_primitive::<UInt8Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let short = |row, name: &str| {
        let column = batch.column_by_name(name)?.as_primitive::<UInt16Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let flow = |row| TestFlow {
        start: time(row, "start"),
        end: time(row, "end"),
        exporter: octets(row, "exporter"),
        key: TestKey {
            src_addr: octets(row, "src_addr"),
            dst_addr: octets(row, "dst_addr"),
            src_port: short(row, "src_port"),
            dst_port: short(row, "dst_port"),
            protocol: byte(row, "protocol"),
        },
        tcp_flags: short(row, "tcp_flags"),
        tos: byte(row, "tos"),
        packets: count(batch, row, "packets"),
        bytes: count(batch, row, "bytes"),
    };
    (0..batch.num_rows()).map(flow).collect()
}

/// A count of a row.
pub fn count(batch: &RecordBatch, row: usize, name: &str) -> Option<u64> {
    let column = batch.column_by_name(name)?.as_primitive::<UInt64Type>();
    column.is_valid(row).then(|| column.value(row))
}

/// Runs a transform over flows that are cut into batches at these rows, inputs in turn, and returns all rows it hands on.
pub fn run(block: &mut dyn weir_chain::Transform, inputs: &[Vec<RecordBatch>]) -> Vec<RecordBatch> {
    let mut out = weir_chain::Outlet::new();
    let longest = inputs.iter().map(Vec::len).max().unwrap_or_default();
    for at in 0..longest {
        for (input, batches) in inputs.iter().enumerate() {
            if let Some(batch) = batches.get(at).filter(|batch| batch.num_rows() > 0) {
                block.take(input, batch.clone(), &mut out).expect("rows are taken");
            }
        }
    }
    for input in 0..inputs.len() {
        block.end(input, &mut out).expect("an input ends");
    }
    block.finish(&mut out).expect("the block finishes");
    assert_eq!(block.state().rows, 0, "nothing is held at the end");
    out.drain().map(|burst| burst.rows().clone()).collect()
}
