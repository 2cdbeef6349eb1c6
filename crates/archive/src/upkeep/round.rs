//! The maintenance thread of a writer: free space, expiry, superseded files, and one merge after another.

use std::sync::PoisonError;
use std::time::Duration;

use super::Upkeep;
use crate::compaction::Compaction;
use crate::shared::{Ending, Progress, Shared};
use crate::{ArchiveError, WhenFull, expiry, space};

/// Does maintenance until the writer ends.
pub(crate) fn run(shared: &Shared) {
    let mut compaction = Compaction::new(&shared.options);
    let mut rest = shared.options.upkeep_interval;
    while let Some(space_wanted) = wait(shared, rest) {
        match round(shared, &mut compaction, space_wanted) {
            Ok(next) => rest = next,
            Err(error) => {
                let mut progress = shared.progress();
                progress.counted.upkeep_failures += 1;
                progress.upkeep_failure = Some(error);
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

/// Makes room when the disk is full and the oldest segments may go for that. True when something could be removed.
/// Waits for the maintenance under way: a merge, at most.
pub(crate) fn make_room(shared: &Shared) -> Result<bool, ArchiveError> {
    if shared.options.when_full != WhenFull::OldestFirst {
        return Ok(false);
    }
    let freed = space::make_room(&Upkeep::begin(&shared.layout)?, &shared.options)?;
    let mut progress = shared.progress();
    progress.counted.segments_removed_for_room += freed.files;
    progress.counted.rows_expired += freed.rows;
    progress.counted.octets_expired += freed.octets;
    progress.counted.summaries_written += freed.written.summaries;
    progress.counted.segments_without_sums += freed.written.without_sums;
    progress.counted.summaries_lost += freed.written.lost;
    progress.counted.summaries_expired += freed.summaries;
    Ok(freed.files > 0)
}

/// One look at everything; returns how long to rest.
fn round(shared: &Shared, compaction: &mut Compaction, space_wanted: bool) -> Result<Duration, ArchiveError> {
    let options = &shared.options;
    if space_wanted || space::is_short(shared.layout.root(), 0, options)? {
        make_room(shared)?;
    }
    let Some(upkeep) = Upkeep::try_begin(&shared.layout)? else { return Ok(options.upkeep_interval) };
    let expired = expiry::run(&upkeep, &options.expiry, options.heavy_keys_min)?;
    let mut progress = shared.progress();
    let done = &mut progress.counted;
    done.segments_expired += expired.segments.len() as u64;
    let flows = expired.segments.iter().filter(|kept| kept.table == weir_flow::Table::Flows);
    done.rows_expired += flows.map(|kept| kept.segment.rows).sum::<u64>();
    done.octets_expired += (expired.octets_before + expired.summaries_octets).saturating_sub(expired.octets_after);
    done.summaries_written += expired.summaries_written;
    done.segments_without_sums += expired.segments_without_sums;
    done.summaries_lost += expired.summaries_lost;
    done.summaries_expired += expired.summaries.len() as u64;
    drop(progress);
    if !options.compaction.enabled {
        return Ok(options.upkeep_interval);
    }
    let mut failure = None;
    let merged = compaction.step(&upkeep, &mut |merge| failure = merge.result.err())?;
    let mut progress = shared.progress();
    let (done, merges) = (&mut progress.counted, &compaction.done);
    done.segments_merged = merges.segments_merged;
    done.segments_written = merges.segments_written;
    done.rows_rewritten = merges.rows;
    done.compaction_failures = merges.failures;
    done.compactions_postponed = merges.postponed;
    done.compaction_time = merges.time;
    if failure.is_some() {
        progress.upkeep_failure = failure;
    }
    let busy = u32::from(options.compaction.busy_percent.clamp(1, 100));
    Ok(if merged { compaction.last_time * (100 - busy) / busy } else { options.upkeep_interval })
}
