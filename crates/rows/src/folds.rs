//! Sums, smallest and largest values of columns, and the number of flows, for each group.
//!
//! What becomes of a column keeps its name, so that an aggregate of flows is flows again. Sums are exact in whatever order
//! rows come: a cell has 64 bits, and what overflows goes to a separate list, which nearly always is empty. The cells of a
//! group lie next to each other, because a group that is in the processor's cache for one column is there for the next.
//! What speaks against it: a loop over a column steps over the cells of the others.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use weir_chain::{ComponentError, Counter, OptionError};
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType};

use crate::grouping::{Cells, Closed};
use crate::keys::NO_KEY;
use crate::numbers::{Numbers, number};
use crate::windows::WINDOW_START;

/// What is made of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// The smallest of them.
    Min,
    /// The largest of them.
    Max,
    /// Their sum, where a null counts as 1: a row that represents one flow.
    Flows,
}

/// What is made of which column.
#[derive(Debug, Clone)]
pub struct FoldedColumn {
    name: String,
    fold: Fold,
    /// Of what is handed on; of a column that is none of flows it is known with the first rows.
    field: Option<FieldRef>,
    /// Type of what comes in, once some came.
    found: Option<DataType>,
}

/// The columns of all groups.
#[derive(Debug)]
pub struct Folds {
    columns: Vec<FoldedColumn>,
    /// For each group a word with a bit for each column that has a value, then the values: numbers without a sign, or
    /// with one in two's complement, as the column has them.
    cells: Vec<u64>,
    /// For values that do not fit into their cell, by group and column: how many 2^64 are to be added.
    carries: HashMap<(u32, usize), i128>,
    saturated: Counter,
}

/// So many columns can be folded: each has a bit of a word.
pub const COLUMNS_MAX: usize = 64;

impl FoldedColumn {
    /// A column, when what is made of it fits into it.
    pub fn new(key: &str, name: &str, fold: Fold) -> Result<Self, OptionError> {
        let column = Column::by_name(name);
        let fits = match column.map(Column::column_type) {
            None | Some(ColumnType::U64) => true,
            Some(ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::Time) => fold != Fold::Sum,
            Some(_) => false,
        };
        if !fits || name.is_empty() {
            let message = match fold {
                Fold::Sum => format!("'{name}' holds no sums"),
                _ => format!("'{name}' holds neither numbers nor times"),
            };
            return Err(OptionError::new(key, message));
        }
        Ok(Self { name: name.to_owned(), fold, field: column.map(|column| Arc::new(field(column))), found: None })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes the type of what comes in and of what is handed on; says whether it was not known before.
    fn learn(&mut self, rows: &RecordBatch) -> Result<bool, ComponentError> {
        let name = &self.name;
        let Ok(field) = rows.schema_ref().field_with_name(name) else {
            let is_of_flows = Column::by_name(name).is_some();
            return if is_of_flows { Ok(false) } else { Err(ComponentError::missing_column(name, rows)) };
        };
        match &self.found {
            Some(found) if found == field.data_type() => return Ok(false),
            Some(found) => {
                let other = field.data_type();
                return Err(ComponentError::new(format!(
                    "column '{name}' is {found} in some rows and {other} in others"
                )));
            }
            None => self.found = Some(field.data_type().clone()),
        }
        if self.field.is_none() {
            let data_type = match (self.fold, field.data_type()) {
                (Fold::Min | Fold::Max, data_type) => data_type.clone(),
                (_, data_type) if data_type.is_unsigned_integer() => DataType::UInt64,
                _ => DataType::Int64,
            };
            self.field = Some(Arc::new(Field::new(name, data_type, true)));
        }
        Ok(true)
    }

    fn has_sign(&self) -> bool {
        self.found.as_ref().is_some_and(|found| !found.is_unsigned_integer())
    }

    /// The word of a cell without a value, which changes no value that it is folded with.
    fn neutral(&self) -> u64 {
        match (self.fold, self.has_sign()) {
            (Fold::Sum | Fold::Flows, _) | (Fold::Max, false) => 0,
            (Fold::Max, true) => i64::MIN as u64,
            (Fold::Min, false) => u64::MAX,
            (Fold::Min, true) => i64::MAX as u64,
        }
    }
}

impl Folds {
    /// Folds of columns. `saturated` counts the values that were too large to be handed on.
    pub fn new(columns: Vec<FoldedColumn>, saturated: Counter) -> Self {
        Self { columns, cells: Vec::new(), carries: HashMap::new(), saturated }
    }

    /// Words of a group.
    fn stride(&self) -> usize {
        1 + self.columns.len()
    }

    /// Makes the cells of more groups.
    fn grow(&mut self, groups: usize) {
        if groups * self.stride() > self.cells.len() {
            let neutral: Vec<u64> = [0].into_iter().chain(self.columns.iter().map(FoldedColumn::neutral)).collect();
            let new = groups - self.cells.len() / self.stride();
            self.cells.reserve(new * self.stride());
            (0..new).for_each(|_| self.cells.extend_from_slice(&neutral));
        }
    }

