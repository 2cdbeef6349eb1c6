//! The greatest groups of a window by packets, octets or flows.
//!
//! The answer is exact: all groups are counted, as by `aggregate`, and the greatest handed on. Sketches of heavy hitters
//! need less memory and are wrong where groups are about equally great; with a limit on groups and a counter for
//! what it costs, it is known when the answer is not exact.

use std::cmp::Reverse;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ComponentError, ComponentKind, ONE_INPUT, Opener, Outlet, ParameterError, ParameterSpec, ParameterType,
    Parameters, Role, State, Transform,
};
use weir_flow::Column;

use weir_rows::folds::{Fold, FoldedColumn, Folds, rows_of};
use weir_rows::grouping::{Closed, Grouping, KeyNames, WhenFull, by_key, hand_on};
use weir_rows::windows::{LATENESS, TIME, WindowSettings};

/// The greatest groups of each window.
pub const KIND: ComponentKind = ComponentKind {
    name: "topn",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Adds up rows that have the same key in the same window of time, and hands on the n groups whose packets, bytes \
          or flows are most. A row has the columns of the key, start (the smallest), end (the largest), packets, bytes \
          and flows (how many flows it stands for; a null in the input counts as one), so it is a flow when the key is \
          made of flow columns. Windows are handed on when they close, the oldest first; within a window the greatest \
          group comes first, and groups that are equal come in ascending order of their keys, nulls first. A group \
          without a value counts as 0. A flow column that the input lacks counts as null. The answer is exact unless \
          rows_shed says that there were too many groups. A sum that does not fit into its column becomes the largest \
          number that does, and is counted in values_saturated.",
    parameters: &[
        ParameterSpec {
            key: "by",
            parameter_type: ParameterType::Texts,
            default: Some("\"src_addr\""),
            doc: "The columns of the key, as in [\"src_addr/24/48\", \"protocol\"]: addresses may be cut to a prefix, \
                  \"src_addr/24\" cuts IPv4 addresses alone.",
        },
        ParameterSpec {
            key: "n",
            parameter_type: ParameterType::Integer(1, 1_000_000),
            default: Some("10"),
            doc: "How many groups of a window are handed on.",
        },
        ParameterSpec {
            key: "measure",
            parameter_type: ParameterType::Choice(&["packets", "bytes", "flows"]),
            default: Some("\"bytes\""),
            doc: "What makes a group great.",
        },
        ParameterSpec {
            key: "window_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("60"),
            doc: "How long a window is; 0 makes one window of everything, which closes at the end.",
        },
        TIME,
        LATENESS,
        ParameterSpec {
            key: "groups_max",
            parameter_type: ParameterType::Integer(1, u32::MAX as u64 - 1),
            default: Some("1000000"),
            doc: "How many groups there may be, those of all open windows together.",
        },
        ParameterSpec {
            key: "when_full",
            parameter_type: ParameterType::Choice(&["shed"]),
            default: Some("\"shed\""),
            doc: "What happens when a row would open one group too many: the row is counted in rows_shed and dropped. \
                  Groups that are there go on counting.",
        },
    ],
    configure,
};

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let windows = WindowSettings::read(parameters, "window_secs")?;
    let names = KeyNames::parse("by", &parameters.texts("by"))?;
    let mut columns = Vec::new();
    for (column, fold) in [
        (Column::Start, Fold::Min),
        (Column::End, Fold::Max),
        (Column::Packets, Fold::Sum),
        (Column::Bytes, Fold::Sum),
        (Column::Flows, Fold::Flows),
    ] {
        if !names.names().iter().any(|name| name == column.name()) {
            columns.push(FoldedColumn::new("by", column.name(), fold)?);
        }
    }
    let Some(measure) = columns.iter().position(|column| column.name() == parameters.text("measure")) else {
        let measure = parameters.text("measure");
        return Err(ParameterError::new("measure", format!("'{measure}' is part of the key")));
    };
    let n = parameters.integer("n") as usize;
    let groups_max = parameters.integer("groups_max") as usize;
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
