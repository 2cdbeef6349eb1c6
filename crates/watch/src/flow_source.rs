//! Where the flows of watches come from: an archive that grows, or rows that a chain hands over.
//!
//! Rows of a chain wait in a queue with a limit. The sender does not wait by default: rows for which the queue is full are
//! counted and not watched. For files, which come as fast as they are read, it may wait instead.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMillisecondType;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use weir_archive::{
    ArchiveError, ArchiveHandle, FollowEvent, FollowOptions, FollowPosition, Follower, HandleOptions, Snapshot,
};
use weir_flow::Column;

use crate::WatchError;
use crate::counters::locked;

/// How far the last row may be from the clock for the clock to close windows: of files from the past, rows alone move time.
const LIVE_WITHIN_MS: i64 = 600_000;

/// Opens a follower of the archive after a position.
pub type Follow = Box<dyn Fn(FollowPosition, FollowOptions) -> Result<Follower, WatchError> + Send>;

/// Where flows come from.
#[expect(clippy::large_enum_variant, reason = "a runner has one")]
pub(crate) enum FlowSource {
    /// An archive, followed with these columns.
    Archive {
        /// Opens a follower.
        follow: Follow,
        /// The one that is open.
        follower: Follower,
        /// Its columns.
        columns: Vec<Column>,
    },
    /// A chain.
    Stream(StreamReceiver),
}

/// What comes from a source.
pub(crate) enum SourceEvent {
    /// From an archive.
    Followed(FollowEvent),
    /// Rows of a chain.
    Rows(RecordBatch),
    /// The chain has ended.
    End,
}

impl FlowSource {
    /// The next event; `None` when there is none within the time.
    pub(crate) fn next_timeout(&mut self, timeout: Duration) -> Result<Option<SourceEvent>, ArchiveError> {
        match self {
            Self::Archive { follower, .. } => Ok(follower.next_timeout(timeout)?.map(SourceEvent::Followed)),
            Self::Stream(stream) => Ok(stream.next_timeout(timeout)),
        }
    }

    /// As [`next_timeout`](Self::next_timeout) after an error: an archive is followed anew from where it was, since what is open of
    /// it may be of a mount that has gone.
    pub(crate) fn next_anew(&mut self, timeout: Duration) -> Result<Option<SourceEvent>, WatchError> {
        if let Self::Archive { follow, follower, columns } = self {
            let options = FollowOptions { columns: Some(columns.clone()), ..FollowOptions::default() };
            *follower = follow(follower.position(), options)?;
        }
        Ok(self.next_timeout(timeout)?)
    }

    /// Gives these columns too from now on; after an error it is as before. A chain gives all that it has.
    pub(crate) fn widen(&mut self, wanted: &[Column]) -> Result<(), WatchError> {
        let Self::Archive { follow, follower, columns } = self else { return Ok(()) };
        let missing: Vec<_> = wanted.iter().filter(|column| !columns.contains(column)).copied().collect();
        if !missing.is_empty() {
            let wider: Vec<_> = columns.iter().copied().chain(missing).collect();
            let options = FollowOptions { columns: Some(wider.clone()), ..FollowOptions::default() };
            *follower = follow(follower.position(), options)?;
            *columns = wider;
        }
        Ok(())
    }

    /// Whether the clock closes windows when nothing comes.
    pub(crate) fn is_live(&self, now_ms: i64) -> bool {
        match self {
            Self::Archive { .. } => true,
            Self::Stream(stream) => {
                stream.latest_ms.is_some_and(|latest_ms| latest_ms.abs_diff(now_ms) < LIVE_WITHIN_MS.unsigned_abs())
            }
        }
    }

