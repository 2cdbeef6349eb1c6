//! The greatest groups of a window by packets, bytes or flows.
//!
//! The answer is exact: all groups are counted, as by `aggregate`, and the greatest handed on. Sketches of heavy hitters
//! need less memory and are wrong where groups are about equally great; with a limit on groups and a counter for
//! what it costs, it is known when the answer is not exact.

use std::cmp::Reverse;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ColumnRule, ComponentError, ComponentKind, FlowColumnRule, KindWithColumns, ONE_INPUT, Opener, OptionError,
    Outlet, Role, State, Transform, choices, options,
};
use weir_flow::Column;

use super::columns_named;
use weir_rows::folds::{Fold, FoldedColumn, Folds, rows_of};
use weir_rows::grouping::{Closed, Grouping, KeyNames, WhenFull, by_key, hand_on};
use weir_rows::windows::{WindowOptions, WindowSettings};

/// The greatest groups of each window.
pub const KIND: ComponentKind<TopNOptions> = ComponentKind {
    name: "topn",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Adds up rows that have the same key in the same window of time, and hands on the `n` groups that have most \
          packets, bytes or flows. A row has the columns of `keys`, `start` (the smallest), `end` (the largest), \
          `packets`, `bytes` and `flows` (how many flows it represents; a null in the input counts as one), so it is a \
          flow when the key is made of flow columns. Windows are handed on when they close, the oldest first; within a \
          window the greatest group comes first, and groups that are equal come in ascending order of their keys, nulls \
          first. A group without a value counts as 0. A flow column that the input lacks counts as null. The answer is \
          exact unless `rows_shed` shows that there were too many groups. A sum that does not fit into its column \
          becomes the largest number that does, and is counted in `values_saturated`.",
    configure,
};

/// The same, with the columns that it needs.
pub const KIND_WITH_COLUMNS: KindWithColumns<TopNOptions> = KindWithColumns {
    kind: KIND,
    columns: |_| ColumnRule::Kept,
    flow_columns: |options| FlowColumnRule::Read(columns_named(&options.keys)),
};

options! {
    /// Options of `topn`.
    pub struct TopNOptions {
        /// Group rows by these columns, as in ["src_addr/24/48", "protocol"]: /24/48 cuts IPv4 addresses to 24 bits and
        /// IPv6 addresses to 48, /24 cuts IPv4 addresses alone.
        keys: Vec<String> = vec![Column::SrcAddr.name().to_owned()],
        /// Hand on this many groups of a window.
        n: usize = 10 => 1..=1_000_000,
        /// What makes a group great.
        measure: Measure = Measure::Bytes,
        /// Keep at most this many groups, those of all open windows together. A row that would open one more is dropped
        /// and counted in `rows_shed`; groups that are there go on counting.
        groups_max: usize = 1_000_000 => 1..=u64::from(u32::MAX) - 1,
    }
    includes {
        /// The windows.
        windows: WindowOptions,
    }
}

choices! {
    /// What makes a group great.
    pub enum Measure {
        /// The number of its packets.
        Packets = "packets",
        /// The number of its bytes.
        Bytes = "bytes",
        /// The number of its flows.
        Flows = "flows",
    }
}

fn configure(options: TopNOptions) -> Result<Opener, OptionError> {
    let TopNOptions { keys, n, measure, groups_max, windows } = options;
    let windows = WindowSettings::new(windows)?;
    let names = KeyNames::parse("keys", &keys)?;
    let mut columns = Vec::new();
    for (column, fold) in [
        (Column::Start, Fold::Min),
        (Column::End, Fold::Max),
        (Column::Packets, Fold::Sum),
        (Column::Bytes, Fold::Sum),
        (Column::Flows, Fold::Flows),
    ] {
        if !names.names().iter().any(|name| name == column.name()) {
            columns.push(FoldedColumn::new("keys", column.name(), fold)?);
        }
    }
    let Some(measure) = columns.iter().position(|column| column.name() == measure.word()) else {
        return Err(OptionError::new("measure", format!("'{}' is part of the key", measure.word())));
    };
    Ok(Box::new(move |context| {
        let folds = Folds::new(columns, context.counters.counter("values_saturated"));
        let grouping = Grouping::new(&windows, names, folds, groups_max, WhenFull::Shed, &context.counters);
        Ok(Built::Transform(Box::new(TopN { grouping, ranking: Ranking { n, measure } })))
    }))
}

struct TopN {
    grouping: Grouping<Folds>,
    ranking: Ranking,
}

#[derive(Debug, Clone, Copy)]
struct Ranking {
    n: usize,
    /// Which of the folded columns is ranked by.
    measure: usize,
}

impl Transform for TopN {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let ranking = self.ranking;
        self.grouping.take(&rows, &mut |closed: &Closed<'_, Folds>| ranking.emit(closed, out))
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        let ranking = self.ranking;
        self.grouping.finish(&mut |closed: &Closed<'_, Folds>| ranking.emit(closed, out))
    }

    fn state(&self) -> State {
        self.grouping.state()
    }
}

impl Ranking {
    fn emit(self, closed: &Closed<'_, Folds>, out: &mut Outlet) -> Result<(), ComponentError> {
        hand_on(&rows_of(closed, &self.greatest(closed)?)?, out);
        Ok(())
    }

    /// The groups that are handed on, in their order.
    fn greatest(self, closed: &Closed<'_, Folds>) -> Result<Vec<u32>, ComponentError> {
        let greatness = |id: u32| Reverse(closed.cells.value(id, self.measure).unwrap_or(0));
        let mut ids = closed.ids.to_vec();
        if ids.len() > self.n {
            // Those as great as the last one stay for now: the key decides between them.
            let least = greatness(*ids.select_nth_unstable_by_key(self.n - 1, |id| greatness(*id)).1);
            ids.retain(|id| greatness(*id) <= least);
        }
        let mut ids = by_key(closed, &ids)?;
        ids.sort_by_key(|id| greatness(*id));
        ids.truncate(self.n);
        Ok(ids)
    }
}

#[cfg(test)]
mod tests;
