//! The forwarder: follows an archive and hands its deliveries to a store.
//!
//! One thread, which the caller gives it. Deliveries are handed over as long as what has begun stays within limits; they end
//! in any order, and the position that is kept is the last one before the first that has not ended. After an error of the
//! store nothing new begins for a while that doubles up to a limit; then what failed is begun again, oldest first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_archive::{
    ArchiveError, FollowEvent, FollowOptions, FollowPosition, FollowRetry, FollowedDelivery, Follower, Snapshot,
};
use weir_flow::with_causes;

use crate::identity::row_keys;
use crate::in_flight::{InFlight, InFlightShare};
use crate::state::StateFiles;
use crate::warning::LastingWarning;
use crate::{
    ForwardCounters, ForwardCounts, ForwardDelivery, ForwardError, ForwardOutcome, ForwardState, ForwardStore,
    StoreError,
};

/// How long the forwarder waits at most for one thing before it looks at the others.
const TURN: Duration = Duration::from_millis(20);
/// How long following is tried again after an error when forwarding is to end; otherwise it is without end.
const FAILING_MAX: Duration = Duration::from_mins(1);

/// Options of a [`Forwarder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardOptions {
    /// Name under which the archive keeps how far the forwarder is.
    pub name: String,
    /// Deliveries that have begun and not ended, at most.
    pub deliveries_in_flight_max: usize,
    /// Rows of them, at most; one delivery may have more.
    pub rows_in_flight_max: u64,
    /// How often the position is written: what is repeated after a crash.
    pub keep_interval: Duration,
    /// The pause after the first error of the store.
    pub retry_after: Duration,
    /// The longest pause after an error of the store.
    pub retry_after_max: Duration,
    /// After a refusal that is for good, such as of a wrong password, go on with this pause, while the archive keeps what
    /// waits; `None` to end.
    pub retry_refused_after: Option<Duration>,
    /// While the store takes nothing: how often it is looked at whether the archive still has what waits.
    pub loss_check_interval: Duration,
}

impl Default for ForwardOptions {
    fn default() -> Self {
        Self {
            name: "forward".to_owned(),
            deliveries_in_flight_max: 64,
            rows_in_flight_max: 131_072,
            keep_interval: Duration::from_secs(1),
            retry_after: Duration::from_millis(100),
            retry_after_max: Duration::from_secs(5),
            retry_refused_after: None,
            loss_check_interval: Duration::from_secs(10),
        }
    }
}

/// Follows an archive and hands its deliveries to a store.
pub struct Forwarder<S> {
    archive: PathBuf,
    options: ForwardOptions,
    store: S,
    files: StateFiles,
    follower: Follower,
    origin: i64,
    /// Deliveries that were read and are not below `kept`, by position.
    pending: BTreeMap<FollowPosition, Pending>,
    /// Up to here everything has ended.
    state: ForwardState,
    kept: KeptState,
    in_flight: InFlightShare,
    pause: Pause,
    /// What the store refused last, since it took anything.
    refused: Option<StoreError>,
    losses: Losses,
    counters: ForwardCounters,
}

/// How far it is, as that was written last.
#[derive(Debug)]
struct KeptState {
    state: ForwardState,
    /// When it was written last, or that was tried.
    at: Instant,
    /// That it cannot be written.
    warning: LastingWarning,
}

/// A delivery that is not kept as forwarded yet.
#[derive(Debug)]
enum Pending {
    /// The store has it.
    Begun(Box<HandedOver>),
    /// The store failed to take it.
    Failed(Box<HandedOver>),
    /// It needs nothing more; what to count for it.
    Ended(ForwardCounts),
}

/// A delivery that the store is to take.
#[derive(Debug, Clone)]
struct HandedOver {
    delivery: ForwardDelivery,
    /// Flows of it that were gone before. They are counted for good with the delivery: until then it comes again after a restart.
    rows_missing: u64,
}

/// What is known of lost deliveries.
#[derive(Debug)]
struct Losses {
    /// Flows may have been lost whose number is not known yet.
    has_gap: bool,
    /// Deliveries that were counted as lost when it began. Those of them that are behind the position are found again.
    before: u64,
    /// When it was last looked for some, or the store last took something.
    looked_at: Instant,
}

/// When the store is tried again after an error.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    length: Duration,
    /// Whether the error was logged.
    is_logged: bool,
}

