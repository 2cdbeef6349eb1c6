//! Points gathered from rows, and drawn at the end.
//!
//! What is kept is bounded by `points_max`: when there are more, every other point of the longest series goes, so that
//! what stays is spread evenly over all rows, however many come. What speaks against it is that a short peak may be
//! among those that go; whoever looks for peaks plots the maximum of a window.

mod axis;
mod draw;
mod points;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, TimeUnit};
use weir_chain::{ComponentError, Counter, Counters};
use weir_flow::Column;
use weir_print::ColumnText;

use points::{Names, Points};

/// Most series of points: more cannot be told apart.
const SERIES_MAX: usize = 16;

/// The x of a name over the limit on names.
const NO_PLACE: f64 = f64::INFINITY;

/// How points are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Joined, in the order of x.
    Line,
    /// As dots.
    Scatter,
    /// As bars from zero.
    Bars,
}

/// A plot as its options describe it.
#[derive(Debug, Clone)]
pub(crate) struct PlotPlan {
    /// Column of the horizontal axis.
    pub x: String,
    /// Columns of the vertical axis.
    pub y: Vec<String>,
    /// Column whose values make series.
    pub series: Option<String>,
    pub style: Style,
    pub title: Option<String>,
    pub points_max: usize,
}

/// What the values of x are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Horizontal {
    /// Milliseconds since the epoch.
    Time,
    Number,
    /// Numbers of names, in the order in which they came.
    Name,
}

/// A plot that gathers points.
#[derive(Debug)]
pub(crate) struct Plot {
    plan: PlotPlan,
    /// `None` before the first rows.
    horizontal: Option<Horizontal>,
    /// Names on the horizontal axis.
    places: Names,
    /// Names of series.
    series: Names,
    points: Points,
    drawn: Counter,
    null: Counter,
    series_dropped: Counter,
    text: Vec<u8>,
}

impl Plot {
    pub(crate) fn new(plan: PlotPlan, meter: &Counters) -> Self {
        let points = Points::new(plan.points_max, meter.counter("points_thinned"));
        Self {
            horizontal: None,
            places: Names::default(),
            series: Names::default(),
            points,
            drawn: meter.counter("points_drawn"),
            null: meter.counter("points_null"),
            series_dropped: meter.counter("points_series_dropped"),
            text: Vec::new(),
            plan,
        }
    }

    /// Takes the points of rows.
    pub(crate) fn rows(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        let Some((field, values)) = column(rows, &self.plan.x)? else {
            self.null.add((rows.num_rows() * self.plan.y.len()) as u64);
            return Ok(());
        };
        let xs = self.horizontal(field, values)?;
        let parts = match &self.plan.series {
            Some(name) => column(rows, name)?,
            None => None,
        };
        let parts = self.parts(rows, parts);
        let vertical = |name: &String| column(rows, name)?.map(|(field, values)| vertical(field, values)).transpose();
        let ys = self.plan.y.iter().map(vertical).collect::<Result<Vec<_>, _>>()?;
        self.add(&xs, &ys, &parts);
        Ok(())
    }

