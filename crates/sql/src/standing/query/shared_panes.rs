//! What is computed for each pane of a statement, and how windows combine it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::StandingQuery;
use crate::standing::pane_aggregates::{PaneAggregate, split};
use crate::standing::row_filter::RowFilter;
use crate::standing::sources::windows_of;

/// What is computed for each pane, and shared by the windows that it is of.
#[derive(Debug, Default)]
pub(super) struct SharedPanes {
    pub(super) aggregates: Vec<(PaneAggregate, Arc<dyn ExecutionPlan>)>,
    /// Make one part of what each of them made of several parts of a pane, while rows of it are released.
    pub(super) mergings: Vec<Option<Arc<dyn ExecutionPlan>>>,
    /// Whether nothing else reads the rows of panes.
    pub(super) is_releasing: bool,
    /// The statement over what panes made, with the bounds of history to be filled in: when it is the same for every window.
    pub(super) combining: Option<LogicalPlan>,
    /// Which rows of windows are read.
    pub(super) filter: Option<RowFilter>,
    /// Whether panes are aggregated although windows do not overlap, so that their rows can go before the window ends.
    pub(super) is_early: bool,
}

impl SharedPanes {
    /// Finds what can be computed for each pane; gives the plan that combines it, too. `lasting` is the plan that holds for
    /// every window, if there is one.
    pub(super) fn of(
        query: &StandingQuery,
        optimised: LogicalPlan,
        lasting: Option<LogicalPlan>,
    ) -> Result<(Self, LogicalPlan)> {
        let (mut plan, mut aggregates) = split_of(query, optimised)?;
        let mut combining = None;
        if query.has_history
            && let Some(Ok((lasting, of_panes))) = lasting.map(|lasting| split_of(query, lasting))
            && !reads_rows(query, &lasting)?
            && of_panes.iter().all(|aggregate| is_without_bounds(&aggregate.plan))
        {
            combining = Some(lasting.clone());
            (plan, aggregates) = (lasting, of_panes);
        }
        // any other plan with history is made anew each time, and might not combine what panes made
        let is_lasting = !query.has_history || combining.is_some();
        let is_releasing = is_lasting && !reads_rows(query, &plan)?;
        let merging = |aggregate: &PaneAggregate| {
            let plan = aggregate.merging.as_ref().filter(|_| is_releasing);
            plan.map(|plan| query.physical(&query.context.state().optimize(plan)?)).transpose()
        };
        let mergings = aggregates.iter().map(merging).collect::<Result<Vec<_>>>()?;
        let planned = aggregates.into_iter().map(|mut aggregate| {
            aggregate.plan = query.context.state().optimize(&aggregate.plan)?;
            let physical = query.physical(&aggregate.plan)?;
            Ok((aggregate, physical))
        });
        let aggregates = planned.collect::<Result<Vec<_>>>()?;
        Ok((Self { aggregates, mergings, is_releasing, combining, filter: None, is_early: query.panes.is_early }, plan))
    }
}

/// The plan over what panes made, where that can be combined.
pub(super) fn split_of(query: &StandingQuery, optimised: LogicalPlan) -> Result<(LogicalPlan, Vec<PaneAggregate>)> {
    if query.sessions.is_some() {
        return Ok((optimised, Vec::new()));
    }
    let (plan, aggregates) = split(optimised, &query.windows, &query.slot, query.panes.is_early)?;
    let plan = if aggregates.is_empty() { plan } else { query.context.state().optimize(&plan)? };
    Ok((plan, aggregates))
}

/// Whether a plan reads rows of windows, and not only what panes made.
fn reads_rows(query: &StandingQuery, plan: &LogicalPlan) -> Result<bool> {
    Ok(windows_of(plan)?.into_iter().any(|relation| relation < query.windows.len()))
}

/// Whether a plan is the same for every window.
fn is_without_bounds(plan: &LogicalPlan) -> bool {
    plan.get_parameter_names().is_ok_and(|names| names.is_empty())
}
