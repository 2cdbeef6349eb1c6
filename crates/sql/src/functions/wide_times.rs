//! `date_bin`, `date_trunc` and `to_char` of all times that a flow can have.
//!
//! Times are milliseconds, and any sender can say that a flow began in the year 146,000,000. `DataFusion` computes these functions in
//! nanoseconds, which end in 2262, so one such flow made statements fail that cut the times of all others into hours. Here `date_bin` and
//! `to_char` take milliseconds as they are, and give them back. Times beyond the nanoseconds are computed apart: steps of a fixed
//! length by arithmetic, local days and months up to the year 9999, where the calendar of [`times`](super::times) ends; the rest is null.
//! Times of other types, and what is wrong with arguments, are left to `DataFusion`. The order of its results is not: a null is
//! in no order with the times around it.

use std::sync::Arc;

use arrow::array::{AsArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit, TimestampMillisecondType};
use arrow::temporal_conversions::as_datetime;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature,
};
use jiff::tz::TimeZone;

use super::times::{Buckets, Width};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
const DAY_NS: i128 = 86_400_000_000_000;
const MS_NS: i128 = 1_000_000;
/// Milliseconds whose nanoseconds fit into 64 bits, as do those of the year that they are in (1678) and of their local day (2262).
const NANOSECONDS_MS: std::ops::Range<i64> = -9_214_560_000_000..9_223_372_036_854 - DAY_MS;

/// Puts the functions in place of those of the session.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for (name, kind) in [("date_bin", Kind::Bin), ("date_trunc", Kind::Trunc), ("to_char", Kind::Text)] {
        let function = WideTimes::new(state.udf(name)?, kind);
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// `date_bin(step, time [, origin])`.
    Bin,
    /// `date_trunc(unit, time)`.
    Trunc,
    /// `to_char(time, pattern)`.
    Text,
}

impl Kind {
    /// Which argument the time is.
    fn place(self) -> usize {
        usize::from(self != Self::Text)
    }

    /// Whether `DataFusion` computes a time.
    fn is_computed(self, ms: i64) -> bool {
        match self {
            Self::Bin | Self::Trunc => NANOSECONDS_MS.contains(&ms),
            // in whatever zone
            Self::Text => [-DAY_MS, DAY_MS]
                .into_iter()
                .all(|offset| ms.checked_add(offset).and_then(as_datetime::<TimestampMillisecondType>).is_some()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WideTimes {
    inner: Arc<ScalarUDF>,
    kind: Kind,
    signature: Signature,
}

impl WideTimes {
    fn new(inner: Arc<ScalarUDF>, kind: Kind) -> Self {
        let given = inner.signature();
        let signature = match &given.type_signature {
            // its forms begin with nanoseconds, which milliseconds would be cast to
            TypeSignature::OneOf(forms) if kind != Kind::Trunc => {
                let forms = std::iter::once(TypeSignature::UserDefined).chain(forms.iter().cloned());
                Signature::one_of(forms.collect(), given.volatility)
            }
            _ => given.clone(),
        };
        Self { inner, kind, signature }
    }
}

impl ScalarUDFImpl for WideTimes {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The form for milliseconds.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let zone = match types.get(self.kind.place()) {
            Some(DataType::Timestamp(TimeUnit::Millisecond, zone)) => zone.clone(),
            _ => return plan_err!("{} of no milliseconds", self.name()),
        };
        let mut taken = types.to_vec();
        match (self.kind, taken.as_mut_slice()) {
            (Kind::Bin, [step, _, origin @ ..]) if origin.len() <= 1 => {
                if *step != DataType::Interval(IntervalUnit::DayTime) {
                    *step = DataType::Interval(IntervalUnit::MonthDayNano);
                }
                for origin in origin.iter_mut() {
                    *origin = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
                }
            }
            (Kind::Text, [_, pattern]) => *pattern = DataType::Utf8,
            _ => return plan_err!("{} has other arguments", self.name()),
        }
        Ok(taken)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let Some(time) = arguments.args.get(self.kind.place()) else {
            return self.inner.invoke_with_args(arguments);
        };
        let DataType::Timestamp(TimeUnit::Millisecond, zone) = time.data_type() else {
            return self.inner.invoke_with_args(arguments);
        };
        let times = time.to_array(rows)?;
        let times = times.as_primitive::<TimestampMillisecondType>();
        if times.iter().flatten().all(|ms| self.kind.is_computed(ms)) {
            return self.inner.invoke_with_args(arguments);
        }
        let mut far = FarTimes::of(self.kind, &arguments.args, zone.as_deref());
        let near = times.iter().map(|time| time.filter(|ms| self.kind.is_computed(*ms)));
        let near = array_of(near, zone.clone());
        if let Some(time) = arguments.args.get_mut(self.kind.place()) {
            *time = value_of(near, is_scalar)?;
        }
        let result = self.inner.invoke_with_args(arguments)?.into_array(rows)?;
        let Some(known) = result.as_primitive_opt::<TimestampMillisecondType>() else {
            return if is_scalar {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
            } else {
                Ok(ColumnarValue::Array(result))
            };
        };
        let starts = times.iter().zip(known).map(|(time, known)| match time {
            Some(ms) if !self.kind.is_computed(ms) => far.start(ms),
            _ => known,
        });
        value_of(array_of(starts, zone), is_scalar)
    }
}

fn array_of(times: impl ExactSizeIterator<Item = Option<i64>>, zone: Option<Arc<str>>) -> TimestampMillisecondArray {
    let mut array = TimestampMillisecondArray::builder(times.len());
    times.for_each(|time| array.append_option(time));
    array.finish().with_timezone_opt(zone)
}

fn value_of(times: TimestampMillisecondArray, is_scalar: bool) -> Result<ColumnarValue> {
    if is_scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?));
    }
    Ok(ColumnarValue::Array(Arc::new(times)))
}

