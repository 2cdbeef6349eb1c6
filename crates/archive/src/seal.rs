//! Sealing: a finished tail becomes segments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampMillisecondType;
use arrow::error::ArrowError;
use weir_flow::{FlowBatch, Table};

use crate::books::fold::BooksStep;
use crate::civil::day_of_ms;
use crate::frame::TailEnd;
use crate::layout::Layout;
use crate::order::{FlowOrder, flow_order};
use crate::segment::{Columns, Effort, SegmentName, SegmentRange, write_segment};
use crate::tail::{FinishedTail, Stream, TailContents, TailFile, set_aside};
use crate::{Action, ArchiveError, ArchiveOptions, Position, folder};

/// What sealing made of a tail.
#[derive(Debug, Default)]
pub(crate) struct SealReport {
    /// Flows sealed.
    pub(crate) rows: u64,
    pub(crate) segments: u64,
    pub(crate) octets: u64,
    pub(crate) read_time: Duration,
    pub(crate) order_time: Duration,
    pub(crate) write_time: Duration,
}

/// A segment written to the folder for temporary files.
struct WrittenSegment {
    path: PathBuf,
    partition: PathBuf,
    name: SegmentName,
}

/// Writes the segments of a tail, moves them into their places, and commits them by removing the tail.
///
/// Until that removal the segments do not count, so a crash at any moment leaves either the tail, of which the next
/// writer makes the same segments again, or the segments. Everything is synced before the removal.
pub(crate) fn seal_tail(
    layout: &Layout,
    options: &ArchiveOptions,
    tail: &FinishedTail,
) -> Result<SealReport, ArchiveError> {
    let mut sealed = SealReport::default();
    let began = Instant::now();
    let file = TailFile::open(&tail.path)?;
    let scan = file.scan()?;
    let lost = scan.last() < tail.last;
    if lost || matches!(scan.end, TailEnd::Damaged { .. }) {
        set_aside(layout, tail.number, &TailContents::open(&tail.path)?)?;
    }
    let mut written = Vec::new();
    if let (Some(first), Some(last)) = (scan.frames.first(), scan.last()) {
        let range = SegmentRange { tails: (tail.number, tail.number), first: first.header.position, last };
        let streams = file.streams(&scan)?;
        sealed.rows = scan.rows();
        check_columns(&file, &streams[Table::Flows as usize])?;
        sealed.read_time = began.elapsed();
        let began = Instant::now();
        let order = flow_order(&Columns::of_tail(Table::Flows, &file, &streams[Table::Flows as usize]))?;
        sealed.order_time = began.elapsed();
        let began = Instant::now();
        let mut order = Some(order);
        for (&table, streams) in Table::ALL.iter().zip(&streams) {
            let columns = Columns::of_tail(table, &file, streams).folded(BooksStep::Minute)?;
            // only flows come first, and only they have an order of their own
            let order = order.take().unwrap_or_else(|| FlowOrder::as_received(columns.rows()));
            written.extend(write_days(layout, options, &columns, order, range)?);
        }
        sealed.write_time = began.elapsed();
    }
    sealed.segments = written.len() as u64;
    sealed.octets = place(&written)?;
    fs::remove_file(&tail.path).map_err(Action::RemoveTail.failed(&tail.path))?;
    folder::sync(&layout.tails())?;
    Ok(sealed)
}

/// Fails on a column of flows that this program does not know: leaving it out would lose it.
fn check_columns(file: &TailFile, streams: &[Stream]) -> Result<(), ArchiveError> {
    for stream in streams {
        FlowBatch::try_new(RecordBatch::new_empty(Arc::clone(stream.schema())))
            .map_err(|error| file.failed(ArrowError::SchemaError(error.to_string())))?;
    }
    Ok(())
}

/// Writes one segment for each day that has rows.
fn write_days(
    layout: &Layout,
    options: &ArchiveOptions,
    columns: &Columns<'_>,
    mut order: FlowOrder,
    range: SegmentRange,
) -> Result<Vec<WrittenSegment>, ArchiveError> {
    let mut written = Vec::new();
    for (day, rows) in split_by_day(columns, std::mem::take(&mut order.rows))? {
        let table = columns.table();
        let path = layout.tmp().join(format!("{}-{:016}-{day}", table.name(), range.tails.0));
        let effort = Effort::sealing(options);
        let name = write_segment(&path, columns, &rows, &order, range, options.row_group_rows_max, effort)?;
        written.push(WrittenSegment { path, partition: layout.partition(table, day), name });
    }
    Ok(written)
}

/// Rows by the UTC day of the time that partitions the table, the order kept within each day.
fn split_by_day(columns: &Columns<'_>, order: Vec<u32>) -> Result<BTreeMap<i64, Vec<u32>>, ArchiveError> {
    let schema = columns.table().schema();
    let field = schema.field(0); // `received` and `minute` come first, and neither is ever null
    let Some(times) = columns.column(field)? else { return Ok(BTreeMap::new()) };
    let times = times.as_primitive::<TimestampMillisecondType>();
    debug_assert_eq!(times.null_count(), 0, "{} must not be null", field.name());
    let days = arrow::compute::min(times).map(day_of_ms).zip(arrow::compute::max(times).map(day_of_ms));
    let mut by_day: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    match days {
        None => {}
        Some((first, last)) if first == last => {
            by_day.insert(first, order);
        }
        Some(_) => {
            for row in order {
                by_day.entry(day_of_ms(times.value(row as usize))).or_default().push(row);
            }
        }
    }
    Ok(by_day)
}

/// Moves segments into their places and makes that durable. Returns their octets.
fn place(written: &[WrittenSegment]) -> Result<u64, ArchiveError> {
    let mut octets = 0;
    for WrittenSegment { path, partition, name } in written {
        folder::create(partition)?;
        let place = partition.join(name.to_string());
        let failed = Action::PlaceSegment.failed(&place);
        octets += fs::metadata(path).map_err(failed)?.len();
        fs::rename(path, &place).map_err(failed)?;
    }
    let partitions: std::collections::BTreeSet<&Path> =
        written.iter().map(|segment| segment.partition.as_path()).collect();
    partitions.into_iter().try_for_each(folder::sync)?;
    Ok(octets)
}

/// The position of the last frame in any segment.
pub(crate) fn last_sealed(segments: &[crate::Segment]) -> Position {
    segments.iter().map(|segment| segment.last).max().unwrap_or_default()
}
