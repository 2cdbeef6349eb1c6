//! Writing to an archive.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::Array;
use weir_flow::{Column, Delivery, FlowBatch};

use crate::follow::local;
use crate::frame::{EncodedFrame, FrameHeader};
use crate::layout::Layout;
use crate::lock::Lock;
use crate::recovery::{self, recover};
use crate::shared::{Ending, SealFailure, Shared, Tails};
use crate::tail::LiveTail;
use crate::threads::Threads;
use crate::{
    Action, ArchiveError, ArchiveOptions, Durability, FollowOptions, FollowPosition, Follower, Position, Recovery,
    Statistics, TailDamage, WriterReport, space,
};

/// The one writer of an archive.
///
/// Dropping it syncs what was appended and leaves sealing to the next writer; [`Writer::close`] does both and reports
/// when something failed.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    /// Position of the last delivery; ahead of the shared one while a frame is written.
    position: Position,
    threads: Threads,
    /// Given back last: fields are dropped in their order.
    _lock: Lock,
}

impl Writer {
    /// Opens the archive in `dir`, or creates it there, and brings in order what a crash has left.
    pub fn open(dir: &Path, options: ArchiveOptions) -> Result<(Self, Recovery), ArchiveError> {
        let layout = Layout::new(dir);
        layout.create_root()?;
        let lock = Lock::acquire(&layout.lock())?;
        // Who held the lock until now may have created the archive.
        let created = layout.create_root()?;
        recovery::create(&layout, created)?;
        let mut recovered = recover(&layout)?;
        recovered.recovery.created = created;
        let recovery = recovered.recovery.clone();
        let position = recovery.position;
        // first of all for commits: without one nothing can be removed from a full disk
        space::keep_commits_reserve(&recovered.manifest, layout.root());
        space::keep_reserve(&layout);
        let shared = Arc::new(Shared::new(layout, &options.within_bounds(), recovered)?);
        let threads = Threads::start(&shared)?;
        local::enter(dir, &shared);
        Ok((Self { shared, position, threads, _lock: lock }, recovery))
    }

    /// Appends a delivery as one frame: all of it or, on an error, nothing. It can be read at once, and is durable as
    /// soon as [`Writer::durable`] has come to the position that this returns.
    ///
    /// A delivery without rows changes nothing. After an error that [may pass](ArchiveError::may_pass)
    /// (a full disk, a sync that failed) later deliveries may succeed.
    pub fn append(&mut self, delivery: Delivery) -> Result<Position, ArchiveError> {
        self.append_within(delivery, Room::Free)
    }

    /// Appends what the books have to say of flows that a full disk did not take: there is room of about a mebibyte for
    /// that, which is kept until this is called and then again by the next writer. Nothing else may be appended after it.
    pub fn append_last(&mut self, delivery: Delivery) -> Result<Position, ArchiveError> {
        space::release_reserve(&self.shared.layout);
        self.append_within(delivery, Room::All)
    }

    fn append_within(&mut self, delivery: Delivery, room: Room) -> Result<Position, ArchiveError> {
        let delivery = without_empty(delivery);
        if delivery.is_empty() {
            return Ok(self.position);
        }
        if !delivery.flows.as_ref().is_none_or(have_times) {
            return Err(ArchiveError::NoReceived);
        }
        let (rows, rows_max) =
            (delivery.flows.as_ref().map_or(0, FlowBatch::rows), self.shared.options.frame_rows_max());
        if rows > rows_max {
            return Err(ArchiveError::DeliveryTooLong { rows, rows_max });
        }
        let frame = EncodedFrame::new(self.position.next(), &delivery).map_err(ArchiveError::EncodeFrame)?;
        let octets_max = self.shared.options.frame_octets_max;
        let octets = frame.header.frame_octets();
        if octets > octets_max {
            return Err(ArchiveError::FrameTooLarge { octets, octets_max });
        }
        self.write(&frame, delivery.flows.as_ref(), room)?;
        self.position = frame.header.position;
        Ok(self.position)
    }

    fn write(&self, frame: &EncodedFrame, flows: Option<&FlowBatch>, room: Room) -> Result<(), ArchiveError> {
        let shared = &*self.shared;
        let mut tails = shared.tails();
        if let Some(failure) = &shared.progress().syncing.failure {
            return Err(failure.to_error());
        }
        let header = &frame.header;
        if tails.live.as_ref().is_some_and(|live| self.is_full(live, header.frame_octets())) {
            shared.finish_live(&mut tails);
        }
        if room == Room::Free {
            self.leave_reserve(header.frame_octets())?;
        }
        let live = self.live(&mut tails)?;
        live.append(frame).inspect_err(|error| self.ask_for_room(error))?;
        self.publish(live, header);
        shared.ring.push(header.position, flows);
        if live.rows >= shared.options.segment_rows_max as u64 {
            shared.finish_live(&mut tails);
        }
        Ok(())
    }

    fn is_full(&self, live: &LiveTail, more_octets: u64) -> bool {
        let too_large = live.octets > 0 && live.octets + more_octets > self.shared.options.tail_octets_max;
        live.is_broken() || too_large
    }

