//! Keeps flows, and the books that came with them, in an archive.
//!
//! Each burst becomes one delivery and so one frame of the archive's tail, kept or refused as a whole; one that is too
//! large for a frame becomes several. Rows that lack `received` get it, because the archive is partitioned by it. What
//! speaks against adding it here is that the time is not the collector's; the option `received` says which it is.

mod fit;
mod left_out;
mod new_folder;
mod receipts;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use weir_archive::{
    ArchiveError, ArchiveOptions, CompactionOptions, Durability, ExpiryOptions, NewFolders, Recovery, Statistics,
    SummaryOptions, TailDamage, WhenFull, Writer,
};
use weir_chain::{
    Built, Burst, ByteSize, ColumnRule, ComponentContext, ComponentError, ComponentKind, Counter, FlowColumnRule,
    KindWithColumns, ONE_INPUT, Opener, OptionError, Role, Sink, StopSignal, TimeSpan, choices, options,
};
use weir_flow::{Delivery, DeliveryOutcome, Receipt};

use fit::Fit;
use left_out::LeftOut;
use receipts::Receipts;

/// Writes to an archive.
pub const KIND: ComponentKind<ArchiveSinkOptions> = ComponentKind {
    name: "archive",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Keeps flows in an archive, with the books that account for them. The columns of its rows must be columns of \
          flows; others are an error, or left out, as extra_columns says. Rows that lack received get it. When the disk \
          is full it waits and tries again, twice a second, and everything before it waits; when the chain is stopped \
          meanwhile, it tries once more and ends with an error; when_full can make room instead. Small segments are merged \
          in the background, and old ones expire when a limit is set; what they amounted to stays. At the end the archive is synced and sealed. It \
          counts rows_stored, rows_durable (those that survive a crash of the machine), rows_refused, failures, \
          segments_sealed, octets_sealed, segments_merged, compaction_failures, segments_expired, rows_expired, \
          segments_removed_for_room, summaries_written, segments_without_sums, summaries_lost, summaries_expired, \
          upkeep_failures, files_removed_early (what expired or was merged waits for questions up to an eighth of max_size), \
          sync_failures (the disk did not confirm; what is concerned is written to another file), rows_lost (of \
          that what could not be read back), seal_failures (sealing is tried again), tails_damaged, room_refused (nothing more may be removed \
          for a full disk) and expiry_suspended (the clock has jumped).",
    configure,
};

/// The same, with what it does to columns.
pub const KIND_WITH_COLUMNS: KindWithColumns<ArchiveSinkOptions> =
    KindWithColumns { kind: KIND, columns, flow_columns: |_| FlowColumnRule::Unknown };

choices! {
    /// What happens on a full disk.
    pub enum FullDisk {
        /// Refuse what cannot be written and try again.
        Refuse = "refuse",
        /// Remove the oldest segments until there is room.
        OldestFirst = "oldest-first",
    }
}

choices! {
    /// What the column `received` becomes in rows without it.
    pub enum Received {
        /// The end of the flow; its start where that is missing, now where both are.
        End = "end",
        /// Now.
        Now = "now",
    }
}

/// Columns that flows do not have are refused, unless they are to be left out.
fn columns(options: &ArchiveSinkOptions) -> ColumnRule {
    match options.extra_columns {
        ExtraColumns::Error => ColumnRule::Refused("write extra_columns = \"drop\" to leave such columns out"),
        ExtraColumns::Drop => ColumnRule::Replaced(Vec::new()),
    }
}

choices! {
    /// What happens to columns that flows do not have.
    pub enum ExtraColumns {
        /// They are an error.
        Error = "error",
        /// They are left out.
        Drop = "drop",
    }
}

options! {
    /// Options of the sink `archive`.
    pub struct ArchiveSinkOptions {
        /// Folder of the archive; made when missing.
        archive: PathBuf,
        /// Fill `received` where rows have none.
        received: Received = Received::End,
        /// What to do with columns that flows do not have.
        extra_columns: ExtraColumns = ExtraColumns::Error,
        /// End with an error when the disk takes nothing for this long; without it the sink waits for as long as it takes.
        give_up_after: Option<TimeSpan>,
    }
    includes {
        /// When flows are synced and sealed.
        sealing: SealingOptions,
        /// What is kept, and for how long.
        retention: RetentionOptions,
    }
}

