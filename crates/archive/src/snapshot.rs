//! The archive at one position, for reading.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use weir_flow::Table;

use crate::frame::TailEnd;
use crate::layout::Layout;
use crate::manifest::{ArchiveState, Manifest};
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::summaries::SegmentSummary;
use crate::tail::TailContents;
use crate::{Action, ArchiveError, FollowPosition, Position, Segment};

/// Attempts to open the tails of an archive whose writer seals them faster than that.
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
/// 1. Take the lease: what ceases to count from now on stays.
/// 2. Read the manifest. It tells which segments count, and which tails.
/// 3. Open the tails that count, in the order of their numbers, until there is none. An open tail can be read to its
///    end although it is removed meanwhile.
/// 4. Look whether anything was committed since; if so, start over: a tail that was sealed meanwhile may have been gone
///    before it was opened.
/// 5. Read the tails. All but the last are complete, because a tail is begun only after the one before has ended.
#[derive(Debug)]
pub struct Snapshot {
    state: Arc<ArchiveState>,
    position: Position,
    /// By [`Table`], made when they are first asked for.
    segments: [OnceLock<Vec<Segment>>; Table::ALL.len()],
    /// By [`Table`].
    tails: [Vec<RecordBatch>; Table::ALL.len()],
    lease: Arc<Lease>,
}

impl Snapshot {
    /// Takes a snapshot of the archive in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ArchiveError> {
        let layout = Layout::new(dir);
        layout.check()?;
        for _ in 0..ATTEMPTS_MAX {
            let lease = Lease::take(&layout)?;
            let mut known = Known::read(&layout)?;
            let tails = open_tails(&layout, known.state())?;
            if !known.has_changed(&layout)? {
                return Self::of(known.into_state(), &tails?, lease);
            }
        }
        Err(ArchiveError::Unsettled { path: dir.to_owned(), attempts: ATTEMPTS_MAX })
    }

    fn of(state: Arc<ArchiveState>, tails: &[(PathBuf, File)], lease: Lease) -> Result<Self, ArchiveError> {
        let mut position = state.local().position;
        let mut batches: [Vec<RecordBatch>; Table::ALL.len()] = Default::default();
        let mut before: Option<(PathBuf, TailContents)> = None;
        for (number, (path, file)) in tails.iter().enumerate() {
            let contents = read_tail(path, file, number + 1 == tails.len())?;
            if let Some((path, torn)) = before.take() {
                check_torn(&path, &torn, contents.scan.frames.first().map(|frame| frame.header.position))?;
            }
            for (table, more) in batches.iter_mut().zip(contents.batches()?) {
                table.extend(more);
            }
            position = position.max(contents.scan.last().unwrap_or_default());
            let is_torn = contents.scan.end == TailEnd::Torn && number + 1 < tails.len();
            before = is_torn.then(|| (path.clone(), contents));
        }
        Ok(Self { state, position, segments: Default::default(), tails: batches, lease: Arc::new(lease) })
    }

    /// What keeps the files of the segments in their places when the snapshot is dropped before they are opened.
    pub fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease)
    }

    /// The last delivery that this snapshot holds.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The same, to follow from: what comes after it is in no snapshot.
    pub fn follow_position(&self) -> FollowPosition {
        FollowPosition { epoch: self.state.local().epoch(), position: self.position }
    }

    /// Segments of a table, in the order of their days and positions.
    pub fn segments(&self, table: Table) -> &[Segment] {
        self.segments[table as usize].get_or_init(|| self.state.segments_of(table).cloned().collect())
    }

    /// What is kept of segments of flows that had expired when the snapshot was taken, in the order of days and tails.
    /// None of their flows is in a segment or in the tail of this snapshot.
    pub fn summaries(&self) -> Result<Vec<SegmentSummary>, ArchiveError> {
        Ok(self.state.summaries.values().cloned().collect())
    }

    /// Flows that have expired since the archive was made. Of those that expired before archives had a manifest, only
    /// those are counted of which there was a summary.
    pub fn rows_expired(&self) -> u64 {
        self.state.rows_expired
    }

    /// Flows in segments that were set aside because they were damaged or gone.
    pub fn rows_set_aside(&self) -> u64 {
        self.state.rows_set_aside
    }

    /// Rows of a table that are in no segment, in the order in which they were appended. Batches of flows have only
    /// the columns that their delivery had.
    pub fn tail(&self, table: Table) -> &[RecordBatch] {
        &self.tails[table as usize]
    }

    /// Flows that are in no segment.
    pub fn rows_unsealed(&self) -> u64 {
        self.tail(Table::Flows).iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Rows of a table, in segments and in the tail.
    pub fn rows(&self, table: Table) -> u64 {
        let sealed: u64 = self.segments(table).iter().map(|segment| segment.rows).sum();
        sealed + self.tail(table).iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }
}

