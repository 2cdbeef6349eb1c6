//! The thread that makes coarser steps and blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::Counts;
use super::steps_writer::{Resolved, StepsWriter};
use super::stored_steps::steps_of;
use crate::consolidation::{Consolidated, Cut, OpenStep};
use crate::content::Content;
use crate::folder::{FileKind, Folder};
use crate::resolution::Resolution;
use crate::shared_file::SharedFile;
use crate::size::keep_within;
use crate::turning::turn_around;
use crate::{Family, FamilyId, FamilyRows, SeriesError, StepRows, StoreOptions};

/// Pause before what failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// What the thread is given.
#[derive(Debug)]
pub(super) enum Message {
    /// A step of the finest resolution.
    Step { time_secs: i64, rows: StepRows },
}

/// Files of the writer that the thread syncs.
#[derive(Debug)]
pub(super) struct SharedFiles {
    pub(super) catalogue: SharedFile,
    pub(super) finest: SharedFile,
}

/// The thread, from outside.
#[derive(Debug)]
pub(super) struct Background {
    sender: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    is_stopping: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Background {
    /// Makes the coarser steps that a process before has not made, and starts the thread.
    pub(super) fn start(
        folder: Folder,
        options: &StoreOptions,
        families: Arc<Vec<Family>>,
        counts: Arc<Counts>,
        shared: SharedFiles,
        (latest_secs, cuts): (i64, &[Option<Cut>]),
    ) -> Result<Self, SeriesError> {
        // what fails while the store is opened is not tried again
        let is_stopping = Arc::new(AtomicBool::new(true));
        let failure = Arc::new(Mutex::new(None));
        let mut worker = Worker {
            levels: Vec::new(),
            finest: options.resolutions[0],
            octets_max: options.octets_max,
            catalogue: shared.catalogue.clone(),
            folder,
            families,
            counts,
            pending: None,
            turned: vec![i64::MIN; options.resolutions.len()],
            is_stopping: Arc::clone(&is_stopping),
        };
        for &resolution in &options.resolutions[1..] {
            let of = Resolved { resolution, is_finest: false, families: &worker.families };
            let writer = StepsWriter::open(&worker.folder, of, latest_secs, &worker.counts)?;
            worker.levels.push(Level { resolution, open: OpenStep::new(resolution, cuts.to_vec()), writer });
        }
        worker.catch_up()?;
        is_stopping.store(false, Ordering::Relaxed);
        let (sender, receiver) = bounded(options.waiting_steps_max.max(1));
        let sync_interval = Duration::from_millis(options.sync_interval_ms.max(1));
        let failed = Arc::clone(&failure);
        let run = move || {
            if let Err(error) = worker.run(&receiver, &shared, sync_interval) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        };
        let thread = thread::Builder::new().name("weir-series".to_owned()).spawn(run);
        let thread = thread.map_err(|error| SeriesError::Consolidation(error.to_string()))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), is_stopping, failure })
    }

    /// Fails when the thread has ended.
    pub(super) fn check(&self) -> Result<(), SeriesError> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(SeriesError::Consolidation(failure.clone())),
            None => Ok(()),
        }
    }

    /// Waits a while until the thread can take another step.
    pub(super) fn wait_for_room(&self) -> Result<(), SeriesError> {
        let begun = Instant::now();
        while self.sender.as_ref().is_some_and(Sender::is_full) {
            self.check()?;
            if begun.elapsed() > RETRY {
                return Err(SeriesError::Busy);
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.check()
    }

    /// Gives the thread a step, for which there is room.
    pub(super) fn send(&self, message: Message) -> Result<(), SeriesError> {
        if self.sender.as_ref().is_some_and(|sender| sender.send(message).is_ok()) {
            return Ok(());
        }
        self.check()?;
        Err(SeriesError::Consolidation("its thread has ended".to_owned()))
    }

    /// Waits until everything is done.
    pub(super) fn end(&mut self) -> Result<(), SeriesError> {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.sender = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            return Err(SeriesError::Consolidation("its thread has panicked".to_owned()));
        }
        self.check()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // close has returned the error; the steps are in their files either way
        let _ = self.end();
    }
}

