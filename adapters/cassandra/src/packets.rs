//! Flows as export packets: IPFIX Messages that can each be read alone, of some 30 flows.
//!
//! The paper's model has a row for each second and a column for each export packet that came in it. Here a row is a second
//! and a shard. What is in a packet must not depend on how often a delivery is read, or a repetition would store other packets
//! beside those that are there; so flows are put into the order of their keys first, and a packet has the key of its first
//! flow. Flows of a packet share second, exporter and Observation Domain.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{TimestampMillisecondType, UInt32Type};
use scylla::serialize::SerializationError;
use scylla::serialize::batch::{BatchValues, BatchValuesIterator};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use weir_export::{Exporter, ExporterConfig, Version};
use weir_flow::{Column, FlowBatch};
use weir_forward::ForwardDelivery;

use crate::values::Place;

/// Length of the buckets of this model.
pub(crate) const SECOND_MS: i64 = 1000;

/// An export packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPacket {
    /// When its first flow was received, milliseconds since the epoch; the others were in the same second.
    pub received_ms: i64,
    /// Address that its flows came from, 4 or 16 octets; `None` for those that were metered.
    pub exporter: Option<Vec<u8>>,
    /// Observation Domain, 0 when there is none.
    pub observation_domain: u32,
    /// Number of flows.
    pub flows: u16,
    /// An IPFIX Message with its Templates.
    pub message: Vec<u8>,
    /// Key of the first flow.
    pub(crate) key: i64,
}

/// The packets of a delivery by second, and the flows that IPFIX cannot express.
pub(crate) fn packets(delivery: &ForwardDelivery, flows_max: usize) -> (Vec<(i64, Vec<ExportPacket>)>, u64) {
    let flows = &delivery.flows;
    let Some(received) = flows.primitive::<TimestampMillisecondType>(Column::Received) else {
        return (Vec::new(), flows.rows() as u64);
    };
    let exporters = flows.binary(Column::Exporter);
    let exporter = |row: usize| exporters.filter(|values| values.is_valid(row)).map(|values| values.value(row));
    let domains = flows.primitive::<UInt32Type>(Column::ObservationDomain);
    let domain = |row: usize| domains.filter(|values| values.is_valid(row)).map_or(0, |values| values.value(row));
    let second = |row: usize| received.value(row).div_euclid(SECOND_MS) * SECOND_MS;
    let group = |row: &u32| (second(*row as usize), exporter(*row as usize), domain(*row as usize));
    let mut order: Vec<u32> = (0..flows.rows() as u32).collect();
    order.sort_unstable_by_key(|row| (group(row), delivery.row_keys[*row as usize]));
    let indexes = UInt32Array::from(order.clone());
    let sorted = take_record_batch(flows.record_batch(), &indexes).ok().and_then(|rows| FlowBatch::try_new(rows).ok());
    let Some(sorted) = sorted else { return (Vec::new(), flows.rows() as u64) };
    let (mut seconds, mut refused) = (Vec::<(i64, Vec<ExportPacket>)>::new(), 0);
    let mut begin = 0;
    while begin < order.len() {
        let of = group(&order[begin]);
        let rest = order[begin..].iter().take(flows_max);
        let end = begin + rest.take_while(|row| group(row) == of).count();
        let first = order[begin] as usize;
        let packet = |rows: Range<usize>, message: Vec<u8>| ExportPacket {
            received_ms: received.value(first),
            exporter: of.1.map(<[u8]>::to_vec),
            observation_domain: of.2,
            flows: rows.len() as u16,
            message,
            key: delivery.row_keys[order[rows.start] as usize],
        };
        if seconds.last().is_none_or(|(at, _)| *at != of.0) {
            seconds.push((of.0, Vec::new()));
        }
        let mut found = Vec::new();
        refused += encode(&sorted, begin..end, (of.0, of.2), &mut |rows, message| found.push((rows, message)));
        if let Some((_, packets)) = seconds.last_mut() {
            packets.extend(found.into_iter().map(|(rows, message)| packet(rows, message)));
        }
        begin = end;
    }
    (seconds, refused)
}

