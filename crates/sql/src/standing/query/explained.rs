//! How a standing question is answered, for people.

use std::fmt::Write as _;
use std::time::Duration;

use datafusion::physical_plan::displayable;

use super::StandingQuery;
use crate::standing::{Window, WindowSpec};

/// Windows, columns and plan of a question.
pub(super) fn text(query: &StandingQuery) -> String {
    let mut text = String::new();
    if let Some(sessions) = &query.sessions {
        // writing to a string cannot fail
        let _ = writeln!(text, "{}", sessions.relation.text());
    }
    for spec in query.windows.iter().flatten().filter(|_| query.sessions.is_none()) {
        let WindowSpec { kind, time } = spec;
        let (size, slide) = (Duration::from_millis(kind.size_ms as u64), Duration::from_millis(kind.slide_ms as u64));
        // writing to a string cannot fail
        let _ = writeln!(text, "window: {size:?} of {}, one every {slide:?}", time.name());
    }
    for (aggregate, _) in &query.panes.aggregates {
        let _ = writeln!(text, "computed for each pane, and shared by windows: {}", aggregate.name());
    }
    if query.panes.is_releasing {
        let _ = writeln!(text, "kept: what panes made, not their rows");
    }
    if let Some(filter) = query.row_filter() {
        let _ = writeln!(text, "kept: rows with {}", filter.text());
    }
    let names: Vec<_> = query.columns.iter().map(|column| column.name()).collect();
    let _ = writeln!(text, "columns: {}", names.join(", "));
    let _ = if query.has_history {
        let mib = query.cache.octets_max() >> 20;
        writeln!(text, "history: asked for each window; rows of its hosts are kept, up to {mib} MiB for all watches")
    } else {
        writeln!(text, "history: not asked")
    };
    if query.live.has_deciding() {
        let _ = writeln!(text, "history: not asked when what reads the window alone has no rows");
    }
    let plan = match &query.kept {
        Some(kept) => displayable(kept.as_ref()).indent(false).to_string(),
        None => query.optimised(Window::default()).map(|plan| plan.display_indent().to_string()).unwrap_or_default(),
    };
    text.push_str(&plan);
    text
}
