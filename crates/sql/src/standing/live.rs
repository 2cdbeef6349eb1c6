//! The parts of a statement with history that read the window alone, planned once.
//!
//! About most windows most statements have nothing to say: no host tried a hundred services. Where a part that reads the
//! window alone decides that by having no rows, it is asked first, and history is planned only for windows that it has
//! rows of: its times are other ones for each window, and planning takes longer than to group a small window.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;

use super::keys::live_parts;
use super::silence::is_empty;
use super::sources::windows_of;

/// A part that reads the window alone.
#[derive(Debug)]
struct LivePart {
    found: LogicalPlan,
    windows: Vec<usize>,
    plan: Arc<dyn ExecutionPlan>,
    /// Whether the statement has no answer when the part has no rows.
    is_deciding: bool,
}

impl LivePart {
    /// Whether this is the part that was planned: times of a window may have come down to conditions on its rows. Scans are
    /// compared by their names, so what they read is compared, too.
    fn is(&self, part: &LogicalPlan) -> bool {
        self.found == *part && windows_of(part).is_ok_and(|windows| windows == self.windows)
    }
}

/// The parts of a statement that read the window alone.
#[derive(Debug, Default)]
pub(super) struct LiveParts {
    parts: Vec<LivePart>,
    windows_decided: u64,
}

/// Rows of parts that were asked before the statement was planned.
#[derive(Debug)]
pub(super) struct Asked(Vec<Option<Vec<RecordBatch>>>);

impl LiveParts {
    /// Of the plans of a statement for two windows that have nothing in common: what is the same in both does not depend on the
    /// window's times.
    pub(super) fn new(
        state: &SessionState,
        plans: &[LogicalPlan; 2],
        physical: impl Fn(&LogicalPlan) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Self> {
        let [one, other] = plans;
        let mut found = Vec::new();
        for (part, same) in live_parts(one)?.into_iter().zip(live_parts(other)?) {
            let (windows, plan_of_part) = (windows_of(&part)?, physical(&part)?);
            let mut planned = LivePart { found: part, windows, plan: plan_of_part, is_deciding: false };
            if !planned.is(&same) {
                continue;
            }
            let mut is_deciding = true;
            for plan in plans {
                is_deciding &= is_empty(&state.optimize(&without(plan, &planned)?)?);
            }
            planned.is_deciding = is_deciding;
            found.push(planned);
        }
        Ok(Self { parts: found, windows_decided: 0 })
    }

    /// Whether any of them decides.
    pub(super) fn has_deciding(&self) -> bool {
        self.parts.iter().any(|part| part.is_deciding)
    }

    /// Counts a window of which a part decided that there is no answer.
    pub(super) fn add_decided(&mut self) {
        self.windows_decided += 1;
    }

    /// How many such windows there were.
    pub(super) fn windows_decided(&self) -> u64 {
        self.windows_decided
    }

    /// Asks the parts that decide; `None` when one of them has no rows.
    pub(super) fn asked<E>(
        &self,
        rows: impl Fn(&Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, E>,
    ) -> Result<Option<Asked>, E> {
        let mut asked = Asked(vec![None; self.parts.len()]);
        for (part, kept) in self.parts.iter().zip(&mut asked.0).filter(|(part, _)| part.is_deciding) {
            let rows = rows(&part.plan)?;
            if rows.is_empty() {
                return Ok(None);
            }
            *kept = Some(rows);
        }
        Ok(Some(asked))
    }

    /// The rows of a part that was asked before, or else the plan that makes them, if it was planned.
    pub(super) fn of(&self, part: &LogicalPlan, asked: &mut Asked) -> Option<Live> {
        let position = self.parts.iter().position(|planned| planned.is(part))?;
        let rows = asked.0.get_mut(position).and_then(Option::take).map(Live::Rows);
        rows.or_else(|| self.parts.get(position).map(|part| Live::Plan(Arc::clone(&part.plan))))
    }
}

/// What is known of a part before it is planned.
pub(super) enum Live {
    Rows(Vec<RecordBatch>),
    Plan(Arc<dyn ExecutionPlan>),
}

/// A plan in which a part has no rows.
fn without(plan: &LogicalPlan, part: &LivePart) -> Result<LogicalPlan> {
    let plan = plan.clone().transform_down(|node| {
        if !part.is(&node) {
            return Ok(Transformed::no(node));
        }
        let nothing = EmptyRelation { produce_one_row: false, schema: Arc::clone(node.schema()) };
        Ok(Transformed::new(LogicalPlan::EmptyRelation(nothing), true, TreeNodeRecursion::Jump))
    })?;
    Ok(plan.data)
}
