//! What the flows themselves show: their times, their sampling, and whether other exporters report the same.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::BuildHasher;

use arrow::array::{Array, BinaryArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, FlowBatch};

use super::exporters::duration;
use super::{Finding, FindingKind};

/// Flows that are remembered to find them again; of more, the first ones.
const FLOWS_MAX: usize = 1 << 18;
/// Packets that a flow must have so that its counts distinguish it from others.
const PACKETS_MIN: u64 = 3;
/// Flows reported twice from which on it is no accident.
const TWICE_MIN: u64 = 20;
/// Flows that last longer than this, milliseconds, show an active timeout that is longer still.
const LONG_MS: i64 = 300_000;
/// Long flows from which on it is no accident.
const LONG_MIN: u64 = 3;
/// Flows that end this long after they were received, milliseconds, end in the future.
const FUTURE_MS: i64 = 60_000;

/// What was seen of one exporter's flows.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Its number among the exporters.
    number: u32,
    flows: u64,
    start_after_end: u64,
    future: u64,
    future_max_ms: i64,
    long: u64,
    long_max_ms: i64,
    sampler_unknown: u64,
    both_directions: u64,
}

/// Looks at batches of flows.
#[derive(Debug, Default)]
pub(super) struct FlowInspection {
    exporters: BTreeMap<Vec<u8>, Seen>,
    /// Whose flow it was first: number of the exporter, direction, and whether it was met again.
    known: HashMap<u64, (u32, Option<u8>), foldhash::fast::RandomState>,
    numbers: Vec<Vec<u8>>,
    /// Flows that two exporters reported.
    twice: BTreeMap<(u32, u32), u64>,
}

/// The columns that are looked at.
struct Columns<'a> {
    exporter: Option<&'a BinaryArray>,
    received: Option<&'a PrimitiveArray<TimestampMillisecondType>>,
    start: Option<&'a PrimitiveArray<TimestampMillisecondType>>,
    end: Option<&'a PrimitiveArray<TimestampMillisecondType>>,
    packets: Option<&'a PrimitiveArray<UInt64Type>>,
    bytes: Option<&'a PrimitiveArray<UInt64Type>>,
    addresses: [Option<&'a BinaryArray>; 2],
    ports: [Option<&'a PrimitiveArray<UInt16Type>>; 2],
    protocol: Option<&'a PrimitiveArray<UInt8Type>>,
    direction: Option<&'a PrimitiveArray<UInt8Type>>,
    sampler: Option<&'a PrimitiveArray<UInt32Type>>,
    interval: Option<&'a PrimitiveArray<UInt32Type>>,
}

fn number<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}

fn octets(column: Option<&BinaryArray>, row: usize) -> Option<&[u8]> {
    column.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}

impl FlowInspection {
    pub(super) fn look(&mut self, batch: &FlowBatch) {
        let columns = Columns {
            exporter: batch.binary(Column::Exporter),
            received: batch.primitive(Column::Received),
            start: batch.primitive(Column::Start),
            end: batch.primitive(Column::End),
            packets: batch.primitive(Column::Packets),
            bytes: batch.primitive(Column::Bytes),
            addresses: [batch.binary(Column::SrcAddr), batch.binary(Column::DstAddr)],
            ports: [batch.primitive(Column::SrcPort), batch.primitive(Column::DstPort)],
            protocol: batch.primitive(Column::Protocol),
            direction: batch.primitive(Column::Direction),
            sampler: batch.primitive(Column::SamplerId),
            interval: batch.primitive(Column::SamplingInterval),
        };
        for row in 0..batch.rows() {
            let Some(exporter) = octets(columns.exporter, row) else { continue };
            if !self.exporters.contains_key(exporter) {
                let number = self.numbers.len() as u32;
                self.numbers.push(exporter.to_vec());
                self.exporters.insert(exporter.to_vec(), Seen { number, ..Seen::default() });
            }
            let number = self.exporters.get(exporter).map_or(0, |seen| seen.number);
            let both = self.is_known(&columns, number, row);
            if let Some(seen) = self.exporters.get_mut(exporter) {
                seen.both_directions += u64::from(both);
                seen.look(&columns, row);
            }
        }
    }