impl<S: ForwardStore> Forwarder<S> {
    /// Follows the archive in a folder from where the forwarder of this name was. From memory, when the writer of the
    /// archive is in this process.
    pub fn open(
        archive: &Path,
        options: ForwardOptions,
        store: S,
        counters: ForwardCounters,
    ) -> Result<Self, ForwardError> {
        // an error about the archive comes before a folder is made where there is none
        let _ = Follower::open(archive, FollowPosition::START, FollowOptions::default())
            .map_err(|source| ForwardError::Follow { folder: archive.to_owned(), source })?;
        let files = StateFiles::open(archive, &options.name)?;
        let (kept, origin) = (files.load()?, files.origin()?);
        let mut state = ForwardState { deliveries_lost_ahead: 0, ..kept };
        state.counts.deliveries_lost = state.counts.deliveries_lost.saturating_sub(kept.deliveries_lost_ahead);
        let follower = attach(archive, state.position, &options.name)?;
        let forwarder = Self {
            archive: archive.to_owned(),
            options,
            store,
            files,
            follower,
            origin,
            pending: BTreeMap::new(),
            state,
            kept: KeptState { state: kept, at: Instant::now(), warning: LastingWarning::default() },
            in_flight: InFlightShare::of(InFlight::default()),
            pause: Pause::default(),
            refused: None,
            losses: Losses {
                // whoever ended between a gap and the end of the archive has not worked it out
                has_gap: kept.counts.deliveries_lost > 0,
                before: kept.counts.deliveries_lost,
                looked_at: Instant::now(),
            },
            counters,
        };
        forwarder.count();
        Ok(forwarder)
    }

    /// The same with limits of what is in flight that are those of all forwarders which share it.
    #[must_use]
    pub fn sharing(self, in_flight: InFlight) -> Self {
        Self { in_flight: InFlightShare::of(in_flight), ..self }
    }

    /// Forwards until it is to stop, or until everything is forwarded when `until_end` says so. What has begun then gets
    /// `grace` to end. Returns what was counted; whether anything waits is in `deliveries_waiting`.
    pub fn run(
        mut self,
        is_stopping: impl Fn() -> bool,
        until_end: impl Fn() -> bool,
        grace: Duration,
    ) -> Result<ForwardCounts, ForwardError> {
        let mut retry = FollowRetry::default();
        while !is_stopping() {
            let is_quiet = self.pending.is_empty();
            match self.read_again(if is_quiet { TURN } else { Duration::ZERO }, &mut retry) {
                Ok(false) if is_quiet && until_end() => break,
                Ok(_) => {}
                Err(error) => {
                    let is_lasting = retry.failing_for(Instant::now()).is_some_and(|length| length >= FAILING_MAX);
                    if is_lasting && until_end() {
                        self.keep();
                        return Err(ForwardError::Follow { folder: self.archive, source: error });
                    }
                }
            }
            if !self.pending.is_empty() {
                // while there is room, what comes next must not wait for what has begun
                let has_room = self.has_room() && self.pause.until.is_none();
                self.collect(if has_room { Duration::from_millis(1) } else { TURN })?;
                self.begin_again();
            }
            self.look_for_losses();
            if self.kept.at.elapsed() >= self.options.keep_interval {
                self.keep();
            }
        }
        let began = Instant::now();
        while self.in_flight.rows() > 0 && began.elapsed() < grace && self.pause.until.is_none() {
            self.collect(TURN)?;
        }
        self.account_for_gap();
        self.keep();
        match self.refused {
            // what waits, waits for somebody to do something about it
            Some(refused) if !self.pending.is_empty() => Err(ForwardError::Store(refused)),
            _ => Ok(self.counters.read()),
        }
    }

    /// As [`read`](Self::read), with pauses after errors. Then the archive is followed anew from where it was, since what is open of
    /// it may be of a mount that has gone.
    fn read_again(&mut self, timeout: Duration, retry: &mut FollowRetry) -> Result<bool, ArchiveError> {
        if retry.is_waiting(Instant::now()) {
            std::thread::sleep(TURN);
            // there may be something
            return Ok(true);
        }
        let result = match retry.failing_for(Instant::now()) {
            Some(_) => self.follow_anew().and_then(|()| self.read(timeout)),
            None => self.read(timeout),
        };
        match &result {
            Ok(_) => retry.succeeded(),
            Err(error) if retry.failed(Instant::now()) => {
                tracing::warn!("cannot follow the archive, trying again: {}", with_causes(error));
            }
            Err(_) => {}
        }
        result
    }

