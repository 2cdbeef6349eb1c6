//! Sums up rows that have the same key in the same window of time.
//!
//! The groups are those of `grouping`, what is summed up is that of `folds`; this block names the columns and hands on
//! what comes out. Groups come in the order in which they were first seen: it is as certain as a sorted order and costs
//! nothing, and whoever needs another sorts behind.

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ComponentError, ComponentKind, Counters, ONE_INPUT, Opener, Outlet, ParameterError, ParameterSpec,
    ParameterType, Parameters, Role, State, Transform,
};
use weir_flow::Column;

use weir_rows::folds::{COLUMNS_MAX, Fold, FoldedColumn, Folds, rows_of};
use weir_rows::grouping::{Closed, Grouping, KeyNames, WhenFull, hand_on};
use weir_rows::windows::{LATENESS, TIME, WindowSettings};

/// Sums up rows with the same key in the same window.
pub const KIND: ComponentKind = ComponentKind {
    name: "aggregate",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Sums up rows that have the same key in the same window of time and hands on one row for each. A row has the \
          columns of the key, start (the smallest), end (the largest), flows (how many flows it stands for; a null in \
          the input counts as one), and the columns of sum, min and max under their own names, so that aggregated flows \
          are flows again and go wherever flows go. A sum over nulls alone is null. A flow column that the input lacks \
          counts as null. Sums are exact; one that does not fit into its column becomes the largest number that does, \
          and is counted in values_saturated. Counts are not scaled: add sampling_interval to by where it differs. \
          Windows are handed on when they close, the oldest first, and groups within a window in the order in which \
          they were first seen. Rows are counted in rows_late_dropped when their window has closed.",
    parameters: &[
        ParameterSpec {
            key: "by",
            parameter_type: ParameterType::Texts,
            default: None,
            doc: "The columns of the key, as in [\"src_addr/24/48\", \"protocol\"]: addresses may be cut to a prefix, \
                  \"src_addr/24\" cuts IPv4 addresses alone. With [] all rows of a window become one.",
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
            key: "sum",
            parameter_type: ParameterType::Texts,
            default: Some(r#"["packets", "bytes"]"#),
            doc: "The columns that are added up: 64-bit flow columns, or whole numbers of other rows.",
        },
        ParameterSpec {
            key: "min",
            parameter_type: ParameterType::Texts,
            default: Some("[]"),
            doc: "The columns of which the smallest value is handed on, such as min_ttl.",
        },
        ParameterSpec {
            key: "max",
            parameter_type: ParameterType::Texts,
            default: Some("[]"),
            doc: "The columns of which the largest value is handed on, such as max_ttl.",
        },
        ParameterSpec {
            key: "groups_max",
            parameter_type: ParameterType::Integer(1, u32::MAX as u64 - 1),
            default: Some("1000000"),
            doc: "How many groups there may be, those of all open windows together.",
        },
        ParameterSpec {
            key: "when_full",
            parameter_type: ParameterType::Choice(&["hand-on", "shed"]),
            default: Some("\"hand-on\""),
            doc: "What happens when a row would open one group too many. With hand-on all groups are handed on early, \
                  are counted in groups_handed_on_early, and begin anew: nothing is lost, but a key may come twice in a \
                  window. With shed the row is counted in rows_shed and dropped.",
        },
    ],
    configure,
};

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let windows = WindowSettings::read(parameters, "window_secs")?;
    let names = KeyNames::parse("by", &parameters.texts("by"))?;
    let columns = folded_columns(parameters, &names)?;
    let groups_max = parameters.integer("groups_max") as usize;
    let when_full = if parameters.text("when_full") == "shed" { WhenFull::Shed } else { WhenFull::HandOn };
    Ok(Box::new(move |context| {
        let meter: &Counters = &context.counters;
        let folds = Folds::new(columns, meter.counter("values_saturated"));
        let grouping = Grouping::new(&windows, names, folds, groups_max, when_full, meter);
        Ok(Built::Transform(Box::new(Aggregate { grouping })))
    }))
}

/// What is made of which columns, none twice.
fn folded_columns(parameters: &Parameters, names: &KeyNames) -> Result<Vec<FoldedColumn>, ParameterError> {
    let mut columns: Vec<FoldedColumn> = Vec::new();
    let mut keys: Vec<String> = names.names().to_vec();
    for (key, fold) in [("sum", Fold::Sum), ("min", Fold::Min), ("max", Fold::Max)] {
        for name in parameters.texts(key) {
            if keys.contains(&name) || name == Column::Flows.name() {
                let error = ParameterError::new(key, format!("'{name}' would be handed on twice"));
                return Err(error.with_hint("name a column once, in by, sum, min or max; flows is always counted"));
            }
            columns.push(FoldedColumn::new(key, &name, fold)?);
            keys.push(name);
        }
    }
    let always = [(Column::Start, Fold::Min), (Column::End, Fold::Max), (Column::Flows, Fold::Flows)];
    for (column, fold) in always.into_iter().filter(|(column, _)| !keys.iter().any(|key| key == column.name())) {
        columns.push(FoldedColumn::new("by", column.name(), fold)?);
    }
    if columns.len() > COLUMNS_MAX {
        let message = format!("{} columns would be handed on, {COLUMNS_MAX} are possible", columns.len());
        return Err(ParameterError::new("sum", message));
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
