//! Statistics of columns, for each window of data time and each key.
//!
//! Everything that is handed on is exact but for quantiles of more than 64 values: counts and sums are whole numbers, mean
//! and variance are computed from them at the end, see `moments`. So the answer depends on which rows came and neither
//! on their order nor on how they were cut into bursts. Quantiles and histograms are counts in buckets, see `quantiles`
//! and `histogram`. What speaks against it: a group with quantiles needs some kilooctets for each measure, so there is a
//! limit on groups.

mod cells;
mod histogram;
mod moments;
mod quantiles;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ColumnRule, ComponentError, ComponentKind, FlowColumnRule, KindWithColumns, ONE_INPUT, Opener, OptionError,
    Outlet, Role, State, Transform, choices, options,
};

use self::cells::{INTERVAL_START, MeasureSet, Measured, rows_of};
use self::histogram::Buckets;
use self::quantiles::Quantile;
use super::columns_named;
use weir_rows::grouping::{Closed, Grouping, KeyNames, WhenFull, hand_on};
use weir_rows::windows::{WindowOptions, WindowSettings};

/// Statistics of columns for each window and key.
pub const KIND: ComponentKind<StatisticOptions> = ComponentKind {
    name: "statistic",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Computes count, sum, mean, variance, smallest and largest value, quantiles and a histogram of columns, for each \
          window of data time and each key. It hands on one row for each window, key and measured column: \
          `interval_start` (the start of the window; not when everything is one window), the columns of `keys`, \
          `measure` (the name of the column), `count` (of values), `nulls` (rows without a value), `sum`, `mean`, \
          `variance` (the mean square of the distance from the mean), `min`, `max`, a column for each quantile (`p50`, \
          `p99_9`), and `histogram`. Everything but `count` and `nulls` is null when there is no value. Sums are exact, \
          mean and variance are rounded to about 15 digits. A quantile is the smallest value that enough values do not \
          exceed: exact among up to 64 values, beyond that within 1/128 of it. Sum, min, max and quantiles are 64-bit \
          numbers with a sign; one that does not fit becomes the nearest that does, and is counted in \
          `values_saturated` for sum, min and max. A histogram is text, \"0:12 100:3\": the lowest value of each bucket \
          that is not empty, and how many values are in it. A flow column that the input lacks counts as null. Windows \
          are handed on when they close, the oldest first; within a window the keys ascend, nulls first, and measures \
          come in the order of `of`.",
    configure,
};

/// The same, with what it does to columns.
pub const KIND_WITH_COLUMNS: KindWithColumns<StatisticOptions> =
    KindWithColumns { kind: KIND, columns: |_| ColumnRule::Replaced(vec!["measure", "count"]), flow_columns };

options! {
    /// Options of `statistic`.
    pub struct StatisticOptions {
        /// Measure these columns: whole numbers of any width, with or without a sign.
        of: Vec<String>,
        /// Group rows by these columns, as in ["src_addr/24/48", "protocol"]: /24/48 cuts IPv4 addresses to 24 bits and
        /// IPv6 addresses to 48, /24 cuts IPv4 addresses alone. With [] there is one group for each window.
        keys: Vec<String> = Vec::new(),
        /// Compute these quantiles, as in ["0.5", "99%", "p99.9"]; [] for none.
        quantiles: Vec<String> = vec!["p50".to_owned(), "p99".to_owned()],
        /// What buckets the histogram has.
        histogram: HistogramBuckets = HistogramBuckets::None,
        /// Make the buckets of a linear histogram this wide.
        histogram_bucket_width: u64 = 100 => 1..=i64::MAX.cast_unsigned(),
        /// Give a linear histogram at most this many buckets on either side of 0; the outermost holds all that is
        /// beyond.
        histogram_buckets_max: usize = 1000 => 1..=65_536,
        /// Keep at most this many groups, those of all open windows together. A row that would open one more is dropped
        /// and counted in `rows_shed`; groups that are there go on counting.
        groups_max: usize = 10_000 => 1..=u64::from(u32::MAX) - 1,
    }
    includes {
        /// The windows.
        windows: WindowOptions,
    }
}

choices! {
    /// What buckets a histogram has.
    pub enum HistogramBuckets {
        /// There is no histogram.
        None = "none",
        /// All buckets have the same width.
        Linear = "linear",
        /// Buckets of 0, 1, 2 to 3, 4 to 7 and so on.
        Log2 = "log2",
    }
}

fn flow_columns(options: &StatisticOptions) -> FlowColumnRule {
    FlowColumnRule::Read(columns_named(options.keys.iter().chain(&options.of)))
}

fn configure(options: StatisticOptions) -> Result<Opener, OptionError> {
    let windows = WindowSettings::new(options.windows.clone())?;
    let names = KeyNames::parse("keys", &options.keys)?;
    let groups_max = options.groups_max;
    let set = measure_set(options)?;
    let reserved = set.column_names();
    let is_reserved = |name: &&String| reserved.contains(name) || name.as_str() == INTERVAL_START;
    if let Some(name) = names.names().iter().find(is_reserved) {
        let message = format!("'{name}' is the name of a column that this component hands on");
        return Err(OptionError::new("keys", message));
    }
    Ok(Box::new(move |context| {
        let measured = Measured::new(set, context.counters.counter("values_saturated"));
        let grouping = Grouping::new(&windows, names, measured, groups_max, WhenFull::Shed, &context.counters);
        Ok(Built::Transform(Box::new(Statistic { grouping })))
    }))
}

fn measure_set(options: StatisticOptions) -> Result<MeasureSet, OptionError> {
    let measures = options.of;
    if measures.is_empty() {
        return Err(OptionError::new("of", "'of' names no column").with_hint("name columns, such as packets"));
    }
    let mut quantiles = Vec::new();
    for text in &options.quantiles {
        let Some(quantile) = Quantile::parse(text) else {
            let error = OptionError::new("quantiles", format!("'{text}' is no quantile"));
            return Err(error.with_hint("write 0.99, 99% or p99, with up to nine places"));
        };
        if quantiles.contains(&quantile) {
            return Err(OptionError::new("quantiles", format!("'{text}' is there twice")));
        }
        quantiles.push(quantile);
    }
    let histogram = match options.histogram {
        HistogramBuckets::None => None,
        HistogramBuckets::Linear => {
            Some(Buckets::Linear { width: options.histogram_bucket_width, max: options.histogram_buckets_max })
        }
        HistogramBuckets::Log2 => Some(Buckets::Log2),
    };
    Ok(MeasureSet { measures, quantiles, histogram })
}

struct Statistic {
    grouping: Grouping<Measured>,
}

impl Transform for Statistic {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        self.grouping.take(&rows, &mut |closed: &Closed<'_, Measured>| emit(closed, out))
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.grouping.finish(&mut |closed: &Closed<'_, Measured>| emit(closed, out))
    }

    fn state(&self) -> State {
        self.grouping.state()
    }
}

fn emit(closed: &Closed<'_, Measured>, out: &mut Outlet) -> Result<(), ComponentError> {
    hand_on(&rows_of(closed)?, out);
    Ok(())
}

#[cfg(test)]
mod tests;
