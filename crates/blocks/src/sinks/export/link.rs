//! Messages on their way over a connection: a bounded queue, and a thread that empties it.
//!
//! [`Link::offer`] never waits; [`Link::put`] waits, but only while the collector takes something. The thread connects, writes,
//! and connects again when that fails; a message leaves the queue when all of it has been written, so none is cut in two by
//! a connection that breaks, and none is sent twice. What had been written shortly before is *uncertain*: the system had
//! taken it, and nothing reports how far it came.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_chain::ComponentError;
use weir_export::{TransportSession, Version};

use super::announcements::{Announcements, Message};
use super::counters::ExportCounters;
use super::stopping::Stopping;
use super::stream::{Dialling, LOOK_INTERVAL, Stream};

/// Pause before the first attempt to connect again; each further one is twice as long.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// Longest pause between attempts.
const RETRY_MAX: Duration = Duration::from_secs(15);
/// What was written this much longer ago than the stall timeout has been acknowledged, or the connection were gone.
const ACKNOWLEDGED_MARGIN: Duration = Duration::from_secs(5);

/// How long after the deadline a thread may take to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// Capacity of the queue, and how long to wait for it, counted from when the collector last took something.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLimits {
    pub octets_max: usize,
    pub timeout: Duration,
}

/// The end that messages are put into.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    limits: QueueLimits,
    stopping: Arc<Stopping>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    announcements: Arc<Announcements>,
    counters: ExportCounters,
    dialling: Dialling,
}

#[derive(Debug)]
struct Queue {
    messages: VecDeque<Arc<Message>>,
    octets: usize,
    flows: u64,
    /// When the collector took something last, or the first message began to wait.
    progress: Instant,
    /// Whether the last message did not fit into the queue.
    is_full: bool,
    /// Set when nothing more will come: until when to go on.
    deadline: Option<Instant>,
    /// Whether the thread has ended.
    is_ended: bool,
}

