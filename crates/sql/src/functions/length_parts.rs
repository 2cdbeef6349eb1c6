//! `date_part` of differences of times.
//!
//! A difference of times is a duration, which has one unit. `DataFusion` takes the fraction of a second from nanoseconds in 32 bits,
//! so it lost that of all durations over two seconds, and counts microseconds in 32 bits. Here each part is the whole length in
//! that unit, cut, and `epoch` its seconds with their fraction. Other types are left to `DataFusion`.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::lengths::unit_ns;

const SECOND_NS: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * SECOND_NS;

/// Puts the function in place of that of the session.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    let inner = state.udf("date_part")?;
    state.register_udf(Arc::new(ScalarUDF::from(LengthParts { inner }))).map(drop)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LengthParts {
    inner: Arc<ScalarUDF>,
}

/// A part of a length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Seconds with their fraction.
    Epoch,
    /// So many nanoseconds each.
    Whole(i128),
}

impl Part {
    fn of(argument: Option<&ScalarValue>) -> Result<Self> {
        let text = argument.and_then(|value| value.try_as_str().flatten()).unwrap_or_default();
        let name = text.trim_matches(['\'', '"']);
        if name.eq_ignore_ascii_case("epoch") {
            return Ok(Self::Epoch);
        }
        Ok(Self::Whole(match IntervalUnit::from_str(name) {
            Ok(IntervalUnit::Week) => 7 * DAY_NS,
            Ok(IntervalUnit::Day) => DAY_NS,
            Ok(IntervalUnit::Hour) => 3_600 * SECOND_NS,
            Ok(IntervalUnit::Minute) => 60 * SECOND_NS,
            Ok(IntervalUnit::Second) => SECOND_NS,
            Ok(IntervalUnit::Millisecond) => unit_ns(TimeUnit::Millisecond),
            Ok(IntervalUnit::Microsecond) => unit_ns(TimeUnit::Microsecond),
            Ok(IntervalUnit::Nanosecond) => unit_ns(TimeUnit::Nanosecond),
            _ => {
                return plan_err!(
                    "a difference of times has no part '{}'\nhint: write week, day, hour, minute, second, millisecond, \
                     or epoch for its seconds with their fraction",
                    name.escape_debug()
                );
            }
        }))
    }

    fn returns(self) -> DataType {
        match self {
            Self::Epoch => DataType::Float64,
            Self::Whole(part_ns) if part_ns < SECOND_NS => DataType::Int64,
            Self::Whole(_) => DataType::Int32,
        }
    }

    /// This part of durations of a unit; null where it does not fit.
    fn of_durations(self, durations: &dyn Array, unit: TimeUnit) -> Result<ArrayRef> {
        let unit_ns = unit_ns(unit);
        let counts = cast(durations, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let whole = |count: i64, part_ns: i128| i128::from(count) * unit_ns / part_ns;
        Ok(match self {
            Self::Epoch => {
                let units_per_second = (SECOND_NS / unit_ns) as f64;
                let seconds: Float64Array = counts.unary(|count| count as f64 / units_per_second);
                Arc::new(seconds)
            }
            Self::Whole(part_ns) if part_ns < SECOND_NS => {
                let parts: Int64Array = counts.unary_opt(|count| i64::try_from(whole(count, part_ns)).ok());
                Arc::new(parts)
            }
            Self::Whole(part_ns) => {
                let parts: Int32Array = counts.unary_opt(|count| i32::try_from(whole(count, part_ns)).ok());
                Arc::new(parts)
            }
        })
    }
}

impl ScalarUDFImpl for LengthParts {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if let [_, length] = arguments.arg_fields
            && matches!(length.data_type(), DataType::Duration(_))
        {
            let part = Part::of(arguments.scalar_arguments.first().copied().flatten())?;
            return Ok(Arc::new(Field::new(self.name(), part.returns(), true)));
        }
        self.inner.return_field_from_args(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn preimage(&self, arguments: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.preimage(arguments, literal, info)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(part), length] = arguments.args.as_slice() else {
            return self.inner.invoke_with_args(arguments);
        };
        let DataType::Duration(unit) = length.data_type() else { return self.inner.invoke_with_args(arguments) };
        let part = Part::of(Some(part))?;
        match length {
            ColumnarValue::Array(lengths) => Ok(ColumnarValue::Array(part.of_durations(lengths, unit)?)),
            ColumnarValue::Scalar(length) => {
                let parts = part.of_durations(&length.to_array()?, unit)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&parts, 0)?))
            }
        }
    }
}