    fn follow_anew(&mut self) -> Result<(), ArchiveError> {
        self.follower = Follower::attach(&self.archive, self.follower.position(), FollowOptions::default())?;
        Ok(())
    }

    /// Reads what comes next in the archive and hands it to the store, if there is room; whether there was something.
    fn read(&mut self, timeout: Duration) -> Result<bool, ArchiveError> {
        if !self.has_room() || self.pause.until.is_some() {
            return Ok(true);
        }
        let Some(event) = self.follower.next_timeout(timeout)? else {
            if self.pending.is_empty() {
                self.account_for_gap();
            }
            return Ok(false);
        };
        match event {
            FollowEvent::Delivery(delivery) => self.take(delivery),
            loss => self.pass(&loss),
        }
        Ok(true)
    }

    /// Passes what cannot be forwarded any more.
    fn pass(&mut self, loss: &FollowEvent) {
        match *loss {
            FollowEvent::Gap { after, through } => {
                let lost = through.position.get() - after.position.get();
                tracing::warn!(
                    "{lost} deliveries, {} to {through}, are gone from the archive before they were forwarded",
                    after.position.next()
                );
                self.losses.has_gap = true;
                // while a store is away one follows the other, and together they take the place of one
                let ended = self.pending.get(&after).and_then(|pending| match pending {
                    Pending::Ended(counts) => Some(*counts),
                    _ => None,
                });
                if ended.is_some() {
                    self.pending.remove(&after);
                }
                let before = ended.unwrap_or_default();
                self.end(through, ForwardCounts { deliveries_lost: before.deliveries_lost + lost, ..before });
            }
            FollowEvent::Rewound { from, to } => {
                tracing::warn!("a crash took the archive back from {from} to {to}; what comes next has new keys");
                // what was handed over before has positions of an epoch that has ended, so nothing is confused
                self.end(to, ForwardCounts { rewinds: 1, ..ForwardCounts::default() });
                // what was known to be lost before may have come again
                self.losses.before = 0;
            }
            _ => {}
        }
    }

    /// While the store takes nothing: looks whether the archive still has what waits. It is counted as lost now, and not when
    /// the store is back.
    fn look_for_losses(&mut self) {
        let is_waiting = self.pause.until.is_some() || !self.has_room();
        if !is_waiting || self.losses.looked_at.elapsed() < self.options.loss_check_interval {
            return;
        }
        self.losses.looked_at = Instant::now();
        // taken first: what goes after it was taken waits until the next time
        let Ok(snapshot) = Snapshot::open(&self.archive) else { return };
        let mut has_lost = false;
        // whoever comes to what is damaged reports that
        while let Ok(Some(loss)) = self.follower.try_next_loss() {
            self.pass(&loss);
            has_lost = true;
        }
        if has_lost {
            self.account(&snapshot);
        }
    }

    fn has_room(&self) -> bool {
        let ForwardOptions { deliveries_in_flight_max, rows_in_flight_max, .. } = self.options;
        // those count too that have ended before an earlier one
        let is_below = self.pending.len() < deliveries_in_flight_max;
        is_below && self.in_flight.has_room(deliveries_in_flight_max, rows_in_flight_max)
    }

    fn take(&mut self, delivery: FollowedDelivery) {
        let FollowedDelivery { position, flows, rows_missing, .. } = delivery;
        if rows_missing > 0 {
            tracing::warn!("{rows_missing} flows of delivery {position} are gone before they were forwarded");
        }
        // after a gap they are among those that are worked out for all of the archive
        let is_counted = !self.losses.has_gap || self.state.counts.rewinds > 0;
        let rows_missing = if is_counted { rows_missing } else { 0 };
        let Some(flows) = flows.filter(|flows| flows.rows() > 0) else {
            let counts = ForwardCounts { deliveries_forwarded: 1, rows_lost: rows_missing, ..ForwardCounts::default() };
            return self.end(position, counts);
        };
        let row_keys = row_keys(position, &flows).into();
        self.in_flight.add(flows.rows() as u64);
        let delivery = ForwardDelivery { position, flows, origin: self.origin, row_keys };
        let handed_over = HandedOver { delivery: delivery.clone(), rows_missing };
        self.pending.insert(position, Pending::Begun(Box::new(handed_over)));
        self.store.begin(delivery);
    }