/// How times are computed that `DataFusion` does not compute.
enum FarTimes {
    /// Not at all.
    Unknown,
    /// Steps of a fixed length, from an origin, both in nanoseconds.
    Steps {
        step: i128,
        origin: i128,
    },
    Calendar(Box<Buckets>),
}

impl FarTimes {
    fn of(kind: Kind, arguments: &[ColumnarValue], zone: Option<&str>) -> Self {
        let scalar = |place: usize| match arguments.get(place) {
            Some(ColumnarValue::Scalar(value)) => Some(value),
            _ => None,
        };
        match kind {
            Kind::Bin => {
                let origin = match scalar(2) {
                    None => Some(0),
                    Some(ScalarValue::TimestampNanosecond(origin, _)) => origin.map(i128::from),
                    Some(_) => None,
                };
                match (scalar(0).and_then(fixed_step), origin) {
                    (Some(step), Some(origin)) => Self::Steps { step, origin },
                    _ => Self::Unknown,
                }
            }
            Kind::Trunc => {
                let unit = scalar(0).and_then(|unit| unit.try_as_str().flatten());
                let (Some(width), Some(zone)) = (unit.and_then(width), zone_of(zone)) else { return Self::Unknown };
                let is_utc = zone == TimeZone::UTC;
                match width {
                    // offsets are whole minutes
                    Width::Millis(ms) if is_utc || ms <= MINUTE_MS => {
                        Self::Steps { step: i128::from(ms) * MS_NS, origin: 0 }
                    }
                    Width::Days(days) if is_utc => Self::Steps { step: i128::from(days) * DAY_NS, origin: 0 },
                    width => Self::Calendar(Box::new(Buckets::new(width, zone))),
                }
            }
            Kind::Text => Self::Unknown,
        }
    }

    /// When the step begins that a time is in.
    fn start(&mut self, ms: i64) -> Option<i64> {
        match self {
            Self::Unknown => None,
            Self::Steps { step, origin } => {
                let time = i128::from(ms) * MS_NS;
                let start = time - (time - *origin).rem_euclid(*step);
                i64::try_from(start.div_euclid(MS_NS)).ok()
            }
            Self::Calendar(buckets) => buckets.start(ms),
        }
    }
}

/// The nanoseconds of an interval that is always as long.
fn fixed_step(interval: &ScalarValue) -> Option<i128> {
    let step = match interval {
        ScalarValue::IntervalMonthDayNano(Some(step)) if step.months == 0 => {
            i128::from(step.days) * DAY_NS + i128::from(step.nanoseconds)
        }
        ScalarValue::IntervalDayTime(Some(step)) => {
            i128::from(step.days) * DAY_NS + i128::from(step.milliseconds) * MS_NS
        }
        _ => return None,
    };
    (step > 0).then_some(step)
}

/// How wide the buckets of a unit of `date_trunc` are.
fn width(unit: &str) -> Option<Width> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "microsecond" | "millisecond" => Width::Millis(1),
        "second" => Width::Millis(1_000),
        "minute" => Width::Millis(MINUTE_MS),
        "hour" => Width::Millis(3_600_000),
        "day" => Width::Days(1),
        "week" => Width::Weeks(1),
        "month" => Width::Months(1),
        "quarter" => Width::Months(3),
        "year" => Width::Months(12),
        _ => return None,
    })
}

/// The zone of a type; that of moments without one is UTC.
fn zone_of(name: Option<&str>) -> Option<TimeZone> {
    match name {
        None | Some("UTC" | "Z" | "+00" | "+00:00") => Some(TimeZone::UTC),
        Some(name) => TimeZone::get(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::SortOptions;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};

    use super::*;

    /// Times in order become steps with a null between them, where one is beyond the calendar.
    #[test]
    fn no_order_is_promised() {
        let mut state = SessionStateBuilder::new().with_default_features().build();
        register(&mut state).expect("registered");
        let of = |order| ExprProperties::new_unknown().with_order(order);
        let inputs = [of(SortProperties::Singleton), of(SortProperties::Ordered(SortOptions::default()))];
        for name in ["date_bin", "date_trunc"] {
            let function = state.udf(name).expect("a function");
            assert_eq!(function.output_ordering(&inputs).expect("an order"), SortProperties::Unordered, "{name}");
        }
    }
}