/// A coarser resolution.
#[derive(Debug)]
struct Level {
    resolution: Resolution,
    open: OpenStep,
    writer: StepsWriter,
}

#[derive(Debug)]
struct Worker {
    folder: Folder,
    families: Arc<Vec<Family>>,
    finest: Resolution,
    /// Octets of the store at most.
    octets_max: Option<u64>,
    catalogue: SharedFile,
    /// Coarser resolutions, the finest of them first.
    levels: Vec<Level>,
    /// The last finest step, of which another part may come.
    pending: Option<(i64, StepRows)>,
    /// For each resolution the block before which everything is turned around.
    turned: Vec<i64>,
    counts: Arc<Counts>,
    is_stopping: Arc<AtomicBool>,
}

impl Worker {
    fn run(
        &mut self,
        receiver: &Receiver<Message>,
        shared: &SharedFiles,
        sync_interval: Duration,
    ) -> Result<(), SeriesError> {
        let mut synced = Instant::now();
        loop {
            match receiver.recv_timeout(sync_interval) {
                Ok(Message::Step { time_secs, rows }) => self.take(time_secs, rows)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if synced.elapsed() >= sync_interval {
                self.sync(shared);
                synced = Instant::now();
            }
        }
        self.sync(shared);
        Ok(())
    }

    fn sync(&self, shared: &SharedFiles) {
        let levels = self.levels.iter().map(|level| level.writer.shared());
        // keys before the steps that have them
        for file in [shared.catalogue.clone(), shared.finest.clone()].into_iter().chain(levels) {
            if file.sync().is_err() {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes a finest step. It is consolidated when the next one comes, for it may come in parts.
    fn take(&mut self, time_secs: i64, rows: StepRows) -> Result<(), SeriesError> {
        match &mut self.pending {
            Some((pending_secs, pending)) if *pending_secs == time_secs => {
                pending.amend(rows, &self.families);
                return Ok(());
            }
            _ => {}
        }
        if let Some((ended_secs, ended)) = self.pending.replace((time_secs, rows)) {
            self.consolidate_finest(ended_secs, &ended.families)?;
        }
        self.end_before(time_secs)?;
        self.turn(0, self.finest, time_secs)
    }

    fn consolidate_finest(&mut self, time_secs: i64, rows: &[(FamilyId, FamilyRows)]) -> Result<(), SeriesError> {
        let families = Arc::clone(&self.families);
        let ended = self.levels.first_mut().and_then(|level| level.open.take_finest(time_secs, rows, &families));
        self.write_from(0, ended)
    }

    /// Ends every coarser step that is over at a time.
    fn end_before(&mut self, time_secs: i64) -> Result<(), SeriesError> {
        let families = Arc::clone(&self.families);
        for level in 0..self.levels.len() {
            let ended = self.levels[level].open.end_before(time_secs, &families);
            self.write_from(level, ended)?;
        }
        Ok(())
    }

    /// Writes a step of a level, and takes it into the next one, and so on.
    fn write_from(&mut self, level: usize, ended: Option<Consolidated>) -> Result<(), SeriesError> {
        let families = Arc::clone(&self.families);
        let (mut level, mut ended) = (level, ended);
        while let Some(step) = ended {
            let (resolution, last) = (self.levels[level].resolution, self.levels[level].writer.last_secs());
            // what a process before has written already is only counted into the next level
            if last.is_none_or(|last| step.time_secs > last) {
                self.retried(|worker| worker.levels[level].writer.write(step.time_secs, step.known, &step.groups))?;
                self.counts.steps_consolidated.fetch_add(1, Ordering::Relaxed);
            }
            self.turn(level + 1, resolution, step.time_secs)?;
            level += 1;
            ended = self.levels.get_mut(level).and_then(|next| next.open.take_coarser(&step, &families));
        }
        Ok(())
    }

    /// Turns the blocks of a resolution around that have ended, once for each block.
    fn turn(&mut self, at: usize, resolution: Resolution, time_secs: i64) -> Result<(), SeriesError> {
        let current = resolution.block_of(time_secs);
        if self.turned[at] >= current {
            return Ok(());
        }
        let oldest = resolution.oldest_block(time_secs);
        let turned = self.retried(|worker| {
            // a block is durable at once, and must not have a key that is not
            worker.catalogue.sync().map_err(SeriesError::io("sync", &worker.folder.0))?;
            turn_around(&worker.folder, resolution, &worker.families, current, oldest)
        })?;
        self.counts.blocks.fetch_add(turned.blocks, Ordering::Relaxed);
        self.counts.steps_damaged.fetch_add(turned.steps_damaged, Ordering::Relaxed);
        self.counts.files_damaged.fetch_add(turned.files_damaged, Ordering::Relaxed);
        self.turned[at] = current;
        if at == 0 { self.keep_within_limit() } else { Ok(()) }
    }

    /// Removes the oldest blocks when the store is larger than it may be.
    fn keep_within_limit(&mut self) -> Result<(), SeriesError> {
        let Some(octets_max) = self.octets_max else { return Ok(()) };
        let coarser = self.levels.iter().map(|level| level.resolution);
        let resolutions: Vec<Resolution> = [self.finest].into_iter().chain(coarser).collect();
        let dropped = self.retried(|worker| keep_within(&worker.folder, &resolutions, octets_max))?;
        self.counts.blocks_dropped.fetch_add(dropped, Ordering::Relaxed);
        Ok(())
    }

    /// Tries something again and again: a full disk is waited for. When the writer is closed meanwhile, it is tried once
    /// more, and what was not done is done when the store is opened again.
    fn retried<T>(&mut self, mut work: impl FnMut(&mut Self) -> Result<T, SeriesError>) -> Result<T, SeriesError> {
        loop {
            let is_last = self.is_stopping.load(Ordering::Relaxed);
            match work(self) {
                Err(error) if is_last || !error.may_pass() => return Err(error),
                Err(_) => {
                    self.counts.failures.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(RETRY);
                }
                done => return done,
            }
        }
    }

    /// Makes what is missing of coarser steps out of finer ones, as far as these are kept. The coarsest resolution is
    /// first: steps that a finer one is still missing come to it later than those that are there.
    fn catch_up(&mut self) -> Result<(), SeriesError> {
        for level in (0..self.levels.len()).rev() {
            let finer = if level == 0 { self.finest } else { self.levels[level - 1].resolution };
            let coarse = self.levels[level].resolution;
            let last = self.levels[level].writer.last_secs();
            let from = last.map_or(i64::MIN, |last| last + i64::from(coarse.step_secs));
            for (block, kind) in self.folder.blocks(finer)? {
                if (block + 1).saturating_mul(finer.block_secs()) > from {
                    self.replay(level, finer, block, kind, from)?;
                }
            }
        }
        // what is over before the newest step is not waited for until the next one is written
        if let Some((newest_secs, _)) = self.pending {
            self.end_before(newest_secs)?;
        }
        Ok(())
    }

    /// Takes the steps of a block from `from` on into a level.
    fn replay(
        &mut self,
        level: usize,
        finer: Resolution,
        block: i64,
        kind: FileKind,
        from: i64,
    ) -> Result<(), SeriesError> {
        let is_finest = level == 0;
        let content = match Content::verified(&self.folder, finer, block, kind) {
            Err(error) if error.is_damage() => {
                self.counts.files_damaged.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            content => content?,
        };
        let Some(content) = content else { return Ok(()) };
        let steps = match steps_of(&content, finer, block, &self.families, from, is_finest) {
            Err(error) if error.is_damage() => {
                self.counts.files_damaged.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            steps => steps?,
        };
        for step in steps {
            if is_finest {
                // the newest step may get another part
                let rows = StepRows { families: step.groups };
                if let Some((ended_secs, ended)) = self.pending.replace((step.time_secs, rows)) {
                    self.consolidate_finest(ended_secs, &ended.families)?;
                }
                continue;
            }
            let families = Arc::clone(&self.families);
            let ended = self.levels[level].open.take_coarser(&step, &families);
            self.write_from(level, ended)?;
        }
        Ok(())
    }
}
