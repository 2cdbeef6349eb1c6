//! A chain as text: one paragraph for each thread.

use std::fmt::Write;

use crate::Chain;
use crate::graph::Edge;

/// Draws a chain for a terminal.
///
/// ```text
/// needle: 3 components, 2 threads, 1 queue
///
/// thread reader
///   reader (archive-reader)
///     ══ 2048 × 100 ══▶ ssh
///
/// thread ssh
///   ssh (filter)
///     ──▶ count
///   count (counter)
/// ```
pub fn text(chain: &Chain) -> String {
    let (components, graph) = (chain.components(), chain.graph());
    let mut text = summary(chain) + "\n";
    for thread in &graph.threads {
        let _ = write!(text, "\nthread {}\n", thread.name);
        for &component in &thread.components {
            let _ = writeln!(text, "  {} ({})", components[component].name, components[component].kind.name());
            for edge in graph.from(component) {
                let _ = writeln!(text, "    {} {}", arrow(edge), target(chain, edge));
            }
        }
    }
    text
}

/// A line with the name of a chain, and how many components, threads and queues it has.
pub fn summary(chain: &Chain) -> String {
    let graph = chain.graph();
    let queues = graph.edges.iter().filter(|edge| edge.queue.is_some()).count();
    format!(
        "{}: {}, {}, {}",
        chain.name(),
        counted(chain.components().len(), "component"),
        counted(graph.threads.len(), "thread"),
        counted(queues, "queue")
    )
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn arrow(edge: &Edge) -> String {
    match edge.queue {
        None => "──▶".to_owned(),
        Some(queue) => format!("══ {} ══▶", super::svg::queue_label(queue)),
    }
}

/// The component that an edge leads to, with the name of the input when it has several.
fn target(chain: &Chain, edge: &Edge) -> String {
    let to = &chain.components()[edge.to];
    match to.kind.inputs() {
        [_] => to.name.clone(),
        inputs => format!("{}.{}", to.name, inputs[edge.input]),
    }
}
