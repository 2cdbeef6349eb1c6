//! What the writer shares with its sync thread, its seal thread and its handles.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::position::TailNumber;
use crate::recovery::RecoveredTails;
use crate::ring::Ring;
use crate::summaries::keep::WaitingSummary;
use crate::tail::{FinishedTail, LiveTail};
use crate::unsynced::Syncing;
use crate::{Action, ArchiveError, ArchiveOptions, Position, Statistics, WhenFull, disk};

/// A failure to seal, or of maintenance, is reported at once, and then once in this time.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// Shared by the writer and its threads.
///
/// Two locks, so that reading the progress never waits for a write. Lock order: `tails`, then `progress`.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) layout: Layout,
    /// The folder of tails, open as long as somebody writes, so that syncing it takes no further file.
    pub(crate) tails_folder: File,
    pub(crate) options: ArchiveOptions,
    /// Held while a tail is sealed; maintenance has its own, and commits are safe from each other.
    pub(crate) manifest: Mutex<Manifest>,
    /// Held while a frame is written.
    tails: Mutex<Tails>,
    /// Held briefly, but where the marker of tails that are not confirmed is created or removed, when syncs fail and once they are made up
    /// for: a disk that hangs then blocks appending and asking for statistics.
    progress: Mutex<Progress>,
    /// Of positions of this writer.
    pub(crate) epoch: u32,
    /// What was appended last, for followers; has a lock of its own, which is taken last.
    pub(crate) ring: Ring,
    /// Set at the end, for threads that are in the middle of something and must not wait for a lock to know: at once, or after a while in
    /// which what is under way may end.
    pub(crate) is_ending: Arc<AtomicBool>,
    /// There is something to sync, or a new tail whose age counts, or the end has come.
    pub(crate) sync_wanted: Condvar,
    /// There is something to seal, or the end has come.
    pub(crate) seal_wanted: Condvar,
    /// There is no space, or the writer ends.
    pub(crate) upkeep_wanted: Condvar,
    /// The durable position moved, or never will again.
    pub(crate) durable_moved: Condvar,
}

/// The tail that is written, if one is begun.
#[derive(Debug)]
pub(crate) struct Tails {
    pub(crate) live: Option<LiveTail>,
    pub(crate) next_number: TailNumber,
}

/// How the writer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not at all yet.
    Open,
    /// Sync what was written, seal what is left.
    Close,
    /// Sync what was written, leave the rest to the next writer.
    Drop,
}

/// Sealing that fails, as it is to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealFailure {
    /// The tail. Its rows are safe, and are read from it.
    pub path: PathBuf,
    /// How often sealing it has failed.
    pub failures: u32,
    /// The error and its causes, on one line.
    pub cause: String,
}

/// The tails that wait for being sealed.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    pub(crate) finished: VecDeque<FinishedTail>,
    /// Tails that could not be sealed and were left behind; they are tried again when the others are sealed.
    pub(crate) skipped: VecDeque<FinishedTail>,
    /// Why the last attempt failed, until one succeeds.
    pub(crate) failure: Option<ArchiveError>,
    /// The same for the log, until it is asked for.
    pub(crate) report: Option<SealFailure>,
}

/// How far everything is.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) appended: Position,
    pub(crate) durable: Position,
    pub(crate) rows_appended: u64,
    pub(crate) rows_durable: u64,
    pub(crate) syncing: Syncing,
    /// When the live tail got its first frame.
    pub(crate) live_since: Option<Instant>,
    pub(crate) sealing: Sealing,
    pub(crate) ending: Ending,
    /// True when the disk was full since space was last freed.
    pub(crate) space_wanted: bool,
    /// Summaries for which there was no space yet.
    pub(crate) waiting_summaries: Vec<WaitingSummary>,
    /// Why maintenance failed last, until it is returned once.
    pub(crate) upkeep_failure: Option<ArchiveError>,
    /// Commits since the checkpoint, when these have become too many, until they are returned once.
    pub(crate) late_checkpoint: Option<u64>,
    /// Counters of the threads; the rest of the statistics is filled in when they are asked for.
    pub(crate) counted: Statistics,
}

impl Sealing {
    /// Counts a failure of a tail; returns how many there were.
    pub(crate) fn count_failure(&mut self, number: TailNumber) -> u32 {
        let tail = self.finished.iter_mut().find(|tail| tail.number == number);
        tail.map_or(1, |tail| {
            tail.failures += 1;
            tail.failures
        })
    }

