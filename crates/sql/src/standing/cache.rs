//! Answers of history that several windows share.
//!
//! Where the times of history are rounded (`every => INTERVAL '1' HOUR`), what does not depend on the window is the same
//! for all windows of an hour, and for all watches that ask it. It is answered once and kept, by the text of its plan,
//! which has the bounds of the times in it. What is largest for its last use is dropped when the memory is full.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use weir_query::SaturationFlag;

use super::keys::{Reads, is_narrowed, reads, rows_of};
use super::made_rows::MadeRows;

/// Answers by their plans.
#[derive(Debug)]
pub(crate) struct HistoryCache {
    octets_max: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    answers: HashMap<LogicalPlan, Answer>,
    octets: usize,
    uses: u64,
}

#[derive(Debug)]
struct Answer {
    made: MadeRows,
    octets: usize,
    used: u64,
}

impl HistoryCache {
    pub(crate) fn new(octets_max: usize) -> Self {
        Self { octets_max, entries: Mutex::default() }
    }

    /// Octets that may be kept; as much as of rows.
    pub(crate) fn octets_max(&self) -> usize {
        self.octets_max
    }

    /// Octets that are kept.
    pub(crate) fn octets(&self) -> u64 {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).octets as u64
    }

    fn get(&self, plan: &LogicalPlan) -> Option<MadeRows> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.uses += 1;
        let uses = entries.uses;
        let answer = entries.answers.get_mut(plan)?;
        answer.used = uses;
        Some(answer.made.clone())
    }

    fn put(&self, plan: &LogicalPlan, made: &MadeRows) {
        let octets = made.batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        if octets > self.octets_max / 2 {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        while entries.octets + octets > self.octets_max {
            let oldest = entries.answers.iter().min_by_key(|(_, answer)| answer.used).map(|(plan, _)| plan.clone());
            let Some(gone) = oldest.and_then(|plan| entries.answers.remove(&plan)) else { break };
            entries.octets -= gone.octets;
        }
        let used = entries.uses;
        if let Some(before) = entries.answers.insert(plan.clone(), Answer { made: made.clone(), octets, used }) {
            entries.octets -= before.octets;
        }
        entries.octets += octets;
    }

    /// The plan with rows in place of the parts that read history alone; `answer` answers those that are not kept, and gives
    /// up where an answer has more octets than this: that part stays in the plan. Sums of the answers that do not fit, also of those
    /// that are kept, are noted in `saturation`.
    pub(crate) fn substituted<E>(
        &self,
        plan: LogicalPlan,
        saturation: &SaturationFlag,
        mut answer: impl FnMut(&LogicalPlan, usize) -> Result<Option<Vec<RecordBatch>>, E>,
    ) -> Result<Result<LogicalPlan>, E> {
        let parts = match history_parts(&plan) {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(error)),
        };
        let mut answers = Vec::new();
        for part in &parts {
            if let Some(made) = self.get(part) {
                answers.push(Some(made.noted_in(saturation)));
                continue;
            }
            let (rows, is_saturated) = saturation.during(|| answer(part, self.octets_max / 2));
            let made = rows?.map(|batches| MadeRows { batches, is_saturated });
            if let Some(made) = &made {
                self.put(part, made);
            }
            answers.push(made.map(|made| made.noted_in(saturation)));
        }
        Ok(replaced(plan, answers))
    }
}

/// The largest parts of a plan that read history alone, except where the window narrows them.
fn history_parts(plan: &LogicalPlan) -> Result<Vec<LogicalPlan>> {
    let mut parts = Vec::new();
    plan.apply(|node| {
        Ok(match part_of(node)? {
            Part::Whole => {
                parts.push(node.clone());
                TreeNodeRecursion::Jump
            }
            Part::Other => TreeNodeRecursion::Jump,
            Part::Look => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(parts)
}

enum Part {
    Whole,
    Other,
    Look,
}

fn part_of(node: &LogicalPlan) -> Result<Part> {
    Ok(match reads(node)? {
        Reads::History if is_reduced(node) => Part::Whole,
        Reads::History | Reads::Window => Part::Other,
        Reads::Other if is_narrowed(node)? => Part::Other,
        Reads::Other => Part::Look,
    })
}

/// Whether a plan makes fewer rows of those that it reads.
fn is_reduced(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Limit(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {
            plan.inputs().first().is_some_and(|input| is_reduced(input))
        }
        LogicalPlan::Sort(sort) => sort.fetch.is_some() || is_reduced(&sort.input),
        _ => false,
    }
}

fn replaced(plan: LogicalPlan, answers: Vec<Option<Vec<RecordBatch>>>) -> Result<LogicalPlan> {
    let mut answers = answers.into_iter();
    let plan = plan.transform_down(|node| {
        Ok(match part_of(&node)? {
            Part::Whole => match answers.next().flatten() {
                Some(rows) => Transformed::new(rows_of(&node, rows)?, true, TreeNodeRecursion::Jump),
                None => Transformed::new(node, false, TreeNodeRecursion::Jump),
            },
            Part::Other => Transformed::new(node, false, TreeNodeRecursion::Jump),
            Part::Look => Transformed::no(node),
        })
    })?;
    Ok(plan.data)
}

/// Whether bounds make answers worth their memory.
pub(crate) fn is_worth(every_ms: i64) -> bool {
    every_ms >= 10_000
}
