//! Rows of a step, with what their files get of it.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, UInt64Array};
use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_forward::StatisticsStep;
use weir_series::{Family, Metric, SeriesStore};

use crate::files::{RrdFile, file_name, reading};

/// A row of a step on its way into a file.
pub(crate) struct Row<'a> {
    pub(crate) by: &'a str,
    pub(crate) key: &'a str,
    /// The name of its file.
    pub(crate) file: String,
    pub(crate) metrics: &'a [Metric],
    pub(crate) reading: String,
    /// Whether the step knows of the series only that there was nothing of it.
    pub(crate) is_silent: bool,
}

/// The columns of a step that say something of a family.
struct FamilyColumns<'a> {
    metrics: &'a [Metric],
    /// For each metric its values.
    values: Vec<Option<&'a UInt64Array>>,
}

impl Row<'_> {
    /// Its file, which keeps `rows` steps of a length. One that is there is not replaced.
    pub(crate) fn as_file(&self, step_secs: u32, rows: u64) -> RrdFile<'_> {
        RrdFile { name: &self.file, step_secs, metrics: self.metrics, rows, is_replaced: false }
    }
}

/// When a step ends, in seconds since the epoch.
pub(crate) fn end_secs(step: &StatisticsStep) -> i64 {
    step.time_secs + i64::from(step.step_secs)
}

/// The rows of a step, of families that the statistics have.
pub(crate) fn rows<'a>(step: &'a StatisticsStep, series: &'a SeriesStore) -> Vec<Row<'a>> {
    let [by, key] = [2, 3].map(|column| step.rows.column(column).as_string::<i32>());
    // how many of the finest steps have the series
    let count = step.rows.column(5).as_primitive::<UInt32Type>();
    let column = |metric: &Metric| -> Option<&'a UInt64Array> {
        step.rows.column_by_name(&metric.name).map(AsArray::as_primitive::<UInt64Type>)
    };
    let columns = |family: &'a Family| {
        let values = family.metrics.iter().map(column).collect();
        (family.name.as_str(), FamilyColumns { metrics: &family.metrics, values })
    };
    let families: HashMap<&str, FamilyColumns<'_>> = series.families().iter().map(columns).collect();
    let row = |at: usize| {
        let family = families.get(by.value(at))?;
        let values = family
            .values
            .iter()
            .map(|values| values.filter(|values| values.is_valid(at)).map(|values| values.value(at)));
        Some(Row {
            by: by.value(at),
            key: key.value(at),
            file: file_name(by.value(at), key.value(at)),
            metrics: family.metrics,
            reading: reading(end_secs(step), values),
            is_silent: count.value(at) == 0,
        })
    };
    (0..step.rows.num_rows()).filter_map(row).collect()
}
