//! Windows about which there is nothing to say: no flows in them, and nothing in the archive of the time that is asked.
//!
//! A backtest of two captures that lie a year apart has a hundred thousand of them in between.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use weir_archive::Snapshot;
use weir_flow::Column;

use super::history::HistoryTable;
use super::slot::Window;
use super::sources::of_provider;
use super::statement::Bound;
use super::window_table::WindowTable;
use crate::scan::may_be_of;

/// Whether a node reads a window, or the archive. Others have rows without them, such as `generate_series`.
fn is_of_flows(node: &LogicalPlan) -> bool {
    of_provider(node, WindowTable::relation).is_some() || of_provider(node, HistoryTable::table).is_some()
}

/// Whether the answer has no rows when no window and no table of the archive has any, whatever the window.
fn is_silent_about_nothing(state: &SessionState, plan: &LogicalPlan) -> bool {
    let emptied = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(ref scan) if is_of_flows(&node) => {
            let nothing = EmptyRelation { produce_one_row: false, schema: Arc::clone(&scan.projected_schema) };
            Ok(Transformed::yes(LogicalPlan::EmptyRelation(nothing)))
        }
        node => Ok(Transformed::no(node)),
    });
    // the bounds of its times have no values here, so that what is found holds for every window
    let optimised = emptied.and_then(|plan| state.optimize(&plan.data));
    optimised.is_ok_and(|plan| is_empty(&plan))
}

/// Whether an optimised plan has no rows.
pub(super) fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, .. }))
}

/// What of the windows of a statement need not be asked.
#[derive(Debug)]
pub(super) struct Silence {
    /// Whether the statement has no answer where there is nothing.
    is_silent: bool,
    /// The time of flows by which history goes; `None` when the statement does not ask it.
    history: Option<Column>,
    windows_passed: u64,
}

impl Silence {
    pub(super) fn new(state: &SessionState, plan: &LogicalPlan, history: Option<Column>) -> Self {
        Self { is_silent: is_silent_about_nothing(state, plan), history, windows_passed: 0 }
    }

    /// Whether there is nothing to say about a window without flows, as far as is known before anything is read.
    pub(super) fn passes(&mut self, bounds: &[Bound], window: Window, archive: Option<&Arc<Snapshot>>) -> bool {
        let times = || bounds.iter().map(|bound| bound.at(window));
        let may_have = |column| match (archive, times().min(), times().max()) {
            (Some(archive), Some(first), Some(last)) => may_be_of(archive, column, (first, last)),
            _ => true,
        };
        let passes = self.is_silent && !self.history.is_some_and(may_have);
        self.windows_passed += u64::from(passes);
        passes
    }

    pub(super) fn windows_passed(&self) -> u64 {
        self.windows_passed
    }
}
