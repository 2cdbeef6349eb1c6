//! Sealing: a finished tail becomes segments.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampMillisecondType;
use arrow::error::ArrowError;
use weir_flow::{FlowBatch, Table};

use crate::books::fold::BooksStep;
use crate::civil::day_of_ms;
use crate::frame::{Scan, TailEnd};
use crate::layout::Layout;
use crate::manifest::{Edit, Manifest};
use crate::order::{FlowOrder, flow_order};
use crate::position::{LOCAL, TailNumber};
use crate::segment::{Columns, Effort, RowDeliveries, Segment, SegmentOrigin, write_segment};
use crate::tail::{FinishedTail, Stream, TailContents, TailFile, set_aside};
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, ArchiveOptions, disk, folder};

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

/// A segment in the folder for temporary files, and what it will be.
type WrittenSegment = (PathBuf, Segment);

/// Writes the segments of a tail, moves them into their places, and commits them; then the tail is removed.
///
/// Until the commit the segments do not count, so a crash at any moment leaves either the tail, of which the next
/// writer makes the same segments again, or the segments. Everything is synced before the commit.
///
/// Nothing is written where it cannot be committed, because what counts is not known, nor for a tail that is sealed already: on a
/// full disk there may be no room for that.
pub(crate) fn seal_tail(
    layout: &Layout,
    manifest: &mut Manifest,
    options: &ArchiveOptions,
    tail: &FinishedTail,
) -> Result<SealReport, ArchiveError> {
    manifest.refresh()?;
    if !manifest.state().local().has_tail(tail.number) {
        remove_sealed(layout, tail)?;
        return Ok(SealReport { rows: tail.rows, ..SealReport::default() });
    }
    let mut sealed = SealReport::default();
    let began = Instant::now();
    let mut file = TailFile::open(&tail.path)?;
    let mut scan = file.scan()?;
    if scan.last() < tail.last || scan.end == TailEnd::Damaged {
        set_aside(layout, tail.number, &TailContents::open(&tail.path)?, (None, tail.last))?;
        // what is whole of it, the frames behind the damage too
        file = TailFile::open(&tail.path)?;
        scan = file.scan()?;
    }
    sealed.read_time = began.elapsed();
    let mut written = Vec::new();
    if !scan.frames.is_empty() {
        let wrote = write_tables(layout, options, tail.number, (&file, &scan), &mut written, &mut sealed);
        // what is of no use must not hold the last room that there is
        wrote.inspect_err(|_| discard(&written))?;
    }
    let segments = place(written)?;
    sealed.segments = segments.len() as u64;
    sealed.octets = segments.iter().map(|segment| segment.octets).sum();
    if commit(manifest, tail, &segments)? {
        remove(tail)?;
    } else {
        remove_sealed(layout, tail)?;
    }
    Ok(sealed)
}

/// Removes a tail that an attempt before this one has sealed. That is seen, and not durable where it failed behind its commit.
fn remove_sealed(layout: &Layout, tail: &FinishedTail) -> Result<(), ArchiveError> {
    folder::sync(&layout.manifest())?;
    remove(tail)
}

/// Removes a tail; where that fails, the next process that opens the archive does it.
fn remove(tail: &FinishedTail) -> Result<(), ArchiveError> {
    match disk::remove(&tail.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Action::RemoveTail.failed(&tail.path)),
    }
}

/// Writes the segments of all tables of a tail; what is written when one fails is in `written`.
fn write_tables(
    layout: &Layout,
    options: &ArchiveOptions,
    number: TailNumber,
    (file, scan): (&TailFile, &Scan),
    written: &mut Vec<WrittenSegment>,
    sealed: &mut SealReport,
) -> Result<(), ArchiveError> {
    let began = Instant::now();
    let (Some(first), Some(last)) = (scan.frames.first(), scan.last()) else { return Ok(()) };
    let deliveries = Some(Arc::new(RowDeliveries::of_tail(number, &scan.frames)));
    let tails = TailSet::range(number, number);
    let origin =
        SegmentOrigin { root: layout.shared_root(), day: 0, tails, first: first.header.position, last, deliveries };
    let streams = file.streams(scan)?;
    sealed.rows = scan.rows();
    check_columns(file, &streams[Table::Flows as usize])?;
    sealed.read_time += began.elapsed();
    let began = Instant::now();
    let order = flow_order(&Columns::of_tail(Table::Flows, file, &streams[Table::Flows as usize]))?;
    sealed.order_time = began.elapsed();
    let began = Instant::now();
    let mut order = Some(order);
    for (&table, streams) in Table::ALL.iter().zip(&streams) {
        let columns = Columns::of_tail(table, file, streams).folded(BooksStep::Minute)?;
        // only flows come first, and only they have an order of their own
        let order = order.take().unwrap_or_else(|| FlowOrder::as_received(columns.rows()));
        write_days(layout, options, &columns, order, &origin, written)?;
    }
    sealed.write_time = began.elapsed();
    Ok(())
}

/// Removes what was written and will not count; the next process that opens the archive does it otherwise.
fn discard(written: &[WrittenSegment]) {
    for (path, _) in written {
        let _ = disk::remove(path);
    }
}

