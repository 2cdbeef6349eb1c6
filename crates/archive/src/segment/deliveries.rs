//! Which delivery each row of a segment came in: known when a tail is sealed, handed on when segments are merged.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::{Column, Table};

use super::{Columns, Segment};
use crate::frame::FoundFrame;
use crate::index::POSITIONS;
use crate::index::positions::{SegmentDeliveries, SegmentDelivery};
use crate::position::TailNumber;
use crate::{ArchiveError, Position};

/// The deliveries of rows of flows that become segments.
#[derive(Debug, Default)]
pub(crate) struct RowDeliveries {
    /// In the order of positions.
    deliveries: Vec<KnownDelivery>,
    /// The delivery of each row, as a place among `deliveries`.
    numbers: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct KnownDelivery {
    tail: TailNumber,
    position: Position,
    /// On all days.
    rows: u64,
}

impl RowDeliveries {
    /// Of the rows of a tail, frame by frame.
    pub(crate) fn of_tail(tail: TailNumber, frames: &[FoundFrame]) -> Self {
        let mut all = Self::default();
        for (frame, number) in frames.iter().zip(0..) {
            let (position, rows) = (frame.header.position, frame.header.flows_rows);
            // How many rows a lost one had is not known: one that is in no segment says that something is missing.
            let known_rows = if frame.header.is_lost() { 1 } else { rows.into() };
            all.deliveries.push(KnownDelivery { tail, position, rows: known_rows });
            all.numbers.resize(all.numbers.len() + rows as usize, number);
        }
        all
    }

    /// Of the rows of some segments of flows of one day, one segment after the other.
    pub(crate) fn of_segments(segments: &[Segment]) -> Result<Self, ArchiveError> {
        let read = segments.iter().map(Segment::deliveries).collect::<Result<Vec<_>, _>>()?;
        let mut known: BTreeMap<Position, KnownDelivery> = BTreeMap::new();
        for one in read.iter().flat_map(|read| &read.deliveries) {
            let SegmentDelivery { tail, position, .. } = *one;
            // Rows of older segments may have been spread over positions of others.
            let entry = known.entry(position).or_insert(KnownDelivery { tail, position, rows: 0 });
            entry.rows += one.rows + one.rows_elsewhere;
        }
        let deliveries: Vec<KnownDelivery> = known.into_values().collect();
        let mut numbers = Vec::with_capacity(segments.iter().map(|segment| segment.rows as usize).sum());
        for (segment, read) in segments.iter().zip(&read) {
            let place =
                |one: &SegmentDelivery| deliveries.partition_point(|known| known.position < one.position) as u32;
            let places: Vec<u32> = read.deliveries.iter().map(place).collect();
            let (mut row, mut own) = (0, Vec::new());
            segment.read_received(|times| {
                own.clear();
                read.numbers(row, times, &mut own);
                row += times.len() as u64;
                numbers.extend(own.iter().map(|number| places.get(*number as usize).copied().unwrap_or(u32::MAX)));
            })?;
        }
        Ok(Self { deliveries, numbers })
    }

    /// Those of the rows `order` of `columns`, as a segment of them has it.
    pub(super) fn of_order(&self, columns: &Columns<'_>, order: &[u32]) -> Result<SegmentDeliveries, ArchiveError> {
        let schema = Table::Flows.schema();
        let column = columns.column(schema.field(Column::Received as usize))?;
        let times = column.as_ref().map(|times| times.as_primitive::<TimestampMillisecondType>().values().as_ref());
        let times: &[i64] = times.unwrap_or_default();
        let received: Vec<i64> = order.iter().filter_map(|row| times.get(*row as usize).copied()).collect();
        let numbers: Vec<u32> = order.iter().filter_map(|row| self.numbers.get(*row as usize).copied()).collect();
        let deliveries = self.deliveries.iter().map(|known| {
            let KnownDelivery { tail, position, .. } = *known;
            SegmentDelivery { tail, position, rows: 0, rows_elsewhere: 0, received: (0, 0) }
        });
        let mut made = SegmentDeliveries::of_rows(deliveries.collect(), &numbers, &received);
        for (one, known) in made.deliveries.iter_mut().zip(&self.deliveries) {
            one.rows_elsewhere = known.rows.saturating_sub(one.rows);
        }
        Ok(made)
    }
}

impl Segment {
    /// Which deliveries its rows came in. Of a segment that was written before this was kept, its positions are spread
    /// over the times of its rows.
    pub(crate) fn deliveries(&self) -> Result<SegmentDeliveries, ArchiveError> {
        const PART: &str = "positions of deliveries";
        let base = (self.tails.first(), self.first);
        let index = self.index()?;
        let section = index.as_ref().and_then(|index| {
            let found = index.contents.sections.iter().find(|section| section.kind == POSITIONS)?;
            Some(found.read(&index.file, &index.path, PART))
        });
        match section {
            None => {
                SegmentDeliveries::spread((base.0, base.1, self.last), |each| self.read_received(|times| each(times)))
            }
            Some(octets) => {
                let damaged = |_| ArchiveError::DamagedSegment { path: self.path(), part: PART.to_owned() };
                SegmentDeliveries::parse(&octets?, base, self.rows).map_err(damaged)
            }
        }
    }

