//! The key that both sides of a conversation share, and the side of a row.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use arrow::array::{TimestampMillisecondArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use weir_chain::ComponentError;
use weir_flow::Column;

use super::flows::Record;
use weir_rows::flow_columns::{number, numbers, octets, value};
use weir_rows::gather::{self, Pick};

/// Columns of the key: those of flows as they are, and those of [`Sides::of`].
pub(super) const KEYS: [&str; 6] = ["exporter", "observation_domain", "protocol", "first_addr", "second_addr", "ports"];

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Types of requests and of the replies to them: RFC 792, RFC 950, RFC 4443.
const ICMP_PAIRS: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
const ICMPV6_PAIRS: [(u8, u8); 1] = [(128, 129)];

/// The side of a conversation that a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowSide {
    /// From the first end to the second.
    There,
    /// From the second end to the first. `is_reply`: the row of the other side is the request.
    Back { is_reply: bool },
    /// Both sides in one row.
    Bidirectional,
    /// No row can be of the other side.
    None,
}

impl FlowSide {
    /// Whether two rows of the same key are of opposite sides.
    pub(super) fn is_opposite(self, other: Self) -> bool {
        matches!((self, other), (Self::There, Self::Back { .. }) | (Self::Back { .. }, Self::There))
    }
}

/// The columns that are read.
pub(super) struct Columns<'a> {
    src_addr: Option<&'a BinaryArray>,
    dst_addr: Option<&'a BinaryArray>,
    src_port: Option<&'a UInt16Array>,
    dst_port: Option<&'a UInt16Array>,
    protocol: Option<&'a UInt8Array>,
    icmp_type: Option<&'a UInt8Array>,
    icmp_type_code: Option<&'a UInt16Array>,
    end: Option<&'a TimestampMillisecondArray>,
    bytes: Option<&'a UInt64Array>,
    packets: Option<&'a UInt64Array>,
    tcp_flags: Option<&'a UInt16Array>,
    bytes_reverse: Option<&'a UInt64Array>,
    packets_reverse: Option<&'a UInt64Array>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(rows: &'a RecordBatch) -> Result<Self, ComponentError> {
        Ok(Self {
            src_addr: octets(rows, Column::SrcAddr)?,
            dst_addr: octets(rows, Column::DstAddr)?,
            src_port: numbers(rows, Column::SrcPort)?,
            dst_port: numbers(rows, Column::DstPort)?,
            protocol: numbers(rows, Column::Protocol)?,
            icmp_type: numbers(rows, Column::IcmpType)?,
            icmp_type_code: numbers(rows, Column::IcmpTypeCode)?,
            end: numbers(rows, Column::End)?,
            bytes: numbers(rows, Column::Bytes)?,
            packets: numbers(rows, Column::Packets)?,
            tcp_flags: numbers(rows, Column::TcpFlags)?,
            bytes_reverse: numbers(rows, Column::BytesReverse)?,
            packets_reverse: numbers(rows, Column::PacketsReverse)?,
        })
    }

    pub(super) fn record(&self, row: usize, start: i64, arrival: u64, pick: Pick) -> Record {
        Record {
            start,
            arrival,
            pick,
            end: number(self.end, row),
            bytes: number(self.bytes, row),
            packets: number(self.packets, row),
            tcp_flags: number(self.tcp_flags, row),
            dst_port: number(self.dst_port, row).unwrap_or(0),
        }
    }

    /// The side of a row, and both ports of its key in one number.
    fn side(&self, row: usize) -> (FlowSide, u32) {
        if number(self.bytes_reverse, row).or(number(self.packets_reverse, row)).is_some() {
            return (FlowSide::Bidirectional, 0);
        }
        let (Some(src), Some(dst)) = (value(self.src_addr, row), value(self.dst_addr, row)) else {
            return (FlowSide::None, 0);
        };
        match number(self.protocol, row) {
            Some(ICMP) => self.icmp_side(row, &ICMP_PAIRS),
            Some(ICMPV6) => self.icmp_side(row, &ICMPV6_PAIRS),
            _ => {
                let src_port = number(self.src_port, row).unwrap_or(0);
                let dst_port = number(self.dst_port, row).unwrap_or(0);
                let ports = |first, second| u32::from(first) << 16 | u32::from(second);
                match (src, src_port).cmp(&(dst, dst_port)) {
                    std::cmp::Ordering::Less => (FlowSide::There, ports(src_port, dst_port)),
                    std::cmp::Ordering::Greater => (FlowSide::Back { is_reply: false }, ports(dst_port, src_port)),
                    std::cmp::Ordering::Equal => (FlowSide::None, 0),
                }
            }
        }
    }

    /// The first end of an ICMP exchange is the sender of the request; the type of the request replaces the ports.
    fn icmp_side(&self, row: usize, pairs: &[(u8, u8)]) -> (FlowSide, u32) {
        let upper = |type_code: u16| (type_code >> 8) as u8;
        let icmp_type = number(self.icmp_type, row)
            .or_else(|| number(self.icmp_type_code, row).map(upper))
            .or_else(|| number(self.dst_port, row).map(upper));
        for &(request, reply) in pairs {
            if icmp_type == Some(request) {
                return (FlowSide::There, u32::from(request));
            }
            if icmp_type == Some(reply) {
                return (FlowSide::Back { is_reply: true }, u32::from(request));
            }
        }
        (FlowSide::None, 0)
    }
}

