//! Which feeds may be left waiting while a component wants rows of another input.
//!
//! A component with several inputs (a correlator) takes rows in the order of their times. While it waits for one input, rows
//! of the others should stay in their queues, so that back-pressure slows their sources down instead of rows piling up
//! in the component. But a feed left waiting can stall the chain: when the rows that are wanted come, somewhere upstream,
//! from the same thread as the rows left waiting, that thread stands before a full queue and never makes them.
//!
//! So a feed is held back only in favour of feeds that share no thread with it, however far upstream. This is known
//! before the chain runs. Where it cannot be held back, the component itself keeps what comes early, within its limit.

use std::collections::BTreeSet;

use crate::graph::Graph;
use crate::run::feed::{Feed, From};

/// For each feed of a thread, the inputs it leads to of components that have several.
#[derive(Debug)]
pub(crate) struct Holding {
    targets: Vec<Vec<Target>>,
}

/// An input of a component that has several.
#[derive(Debug)]
pub(crate) struct Target {
    /// Place of the component in the thread.
    pub slot: usize,
    pub input: usize,
    /// Inputs in favour of which this feed may wait.
    pub waits_for: Vec<usize>,
}

impl Holding {
    pub(crate) fn new(graph: &Graph, thread: usize, feeds: &[Feed]) -> Self {
        let reached: Vec<_> = feeds.iter().map(|feed| reach(graph, thread, feed)).collect();
        let upstream: Vec<_> = feeds.iter().map(|feed| upstream_threads(graph, feed)).collect();
        let targets = (0..feeds.len()).map(|feed| {
            let of_feed = reached[feed].iter().map(|&(slot, input)| {
                let others = reached.iter().enumerate().flat_map(|(other, reached)| {
                    reached.iter().filter(|(at, _)| *at == slot).map(move |(_, input)| (other, *input))
                });
                let others: Vec<(usize, usize)> = others.collect();
                let is_free = |wanted: usize| {
                    let mut feeding = others.iter().filter(|(_, input)| *input == wanted).peekable();
                    feeding.peek().is_some()
                        && feeding.all(|&(other, _)| other != feed && upstream[other].is_disjoint(&upstream[feed]))
                };
                let inputs: BTreeSet<_> = others.iter().map(|(_, input)| *input).collect();
                let waits_for = inputs.into_iter().filter(|&wanted| wanted != input && is_free(wanted)).collect();
                Target { slot, input, waits_for }
            });
            of_feed.collect()
        });
        Self { targets: targets.collect() }
    }

    /// Whether a feed has to wait, given which input a component wants.
    pub(crate) fn is_held(&self, feed: usize, wanted: impl Fn(usize) -> Option<usize>) -> bool {
        self.targets[feed].iter().any(|target| {
            wanted(target.slot).is_some_and(|input| input != target.input && target.waits_for.contains(&input))
        })
    }

    /// Whether any feed ever has to wait.
    pub(crate) fn is_trivial(&self) -> bool {
        self.targets.iter().flatten().all(|target| target.waits_for.is_empty())
    }
}

/// Inputs of components with several that a feed leads to within its thread.
fn reach(graph: &Graph, thread: usize, feed: &Feed) -> BTreeSet<(usize, usize)> {
    let components = &graph.threads[thread].components;
    let place = |component: usize| components.iter().position(|&other| other == component);
    let has_several = |component: usize| graph.to(component).map(|edge| edge.input).collect::<BTreeSet<_>>().len() > 1;
    let mut found = BTreeSet::new();
    let mut todo = vec![components[feed.slot]];
    if let From::Queue { input, .. } = feed.from
        && has_several(components[feed.slot])
    {
        found.insert((feed.slot, input));
    }
    let mut seen = BTreeSet::new();
    while let Some(component) = todo.pop() {
        if !seen.insert(component) {
            continue;
        }
        for edge in graph.from(component) {
            let Some(slot) = place(edge.to) else { continue };
            if has_several(edge.to) {
                found.insert((slot, edge.input));
            }
            todo.push(edge.to);
        }
    }
    found
}

/// Threads that stand still when nothing is taken from a feed: the one in front of the queue and all before it. A
/// source stands for no thread: its own goes on with what else it has to do.
fn upstream_threads(graph: &Graph, feed: &Feed) -> BTreeSet<usize> {
    let From::Queue { edge, .. } = feed.from else { return BTreeSet::new() };
    let mut threads = BTreeSet::new();
    let mut todo = vec![graph.thread_of[graph.edges[edge].from]];
    while let Some(thread) = todo.pop() {
        if threads.insert(thread) {
            let into = graph.edges.iter().filter(|edge| graph.thread_of[edge.to] == thread);
            todo.extend(into.map(|edge| graph.thread_of[edge.from]).filter(|&from| from != thread));
        }
    }
    threads
}