/// What is known of an archive, with a manifest or without one.
enum Known {
    Manifest(Manifest),
    /// Of format 1.
    Files(Arc<ArchiveState>),
}

impl Known {
    fn read(layout: &Layout) -> Result<Self, ArchiveError> {
        if Manifest::is_expected(layout)? {
            return Manifest::load(layout).map(Self::Manifest);
        }
        Manifest::load_or_rebuild(layout).map(Self::Files)
    }

    fn state(&self) -> &Arc<ArchiveState> {
        match self {
            Self::Manifest(manifest) => manifest.state(),
            Self::Files(state) => state,
        }
    }

    fn into_state(self) -> Arc<ArchiveState> {
        Arc::clone(self.state())
    }

    /// Whether anything was committed since.
    fn has_changed(&mut self, layout: &Layout) -> Result<bool, ArchiveError> {
        match self {
            Self::Manifest(manifest) => manifest.refresh(),
            Self::Files(state) => Ok(*state != Manifest::load_or_rebuild(layout)?),
        }
    }
}

/// Opens the tails that count. The outer error is final; the inner one, a tail that is gone, may be because it was
/// sealed meanwhile.
fn open_tails(
    layout: &Layout,
    state: &ArchiveState,
) -> Result<Result<Vec<(PathBuf, File)>, ArchiveError>, ArchiveError> {
    let local = state.local();
    let mut numbers = layout.tail_numbers()?;
    numbers.retain(|number| local.has_tail(*number));
    let is_skipped = |number: TailNumber| local.skipped.contains(number);
    let gap = (local.first_tail..).zip(numbers.iter().filter(|number| !is_skipped(**number)));
    let missing = gap.filter(|(wanted, found)| wanted != *found).map(|(wanted, _)| wanted).next();
    let missing = missing.or_else(|| local.skipped.iter().find(|number| !numbers.contains(number)));
    if let Some(number) = missing {
        return Ok(Err(ArchiveError::MissingTail { path: layout.tail(number) }));
    }
    let mut tails = Vec::with_capacity(numbers.len());
    for number in numbers {
        let path = layout.tail(number);
        match File::open(&path) {
            Ok(file) => tails.push((path, file)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Err(ArchiveError::MissingTail { path }));
            }
            Err(source) => return Err(Action::ReadTail.failed(&path)(source)),
        }
    }
    Ok(Ok(tails))
}

/// What a tail holds. What is damaged is an error: a snapshot never has fewer rows than the archive without saying so.
fn read_tail(path: &Path, file: &File, is_last: bool) -> Result<TailContents, ArchiveError> {
    let mut attempts = 0;
    loop {
        let contents = TailContents::read(file, path)?;
        attempts += 1;
        match contents.scan.end {
            TailEnd::Clean => return Ok(contents),
            // the end of the last one is being written, or was when the writer was killed
            TailEnd::Torn if is_last => return Ok(contents),
            // a frame for which there was no room is cut, and another may take its place while the tail is read
            _ if attempts < TAIL_ATTEMPTS_MAX => {}
            // whether something is missing is known when the tail after it is read
            TailEnd::Torn => return Ok(contents),
            TailEnd::Damaged { .. } => return Err(damaged(path, &contents)),
        }
    }
}

/// Fails when the tail after a torn one does not go on where it ended. One whose last write failed, and could not be
/// taken back, is torn and has everything.
fn check_torn(path: &Path, torn: &TailContents, next: Option<Position>) -> Result<(), ArchiveError> {
    let goes_on = torn.scan.last().is_some_and(|last| next == Some(last.next()));
    if goes_on { Ok(()) } else { Err(damaged(path, torn)) }
}

fn damaged(path: &Path, contents: &TailContents) -> ArchiveError {
    let octets = contents.octets() - contents.scan.whole_octets as u64;
    ArchiveError::DamagedTail { path: path.to_owned(), octets }
}
