//! Flows that do not fit into one record of NetFlow v5, as several.
//!
//! A record of NetFlow v5 is of one direction, and its counters have 32 bits. A biflow (RFC 5103) becomes a flow for each
//! direction, and a flow over 2^32 - 1 octets or packets several with the same times, whose counters add up to its own.
//! What speaks against it is that a collector counts more flows than there were; left out, it would miss the traffic.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, UInt16Array, UInt64Array, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use arrow::error::ArrowError;
use weir_flow::icmp::{self, ICMP};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, FlowBatch};

use crate::carriage::carriage;
use crate::config::Version;

/// Most records that one direction of a flow becomes: 4 TiB, which take an hour at 10 Gbit/s. Counters come from elsewhere
/// and may be anything; what is over it is refused, as any value that does not fit.
const RECORDS_PER_FLOW_MAX: u32 = 1_024;

/// A record of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    row: usize,
    is_reverse: bool,
    /// Its place among the records of this direction, and how many these are.
    index: u32,
    of: u32,
}

impl Part {
    /// What it has of a counter. No part has more than its share, rounded up.
    fn share(self, total: u64) -> u64 {
        let up_to = |parts: u32| (u128::from(total) * u128::from(parts) / u128::from(self.of)) as u64;
        up_to(self.index + 1) - up_to(self.index)
    }
}