    /// Gives the times of reception of all rows to `each`, piece by piece.
    fn read_received(&self, mut each: impl FnMut(&[i64])) -> Result<(), ArchiveError> {
        let schema = Table::Flows.schema();
        self.read_column(schema.field(Column::Received as usize), |piece| {
            each(piece.as_primitive::<TimestampMillisecondType>().values());
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{Delivery, FlowBatch};
    use weir_generate::TrafficModel;

    use super::*;
    use crate::{ArchiveOptions, CompactionOptions, Snapshot, Writer, compact};

    /// Octets of the sections of all segments, and their rows.
    fn octets(dir: &std::path::Path) -> (u64, u64) {
        let snapshot = Snapshot::open(dir).expect("a snapshot");
        let of = |segment: &Segment| {
            let index = segment.index().expect("readable").expect("an index");
            let section = *index.contents.sections.iter().find(|section| section.kind == POSITIONS).expect("positions");
            (section.octets, segment.rows)
        };
        snapshot.segments(Table::Flows).iter().map(of).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The batch with other times: some milliseconds after its first one.
    fn with_times(flows: &FlowBatch, jitter_ms: i64) -> FlowBatch {
        let received = flows.column(Column::Received).expect("times").as_primitive::<TimestampMillisecondType>();
        let first = received.value(0);
        let times = received.values().iter().zip(0i64..).map(|(_, row)| first + row * 7919 % jitter_ms);
        let times: arrow::array::ArrayRef =
            std::sync::Arc::new(arrow::array::TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"));
        let columns = Column::ALL.iter().filter_map(|&column| {
            let values = if column == Column::Received { Some(&times) } else { flows.column(column) };
            Some((column, values?.clone()))
        });
        FlowBatch::from_columns(flows.rows(), columns.collect()).expect("flows")
    }

    /// 30,000 flows a second, a delivery each 100 ms or each 10 ms: the times of deliveries are disjoint, or they share a
    /// millisecond, in which a hundredth or an eleventh of their flows came.
    #[test]
    fn positions_take_next_to_nothing() {
        for (rows, jitter_ms, per_thousand) in [(3000, 100, 5), (300, 10, 25), (3000, 101, 50), (300, 11, 250)] {
            let dir = tempfile::tempdir().expect("a folder");
            let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
            let options = ArchiveOptions { segment_rows_max: 9000, compaction, ..ArchiveOptions::default() };
            let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
            let model = TrafficModel { received: true, flows_per_second: 30_000, ..TrafficModel::new(5) };
            let mut flows = model.flows(27_000).expect("a model");
            while let Some(batch) = flows.next_batch(rows) {
                writer.append(Delivery::from(with_times(&batch, jitter_ms))).expect("appended");
            }
            writer.close().expect("sealed");
            for what in ["sealed", "merged"] {
                let (octets, rows) = octets(dir.path());
                println!("{jitter_ms} ms: {octets} octets for {rows} rows {what}");
                assert_eq!(rows, 27_000);
                assert!(octets * 1000 < rows * per_thousand, "{octets} octets for {rows} rows {what}");
                let merging = CompactionOptions { fan_in: 2, settle_time: std::time::Duration::ZERO, ..compaction };
                compact(dir.path(), &merging, |_| {}).expect("merged");
            }
        }
    }
}