options! {
    /// When flows are synced to the disk, and sealed into segments.
    pub struct SealingOptions {
        /// Sync flows to the disk at the latest after this time.
        commit_interval: TimeSpan = TimeSpan::from_secs(1),
        /// Seal the tail into a segment at the latest after this time.
        seal_interval: TimeSpan = TimeSpan::from_secs(300),
        /// Seal the tail into a segment after this many flows.
        segment_rows: usize = ArchiveOptions::default().segment_rows_max => 1..=100_000_000,
        /// Merge small segments of a day into larger ones.
        merge: bool = true; off "Leave small segments as they are",
    }
}

options! {
    /// What the archive keeps, and for how long.
    pub struct RetentionOptions {
        /// Remove flows of this age; without it none.
        max_age: Option<TimeSpan>,
        /// Remove the oldest segments when the archive has this size; without it none. Up to an eighth of it more waits for questions
        /// that still read what was removed or merged. Statistics are beside it, with a `max_size`
        /// of their own.
        max_size: Option<ByteSize> => 1..=u64::MAX >> 1,
        /// Remove books, options and counters of this age; without it none.
        tables_max_age: Option<TimeSpan>,
        /// Remove summaries of this age. Summaries are what remains of removed flows: sums by host, port, minute and so on,
        /// a hundredth of their size. 0s keeps none.
        summaries_max_age: TimeSpan = TimeSpan::from_secs(400 * 86_400),
        /// Remove the oldest summaries when all of them have this size; without it a tenth of `max_size`.
        summaries_max_size: Option<ByteSize> => 0..=u64::MAX >> 1,
        /// When a limit is reached, delete down to this percentage of it.
        low_water_percent: u8 = 95 => 1..=100,
        /// What to do on a full disk.
        when_full: FullDisk = FullDisk::Refuse,
        /// Leave at least this much of the disk free when merging and when removing the oldest segments; at most a twentieth
        /// of the file system.
        free_space_min: ByteSize = ByteSize::from_mib(1024) => 0..=u64::MAX >> 1,
    }
}

/// Pause before a full disk is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Longest time for which the end waits for what is being written again after a failed sync.
const LAST_SYNC: Duration = Duration::from_secs(5);
/// How often a full disk is reported while it is waited for without an end.
const WARNING_EVERY: Duration = Duration::from_mins(1);