impl Queue {
    fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            octets: 0,
            flows: 0,
            progress: Instant::now(),
            is_full: false,
            deadline: None,
            is_ended: false,
        }
    }

    fn push(&mut self, message: Arc<Message>) {
        if self.messages.is_empty() {
            self.progress = Instant::now();
        }
        self.octets += message.octets();
        self.flows += u64::from(message.flows);
        self.messages.push_back(message);
    }

    /// Takes the first message out, when it still is this one.
    fn remove(&mut self, message: &Arc<Message>) -> bool {
        let is_first = self.messages.front().is_some_and(|first| Arc::ptr_eq(first, message));
        if is_first {
            self.messages.pop_front();
            self.progress = Instant::now();
            self.octets -= message.octets();
            self.flows -= u64::from(message.flows);
        }
        is_first
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the time for finishing is over.
    fn is_over(&self) -> bool {
        self.queue().deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Link {
    /// Starts the thread. A collector that cannot be reached yet is no error.
    pub(super) fn start(
        dialling: Dialling,
        announcements: Arc<Announcements>,
        (limits, stopping): (QueueLimits, Arc<Stopping>),
        counters: ExportCounters,
    ) -> Result<Self, ComponentError> {
        let queue = Mutex::new(Queue::new());
        let shared = Arc::new(Shared { queue, changed: Condvar::new(), announcements, counters, dialling });
        let work = Arc::clone(&shared);
        thread::Builder::new()
            .name("weir-export".to_owned())
            .spawn(move || {
                // however it ends, callers must not wait for it any more
                let _ended = Ended(&work);
                work.run();
            })
            .map_err(|error| ComponentError::caused("cannot start a thread", error))?;
        Ok(Self { shared, limits, stopping })
    }

    /// Puts a message into the queue if it fits now. Returns whether it did.
    pub(super) fn offer(&self, message: &Arc<Message>) -> bool {
        let mut queue = self.shared.queue();
        let has_room = self.has_room(&queue, message.octets());
        if has_room {
            queue.push(Arc::clone(message));
            queue.is_full = false;
            drop(queue);
            self.shared.changed.notify_one();
        }
        has_room
    }

    /// Puts a message into the queue, if needed after waiting. Counts the flows of a message that does not fit.
    pub(super) fn put(&self, message: &Arc<Message>) {
        let mut queue = self.wait_for_room(message.octets());
        let has_room = self.has_room(&queue, message.octets());
        if has_room {
            queue.push(Arc::clone(message));
        } else {
            self.shared.counters.unsent.add(message.flows.into());
            if !queue.is_full {
                let target = &self.shared.dialling.target;
                tracing::warn!(%target, "the queue is full; flows that find no room are counted in records_unsent");
            }
        }
        queue.is_full = !has_room;
        drop(queue);
        self.shared.changed.notify_one();
    }

    fn has_room(&self, queue: &Queue, octets: usize) -> bool {
        queue.octets + octets <= self.limits.octets_max && !queue.is_ended
    }

    /// Waits until the message fits, for as long as the collector takes something. The time counts from the last progress of
    /// this queue: after one wait in vain the next calls do not wait, and neither do calls after a wait for another collector
    /// that took as long.
    fn wait_for_room(&self, octets: usize) -> MutexGuard<'_, Queue> {
        let mut queue = self.shared.queue();
        while !self.has_room(&queue, octets) && !queue.is_ended {
            let until = queue.progress + self.limits.timeout;
            let until = self.stopping.deadline().map_or(until, |deadline| until.min(deadline));
            let left = until.saturating_duration_since(Instant::now()).min(LOOK_INTERVAL);
            if left.is_zero() {
                break;
            }
            queue = self.shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue
    }

    /// Has the thread look for announcements.
    pub(super) fn wake(&self) {
        self.shared.changed.notify_one();
    }

    /// Flows and octets that wait.
    pub(super) fn waiting(&self) -> (u64, usize) {
        let queue = self.shared.queue();
        (queue.flows, queue.octets)
    }

    /// Ends the input: messages in the queue may still be sent until the deadline.
    pub(super) fn close(&self, deadline: Instant) {
        self.shared.queue().deadline = Some(deadline);
        self.shared.changed.notify_one();
    }

    /// Waits until everything is sent, or the deadline is over and the thread has had the time to see that. Counts the
    /// flows that were not sent. A stop of the chain brings the deadline nearer.
    pub(super) fn wait(&self, stopping: &Stopping) {
        let mut queue = self.shared.queue();
        while !queue.is_ended {
            let now = Instant::now();
            let deadline = queue.deadline.unwrap_or(now);
            let deadline = stopping.deadline().map_or(deadline, |sooner| sooner.min(deadline));
            queue.deadline = Some(deadline);
            let left = (deadline + GRACE).saturating_duration_since(now).min(LOOK_INTERVAL);
            if left.is_zero() {
                break;
            }
            queue = self.shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        abandon(&mut queue, &self.shared);
    }
}

/// Drops the messages that are left. The thread may be blocked in a connection; it finds nothing more to do.
fn abandon(queue: &mut Queue, shared: &Shared) {
    if queue.flows > 0 {
        let (target, flows) = (&shared.dialling.target, queue.flows);
        tracing::warn!(%target, flows, "flows were not sent: no time was left");
    }
    shared.counters.unsent.add(queue.flows);
    (queue.flows, queue.octets) = (0, 0);
    queue.messages.clear();
}

impl Drop for Link {
    fn drop(&mut self) {
        // without a finish before it, there is no time for the messages that are left
        let mut queue = self.shared.queue();
        queue.deadline.get_or_insert_with(Instant::now);
        abandon(&mut queue, &self.shared);
        drop(queue);
        self.shared.changed.notify_all();
    }
}

/// Notes that the thread has ended, also when it panics.
struct Ended<'s>(&'s Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.queue().is_ended = true;
        self.0.changed.notify_all();
    }
}

/// What a session does next.
enum Next {
    Message(Arc<Message>),
    /// Nothing waits but, perhaps, announcements.
    Nothing,
    /// Nothing waits and nothing will come.
    Close,
}

impl Shared {
    /// The thread: one session after the other.
    fn run(&self) {
        let (mut pause, mut is_reported) = (RETRY_MIN, false);
        let target = &self.dialling.target;
        loop {
            let begun = Instant::now();
            match self.dialling.connect() {
                Ok(stream) => {
                    self.counters.connections_made.add(1);
                    tracing::info!(%target, "connected to a collector");
                    is_reported = false;
                    match self.session(stream) {
                        Ok(()) => return,
                        Err(error) => {
                            self.counters.connections_lost.add(1);
                            tracing::warn!(%target, %error, "the connection to a collector is lost");
                        }
                    }
                }
                Err(error) => {
                    self.counters.connections_failed.add(1);
                    if !is_reported {
                        tracing::warn!(%target, %error, "no connection to a collector; flows wait in the queue");
                        is_reported = true;
                    }
                }
            }
            if begun.elapsed() > RETRY_MAX {
                pause = RETRY_MIN;
            }
            if !self.pause(pause) {
                return;
            }
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Waits before another attempt, which is made sooner when the time is limited. False when there is nothing more to
    /// do, or no time left for it.
    fn pause(&self, pause: Duration) -> bool {
        let begun = Instant::now();
        let mut queue = self.queue();
        loop {
            let (now, limit) = (Instant::now(), if queue.deadline.is_some() { pause.min(RETRY_MIN) } else { pause });
            if queue.deadline.is_some_and(|deadline| now >= deadline || queue.messages.is_empty()) {
                return false;
            }
            let left = limit.saturating_sub(now - begun);
            if left.is_zero() {
                return true;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// One Transport Session: the collector gets all announcements first (RFC 7011 section 10.4.3), then the flows. Ends
    /// without an error only when the input has ended.
    fn session(&self, mut stream: Stream) -> io::Result<()> {
        let mut sending = Sending {
            shared: self,
            session: TransportSession::new(Version::Ipfix),
            announced: 0,
            octets: Vec::new(),
            recent: Recent::new(self.dialling.stall_timeout + ACKNOWLEDGED_MARGIN),
        };
        let outcome = sending.run(&mut stream);
        let outcome = outcome.and_then(|()| stream.close(&|| self.is_over()));
        if outcome.is_err() {
            self.counters.uncertain.add(sending.recent.flows(Instant::now()));
        }
        outcome
    }

    fn next(&self) -> Next {
        let mut queue = self.queue();
        if queue.messages.is_empty() && queue.deadline.is_none() {
            queue = self.changed.wait_timeout(queue, LOOK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        match queue.messages.front() {
            Some(message) => Next::Message(Arc::clone(message)),
            None if queue.deadline.is_some() => Next::Close,
            None => Next::Nothing,
        }
    }
}

/// A session under way.
struct Sending<'s> {
    shared: &'s Shared,
    session: TransportSession,
    /// Number of announcements sent in this session.
    announced: u64,
    octets: Vec<u8>,
    recent: Recent,
}

impl Sending<'_> {
    fn run(&mut self, stream: &mut Stream) -> io::Result<()> {
        loop {
            match self.shared.next() {
                Next::Message(message) => {
                    if self.announced < message.announced {
                        self.announce(stream)?;
                    }
                    self.write(stream, &message)?;
                    let mut queue = self.shared.queue();
                    if queue.remove(&message) {
                        self.shared.counters.exported.add(message.flows.into());
                        self.recent.add(Instant::now(), message.flows.into());
                    }
                    drop(queue);
                    self.shared.changed.notify_all();
                }
                Next::Nothing => {
                    self.announce(stream)?;
                    stream.look()?;
                }
                Next::Close => return self.announce(stream),
            }
        }
    }

    /// Sends the announcements that the collector does not have yet.
    fn announce(&mut self, stream: &mut Stream) -> io::Result<()> {
        let (messages, count) = self.shared.announcements.after(self.announced);
        for message in messages {
            self.write(stream, &message)?;
        }
        self.announced = count;
        Ok(())
    }

    fn write(&mut self, stream: &mut Stream, message: &Message) -> io::Result<()> {
        self.session.number(message.datagram(), &mut self.octets);
        stream.write(&self.octets, &|| self.shared.is_over())?;
        self.shared.counters.messages.add(1);
        self.shared.counters.octets.add(self.octets.len() as u64);
        Ok(())
    }
}

/// Flows written so recently that the collector's system may not have acknowledged them.
struct Recent {
    span: Duration,
    /// When, to the tenth of a second, and how many.
    written: VecDeque<(Instant, u64)>,
}

/// What is written within this time is remembered together.
const RECENT_STEP: Duration = Duration::from_millis(100);

impl Recent {
    fn new(span: Duration) -> Self {
        Self { span, written: VecDeque::new() }
    }

    fn add(&mut self, now: Instant, flows: u64) {
        self.forget(now);
        match self.written.back_mut() {
            Some((since, written)) if now.saturating_duration_since(*since) < RECENT_STEP => *written += flows,
            _ => self.written.push_back((now, flows)),
        }
    }

    fn flows(&mut self, now: Instant) -> u64 {
        self.forget(now);
        self.written.iter().map(|(_, flows)| flows).sum()
    }

    fn forget(&mut self, now: Instant) {
        let span = self.span + RECENT_STEP;
        while self.written.front().is_some_and(|(since, _)| now.saturating_duration_since(*since) > span) {
            self.written.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_long_ago_is_certain() {
        let (mut recent, start) = (Recent::new(Duration::from_secs(10)), Instant::now());
        let at = |millis: u64| start + Duration::from_millis(millis);
        recent.add(at(0), 3);
        recent.add(at(50), 4);
        recent.add(at(5_000), 5);
        assert_eq!(recent.written.len(), 2);
        assert_eq!([at(10_000), at(10_200), at(15_200)].map(|now| recent.flows(now)), [12, 5, 0]);
    }
}
