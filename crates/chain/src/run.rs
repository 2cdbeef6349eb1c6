//! A chain at work: its threads, how it is watched, how it ends.
//!
//! ```text
//! start ─▶ open every component ─▶ a thread each ─▶ rows … ─▶ inputs end ─▶ state emptied, sinks closed ─▶ report
//!                                     stop, failure ─▶ sources stop ──────▲
//! ```

mod accounts;
mod feed;
mod holding;
mod progress;
mod queue;
mod report;
mod slot;
mod worker;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

pub use progress::{ComponentProgress, Progress, QueueProgress, ThreadProgress};

use crate::config::ComponentSpec;
use crate::graph::Graph;
use crate::registry::Role;
use crate::run::feed::Feed;
use crate::run::progress::{ComponentCounters, QueueCounters, ThreadCounters};
use crate::run::slot::{Out, Slot, Work};
use crate::run::worker::Worker;
use crate::{Built, Chain, ComponentContext, ComponentError, Counters, Notices, ReloadSignal, StopSignal};

/// Why a chain ended before its time, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// A component could not be made.
    #[error("cannot open component '{component}'")]
    Open {
        /// The component.
        component: String,
        /// Why.
        #[source]
        source: ComponentError,
    },
    /// A component failed while the chain ran; the others ended in order.
    #[error("component '{component}' failed")]
    Failed {
        /// The component.
        component: String,
        /// Why.
        #[source]
        source: ComponentError,
    },
    /// A component panicked: a defect in its code. The others ended in order.
    #[error("component '{component}' panicked: {message}")]
    Panicked {
        /// The component.
        component: String,
        /// What it said.
        message: String,
    },
    /// A thread could not be started.
    #[error("cannot start thread '{thread}'")]
    Thread {
        /// The thread.
        thread: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A chain whose threads are at work. Dropping it stops the chain and waits for its end.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a chain share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub name: String,
    pub started: Instant,
    pub stop: StopSignal,
    pub reload: ReloadSignal,
    pub components: Vec<ComponentCounters>,
    pub threads: Vec<ThreadCounters>,
    pub queues: Vec<Arc<QueueCounters>>,
    /// The first failure; later ones are often caused by it.
    pub failure: Mutex<Option<ChainError>>,
}

impl Shared {
    /// Notes a failure, unless there was one, and stops the chain.
    pub(crate) fn fail(&self, error: ChainError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.set();
    }
}

impl Chain {
    /// Opens every component, sinks first, and starts the threads.
    pub fn start(self) -> Result<Running, ChainError> {
        self.start_with(&Notices::default())
    }

    /// The same, with somewhere for the notices of components to go.
    pub fn start_with(self, notices: &Notices) -> Result<Running, ChainError> {
        let (stop, reload) = (StopSignal::new(), ReloadSignal::default());
        let context = ComponentContext {
            stop: stop.clone(),
            reload: reload.clone(),
            notices: notices.clone(),
            ..ComponentContext::default()
        };
        let (meters, mut slots) = open(self.components, &self.graph, &context)?;
        let started = Instant::now();
        let threads: Vec<_> =
            self.graph.threads.iter().map(|thread| ThreadCounters::new(thread.name.clone())).collect();
        let (queues, mut senders, mut receivers) = queue::for_edges(&self.graph);
        let shared = Arc::new(Shared {
            name: self.name,
            started,
            stop,
            reload,
            components: meters,
            threads,
            queues,
            failure: Mutex::default(),
        });
        let mut workers = Vec::new();
        for (number, thread) in self.graph.threads.iter().enumerate() {
            // components keep their order, so that each comes after those that feed it
            let mut local: Vec<Slot> =
                thread.components.iter().filter_map(|&component| slots[component].take()).collect();
            let place =
                |component: usize| thread.components.iter().position(|&other| other == component).unwrap_or_default();
            let mut feeds = Vec::new();
            for (index, edge) in self.graph.edges.iter().enumerate() {
                if self.graph.thread_of[edge.from] == number {
                    let out = match senders[index].take() {
                        Some(sender) => Out::Queue(sender),
                        None => Out::Local { slot: place(edge.to), input: edge.input },
                    };
                    local[place(edge.from)].outs.push(Some(out));
                }
                if let Some(receiver) = receivers[index].take_if(|_| self.graph.thread_of[edge.to] == number) {
                    feeds.push(Feed::queue(receiver, index, place(edge.to), edge.input));
                }
            }
            feeds.extend((0..local.len()).filter(|&slot| local[slot].work.is_source()).map(Feed::source));
            let holding = holding::Holding::new(&self.graph, number, &feeds);
            workers.push((thread.name.clone(), Worker::new(number, local, feeds, holding, Arc::clone(&shared))));
        }
        let mut running = Running { shared, threads: Vec::new() };
        for (name, worker) in workers {
            let spawned = Builder::new().name(name.clone()).spawn(move || worker.run());
            // what was started ends when `running` is dropped
            running.threads.push(spawned.map_err(|source| ChainError::Thread { thread: name, source })?);
        }
        Ok(running)
    }
}