    /// The latest time of reception of rows of a chain.
    pub(crate) fn latest_ms(&self) -> Option<i64> {
        match self {
            Self::Archive { .. } => None,
            Self::Stream(stream) => stream.latest_ms,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }
}

/// Rows that wait.
#[derive(Debug, Default)]
struct Waiting {
    rows: Mutex<u64>,
    /// No rows are taken any more. Set under the lock of `rows`.
    is_closed: AtomicBool,
    has_room: Condvar,
}

/// A queue of rows with a limit.
pub(crate) fn stream(rows_max: u64, waits: bool) -> (FlowFeed, FlowSource) {
    let (sender, receiver) = unbounded();
    let waiting = Arc::<Waiting>::default();
    let feed = FlowFeed { sender, waiting: Arc::clone(&waiting), rows_max, waits };
    (feed, FlowSource::Stream(StreamReceiver { receiver, waiting, latest_ms: None }))
}

/// Hands rows to the watches of a [`Runner`](crate::Runner) that follows no archive. When it is dropped, the last windows close.
#[derive(Debug)]
pub struct FlowFeed {
    sender: Sender<RecordBatch>,
    waiting: Arc<Waiting>,
    rows_max: u64,
    waits: bool,
}

impl FlowFeed {
    /// Hands rows over; false when the queue is full, or rows are not taken any more.
    pub fn send(&self, rows: &RecordBatch) -> bool {
        let count = rows.num_rows() as u64;
        let mut waiting = locked(&self.waiting.rows);
        // rows that are more than the limit alone find room when nothing waits
        while *waiting > 0 && *waiting + count > self.rows_max {
            if !self.waits || self.waiting.is_closed.load(Ordering::Relaxed) {
                return false;
            }
            waiting = self.waiting.has_room.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *waiting += count;
        drop(waiting);
        self.sender.send(rows.clone()).is_ok()
    }
}

/// The other end of a [`FlowFeed`].
#[derive(Debug)]
pub(crate) struct StreamReceiver {
    receiver: Receiver<RecordBatch>,
    waiting: Arc<Waiting>,
    latest_ms: Option<i64>,
}

impl StreamReceiver {
    fn next_timeout(&mut self, timeout: Duration) -> Option<SourceEvent> {
        match self.receiver.recv_timeout(timeout) {
            Ok(rows) => {
                let mut waiting = locked(&self.waiting.rows);
                *waiting = waiting.saturating_sub(rows.num_rows() as u64);
                self.waiting.has_room.notify_all();
                drop(waiting);
                let received = rows.column_by_name(Column::Received.name());
                let received = received.and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
                self.latest_ms = self.latest_ms.max(received.and_then(arrow::compute::max));
                Some(SourceEvent::Rows(rows))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(SourceEvent::End),
        }
    }
}

impl Drop for StreamReceiver {
    /// A sender that waits for the queue must not wait for ever.
    fn drop(&mut self) {
        let mut waiting = locked(&self.waiting.rows);
        *waiting = 0;
        self.waiting.is_closed.store(true, Ordering::Relaxed);
        self.waiting.has_room.notify_all();
    }
}

/// The archive that history is asked of. For a chain it is opened when it is first needed: a sink of the same chain may
/// make it.
#[derive(Debug, Default)]
pub(crate) struct HistoryArchive {
    folder: Option<PathBuf>,
    handle: OnceLock<Arc<ArchiveHandle>>,
}

impl HistoryArchive {
    /// One that is there, and open.
    pub(crate) fn open(folder: &std::path::Path) -> Result<Self, WatchError> {
        let history = Self::named(Some(folder.to_owned()));
        history.handle()?;
        Ok(history)
    }

    /// One that may be there later; none for `None`.
    pub(crate) fn named(folder: Option<PathBuf>) -> Self {
        Self { folder, handle: OnceLock::new() }
    }

    /// Whether there is one.
    pub(crate) fn is_some(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn handle(&self) -> Result<Arc<ArchiveHandle>, WatchError> {
        if let Some(handle) = self.handle.get() {
            return Ok(Arc::clone(handle));
        }
        let Some(folder) = &self.folder else { return Err(WatchError::NoHistory { name: String::new() }) };
        let opened = Arc::new(ArchiveHandle::open(folder, &HandleOptions::default())?);
        // another thread may have been first, with the same archive
        Ok(Arc::clone(self.handle.get_or_init(|| opened)))
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, WatchError> {
        Ok(self.handle()?.snapshot()?)
    }

    /// Records that the books of these times have as lost; `None` without an archive that can be read.
    pub(crate) fn lost_records(&self, from_ms: i64, to_ms: i64) -> Option<u64> {
        let complete = self.snapshot().ok()?.completeness(from_ms, to_ms).ok()?;
        Some(complete.lost_records.saturating_add(complete.lost_estimate))
    }
}
