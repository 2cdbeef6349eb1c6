//! The graph of a chain: who feeds whom, without a cycle, each component in a thread.

use std::collections::{BTreeMap, BTreeSet};

use crate::ConfigError;
use crate::columns::{ColumnRule, FlowColumnRule};
use crate::config::{ComponentSpec, Place, QueueSpec, ThreadChoice, error_at};
use crate::option_error::unknown_key;
use crate::registry::Role;

/// One arrow of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The component that hands on.
    pub from: usize,
    /// The component that takes.
    pub to: usize,
    /// Which of its inputs.
    pub input: usize,
    /// The queue, when the two run in different threads.
    pub queue: Option<QueueSpec>,
}

/// A thread and the components that run in it, each after the components that feed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Its name.
    pub name: String,
    /// Indexes of its components.
    pub components: Vec<usize>,
}

/// Arrows and threads of a chain whose components are known by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The arrows, by the component that takes.
    pub edges: Vec<Edge>,
    /// Indexes of all components, each after the components that feed it.
    pub order: Vec<usize>,
    /// The threads.
    pub threads: Vec<ThreadPlan>,
    /// For each component its thread.
    pub thread_of: Vec<usize>,
}

impl Graph {
    /// Arrows from a component.
    pub fn from(&self, component: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.from == component)
    }

    /// Arrows to a component.
    pub fn to(&self, component: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.to == component)
    }

    /// Draws the arrows between components and gives each component its thread.
    pub(crate) fn new(text: &str, components: &[ComponentSpec]) -> Result<Self, Vec<ConfigError>> {
        let mut edges = connect(text, components)?;
        let order = sort(text, components, &edges).map_err(|error| vec![error])?;
        check_columns(text, components, &edges, &order)?;
        check_flow_columns(text, components, &edges, &order)?;
        let (threads, thread_of) = assign(text, components, &edges, &order).map_err(|error| vec![error])?;
        for edge in &mut edges {
            edge.queue = (thread_of[edge.from] != thread_of[edge.to]).then(|| components[edge.to].queue);
        }
        let graph = Self { edges, order, threads, thread_of };
        match graph.cycle_of_threads() {
            None => Ok(graph),
            Some(cycle) => {
                let names: Vec<_> = cycle.iter().map(|&thread| graph.threads[thread].name.as_str()).collect();
                let message = format!("threads wait for each other: {}", names.join(" -> "));
                let hint = "components that share a thread must not have one of another thread between them";
                Err(vec![error_at(text, Place(None), message, Some(hint.to_owned()))])
            }
        }
    }

    /// Threads that feed each other in a ring, whose bounded queues could stall it.
    fn cycle_of_threads(&self) -> Option<Vec<usize>> {
        let next = |thread: usize| {
            let crossing = self.edges.iter().filter(|edge| edge.queue.is_some());
            let next: BTreeSet<_> = crossing
                .filter(|edge| self.thread_of[edge.from] == thread)
                .map(|edge| self.thread_of[edge.to])
                .collect();
            next.into_iter().collect()
        };
        topological(self.threads.len(), next).err()
    }
}

fn connect(text: &str, components: &[ComponentSpec]) -> Result<Vec<Edge>, Vec<ConfigError>> {
    let (mut edges, mut errors) = (Vec::new(), Vec::new());
    for (to, component) in components.iter().enumerate() {
        for (input, upstream) in component.inputs.iter().enumerate() {
            for name in upstream {
                let from = components.iter().position(|other| other.name == *name);
                match from {
                    Some(from) if components[from].kind.role() == Role::Sink => {
                        let message = format!("component '{}': sink '{name}' hands nothing on", component.name);
                        errors.push(error_at(text, component.place, message, None));
                    }
                    Some(from) => edges.push(Edge { from, to, input, queue: None }),
                    None => {
                        let error = unknown_key(name, components.iter().map(|other| other.name.as_str()));
                        let message = format!("component '{}': there is no component '{name}'", component.name);
                        errors.push(error_at(text, component.place, message, error.hint));
                    }
                }
            }
        }
    }
    for (from, component) in components.iter().enumerate() {
        if component.kind.role() != Role::Sink && !edges.iter().any(|edge| edge.from == from) && errors.is_empty() {
            let message = format!("nobody takes what component '{}' hands on", component.name);
            let hint = Some("add a sink, 'counter' or 'dumper' for instance".to_owned());
            errors.push(error_at(text, component.place, message, hint));
        }
    }
    if errors.is_empty() { Ok(edges) } else { Err(errors) }
}

fn sort(text: &str, components: &[ComponentSpec], edges: &[Edge]) -> Result<Vec<usize>, ConfigError> {
    let next = |component| edges.iter().filter(|edge| edge.from == component).map(|edge| edge.to).collect();
    topological(components.len(), next).map_err(|cycle| {
        let names: Vec<_> = cycle.iter().map(|&component| components[component].name.as_str()).collect();
        let message = format!("components feed each other in a ring: {}", names.join(" -> "));
        error_at(text, components[cycle[0]].place, message, Some("a chain has no way back".to_owned()))
    })
}

