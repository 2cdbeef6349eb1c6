//! The statistics of each measure of each group, and the rows made of them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{Field, FieldRef, Schema};
use weir_chain::{ComponentError, Counter};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType};

use super::histogram::{Buckets, Histogram};
use super::moments::Moments;
use super::quantiles::{Quantile, Sketch};
use weir_rows::grouping::{Cells, Closed, by_key};
use weir_rows::keys::NO_KEY;
use weir_rows::numbers::{Numbers, number};
use weir_rows::windows::WINDOW_START;

/// The columns to measure, and the statistics besides those that every answer has.
#[derive(Debug, Clone)]
pub(super) struct MeasureSet {
    /// Columns that are measured.
    pub(super) measures: Vec<String>,
    pub(super) quantiles: Vec<Quantile>,
    pub(super) histogram: Option<Buckets>,
}

impl MeasureSet {
    /// Names of the columns that follow those of the key.
    pub(super) fn column_names(&self) -> Vec<String> {
        let mut names = COLUMNS.map(str::to_owned).to_vec();
        names.extend(self.quantiles.iter().map(|quantile| quantile.name()));
        names.extend(self.histogram.map(|_| "histogram".to_owned()));
        names
    }
}

/// Names of the columns that every answer has.
const COLUMNS: [&str; 8] = ["measure", "count", "nulls", "sum", "mean", "variance", "min", "max"];

/// Name of the column with the start of the interval.
pub(super) const INTERVAL_START: &str = "interval_start";

/// The statistics of one measure of one group.
#[derive(Debug, Clone, Default)]
struct Cell {
    moments: Moments,
    nulls: u64,
    sketch: Sketch,
    histogram: Histogram,
}

/// The cells of all groups.
#[derive(Debug)]
pub(super) struct Measured {
    set: MeasureSet,
    /// For each measure the cells of all groups.
    cells: Vec<Vec<Cell>>,
    /// Octets beside the cells themselves, as they were `rows_since` rows ago.
    octets: usize,
    rows_since: usize,
    saturated: Counter,
}

impl Measured {
    /// No groups yet. `saturated` counts values that do not fit into what is handed on.
    pub(super) fn new(set: MeasureSet, saturated: Counter) -> Self {
        let cells = set.measures.iter().map(|_| Vec::new()).collect();
        Self { set, cells, octets: 0, rows_since: 0, saturated }
    }

    fn weigh(&mut self) {
        let cells = self.cells.iter().flatten();
        self.octets = cells.map(|cell| cell.sketch.octets() + cell.histogram.octets()).sum();
        self.rows_since = 0;
    }

    fn number(&self, value: i128) -> i64 {
        if i64::try_from(value).is_err() {
            self.saturated.add(1);
        }
        to_i64(value)
    }
}

/// The number, or the nearest that there is.
#[inline]
fn to_i64(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Adds the values of a column. What is always the same in the loop is known to the compiler, which leaves out the rest.
fn add_values<const SKETCHED: bool, const HAS_SIGN: bool>(
    numbers: &Numbers,
    ids: &[u32],
    cells: &mut [Cell],
    histogram: Option<Buckets>,
) {
    for (row, (id, word)) in ids.iter().zip(numbers.words.iter()).enumerate() {
        let cell = &mut cells[*id as usize];
        if numbers.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            cell.nulls += 1;
            continue;
        }
        let value = number(*word, HAS_SIGN);
        cell.moments.add(value);
        if SKETCHED {
            cell.sketch.add(to_i64(value));
        }
        if let Some(buckets) = histogram {
            cell.histogram.add(to_i64(value), buckets);
        }
    }
}

impl Cells for Measured {
    fn add(&mut self, rows: &RecordBatch, ids: &[u32], groups: usize) -> Result<(), ComponentError> {
        for (name, cells) in self.set.measures.iter().zip(&mut self.cells) {
            cells.resize_with(groups, Cell::default);
            let Some(column) = rows.column_by_name(name) else {
                if Column::by_name(name).is_none() {
                    return Err(ComponentError::missing_column(name, rows));
                }
                for id in ids {
                    cells[*id as usize].nulls += 1;
                }
                continue;
            };
            let numbers = Numbers::read(name, column)?;
            let histogram = self.set.histogram;
            match (self.set.quantiles.is_empty(), numbers.has_sign) {
                (false, false) => add_values::<true, false>(&numbers, ids, cells, histogram),
                (false, true) => add_values::<true, true>(&numbers, ids, cells, histogram),
                (true, false) => add_values::<false, false>(&numbers, ids, cells, histogram),
                (true, true) => add_values::<false, true>(&numbers, ids, cells, histogram),
            }
        }
        self.rows_since += ids.len();
        if self.rows_since > groups {
            self.weigh();
        }
        Ok(())
    }