/// Makes the components: sinks before those that feed them and sources last, so that a socket is open only when everything
/// behind it is.
fn open(
    components: Vec<ComponentSpec>,
    graph: &Graph,
    context: &ComponentContext,
) -> Result<(Vec<ComponentCounters>, Vec<Option<Slot>>), ChainError> {
    let mut specs: Vec<_> = components.into_iter().map(Some).collect();
    let mut opened: Vec<Option<(ComponentCounters, Slot)>> = specs.iter().map(|_| None).collect();
    for &index in graph.order.iter().rev() {
        let Some(component) = specs[index].take() else { continue };
        let counters = Counters::new();
        let context = ComponentContext { name: component.name.clone(), counters: counters.clone(), ..context.clone() };
        let work = (component.opener)(&context)
            .and_then(|built| as_told(built, component.kind.role()))
            .map_err(|source| ChainError::Open { component: component.name.clone(), source })?;
        let edges_in =
            (0..component.kind.inputs().len()).map(|input| graph.to(index).filter(|edge| edge.input == input).count());
        let slot = Slot::new(index, work, edges_in.collect());
        let counters = ComponentCounters::new(component.name, component.kind.name(), graph.thread_of[index], counters);
        opened[index] = Some((counters, slot));
    }
    Ok(opened.into_iter().flatten().map(|(counters, slot)| (counters, Some(slot))).unzip())
}

fn as_told(built: Built, role: Role) -> Result<Work, ComponentError> {
    match (built, role) {
        (Built::Source(source), Role::Source) => Ok(Work::Source(source)),
        (Built::Transform(component), Role::Transform) => Ok(Work::Transform(component)),
        (Built::Sink(sink), Role::Sink) => Ok(Work::Sink(sink)),
        _ => Err(ComponentError::new("the kind of component builds something else than it says")),
    }
}

impl Running {
    /// Asks the sources to end. What is on its way is still processed.
    pub fn stop(&self) {
        self.shared.stop.set();
    }

    /// Asks the components to read again what they have from files: certificates, networks, labels.
    pub fn reload(&self) {
        self.shared.reload.ask();
    }

    /// The signal that [`reload`](Self::reload) gives, for whoever else is asked to.
    pub fn reload_signal(&self) -> ReloadSignal {
        self.shared.reload.clone()
    }

    /// The signal that [`stop`](Self::stop) sets, for handlers of signals.
    pub fn stop_signal(&self) -> StopSignal {
        self.shared.stop.clone()
    }

    /// Whether every thread has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// How far everything is.
    pub fn progress(&self) -> Progress {
        Progress::read(&self.shared)
    }

    /// Waits for the end and tells what every component did, and what ended the chain if it was a failure.
    pub fn wait(mut self) -> (Progress, Result<(), ChainError>) {
        self.join();
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        (Progress::read(&self.shared), failure.map_or(Ok(()), Err))
    }

    /// Waits until every thread has ended or `time` is over; true when they have.
    pub fn wait_for(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.is_finished() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5).min(time));
        }
        true
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // the worker catches panics of components; one of its own is a defect of this crate, told like a component's
            if thread.join().is_err() {
                let (component, message) = ("chain".to_owned(), "a worker thread panicked".to_owned());
                self.shared.fail(ChainError::Panicked { component, message });
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop.set();
        self.join();
    }
}