/// Finds components that get columns which they refuse. Indexes of `order` are those of `components`, each after those that
/// feed it.
fn check_columns(
    text: &str,
    components: &[ComponentSpec],
    edges: &[Edge],
    order: &[usize],
) -> Result<(), Vec<ConfigError>> {
    // for each component what it hands on, by name, and who added it
    let mut handed_on: Vec<BTreeMap<&'static str, usize>> = vec![BTreeMap::new(); components.len()];
    let mut errors = Vec::new();
    for &at in order {
        let upstream = edges.iter().filter(|edge| edge.to == at).map(|edge| edge.from);
        let mut columns: BTreeMap<_, _> = upstream.flat_map(|from| handed_on[from].clone()).collect();
        let component = &components[at];
        match &component.columns {
            ColumnRule::Kept => {}
            ColumnRule::Adds(more) => columns.extend(more.iter().map(|name| (*name, at))),
            ColumnRule::Replaced(these) => columns = these.iter().map(|name| (*name, at)).collect(),
            ColumnRule::Refused(hint) => {
                if let Some((name, by)) = columns.first_key_value() {
                    let (taker, by) = (&component.name, &components[*by].name);
                    let message = format!(
                        "component '{taker}' takes flows only, and '{name}', which '{by}' adds, is no column of flows"
                    );
                    errors.push(error_at(text, component.place, message, Some((*hint).to_owned())));
                }
            }
        }
        handed_on[at] = columns;
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The columns that rows have at most, and the source that reads no others.
type Limited = (BTreeSet<&'static str>, usize);

/// Finds components that need columns which a source before them does not read. The indexes are those of `check_columns`.
fn check_flow_columns(
    text: &str,
    components: &[ComponentSpec],
    edges: &[Edge],
    order: &[usize],
) -> Result<(), Vec<ConfigError>> {
    // for each component what it hands on at most; `None` where that is not known
    let mut handed_on: Vec<Option<Limited>> = vec![None; components.len()];
    let mut errors = Vec::new();
    for &at in order {
        let component = &components[at];
        let upstream: Vec<usize> = edges.iter().filter(|edge| edge.to == at).map(|edge| edge.from).collect();
        for (columns, by) in upstream.iter().filter_map(|from| handed_on[*from].as_ref()) {
            let needed = component.flow_columns.needed();
            if let Some(lacking) = needed.iter().find(|name| !columns.contains(**name)) {
                let (taker, source) = (&component.name, &components[*by].name);
                let message = format!("component '{taker}' needs '{lacking}', which '{source}' does not read");
                let hint = format!("add \"{lacking}\" to the columns of '{source}'");
                errors.push(error_at(text, component.place, message, Some(hint)));
            }
        }
        handed_on[at] = match &component.flow_columns {
            FlowColumnRule::Only(columns) => Some((columns.iter().copied().collect(), at)),
            FlowColumnRule::Kept(_) => united(upstream.iter().map(|from| handed_on[*from].as_ref())),
            FlowColumnRule::Unknown | FlowColumnRule::Read(_) => None,
        };
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The columns of rows that come from several components; `None` where those of one are not known.
fn united<'a>(mut parts: impl Iterator<Item = Option<&'a Limited>>) -> Option<Limited> {
    let (mut columns, by) = parts.next()??.clone();
    for part in parts {
        columns.extend(part?.0.iter().copied());
    }
    Some((columns, by))
}

/// Nodes in an order in which each comes after those that lead to it, or a ring whose first node is also its last.
fn topological(count: usize, next: impl Fn(usize) -> Vec<usize>) -> Result<Vec<usize>, Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    let mut seen = vec![Seen::No; count];
    let mut order = Vec::with_capacity(count);
    for root in (0..count).rev() {
        if seen[root] != Seen::No {
            continue;
        }
        seen[root] = Seen::OnPath;
        let mut path = vec![(root, next(root))];
        while let Some((node, ahead)) = path.last_mut() {
            let Some(to) = ahead.pop() else {
                seen[*node] = Seen::Done;
                order.push(*node);
                path.pop();
                continue;
            };
            match seen[to] {
                Seen::No => {
                    seen[to] = Seen::OnPath;
                    path.push((to, next(to)));
                }
                Seen::OnPath => {
                    let from = path.iter().position(|(node, _)| *node == to).unwrap_or_default();
                    let ring = path[from..].iter().map(|(node, _)| *node).chain([to]);
                    return Err(ring.collect());
                }
                Seen::Done => {}
            }
        }
    }
    order.reverse();
    Ok(order)
}

fn assign(
    text: &str,
    components: &[ComponentSpec],
    edges: &[Edge],
    order: &[usize],
) -> Result<(Vec<ThreadPlan>, Vec<usize>), ConfigError> {
    let mut threads: Vec<ThreadPlan> = Vec::new();
    let mut thread_of = vec![usize::MAX; components.len()];
    for &component in order {
        let spec = &components[component];
        let before: BTreeSet<_> =
            edges.iter().filter(|edge| edge.to == component).map(|edge| thread_of[edge.from]).collect();
        let own = matches!(spec.thread, ThreadChoice::Own)
            || spec.thread == ThreadChoice::Default && (spec.kind.inputs().len() != 1 || before.len() != 1);
        let thread = match (&spec.thread, before.first()) {
            (ThreadChoice::Named(name), _) => thread_named(&mut threads, name),
            _ if own => thread_named(&mut threads, &spec.name),
            (_, Some(&thread)) if before.len() == 1 => thread,
            _ => {
                let names: Vec<_> = before.iter().map(|&thread| threads[thread].name.as_str()).collect();
                let message =
                    format!("component '{}' has upstreams in several threads: {}", spec.name, names.join(", "));
                let hint = Some("write thread = \"own\" or the name of a thread".to_owned());
                return Err(error_at(text, spec.place, message, hint));
            }
        };
        thread_of[component] = thread;
        threads[thread].components.push(component);
    }
    Ok((threads, thread_of))
}

fn thread_named(threads: &mut Vec<ThreadPlan>, name: &str) -> usize {
    threads.iter().position(|thread| thread.name == name).unwrap_or_else(|| {
        threads.push(ThreadPlan { name: name.to_owned(), components: Vec::new() });
        threads.len() - 1
    })
}
