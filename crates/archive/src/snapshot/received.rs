//! When flows were received, by the positions of their deliveries.

use arrow::array::AsArray;
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::{Column, Table};

use super::Snapshot;
use crate::tail::TailFrame;
use crate::{ArchiveError, Position};

impl Snapshot {
    /// When the newest flow was received of the last delivery with flows, among those up to a position: milliseconds since the
    /// epoch. `None` when the archive has flows of none of them. It is known from frames and from what segments keep of their
    /// deliveries; rows are read only of archives that were written before these knew it.
    ///
    /// # Errors
    /// Those of reading a damaged or missing file.
    pub fn received_until_ms(&self, position: Position) -> Result<Option<i64>, ArchiveError> {
        for frame in self.tail_frames().iter().rev().filter(|frame| frame.position() <= position) {
            if let Some(received_ms) = received_ms(frame)? {
                return Ok(Some(received_ms));
            }
        }
        let mut segments: Vec<_> =
            self.segments(Table::Flows).iter().filter(|segment| segment.first <= position).collect();
        segments.sort_unstable_by_key(|segment| std::cmp::Reverse(segment.last.min(position)));
        let mut found: Option<(Position, i64)> = None;
        for segment in segments {
            // flows of a delivery may be in segments of two days
            if found.is_some_and(|(newest, _)| newest > segment.last.min(position)) {
                break;
            }
            let deliveries = segment.deliveries()?.deliveries;
            let last = deliveries.iter().rev().find(|one| one.rows > 0 && one.position <= position);
            found = found.max(last.map(|one| (one.position, one.received.1)));
        }
        Ok(found.map(|(_, received_ms)| received_ms))
    }
}

/// When the newest flow of a frame was received.
fn received_ms(frame: &TailFrame) -> Result<Option<i64>, ArchiveError> {
    if frame.flows() == 0 {
        return Ok(None);
    }
    if let Some((first, last)) = frame.digest().and_then(|digest| digest.times(Column::Received)) {
        return Ok((first <= last).then_some(last));
    }
    let rows = frame.read_flows(&[Column::Received])?;
    let received = rows.as_ref().and_then(|rows| rows.column_by_name(Column::Received.name()));
    Ok(received.and_then(|received| arrow::compute::max(received.as_primitive::<TimestampMillisecondType>())))
}
