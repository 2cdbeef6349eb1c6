//! The maintenance thread of a writer: free space, expiry, superseded files, and one merge after another.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use weir_flow::Table;

use super::Upkeep;
use super::clock::ClockGuard;
use super::now_ms;
use crate::civil::MS_PER_DAY;
use crate::compaction::Compaction;
use crate::manifest::Manifest;
use crate::shared::{Ending, Progress, REPORT_INTERVAL, Shared};
use crate::space::FreedSpace;
use crate::{ArchiveError, ExpiryReport, WhenFull, expiry, space};

/// Commits since the checkpoint from which on it is reported as late; usually there are at most 32.
const LATE_COMMITS: u64 = 256;

/// What maintenance remembers from one round to the next.
struct Maintenance {
    compaction: Compaction,
    /// The manifest as it was known last: most rounds find it unchanged.
    manifest: Option<Manifest>,
    clock: ClockGuard,
    /// When the next merge may begin; nothing else waits for that.
    merge_from: Instant,
    /// Whether the clock was compared with the flows that there are.
    is_compared: bool,
    /// Whether leftovers of a crash were looked for.
    is_swept: bool,
    /// Whether it was reported that the checkpoint is late.
    is_late_reported: bool,
    /// When a failure was reported last.
    reported: Option<Instant>,
}

impl Maintenance {
    /// Whether a failure is to be reported. One that lasts comes with every round.
    fn is_report_due(&mut self) -> bool {
        let is_due = self.reported.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL);
        self.reported = if is_due { Some(Instant::now()) } else { self.reported };
        is_due
    }
}

/// Does maintenance until the writer ends.
pub(crate) fn run(shared: &Shared) {
    let mut maintenance = Maintenance {
        compaction: Compaction::new(&shared.options).until(Arc::clone(&shared.is_ending)),
        manifest: None,
        clock: ClockGuard::new(),
        merge_from: Instant::now(),
        is_compared: false,
        is_swept: false,
        is_late_reported: false,
        reported: None,
    };
    let mut rest = shared.options.upkeep_interval;
    while let Some(space_wanted) = wait(shared, rest) {
        match round(shared, &mut maintenance, space_wanted) {
            Ok(next) => rest = next,
            Err(error) => {
                let mut progress = shared.progress();
                progress.counted.upkeep_failures += 1;
                if maintenance.is_report_due() {
                    progress.upkeep_failure = Some(error);
                }
                rest = shared.options.upkeep_interval;
            }
        }
    }
}

/// Rests; returns whether space is wanted, or `None` at the end.
fn wait(shared: &Shared, rest: Duration) -> Option<bool> {
    let idle = |progress: &mut Progress| progress.ending == Ending::Open && !progress.space_wanted;
    let waited = shared.upkeep_wanted.wait_timeout_while(shared.progress(), rest, idle);
    let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
    (progress.ending == Ending::Open).then(|| std::mem::take(&mut progress.space_wanted))
}

/// Frees space when the disk is full and the oldest segments may be removed for that. True when something could be removed.
/// Waits for the maintenance under way: a merge, at most.
pub(crate) fn make_room(shared: &Shared) -> Result<bool, ArchiveError> {
    if shared.options.when_full != WhenFull::OldestFirst {
        return Ok(false);
    }
    let (mut waiting, mut freed) = (Vec::new(), FreedSpace::default());
    let made = space::make_room(&mut Upkeep::begin(&shared.layout)?, &shared.options, &mut waiting, &mut freed);
    let mut progress = shared.progress();
    progress.waiting_summaries.extend(waiting);
    progress.counted.room_refused += u64::from(freed.is_at_floor);
    progress.counted.segments_removed_for_room += freed.files;
    progress.counted.rows_expired += freed.rows;
    progress.counted.octets_expired += freed.octets;
    progress.counted.summaries_written += freed.written.summaries;
    progress.counted.segments_without_sums += freed.written.without_sums;
    progress.counted.summaries_expired += freed.summaries;
    made.map(|()| freed.files > 0)
}

