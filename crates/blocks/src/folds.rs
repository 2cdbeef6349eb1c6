//! Sums, smallest and largest values of columns, and the number of flows, for each group.
//!
//! What becomes of a column keeps its name, so that an aggregate of flows is flows again. Every cell is a number of 128
//! bits: sums are exact in whatever order rows come, and become as small as their column only when they are handed on.
//! The cells of a group lie next to each other, because a group that is in the processor's cache for one column is there
//! for the next. What speaks against it is 16 octets for a cell where 8 would nearly always do.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use weir_chain::{BlockError, Counter, ParameterError};
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType};

use crate::grouping::{Cells, Closed};
use crate::keys::NO_KEY;
use crate::numbers::visit;
use crate::windows::WINDOW_START;

/// What is made of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Their sum.
    Sum,
    /// The smallest of them.
    Min,
    /// The largest of them.
    Max,
    /// Their sum, where a null counts as 1: a row that stands for itself.
    Flows,
}

/// What is made of which column.
#[derive(Debug, Clone)]
pub(crate) struct FoldedColumn {
    name: String,
    fold: Fold,
    /// Of what is handed on; of a column that is none of flows it is known with the first rows.
    field: Option<FieldRef>,
}

/// A cell without a value.
const NONE: i128 = i128::MIN;

/// The columns of all groups.
#[derive(Debug)]
pub(crate) struct Folds {
    columns: Vec<FoldedColumn>,
    /// The cells, as many for each group as there are columns.
    cells: Vec<i128>,
    saturated: Counter,
}

impl FoldedColumn {
    /// A column, when what is made of it fits into it.
    pub(crate) fn new(key: &str, name: &str, fold: Fold) -> Result<Self, ParameterError> {
        let column = Column::by_name(name);
        let fits = match (column.map(Column::column_type), fold) {
            (None | Some(ColumnType::U64), _) => true,
            (Some(ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::Time), Fold::Min | Fold::Max) => {
                true
            }
            (Some(_), _) => false,
        };
        if !fits || name.is_empty() {
            let message = match fold {
                Fold::Sum => format!("'{name}' holds no sums"),
                _ => format!("'{name}' holds neither numbers nor times"),
            };
            return Err(ParameterError::new(key, message));
        }
        Ok(Self { name: name.to_owned(), fold, field: column.map(|column| Arc::new(field(column))) })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notes the type of what is handed on.
    fn learn(&mut self, rows: &RecordBatch) -> Result<(), BlockError> {
        let Ok(found) = rows.schema_ref().field_with_name(&self.name) else {
            return if Column::by_name(&self.name).is_some() {
                Ok(())
            } else {
                Err(BlockError::missing_column(&self.name, rows))
            };
        };
        if self.field.is_none() {
            let data_type = match (self.fold, found.data_type()) {
                (Fold::Min | Fold::Max, data_type) => data_type.clone(),
                (_, DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64) => DataType::UInt64,
                _ => DataType::Int64,
            };
            self.field = Some(Arc::new(Field::new(&self.name, data_type, true)));
        }
        Ok(())
    }
}

impl Folds {
    /// Folds of columns. `saturated` counts the values that were too large to be handed on.
    pub(crate) fn new(columns: Vec<FoldedColumn>, saturated: Counter) -> Self {
        Self { columns, cells: Vec::new(), saturated }
    }

    /// The value of a group.
    pub(crate) fn value(&self, id: u32, column: usize) -> Option<i128> {
        Some(self.cells[id as usize * self.columns.len() + column]).filter(|value| *value != NONE)
    }