/// Sides of the rows of one batch.
#[derive(Debug, Default)]
pub(super) struct Sides {
    sides: Vec<FlowSide>,
    picks: Vec<Pick>,
}

impl Sides {
    /// The side of a row of the last batch.
    pub(super) fn side(&self, row: usize) -> FlowSide {
        self.sides[row]
    }

    /// The columns of the key of these rows.
    pub(super) fn of(&mut self, rows: &RecordBatch, columns: &Columns) -> Result<RecordBatch, ComponentError> {
        let count = rows.num_rows();
        self.sides.clear();
        self.picks.clear();
        let mut ports = Vec::with_capacity(count);
        for row in 0..count {
            let (side, both) = columns.side(row);
            let is_back = matches!(side, FlowSide::Back { .. });
            self.sides.push(side);
            self.picks.push(Pick { batch: u32::from(is_back), row: row as u32 });
            ports.push(both);
        }
        let addresses = |column: Column| {
            let found = rows.column_by_name(column.name()).map(Arc::clone);
            found.unwrap_or_else(|| new_null_array(&DataType::Binary, count))
        };
        let (src, dst) = (addresses(Column::SrcAddr), addresses(Column::DstAddr));
        let there = ends(Arc::clone(&src), Arc::clone(&dst))?;
        let sorted = gather::interleave(&[there, ends(dst, src)?], &self.picks)?;
        let mut fields = sorted.schema().fields().to_vec();
        let mut key = sorted.columns().to_vec();
        fields.push(Arc::new(Field::new(KEYS[5], DataType::UInt32, true)));
        key.push(Arc::new(UInt32Array::from(ports)));
        for name in &KEYS[..3] {
            if let Some((place, field)) = rows.schema_ref().column_with_name(name) {
                fields.push(Arc::new(field.clone()));
                key.push(Arc::clone(rows.column(place)));
            }
        }
        batch(fields, key)
    }
}

fn ends(first: ArrayRef, second: ArrayRef) -> Result<RecordBatch, ComponentError> {
    let fields = [KEYS[3], KEYS[4]].map(|name| Arc::new(Field::new(name, DataType::Binary, true)));
    batch(fields.to_vec(), vec![first, second])
}

fn batch(fields: Vec<Arc<Field>>, columns: Vec<ArrayRef>) -> Result<RecordBatch, ComponentError> {
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| ComponentError::caused("keys cannot be put together", error))
}
