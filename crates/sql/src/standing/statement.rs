//! What planning a statement finds: its windows, its sessions, and the bounds of its history.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType};
use weir_query::SaturationFlag;

use super::key_rows::KeyRows;
use super::session::SessionRelation;
use super::slot::{Slot, Window};
use super::window_time::WindowSpec;
use crate::EngineError;
use crate::mistake::Mistake;

/// Name of the column with the time that a window begins.
pub(crate) const WINDOW_START: &str = "window_start";
/// Name of the column with the time that a window ends.
pub(crate) const WINDOW_END: &str = "window_end";

/// What a time range of history is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    End,
    /// This many milliseconds after the middle of the window.
    Middle(i64),
}

/// An end of a time range of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// What it is counted from.
    pub(crate) anchor: Anchor,
    /// Added to the anchor.
    pub(crate) plus_ms: i64,
    /// The anchor is rounded to a multiple of this, if it is more than 1.
    pub(crate) every_ms: i64,
    /// Whether it is rounded up, and not down.
    pub(crate) is_rounded_up: bool,
}

impl Bound {
    /// The time that it is for a window. History never reaches into it.
    pub(crate) fn at(&self, window: Window) -> i64 {
        let anchor_ms = match self.anchor {
            Anchor::Start => window.start_ms,
            Anchor::End => window.end_ms,
            Anchor::Middle(plus_ms) => {
                let half_ms = window.end_ms.saturating_sub(window.start_ms) / 2;
                window.start_ms.saturating_add(half_ms).saturating_add(plus_ms)
            }
        };
        let up_ms = if self.is_rounded_up { self.every_ms - 1 } else { 0 };
        let rounded_ms = anchor_ms.saturating_add(up_ms).div_euclid(self.every_ms).saturating_mul(self.every_ms);
        rounded_ms.saturating_add(self.plus_ms).min(window.start_ms)
    }
}

/// What was found in a statement.
#[derive(Debug, Default)]
pub(crate) struct StatementRelations {
    pub(crate) windows: Vec<WindowSpec>,
    pub(crate) sessions: Vec<SessionRelation>,
    pub(crate) bounds: Vec<Bound>,
    pub(crate) has_history: bool,
}

/// A standing question that is being planned.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) slot: Arc<Slot>,
    /// What is kept of history.
    pub(crate) rows: Arc<KeyRows>,
    /// The time of rows of flows that history goes by.
    pub(crate) time: Column,
    /// Noted by its sums when they do not fit.
    pub(crate) saturation: SaturationFlag,
    pub(crate) found: Mutex<StatementRelations>,
}

impl StatementContext {
    pub(crate) fn found(&self) -> MutexGuard<'_, StatementRelations> {
        // every step under this lock leaves whole values behind
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A literal that gets its value for each window.
    pub(crate) fn bound(&self, bound: Bound) -> Expr {
        let mut found = self.found();
        found.bounds.push(bound);
        let id = format!("{BOUND}{}", found.bounds.len() - 1);
        let field = Field::new(id.as_str(), arrow_type(ColumnType::Time), true);
        Expr::Placeholder(Placeholder::new_with_field(id, Some(Arc::new(field))))
    }
}

/// What the names of placeholders of bounds begin with.
const BOUND: &str = "$weir_bound_";

/// The bound that a placeholder stands for.
pub(crate) fn bound_of(placeholder: &Placeholder) -> Option<usize> {
    placeholder.id.strip_prefix(BOUND)?.parse().ok()
}

/// A statement must not read the clock: the time at which it is asked is not that of its window.
pub(super) fn check_times(plan: &LogicalPlan) -> Result<(), EngineError> {
    let mut found = None;
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let Expr::ScalarFunction(call) = expression
                    && ["now", "current_timestamp", "current_date", "current_time", "today"].contains(&call.name())
                {
                    found = Some(call.name().to_owned());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    looked.map_err(EngineError::plan)?;
    match found {
        Some(name) => Err(EngineError::from(Mistake {
            message: format!("{name}() is not the time of a window"),
            place: None,
            hint: Some("use the column window_end".to_owned()),
        })),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    const HOUR_MS: i64 = 3_600_000;
    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn bounds_are_rounded_and_end_before_the_window() {
        let window = Window { start_ms: 5 * DAY_MS + 57 * MINUTE_MS, end_ms: 5 * DAY_MS + 62 * MINUTE_MS };
        let at =
            |anchor, plus_ms, every_ms, is_rounded_up| Bound { anchor, plus_ms, every_ms, is_rounded_up }.at(window);
        assert_eq!(at(Anchor::Start, -DAY_MS, 1, false), 4 * DAY_MS + 57 * MINUTE_MS);
        assert_eq!(at(Anchor::End, -DAY_MS, 1, true), 4 * DAY_MS + 62 * MINUTE_MS);
        // the hours that have the window
        assert_eq!(at(Anchor::Start, -DAY_MS, HOUR_MS, false), 4 * DAY_MS);
        assert_eq!(at(Anchor::End, -DAY_MS, HOUR_MS, true), 4 * DAY_MS + 2 * HOUR_MS);
        // a quarter of an hour around 00:59:30
        assert_eq!(at(Anchor::Middle(-450_000), -DAY_MS, 1, false), 4 * DAY_MS + 52 * MINUTE_MS);
        assert_eq!(at(Anchor::Middle(450_000), -DAY_MS, 1, true), 4 * DAY_MS + 67 * MINUTE_MS);
        assert_eq!(at(Anchor::End, 0, 1, true), window.start_ms);
    }
}