impl ArchiveSinkOptions {
    /// What the options mean to the crate that keeps archives.
    pub fn archive_options(&self) -> ArchiveOptions {
        let Self { sealing, retention, .. } = self;
        let expiry = ExpiryOptions {
            age_max: retention.max_age.map(TimeSpan::duration),
            side_tables_age_max: retention.tables_max_age.map(TimeSpan::duration),
            octets_max: retention.max_size.map(ByteSize::bytes),
            low_water_percent: retention.low_water_percent,
            summaries: SummaryOptions {
                age_max: retention.summaries_max_age.duration(),
                octets_max: retention.summaries_max_size.map(ByteSize::bytes),
            },
            ..ExpiryOptions::default()
        };
        ArchiveOptions {
            expiry,
            compaction: CompactionOptions { enabled: sealing.merge, ..CompactionOptions::default() },
            when_full: match retention.when_full {
                FullDisk::Refuse => WhenFull::Refuse,
                FullDisk::OldestFirst => WhenFull::OldestFirst,
            },
            free_octets_min: retention.free_space_min.bytes(),
            commit_interval: sealing.commit_interval.duration(),
            seal_interval: sealing.seal_interval.duration(),
            segment_rows_max: sealing.segment_rows,
            ..ArchiveOptions::default()
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every kind is configured by a function of this type")]
fn configure(options: ArchiveSinkOptions) -> Result<Opener, OptionError> {
    let archive_options = options.archive_options();
    let fit =
        Fit { received_now: options.received == Received::Now, drop: options.extra_columns == ExtraColumns::Drop };
    let (folder, give_up_after) = (options.archive, options.give_up_after.map(TimeSpan::duration));
    let new_folders = NewFolders::of(&folder);
    Ok(Box::new(move |context| {
        check_folder(&folder)?;
        let mut archive = Archive::open(folder, &archive_options, fit, new_folders, context)?;
        archive.give_up_after = give_up_after;
        Ok(Built::Sink(Box::new(archive)))
    }))
}

/// Finds out whether an archive could be written with these options, as the start does first: whether its folder can be made, or
/// takes files. Nothing is made.
pub fn check(options: &ArchiveSinkOptions) -> Result<(), ComponentError> {
    check_folder(&options.archive)
}

fn check_folder(folder: &Path) -> Result<(), ComponentError> {
    let cannot = |error| ComponentError::caused(format!("cannot write to the archive {}", folder.display()), error);
    weir_disk::check_folder(folder).map_err(cannot)
}

/// How a count is had from the statistics of the archive.
type Reading = fn(&Statistics) -> u64;

struct Archive {
    /// `None` once it is closed.
    writer: Option<Writer>,
    durability: Durability,
    folder: PathBuf,
    fit: Fit,
    /// How long a disk that takes nothing is waited for.
    give_up_after: Option<Duration>,
    /// How often nothing expired by age because of the clock.
    suspended: Counter,
    stop: StopSignal,
    stored: Counter,
    durable: Counter,
    refused: Counter,
    failures: Counter,
    /// What the archive counts by itself.
    counted: [(Counter, Reading); 19],
    left_out: LeftOut,
    receipts: Receipts,
    new_folders: NewFolders,
}

impl Archive {
    fn open(
        folder: PathBuf,
        options: &ArchiveOptions,
        fit: Fit,
        new_folders: NewFolders,
        context: &ComponentContext,
    ) -> Result<Self, ComponentError> {
        let (writer, recovery) = Writer::open(&folder, *options).map_err(|error| {
            ComponentError::caused(format!("cannot write to the archive {}", folder.display()), error)
        })?;
        tell(&recovery);
        let meter = &context.counters;
        Ok(Self {
            durability: writer.durability(),
            writer: Some(writer),
            folder,
            fit,
            give_up_after: None,
            suspended: meter.counter("expiry_suspended"),
            stop: context.stop.clone(),
            stored: meter.counter("rows_stored"),
            durable: meter.counter("rows_durable"),
            refused: meter.counter("rows_refused"),
            failures: meter.counter("failures"),
            counted: [
                (meter.counter("segments_sealed"), |done| done.segments_sealed),
                (meter.counter("octets_sealed"), |done| done.octets_sealed),
                (meter.counter("segments_merged"), |done| done.segments_merged),
                (meter.counter("compaction_failures"), |done| done.compaction_failures),
                (meter.counter("segments_expired"), |done| done.segments_expired),
                (meter.counter("rows_expired"), |done| done.rows_expired),
                (meter.counter("segments_removed_for_room"), |done| done.segments_removed_for_room),
                (meter.counter("summaries_written"), |done| done.summaries_written),
                (meter.counter("segments_without_sums"), |done| done.segments_without_sums),
                (meter.counter("summaries_lost"), |done| done.summaries_lost),
                (meter.counter("summaries_expired"), |done| done.summaries_expired),
                (meter.counter("upkeep_failures"), |done| done.upkeep_failures),
                (meter.counter("files_removed_early"), |done| done.files_removed_early),
                (meter.counter("sync_failures"), |done| done.sync_failures),
                (meter.counter("rows_lost"), |done| done.rows_lost),
                (meter.counter("seal_failures"), |done| done.seal_failures),
                (meter.counter("tails_damaged"), |done| done.tails_damaged),
                (meter.counter("room_refused"), |done| done.room_refused),
                (meter.counter("expiry_suspended"), |done| done.expiry_suspended),
            ],
            left_out: LeftOut::default(),
            receipts: Receipts::default(),
            new_folders: if recovery.created { new_folders } else { NewFolders::default() },
        })
    }

    fn failed(&self, error: ArchiveError) -> ComponentError {
        ComponentError::caused(format!("cannot write to the archive {}", self.folder.display()), error)
    }

    /// Appends a delivery, in pieces when it is too large for one frame. A single row that is too large is refused, which
    /// is no reason to end the chain.
    fn append(&mut self, delivery: &Delivery) -> Result<(), ComponentError> {
        let too_large = match self.append_whole(delivery) {
            Err(AppendError::TooLarge(error)) => error,
            Err(AppendError::Final(error)) => return Err(error),
            Err(AppendError::Stopped(error)) => {
                self.left_out.add(delivery);
                self.left_out.error = Some(error);
                return Ok(());
            }
            Ok(()) => {
                self.stored.add(delivery.rows() as u64);
                return Ok(());
            }
        };
        if let Some(halves) = delivery.halves() {
            return halves.iter().try_for_each(|half| self.append(half));
        }
        self.refused.add(delivery.rows() as u64);
        tracing::warn!("{}; it is refused", self.failed(too_large).chain());
        if delivery.flows.is_none() {
            return Ok(());
        }
        let mut left_out = LeftOut::default();
        left_out.add(delivery);
        let [told, ..] = left_out.deliveries();
        self.append(&told)
    }

    /// Appends a delivery, again and again while the disk is full and the chain goes on.
    fn append_whole(&mut self, delivery: &Delivery) -> Result<(), AppendError> {
        let Some(writer) = &mut self.writer else {
            return Err(AppendError::Final(ComponentError::new("the archive is closed")));
        };
        let (began, give_up_after) = (Instant::now(), self.give_up_after);
        let (mut next_warning, mut is_awaited) = (began, false);
        loop {
            let last_try = self.stop.is_set();
            // columns are shared, so a copy to try again with costs nothing
            let Err(error) = writer.append(delivery.clone()) else { return Ok(()) };
            if error.is_too_large() {
                return Err(AppendError::TooLarge(error));
            }
            self.failures.add(1);
            let waited = began.elapsed();
            if last_try && !is_awaited && matches!(error, ArchiveError::SyncTail { .. }) {
                // being written again, which is not to be refused because the stop came just then
                is_awaited = true;
                let _ = self.durability.wait_for(writer.follow_position().position, LAST_SYNC);
                continue;
            }
            if last_try && error.may_pass() {
                self.refused.add(delivery.rows() as u64);
                return Err(AppendError::Stopped(self.failed(error)));
            }
            if last_try || !error.may_pass() {
                self.refused.add(delivery.rows() as u64);
                return Err(AppendError::Final(self.failed(error)));
            }
            if give_up_after.is_some_and(|limit| waited >= limit) {
                self.refused.add(delivery.rows() as u64);
                let (folder, secs) = (self.folder.display(), waited.as_secs());
                let message = format!("cannot write to the archive {folder}, which took nothing for {secs} s");
                return Err(AppendError::Final(ComponentError::caused(message, error)));
            }
            if Instant::now() >= next_warning {
                let cause = ComponentError::caused("append", error).chain();
                tracing::warn!("{}: {cause}", waiting_text(waited, give_up_after));
                // why the disk gets no room, for instance
                tell_failures(writer);
                next_warning += warning_interval(give_up_after);
            }
            thread::sleep(RETRY);
        }
    }

    /// Reports to senders that wait what is durable by now.
    fn resolve_receipts(&mut self) {
        if let Some(writer) = self.writer.as_ref().filter(|_| !self.receipts.is_empty()) {
            self.receipts.resolve(&writer.statistics());
        }
    }

    /// Keeps receipts until what was appended is durable. `rows_lost`: flows that the archive had lost before.
    fn promise(&mut self, receipts: Vec<Receipt>, is_whole: bool, rows_lost: u64) {
        match &self.writer {
            Some(writer) if is_whole => self.receipts.add(receipts, writer.statistics().position, rows_lost),
            _ => refuse(&receipts),
        }
    }

    fn count_durable(&self) {
        self.durable.add(self.durability.rows_durable().saturating_sub(self.durable.get()));
    }

    /// Counts what a writer that is closed has done, and confirms what is durable. That may be all of it also where closing has
    /// failed: flows that could not be sealed are durable in their tails.
    fn count_at_end(&mut self) -> Statistics {
        let done = self.durability.statistics();
        self.count_durable();
        self.receipts.resolve(&done);
        self.count(&done);
        done
    }

    fn count(&self, statistics: &Statistics) {
        let suspended_before = self.suspended.get();
        for (counter, of) in &self.counted {
            counter.add(of(statistics).saturating_sub(counter.get()));
        }
        if suspended_before == 0 && self.suspended.get() > 0 {
            tracing::warn!(
                "nothing expires by age: the clock has jumped, or by it no flow of {} is of the time that is kept; it is trusted again \
                 when it has kept still for a day",
                self.folder.display()
            );
        }
    }
}

/// How often it is reported that a disk takes nothing: a few times before the wait for it has an end, if it has one.
fn warning_interval(give_up_after: Option<Duration>) -> Duration {
    give_up_after.map_or(WARNING_EVERY, |limit| WARNING_EVERY.min(limit / 4))
}

/// How long a disk has taken nothing, and how long it is waited for.
fn waiting_text(waited: Duration, give_up_after: Option<Duration>) -> String {
    let end = give_up_after.map_or_else(String::new, |limit| format!(" until {} s are over", limit.as_secs()));
    format!("the archive takes nothing for {} s, trying again{end}", waited.as_secs())
}

/// Reports to senders that their flows are not stored.
fn refuse(receipts: &[Receipt]) {
    for receipt in receipts {
        receipt.resolve(DeliveryOutcome::NotAll);
    }
}

/// Why a delivery was not appended.
enum AppendError {
    /// It does not fit into a frame.
    TooLarge(ArchiveError),
    /// The disk takes nothing, and the chain is to end.
    Stopped(ComponentError),
    Final(ComponentError),
}

impl Sink for Archive {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        self.new_folders.keep();
        let (rows, mut side_tables) = burst.into_parts();
        let (count, receipts) = (rows.num_rows(), std::mem::take(&mut side_tables.receipts));
        let flows = (count > 0).then(|| self.fit.flows(&rows)).transpose();
        let flows = flows.inspect_err(|_| self.refused.add(count as u64))?;
        let delivery = Delivery { flows, side_tables };
        if self.left_out.error.is_some() {
            // the rest is taken all the same, so that it is in the books
            self.refused.add(delivery.rows() as u64);
            self.left_out.add(&delivery);
            refuse(&receipts);
            return Ok(());
        }
        let refused = self.refused.get();
        // before the first piece is written: it can be lost while a later one waits for the disk
        let rows_lost = self.durability.statistics().rows_lost;
        let appended = self.append(&delivery);
        if !receipts.is_empty() {
            let is_whole = self.left_out.error.is_none() && self.refused.get() == refused;
            self.promise(receipts, appended.is_ok() && is_whole, rows_lost);
        }
        self.resolve_receipts();
        appended
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        if let Some(error) = self.left_out.error.take() {
            let _ = self.durability.wait_for(writer.follow_position().position, LAST_SYNC);
            let told = std::mem::take(&mut self.left_out).deliveries();
            let mut failed = None;
            let is_told =
                told.into_iter().any(|told| writer.append_last(told).map_err(|error| failed = Some(error)).is_ok());
            if let Some(error) = failed.filter(|_| !is_told) {
                let failed = self.failed(error).chain();
                tracing::warn!(
                    "{failed}: the books do not tell of {} flows that could not be written",
                    self.refused.get()
                );
            }
            // what it could not seal for the same reason is sealed by the next one
            let _ = writer.close();
            self.count_at_end();
            return Err(error);
        }
        let closed = writer.close();
        let lost = self.count_at_end().rows_lost;
        closed.map_err(|error| self.failed(error))?;
        if lost > 0 {
            let folder = self.folder.display();
            return Err(ComponentError::new(format!("{lost} flows are lost in {folder}: the disk did not keep them")));
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), ComponentError> {
        self.count_durable();
        self.resolve_receipts();
        if let Some(writer) = &self.writer {
            self.count(&writer.statistics());
            tell_failures(writer);
            for damage in writer.take_sync_damages() {
                tell_damage(&damage);
            }
            if let Some(commits) = writer.take_late_checkpoint() {
                tracing::warn!(
                    "{commits} commits to {} are not in the checkpoint of its manifest: a process was stopped in the middle of a \
                     commit (fuser names it); until it goes on or ends, their files stay and the archive opens more slowly",
                    self.folder.join("manifest").display()
                );
            }
        }
        Ok(())
    }
}

/// Tells what the threads of a writer cannot do.
fn tell_failures(writer: &Writer) {
    if let Some(failure) = writer.take_seal_failure() {
        tracing::warn!(
            "the tail {} cannot be sealed, after {} attempts: {}; it is tried again, and its flows are read from it",
            failure.path.display(),
            failure.failures,
            failure.cause
        );
    }
    if let Some(failure) = writer.take_upkeep_failure() {
        let failure = ComponentError::caused("merging or expiring segments failed", failure);
        tracing::warn!("{}; it is tried again, and no flow that is stored is lost", failure.chain());
    }
}

/// Tells what opening the archive found, when there is something to tell.
fn tell(recovery: &Recovery) {
    if recovery.tails > 0 || recovery.torn_octets > 0 {
        tracing::info!(
            "recovered: {} tails with {} flows to seal, {} octets of an unfinished write cut",
            recovery.tails,
            recovery.rows,
            recovery.torn_octets
        );
    }
    if recovery.manifest_made && !recovery.created {
        tracing::info!("the archive was of format 1 and has a manifest now");
    }
    if recovery.is_unconfirmed {
        tracing::warn!(
            "the disk has not confirmed flows of the writer before, and has no room for them to be written again: they are safe once \
             they are sealed"
        );
    }
    if recovery.tails_missing > 0 {
        tracing::warn!("{} tails that nobody has sealed are gone", recovery.tails_missing);
    }
    recovery.damages.iter().for_each(tell_damage);
}

fn tell_damage(damage: &TailDamage) {
    tracing::warn!(
        "a damaged tail was set aside: {} ({} octets and {} deliveries with at least {} flows are lost; {} flows behind \
         the damage are kept)",
        damage.path.display(),
        damage.octets_lost,
        damage.frames_lost,
        damage.rows_lost,
        damage.rows_behind
    );
}

#[cfg(test)]
mod tests;
