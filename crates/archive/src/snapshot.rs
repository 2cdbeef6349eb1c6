//! The archive at one position, for reading.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_flow::Table;

use crate::frame::TailEnd;
use crate::layout::Layout;
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::seal::last_sealed;
use crate::segment::without_covered;
use crate::summaries::{SegmentSummary, Summaries};
use crate::tail::TailContents;
use crate::{Action, ArchiveError, Position, Segment};

/// Attempts to list an archive whose writer seals tails faster than its folders can be read.
const ATTEMPTS_MAX: u32 = 1000;
/// Times that a tail is read before it is taken for damaged.
const TAIL_ATTEMPTS_MAX: u32 = 3;

/// Everything that was appended up to one position: segments, and the rows that are in no segment yet.
///
/// While a snapshot lives, the files of its segments stay in their places: it holds a lease (see `readers`), which no
/// writer waits for. Where no lease can be had, a file that vanishes is an error when it is opened.
///
/// Taking a snapshot waits for nothing and disturbs no writer. Its order of steps is what keeps a row from being missed
/// or read twice:
///
/// 1. Take the lease: what is superseded from now on stays.
/// 2. List and open all tails. An open tail can be read to its end although it is removed meanwhile. Tails are removed
///    in the order of their numbers, so what was sealed before is what has a smaller number than all of them.
/// 3. List the tails again and start over if one of a smaller number has turned up: listings of a folder that changes
///    need not be exact.
/// 4. List segments and keep those made of smaller numbers only. Without any tail there is no such number; then
///    nothing may change during the listing. The same holds without a lease.
/// 5. Read the tails. All but the last are complete, because a tail is begun only after the one before has ended.
#[derive(Debug)]
pub struct Snapshot {
    layout: Layout,
    position: Position,
    /// The first of its tails.
    first_tail: Option<TailNumber>,
    /// By [`Table`].
    tables: [TableSnapshot; Table::ALL.len()],
    lease: Arc<Lease>,
}

#[derive(Debug, Default)]
struct TableSnapshot {
    segments: Vec<Segment>,
    tail: Vec<RecordBatch>,
}

impl Snapshot {
    /// Takes a snapshot of the archive in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ArchiveError> {
        let layout = Layout::new(dir);
        layout.check()?;
        for _ in 0..ATTEMPTS_MAX {
            let lease = Lease::take(&layout)?;
            if let Some(listing) = Listing::read(&layout, &lease)? {
                return listing.into_snapshot(layout, lease);
            }
        }
        Err(ArchiveError::Unsettled { path: dir.to_owned(), attempts: ATTEMPTS_MAX })
    }

    /// What keeps the files of the segments in their places when the snapshot is dropped before they are opened.
    pub fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease)
    }

    /// The last delivery that this snapshot holds.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Segments of a table, in the order of their days and positions.
    pub fn segments(&self, table: Table) -> &[Segment] {
        &self.tables[table as usize].segments
    }

    /// What is kept of segments of flows that had expired when the snapshot was taken, in the order of days and tails.
    /// None of their flows is in a segment or in the tail of this snapshot. The folder is listed when it is asked for.
    pub fn summaries(&self) -> Result<Vec<SegmentSummary>, ArchiveError> {
        let summaries = Summaries::of_segments(&self.layout, &self.lease, self.segments(Table::Flows).iter())?;
        Ok(summaries.at(self.first_tail, self.position))
    }

    /// Rows of a table that are in no segment, in the order in which they were appended. Batches of flows have only
    /// the columns that their delivery had.
    pub fn tail(&self, table: Table) -> &[RecordBatch] {
        &self.tables[table as usize].tail
    }

    /// Rows of a table, in segments and in the tail.
    pub fn rows(&self, table: Table) -> u64 {
        let sealed: u64 = self.segments(table).iter().map(|segment| segment.rows).sum();
        sealed + self.tail(table).iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }
}

