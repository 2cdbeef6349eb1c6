//! Windows of so many rows that they are aggregated while they are open.
//!
//! A window of five minutes at 200,000 flows a second has 60 million rows, of which a statement may need the sum of each host.
//! What panes do for windows that overlap is done for the one pane of a window that does not, each time that it has grown: its
//! rows are aggregated and go, and in the end the window combines what was made. Hosts come again and again, so what was made is
//! merged each time that it has doubled: it has each group twice at most. A statement has a plan for that beside the
//! plain one, because aggregating twice costs more where a window has few rows.
//!
//! A statement may have several aggregates of the same rows, each of which makes its own groups of them. Where these together
//! are no fewer than the rows, as with ports at random, rows are kept as they are: they take less, and can be aggregated later.

use std::time::{Duration, Instant};

use super::{StandingEngine, StandingQuery};
use crate::EngineError;
use crate::standing::made_rows::MadeRows;
use crate::standing::pane_rows::{WindowPane, count, count_aggregated};
use crate::standing::slot::{RelationRows, SlotContent};
use crate::standing::{QuerySetup, WindowRows};

impl StandingEngine {
    /// The same statement for windows whose rows were aggregated before they closed; `None` when it needs rows until then, or
    /// when [`prepare`](Self::prepare) gives one that serves for that. Must not be called from an asynchronous task.
    pub fn prepare_early(
        &self,
        plain: &StandingQuery,
        text: &str,
        setup: &QuerySetup,
    ) -> Result<Option<StandingQuery>, EngineError> {
        if plain.is_releasing() || plain.has_sessions() {
            return Ok(None);
        }
        Ok(Some(self.planned(text, setup, true)?).filter(StandingQuery::is_releasing))
    }
}

impl StandingQuery {
    /// Whether rows of windows go once they are aggregated, because nothing else reads them.
    pub fn is_releasing(&self) -> bool {
        self.panes.is_releasing && !self.panes.aggregates.is_empty()
    }

    /// What is aggregated before a window closes, for people.
    pub fn aggregated_names(&self) -> impl Iterator<Item = &str> {
        self.panes.aggregates.iter().map(|(aggregate, _)| aggregate.name())
    }

    /// Aggregates the rows of windows that are open, and drops them. They stay when it fails, and where what all aggregates make
    /// of them counts as no fewer rows.
    ///
    /// Must not be called from an asynchronous task.
    pub fn aggregate(&self, rows: &[WindowRows], time_max: Duration) -> Result<(), EngineError> {
        let until = Instant::now() + time_max;
        let aggregated = replace_rows(self, rows, until).and_then(|()| self.merge(rows, until));
        *self.slot.held() = SlotContent::default();
        aggregated
    }

    /// Merges what was made of parts of panes, which then has each group once.
    fn merge(&self, rows: &[WindowRows], until: Instant) -> Result<(), EngineError> {
        for (number, ((aggregate, _), plan)) in self.panes.aggregates.iter().zip(&self.panes.mergings).enumerate() {
            let (Some(plan), Some(rows)) = (plan, rows.get(aggregate.relation)) else { continue };
            // behind the windows
            let mut made = vec![RelationRows::default(); self.windows.len() + number];
            made.push(RelationRows { window: rows.window, batches: Vec::new() });
            for pane in &rows.panes {
                pane.merge(number, |batches| {
                    if let Some(last) = made.last_mut() {
                        last.batches = batches;
                    }
                    self.slot.held().rows.clone_from(&made);
                    MadeRows::of(&self.saturation, || self.collected_again(plan, until))
                })?;
            }
        }
        Ok(())
    }
}

/// What an aggregate made of rows of a pane.
struct PaneAggregate<'a> {
    pane: &'a WindowPane,
    aggregate: usize,
    /// How many rows these were.
    rows: u64,
    made: MadeRows,
}

/// Keeps what aggregates make of rows in the place of these, where that is less.
fn replace_rows(query: &StandingQuery, windows: &[WindowRows], until: Instant) -> Result<(), EngineError> {
    let aggregates = &query.panes.aggregates;
    let (mut made, mut rows_lacking, mut rows_made) = (Vec::new(), 0_u64, 0_u64);
    for (number, (aggregate, _)) in aggregates.iter().enumerate() {
        let mut of_aggregate = 0_u64;
        for pane in windows.get(aggregate.relation).into_iter().flat_map(|window| &window.panes) {
            let lacking = pane.not_aggregated(number);
            if lacking.is_empty() {
                continue;
            }
            let rows = count(&lacking);
            let of_pane = query.make(number, lacking, until)?;
            of_aggregate += rows;
            rows_made += count_aggregated(&of_pane.batches);
            made.push(PaneAggregate { pane, aggregate: number, rows, made: of_pane });
        }
        rows_lacking = of_aggregate.max(rows_lacking);
        // what others make is not needed to know it
        if rows_made > 0 && rows_made >= rows_lacking {
            return Ok(());
        }
    }
    for PaneAggregate { pane, aggregate, rows, made } in made {
        pane.keep_aggregated(aggregate, rows, made);
    }
    if query.panes.is_releasing {
        let panes = windows.iter().flat_map(|window| &window.panes);
        panes.for_each(|pane| pane.release(aggregates.len()));
    }
    Ok(())
}