    /// A position needs nothing more.
    fn end(&mut self, position: FollowPosition, counts: ForwardCounts) {
        self.pending.insert(position, Pending::Ended(counts));
        self.advance();
    }

    /// Moves on over everything that has ended.
    fn advance(&mut self) {
        while let Some(first) = self.pending.first_entry() {
            let Pending::Ended(counts) = first.get() else { break };
            let total = &mut self.state.counts;
            total.rows_forwarded += counts.rows_forwarded;
            total.rows_refused += counts.rows_refused;
            total.deliveries_forwarded += counts.deliveries_forwarded;
            total.deliveries_lost += counts.deliveries_lost;
            total.rows_lost += counts.rows_lost;
            total.rewinds += counts.rewinds;
            self.state.position = *first.key();
            first.remove();
        }
        self.count();
    }

    /// How far it is, with what is known to be lost behind that.
    fn accounted(&self) -> ForwardState {
        let ended = self.pending.values().filter_map(|pending| match pending {
            Pending::Ended(counts) => Some(counts.deliveries_lost),
            _ => None,
        });
        let passed = self.state.counts.deliveries_lost;
        let lost = (passed + ended.sum::<u64>()).max(self.losses.before);
        ForwardState {
            counts: ForwardCounts { deliveries_lost: lost, ..self.state.counts },
            deliveries_lost_ahead: lost - passed,
            ..self.state
        }
    }

    /// What is counted by now: what is missing from deliveries on their way, too, which is kept with them.
    fn counted(&self) -> ForwardCounts {
        let missing = self.pending.values().map(|pending| match pending {
            Pending::Begun(handed_over) | Pending::Failed(handed_over) => handed_over.rows_missing,
            Pending::Ended(counts) => counts.rows_lost,
        });
        let counts = self.accounted().counts;
        let rows_lost = counts.rows_lost + missing.sum::<u64>();
        ForwardCounts { rows_in_flight: self.in_flight.rows(), rows_lost, ..counts }
    }

    fn count(&self) {
        let waiting = self.counters.read().deliveries_waiting;
        self.counters.write(&ForwardCounts { deliveries_waiting: waiting, ..self.counted() });
    }

    /// Takes what the store has ended.
    fn collect(&mut self, timeout: Duration) -> Result<(), ForwardError> {
        let pause = self.pause.until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = pause.map_or(timeout, |pause| pause.min(timeout));
        for ForwardOutcome { position, result } in self.store.ended(timeout) {
            let Entry::Occupied(pending) = self.pending.entry(position) else { continue };
            // what has failed or ended was not handed over again, and stays what it is
            if !matches!(pending.get(), Pending::Begun(_)) {
                continue;
            }
            let Pending::Begun(handed_over) = pending.remove() else { continue };
            match result {
                Ok(rows) => {
                    self.in_flight.remove(handed_over.delivery.flows.rows() as u64);
                    self.pause.succeeded();
                    self.losses.looked_at = Instant::now();
                    self.refused = None;
                    let counts = ForwardCounts {
                        rows_forwarded: rows.stored,
                        rows_refused: rows.refused,
                        rows_lost: handed_over.rows_missing,
                        deliveries_forwarded: 1,
                        ..ForwardCounts::default()
                    };
                    self.pending.insert(position, Pending::Ended(counts));
                }
                Err(error @ StoreError::Refused(_)) if self.options.retry_refused_after.is_none() => {
                    self.keep();
                    return Err(ForwardError::Store(error));
                }
                Err(error) => {
                    self.state.counts.failures += 1;
                    self.pause.failed(&error, &self.options);
                    self.refused = Some(error).filter(|error| matches!(error, StoreError::Refused(_)));
                    self.pending.insert(position, Pending::Failed(handed_over));
                }
            }
        }
        self.counters.set_refused(self.refused.is_some());
        self.advance();
        Ok(())
    }

    /// Begins again what failed, once the pause is over.
    fn begin_again(&mut self) {
        if self.pause.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        self.pause.until = None;
        for pending in self.pending.values_mut() {
            if let Pending::Failed(handed_over) = pending {
                let again = handed_over.clone();
                self.store.begin(again.delivery.clone());
                *pending = Pending::Begun(again);
                self.state.counts.retries += 1;
            }
        }
    }

