//! A thread of a chain.
//!
//! A worker takes a burst from one of its feeds and sends it as deep as it goes within the thread, then takes the next:
//! at most one burst of each component is under way, and rows keep their order on every edge. Only full queues make it wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Select, TryRecvError};
use nix::time::{ClockId, clock_gettime};
use weir_flow::{Delivery, SideTables};

use crate::run::feed::{Feed, From};
use crate::run::holding::Holding;
use crate::run::slot::{Out, Slot, Work};
use crate::run::{ChainError, Shared};
use crate::{Burst, Outlet, PullResult, State};

/// How often components get a call by the clock, and bursts that are not full are sent on all the same.
const TICK: Duration = Duration::from_secs(1);
/// Longest wait before the wish to stop is looked at.
const NAP: Duration = Duration::from_millis(100);

pub(crate) struct Worker {
    number: usize,
    slots: Vec<Slot>,
    feeds: Vec<Feed>,
    holding: Holding,
    shared: Arc<Shared>,
    /// The feed to look at first, so that all get their turn.
    turn: usize,
    told_to_stop: bool,
    next_tick: Instant,
    /// Outlets that are not in use; there are as many as components call each other in depth.
    outlets: Vec<Outlet>,
}

/// What there is to do.
enum Next {
    Pull(usize),
    Take(usize, Burst),
    /// A feed has ended.
    Over(usize),
    /// Nothing at the moment.
    Idle,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        slots: Vec<Slot>,
        feeds: Vec<Feed>,
        holding: Holding,
        shared: Arc<Shared>,
    ) -> Self {
        let next_tick = Instant::now() + TICK;
        Self { number, slots, feeds, holding, shared, turn: 0, told_to_stop: false, next_tick, outlets: Vec::new() }
    }

    pub(crate) fn run(mut self) {
        while self.feeds.iter().any(Feed::is_open) {
            if !self.told_to_stop && self.shared.stop.is_set() {
                self.stop_sources();
            }
            match self.next() {
                Next::Pull(feed) => self.pull(feed),
                Next::Take(feed, burst) => {
                    if let From::Queue { input, .. } = self.feeds[feed].from {
                        self.deliver(self.feeds[feed].slot, input, burst);
                    }
                }
                Next::Over(feed) => self.feed_ended(feed),
                Next::Idle => self.flush_queues(),
            }
            self.tick_when_due();
        }
        self.read_clock();
    }

    /// Whether a feed has to wait for another one.
    fn is_held(&self, feed: usize) -> bool {
        self.holding.is_held(feed, |slot| match &self.slots[slot].work {
            Work::Transform(component) => component.wanted(),
            _ => None,
        })
    }

    fn next(&mut self) -> Next {
        let count = self.feeds.len();
        let turns = (0..count).map(|step| (self.turn + step) % count).filter(|&feed| self.feeds[feed].is_open());
        let free: Vec<usize> = if self.holding.is_trivial() {
            turns.collect()
        } else {
            let open: Vec<_> = turns.collect();
            let free: Vec<_> = open.iter().copied().filter(|&feed| !self.is_held(feed)).collect();
            // two components that wait for each other's inputs must not stall the thread
            if free.is_empty() { open } else { free }
        };
        for &feed in &free {
            self.turn = (feed + 1) % count;
            match &self.feeds[feed].from {
                From::Source => return Next::Pull(feed),
                From::Queue { queue, .. } => match queue.receiver.try_recv() {
                    Ok(burst) => {
                        queue.counters.took(&burst);
                        return Next::Take(feed, burst);
                    }
                    Err(TryRecvError::Disconnected) => return Next::Over(feed),
                    Err(TryRecvError::Empty) => {}
                },
                From::Ended => {}
            }
        }
        self.wait(&free)
    }

    /// Waits for one of several queues, all of them empty a moment ago.
    fn wait(&self, free: &[usize]) -> Next {
        let queues: Vec<_> = free
            .iter()
            .filter_map(|&feed| match &self.feeds[feed].from {
                From::Queue { queue, .. } => Some((feed, queue)),
                _ => None,
            })
            .collect();
        let received = if let [(feed, queue)] = queues.as_slice() {
            (*feed, *queue, queue.receiver.recv_timeout(NAP))
        } else {
            let mut select = Select::new();
            for (_, queue) in &queues {
                select.recv(&queue.receiver);
            }
            let Ok(ready) = select.select_timeout(NAP) else { return Next::Idle };
            let (feed, queue) = queues[ready.index()];
            (feed, queue, ready.recv(&queue.receiver).map_err(|_| RecvTimeoutError::Disconnected))
        };
        match received {
            (feed, queue, Ok(burst)) => {
                queue.counters.took(&burst);
                Next::Take(feed, burst)
            }
            (feed, _, Err(RecvTimeoutError::Disconnected)) => Next::Over(feed),
            (_, _, Err(RecvTimeoutError::Timeout)) => Next::Idle,
        }
    }

    fn stop_sources(&mut self) {
        self.told_to_stop = true;
        for slot in 0..self.slots.len() {
            self.stop_source(slot);
        }
    }

    fn stop_source(&mut self, slot: usize) {
        let shared = Arc::clone(&self.shared);
        let name = &shared.components[self.slots[slot].component].name;
        let mut out = Outlet::new();
        let told = self.slots[slot].call(name, &mut out, |work, _| {
            if let Work::Source(source) = work {
                source.stop();
            }
            Ok(())
        });
        if let Err(error) = told {
            self.fail(slot, error);
        }
    }

    fn pull(&mut self, feed: usize) {
        let slot = self.feeds[feed].slot;
        let pulled = self.call(slot, 0, |work, out| match work {
            Work::Source(source) => source.pull(out),
            _ => Ok(PullResult::Ended),
        });
        match pulled {
            Some(PullResult::More) => {}
            Some(PullResult::Nothing) => self.flush_queues(),
            Some(PullResult::Ended) | None => {
                self.feeds[feed].from = From::Ended;
                self.end_slot(slot);
            }
        }
    }

    /// Calls into a component, times it, and sends on what it hands on. `None` when the component has failed.
    fn call<T>(
        &mut self,
        slot: usize,
        rows_in: usize,
        call: impl FnOnce(&mut Work, &mut Outlet) -> Result<T, crate::ComponentError>,
    ) -> Option<T> {
        let shared = Arc::clone(&self.shared);
        let counters = &shared.components[self.slots[slot].component];
        let mut out = self.outlets.pop().unwrap_or_default();
        let begun = Instant::now();
        let called = self.slots[slot].call(&counters.name, &mut out, call);
        let busy = begun.elapsed();
        counters.busy_ns.fetch_add(busy.as_nanos() as u64, Ordering::Relaxed);
        if rows_in > 0 {
            counters.rows_in.fetch_add(rows_in as u64, Ordering::Relaxed);
            counters.bursts_in.fetch_add(1, Ordering::Relaxed);
        }
        counters.set_state(match &self.slots[slot].work {
            Work::Transform(component) => component.state(),
            Work::Sink(sink) => sink.state(),
            _ => State::default(),
        });
        let mut rows_out = 0;
        for burst in out.drain() {
            rows_out += burst.len() as u64;
            if let Some(accounts) = &mut self.slots[slot].accounts {
                accounts.hand_on(burst.rows());
            }
            self.hand_on(slot, burst);
        }
        counters.rows_out.fetch_add(rows_out, Ordering::Relaxed);
        self.outlets.push(out);
        match called {
            Ok(done) => Some(done),
            Err(error) => {
                self.fail(slot, error);
                None
            }
        }
    }

    /// Sends a burst to everyone behind a component.
    fn hand_on(&mut self, slot: usize, burst: Burst) {
        if self.slots[slot].outs.iter().all(Option::is_none) {
            let counters = &self.shared.components[self.slots[slot].component];
            counters.rows_discarded.fetch_add(burst.len() as u64, Ordering::Relaxed);
        }
        let count = self.slots[slot].outs.len();
        let mut burst = Some(burst);
        for out in 0..count {
            // the last one gets it without a copy
            let Some(burst) = (if out + 1 == count { burst.take() } else { burst.clone() }) else { return };
            let closed = match &mut self.slots[slot].outs[out] {
                None => false,
                Some(Out::Local { slot: to, input }) => {
                    let (to, input) = (*to, *input);
                    self.deliver(to, input, burst);
                    false
                }
                Some(Out::Queue(queue)) => queue.push(burst).is_err(),
            };
            if closed {
                self.close_out(slot, out);
            }
        }
    }

    /// Gives a burst to a component. Side tables go past it, or stay with the rows where it hands on each burst as it came:
    /// only sinks keep them.
    fn deliver(&mut self, slot: usize, input: usize, burst: Burst) {
        let rows = burst.len();
        match self.slots[slot].work {
            Work::Transform(_) => {
                let (batch, mut side_tables) = burst.into_parts();
                if let Some(accounts) = &mut self.slots[slot].accounts {
                    accounts.take(&batch, &side_tables);
                }
                if rows > 0 {
                    self.call(slot, rows, |work, out| match work {
                        Work::Transform(component) => {
                            component.take(input, batch, out)?;
                            if component.keeps_bursts() {
                                out.attach(&mut side_tables);
                            }
                            Ok(())
                        }
                        _ => Ok(()),
                    });
                }
                self.hand_on_side_tables(slot, side_tables);
            }
            Work::Sink(_) => {
                let full = self.call(slot, rows, |work, _| match work {
                    Work::Sink(sink) => sink.take(burst).map(|()| sink.is_full()),
                    _ => Ok(false),
                });
                if full == Some(true) {
                    self.finish_slot(slot);
                }
            }
            Work::Source(_) | Work::Gone => {
                let counters = &self.shared.components[self.slots[slot].component];
                counters.rows_discarded.fetch_add(rows as u64, Ordering::Relaxed);
            }
        }
    }

    /// Hands on side tables without rows, and lines for the rows that a transform has changed since the last ones.
    fn hand_on_side_tables(&mut self, slot: usize, mut side_tables: SideTables) {
        if let Some(accounts) = &mut self.slots[slot].accounts {
            accounts.add_lines(&mut side_tables);
        }
        if !side_tables.is_empty() {
            self.hand_on(slot, Delivery { flows: None, side_tables }.into());
        }
    }

    fn feed_ended(&mut self, feed: usize) {
        let slot = self.feeds[feed].slot;
        if let From::Queue { input, .. } = std::mem::replace(&mut self.feeds[feed].from, From::Ended) {
            self.edge_ended(slot, input);
        }
    }

    /// One of the components that feed an input has ended.
    fn edge_ended(&mut self, slot: usize, input: usize) {
        let open = &mut self.slots[slot].open_edges;
        open[input] -= 1;
        let (input_over, all_over) = (open[input] == 0, open.iter().all(|&edges| edges == 0));
        if input_over && matches!(self.slots[slot].work, Work::Transform(_)) {
            self.call(slot, 0, |work, out| match work {
                Work::Transform(component) => component.end(input, out),
                _ => Ok(()),
            });
            self.hand_on_side_tables(slot, SideTables::default());
        }
        if all_over {
            self.finish_slot(slot);
        }
    }

    /// Lets a component hand on what it holds, and ends it.
    fn finish_slot(&mut self, slot: usize) {
        if self.slots[slot].work.is_gone() {
            return;
        }
        let finished = self.call(slot, 0, |work, out| match work {
            Work::Transform(component) => component.finish(out),
            Work::Sink(sink) => sink.finish(),
            _ => Ok(()),
        });
        if finished.is_some() {
            self.hand_on_side_tables(slot, SideTables::default());
            self.end_slot(slot);
        }
    }

    fn fail(&mut self, slot: usize, error: ChainError) {
        self.shared.fail(error);
        self.end_slot(slot);
    }

    /// Takes a component out of the chain: those behind it are told that it has ended, those before it that nobody takes
    /// their rows here any more.
    fn end_slot(&mut self, slot: usize) {
        if self.slots[slot].work.is_gone() {
            return;
        }
        // a component that fails may fail again when it is dropped
        let work = std::mem::replace(&mut self.slots[slot].work, Work::Gone);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(work)));
        let counters = &self.shared.components[self.slots[slot].component];
        counters.ended.store(true, Ordering::Relaxed);
        counters.set_state(State::default());
        for out in 0..self.slots[slot].outs.len() {
            match self.slots[slot].outs[out].take() {
                Some(Out::Local { slot: to, input }) => self.edge_ended(to, input),
                // what is left goes before the queue is closed by dropping it
                Some(Out::Queue(mut queue)) => drop(queue.flush()),
                None => {}
            }
        }
        for feed in 0..self.feeds.len() {
            if self.feeds[feed].slot == slot {
                self.discard(feed);
            }
        }
        for from in 0..self.slots.len() {
            for out in 0..self.slots[from].outs.len() {
                if matches!(self.slots[from].outs[out], Some(Out::Local { slot: to, .. }) if to == slot) {
                    self.close_out(from, out);
                }
            }
        }
    }

    /// Closes a feed of a component that is gone, so that whoever fills it notices.
    fn discard(&mut self, feed: usize) {
        if let From::Queue { queue, .. } = std::mem::replace(&mut self.feeds[feed].from, From::Ended) {
            // what is left in it is counted as rows that were put in and never taken
            queue.counters.held.store(0, Ordering::Relaxed);
        }
    }

    /// Nobody takes rows from one way out of a component any more. When that was the last one, the component is given up, and
    /// so are those before it in turn.
    fn close_out(&mut self, slot: usize, out: usize) {
        self.slots[slot].outs[out] = None;
        if self.slots[slot].outs.iter().any(Option::is_some) {
            return;
        }
        if self.slots[slot].work.is_source() {
            // it goes on until it says that it has ended, and what it hands on is counted as discarded
            self.stop_source(slot);
        } else {
            self.end_slot(slot);
        }
    }

    /// Sends on what does not make a whole burst yet, because more may be long in coming.
    fn flush_queues(&mut self) {
        for slot in 0..self.slots.len() {
            for out in 0..self.slots[slot].outs.len() {
                if let Some(Out::Queue(queue)) = &mut self.slots[slot].outs[out]
                    && queue.flush().is_err()
                {
                    self.close_out(slot, out);
                }
            }
        }
    }

    fn tick_when_due(&mut self) {
        let now = Instant::now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        for slot in 0..self.slots.len() {
            let full = self.call(slot, 0, |work, out| match work {
                Work::Transform(component) => component.tick(out).map(|()| false),
                Work::Sink(sink) => sink.tick().map(|()| sink.is_full()),
                _ => Ok(false),
            });
            self.hand_on_side_tables(slot, SideTables::default());
            if full == Some(true) {
                self.finish_slot(slot);
            }
        }
        self.flush_queues();
        self.read_clock();
    }

    /// Notes the processor time of this thread.
    fn read_clock(&self) {
        if let Ok(time) = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID) {
            let nanos = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
            self.shared.threads[self.number].cpu_ns.store(nanos, Ordering::Relaxed);
        }
    }
}