/// One look at everything; returns how long to rest.
fn round(shared: &Shared, maintenance: &mut Maintenance, space_wanted: bool) -> Result<Duration, ArchiveError> {
    let options = &shared.options;
    if space_wanted || space::is_short(shared.layout.root(), 0, options)? {
        make_room(shared)?;
    }
    // also while others do maintenance: one of them may be the process that was stopped
    count_commits(shared, maintenance);
    let known = maintenance.manifest.take();
    let Some(mut upkeep) = Upkeep::try_begin(&shared.layout, known)? else { return Ok(options.upkeep_interval) };
    if !maintenance.is_swept {
        upkeep.remove_uncommitted()?;
        maintenance.is_swept = true;
    }
    expire(shared, maintenance, &mut upkeep)?;
    let may_merge = options.compaction.enabled && Instant::now() >= maintenance.merge_from;
    let merged = may_merge && merge(shared, &mut maintenance.compaction, &mut upkeep)?;
    if merged {
        // at once: until the next look, what was merged would be on the disk twice
        let removed = upkeep.remove_pending(&options.expiry.pending_limits())?;
        shared.progress().counted.files_removed_early += removed.files_early;
        let busy = u32::from(options.compaction.busy_percent.clamp(1, 100));
        maintenance.merge_from = Instant::now() + maintenance.compaction.last_time * (100 - busy) / busy;
    }
    count_pending(shared, &upkeep);
    space::keep_commits_reserve(&upkeep.manifest, shared.layout.root());
    maintenance.manifest = Some(upkeep.manifest.clone());
    upkeep.check_removals()?;
    // the rest after a long merge must not keep from expiring what is over the limit meanwhile
    let rest = maintenance.merge_from.saturating_duration_since(Instant::now());
    Ok(if merged || !rest.is_zero() { rest.min(options.upkeep_interval) } else { options.upkeep_interval })
}

fn count_commits(shared: &Shared, maintenance: &mut Maintenance) {
    // maintenance does not depend on the number, and reports itself what it cannot read
    let Ok(commits) = Manifest::commits_since_checkpoint(&shared.layout) else { return };
    let is_late = commits >= LATE_COMMITS;
    let was_reported = std::mem::replace(&mut maintenance.is_late_reported, is_late);
    let mut progress = shared.progress();
    progress.counted.commits_since_checkpoint = commits;
    if is_late && !was_reported {
        progress.late_checkpoint = Some(commits);
    }
}

fn count_pending(shared: &Shared, upkeep: &Upkeep) {
    let pending = &upkeep.state().pending;
    let mut progress = shared.progress();
    progress.counted.files_pending = pending.len() as u64;
    progress.counted.octets_pending = pending.iter().map(|pending| pending.file.octets()).sum();
}

fn expire(shared: &Shared, maintenance: &mut Maintenance, upkeep: &mut Upkeep) -> Result<(), ArchiveError> {
    let mut expiry = shared.options.expiry;
    let mut waiting = std::mem::take(&mut shared.progress().waiting_summaries);
    if !std::mem::replace(&mut maintenance.is_compared, true) {
        compare(&mut maintenance.clock, upkeep, expiry.age_max);
    }
    let is_suspended = !maintenance.clock.may_expire_by_age();
    if is_suspended {
        (expiry.age_max, expiry.side_tables_age_max) = (None, None);
        expiry.summaries.age_max = Duration::MAX;
    }
    let mut expired = ExpiryReport::default();
    let ran = expiry::run(upkeep, &expiry, shared.options.heavy_keys_min, &mut waiting, &mut expired);
    let mut progress = shared.progress();
    // Files have been removed, and there is still no space.
    if ran.is_ok() && upkeep.state().pending.is_empty() {
        progress.counted.summaries_lost += waiting.len() as u64;
    } else {
        // there may be others by now, of the thread that seals
        progress.waiting_summaries.extend(waiting);
    }
    let done = &mut progress.counted;
    done.expiry_suspended += u64::from(is_suspended);
    done.segments_expired += expired.segments.len() as u64;
    let flows = expired.segments.iter().filter(|segment| segment.table == weir_flow::Table::Flows);
    done.rows_expired += flows.map(|segment| segment.rows).sum::<u64>();
    done.octets_expired += (expired.octets_before + expired.summaries_octets).saturating_sub(expired.octets_after);
    done.summaries_written += expired.summaries_written;
    done.segments_without_sums += expired.segments_without_sums;
    done.summaries_expired += expired.summaries.len() as u64;
    done.files_removed_early += expired.files_removed_early;
    ran
}