/// Tails and segments that make up one position.
struct Listing {
    first_tail: Option<TailNumber>,
    tails: Vec<(PathBuf, File)>,
    segments: Vec<Vec<Segment>>,
}

impl Listing {
    /// Reads the folders once; `None` when they changed in a way that calls for another attempt.
    fn read(layout: &Layout, lease: &Lease) -> Result<Option<Self>, ArchiveError> {
        let numbers = layout.tail_numbers()?;
        if numbers.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
            return Ok(None);
        }
        let Some(tails) = open_tails(layout, &numbers)? else { return Ok(None) };
        let first = numbers.first().copied();
        if layout.tail_numbers()?.first().copied() < first {
            // Either a smaller number has turned up, or none is left. The latter is harmless, but rare.
            return Ok(None);
        }
        let segments = list_segments(layout, first, lease)?;
        let may_change = first.is_none() || !lease.is_held();
        if may_change
            && (layout.tail_numbers()?.first().copied() != first || list_segments(layout, first, lease)? != segments)
        {
            return Ok(None);
        }
        Ok(Some(Self { first_tail: first, tails, segments }))
    }

    fn into_snapshot(self, layout: Layout, lease: Lease) -> Result<Snapshot, ArchiveError> {
        let mut position = Position::ZERO;
        let mut tables: [TableSnapshot; Table::ALL.len()] = Default::default();
        for (table, segments) in tables.iter_mut().zip(self.segments) {
            position = position.max(last_sealed(&segments));
            table.segments = segments;
        }
        let last = self.tails.len().saturating_sub(1);
        for (number, (path, file)) in self.tails.iter().enumerate() {
            let contents = whole_tail(path, file, number == last)?;
            for (table, batches) in tables.iter_mut().zip(contents.batches()?) {
                table.tail.extend(batches);
            }
            position = position.max(contents.scan.last().unwrap_or_default());
        }
        Ok(Snapshot { layout, position, first_tail: self.first_tail, tables, lease: Arc::new(lease) })
    }
}

/// What a tail holds. What is damaged is an error: a snapshot never has fewer rows than the archive without saying so.
fn whole_tail(path: &Path, file: &File, is_last: bool) -> Result<TailContents, ArchiveError> {
    let mut attempts = 0;
    loop {
        let contents = TailContents::read(file, path)?;
        let is_damaged = match contents.scan.end {
            TailEnd::Clean => false,
            // the end of the last one is being written, or was when the writer was killed
            TailEnd::Torn => !is_last,
            TailEnd::Damaged { .. } => true,
        };
        attempts += 1;
        if !is_damaged {
            return Ok(contents);
        }
        // a frame for which there was no room is cut, and another may take its place while the tail is read
        if attempts == TAIL_ATTEMPTS_MAX {
            let octets = contents.octets() - contents.scan.whole_octets as u64;
            return Err(ArchiveError::DamagedTail { path: path.to_owned(), octets });
        }
    }
}

fn open_tails(layout: &Layout, numbers: &[TailNumber]) -> Result<Option<Vec<(PathBuf, File)>>, ArchiveError> {
    let mut tails = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let path = layout.tail(number);
        match File::open(&path) {
            Ok(file) => tails.push((path, file)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Action::ReadTail.failed(&path)(source)),
        }
    }
    Ok(Some(tails))
}

/// Segments of every table that were made of tails before `first`.
fn list_segments(layout: &Layout, first: Option<TailNumber>, lease: &Lease) -> Result<Vec<Vec<Segment>>, ArchiveError> {
    let committed = |segment: &Segment| first.is_none_or(|first| segment.tails.1 < first);
    let tables = Table::ALL.iter().map(|&table| {
        let mut segments = layout.segments(table)?;
        segments.retain(committed);
        let mut segments = without_covered(segments);
        segments.retain(|segment| !lease.has_expired(layout, &segment.path));
        Ok(segments)
    });
    tables.collect()
}
