//! The threads of a writer: one makes durable what was written, one seals tails, one does maintenance.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ArchiveError;
use crate::manifest::Edit;
use crate::position::{LOCAL, TailNumber};
use crate::seal::{SealReport, seal_tail};
use crate::shared::{Ending, Progress, REPORT_INTERVAL, SealFailure, Shared};
use crate::syncing::run_sync;
use crate::tail::FinishedTail;
use crate::upkeep::round;

/// The threads of a writer.
#[derive(Debug)]
pub(crate) struct Threads {
    sync: Option<JoinHandle<()>>,
    seal: Option<JoinHandle<()>>,
    upkeep: Option<JoinHandle<()>>,
}

const SYNC: &str = "archive-sync";
const SEAL: &str = "archive-seal";
const UPKEEP: &str = "archive-upkeep";

impl Threads {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, ArchiveError> {
        let mut threads = Self { sync: None, seal: None, upkeep: None };
        match threads.start_all(shared) {
            Ok(()) => Ok(threads),
            Err(error) => {
                shared.end(Ending::Drop);
                threads.join(shared)?;
                Err(error)
            }
        }
    }

    fn start_all(&mut self, shared: &Arc<Shared>) -> Result<(), ArchiveError> {
        let sync = Arc::clone(shared);
        let seal = Arc::clone(shared);
        let upkeep = Arc::clone(shared);
        self.sync = Some(start(SYNC, move || run_sync(&sync))?);
        self.seal = Some(start(SEAL, move || run_seal(&seal))?);
        self.upkeep = Some(start(UPKEEP, move || round::run(&upkeep))?);
        Ok(())
    }

    /// Waits until all have ended, after [`Shared::end`]. A merge that is under way has a while to end, or a process that never
    /// runs for long would begin the same one again each time; then it is abandoned.
    pub(crate) fn join(&mut self, shared: &Shared) -> Result<(), ArchiveError> {
        let until = Instant::now() + MERGE_GRACE;
        while self.upkeep.as_ref().is_some_and(|upkeep| !upkeep.is_finished()) && Instant::now() < until {
            if shared.is_ending.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        shared.is_ending.store(true, Ordering::Relaxed);
        for (name, thread) in [(SYNC, self.sync.take()), (SEAL, self.seal.take()), (UPKEEP, self.upkeep.take())] {
            if thread.is_some_and(|thread| thread.join().is_err()) {
                return Err(ArchiveError::ThreadPanicked { name });
            }
        }
        Ok(())
    }
}

fn start(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ArchiveError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|source| ArchiveError::StartThread { name, source })
}

/// How long a merge that is under way at the end may take.
const MERGE_GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A tail that was left behind is tried again after this multiple of the pause between two attempts.
const PAUSE_RETRIES: u32 = 12;

fn run_seal(shared: &Shared) {
    let mut reported: Option<Instant> = None;
    while let Some(tail) = next_to_seal(shared) {
        match seal(shared, &tail) {
            Ok(sealed) => {
                let mut progress = shared.progress();
                count(&mut progress, &tail, &sealed);
                progress.sealing.take_tail(tail.number);
                progress.sealing.failure = None;
                let was_unconfirmed = !progress.syncing.unconfirmed.is_empty();
                progress.syncing.unconfirmed.retain(|number| *number != tail.number);
                if was_unconfirmed {
                    shared.unmark_confirmed(&progress);
                }
                reported = None;
            }
            Err(error) => {
                let is_due = reported.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL);
                reported = if is_due { Some(Instant::now()) } else { reported };
                if !after_failure(shared, &tail, error, is_due) {
                    return;
                }
            }
        }
    }
}

/// Seals a tail. A panic is an error like another one: the tail is tried again, and then left behind.
fn seal(shared: &Shared, tail: &FinishedTail) -> Result<SealReport, ArchiveError> {
    let sealed = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut manifest = shared.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        seal_tail(&shared.layout, &mut manifest, &shared.options, tail)
    }));
    sealed.unwrap_or(Err(ArchiveError::ThreadPanicked { name: SEAL }))
}

/// Counts a failure and waits until the tail is tried again, or leaves it behind. False at the end.
fn after_failure(shared: &Shared, tail: &FinishedTail, error: ArchiveError, is_due: bool) -> bool {
    let is_full = error.is_full_disk();
    let mut progress = shared.progress();
    progress.counted.seal_failures += 1;
    let failures = progress.sealing.count_failure(tail.number);
    if is_due {
        progress.sealing.report = Some(SealFailure { path: tail.path.clone(), failures, cause: error.chain() });
    }
    progress.sealing.failure = Some(error);
    if is_full {
        drop(progress);
        // What fails here fails in the round of the other thread too, which reports it.
        if round::make_room(shared).unwrap_or(false) {
            return true;
        }
        progress = shared.progress();
    } else if failures >= shared.options.seal_retries.failures_max {
        drop(progress);
        leave_behind(shared, tail.number);
        progress = shared.progress();
    }
    if progress.ending != Ending::Open {
        return false;
    }
    let waiting = |progress: &mut Progress| progress.ending == Ending::Open;
    let time = shared.options.seal_retries.interval;
    drop(shared.seal_wanted.wait_timeout_while(progress, time, waiting));
    true
}

/// Leaves a tail behind, so that the next one is sealed: it counts as it is. When that cannot be committed either, the
/// tail is tried again.
fn leave_behind(shared: &Shared, number: TailNumber) {
    let mut manifest = shared.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    let committed = manifest.commit(|state| {
        let is_next = state.local().first_tail == number;
        Ok(is_next.then_some(Edit::Skipped { writer: LOCAL, tail: number }))
    });
    drop(manifest);
    if committed.is_ok() {
        let mut progress = shared.progress();
        if let Some(mut tail) = progress.sealing.take_tail(number) {
            tail.failures = 0;
            progress.sealing.skipped.push_back(tail);
        }
    }
}

/// The oldest tail that waits for being sealed, as soon as there is one; `None` at the end. Those that were left behind
/// come when no other waits.
///
/// While a sync has failed nothing is sealed: the tails are being written again.
fn next_to_seal(shared: &Shared) -> Option<FinishedTail> {
    let pause = shared.options.seal_retries.interval * PAUSE_RETRIES;
    let mut progress = shared.progress();
    loop {
        let is_stuck = progress.syncing.failure.is_some();
        let is_given_up = progress.syncing.is_given_up();
        if progress.ending == Ending::Drop || (is_given_up && progress.ending != Ending::Open) {
            return None;
        }
        if !is_stuck {
            match progress.sealing.finished.front() {
                None if progress.ending != Ending::Open => return None,
                None => {}
                next => return next.cloned(),
            }
        }
        let (next, waited) = shared.seal_wanted.wait_timeout(progress, pause).unwrap_or_else(PoisonError::into_inner);
        progress = next;
        if waited.timed_out() && progress.sealing.finished.is_empty() {
            let again = progress.sealing.skipped.pop_front();
            progress.sealing.finished.extend(again);
        }
    }
}

fn count(progress: &mut Progress, tail: &FinishedTail, sealed: &SealReport) {
    let sealing = &mut progress.counted;
    sealing.tails_sealed += 1;
    sealing.rows_sealed += sealed.rows;
    sealing.segments_sealed += sealed.segments;
    sealing.octets_sealed += sealed.octets;
    sealing.tails_damaged += u64::from(sealed.rows < tail.rows);
    sealing.seal_read_time += sealed.read_time;
    sealing.seal_order_time += sealed.order_time;
    sealing.seal_write_time += sealed.write_time;
}