    /// Points held, and the memory that they take.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.points.len() as u64, (self.points.len() * size_of::<(f64, f64)>()) as u64)
    }

    /// Draws the plot as SVG.
    pub(crate) fn draw(self) -> Result<String, std::io::Error> {
        self.drawn.add(self.points.len() as u64);
        let horizontal = self.horizontal.unwrap_or(Horizontal::Number);
        let names = self.series_names();
        let series = names.into_iter().zip(self.points.into_series()).filter(|(_, points)| !points.is_empty());
        draw::draw(&draw::Picture {
            style: self.plan.style,
            title: self.plan.title.unwrap_or_default(),
            x_label: label(&self.plan.x),
            y_label: self.plan.y.iter().map(|name| label(name)).collect::<Vec<_>>().join(", "),
            horizontal,
            places: self.places.into_vec(),
            series: series.collect(),
        })
    }

    /// What each series is called: by the value that parts rows, by the column, or by both.
    fn series_names(&self) -> Vec<String> {
        let columns = &self.plan.y;
        let parts: Vec<_> = if self.plan.series.is_some() { self.series.names().to_vec() } else { vec![String::new()] };
        let name = |part: &String, column: &String| match (part.is_empty(), columns.len()) {
            (true, _) => column.clone(),
            (false, 1) => part.clone(),
            (false, _) => format!("{part}: {column}"),
        };
        parts.iter().flat_map(|part| columns.iter().map(move |column| name(part, column))).collect()
    }

    /// The values of x, NaN for none.
    fn horizontal(&mut self, field: &Field, values: &ArrayRef) -> Result<Vec<f64>, ComponentError> {
        let found = match values.data_type() {
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Horizontal::Time,
            number if number.is_numeric() => Horizontal::Number,
            _ if self.plan.style == Style::Bars => Horizontal::Name,
            other => {
                let text = format!("column '{}' has type {other}, but a plot needs a time or a number", field.name());
                return Err(ComponentError::new(text + "\nhint: bars can have names: style = \"bars\""));
            }
        };
        if *self.horizontal.get_or_insert(found) != found {
            return Err(ComponentError::new(format!("column '{}' changed its type", field.name())));
        }
        match found {
            Horizontal::Time => {
                let times = cast(values, &DataType::Timestamp(TimeUnit::Millisecond, None));
                let times =
                    times.and_then(|times| cast(&times, &DataType::Int64)).map_err(|error| cannot(field, error))?;
                let times = times.as_primitive::<Int64Type>();
                Ok(times.iter().map(|time| time.map_or(f64::NAN, |ms| ms as f64)).collect())
            }
            Horizontal::Number => {
                let finite = |number: f64| if number.is_finite() { number } else { f64::NAN };
                Ok(vertical(field, values)?.iter().map(|number| number.map_or(f64::NAN, finite)).collect())
            }
            Horizontal::Name => {
                let mut texts = ColumnText::new(field, values);
                let (places, text, max) = (&mut self.places, &mut self.text, self.plan.points_max);
                let place = |row| {
                    text.clear();
                    texts.push(row, text);
                    places.number(text, max).map_or(NO_PLACE, |place| place as f64)
                };
                Ok((0..values.len()).map(place).collect())
            }
        }
    }

    /// For each row the number of its part; `None` for those over the limit.
    fn parts(&mut self, rows: &RecordBatch, column: Option<(&Field, &ArrayRef)>) -> Vec<Option<usize>> {
        let max = (SERIES_MAX / self.plan.y.len()).max(1);
        let (series, text) = (&mut self.series, &mut self.text);
        match column {
            Some((field, values)) => {
                let mut texts = ColumnText::new(field, values);
                let part = |row| {
                    text.clear();
                    texts.push(row, text);
                    series.number(text, max)
                };
                (0..rows.num_rows()).map(part).collect()
            }
            None if self.plan.series.is_some() => vec![series.number(b"-", max); rows.num_rows()],
            None => vec![Some(0); rows.num_rows()],
        }
    }

    /// Adds the points row by row, so that what is left out does not depend on how rows are cut into bursts.
    fn add(&mut self, xs: &[f64], ys: &[Option<Float64Array>], parts: &[Option<usize>]) {
        let (mut null, mut dropped) = (0, 0);
        for (row, (&x, part)) in xs.iter().zip(parts).enumerate() {
            for (number, values) in ys.iter().enumerate() {
                let y =
                    values.as_ref().filter(|values| values.is_valid(row)).map_or(f64::NAN, |values| values.value(row));
                match part {
                    _ if x == NO_PLACE => self.points.leave_out(),
                    _ if !x.is_finite() || !y.is_finite() => null += 1,
                    Some(part) => self.points.add(part * ys.len() + number, (x, y)),
                    None => dropped += 1,
                }
            }
        }
        self.null.add(null);
        self.series_dropped.add(dropped);
    }
}

/// A column of rows. A column of flows that is absent is null, any other is an error.
fn column<'a>(rows: &'a RecordBatch, name: &str) -> Result<Option<(&'a Field, &'a ArrayRef)>, ComponentError> {
    match rows.schema_ref().column_with_name(name) {
        Some((position, field)) => Ok(Some((field, rows.column(position)))),
        None if Column::by_name(name).is_some() => Ok(None),
        None => Err(ComponentError::missing_column(name, rows)),
    }
}

/// Values as numbers.
fn vertical(field: &Field, values: &ArrayRef) -> Result<Float64Array, ComponentError> {
    let found = values.data_type();
    if !found.is_numeric() && *found != DataType::Boolean && *found != DataType::Null {
        let text = format!("column '{}' has type {found}, but a plot needs numbers", field.name());
        return Err(ComponentError::new(text));
    }
    let numbers = cast(values, &DataType::Float64).map_err(|error| cannot(field, error))?;
    Ok(numbers.as_primitive::<Float64Type>().clone())
}

fn cannot(field: &Field, error: arrow::error::ArrowError) -> ComponentError {
    ComponentError::caused(format!("cannot plot column '{}'", field.name()), error)
}

/// A column's name, with its unit when it is one of flows and the name does not tell it.
fn label(name: &str) -> String {
    match Column::by_name(name).map(|column| column.spec().unit) {
        Some(unit) if !unit.is_empty() && unit != name && unit != "ms" => format!("{name} ({unit})"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
