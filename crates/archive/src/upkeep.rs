//! The maintenance lock: merging, expiry and repair one at a time, by the writer's own thread or by a command.
//!
//! Appending, sealing and reading need no part of this. The writer's lock is another one, so that a command can do
//! maintenance while a collector runs.

mod clock;
pub(crate) mod round;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use weir_flow::Table;

use crate::layout::Layout;
use crate::lock::Lock;
use crate::manifest::{ArchiveState, Edit, Manifest};
use crate::readers::release;
use crate::segment::{SegmentName, found_segment};
use crate::summaries::{SegmentSummary, found_summary};
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, Segment, civil, disk, folder, readers, recovery};

/// The lock on segments that are committed, held while this lives.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) layout: Layout,
    pub(crate) manifest: Manifest,
    /// Why the first file could not be removed that was to be.
    removal_failure: Option<ArchiveError>,
    _lock: Lock,
}

/// For how long files pending deletion wait for readers, and how many octets of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingLimits {
    /// No reader is waited for longer.
    pub(crate) wait_max: Duration,
    /// Any reader is waited for so long, whatever waits.
    pub(crate) wait_min: Duration,
    /// Octets that may wait.
    pub(crate) octets_max: Option<u64>,
}

impl PendingLimits {
    /// No limit but the time.
    pub(crate) fn of_time(wait_max: Duration) -> Self {
        Self { wait_max, wait_min: Duration::ZERO, octets_max: None }
    }
}

/// What was removed of the files pending deletion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) files: u64,
    pub(crate) octets: u64,
    /// Files among them that a reader held: more waited than may.
    pub(crate) files_early: u64,
    /// True when readers hold some that are still there.
    pub(crate) waiting: bool,
}

