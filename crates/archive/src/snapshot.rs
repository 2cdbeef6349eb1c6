//! The archive at one position, for reading.

mod received;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use weir_flow::Table;

use crate::caches::Caches;
use crate::frame::TailEnd;
use crate::layout::Layout;
use crate::manifest::{ArchiveState, Manifest};
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::removed::explained;
use crate::summaries::SegmentSummary;
use crate::tail::{TailFrame, TailFrames};
use crate::tails::{TailOpener, counting_tails};
use crate::{ArchiveError, FollowPosition, Position, Segment, SegmentIndex};

/// Attempts to open the tails of an archive whose writer seals them faster than that.
const ATTEMPTS_MAX: u32 = 1000;
/// Times that a tail is read before it is taken for damaged.
const TAIL_ATTEMPTS_MAX: u32 = 3;

/// Everything that was appended up to one position: segments, and the rows that are in no segment yet.
///
/// While a snapshot lives, the files of its segments stay in their places: it holds a lease (see `readers`), which no
/// writer waits for. They do so for [`ExpiryOptions::readers_wait_max`](crate::ExpiryOptions) at most, and for less when the
/// archive has a limit and too much waits. A file that vanishes, then or where no lease can be had, is an error when it is
/// opened.
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
/// 5. Find the frames of the tails, of which the heads are enough; what is in them is read when it is asked for. All tails
///    but the last are complete, because a tail is begun only after the one before has ended.
#[derive(Debug)]
pub struct Snapshot {
    state: Arc<ArchiveState>,
    position: Position,
    /// By [`Table`], made when they are first asked for.
    segments: [OnceLock<Vec<Segment>>; Table::ALL.len()],
    /// Of all tails.
    frames: Vec<TailFrame>,
    /// Of the handle that it is of.
    caches: Option<Arc<Caches>>,
    lease: Arc<Lease>,
}

impl Snapshot {
    /// Takes a snapshot of the archive in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ArchiveError> {
        let layout = Layout::new(dir);
        layout.check()?;
        for _ in 0..ATTEMPTS_MAX {
            let lease = Lease::take(&layout)?;
            let mut source = StateSource::read(&layout)?;
            let tails = open_tails(&layout, source.state())?;
            if !source.has_changed(&layout)? {
                return Self::of_tails(source.into_state(), tails?.iter_mut(), lease, None);
            }
        }
        Err(ArchiveError::Unsettled { path: dir.to_owned(), attempts: ATTEMPTS_MAX })
    }

    /// A snapshot of this state and of tails, of which frames are looked for that are not known yet.
    pub(crate) fn of_tails<'a>(
        state: Arc<ArchiveState>,
        tails: impl ExactSizeIterator<Item = &'a mut TailFrames>,
        lease: Lease,
        caches: Option<&Arc<Caches>>,
    ) -> Result<Self, ArchiveError> {
        let mut position = state.local().position;
        let mut frames: Vec<TailFrame> = Vec::new();
        // the last tail that has frames, and the number of the last tail
        let mut before: Option<(&TailFrames, TailNumber)> = None;
        let count = tails.len();
        for (number, tail) in tails.enumerate() {
            read_tail(tail, number + 1 == count)?;
            let number = tail.number();
            let of_chain = before.filter(|(_, last)| last + 1 == number).map(|(before, _)| before);
            if let Some(before) = of_chain {
                check_goes_on(before, tail)?;
            }
            frames.extend(tail.frames.iter().map(|frame| frame.with_caches(caches)));
            position = position.max(tail.last().unwrap_or_default());
            // one that was begun and got no frame changes nothing
            before = Some((of_chain.filter(|_| tail.frames.is_empty()).unwrap_or(tail), number));
        }
        let (segments, caches) = (Default::default(), caches.map(Arc::clone));
        Ok(Self { state, position, segments, frames, caches, lease: Arc::new(lease) })
    }

    /// What a segment knows about its pages; `None` for segments that were written before there was an index.
    pub fn index_of(&self, segment: &Segment) -> Result<Option<SegmentIndex>, ArchiveError> {
        let index = match &self.caches {
            Some(caches) => caches.index(segment),
            None => segment.index(),
        };
        index.map_err(|error| explained(segment, error))
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

    /// Files that counted no more when the snapshot was taken and waited for being removed, and their octets.
    pub fn files_pending(&self) -> (u64, u64) {
        let pending = &self.state.pending;
        (pending.len() as u64, pending.iter().map(|pending| pending.file.octets()).sum())
    }

    /// Flows in segments that were set aside because they were damaged or gone.
    pub fn rows_set_aside(&self) -> u64 {
        self.state.rows_set_aside
    }

    /// Deliveries that are in no segment, in the order in which they were appended. They are read when they are asked
    /// for.
    pub fn tail_frames(&self) -> &[TailFrame] {
        &self.frames
    }

    /// Rows of a table that are in no segment, in the order in which they were appended. Batches of flows have only
    /// the columns that their delivery had.
    pub fn tail(&self, table: Table) -> Result<Vec<RecordBatch>, ArchiveError> {
        let mut batches = Vec::new();
        for frame in &self.frames {
            batches.extend(frame.read(table)?);
        }
        Ok(batches)
    }

    /// Flows that are in no segment.
    pub fn flows_unsealed(&self) -> u64 {
        self.frames.iter().map(|frame| frame.flows() as u64).sum()
    }

    /// Flows, in segments and in the tail.
    pub fn flows(&self) -> u64 {
        self.rows_sealed(Table::Flows) + self.flows_unsealed()
    }

    /// Flows of the deliveries after this one, in segments and in the tail.
    ///
    /// # Errors
    /// Those of reading which deliveries a segment has that begins before it and ends after it.
    pub fn flows_after(&self, position: Position) -> Result<u64, ArchiveError> {
        let unsealed = self.frames.iter().filter(|frame| frame.position() > position);
        let mut flows: u64 = unsealed.map(|frame| frame.flows() as u64).sum();
        for segment in self.segments(Table::Flows).iter().filter(|segment| segment.last > position) {
            if segment.first > position {
                flows += segment.rows;
                continue;
            }
            let known = segment.deliveries()?;
            let after = known.deliveries.iter().filter(|delivery| delivery.position > position);
            flows += after.map(|delivery| delivery.rows).sum::<u64>();
        }
        Ok(flows)
    }

    /// Rows of a table, in segments and in the tail, which is read for that.
    pub fn rows(&self, table: Table) -> Result<u64, ArchiveError> {
        let tail: usize = self.tail(table)?.iter().map(RecordBatch::num_rows).sum();
        Ok(self.rows_sealed(table) + tail as u64)
    }

    /// Rows of a table in segments.
    fn rows_sealed(&self, table: Table) -> u64 {
        self.segments(table).iter().map(|segment| segment.rows).sum()
    }
}