    /// Writes how far it is. A disk that is full for a while is no reason to end: what is repeated is only more.
    fn keep(&mut self) {
        self.kept.at = Instant::now();
        let state = self.accounted();
        let behind = self.follower.behind().map_or(0, |behind| behind.deliveries);
        let waiting = self.pending.values().filter(|pending| !matches!(pending, Pending::Ended(_))).count();
        self.counters.write(&ForwardCounts { deliveries_waiting: behind + waiting as u64, ..self.counted() });
        if self.kept.state == state {
            return;
        }
        match self.files.keep(&state) {
            Ok(()) => {
                self.kept.state = state;
                self.kept.warning.clear();
            }
            Err(error) if self.kept.warning.is_due(self.kept.at) => {
                tracing::warn!("how far forwarding is cannot be kept, trying again: {error}");
            }
            Err(_) => {}
        }
    }

    /// Works out how many flows a gap had, at the end of the archive: there is no other way after a restart, for example.
    fn account_for_gap(&mut self) {
        // what was appended before an archive was taken back is not known any more
        if !self.losses.has_gap || !self.pending.is_empty() || self.state.counts.rewinds > 0 {
            return;
        }
        let Ok(snapshot) = Snapshot::open(&self.archive) else { return };
        if snapshot.follow_position() == self.follower.position() {
            self.account(&snapshot);
        }
    }

    /// Works out how many flows are lost up to where the follower is: what was ever appended and is neither with the store, nor
    /// on its way there, nor still in the archive. The follower must have nothing in memory that the archive has not.
    fn account(&mut self, snapshot: &Snapshot) {
        if self.state.counts.rewinds > 0 {
            return;
        }
        let Ok(waiting) = snapshot.flows_after(self.follower.position().position) else { return };
        let appended = snapshot.flows() + snapshot.rows_expired() + snapshot.rows_set_aside();
        let mut in_hand = 0;
        for pending in self.pending.values_mut() {
            // what is missing is in the balance
            in_hand += match pending {
                Pending::Begun(handed_over) | Pending::Failed(handed_over) => {
                    handed_over.rows_missing = 0;
                    handed_over.delivery.flows.rows() as u64
                }
                Pending::Ended(counts) => {
                    counts.rows_lost = 0;
                    counts.rows_forwarded + counts.rows_refused
                }
            };
        }
        let counts = &mut self.state.counts;
        let lost = appended.saturating_sub(counts.rows_forwarded + counts.rows_refused + in_hand + waiting);
        counts.rows_lost = counts.rows_lost.max(lost);
        if self.pending.is_empty() && waiting == 0 {
            self.losses.has_gap = false;
        }
        self.count();
    }
}

impl Pause {
    fn failed(&mut self, error: &StoreError, options: &ForwardOptions) {
        let refused_after = options.retry_refused_after.filter(|_| matches!(error, StoreError::Refused(_)));
        if let Some(pause) = refused_after {
            // each time: nothing is stored until somebody does something about it
            if self.until.is_none() {
                tracing::error!("the store refuses what it gets, trying again in {} s: {error}", pause.as_secs());
            }
            self.is_logged = true;
        }
        if !self.is_logged {
            tracing::warn!("the store takes nothing, trying again until it does: {error}");
            self.is_logged = true;
        }
        // of deliveries that fail together the first one counts
        if self.until.is_none() {
            self.length = (self.length * 2).clamp(options.retry_after, options.retry_after_max);
            self.until = Some(Instant::now() + refused_after.unwrap_or(self.length));
        }
    }

    fn succeeded(&mut self) {
        if self.is_logged {
            tracing::info!("the store takes flows again");
        }
        // what failed still waits for its turn
        *self = Self { until: self.until, ..Self::default() };
    }
}

fn attach(archive: &Path, after: FollowPosition, name: &str) -> Result<Follower, ForwardError> {
    Follower::attach(archive, after, FollowOptions::default()).map_err(|source| match source {
        ArchiveError::UnknownPosition { .. } => ForwardError::UnknownPosition {
            folder: archive.to_owned(),
            position: after,
            state: archive.join(crate::state::FOLDER).join(name),
        },
        source => ForwardError::Follow { folder: archive.to_owned(), source },
    })
}
