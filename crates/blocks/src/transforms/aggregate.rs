//! Sums up rows that have the same key in the same window of time.
//!
//! The groups are those of `grouping`, what is summed up is that of `folds`; this component names the columns and hands on
//! what comes out. Groups come in the order in which they were first seen: it is as certain as a sorted order and costs
//! nothing, and a chain that needs another order sorts behind it.

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ColumnRule, ComponentError, ComponentKind, FlowColumnRule, KindWithColumns, ONE_INPUT, Opener, OptionError,
    Outlet, Role, State, Transform, options,
};
use weir_flow::Column;

use super::columns_named;
use weir_rows::folds::{COLUMNS_MAX, Fold, FoldedColumn, Folds, rows_of};
use weir_rows::grouping::{Closed, Grouping, KeyNames, WhenFull, hand_on};
use weir_rows::windows::{WindowOptions, WindowSettings};

/// Sums up rows with the same key in the same window.
pub const KIND: ComponentKind<AggregateOptions> = ComponentKind {
    name: "aggregate",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Sums up rows that have the same key in the same window of time and hands on one row for each key. A row has \
          the columns of `keys`, `start` (the smallest), `end` (the largest), `flows` (how many flows it represents; a \
          null in the input counts as one), and the columns of `sum`, `min` and `max` under their own names, so \
          aggregated flows are flows again and go wherever flows go. A sum over nulls alone is null. A flow column that \
          the input lacks counts as null. Sums are exact; one that does not fit into its column becomes the largest \
          number that does, and is counted in `values_saturated`. Counts are not scaled: add `sampling_interval` to \
          `keys` where it differs. Windows are handed on when they close, the oldest first, and groups within a window \
          in the order in which they were first seen.",
    configure,
};

/// The same, with the columns that it needs.
pub const KIND_WITH_COLUMNS: KindWithColumns<AggregateOptions> = KindWithColumns {
    kind: KIND,
    columns: |_| ColumnRule::Kept,
    flow_columns: |options| FlowColumnRule::Read(columns_named(&options.keys)),
};

options! {
    /// Options of `aggregate`.
    pub struct AggregateOptions {
        /// Group rows by these columns, as in ["src_addr/24/48", "protocol"]: /24/48 cuts IPv4 addresses to 24 bits and
        /// IPv6 addresses to 48, /24 cuts IPv4 addresses alone. With [] all rows of a window become one.
        keys: Vec<String>,
        /// Add up these columns: 64-bit flow columns, or whole numbers of other rows.
        sum: Vec<String> = [Column::Packets, Column::Bytes].map(|column| column.name().to_owned()).to_vec(),
        /// Hand on the smallest value of these columns, such as min_ttl.
        min: Vec<String> = Vec::new(),
        /// Hand on the largest value of these columns, such as max_ttl.
        max: Vec<String> = Vec::new(),
        /// Keep at most this many groups, those of all open windows together; over the limit `when_full` applies.
        groups_max: usize = 1_000_000 => 1..=u64::from(u32::MAX) - 1,
        /// What happens to a row that would open one group too many.
        when_full: WhenFull = WhenFull::HandOn,
    }
    includes {
        /// The windows.
        windows: WindowOptions,
    }
}

fn configure(options: AggregateOptions) -> Result<Opener, OptionError> {
    let names = KeyNames::parse("keys", &options.keys)?;
    let columns = folded_columns(&options, &names)?;
    let AggregateOptions { groups_max, when_full, windows, .. } = options;
    let windows = WindowSettings::new(windows)?;
    Ok(Box::new(move |context| {
        let counters = &context.counters;
        let folds = Folds::new(columns, counters.counter("values_saturated"));
        let grouping = Grouping::new(&windows, names, folds, groups_max, when_full, counters);
        Ok(Built::Transform(Box::new(Aggregate { grouping })))
    }))
}

/// What is made of which columns, none twice.
fn folded_columns(options: &AggregateOptions, names: &KeyNames) -> Result<Vec<FoldedColumn>, OptionError> {
    let mut columns: Vec<FoldedColumn> = Vec::new();
    let mut known: Vec<String> = names.names().to_vec();
    let folds = [("sum", &options.sum, Fold::Sum), ("min", &options.min, Fold::Min), ("max", &options.max, Fold::Max)];
    for (key, folded, fold) in folds {
        for name in folded {
            if known.contains(name) || name == Column::Flows.name() {
                let error = OptionError::new(key, format!("'{name}' would be handed on twice"));
                return Err(error.with_hint("name a column once, in keys, sum, min or max; flows is always counted"));
            }
            columns.push(FoldedColumn::new(key, name, fold)?);
            known.push(name.clone());
        }
    }
    let always = [(Column::Start, Fold::Min), (Column::End, Fold::Max), (Column::Flows, Fold::Flows)];
    for (column, fold) in always.into_iter().filter(|(column, _)| !known.iter().any(|name| name == column.name())) {
        columns.push(FoldedColumn::new("keys", column.name(), fold)?);
    }
    if columns.len() > COLUMNS_MAX {
        let message = format!("{} columns would be handed on, {COLUMNS_MAX} are possible", columns.len());
        return Err(OptionError::new("sum", message));
    }
    Ok(columns)
}

struct Aggregate {
    grouping: Grouping<Folds>,
}

impl Transform for Aggregate {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        self.grouping.take(&rows, &mut |closed: &Closed<'_, Folds>| emit(closed, out))
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.grouping.finish(&mut |closed: &Closed<'_, Folds>| emit(closed, out))
    }

    fn state(&self) -> State {
        self.grouping.state()
    }
}

fn emit(closed: &Closed<'_, Folds>, out: &mut Outlet) -> Result<(), ComponentError> {
    hand_on(&rows_of(closed, closed.ids)?, out);
    Ok(())
}

#[cfg(test)]
mod tests;