/// The columns that decide how many records a flow is.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    rows: usize,
    /// Octets and packets of this direction, and of the opposite one.
    counters: [[Option<&'a UInt64Array>; 2]; 2],
    flags: Option<&'a UInt16Array>,
    times: [Option<&'a PrimitiveArray<TimestampMillisecondType>>; 2],
}

impl<'a> Parts<'a> {
    /// The parts of these flows; `None` when each flow is one record.
    pub(crate) fn of(flows: &'a FlowBatch, version: Version) -> Option<Self> {
        if version != Version::V5 {
            return None;
        }
        let counters = |columns: [Column; 2]| columns.map(|column| flows.primitive::<UInt64Type>(column));
        let parts = Self {
            rows: flows.rows(),
            counters: [
                counters([Column::Bytes, Column::Packets]),
                counters([Column::BytesReverse, Column::PacketsReverse]),
            ],
            flags: flows.primitive::<UInt16Type>(Column::TcpFlagsReverse),
            times: [Column::StartReverse, Column::EndReverse].map(|column| flows.primitive(column)),
        };
        (0..parts.rows).any(|row| parts.has_reverse(row) || parts.records(row, false) > 1).then_some(parts)
    }

    /// All of them, in the order of the flows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Part> {
        let directions = move |row| {
            let reverse = self.has_reverse(row).then_some(true);
            [false].into_iter().chain(reverse).map(move |is_reverse| (row, is_reverse))
        };
        (0..self.rows).flat_map(directions).flat_map(move |(row, is_reverse)| {
            let of = self.records(row, is_reverse);
            (0..of).map(move |index| Part { row, is_reverse, index, of })
        })
    }

    /// Whether anything is known of the opposite direction. One without packets is none, whatever its other fields have.
    fn has_reverse(&self, row: usize) -> bool {
        let [octets, packets] = self.counters[1].map(|counter| value(counter, row));
        match (octets, packets) {
            (None, None) => {
                value(self.flags, row).is_some() || self.times.iter().any(|time| value(*time, row).is_some())
            }
            _ => octets > Some(0) || packets > Some(0),
        }
    }

    /// How many records a direction of a flow becomes.
    fn records(&self, row: usize, is_reverse: bool) -> u32 {
        let counters = self.counters[usize::from(is_reverse)].iter();
        let largest = counters.filter_map(|counter| value(*counter, row)).max().unwrap_or(0);
        let records = largest.div_ceil(u32::MAX.into()).max(1);
        u32::try_from(records).ok().filter(|records| *records <= RECORDS_PER_FLOW_MAX).unwrap_or(1)
    }
}

/// A batch in which each of these parts is a flow, with the columns that NetFlow v5 has a field for; `None` when Arrow
/// cannot make it.
pub(crate) fn batch_of(flows: &FlowBatch, parts: &[Part]) -> Option<FlowBatch> {
    let mut columns = Vec::new();
    for column in Column::ALL.iter().copied().filter(|column| carriage(Version::V5, *column).is_some()) {
        let counterpart = counterpart(column);
        if flows.column(column).is_none() && counterpart.is_none_or(|reverse| flows.column(reverse).is_none()) {
            continue;
        }
        let values = match column {
            Column::Bytes | Column::Packets => shares(flows, column, parts)?,
            _ => values(flows, column, parts).ok()?,
        };
        columns.push((column, values));
    }
    FlowBatch::from_columns(parts.len(), columns).ok()
}

/// The column that has a value of the opposite direction: what it is for the other end, or for the packets that come back.
/// `None` where nothing says what it is.
fn counterpart(column: Column) -> Option<Column> {
    Some(match column {
        Column::SrcAddr => Column::DstAddr,
        Column::DstAddr => Column::SrcAddr,
        Column::SrcPort => Column::DstPort,
        Column::DstPort => Column::SrcPort,
        Column::InIf => Column::OutIf,
        Column::OutIf => Column::InIf,
        Column::SrcAs => Column::DstAs,
        Column::DstAs => Column::SrcAs,
        Column::SrcMask => Column::DstMask,
        Column::DstMask => Column::SrcMask,
        Column::Bytes => Column::BytesReverse,
        Column::Packets => Column::PacketsReverse,
        Column::TcpFlags => Column::TcpFlagsReverse,
        Column::Start => Column::StartReverse,
        Column::End => Column::EndReverse,
        Column::NextHop => return None,
        // of both directions (RFC 5103 section 4)
        other => other,
    })
}

/// Octets or packets of each part.
fn shares(flows: &FlowBatch, column: Column, parts: &[Part]) -> Option<ArrayRef> {
    let reverse = flows.primitive::<UInt64Type>(counterpart(column)?);
    let forward = flows.primitive::<UInt64Type>(column);
    let share = |part: &Part| {
        let total = value(if part.is_reverse { reverse } else { forward }, part.row)?;
        Some(part.share(total))
    };
    Some(Arc::new(parts.iter().map(share).collect::<UInt64Array>()))
}

/// Any other values of each part.
fn values(flows: &FlowBatch, column: Column, parts: &[Part]) -> Result<ArrayRef, ArrowError> {
    let null = new_null_array(&arrow_type(column.column_type()), 1);
    let forward = flows.column(column).unwrap_or(&null);
    let reverse = counterpart(column).and_then(|column| flows.column(column)).unwrap_or(&null);
    let is_null = |array: &ArrayRef, row: usize| row >= array.len() || array.is_null(row);
    let is_time = matches!(column, Column::Start | Column::End);
    let is_port = matches!(column, Column::SrcPort | Column::DstPort);
    // a biflow whose directions have no times of their own has them for both (RFC 5103 section 4), and ports of ICMP are of
    // no ends
    let is_of_both = |row: usize| (is_time && is_null(reverse, row)) || (is_port && is_icmp(flows, row));
    let place = |part: &Part| {
        let (place, array) = if part.is_reverse && !is_of_both(part.row) { (1, reverse) } else { (0, forward) };
        if is_null(array, part.row) { (2, 0) } else { (place, part.row) }
    };
    let places: Vec<(usize, usize)> = parts.iter().map(place).collect();
    let values = interleave(&[forward.as_ref(), reverse.as_ref(), null.as_ref()], &places)?;
    Ok(if column == Column::DstPort { answered(flows, parts, &values) } else { values })
}

fn is_icmp(flows: &FlowBatch, row: usize) -> bool {
    value(flows.primitive::<UInt8Type>(Column::Protocol), row) == Some(ICMP)
}

/// Destination ports, in which ICMP has type and code: of what comes back, those of the answer.
fn answered(flows: &FlowBatch, parts: &[Part], ports: &ArrayRef) -> ArrayRef {
    let Some(ports) = ports.as_primitive_opt::<UInt16Type>() else { return Arc::clone(ports) };
    let of_part = |(part, port): (&Part, Option<u16>)| {
        let [kind, _] = port?.to_be_bytes();
        let answer = icmp::answer(ICMP, kind).filter(|_| part.is_reverse && is_icmp(flows, part.row));
        answer.map(|kind| u16::from_be_bytes([kind, 0])).or(port)
    };
    Arc::new(parts.iter().zip(ports).map(of_part).collect::<UInt16Array>())
}

fn value<T: ArrowPrimitiveType>(values: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    values.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}