    /// Whether this exporter has reported the same flow for the other direction; notes when another exporter has.
    fn is_known(&mut self, columns: &Columns<'_>, this: u32, row: usize) -> bool {
        let Some(packets) = number(columns.packets, row).filter(|packets| *packets >= PACKETS_MIN) else {
            return false;
        };
        let key = (
            columns.addresses.map(|column| octets(column, row)),
            columns.ports.map(|column| number(column, row)),
            number(columns.protocol, row),
            packets,
            number(columns.bytes, row),
        );
        let hash = self.known.hasher().hash_one(key);
        let direction = number(columns.direction, row);
        match self.known.get(&hash) {
            Some(&(other, its_direction)) if other == this => direction.zip(its_direction).is_some_and(|(a, b)| a != b),
            Some(&(other, _)) => {
                *self.twice.entry((other, this)).or_insert(0) += 1;
                false
            }
            None => {
                if self.known.len() < FLOWS_MAX {
                    self.known.insert(hash, (this, direction));
                }
                false
            }
        }
    }

    pub(super) fn judge(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (exporter, seen) in &self.exporters {
            let address = weir_flow::address::to_ip(exporter);
            let found = seen.judge().into_iter().flatten();
            findings.extend(found.map(|(kind, evidence)| Finding::new(kind, address, None, evidence)));
        }
        for (&(one, other), &count) in &self.twice {
            let (Some(one), Some(other)) = (self.numbers.get(one as usize), self.numbers.get(other as usize)) else {
                continue;
            };
            let flows = self.exporters.get(other).map_or(0, |seen| seen.flows);
            if count >= TWICE_MIN && count * 10 >= flows {
                let first = weir_flow::AddressText(one);
                let evidence = format!("{count} of {flows} flows have the keys and counts of flows of {first}");
                findings.push(Finding::new(FindingKind::SeenTwice, weir_flow::address::to_ip(other), None, evidence));
            }
        }
        findings
    }
}

impl Seen {
    fn look(&mut self, columns: &Columns<'_>, row: usize) {
        self.flows += 1;
        let [start, end, received] = [columns.start, columns.end, columns.received].map(|column| number(column, row));
        if let Some((start, end)) = start.zip(end) {
            let length_ms = end.saturating_sub(start);
            self.start_after_end += u64::from(length_ms < 0);
            self.long += u64::from(length_ms > LONG_MS);
            self.long_max_ms = self.long_max_ms.max(length_ms);
        }
        if let Some((end, received)) = end.zip(received).filter(|(_, received)| *received > 0) {
            let ahead_ms = end.saturating_sub(received);
            self.future += u64::from(ahead_ms > FUTURE_MS);
            self.future_max_ms = self.future_max_ms.max(ahead_ms);
        }
        let sampler = number(columns.sampler, row).filter(|sampler| *sampler > 0);
        self.sampler_unknown += u64::from(sampler.is_some() && number(columns.interval, row).is_none());
    }

    fn judge(&self) -> [Option<(FindingKind, String)>; 5] {
        let all = self.flows;
        [
            (self.start_after_end > 0)
                .then(|| (FindingKind::StartAfterEnd, format!("{} of {all} flows", self.start_after_end))),
            (self.future > 0).then(|| {
                let most = duration(self.future_max_ms);
                (FindingKind::FutureFlows, format!("{} of {all} flows, by {most} at most", self.future))
            }),
            (self.long >= LONG_MIN).then(|| {
                let most = duration(self.long_max_ms);
                (FindingKind::LongFlows, format!("{} of {all} flows last longer than 300 s, {most} at most", self.long))
            }),
            (self.sampler_unknown > 0)
                .then(|| (FindingKind::SamplingUnknown, format!("{} of {all} flows", self.sampler_unknown))),
            (self.both_directions >= TWICE_MIN && self.both_directions * 5 >= all).then(|| {
                (
                    FindingKind::InAndOut,
                    format!("{} of {all} flows were reported for both directions", self.both_directions),
                )
            }),
        ]
    }
}