/// Encodes rows as one Message, or as several where one cannot hold them. Returns how many flows IPFIX cannot express.
fn encode(
    flows: &FlowBatch,
    rows: Range<usize>,
    (second_ms, domain): (i64, u32),
    sink: &mut dyn FnMut(Range<usize>, Vec<u8>),
) -> u64 {
    let config = ExporterConfig {
        domain,
        datagram_octets_max: ExporterConfig::OCTETS_LIMIT,
        ..ExporterConfig::new(Version::Ipfix)
    };
    let piece = FlowBatch::try_new(flows.record_batch().slice(rows.start, rows.len()));
    let (Ok(mut exporter), Ok(piece)) = (Exporter::new(config), piece) else { return rows.len() as u64 };
    let mut messages: Vec<Vec<u8>> = Vec::new();
    let mut keep = |datagram: weir_export::Datagram<'_>| messages.push(datagram.octets.to_vec());
    exporter.encode(&piece, second_ms, &mut keep);
    exporter.flush(second_ms, &mut keep);
    let refused: u64 = exporter.exported().refused.iter().sum();
    match messages.len() {
        // a packet of flows that are refused in part counts those that it has
        1 if refused == 0 => sink(rows, messages.remove(0)),
        _ if rows.len() == 1 => return 1,
        _ => {
            let middle = rows.start + rows.len() / 2;
            let first = encode(flows, rows.start..middle, (second_ms, domain), sink);
            return first + encode(flows, middle..rows.end, (second_ms, domain), sink);
        }
    }
    0
}

/// Packets that belong to one partition.
#[derive(Debug, Clone)]
pub(crate) struct PartitionPackets {
    pub(crate) packets: Arc<[ExportPacket]>,
    pub(crate) place: Place,
    pub(crate) origin: i64,
    /// The range of `packets` that is meant.
    pub(crate) range: (usize, usize),
}

impl PartitionPackets {
    /// Cuts the packets so that each piece takes about so many octets.
    pub(crate) fn cut(self, octets_max: usize) -> Vec<Self> {
        let mut pieces = Vec::new();
        let (mut begin, mut octets) = (self.range.0, 0);
        for at in self.range.0..self.range.1 {
            let packet = self.packets[at].message.len() + 100;
            if at > begin && octets + packet > octets_max {
                pieces.push(Self { range: (begin, at), ..self.clone() });
                (begin, octets) = (at, 0);
            }
            octets += packet;
        }
        pieces.push(Self { range: (begin, self.range.1), ..self });
        pieces
    }

    fn write(&self, at: usize, writer: &mut RowWriter<'_>) -> Result<(), SerializationError> {
        let packet = &self.packets[at];
        let mut set = |octets: Option<&[u8]>| {
            let cell = writer.make_cell_writer();
            let Some(octets) = octets else {
                cell.set_unset();
                return Ok(());
            };
            cell.set_value(octets).map(drop).map_err(SerializationError::new)
        };
        set(Some(&self.place.bucket_ms.to_be_bytes()))?;
        set(Some(&self.place.shard.to_be_bytes()))?;
        set(Some(&self.origin.to_be_bytes()))?;
        set(Some(&packet.key.to_be_bytes()))?;
        set(Some(&packet.received_ms.to_be_bytes()))?;
        set(packet.exporter.as_deref())?;
        set(Some(&i64::from(packet.observation_domain).to_be_bytes()))?;
        set(Some(&(packet.flows as i16).to_be_bytes()))?;
        set(Some(&packet.message))
    }
}

impl crate::piece::Piece for PartitionPackets {
    fn len(&self) -> usize {
        self.range.1 - self.range.0
    }

    fn flows(&self) -> u64 {
        self.packets[self.range.0..self.range.1].iter().map(|packet| u64::from(packet.flows)).sum()
    }

    fn halves(&self) -> [Self; 2] {
        let middle = self.range.0 + (self.range.1 - self.range.0) / 2;
        [(self.range.0, middle), (middle, self.range.1)].map(|range| Self { range, ..self.clone() })
    }
}

impl BatchValues for PartitionPackets {
    type BatchValuesIter<'r> = PacketsIter<'r>;

    fn batch_values_iter(&self) -> PacketsIter<'_> {
        PacketsIter { packets: self, at: self.range.0 }
    }
}

/// The packets that are still to be written.
#[derive(Debug)]
pub(crate) struct PacketsIter<'r> {
    packets: &'r PartitionPackets,
    at: usize,
}

impl PacketsIter<'_> {
    fn next(&mut self) -> Option<usize> {
        let at = (self.at < self.packets.range.1).then_some(self.at)?;
        self.at += 1;
        Some(at)
    }
}

impl<'r> BatchValuesIterator<'r> for PacketsIter<'r> {
    fn serialize_next(
        &mut self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Option<Result<(), SerializationError>> {
        let at = self.next()?;
        Some(self.packets.write(at, writer))
    }

    fn is_empty_next(&mut self) -> Option<bool> {
        self.next().map(|_| false)
    }

    fn skip_next(&mut self) -> Option<()> {
        self.next().map(drop)
    }
}

/// The first packet alone, for a statement that is in no batch.
impl SerializeRow for PartitionPackets {
    fn serialize(&self, _: &RowSerializationContext<'_>, writer: &mut RowWriter<'_>) -> Result<(), SerializationError> {
        self.write(self.range.0, writer)
    }

    fn is_empty(&self) -> bool {
        false
    }
}
