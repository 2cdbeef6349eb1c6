//! The thread that follows an archive and cuts its flows for all watches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, SendError, Sender, TrySendError};
use weir_archive::{FollowEvent, FollowPosition, FollowRetry, FollowedDelivery};
use weir_flow::Column;
use weir_sql::standing::QuestionMemory;

use crate::WatchError;
use crate::counters::{WatchCounters, locked};
use crate::error::with_causes;
use crate::flow_source::{FlowSource, HistoryArchive, SourceEvent};
use crate::flows::Flows;
use crate::grown::GrownPane;
use crate::open_windows::OpenWindows;
use crate::panes::ClosedWindow;
use crate::shared::{Shared, now_ms};
use crate::waiting::WaitingWindow;
use crate::watch::Watch;

/// How long the follower waits for a delivery before it looks at the clock.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked whether closed windows have freed memory.
const MEMORY_LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the thread that follows is told.
pub(crate) enum FollowCommand {
    /// A watch that has caught up.
    Join(Box<FollowedWatch>),
    /// A watch that goes.
    Leave(String),
}

/// What the thread that follows has of a watch.
pub(crate) struct FollowedWatch {
    pub(crate) name: String,
    pub(crate) panes: OpenWindows,
    pub(crate) columns: Vec<Column>,
    pub(crate) time: Column,
    /// Windows that end here or before were asked.
    pub(crate) asked_through_ms: Option<i64>,
    /// Deliveries up to this one are in the panes already.
    pub(crate) after: FollowPosition,
    pub(crate) idle: Duration,
    pub(crate) closed: Sender<WaitingWindow>,
    /// Takes panes to aggregate before windows close.
    pub(crate) grown: Sender<GrownPane>,
    pub(crate) counters: Arc<WatchCounters>,
    pub(crate) is_shedding: bool,
    /// Rows of sessions that were left out, of windows that are not asked: the next one says so.
    pub(crate) left_out: u64,
    /// Whether the last delivery was ahead of the clock.
    pub(crate) is_ahead: bool,
}

impl FollowedWatch {
    /// A watch that is to join: closed windows and panes to aggregate go to these channels.
    pub(crate) fn new(
        watch: &Watch,
        counters: &Arc<WatchCounters>,
        panes: OpenWindows,
        asked_through_ms: Option<i64>,
        (closed, grown): (Sender<WaitingWindow>, Sender<GrownPane>),
    ) -> Self {
        let windows = &watch.file.options.windows;
        Self {
            name: watch.file.name.clone(),
            panes,
            columns: watch.query.columns().to_vec(),
            time: windows.time.column(),
            asked_through_ms,
            after: FollowPosition::START,
            idle: Duration::from_millis(windows.idle.millis().unsigned_abs()),
            closed,
            grown,
            counters: Arc::clone(counters),
            is_shedding: false,
            left_out: 0,
            is_ahead: false,
        }
    }

    /// Puts what the archive has of open windows into the panes.
    fn load(&mut self, archive: &HistoryArchive) -> Result<(), WatchError> {
        let snapshot = Arc::new(archive.snapshot()?);
        self.after = snapshot.follow_position();
        let begin_ms = self.asked_through_ms.unwrap_or_else(now_ms);
        let from_ms = self.panes.first_end_after(begin_ms).saturating_sub(self.panes.size_max_ms());
        let (panes, aggregating) = (&mut self.panes, &self.grown);
        Flows::at(&snapshot)?.read(&self.columns, self.time, (from_ms, i64::MAX), |rows| {
            panes.load(&rows);
            // rows are read faster than they are aggregated
            if let Some(grown) = panes.grown()
                && aggregating.send(grown).is_ok()
            {
                panes.wait_for_grown();
            }
            true
        })?;
        self.panes.begin_at(begin_ms);
        Ok(())
    }

    /// Has a pane aggregated that has grown; while another one is, it waits for more rows.
    fn hand_over_grown(&mut self) {
        if let Some(grown) = self.panes.grown() {
            let _ = self.grown.try_send(grown);
        }
    }

