//! What a chain tells about itself while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::config::QueueSpec;
use crate::run::Shared;
use crate::{Burst, Counters, State};

/// How far a chain is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Name of the chain.
    pub chain: String,
    /// Time since it was started.
    pub elapsed: Duration,
    /// Its components, in the order of the chain file.
    pub components: Vec<ComponentProgress>,
    /// Its queues.
    pub queues: Vec<QueueProgress>,
    /// Its threads.
    pub threads: Vec<ThreadProgress>,
}

/// How far a component is.
#[derive(Debug, Clone)]
pub struct ComponentProgress {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Index of its thread.
    pub thread: usize,
    /// Rows that came in.
    pub rows_in: u64,
    /// Rows that went out, each counted once however many components take it.
    pub rows_out: u64,
    /// Bursts that came in.
    pub bursts_in: u64,
    /// Rows that came after the component had ended or failed.
    pub rows_discarded: u64,
    /// Time spent in the component.
    pub busy: Duration,
    /// What it holds.
    pub state: State,
    /// The most rows it held when asked.
    pub state_rows_max: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// Counters of its own.
    pub counters: Vec<(&'static str, u64)>,
}

/// How full a queue is.
#[derive(Debug, Clone)]
pub struct QueueProgress {
    /// Index of the component before it.
    pub from: usize,
    /// Index of the component behind it.
    pub to: usize,
    /// Which of its inputs.
    pub input: usize,
    /// Size of bursts and of the queue.
    pub queue: QueueSpec,
    /// Bursts in it.
    pub held: u64,
    /// Bursts that were put into it.
    pub bursts: u64,
    /// Rows that were put into it.
    pub rows: u64,
    /// Time that the thread before it waited because it was full.
    pub full: Duration,
}

/// What a thread did.
#[derive(Debug, Clone)]
pub struct ThreadProgress {
    /// Its name.
    pub name: String,
    /// Processor time that it took, user and system.
    pub cpu: Duration,
}

#[derive(Debug)]
pub(crate) struct ComponentCounters {
    pub name: String,
    kind: &'static str,
    thread: usize,
    pub own: Counters,
    pub rows_in: AtomicU64,
    pub rows_out: AtomicU64,
    pub bursts_in: AtomicU64,
    pub rows_discarded: AtomicU64,
    pub busy_ns: AtomicU64,
    state_rows: AtomicU64,
    state_octets: AtomicU64,
    state_edge_ms: AtomicI64,
    state_rows_max: AtomicU64,
    pub ended: AtomicBool,
}

const NO_EDGE: i64 = i64::MIN;

impl ComponentCounters {
    pub(crate) fn new(name: String, kind: &'static str, thread: usize, own: Counters) -> Self {
        Self {
            name,
            kind,
            thread,
            own,
            rows_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            bursts_in: AtomicU64::new(0),
            rows_discarded: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            state_rows: AtomicU64::new(0),
            state_octets: AtomicU64::new(0),
            state_edge_ms: AtomicI64::new(NO_EDGE),
            state_rows_max: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state_rows.store(state.rows, Ordering::Relaxed);
        self.state_octets.store(state.octets, Ordering::Relaxed);
        self.state_edge_ms.store(state.edge_ms.unwrap_or(NO_EDGE), Ordering::Relaxed);
        self.state_rows_max.fetch_max(state.rows, Ordering::Relaxed);
    }

    fn read(&self) -> ComponentProgress {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let edge_ms = Some(self.state_edge_ms.load(Ordering::Relaxed)).filter(|&edge| edge != NO_EDGE);
        ComponentProgress {
            name: self.name.clone(),
            kind: self.kind,
            thread: self.thread,
            rows_in: get(&self.rows_in),
            rows_out: get(&self.rows_out),
            bursts_in: get(&self.bursts_in),
            rows_discarded: get(&self.rows_discarded),
            busy: Duration::from_nanos(get(&self.busy_ns)),
            state: State { rows: get(&self.state_rows), octets: get(&self.state_octets), edge_ms },
            state_rows_max: get(&self.state_rows_max),
            ended: self.ended.load(Ordering::Relaxed),
            counters: self.own.read(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct QueueCounters {
    from: usize,
    to: usize,
    input: usize,
    queue: QueueSpec,
    pub held: AtomicU64,
    pub bursts: AtomicU64,
    /// Rows put into it.
    pub rows: AtomicU64,
    /// Rows taken out of it.
    pub rows_taken: AtomicU64,
    pub full_ns: AtomicU64,
}

impl QueueCounters {
    pub(crate) fn new(from: usize, to: usize, input: usize, queue: QueueSpec) -> Self {
        let zero = || AtomicU64::new(0);
        Self { from, to, input, queue, held: zero(), bursts: zero(), rows: zero(), rows_taken: zero(), full_ns: zero() }
    }

    /// A burst was taken out.
    pub(crate) fn took(&self, burst: &Burst) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.rows_taken.fetch_add(burst.len() as u64, Ordering::Relaxed);
    }

    /// Rows that nobody took, once the component behind the queue has ended.
    fn rows_left(&self) -> u64 {
        self.rows.load(Ordering::Relaxed).saturating_sub(self.rows_taken.load(Ordering::Relaxed))
    }

    fn read(self: &Arc<Self>) -> QueueProgress {
        QueueProgress {
            from: self.from,
            to: self.to,
            input: self.input,
            queue: self.queue,
            held: self.held.load(Ordering::Relaxed).min(self.queue.queue_bursts as u64),
            bursts: self.bursts.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            full: Duration::from_nanos(self.full_ns.load(Ordering::Relaxed)),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ThreadCounters {
    name: String,
    pub cpu_ns: AtomicU64,
}

impl ThreadCounters {
    pub(crate) fn new(name: String) -> Self {
        Self { name, cpu_ns: AtomicU64::new(0) }
    }
}

impl Progress {
    pub(crate) fn read(shared: &Shared) -> Self {
        let threads = shared.threads.iter().map(|thread| ThreadProgress {
            name: thread.name.clone(),
            cpu: Duration::from_nanos(thread.cpu_ns.load(Ordering::Relaxed)),
        });
        let mut components: Vec<_> = shared.components.iter().map(ComponentCounters::read).collect();
        for queue in shared.queues.iter().filter(|queue| shared.components[queue.to].ended.load(Ordering::Relaxed)) {
            components[queue.to].rows_discarded += queue.rows_left();
        }
        Self {
            chain: shared.name.clone(),
            elapsed: shared.started.elapsed(),
            components,
            queues: shared.queues.iter().map(QueueCounters::read).collect(),
            threads: threads.collect(),
        }
    }

    /// The component of a name.
    pub fn component(&self, name: &str) -> Option<&ComponentProgress> {
        self.components.iter().find(|component| component.name == name)
    }
}

impl ComponentProgress {
    /// One of the component's own counters; 0 when there is none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    }
}
