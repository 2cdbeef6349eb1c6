//! Making durable what was written: the sync thread, and what it does when the disk does not confirm.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::shared::{Ending, Progress, Shared};
use crate::tail::{FinishedTail, write_again};
use crate::unsynced::{SyncFailure, Syncing};
use crate::{Action, ArchiveError, TailDamage, disk};

/// A tail that cannot be read so many times is left as it is, so that others can be written.
const READS_MAX: u32 = 10;

/// What the sync thread has to do.
enum SyncTask {
    Sync,
    WriteAgain,
    Rotate,
    Wait(Option<Duration>),
    End,
}

fn next_sync_task(shared: &Shared, progress: &Progress) -> SyncTask {
    let Syncing { since, failure, .. } = &progress.syncing;
    let is_ending = progress.ending != Ending::Open;
    if let Some(failure) = failure {
        return match failure.pause().saturating_sub(failure.tried.elapsed()) {
            _ if failure.is_given_up => SyncTask::End,
            left if left.is_zero() || is_ending => SyncTask::WriteAgain,
            left => SyncTask::Wait(Some(left)),
        };
    }
    if is_ending {
        return if since.is_some() { SyncTask::Sync } else { SyncTask::End };
    }
    let left = |since: Option<Instant>, limit: Duration| since.map(|since| limit.saturating_sub(since.elapsed()));
    let to_sync = left(*since, shared.options.commit_interval);
    let to_rotate = left(progress.live_since, shared.options.seal_interval);
    if to_sync.is_some_and(|left| left.is_zero()) {
        return SyncTask::Sync;
    }
    if to_rotate.is_some_and(|left| left.is_zero()) {
        return SyncTask::Rotate;
    }
    SyncTask::Wait([to_sync, to_rotate].into_iter().flatten().min())
}

pub(crate) fn run_sync(shared: &Shared) {
    loop {
        let progress = shared.progress();
        let task = next_sync_task(shared, &progress);
        match task {
            SyncTask::Wait(None) => {
                drop(shared.sync_wanted.wait(progress).unwrap_or_else(PoisonError::into_inner));
            }
            SyncTask::Wait(Some(time)) => {
                drop(shared.sync_wanted.wait_timeout(progress, time).unwrap_or_else(PoisonError::into_inner));
            }
            SyncTask::Sync => {
                drop(progress);
                sync(shared);
            }
            SyncTask::WriteAgain => {
                drop(progress);
                write_all_again(shared);
            }
            SyncTask::Rotate => {
                drop(progress);
                rotate(shared);
            }
            SyncTask::End => break,
        }
    }
    shared.durable_moved.notify_all();
    shared.seal_wanted.notify_all();
}

/// Makes durable what was appended so far. Frames that come meanwhile are for the next time.
///
/// A failed sync is never just tried again: the kernel may have dropped the pages and marked them clean, so that the next
/// sync would succeed without having written anything. Nothing is opened here: that too many files are open is no
/// failed sync.
fn sync(shared: &Shared) {
    let mut progress = shared.progress();
    let files = std::mem::take(&mut progress.syncing.files);
    progress.syncing.since = None;
    let folder_unsynced = std::mem::take(&mut progress.syncing.folder);
    let (position, rows) = (progress.appended, progress.rows_appended);
    drop(progress);
    let failed = files.iter().find_map(|(number, file)| {
        let path = shared.layout.tail(*number);
        sync_tail(file, &path).err().map(|source| (path, source))
    });
    let failed = failed.or_else(|| {
        let tails = shared.layout.tails();
        let synced = if folder_unsynced { disk::sync_open_folder(&shared.tails_folder, &tails) } else { Ok(()) };
        synced.err().map(|source| (tails, source))
    });
    let mut progress = shared.progress();
    if let Some((path, source)) = failed {
        progress.counted.sync_failures += 1;
        let tails = files.into_iter().map(|(number, _)| number).collect();
        progress.syncing.failure = Some(SyncFailure {
            path,
            source: Arc::new(source),
            tails,
            tried: Instant::now(),
            failures: 0,
            reads_failed: 0,
            is_given_up: false,
        });
        // the next process that opens the archive in the same run of the system must not trust a sync either
        let _ = disk::create(&shared.layout.unconfirmed());
    } else {
        progress.durable = position;
        progress.rows_durable = rows - progress.counted.rows_lost;
    }
    drop(progress);
    shared.durable_moved.notify_all();
}

fn sync_tail(file: &File, path: &Path) -> io::Result<()> {
    #[cfg(test)]
    failing::refuse(path)?;
    disk::sync_data(file, path)
}