    /// Takes a tail from those that wait.
    pub(crate) fn take_tail(&mut self, number: TailNumber) -> Option<FinishedTail> {
        let at = self.finished.iter().position(|tail| tail.number == number)?;
        self.finished.remove(at)
    }
}

impl Progress {
    pub(crate) fn statistics(&self) -> Statistics {
        let Sealing { finished, skipped, .. } = &self.sealing;
        Statistics {
            position: self.appended,
            durable: self.durable,
            rows_appended: self.rows_appended,
            rows_durable: self.rows_durable,
            backlog_tails: finished.len() as u64,
            backlog_rows: finished.iter().map(|tail| tail.rows).sum(),
            backlog_octets: finished.iter().map(|tail| tail.octets).sum(),
            tails_skipped: skipped.len() as u64,
            ..self.counted
        }
    }
}

impl Shared {
    pub(crate) fn new(
        layout: Layout,
        options: &ArchiveOptions,
        recovered: RecoveredTails,
    ) -> Result<Self, ArchiveError> {
        let tails = layout.tails();
        let tails_folder = File::open(&tails).map_err(Action::SyncFolder.failed(&tails))?;
        let RecoveredTails { recovery, manifest, tails: finished, next_number } = recovered;
        let position = recovery.position;
        let unconfirmed = finished.iter().map(|tail| tail.number).filter(|_| recovery.is_unconfirmed).collect();
        let progress = Progress {
            appended: position,
            durable: position,
            rows_appended: 0,
            rows_durable: 0,
            syncing: Syncing { unconfirmed, ..Syncing::default() },
            live_since: None,
            sealing: Sealing { finished, ..Sealing::default() },
            ending: Ending::Open,
            space_wanted: false,
            waiting_summaries: Vec::new(),
            upkeep_failure: None,
            late_checkpoint: None,
            counted: Statistics::default(),
        };
        Ok(Self {
            layout,
            tails_folder,
            options: *options,
            manifest: Mutex::new(manifest),
            tails: Mutex::new(Tails { live: None, next_number }),
            progress: Mutex::new(progress),
            epoch: recovery.epoch,
            ring: Ring::new(position),
            is_ending: Arc::default(),
            sync_wanted: Condvar::new(),
            seal_wanted: Condvar::new(),
            upkeep_wanted: Condvar::new(),
            durable_moved: Condvar::new(),
        })
    }

    // A thread that panicked while it held a lock left whole values behind: no step under a lock can panic half-way
    // between two that belong together. So a poisoned lock is used on.

    pub(crate) fn tails(&self) -> MutexGuard<'_, Tails> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the live tail, if there is one, and hands it to the seal thread.
    pub(crate) fn finish_live(&self, tails: &mut Tails) {
        let Some(live) = tails.live.take() else { return };
        let mut progress = self.progress();
        progress.live_since = None;
        progress.sealing.finished.push_back(FinishedTail {
            number: live.number,
            path: live.path,
            last: live.first.map(|_| live.last),
            rows: live.rows,
            octets: live.octets,
            failures: 0,
        });
        drop(progress);
        self.seal_wanted.notify_all();
    }

    /// Removes the marker of tails that are not confirmed when there are none any more. Under the lock of the progress, so that
    /// it stays for a sync that fails meanwhile.
    pub(crate) fn unmark_confirmed(&self, progress: &Progress) {
        if progress.syncing.failure.is_none() && progress.syncing.unconfirmed.is_empty() {
            let _ = disk::remove(&self.layout.unconfirmed());
        }
    }

    /// Says how the writer ends and wakes its threads.
    pub(crate) fn end(&self, ending: Ending) {
        self.progress().ending = ending;
        if ending == Ending::Drop {
            self.is_ending.store(true, Ordering::Relaxed);
        }
        self.ring.end();
        self.sync_wanted.notify_all();
        self.seal_wanted.notify_all();
        self.upkeep_wanted.notify_all();
    }

    /// Asks for space when the oldest segments may be removed for that.
    pub(crate) fn want_space(&self) {
        if self.options.when_full == WhenFull::OldestFirst {
            self.progress().space_wanted = true;
            self.upkeep_wanted.notify_all();
        }
    }
}