    pub(crate) fn hand_over(&mut self, closed: Vec<ClosedWindow>, waits: bool) -> Option<String> {
        *locked(&self.counters.panes) = self.panes.counts();
        let was_shedding = self.is_shedding;
        let has_sessions = matches!(self.panes, OpenWindows::Sessions(_));
        for mut window in closed {
            self.counters.windows_closed.fetch_add(1, Ordering::Relaxed);
            window.rows_left_out += std::mem::take(&mut self.left_out);
            let waiting = WaitingWindow::of(window);
            let has_room = waits || waiting.has_room(&self.counters.waiting, self.panes.rows_max());
            self.counters.waiting.add(&waiting);
            let refused = if !has_room {
                Some(waiting)
            } else if waits {
                self.closed.send(waiting).err().map(SendError::into_inner)
            } else {
                self.closed.try_send(waiting).err().map(TrySendError::into_inner)
            };
            if let Some(waiting) = &refused {
                self.counters.waiting.remove(waiting);
            }
            self.is_shedding = refused.is_some();
            self.left_out = refused.filter(|_| has_sessions).map_or(0, |waiting| waiting.window.rows_left_out);
            self.counters.windows_shed.fetch_add(u64::from(self.is_shedding), Ordering::Relaxed);
        }
        (self.is_shedding && !was_shedding)
            .then(|| format!("watch '{}' is too slow: windows are not asked (windows_shed)", self.name))
    }
}

/// The thread that follows.
pub(crate) struct FollowThread {
    pub(crate) source: FlowSource,
    /// Whether windows wait for a watch that is slow, and flows for them.
    pub(crate) waits: bool,
    pub(crate) watches: Vec<FollowedWatch>,
    pub(crate) controls: Receiver<FollowCommand>,
    pub(crate) shared: Shared,
}

impl FollowThread {
    pub(crate) fn run(&mut self) {
        let (mut last_event, mut retry) = (Instant::now(), FollowRetry::default());
        while !self.shared.is_ending() {
            while let Ok(control) = self.controls.try_recv() {
                self.obey(control);
            }
            if retry.is_waiting(Instant::now()) {
                thread::sleep(LOOK_EVERY);
                // what is not read yet may have the flows of windows that are open
                last_event = Instant::now();
                continue;
            }
            match self.next(&retry) {
                Ok(Some(SourceEvent::End)) => {
                    self.close_all();
                    return;
                }
                Ok(Some(event)) => {
                    retry.succeeded();
                    if self.take(event) {
                        last_event = Instant::now();
                    } else {
                        self.idle(last_event.elapsed());
                    }
                }
                Ok(None) => {
                    retry.succeeded();
                    self.idle(last_event.elapsed());
                }
                // a file can come back, or be set aside
                Err(error) => {
                    if retry.failed(Instant::now()) {
                        self.shared.notice(format!("watches get no flows, trying again: {}", with_causes(&error)));
                    }
                }
            }
        }
    }

    fn next(&mut self, retry: &FollowRetry) -> Result<Option<SourceEvent>, WatchError> {
        if retry.failing_for(Instant::now()).is_some() {
            return self.source.next_anew(LOOK_EVERY);
        }
        Ok(self.source.next_timeout(LOOK_EVERY)?)
    }