    /// Reads the cells of all rows once, in a loop that does nothing else: so the memory of many groups is waited for at
    /// once, and the loops over columns find it in the processor's cache.
    fn touch(&self, ids: &[u32]) {
        let stride = self.stride();
        let ends =
            ids.iter().map(|&id| self.cells[id as usize * stride] ^ self.cells[id as usize * stride + stride - 1]);
        std::hint::black_box(ends.fold(0, |all, words| all ^ words));
    }

    /// Makes the cells of a column anew that have no value, when its type becomes known.
    fn reset(&mut self, at: usize) {
        let (stride, neutral) = (self.stride(), self.columns[at].neutral());
        for words in self.cells.chunks_exact_mut(stride).filter(|words| words[0] >> at & 1 == 0) {
            words[1 + at] = neutral;
        }
    }

    /// The value of a group.
    pub fn value(&self, id: u32, column: usize) -> Option<i128> {
        let words = &self.cells[id as usize * self.stride()..][..self.stride()];
        let value = words[1 + column];
        let value = number(value, self.columns[column].has_sign());
        let carry = if self.carries.is_empty() { 0 } else { self.carries.get(&(id, column)).copied().unwrap_or(0) };
        (words[0] >> column & 1 == 1).then_some(value + (carry << 64))
    }

    /// The values of some groups.
    fn values(&self, ids: &[u32], at: usize) -> Result<(FieldRef, ArrayRef), ComponentError> {
        let column = &self.columns[at];
        let Some(field) = &column.field else {
            return Err(ComponentError::new(format!("column '{}' was never seen", column.name)));
        };
        let has_sign = *field.data_type() != DataType::UInt64;
        let values: ArrayRef = if self.carries.is_empty() && has_sign == column.has_sign() {
            let words = |id: u32| &self.cells[id as usize * self.stride()..][..self.stride()];
            let has_value = |id: u32| words(id)[0] >> at & 1 == 1;
            let nulls = if ids.iter().all(|id| has_value(*id)) {
                None
            } else {
                Some(NullBuffer::new(BooleanBuffer::collect_bool(ids.len(), |place| has_value(ids[place]))))
            };
            if has_sign {
                let values: Vec<i64> = ids.iter().map(|id| words(*id)[1 + at] as i64).collect();
                Arc::new(Int64Array::new(values.into(), nulls))
            } else {
                let values: Vec<u64> = ids.iter().map(|id| words(*id)[1 + at]).collect();
                Arc::new(UInt64Array::new(values.into(), nulls))
            }
        } else {
            self.fitted(ids, at, has_sign)
        };
        // the smallest and the largest fit into the type that they came from
        let values = cast(&values, field.data_type());
        Ok((Arc::clone(field), values.map_err(|error| ComponentError::caused("values do not fit", error))?))
    }

    /// The values of some groups, of which some may not fit.
    fn fitted(&self, ids: &[u32], at: usize, has_sign: bool) -> ArrayRef {
        let mut saturated = 0;
        let values: ArrayRef = if has_sign {
            let mut fit = |value| fit(value, i64::MIN, i64::MAX, &mut saturated);
            Arc::new(ids.iter().map(|id| self.value(*id, at).map(&mut fit)).collect::<Int64Array>())
        } else {
            let mut fit = |value| fit(value, u64::MIN, u64::MAX, &mut saturated);
            Arc::new(ids.iter().map(|id| self.value(*id, at).map(&mut fit)).collect::<UInt64Array>())
        };
        self.saturated.add(saturated);
        values
    }