/// Compares the clock with the flows that there are.
fn compare(clock: &mut ClockGuard, upkeep: &Upkeep, age_max: Option<Duration>) {
    let segments = upkeep.state().oldest_first();
    let flows = || segments.iter().filter(|segment| segment.table == Table::Flows);
    let newest = flows().map(|segment| segment.newest_ms()).max().zip(flows().map(|segment| segment.day).max());
    if let Some(((newest_ms, newest_day), age_max)) = newest.zip(age_max) {
        clock.compare(now_ms(), newest_ms, newest_day.saturating_mul(MS_PER_DAY), age_max);
    }
}

fn merge(shared: &Shared, compaction: &mut Compaction, upkeep: &mut Upkeep) -> Result<bool, ArchiveError> {
    let mut failure = None;
    let merged = compaction.step(upkeep, &mut |merge| failure = merge.result.err())?;
    let mut progress = shared.progress();
    let (done, merges) = (&mut progress.counted, &compaction.done);
    done.segments_merged = merges.segments_merged;
    done.segments_written = merges.segments_written;
    done.rows_rewritten = merges.rows;
    done.compaction_failures = merges.failures;
    done.compactions_postponed = merges.postponed;
    done.compactions_too_large = merges.too_large;
    done.compaction_time = merges.time;
    if failure.is_some() {
        progress.upkeep_failure = failure;
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::layout::Layout;
    use crate::manifest::Edit;
    use crate::space::tests::{archive, keep_files};
    use crate::{ArchiveOptions, ExpiryOptions, Writer, inventory};

    fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_mins(1);
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_has_expired_before_an_error_is_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = archive(dir.path(), 3);
        keep_files(&layout);
        let expiry = ExpiryOptions { octets_max: Some(1), ..ExpiryOptions::default() };
        let options = ArchiveOptions { upkeep_interval: Duration::from_millis(1), expiry, ..ArchiveOptions::default() };
        let (writer, _) = Writer::open(dir.path(), options).expect("the archive");
        wait_for("a round", || writer.statistics().rows_expired > 0 || writer.statistics().upkeep_failures > 0);
        let done = writer.close().expect("closed").statistics;
        assert_eq!((done.segments_expired, done.rows_expired), (2, 2), "{done:?}");
    }

    #[test]
    fn a_checkpoint_that_waits_for_a_stopped_process_is_reported_once() {
        let dir = tempfile::tempdir().expect("a folder");
        Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive").0.close().expect("closed");
        let layout = Layout::new(dir.path());
        // the lock that a process has which was stopped in the middle of a commit
        let stopped = File::open(layout.manifest()).expect("the folder");
        stopped.try_lock_shared().expect("the lock");
        let mut manifest = Manifest::load(&layout).expect("a manifest");
        let mut commit = |count: u64| {
            for _ in 0..count {
                assert!(manifest.commit(|_| Ok(Some(Edit::Deleted { through: 0 }))).expect("committed"));
            }
        };
        commit(LATE_COMMITS);
        assert!(inventory(dir.path()).expect("an inventory").commits_since_checkpoint >= LATE_COMMITS);
        let options = ArchiveOptions { upkeep_interval: Duration::from_millis(1), ..ArchiveOptions::default() };
        let (writer, _) = Writer::open(dir.path(), options).expect("an archive");
        wait_for("the checkpoint is reported as late", || {
            writer.take_late_checkpoint().is_some_and(|commits| commits >= LATE_COMMITS)
        });
        assert!(writer.statistics().commits_since_checkpoint >= LATE_COMMITS);
        stopped.unlock().expect("unlocked");
        commit(32);
        wait_for("the checkpoint has moved on", || writer.statistics().commits_since_checkpoint < 32);
        assert_eq!(writer.take_late_checkpoint(), None, "it was reported");
    }
}
