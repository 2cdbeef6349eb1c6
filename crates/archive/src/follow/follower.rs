//! The follower itself: from wherever the next delivery is.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_flow::{Column, FlowBatch};

use super::event::{Behind, FollowEvent, FollowOptions, FollowedDelivery};
use super::local;
use super::tail_cursor::{TailCursor, TakenFrame};
use super::view::{ArchiveView, InTails};
use super::window::{NextSealed, SealedDeliveries, SealedDelivery, Window};
use crate::lock::Lock;
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::ring::{FollowerId, InRing};
use crate::shared::Shared;
use crate::{ArchiveError, FollowPosition, Position};

/// Attempts to read files that go away because they are merged or expire faster than that.
const ATTEMPTS_MAX: u32 = 100;

/// Gives every delivery of an archive after a position, once, in the order of positions.
///
/// It holds no file in its place while it waits: a lease is taken for the reading of each window of sealed deliveries,
/// and an open tail can be read to its end although it is removed meanwhile.
#[derive(Debug)]
pub struct Follower {
    options: FollowOptions,
    /// The last delivery that was given, or is known to be gone.
    position: FollowPosition,
    view: ArchiveView,
    /// The newest epoch when `position` was last looked at.
    epoch: u32,
    sealed: SealedDeliveries,
    source: Source,
    /// The ring of the writer in this process, as long as it writes.
    ring: Option<Member>,
}

/// Where the next delivery is.
#[derive(Debug)]
enum Source {
    Unknown,
    Tail(TailCursor),
    Window(Window),
    /// Up to this position deliveries had no flows.
    Empty(Position),
    /// There is none yet; this tail is the last that was begun.
    End(TailNumber),
}

/// A place in the ring of a writer.
#[derive(Debug)]
struct Member {
    shared: Arc<Shared>,
    id: FollowerId,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.ring.leave(self.id);
    }
}

/// What looking for the next delivery found.
#[derive(Debug)]
enum Located {
    Event(FollowEvent),
    /// The source has it.
    Source,
    /// There is none yet.
    Nothing,
}

/// What there is from a position on that is in no tail.
#[derive(Debug)]
enum OutsideTails {
    /// It is sealed; the tails begin at `end`.
    Sealed { sealed: NextSealed, end: Option<Position> },
    /// Nothing through this position, and nothing of the tails before this one.
    Passed { through: Position, before: TailNumber },
    /// A tail has begun with it meanwhile.
    InNewTail,
    /// It is behind all that there is, of which this tail is the last.
    Beyond(TailNumber),
}

impl Follower {
    /// Follows the archive in `dir`, which any process may write to. Fails with [`ArchiveError::UnknownPosition`] when
    /// that archive has not given out the position, or its epoch is no longer remembered.
    pub fn open(dir: &Path, after: FollowPosition, options: FollowOptions) -> Result<Self, ArchiveError> {
        let view = ArchiveView::open(dir)?;
        let mut follower = Self {
            options,
            position: after,
            view,
            epoch: 0,
            sealed: SealedDeliveries::default(),
            source: Source::Unknown,
            ring: None,
        };
        let resolved = follower.view.resolve(after)?;
        let is_written = !Lock::is_free(&follower.view.layout.lock());
        // Without a writer it may have been lost in a crash: then the next one begins an epoch before it.
        if resolved == after && is_written && after.position > follower.view.newest()? {
            return Err(follower.view.unknown(after));
        }
        Ok(follower)
    }

    /// As [`open`](Self::open); when the writer is in this process, deliveries come from its memory.
    pub fn attach(dir: &Path, after: FollowPosition, options: FollowOptions) -> Result<Self, ArchiveError> {
        match local::writer(dir) {
            Some(shared) => Self::in_process(shared, after, options),
            None => Self::open(dir, after, options),
        }
    }

    /// Follows the archive of a writer in this process.
    pub(crate) fn in_process(
        shared: Arc<Shared>,
        after: FollowPosition,
        options: FollowOptions,
    ) -> Result<Self, ArchiveError> {
        let octets_max = options.ring_octets_max;
        let mut follower = Self::open(shared.layout.root(), after, options)?;
        let id = shared.ring.join(after.position.next(), octets_max);
        follower.ring = Some(Member { shared, id });
        Ok(follower)
    }