    /// The values of some groups.
    fn values(&self, ids: &[u32], at: usize) -> Result<(FieldRef, ArrayRef), BlockError> {
        let column = &self.columns[at];
        let Some(field) = &column.field else {
            return Err(BlockError::new(format!("column '{}' was never seen", column.name)));
        };
        let values = ids.iter().map(|id| self.value(*id, at));
        let mut saturated = 0;
        let values: ArrayRef = if *field.data_type() == DataType::UInt64 {
            Arc::new(values.map(|value| value.map(|value| fit(value, &mut saturated))).collect::<UInt64Array>())
        } else {
            Arc::new(values.map(|value| value.map(|value| fit(value, &mut saturated))).collect::<Int64Array>())
        };
        self.saturated.add(saturated);
        // the smallest and the largest fit into the type that they came from
        let values = cast(&values, field.data_type());
        Ok((Arc::clone(field), values.map_err(|error| BlockError::caused("values do not fit", error))?))
    }

    fn fold(&mut self, rows: &RecordBatch, ids: &[u32], at: usize) -> Result<(), BlockError> {
        let stride = self.columns.len();
        let (name, fold) = (&self.columns[at].name, self.columns[at].fold);
        let Some(column) = rows.column_by_name(name) else {
            if fold == Fold::Flows {
                for id in ids {
                    let cell = &mut self.cells[*id as usize * stride + at];
                    *cell = if *cell == NONE { 1 } else { *cell + 1 };
                }
            }
            return Ok(());
        };
        let cells = &mut self.cells;
        macro_rules! each {
            ($null:expr, $both:expr) => {
                visit(name, column, |row, value| {
                    if let Some(value) = value.or($null) {
                        let cell = &mut cells[ids[row] as usize * stride + at];
                        *cell = if *cell == NONE { value } else { $both(*cell, value) };
                    }
                })
            };
        }
        match fold {
            Fold::Sum => each!(None, |sum: i128, value: i128| sum + value),
            Fold::Min => each!(None, i128::min),
            Fold::Max => each!(None, i128::max),
            Fold::Flows => each!(Some(1), |sum: i128, value: i128| sum + value),
        }
    }
}

/// The number, or the nearest that there is.
fn fit<T: TryFrom<i128> + Extremes>(value: i128, saturated: &mut u64) -> T {
    T::try_from(value).unwrap_or_else(|_| {
        *saturated += 1;
        if value < 0 { T::LEAST } else { T::GREATEST }
    })
}

trait Extremes {
    const LEAST: Self;
    const GREATEST: Self;
}

impl Extremes for u64 {
    const LEAST: Self = u64::MIN;
    const GREATEST: Self = u64::MAX;
}

impl Extremes for i64 {
    const LEAST: Self = i64::MIN;
    const GREATEST: Self = i64::MAX;
}

impl Cells for Folds {
    fn add(&mut self, rows: &RecordBatch, ids: &[u32], groups: usize) -> Result<(), BlockError> {
        for column in &mut self.columns {
            column.learn(rows)?;
        }
        self.cells.resize(groups * self.columns.len(), NONE);
        (0..self.columns.len()).try_for_each(|at| self.fold(rows, ids, at))
    }

    fn renumber(&mut self, renumbered: &[u32]) {
        let stride = self.columns.len();
        let mut groups = 0;
        for (id, _) in renumbered.iter().enumerate().filter(|(_, id)| **id != NO_KEY) {
            self.cells.copy_within(id * stride..(id + 1) * stride, groups * stride);
            groups += 1;
        }
        self.cells.truncate(groups * stride);
    }

    fn clear(&mut self) {
        self.cells.clear();
    }

    fn octets(&self) -> usize {
        self.cells.capacity() * size_of::<i128>()
    }
}

/// The groups of a window as rows: columns of flows in the order of their table, then others in the order in which they
/// were named. `ids` are the groups and their order.
pub(crate) fn rows_of(closed: &Closed<'_, Folds>, ids: &[u32]) -> Result<RecordBatch, BlockError> {
    let mut columns = closed.keys.columns(ids)?;
    columns.retain(|(field, _)| field.name() != WINDOW_START);
    for at in 0..closed.cells.columns.len() {
        columns.push(closed.cells.values(ids, at)?);
    }
    // a stable sort, with those that are no column of flows at the end
    columns.sort_by_key(|(field, _)| Column::by_name(field.name()).map_or(usize::MAX, |column| column as usize));
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| BlockError::caused("groups cannot be handed on", error))
}