/// Where the state of an archive is read from: its manifest, or its files in format 1, which has no manifest.
enum StateSource {
    Manifest(Manifest),
    /// Of format 1.
    Files(Arc<ArchiveState>),
}

impl StateSource {
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
fn open_tails(layout: &Layout, state: &ArchiveState) -> Result<Result<Vec<TailFrames>, ArchiveError>, ArchiveError> {
    let numbers = match counting_tails(layout, state)? {
        Ok(numbers) => numbers,
        Err(missing) => return Ok(Err(missing)),
    };
    let (opener, last) = (TailOpener::new(), numbers.last().copied());
    let mut tails = Vec::with_capacity(numbers.len());
    for number in numbers {
        match opener.open(layout, number, tails.len(), Some(number) == last)? {
            Some(tail) => tails.push(tail),
            None => return Ok(Err(ArchiveError::MissingTail { path: layout.tail(number) })),
        }
    }
    Ok(Ok(tails))
}

/// Finds the frames of a tail. What is damaged is an error: a snapshot never has fewer rows than the archive without
/// saying so.
fn read_tail(tail: &mut TailFrames, is_last: bool) -> Result<(), ArchiveError> {
    let mut attempts = 0;
    loop {
        tail.look_further()?;
        attempts += 1;
        match tail.end {
            TailEnd::Clean => return Ok(()),
            // the end of the last one is being written, or was when the writer was killed
            TailEnd::Torn if is_last => return Ok(()),
            // a frame for which there was no room is cut, and another may take its place while the tail is read
            _ if attempts < TAIL_ATTEMPTS_MAX => {}
            // whether something is missing is known when the tail after it is read
            TailEnd::Torn => return Ok(()),
            TailEnd::Damaged => return Err(damaged(tail)),
        }
    }
}

/// Fails when a tail does not go on where the one before has ended: then frames are missing. One whose last write failed,
/// and could not be taken back, is torn and has everything.
fn check_goes_on(before: &TailFrames, tail: &TailFrames) -> Result<(), ArchiveError> {
    let Some(first) = tail.frames.first().map(TailFrame::position) else { return Ok(()) };
    match before.last() {
        Some(last) if last.next() == first => Ok(()),
        // the first of all, which got no frame
        None if before.octets_left == 0 => Ok(()),
        _ if before.octets_left > 0 => Err(damaged(before)),
        last => Err(ArchiveError::MissingFrames { path: before.path().to_owned(), last, next: first }),
    }
}

fn damaged(tail: &TailFrames) -> ArchiveError {
    ArchiveError::DamagedTail { path: tail.path().to_owned(), octets: tail.octets_left }
}