/// Commits what a tail became. It may be committed already, by an attempt that failed after that: false then.
fn commit(manifest: &mut Manifest, tail: &FinishedTail, segments: &[Segment]) -> Result<bool, ArchiveError> {
    // Writing takes a while, in which others commit. Where that cannot be read, nothing of this can have come to count.
    manifest.refresh().inspect_err(|_| segments.iter().for_each(|segment| drop(disk::remove(&segment.path()))))?;
    let last = segments.iter().map(|segment| segment.last).max().or(tail.last).unwrap_or_default();
    manifest.commit_segments(segments, |state| {
        let local = state.local();
        // Tails are sealed in the order of their numbers, so those in between are gone.
        let first = if local.skipped.contains(tail.number) { tail.number } else { local.first_tail };
        let sealed = || Edit::Sealed { writer: LOCAL, tails: (first, tail.number), last, segments: segments.to_vec() };
        Ok(local.has_tail(tail.number).then(sealed))
    })
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
    origin: &SegmentOrigin,
    written: &mut Vec<WrittenSegment>,
) -> Result<(), ArchiveError> {
    for (day, rows) in split_by_day(columns, std::mem::take(&mut order.rows))? {
        let table = columns.table();
        let path = layout.tmp().join(format!("{}-{:016}-{day}", table.name(), origin.tails.first()));
        let effort = Effort::sealing(options);
        let origin = SegmentOrigin { day, ..origin.clone() };
        let segment = write_segment(&path, columns, &rows, &order, origin, options.row_group_rows_max, effort);
        let segment = segment.inspect_err(|_| drop(disk::remove(&path)))?;
        written.push((path, segment));
    }
    Ok(())
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

/// Moves segments into their places and makes that durable. A segment whose name is taken, by one of the same tails that
/// does not count any more, gets another. When one cannot be moved all are removed: they are written again.
pub(crate) fn place(mut written: Vec<WrittenSegment>) -> Result<Vec<Segment>, ArchiveError> {
    move_all(&mut written).inspect_err(|_| discard(&written))?;
    Ok(written.into_iter().map(|(_, segment)| segment).collect())
}

/// The path of each is its place then.
fn move_all(written: &mut [WrittenSegment]) -> Result<(), ArchiveError> {
    let mut partitions = BTreeSet::new();
    for (path, segment) in written {
        let partition = segment.partition();
        folder::create(&partition)?;
        while !move_to(path, &segment.path())? {
            segment.generation += 1;
        }
        *path = segment.path();
        partitions.insert(partition);
    }
    partitions.iter().try_for_each(|partition| folder::sync(partition))
}

/// Moves a file that was written into the place of a segment, unless a file is there: false then. Whose that is, and whether it
/// counts, need not be known: sealing and maintenance do not wait for each other, and what a crash has left may be the only
/// copy.
pub(crate) fn move_to(path: &Path, place: &Path) -> Result<bool, ArchiveError> {
    match disk::rename_new(path, place) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        moved => moved.map(|()| true).map_err(Action::PlaceSegment.failed(place)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_flow::{Column, Delivery, FlowBatchBuilder};

    use super::*;
    use crate::Writer;

    /// A tail of one flow in an archive without a writer.
    fn unsealed(dir: &Path) -> FinishedTail {
        let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
        let mut builder = FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(1));
        let position = writer.append(Delivery::from(builder.finish())).expect("appended");
        writer.durability().wait_for(position, Duration::from_mins(1)).expect("durable");
        drop(writer);
        let layout = Layout::new(dir);
        let number = *layout.tail_numbers().expect("listed").first().expect("a tail");
        let path = layout.tail(number);
        let octets = fs::metadata(&path).expect("the tail").len();
        FinishedTail { number, path, last: Some(position), rows: 1, octets, failures: 0 }
    }

    /// As after an attempt that failed behind its commit, on a disk that has filled up since.
    #[test]
    fn a_tail_that_is_sealed_needs_no_room_to_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let tail = unsealed(dir.path());
        let octets = fs::read(&tail.path).expect("the tail");
        let layout = Layout::new(dir.path());
        let mut manifest = Manifest::load(&layout).expect("a manifest");
        let mut seal = || seal_tail(&layout, &mut manifest, &ArchiveOptions::default(), &tail);
        assert_eq!(seal().expect("sealed").segments, 1);
        fs::write(&tail.path, &octets).expect("put back");
        fs::remove_dir_all(layout.tmp()).expect("removed");
        fs::write(layout.tmp(), "no folder").expect("in its place");
        let again = seal().expect("it was sealed before");
        assert_eq!((again.rows, again.segments), (1, 0));
        assert!(!tail.path.exists());
    }

    #[test]
    fn what_cannot_be_committed_does_not_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let tail = unsealed(dir.path());
        let layout = Layout::new(dir.path());
        let mut manifest = Manifest::load(&layout).expect("a manifest");
        let file = TailFile::open(&tail.path).expect("the tail");
        let mut written = Vec::new();
        let scan = file.scan().expect("scanned");
        let (options, mut sealed) = (ArchiveOptions::default(), SealReport::default());
        write_tables(&layout, &options, tail.number, (&file, &scan), &mut written, &mut sealed).expect("written");
        let segments = place(written).expect("placed");
        // another process commits meanwhile, and that cannot be read
        let next = format!("{:016}.edit", manifest.state().sequence + 1);
        fs::create_dir(layout.manifest().join(next)).expect("a folder");
        commit(&mut manifest, &tail, &segments).expect_err("what counts is not known");
        assert!(segments.len() == 1 && !segments[0].path().exists(), "{segments:?}");
    }
}