    /// Where it is: after the last event that was given.
    pub fn position(&self) -> FollowPosition {
        self.position
    }

    /// The next event, waiting for it at most so long; `None` when the time is over.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<FollowEvent>, ArchiveError> {
        let began = Instant::now();
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let next = self.position.position.next();
            match &self.ring {
                Some(Member { shared, .. }) if shared.ring.last() < next => shared.ring.wait(next, left),
                _ => std::thread::sleep(left.min(self.options.poll_interval)),
            }
        }
    }

    /// The next event; `None` when there is none yet. After an error the same is tried again: a damaged file can be
    /// repaired, or set aside.
    pub fn try_next(&mut self) -> Result<Option<FollowEvent>, ArchiveError> {
        let mut attempts = 0;
        loop {
            match self.next_in_ring() {
                Located::Event(event) => return Ok(Some(event)),
                Located::Nothing => return Ok(None),
                Located::Source => {}
            }
            match self.next_in_files() {
                // merged, sealed or expired while it was read
                Err(error) if error.is_damage() && attempts < ATTEMPTS_MAX && self.view.refresh()? => attempts += 1,
                other => return other,
            }
        }
    }

    /// What became of the deliveries that come next, when they are gone: a gap, or that a crash has taken the archive back.
    /// `None` when the next one is there, or there is none yet. What is damaged is left to [`try_next`](Self::try_next).
    ///
    /// Reads no flows: a caller whose buffers are full learns what the limits of the archive remove meanwhile. What this follower
    /// had of that in memory, or in a file that is open, is dropped.
    pub fn try_next_loss(&mut self) -> Result<Option<FollowEvent>, ArchiveError> {
        let next = self.position.position.next();
        if self.ring.as_ref().is_some_and(|member| member.shared.ring.has(next)) {
            return Ok(None);
        }
        // what counts from here on stays until it is known which deliveries it has
        let _lease = Lease::take(&self.view.layout)?;
        self.view.refresh()?;
        if let Some(event) = self.check_epoch()? {
            self.source = Source::Unknown;
            return Ok(Some(event));
        }
        match self.view.find(next)? {
            InTails::Nowhere(torn) if torn.as_ref().is_none_or(|(_, octets)| *octets == 0) => {}
            _ => return Ok(None),
        }
        let through = match self.outside_tails(next)? {
            OutsideTails::Passed { through, before } => Some(through).filter(|_| self.is_gone(next, before)),
            OutsideTails::Sealed { sealed, end } => sealed.gone_through(end),
            OutsideTails::InNewTail | OutsideTails::Beyond(_) => None,
        };
        Ok(through.map(|through| {
            self.source = Source::Unknown;
            self.gap(through)
        }))
    }

    /// How far it is behind the newest delivery.
    pub fn behind(&mut self) -> Result<Behind, ArchiveError> {
        let position = self.position.position;
        let behind = |newest: Position| newest.get().saturating_sub(position.get());
        if let Some(Member { shared, .. }) = &self.ring {
            return Ok(Behind { deliveries: behind(shared.ring.last()), octets: shared.ring.octets_after(position) });
        }
        let deliveries = behind(self.view.newest()?);
        let octets = match &self.source {
            _ if deliveries == 0 => Some(0),
            Source::Tail(cursor) => Some(cursor.rest()? + self.view.octets_after(cursor.number)),
            _ => None,
        };
        Ok(Behind { deliveries, octets })
    }

    /// Looks into the ring; where it has no answer, the source does.
    fn next_in_ring(&mut self) -> Located {
        // an epoch is looked at in files first
        let Some(Member { shared, id }) = self.ring.as_ref().filter(|_| self.epoch > 0) else { return Located::Source };
        let next = self.position.position.next();
        match shared.ring.take(*id, next) {
            InRing::Flows(flows) => {
                let position = FollowPosition { epoch: shared.epoch, position: next };
                let is_durable = shared.progress().durable >= next;
                self.source = Source::Unknown;
                Located::Event(self.delivery(position, flows, 0, is_durable))
            }
            InRing::NotYet => Located::Nothing,
            InRing::Gone => Located::Source,
            InRing::Ended => {
                self.ring = None;
                Located::Source
            }
        }
    }

    fn next_in_files(&mut self) -> Result<Option<FollowEvent>, ArchiveError> {
        loop {
            let next = self.position.position.next();
            match &mut self.source {
                Source::Tail(cursor) => match cursor.header()? {
                    Some(header) if header.position == next => {
                        if header.is_lost() && cursor.skip(&header)? {
                            return Ok(Some(self.gap(next)));
                        }
                        if let Some(TakenFrame { flows }) = cursor.take(&header)? {
                            let is_durable = self.is_durable(next);
                            let position = self.view.with_epoch(next);
                            return Ok(Some(self.delivery(position, flows, 0, is_durable)));
                        }
                    }
                    // what comes before it is lost, and the tail is sealed as it is
                    Some(header) if header.position > next => {
                        return Ok(Some(self.gap(Position::new(header.position.get() - 1))));
                    }
                    _ => {}
                },
                Source::Window(window) => match window.next()? {
                    Some(sealed) => return Ok(Some(self.sealed_delivery(sealed))),
                    None => self.source = Source::Unknown,
                },
                Source::Empty(through) if next <= *through => {
                    let position = self.view.with_epoch(next);
                    return Ok(Some(self.delivery(position, None, 0, true)));
                }
                Source::Empty(_) => self.source = Source::Unknown,
                Source::End(_) | Source::Unknown => {}
            }
            // Only here nothing is known of the next delivery, or its frame is not whole.
            let last = match &self.source {
                Source::Tail(cursor) => Some(cursor.number),
                Source::End(tail) => Some(*tail),
                _ => None,
            };
            if let Some(tail) = last
                && !self.view.has_news(tail)?
            {
                return Ok(None);
            }
            match self.locate(next)? {
                Located::Event(event) => return Ok(Some(event)),
                Located::Source => {}
                Located::Nothing => return Ok(None),
            }
        }
    }

    /// Looks where the delivery of this position is, or what became of it.
    fn locate(&mut self, next: Position) -> Result<Located, ArchiveError> {
        // What counts from here on stays until the window is read.
        let _lease = Lease::take(&self.view.layout)?;
        self.source = Source::Unknown;
        self.view.refresh()?;
        self.view.set_looked();
        if let Some(event) = self.check_epoch()? {
            return Ok(Located::Event(event));
        }
        let torn = match self.view.find(next)? {
            InTails::At(cursor) => return self.at_frame(cursor, next),
            InTails::AtEnd(cursor) => {
                self.source = Source::Tail(cursor);
                return Ok(Located::Nothing);
            }
            InTails::Beyond(tail) => {
                self.source = Source::End(tail);
                return Ok(Located::Nothing);
            }
            InTails::Nowhere(torn) => torn,
        };
        match self.outside_tails(next)? {
            OutsideTails::Passed { through, before } => {
                // a tail that is still to be repaired may have it
                if let Some((cursor, octets)) = torn.filter(|(_, octets)| *octets > 0) {
                    return Err(cursor.damaged(octets));
                }
                Ok(self.pass(next, through, before))
            }
            OutsideTails::Sealed { sealed, end } => {
                let FollowOptions { columns, window_octets_max, .. } = &self.options;
                self.source = Source::Window(Window::read(&sealed, end, columns.as_deref(), *window_octets_max)?);
                Ok(Located::Source)
            }
            OutsideTails::InNewTail => Ok(Located::Nothing),
            OutsideTails::Beyond(tail) => {
                self.source = Source::End(tail);
                Ok(Located::Nothing)
            }
        }
    }

    /// What there is from a position on that is in no tail.
    fn outside_tails(&mut self, next: Position) -> Result<OutsideTails, ArchiveError> {
        let sealed = self.sealed.next(self.view.state(), next)?;
        let tail = self.view.tail_from(next);
        let starts = [sealed.as_ref().map(|sealed| (sealed.first, sealed.tail)), tail.map(|(number, at)| (at, number))];
        Ok(match starts.into_iter().flatten().min() {
            Some((start, before)) if start > next => {
                OutsideTails::Passed { through: Position::new(start.get() - 1), before }
            }
            Some(_) => match sealed.filter(|sealed| sealed.first == next) {
                Some(sealed) => OutsideTails::Sealed { sealed, end: tail.map(|(_, first)| first) },
                None => OutsideTails::InNewTail,
            },
            None => {
                let local = self.view.state().local();
                let (sealed, before) = (local.position, local.first_tail);
                if next <= sealed {
                    OutsideTails::Passed { through: sealed, before }
                } else {
                    OutsideTails::Beyond(before.saturating_sub(1))
                }
            }
        })
    }

    /// The frame of the next position, or one behind it, is at the cursor.
    fn at_frame(&mut self, cursor: TailCursor, next: Position) -> Result<Located, ArchiveError> {
        let is_whole = match cursor.header()? {
            Some(header) => header.position > next || cursor.is_whole(&header)?,
            None => false,
        };
        // the frame that took the place of one that could not be written is in another tail
        if !is_whole && self.view.tail_from(next.next()).is_some() {
            return Err(cursor.damaged(cursor.rest()?));
        }
        self.source = Source::Tail(cursor);
        Ok(if is_whole { Located::Source } else { Located::Nothing })
    }

    /// Passes positions of which there is nothing: their flows are gone, or there were none.
    fn pass(&mut self, next: Position, through: Position, before: TailNumber) -> Located {
        if self.is_gone(next, before) {
            return Located::Event(self.gap(through));
        }
        self.source = Source::Empty(through);
        Located::Source
    }

    /// Whether what was from a position on is gone, of which there is nothing in the tails before this one; otherwise there were
    /// no flows.
    fn is_gone(&self, next: Position, before: TailNumber) -> bool {
        let after = self.sealed.tail_before(self.view.state(), next).max(self.view.tail_before(next));
        self.view.is_gone(after, before)
    }

    /// Goes back when what was given is no longer there.
    fn check_epoch(&mut self) -> Result<Option<FollowEvent>, ArchiveError> {
        let newest = self.view.state().local().epoch();
        if self.epoch == newest {
            return Ok(None);
        }
        let (from, to) = (self.position, self.view.resolve(self.position)?);
        self.epoch = newest;
        if from == to {
            return Ok(None);
        }
        self.position = to;
        Ok(Some(FollowEvent::Rewound { from, to }))
    }

    fn is_durable(&self, position: Position) -> bool {
        self.ring.as_ref().is_some_and(|member| member.shared.progress().durable >= position)
    }

    fn gap(&mut self, through: Position) -> FollowEvent {
        let after = self.position;
        self.position = self.view.with_epoch(through);
        FollowEvent::Gap { after, through: self.position }
    }

    /// A sealed delivery, or a gap through the last of those of which nothing is left.
    fn sealed_delivery(&mut self, sealed: SealedDelivery) -> FollowEvent {
        let SealedDelivery { position, flows, rows_missing } = sealed;
        if flows.is_none() && rows_missing > 0 {
            return self.gap(position);
        }
        let position = self.view.with_epoch(position);
        self.delivery(position, flows, rows_missing, true)
    }

    fn delivery(
        &mut self,
        position: FollowPosition,
        flows: Option<FlowBatch>,
        rows_missing: u64,
        is_durable: bool,
    ) -> FollowEvent {
        self.position = position;
        let columns = self.options.columns.as_deref();
        let flows = flows.map(|flows| columns.map_or_else(|| flows.clone(), |columns| only(&flows, columns)));
        FollowEvent::Delivery(FollowedDelivery { position, flows, rows_missing, is_durable })
    }
}

/// Some columns of a batch.
fn only(flows: &FlowBatch, columns: &[Column]) -> FlowBatch {
    let kept = Column::ALL.iter().filter(|column| columns.contains(column));
    let kept = kept.filter_map(|&column| Some((column, Arc::clone(flows.column(column)?))));
    FlowBatch::from_columns(flows.rows(), kept.collect()).unwrap_or_else(|_| flows.clone())
}
