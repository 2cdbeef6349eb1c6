//! What planning a statement finds: its windows, its sessions, and the bounds of its history.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType};

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
}

/// An end of a time range of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// What it is counted from.
    pub(crate) anchor: Anchor,
    /// Added to the anchor.
    pub(crate) plus_ms: i64,
    /// The anchor is rounded down to a multiple of this, if it is more than 1.
    pub(crate) every_ms: i64,
}

impl Bound {
    /// The time that it is for a window.
    pub(crate) fn at(&self, window: Window) -> i64 {
        let anchor_ms = match self.anchor {
            Anchor::Start => window.start_ms,
            Anchor::End => window.end_ms,
        };
        anchor_ms.div_euclid(self.every_ms).saturating_mul(self.every_ms).saturating_add(self.plus_ms)
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