/// Writes the tails that a failed sync concerns to other files. Nothing is appended until that has succeeded.
fn write_all_again(shared: &Shared) {
    // appending checks for the failure under this lock, so nothing is added to these tails any more
    shared.finish_live(&mut shared.tails());
    let mut progress = shared.progress();
    let more = std::mem::take(&mut progress.syncing.files);
    (progress.syncing.since, progress.syncing.folder) = (None, false);
    let is_last = progress.ending != Ending::Open;
    let (position, rows) = (progress.appended, progress.rows_appended);
    let Some(failure) = &mut progress.syncing.failure else { return };
    for (number, _) in more {
        if !failure.tails.contains(&number) {
            failure.tails.push(number);
        }
    }
    let wanted = failure.tails.clone();
    let finished = progress.sealing.finished.iter().chain(&progress.sealing.skipped);
    // what is no longer among these was sealed, and is durable in its segments
    let left: Vec<FinishedTail> = finished.filter(|tail| wanted.contains(&tail.number)).cloned().collect();
    drop(progress);
    for tail in &left {
        let (damage, rows_lost) = match write_one_again(shared, tail) {
            Ok(written) => written,
            Err(error) => return failed_again(shared, tail, &error, is_last),
        };
        let mut progress = shared.progress();
        progress.counted.rows_lost += rows_lost;
        progress.syncing.damages.extend(damage);
        if let Some(failure) = &mut progress.syncing.failure {
            failure.tails.retain(|number| *number != tail.number);
        }
    }
    let mut progress = shared.progress();
    progress.syncing.failure = None;
    shared.unmark_confirmed(&progress);
    progress.durable = position;
    progress.rows_durable = rows - progress.counted.rows_lost;
    drop(progress);
    shared.durable_moved.notify_all();
    shared.seal_wanted.notify_all();
}

/// Gives up a tail that cannot be read. It is sealed like any other, as far as that goes.
fn leave(progress: &mut Progress, tail: &FinishedTail) {
    progress.counted.rows_lost += tail.rows;
    progress.syncing.damages.push(TailDamage {
        path: tail.path.clone(),
        octets_lost: tail.octets,
        frames_lost: 0,
        rows_lost: tail.rows,
        frames_behind: 0,
        rows_behind: 0,
        kept: None,
    });
}

fn failed_again(shared: &Shared, tail: &FinishedTail, error: &ArchiveError, is_last: bool) {
    let mut progress = shared.progress();
    progress.counted.sync_failures += 1;
    if let Some(failure) = &mut progress.syncing.failure {
        failure.path.clone_from(&tail.path);
        failure.source = Arc::new(io::Error::other(error.chain()));
        failure.tried = Instant::now();
        failure.failures += 1;
        failure.is_given_up = is_last;
        failure.reads_failed += u32::from(error.io().is_some_and(|(action, _)| action == Action::ReadTail));
        if failure.reads_failed >= READS_MAX {
            failure.reads_failed = 0;
            failure.tails.retain(|number| *number != tail.number);
            leave(&mut progress, tail);
        }
    }
    drop(progress);
    if error.is_full_disk() {
        shared.want_space();
    }
    shared.durable_moved.notify_all();
}

/// Writes a tail again; returns what is damaged in it and how many flows are lost.
fn write_one_again(shared: &Shared, tail: &FinishedTail) -> Result<(Option<TailDamage>, u64), ArchiveError> {
    #[cfg(test)]
    failing::refuse(&tail.path).map_err(Action::SetAside.failed(&tail.path))?;
    // so that it is not being sealed
    let manifest = shared.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    if !manifest.state().local().has_tail(tail.number) {
        return Ok((None, 0));
    }
    match write_again(&shared.layout, tail) {
        Ok(None) => Ok((None, 0)),
        Ok(Some((damage, rows))) => Ok((Some(damage), tail.rows.saturating_sub(rows))),
        Err(error) => match error.io() {
            // somebody removed it
            Some((Action::ReadTail, source)) if source.kind() == io::ErrorKind::NotFound => Ok((None, tail.rows)),
            _ => Err(error),
        },
    }
}

/// Ends the live tail if it is old enough still: the writer may have begun another one meanwhile.
fn rotate(shared: &Shared) {
    let mut tails = shared.tails();
    let old = |begun: Instant| begun.elapsed() >= shared.options.seal_interval;
    if tails.live.as_ref().is_some_and(|live| old(live.begun)) {
        shared.finish_live(&mut tails);
    }
}

#[cfg(test)]
mod failing;
#[cfg(test)]
mod tests;
