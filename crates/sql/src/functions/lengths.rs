//! Lengths of time as numbers.
//!
//! A difference of two times is a duration, which counts one unit; an interval has months, days and nanoseconds next to each
//! other. As in `PostgreSQL`, a month has 30 days and a day 24 hours where lengths are compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit,
};
use datafusion::common::{Result, plan_err};

const MS_NS: i128 = 1_000_000;
const DAY_NS: i128 = 86_400_000_000_000;
const MONTH_NS: i128 = 30 * DAY_NS;

/// The nanoseconds of a length of time, as decimals: those of 2^31 months have more than 64 bits.
pub(super) fn nanoseconds(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [lengths] = arguments else { return plan_err!("a length of time is one value") };
    let counted: Decimal128Array = match lengths.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            lengths.as_primitive::<IntervalYearMonthType>().unary(|months| i128::from(months) * MONTH_NS)
        }
        DataType::Interval(IntervalUnit::DayTime) => lengths
            .as_primitive::<IntervalDayTimeType>()
            .unary(|length| i128::from(length.days) * DAY_NS + i128::from(length.milliseconds) * MS_NS),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            lengths.as_primitive::<IntervalMonthDayNanoType>().unary(|length| {
                i128::from(length.months) * MONTH_NS + i128::from(length.days) * DAY_NS + i128::from(length.nanoseconds)
            })
        }
        DataType::Duration(unit) => {
            let unit_ns = unit_ns(*unit);
            cast(lengths, &DataType::Int64)?.as_primitive::<Int64Type>().unary(|count| i128::from(count) * unit_ns)
        }
        DataType::Null => Decimal128Array::new_null(lengths.len()),
        other => return plan_err!("{other} is no length of time"),
    };
    Ok(Arc::new(counted.with_precision_and_scale(38, 0)?))
}

/// The nanoseconds of a unit.
pub(super) fn unit_ns(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => MS_NS,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