    fn fold(&mut self, rows: &RecordBatch, ids: &[u32], at: usize) -> Result<(), ComponentError> {
        let stride = self.stride();
        let (name, fold) = (&self.columns[at].name, self.columns[at].fold);
        let has_sign = self.columns[at].has_sign();
        let mut target = Target { cells: &mut self.cells, carries: &mut self.carries, stride, at };
        let Some(column) = rows.column_by_name(name) else {
            if fold == Fold::Flows {
                for id in ids {
                    target.update(*id, 1, add);
                }
            }
            return Ok(());
        };
        let numbers = Numbers::read(name, column)?;
        let signed = |value: u64| value as i64;
        match (fold, has_sign) {
            (Fold::Sum, false) => target.fold(&numbers, ids, None, add),
            (Fold::Sum, true) => target.fold(&numbers, ids, None, add_signed),
            (Fold::Flows, false) => target.fold(&numbers, ids, Some(1), add),
            (Fold::Flows, true) => target.fold(&numbers, ids, Some(1), add_signed),
            (Fold::Min, false) => target.fold(&numbers, ids, None, |least, value| (least.min(value), 0)),
            (Fold::Min, true) => {
                target.fold(&numbers, ids, None, |least, value| (signed(least).min(signed(value)) as u64, 0));
            }
            (Fold::Max, false) => target.fold(&numbers, ids, None, |most, value| (most.max(value), 0)),
            (Fold::Max, true) => {
                target.fold(&numbers, ids, None, |most, value| (signed(most).max(signed(value)) as u64, 0));
            }
        }
        Ok(())
    }
}

/// Sum of numbers without a sign, and what is carried.
#[inline]
fn add(sum: u64, value: u64) -> (u64, i128) {
    let (sum, is_over) = sum.overflowing_add(value);
    (sum, is_over.into())
}

/// Sum of numbers with a sign, and what is carried.
#[inline]
fn add_signed(sum: u64, value: u64) -> (u64, i128) {
    let (sum, is_over) = (sum as i64).overflowing_add(value as i64);
    (sum as u64, if is_over { (value as i64).signum().into() } else { 0 })
}

/// The cells of one column.
struct Target<'a> {
    cells: &'a mut [u64],
    carries: &'a mut HashMap<(u32, usize), i128>,
    stride: usize,
    at: usize,
}

impl Target<'_> {
    /// Changes the cells of the rows' groups; `both` makes one value of two, and says what is carried. A null counts as
    /// `null`, or not at all.
    fn fold(&mut self, numbers: &Numbers, ids: &[u32], null: Option<u64>, both: impl Fn(u64, u64) -> (u64, i128)) {
        let rows = ids.iter().zip(numbers.words.iter());
        match &numbers.nulls {
            None => rows.for_each(|(id, value)| self.update(*id, *value, &both)),
            Some(nulls) => rows.zip(nulls.iter()).for_each(|((id, value), is_there)| {
                if let Some(value) = if is_there { Some(*value) } else { null } {
                    self.update(*id, value, &both);
                }
            }),
        }
    }

    /// Without a branch on whether the cell has a value, which nobody could foretell.
    #[inline]
    fn update(&mut self, id: u32, value: u64, both: impl Fn(u64, u64) -> (u64, i128)) {
        let words = &mut self.cells[id as usize * self.stride..][..self.stride];
        words[0] |= 1 << self.at;
        let (value, carry) = both(words[1 + self.at], value);
        words[1 + self.at] = value;
        if carry != 0 {
            *self.carries.entry((id, self.at)).or_default() += carry;
        }
    }
}

/// The number, or the nearest that there is.
fn fit<T: TryFrom<i128>>(value: i128, least: T, greatest: T, saturated: &mut u64) -> T {
    T::try_from(value).unwrap_or_else(|_| {
        *saturated += 1;
        if value < 0 { least } else { greatest }
    })
}

impl Cells for Folds {
    fn add(&mut self, rows: &RecordBatch, ids: &[u32], groups: usize) -> Result<(), ComponentError> {
        for at in 0..self.columns.len() {
            if self.columns[at].learn(rows)? {
                self.reset(at);
            }
        }
        self.grow(groups);
        self.touch(ids);
        (0..self.columns.len()).try_for_each(|at| self.fold(rows, ids, at))
    }

    fn renumber(&mut self, renumbered: &[u32]) {
        let stride = self.stride();
        let mut groups = 0;
        for (id, _) in renumbered.iter().enumerate().filter(|(_, id)| **id != NO_KEY) {
            self.cells.copy_within(id * stride..(id + 1) * stride, groups * stride);
            groups += 1;
        }
        self.cells.truncate(groups * stride);
        let carries = std::mem::take(&mut self.carries).into_iter();
        let renamed = carries.map(|((id, at), carry)| ((renumbered[id as usize], at), carry));
        self.carries = renamed.filter(|((id, _), _)| *id != NO_KEY).collect();
    }

    fn clear(&mut self) {
        self.cells.clear();
        self.carries.clear();
    }

    fn octets(&self) -> usize {
        self.cells.capacity() * size_of::<u64>() + self.carries.capacity() * size_of::<((u32, usize), i128)>()
    }
}

/// The groups of a window as rows: columns of flows in the order of their table, then others in the order in which they
/// were named. `ids` are the groups and their order.
pub fn rows_of(closed: &Closed<'_, Folds>, ids: &[u32]) -> Result<RecordBatch, ComponentError> {
    let mut columns = closed.keys.columns(ids)?;
    columns.retain(|(field, _)| field.name() != WINDOW_START);
    for at in 0..closed.cells.columns.len() {
        columns.push(closed.cells.values(ids, at)?);
    }
    // a stable sort, with those that are no column of flows at the end
    columns.sort_by_key(|(field, _)| Column::by_name(field.name()).map_or(usize::MAX, |column| column as usize));
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| ComponentError::caused("groups cannot be handed on", error))
}
