//! A chain as an SVG picture: components from left to right, coloured by thread, queues drawn as double arrows.

use std::fmt::Write;

use crate::Chain;
use crate::config::QueueSpec;
use crate::graph::{Edge, Graph};

const BLOCK_WIDTH: usize = 150;
const BLOCK_HEIGHT: usize = 46;
const GAP_X: usize = 110;
const GAP_Y: usize = 34;
const MARGIN: usize = 24;
const TITLE_HEIGHT: usize = 36;
const LEGEND_LINE: usize = 20;

/// Colours of threads, told apart also by people who see few colours; after the last the first comes again.
const COLOURS: &[&str] =
    &["#cfe3f7", "#fde2b9", "#d5efd0", "#f6d0d6", "#e3d7f2", "#fff3b0", "#cdeeea", "#ead9c8", "#dfe3e8", "#f3cfee"];

/// Rows of a burst and bursts of a queue.
pub(super) fn queue_label(queue: QueueSpec) -> String {
    match queue.burst_records {
        0 => format!("any × {}", queue.queue_bursts),
        rows => format!("{rows} × {}", queue.queue_bursts),
    }
}

/// Draws a chain as a picture.
pub fn svg(chain: &Chain) -> String {
    let layout = Layout::new(chain.graph(), chain.components().len());
    let threads = &chain.graph().threads;
    let legend_top = TITLE_HEIGHT + layout.rows * (BLOCK_HEIGHT + GAP_Y) + MARGIN;
    let width = (2 * MARGIN + layout.columns * BLOCK_WIDTH + layout.columns.saturating_sub(1) * GAP_X).max(420);
    let height = legend_top + (threads.len() + 1) * LEGEND_LINE + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#333\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"{y}\" font-size=\"16\" font-weight=\"bold\">{name}</text>\n",
        y = MARGIN,
        name = escaped(chain.name())
    );
    for edge in &chain.graph().edges {
        draw_edge(&mut svg, chain, &layout, edge);
    }
    for (index, component) in chain.components().iter().enumerate() {
        let (x, y) = layout.corner(index);
        let colour = COLOURS[chain.graph().thread_of[index] % COLOURS.len()];
        let middle = x + BLOCK_WIDTH / 2;
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{BLOCK_WIDTH}\" height=\"{BLOCK_HEIGHT}\" rx=\"6\" fill=\"{colour}\" \
             stroke=\"#333\"/>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\" font-size=\"11\">{}</text>\n",
            y + 20,
            escaped(&shortened(&component.name)),
            y + 36,
            escaped(component.kind.name())
        );
    }
    for (number, thread) in threads.iter().enumerate() {
        let (y, colour) = (legend_top + number * LEGEND_LINE, COLOURS[number % COLOURS.len()]);
        let _ = write!(
            svg,
            "<rect x=\"{MARGIN}\" y=\"{y}\" width=\"14\" height=\"14\" fill=\"{colour}\" stroke=\"#333\"/>\n\
             <text x=\"{}\" y=\"{}\">thread {}</text>\n",
            MARGIN + 22,
            y + 12,
            escaped(&thread.name)
        );
    }
    let y = legend_top + threads.len() * LEGEND_LINE;
    let _ = write!(
        svg,
        "<path d=\"M{MARGIN} {m} h 34\" stroke=\"#333\" stroke-width=\"5\"/>\
         <path d=\"M{MARGIN} {m} h 34\" stroke=\"white\" stroke-width=\"2\"/>\n\
         <text x=\"{}\" y=\"{}\">queue: records of a burst × bursts</text>\n</svg>\n",
        MARGIN + 44,
        y + 12,
        m = y + 8
    );
    svg
}

fn draw_edge(svg: &mut String, chain: &Chain, layout: &Layout, edge: &Edge) {
    let ((from_x, from_y), (to_x, to_y)) = (layout.corner(edge.from), layout.corner(edge.to));
    let inputs = chain.components()[edge.to].kind.inputs();
    // several inputs of a component have places of their own on its side
    let port = BLOCK_HEIGHT * (edge.input + 1) / (inputs.len() + 1);
    let (x1, y1) = (from_x + BLOCK_WIDTH, from_y + BLOCK_HEIGHT / 2);
    let (x2, y2) = (to_x, to_y + port);
    let bend = GAP_X / 2;
    let path = format!("M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2.saturating_sub(bend));
    let Some(queue) = edge.queue else {
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"#333\" marker-end=\"url(#tip)\"/>");
        return;
    };
    let _ = write!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#333\" stroke-width=\"5\"/>\
         <path d=\"{path}\" fill=\"none\" stroke=\"white\" stroke-width=\"2\" marker-end=\"url(#tip)\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\" stroke=\"white\" stroke-width=\"4\" \
         paint-order=\"stroke\">{}</text>\n",
        usize::midpoint(x1, x2),
        usize::midpoint(y1, y2).saturating_sub(8),
        queue_label(queue)
    );
}

/// Where components stand: columns by their distance from a source, rows by what feeds them.
struct Layout {
    place: Vec<(usize, usize)>,
    columns: usize,
    rows: usize,
}

impl Layout {
    fn new(graph: &Graph, components: usize) -> Self {
        let mut place = vec![(0, 0); components];
        let mut taken: Vec<Vec<usize>> = Vec::new();
        for &component in &graph.order {
            let column = graph.to(component).map(|edge| place[edge.from].0 + 1).max().unwrap_or(0);
            // in the row of the first component that feeds it, or the next free one below
            let wish = graph.to(component).map(|edge| place[edge.from].1).min().unwrap_or(0);
            if taken.len() <= column {
                taken.resize(column + 1, Vec::new());
            }
            let row = (wish..=components).find(|row| !taken[column].contains(row)).unwrap_or_default();
            taken[column].push(row);
            place[component] = (column, row);
        }
        let rows = taken.iter().flatten().max().map_or(0, |row| row + 1);
        Self { columns: taken.len(), rows, place }
    }

    fn corner(&self, component: usize) -> (usize, usize) {
        let (column, row) = self.place[component];
        (MARGIN + column * (BLOCK_WIDTH + GAP_X), TITLE_HEIGHT + 8 + row * (BLOCK_HEIGHT + GAP_Y))
    }
}

/// Names that are too long for their box end with dots.
fn shortened(name: &str) -> String {
    const LETTERS_MAX: usize = 20;
    if name.chars().count() <= LETTERS_MAX {
        return name.to_owned();
    }
    name.chars().take(LETTERS_MAX - 1).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