    fn renumber(&mut self, renumbered: &[u32]) {
        for cells in &mut self.cells {
            let mut numbers = renumbered.iter();
            cells.retain(|_| numbers.next().is_some_and(|number| *number != NO_KEY));
        }
        self.weigh();
    }

    fn clear(&mut self) {
        self.cells.iter_mut().for_each(Vec::clear);
        self.weigh();
    }

    fn octets(&self) -> usize {
        self.cells.iter().map(|cells| cells.capacity() * size_of::<Cell>()).sum::<usize>() + self.octets
    }
}

/// The groups of an interval as rows: one for each group, in the order of the keys, and measure.
pub(super) fn rows_of(closed: &Closed<'_, Measured>) -> Result<RecordBatch, ComponentError> {
    let measured = closed.cells;
    let measures = measured.set.measures.len();
    let groups: Vec<u32> = by_key(closed, closed.ids)?;
    let repeated: Vec<u32> = groups.iter().flat_map(|id| std::iter::repeat_n(*id, measures)).collect();
    let mut columns: Vec<(FieldRef, ArrayRef)> = Vec::new();
    if let Some(start_ms) = closed.start_ms {
        let starts = TimestampMillisecondArray::from_value(start_ms, repeated.len()).with_timezone("UTC");
        let field = Field::new(INTERVAL_START, arrow_type(ColumnType::Time), false);
        columns.push((Arc::new(field), Arc::new(starts)));
    }
    let keys = closed.keys.columns(&repeated)?;
    columns.extend(keys.into_iter().filter(|(field, _)| field.name() != WINDOW_START));
    let cells: Vec<&Cell> =
        groups.iter().flat_map(|id| measured.cells.iter().map(|cells| &cells[*id as usize])).collect();
    columns.extend(measured.columns(&cells, groups.len()));
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| ComponentError::caused("statistics cannot be handed on", error))
}

impl Measured {
    /// The columns behind those of the key.
    fn columns(&self, cells: &[&Cell], groups: usize) -> Vec<(FieldRef, ArrayRef)> {
        let names = std::iter::repeat_n(&self.set.measures, groups).flatten();
        let counts = |count: fn(&Cell) -> u64| -> ArrayRef {
            Arc::new(cells.iter().map(|cell| count(cell)).collect::<Vec<_>>().into_iter().collect::<UInt64Array>())
        };
        let numbers = |number: fn(&Moments) -> Option<i128>| -> ArrayRef {
            let numbers = cells.iter().map(|cell| number(&cell.moments).map(|value| self.number(value)));
            Arc::new(numbers.collect::<Int64Array>())
        };
        let floats = |float: fn(&Moments) -> Option<f64>| -> ArrayRef {
            Arc::new(cells.iter().map(|cell| float(&cell.moments)).collect::<Float64Array>())
        };
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(names.map(Some).collect::<StringArray>()),
            counts(|cell| cell.moments.count()),
            counts(|cell| cell.nulls),
            numbers(Moments::sum),
            floats(Moments::mean),
            floats(Moments::variance),
            numbers(Moments::min),
            numbers(Moments::max),
        ];
        arrays.extend(self.quantiles(cells));
        if let Some(buckets) = self.set.histogram {
            let texts = cells.iter().map(|cell| cell.histogram.text(buckets));
            arrays.push(Arc::new(texts.map(Some).collect::<StringArray>()));
        }
        let names = self.set.column_names();
        let fields =
            names.into_iter().zip(&arrays).map(|(name, array)| Field::new(name, array.data_type().clone(), true));
        fields.map(Arc::new).collect::<Vec<FieldRef>>().into_iter().zip(arrays).collect()
    }

    fn quantiles(&self, cells: &[&Cell]) -> Vec<ArrayRef> {
        let of_cells: Vec<Vec<Option<i64>>> = cells
            .iter()
            .map(|cell| {
                let (min, max) = (cell.moments.min().map_or(0, to_i64), cell.moments.max().map_or(0, to_i64));
                cell.sketch.quantiles(&self.set.quantiles, min, max)
            })
            .collect();
        let column = |at: usize| of_cells.iter().map(|quantiles| quantiles[at]).collect::<Int64Array>();
        (0..self.set.quantiles.len()).map(|at| Arc::new(column(at)) as ArrayRef).collect()
    }
}