impl Upkeep {
    /// Takes the lock if it is free. What was known of the manifest before need not be read again.
    pub(crate) fn try_begin(layout: &Layout, known: Option<Manifest>) -> Result<Option<Self>, ArchiveError> {
        match Lock::acquire(&layout.upkeep_lock()) {
            Ok(lock) => Self::with(layout, lock, known).map(Some),
            Err(ArchiveError::Locked { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock and takes it: a collector holds it for one merge at a time.
    pub(crate) fn begin(layout: &Layout) -> Result<Self, ArchiveError> {
        layout.check()?;
        Self::with(layout, Lock::wait(&layout.upkeep_lock())?, None)
    }

    fn with(layout: &Layout, lock: Lock, known: Option<Manifest>) -> Result<Self, ArchiveError> {
        if !Manifest::exists(layout) {
            // No process may append meanwhile: a program that knows no manifest would not find what it is to continue from.
            let _writer = Lock::acquire(&layout.lock())?;
            recovery::upgrade(layout)?;
        }
        folder::create(&layout.merging())?;
        folder::clear(&layout.merging())?;
        readers::create(layout)?;
        let mut manifest = known.map_or_else(|| Manifest::load(layout), Ok)?;
        manifest.refresh()?;
        Ok(Self { layout: layout.clone(), manifest, removal_failure: None, _lock: lock })
    }

    /// What counts.
    pub(crate) fn state(&self) -> &ArchiveState {
        self.manifest.state()
    }

    /// Removes files pending deletion as soon as no reader needs them, or they have waited for too long, or too many do. One that
    /// cannot be removed stays pending, and nothing else waits for it; see [`Self::check_removals`].
    pub(crate) fn remove_pending(&mut self, limits: &PendingLimits) -> Result<Removal, ArchiveError> {
        if self.state().pending.is_empty() {
            return Ok(Removal::default());
        }
        // What another process has committed may be visible and not durable yet.
        folder::sync(&self.layout.manifest())?;
        let released = release(&self.layout, self.state().sequence, limits.wait_max)?;
        let mut through = self.through(released.through, limits)?;
        let mut removed = Removal::default();
        let mut stayed: Option<(u64, ArchiveError)> = None;
        for pending in self.state().pending.iter().filter(|pending| pending.since <= through) {
            let (path, octets) = (pending.file.path(), pending.file.octets());
            match disk::remove(&path) {
                Ok(()) => {
                    removed.files += 1;
                    removed.octets += octets;
                    removed.files_early += u64::from(pending.since > released.through);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    stayed.get_or_insert_with(|| (pending.since, Action::RemoveSegment.failed(&path)(source)));
                }
            }
        }
        if let Some((since, failure)) = stayed {
            // a commit goes as a whole, and in its turn
            through = since.saturating_sub(1);
            self.removal_failure.get_or_insert(failure);
        }
        let is_due = |state: &ArchiveState| state.pending.iter().any(|pending| pending.since <= through);
        self.manifest.commit(|state| Ok(is_due(state).then_some(Edit::Deleted { through })))?;
        removed.waiting = released.waiting && !self.state().pending.is_empty();
        Ok(removed)
    }

    /// Fails when a file could not be removed. To be asked when everything else is done.
    pub(crate) fn check_removals(&mut self) -> Result<(), ArchiveError> {
        self.removal_failure.take().map_or(Ok(()), Err)
    }

    /// The commit through which files go: those that no reader holds, and of the others the oldest, until what is left is
    /// within the limit. The leases stay, so that a reader keeps what ceased to count later.
    fn through(&self, released: u64, limits: &PendingLimits) -> Result<u64, ArchiveError> {
        let Some(octets_max) = limits.octets_max else { return Ok(released) };
        let held = || self.state().pending.iter().filter(move |pending| pending.since > released);
        let mut left: u64 = held().map(|pending| pending.file.octets()).sum();
        let mut through = released;
        for pending in held() {
            // a commit goes as a whole
            let is_begun = pending.since == through;
            if !is_begun && (left <= octets_max || readers::waited(&self.layout, pending.since)? < limits.wait_min) {
                break;
            }
            through = pending.since;
            left -= pending.file.octets();
        }
        Ok(through)
    }

    /// Removes files that a crash has left before they were committed. Anything else that does not count is left alone,
    /// for people to look at. Returns how many were removed.
    pub(crate) fn remove_uncommitted(&mut self) -> Result<u64, ArchiveError> {
        let uncommitted = uncommitted(&self.layout, self.state())?;
        uncommitted.iter().try_for_each(|path| folder::remove_leftover(path))?;
        Ok(uncommitted.len() as u64)
    }
}

/// Files that were written and are not committed: segments and summaries whose rows are all in files that count, which
/// must be there: one that was renamed is not given up for itself. Somebody is about to commit them, or a crash has
/// left them.
pub(crate) fn uncommitted(layout: &Layout, state: &ArchiveState) -> Result<Vec<PathBuf>, ArchiveError> {
    let pending: HashSet<PathBuf> = state.pending.iter().map(|pending| pending.file.path()).collect();
    let mut uncommitted = Vec::new();
    for &table in Table::ALL {
        for partition in layout.partitions(table)? {
            let Some(day) = civil::day_of_partition(&partition) else { continue };
            let live = || state.segments_of(table).filter(|segment| segment.day == day);
            let names: HashSet<String> = live().map(|segment| segment.name().to_string()).collect();
            let counting = TailSet::union(live().map(|segment| &segment.tails));
            for name in folder::names(&partition)? {
                let Some(parsed) = name.to_str().and_then(SegmentName::parse) else { continue };
                if names.contains(&parsed.to_string()) {
                    continue;
                }
                let found = found_segment(layout, (table, day), parsed, true)?;
                let is_ours = |found: &Segment| counting.includes(&found.tails) && !pending.contains(&found.path());
                let Some(found) = found.filter(is_ours) else { continue };
                if live().filter(|segment| segment.tails.intersects(&found.tails)).all(|segment| segment.file().is_ok())
                {
                    uncommitted.push(partition.join(&name));
                }
            }
        }
    }
    add_uncommitted_summaries(layout, state, &pending, &mut uncommitted)?;
    Ok(uncommitted)
}

fn add_uncommitted_summaries(
    layout: &Layout,
    state: &ArchiveState,
    pending: &HashSet<PathBuf>,
    uncommitted: &mut Vec<PathBuf>,
) -> Result<(), ArchiveError> {
    let known: HashSet<PathBuf> = state.summaries.values().map(SegmentSummary::path).collect();
    for partition in layout.summary_partitions()? {
        let Some(day) = civil::day_of_partition(&partition) else { continue };
        let flows = || state.segments_of(Table::Flows).filter(|segment| segment.day == day);
        let summed = || state.summaries.values().filter(|summary| summary.segment().day == day);
        let counting = TailSet::union(flows().map(|segment| &segment.tails).chain(summed().map(SegmentSummary::tails)));
        for name in folder::names(&partition)? {
            let Some(found) = found_summary(layout, day, &name.to_string_lossy(), true)? else { continue };
            let path = found.path();
            if known.contains(&path) || pending.contains(&path) || !counting.includes(found.tails()) {
                continue;
            }
            let tails = found.tails();
            let flows_in_place =
                flows().filter(|segment| segment.tails.intersects(tails)).all(|segment| segment.file().is_ok());
            if flows_in_place && summed().filter(|s| s.tails().intersects(tails)).all(SegmentSummary::is_in_place) {
                uncommitted.push(path);
            }
        }
    }
    Ok(())
}

/// Now, in milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64)
}
