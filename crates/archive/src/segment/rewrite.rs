//! Several segments rewritten as one, for compaction.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_flow::Table;

use super::{Columns, Effort, RowDeliveries, Segment, SegmentOrigin, write_segment};
use crate::books::fold::BooksStep;
use crate::order::{FlowOrder, flow_order};
use crate::{ArchiveError, ArchiveOptions};

/// Most rows of a rewritten segment: its rows are counted in 32 bits, and the memory of a rewrite goes with them.
pub const REWRITE_ROWS_MAX: u64 = 1 << 25;

/// Writes the rows of `inputs`, which are segments of one table and day, as one segment: clustered and indexed as a
/// whole, to a new file at `path` that is synced. Returns the segment that it is once it has been moved to its path;
/// `origin` is where the rows come from.
///
/// Rows of the books are added up by `step`.
///
/// Works column by column. In memory are at most: the order of rows (4 octets a row, 28 while it is made), the
/// addresses and their numbers (8 octets a row), one column of all rows decoded, twice where rows are of any length, and the
/// encoded segment; of such a column more than `column_octets_max` is [`ArchiveError::MergeTooLarge`]. The inputs
/// are only read, and whether they and the new file count is the caller's business. Once `is_ending` is set it is abandoned
/// at the next column of a segment: [`ArchiveError::MergeAbandoned`].
pub(crate) fn rewrite(
    table: Table,
    inputs: &[Segment],
    origin: SegmentOrigin,
    path: &Path,
    step: BooksStep,
    options: &ArchiveOptions,
    is_ending: &AtomicBool,
) -> Result<Segment, ArchiveError> {
    let rows: u64 = inputs.iter().map(|segment| segment.rows).sum();
    if rows > REWRITE_ROWS_MAX {
        return Err(ArchiveError::TooManyRows { path: path.to_owned(), rows, rows_max: REWRITE_ROWS_MAX });
    }
    let octets_max = usize::try_from(options.compaction.column_octets_max).unwrap_or(usize::MAX);
    let columns = Columns::of_segments(table, inputs).until(is_ending).within(octets_max).folded(step)?;
    let mut order = if table == Table::Flows { flow_order(&columns)? } else { FlowOrder::as_received(columns.rows()) };
    let rows = std::mem::take(&mut order.rows);
    let is_flows = table == Table::Flows;
    let deliveries = is_flows.then(|| RowDeliveries::of_segments(inputs).map(Arc::new)).transpose()?;
    let origin = SegmentOrigin { deliveries, ..origin };
    let effort = Effort::merging(options);
    write_segment(path, &columns, &rows, &order, origin, options.row_group_rows_max, effort)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::UInt64Type;
    use weir_flow::elements::elements_of_row;
    use weir_flow::{Column, Delivery, FlowBatchBuilder};

    use super::*;
    use crate::tail_set::TailSet;
    use crate::{Snapshot, Writer};

    /// Numbers of flows, their sources, and the octets of each element that a flow has.
    type Rows = Vec<(u64, Option<Vec<u8>>, Vec<Vec<u8>>)>;

    fn rows(segments: &[Segment]) -> Rows {
        let mut rows = Vec::new();
        for batch in segments.iter().flat_map(|segment| segment.read().expect("readable")) {
            let ids = batch.column(Column::FlowId as usize).as_primitive::<UInt64Type>().clone();
            let hosts = batch.column(Column::SrcAddr as usize).as_binary::<i32>().clone();
            let elements = batch.column(Column::Elements as usize);
            let of_row = |row| elements_of_row(elements, row).iter().map(|value| value.octets.to_vec()).collect();
            rows.extend(
                (0..batch.num_rows())
                    .map(|row| (ids.value(row), hosts.is_valid(row).then(|| hosts.value(row).to_vec()), of_row(row))),
            );
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn segments_become_one_with_the_same_rows() {
        let dir = tempfile::tempdir().expect("a folder");
        let options = ArchiveOptions { segment_rows_max: 300, row_group_rows_max: 128, ..ArchiveOptions::default() };
        let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
        for delivery in 0..10u64 {
            let mut builder = FlowBatchBuilder::new(100);
            builder.begin_rows(100);
            builder.time(Column::Received).repeat(1_763_683_200_000, 100);
            builder.u64(Column::FlowId).extend((0..100usize).map(|row| delivery * 100 + row as u64));
            for row in 0..100 {
                // so many entries in all that they are encoded in several pieces
                (0..row % 9 * 5).for_each(|entry| builder.elements().push(0, entry, &[row as u8, entry as u8]));
                builder.elements().end_row();
            }
            if delivery % 4 != 1 {
                let hosts = (0..100u32).map(|row| (row * 7 % 31).to_be_bytes());
                builder.address(Column::SrcAddr).extend_fixed(hosts);
            }
            writer.append(Delivery::from(builder.finish())).expect("appended");
        }
        writer.close().expect("sealed");
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        let inputs = snapshot.segments(Table::Flows);
        assert!(inputs.len() > 1);
        let (first, last) = (&inputs[0], &inputs[inputs.len() - 1]);
        let origin = SegmentOrigin {
            root: first.root.clone(),
            day: first.day,
            tails: TailSet::union(inputs.iter().map(|input| &input.tails)),
            first: first.first,
            last: last.last,
            deliveries: None,
        };
        let path = dir.path().join("tmp/rewritten");
        let rewritten = |is_ending| {
            let is_ending = AtomicBool::new(is_ending);
            rewrite(Table::Flows, inputs, origin.clone(), &path, BooksStep::Minute, &options, &is_ending)
        };
        let abandoned = rewritten(true).expect_err("nobody waits for it");
        assert!(matches!(abandoned, ArchiveError::MergeAbandoned), "{abandoned:?}");
        // what an attempt that failed has left may be a segment by another name
        let other = dir.path().join("tmp/other");
        std::fs::write(&path, "another segment").expect("written");
        std::fs::hard_link(&path, &other).expect("linked");
        let written = rewritten(false).expect("rewritten");
        assert_eq!(std::fs::read(&other).expect("a file"), b"another segment");
        std::fs::rename(&path, written.path()).expect("moved");
        assert_eq!((written.rows, &written.tails), (1000, &origin.tails));
        let before = rows(inputs);
        let is_kept = |(id, _, elements): &(u64, Option<Vec<u8>>, Vec<Vec<u8>>)| {
            let row = id % 100;
            *elements == (0..row % 9 * 5).map(|entry| vec![row as u8, entry as u8]).collect::<Vec<_>>()
        };
        assert!(before.len() == 1000 && before.iter().all(is_kept));
        assert_eq!(rows(std::slice::from_ref(&written)), before);
        written.check().expect("whole");
        let index = written.index().expect("readable").expect("an index");
        let pages = index.pages_of_addresses(Column::SrcAddr, &[0, 0, 0, 3], &[0, 0, 0, 3]).expect("readable");
        assert!(pages.count() < index.pages(), "{pages:?}");
    }
}
