//! Rankings, totals and time lines from what segments have been summed up to, instead of from their flows.
//!
//! A segment that was merged has tables of sums by host, port and so on ([`Rollup`]). A row of such a table looks like
//! one flow that is many: its `flows` say how many, `start` and `end` are the first and the last. So a table
//! that is complete takes the place of its segment's flows, and whatever groups flows groups it, too. A table of many
//! keys has only the heavy ones; from those the first of a ranking are found by bounds (`threshold`). Segments that
//! have no such tables, or lie in the window only in part, are read as they always were, and so is the tail.
//!
//! Answers are those of the flows, to the last row and in the same order. What the tables leave open is not guessed:
//! the flows are read then, and [`ProgressCounts::rankings_open`](crate::ProgressCounts) counts that. What speaks
//! against it is that there are two ways to an answer; a test asks every question both ways.
//!
//! Flows that have expired cannot be read. Approximate answers include what their summaries have
//! (`past`), and how much that may be too little (`approximate`).

mod approximate;
mod lists;
mod past;
mod table;
mod threshold;
mod totals;

use weir_filter::Predicate;

use crate::flows::FlowSources;
use crate::group::{Grouping, Part, Sums};
use crate::{FlowQuery, QueryError, QueryOptions};
use table::{Table, count_as_summed, rollups_of, tables};

pub use approximate::ERROR_COLUMNS;
pub use totals::Totals;

/// What summaries make of a question about groups.
pub(crate) enum SummaryAnswer {
    /// The groups of the answer, and perhaps some that come after them.
    Groups(Part<Sums>),
    /// What is left to read: it has sums in place of flows.
    Flows(FlowSources),
    /// Nothing: all flows are to be read.
    NotApplicable,
}

/// Answers a question about groups by summaries, as far as they go.
pub(crate) fn of(
    flows: &FlowSources,
    question: &FlowQuery,
    grouping: &Grouping,
    options: &QueryOptions,
) -> Result<SummaryAnswer, QueryError> {
    if !options.summaries || question.filter != Predicate::True {
        return Ok(SummaryAnswer::NotApplicable);
    }
    let Some(rollups) = rollups_of(grouping) else { return Ok(SummaryAnswer::NotApplicable) };
    let tables = tables(&flows.segments, &question.window, &rollups, options)?;
    let is_complete = |tables: &Vec<Table>| tables.iter().all(|table| table.rest.is_none());
    if let Some(lean) = grouping.lean()
        && tables.iter().flatten().any(|tables| !is_complete(tables))
    {
        if let Some(part) = threshold::ranking(flows, &tables, question, (grouping, lean), options)? {
            tables.iter().zip(&flows.segments).filter(|(tables, _)| tables.is_some()).for_each(|(_, segment)| {
                count_as_summed(segment, options);
            });
            return Ok(SummaryAnswer::Groups(part));
        }
        options.progress.add_rankings_open(1);
    }
    let mut left = flows.with(Vec::new(), flows.tail.clone());
    for (tables, segment) in tables.into_iter().zip(&flows.segments) {
        match tables.filter(is_complete) {
            Some(tables) => {
                count_as_summed(segment, options);
                left.tail.extend(tables.into_iter().map(|table| table.rows));
            }
            None => left.segments.push(segment.clone()),
        }
    }
    Ok(SummaryAnswer::Flows(left))
}
