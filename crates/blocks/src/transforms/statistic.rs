//! Statistics of columns, for each interval of data time and each key.
//!
//! Everything that is told is exact but for quantiles of more than 64 values: counts and sums are whole numbers, mean
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
    Built, ComponentError, ComponentKind, ONE_INPUT, Opener, Outlet, ParameterError, ParameterSpec, ParameterType,
    Parameters, Role, State, Transform,
};

use self::cells::{INTERVAL_START, Measured, Wanted, rows_of};
use self::histogram::Buckets;
use self::quantiles::Quantile;
use weir_rows::grouping::{Closed, Grouping, KeyNames, WhenFull, hand_on};
use weir_rows::windows::{LATENESS, TIME, WindowSettings};

/// Statistics of columns for each interval and key.
pub const KIND: ComponentKind = ComponentKind {
    name: "statistic",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Tells count, sum, mean, variance, smallest and largest value, quantiles and a histogram of columns, for each \
          interval of data time and each key. It hands on one row for each interval, key and measured column: \
          interval_start (not when everything is one interval), the columns of the key, measure (the name of the column), \
          count (of values), nulls (rows without a value), sum, mean, variance (the mean square of the distance from \
          the mean), min, max, a column for each quantile (p50, p99_9), and histogram. Everything but count and nulls is \
          null when there is no value. Sums are exact, mean and variance are rounded to about 15 digits. A quantile is \
          the smallest value that enough values do not exceed: exact among up to 64 values, beyond that the value told \
          is within 1/128 of it. Sum, min, max and quantiles are 64-bit numbers with a sign; one that does not fit \
          becomes the nearest that does, and is counted in values_saturated for sum, min and max. A histogram is text, \
          \"0:12 100:3\": the lowest value of each bucket that is not empty, and how many values are in it. A flow column \
          that the input lacks counts as null. Intervals are handed on when they close, the oldest first; within an \
          interval the keys ascend, nulls first, and measures come in the order of the parameter of. Rows whose \
          interval has closed are counted in rows_late_dropped.",
    parameters: PARAMETERS,
    configure,
};

const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "of",
        parameter_type: ParameterType::Texts,
        default: None,
        doc: "The columns that are measured: whole numbers of any width, with or without a sign.",
    },
    ParameterSpec {
        key: "by",
        parameter_type: ParameterType::Texts,
        default: Some("[]"),
        doc: "The columns of the key, as in [\"src_addr/24/48\", \"protocol\"]: addresses may be cut to a prefix, \
              \"src_addr/24\" cuts IPv4 addresses alone. With [] there is one group for each interval.",
    },
    ParameterSpec {
        key: "interval_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("60"),
        doc: "How long an interval is; 0 makes one interval of everything, which closes at the end.",
    },
    TIME,
    LATENESS,
    ParameterSpec {
        key: "quantiles",
        parameter_type: ParameterType::Texts,
        default: Some(r#"["p50", "p99"]"#),
        doc: "The quantiles, as in [\"0.5\", \"99%\", \"p99.9\"]; [] for none.",
    },
    ParameterSpec {
        key: "histogram",
        parameter_type: ParameterType::Choice(&["none", "linear", "log2"]),
        default: Some("\"none\""),
        doc: "Buckets of the histogram: none, linear for buckets of the same width, log2 for 0, 1, 2 to 3, 4 to 7 and so \
              on.",
    },
    ParameterSpec {
        key: "histogram_bucket_width",
        parameter_type: ParameterType::Integer(1, i64::MAX as u64),
        default: Some("100"),
        doc: "How wide the buckets of a linear histogram are.",
    },
    ParameterSpec {
        key: "histogram_buckets_max",
        parameter_type: ParameterType::Integer(1, 65_536),
        default: Some("1000"),
        doc: "How many buckets a linear histogram has at most on either side of 0; the outermost holds all that is beyond.",
    },
    ParameterSpec {
        key: "groups_max",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64 - 1),
        default: Some("10000"),
        doc: "How many groups there may be, those of all open intervals together.",
    },
    ParameterSpec {
        key: "when_full",
        parameter_type: ParameterType::Choice(&["shed"]),
        default: Some("\"shed\""),
        doc: "What happens when a row would open one group too many: the row is counted in rows_shed and dropped. Groups \
              that are there go on counting.",
    },
];

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let windows = WindowSettings::read(parameters, "interval_secs")?;
    let names = KeyNames::parse("by", &parameters.texts("by"))?;
    let wanted = wanted(parameters)?;
    let reserved = wanted.column_names();
    let is_reserved = |name: &&String| reserved.contains(name) || name.as_str() == INTERVAL_START;
    if let Some(name) = names.names().iter().find(is_reserved) {
        return Err(ParameterError::new("by", format!("'{name}' is the name of a column that this block hands on")));
    }
    let groups_max = parameters.integer("groups_max") as usize;
    Ok(Box::new(move |context| {
        let measured = Measured::new(wanted, context.counters.counter("values_saturated"));
        let grouping = Grouping::new(&windows, names, measured, groups_max, WhenFull::Shed, &context.counters);
        Ok(Built::Transform(Box::new(Statistic { grouping })))
    }))
}

fn wanted(parameters: &Parameters) -> Result<Wanted, ParameterError> {
    let measures = parameters.texts("of");
    if measures.is_empty() {
        return Err(ParameterError::new("of", "'of' names no column").with_hint("name columns, such as packets"));
    }
    let mut quantiles = Vec::new();
    for text in parameters.texts("quantiles") {
        let Some(quantile) = Quantile::parse(&text) else {
            let error = ParameterError::new("quantiles", format!("'{text}' is no quantile"));
            return Err(error.with_hint("write 0.99, 99% or p99, with up to nine places"));
        };
        if quantiles.contains(&quantile) {
            return Err(ParameterError::new("quantiles", format!("'{text}' is there twice")));
        }
        quantiles.push(quantile);
    }
    let histogram = match parameters.text("histogram") {
        "linear" => Some(Buckets::Linear {
            width: parameters.integer("histogram_bucket_width"),
            max: parameters.integer("histogram_buckets_max") as usize,
        }),
        "log2" => Some(Buckets::Log2),
        _ => None,
    };
    Ok(Wanted { measures, quantiles, histogram })
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