    fn obey(&mut self, control: FollowCommand) {
        match control {
            FollowCommand::Leave(name) => {
                let left = self.watches.iter().filter(|watch| watch.name == name).count();
                // first: once a watch has gone, others may be added and waited for
                self.shared.joined.fetch_sub(left, Ordering::Relaxed);
                self.watches.retain(|watch| watch.name != name);
            }
            FollowCommand::Join(mut watch) => {
                let failure = self.join(&mut watch).err().map(|error| with_causes(&error));
                let has_joined = failure.is_none();
                // first: a watch that is dropped closes the channels of its thread, which then tries again
                *locked(&watch.counters.join_error) = failure;
                if has_joined {
                    self.watches.push(*watch);
                    self.shared.joined.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn join(&mut self, watch: &mut FollowedWatch) -> Result<(), WatchError> {
        // first, so that whatever comes after the snapshot has its columns
        self.source.widen(&watch.columns)?;
        if self.source.is_stream() { Ok(()) } else { watch.load(&self.shared.history) }
    }

    /// Whether there were flows.
    fn take(&mut self, event: SourceEvent) -> bool {
        let event = match event {
            SourceEvent::Followed(event) => event,
            SourceEvent::Rows(rows) => {
                self.take_rows(&rows, None);
                return true;
            }
            SourceEvent::End => return false,
        };
        match event {
            FollowEvent::Delivery(delivery) => {
                self.take_delivery(&delivery);
                return delivery.flows.is_some();
            }
            FollowEvent::Gap { after, through } => self.shared.notice(format!(
                "flows of the deliveries after {after} up to {through} are gone; watches have not seen them"
            )),
            FollowEvent::Rewound { from, to } => {
                self.shared.notice(format!("the archive went back from {from} to {to} in a crash"));
            }
            _ => {}
        }
        false
    }

    fn take_delivery(&mut self, delivery: &FollowedDelivery) {
        if delivery.rows_missing > 0 {
            self.shared.notice(format!("{} flows of delivery {} are gone", delivery.rows_missing, delivery.position));
        }
        if let Some(flows) = &delivery.flows {
            self.take_rows(flows.record_batch(), Some(delivery.position));
        }
    }

    /// Rows of the archive at a position, or of a chain.
    fn take_rows(&mut self, rows: &RecordBatch, position: Option<FollowPosition>) {
        self.wait_for_memory();
        let (now_ms, waits) = (now_ms(), self.waits);
        let is_new = |watch: &FollowedWatch| position.is_none_or(|position| position > watch.after);
        for watch in self.watches.iter_mut().filter(|watch| is_new(watch)) {
            let mut closed = Vec::new();
            watch.panes.take(rows, &mut closed);
            if let Some(notice) = watch.hand_over(closed, waits) {
                self.shared.notice(notice);
            }
            watch.hand_over_grown();
            let is_ahead = watch.panes.rewind(now_ms);
            if is_ahead && !watch.is_ahead {
                let name = &watch.name;
                self.shared.notice(format!("watch '{name}': flows were ahead of the clock; it goes on from now"));
            }
            watch.is_ahead = is_ahead;
        }
        self.free_memory();
    }

    /// Frees memory where windows of all watches keep too much: the one that keeps most leaves out what came last.
    fn free_memory(&mut self) {
        while let Some(watch) = self.watches.iter_mut().max_by_key(|watch| watch.counters.octets_kept()) {
            // one that catches up is none of these, and may keep more: that one leaves out flows itself
            let has_to = |memory: &QuestionMemory| memory.of_all().is_exceeded() && memory.keeps_most();
            if !watch.counters.memory.as_ref().is_some_and(has_to) || !watch.panes.give_way() {
                return;
            }
        }
    }

    /// With `waits`, lets flows wait while memory is scarce and windows that have closed will free some.
    fn wait_for_memory(&self) {
        let is_awaited = |watch: &FollowedWatch| {
            watch.counters.waiting.has_windows()
                && watch.counters.memory.as_ref().is_some_and(|memory| memory.of_all().is_scarce())
        };
        // a watch that is to go frees its memory once it is let go
        let is_free = || self.controls.is_empty() && !self.shared.is_ending();
        while self.waits && is_free() && self.watches.iter().any(is_awaited) {
            thread::sleep(MEMORY_LOOK_EVERY);
        }
    }

    /// Nothing came for so long: windows close by the clock.
    fn idle(&mut self, quiet: Duration) {
        if !self.source.is_live(now_ms()) {
            return;
        }
        let waits = self.waits;
        for watch in self.watches.iter_mut().filter(|watch| quiet >= watch.idle) {
            let mut closed = Vec::new();
            watch.panes.advance(now_ms().saturating_sub(watch.idle.as_millis() as i64), &mut closed);
            if let Some(notice) = watch.hand_over(closed, waits) {
                self.shared.notice(notice);
            }
        }
    }

    /// A chain has ended: its last windows close with what they have.
    fn close_all(&mut self) {
        // a watch may have been on its way
        while let Ok(control) = self.controls.try_recv() {
            self.obey(control);
        }
        let Some(latest_ms) = self.source.latest_ms() else { return };
        let waits = self.waits;
        for watch in &mut self.watches {
            let mut closed = Vec::new();
            let end_ms = watch.panes.first_end_after(latest_ms).saturating_add(watch.panes.size_max_ms());
            watch.panes.close_through(end_ms, &mut closed);
            if let Some(notice) = watch.hand_over(closed, waits) {
                self.shared.notice(notice);
            }
        }
    }
}