    /// The live tail, begun now if there is none.
    fn live<'a>(&self, tails: &'a mut Tails) -> Result<&'a mut LiveTail, ArchiveError> {
        let Tails { live, next_number } = tails;
        if let Some(live) = live {
            return Ok(live);
        }
        let begun =
            LiveTail::create(&self.shared.layout, *next_number).inspect_err(|error| self.ask_for_room(error))?;
        *next_number += 1;
        self.shared.progress().syncing.folder = true;
        Ok(live.insert(begun))
    }

    /// Notifies the sync thread of a frame that was written.
    fn publish(&self, live: &mut LiveTail, header: &FrameHeader) {
        let mut progress = self.shared.progress();
        let now = Instant::now();
        if live.first == Some(header.position) {
            live.begun = now;
            progress.live_since = Some(now);
        }
        progress.appended = header.position;
        progress.rows_appended += u64::from(header.flows_rows);
        let syncing = &mut progress.syncing;
        if syncing.files.last().is_none_or(|(number, _)| *number != live.number) {
            syncing.files.push((live.number, Arc::clone(&live.file)));
        }
        let first = syncing.since.is_none();
        syncing.since.get_or_insert(now);
        drop(progress);
        if first {
            self.shared.sync_wanted.notify_all();
        }
    }

    /// Where the oldest segments go when the disk is full, nothing is appended within the reserve: sealing needs room
    /// too, and a disk full of tails has nothing that could go.
    fn leave_reserve(&self, octets: u64) -> Result<(), ArchiveError> {
        let Shared { layout, options, .. } = &*self.shared;
        if space::is_short(layout.root(), octets, options)? {
            self.shared.want_space();
            return Err(Action::AppendTail.failed(&layout.tails())(io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    /// The delivery is refused all the same: making space takes its time, and the caller may try again.
    fn ask_for_room(&self, error: &ArchiveError) {
        if error.is_full_disk() {
            self.shared.want_space();
        }
    }

    /// Deliveries up to this position survive a crash of the machine.
    pub fn durable(&self) -> Position {
        self.shared.progress().durable
    }

    /// A handle that reports the durable position, for other threads.
    pub fn durability(&self) -> Durability {
        Durability(Arc::clone(&self.shared))
    }

    /// The position of the last delivery, to follow from.
    pub fn follow_position(&self) -> FollowPosition {
        FollowPosition { epoch: self.shared.epoch, position: self.position }
    }

    /// Follows the archive from this process: what was appended last comes from memory, without a copy. The follower may
    /// be used by another thread, and goes on when the writer has ended.
    pub fn follow(&self, after: FollowPosition, options: FollowOptions) -> Result<Follower, ArchiveError> {
        self.durability().follow(after, options)
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What this writer has done so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.progress().statistics()
    }

    /// Why merging or expiring failed last, returned once. It is tried again, and no row depends on it.
    pub fn take_upkeep_failure(&self) -> Option<ArchiveError> {
        self.shared.progress().upkeep_failure.take()
    }

    /// How many commits there are since the checkpoint of the manifest, returned once when they have become eight times as many as
    /// usual: a process was stopped in the middle of a commit, and the checkpoint waits for it.
    pub fn take_late_checkpoint(&self) -> Option<u64> {
        self.shared.progress().late_checkpoint.take()
    }

    /// Why sealing fails: at the first failure and then once a minute, each returned once.
    pub fn take_seal_failure(&self) -> Option<SealFailure> {
        self.shared.progress().sealing.report.take()
    }

    /// What was lost of tails that were written again because they could not be synced, each returned once.
    pub fn take_sync_damages(&self) -> Vec<TailDamage> {
        std::mem::take(&mut self.shared.progress().syncing.damages)
    }

    /// Ends the live tail now, whatever its age and size, so that it is sealed.
    pub fn rotate(&mut self) {
        self.shared.finish_live(&mut self.shared.tails());
    }

    /// Removes the archive and its folder, with what others have put into it. For a process that has created the archive and
    /// cannot go on; once something was appended, it is an error, and everything stays.
    pub fn remove(mut self) -> Result<(), ArchiveError> {
        if self.position != Position::ZERO {
            let source = io::Error::new(io::ErrorKind::DirectoryNotEmpty, "it has flows or books");
            return Err(Action::RemoveArchive.failed(self.shared.layout.root())(source));
        }
        self.shared.end(Ending::Drop);
        self.threads.join(&self.shared)?;
        self.shared.layout.remove()
    }

    /// Syncs what was appended, seals everything that is left and gives the archive back.
    ///
    /// When sealing fails, for instance on a full disk, no row is lost: the next writer seals what this one could not.
    pub fn close(mut self) -> Result<WriterReport, ArchiveError> {
        self.rotate();
        self.shared.end(Ending::Close);
        self.threads.join(&self.shared)?;
        let mut progress = self.shared.progress();
        if let Some(failure) = &progress.syncing.failure {
            return Err(failure.to_error());
        }
        if let Some(failure) = progress.sealing.failure.take() {
            return Err(failure);
        }
        drop(progress);
        Ok(WriterReport { position: self.position, statistics: self.statistics() })
    }
}

/// Which part of the disk may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// What is not to be left free.
    Free,
    All,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.end(Ending::Drop);
        // There is no caller to report to; a caller that must know calls `close`.
        let _ = self.threads.join(&self.shared);
    }
}

/// Whether each flow has the time by which segments are partitioned.
fn have_times(flows: &FlowBatch) -> bool {
    flows.column(Column::Received).is_some_and(|received| received.null_count() == 0)
}

/// The delivery without batches that have no row.
fn without_empty(delivery: Delivery) -> Delivery {
    Delivery {
        flows: delivery.flows.filter(|flows: &FlowBatch| flows.rows() > 0),
        side_tables: delivery.side_tables.without_empty(),
    }
}
