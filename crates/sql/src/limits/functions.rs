//! Functions whose result can be larger than their arguments.
//!
//! Each is wrapped: the size of its result is worked out from the arguments before it is made. Where only a bound is
//! known (`replace` may find its text everywhere or nowhere), rows are cut into pieces whose bound is allowed, and what the
//! pieces became is added up.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit, TimestampNanosecondType};
use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::width::{octets, widest};
use super::{MemoryShares, too_large};

/// Octets that the result for some arguments has at most.
type Estimate = fn(&[ArrayRef]) -> u128;

/// The functions: their names, whether their estimate is what the result will have, and the estimate.
const GROWING: &[(&str, bool, Estimate)] = &[
    ("repeat", true, repeated),
    ("lpad", false, padded),
    ("rpad", false, padded),
    ("array_repeat", true, repeated),
    ("range", true, series),
    ("generate_series", true, series),
    ("array_resize", true, padded),
    ("replace", false, replaced),
    ("regexp_replace", false, replaced),
    ("array_to_string", false, joined),
    ("array_replace", false, replaced_in_list),
    ("array_replace_n", false, replaced_in_list),
    ("array_replace_all", false, replaced_in_list),
];

/// Puts the bounded functions in place of those of the session.
pub(crate) fn register(state: &mut SessionState, shares: MemoryShares) -> Result<()> {
    for (name, is_exact, estimate) in GROWING {
        let inner = state.udf(name)?;
        let bounded = Bounded { inner, is_exact: *is_exact, estimate: *estimate, octets_max: shares.batch };
        state.register_udf(Arc::new(ScalarUDF::from(bounded)))?;
    }
    Ok(())
}

/// A function whose result is bounded.
#[derive(Debug)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    is_exact: bool,
    estimate: Estimate,
    octets_max: usize,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.octets_max == other.octets_max
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.octets_max.hash(state);
    }
}

impl Bounded {
    fn refuse<T>(&self, octets: u128) -> Result<T> {
        Err(too_large(&format!("a result of {}()", self.name()), octets, self.octets_max))
    }

    /// The result for some rows, cut into pieces while the bound of a piece is too large; `made` is what other pieces
    /// have become.
    fn invoke_pieces(&self, arguments: ScalarFunctionArgs, made: &mut usize, into: &mut Vec<ArrayRef>) -> Result<()> {
        let rows = arguments.number_rows;
        let estimate = (self.estimate)(&arrays(&arguments.args, rows)?);
        if estimate > self.octets_max as u128 {
            if self.is_exact || rows < 2 {
                return self.refuse(estimate);
            }
            for (first, count) in [(0, rows / 2), (rows / 2, rows - rows / 2)] {
                let args = arguments.args.iter().map(|argument| match argument {
                    ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(first, count)),
                    scalar @ ColumnarValue::Scalar(_) => scalar.clone(),
                });
                let args = args.collect();
                let piece = ScalarFunctionArgs { args, number_rows: count, ..arguments.clone() };
                self.invoke_pieces(piece, made, into)?;
            }
            return Ok(());
        }
        let result = self.inner.invoke_with_args(arguments)?.into_array(rows)?;
        *made += octets(&result);
        if *made > self.octets_max {
            return self.refuse(*made as u128);
        }
        into.push(result);
        Ok(())
    }
}

impl ScalarUDFImpl for Bounded {
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
        self.inner.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(arguments, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let estimate = (self.estimate)(&arrays(&arguments.args, rows)?);
        if estimate <= self.octets_max as u128 {
            return self.inner.invoke_with_args(arguments);
        }
        if self.is_exact || rows < 2 {
            return self.refuse(estimate);
        }
        let (mut made, mut pieces) = (0, Vec::new());
        self.invoke_pieces(arguments, &mut made, &mut pieces)?;
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(arrow::compute::concat(&pieces)?))
    }
}

/// Arguments as arrays. A constant stays a single row: it is not repeated only to be looked at.
fn arrays(arguments: &[ColumnarValue], rows: usize) -> Result<Vec<ArrayRef>> {
    let array = |argument: &ColumnarValue| match argument {
        ColumnarValue::Array(values) => Ok(Arc::clone(values)),
        ColumnarValue::Scalar(value) => {
            let count =
                if arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_))) { rows } else { 1 };
            value.to_array_of_size(count)
        }
    };
    arguments.iter().map(array).collect()
}

/// Rows of the longest argument.
fn rows_of(arguments: &[ArrayRef]) -> usize {
    arguments.iter().map(arrow::array::Array::len).max().unwrap_or(0)
}

/// The value of a row, where a single row stands for all.
fn row_in(values: &ArrayRef, row: usize) -> usize {
    if values.len() == 1 { 0 } else { row }
}

/// The number of a row; 0 where it is null, negative or no number.
fn numbers(values: &ArrayRef) -> impl Fn(usize) -> u128 + '_ {
    let numbers = cast(values, &DataType::Int64).ok();
    move |row| {
        let Some(numbers) = &numbers else { return 0 };
        let (numbers, row) = (numbers.as_primitive::<Int64Type>(), row_in(values, row));
        if numbers.is_valid(row) { numbers.value(row).max(0) as u128 } else { 0 }
    }
}

/// The first argument as often as the second says.
fn repeated(arguments: &[ArrayRef]) -> u128 {
    let [values, counts, ..] = arguments else { return 0 };
    let count = numbers(counts);
    let rows = rows_of(arguments);
    if let Some(lengths) = text_lengths(values) {
        return (0..rows).map(|row| lengths[row_in(values, row)] as u128 * count(row)).sum();
    }
    let each = widest(values).max(1) as u128;
    (0..rows).map(|row| each * count(row)).sum()
}

/// Octets of each text; `None` of what is no text.
fn text_lengths(values: &ArrayRef) -> Option<Vec<usize>> {
    let texts = match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => cast(values, &DataType::LargeUtf8).ok()?,
        _ => return None,
    };
    Some(texts.as_string::<i64>().value_offsets().windows(2).map(|ends| (ends[1] - ends[0]) as usize).collect())
}

/// As many letters or values as the second argument says, each as large as the largest of the filling.
fn padded(arguments: &[ArrayRef]) -> u128 {
    let [values, counts, rest @ ..] = arguments else { return 0 };
    let is_text = text_lengths(values).is_some();
    let filling = if is_text { 4 } else { rest.iter().map(|values| widest(values)).max().unwrap_or(8).max(8) };
    let count = numbers(counts);
    let kept = octets(values) as u128;
    kept + (0..rows_of(arguments)).map(|row| filling as u128 * count(row)).sum::<u128>()
}

/// Numbers or times from the first to the second argument, by steps of the third; with one argument, from 0 to it.
fn series(arguments: &[ArrayRef]) -> u128 {
    let (start, stop) = match arguments {
        [stop] => (None, stop),
        [start, stop, ..] => (Some(start), stop),
        [] => return 0,
    };
    let step = arguments.get(2);
    let is_time = !stop.data_type().is_integer();
    let place = |values: &ArrayRef| -> Option<Vec<i128>> {
        if !is_time {
            let numbers = cast(values, &DataType::Int64).ok()?;
            return Some(numbers.as_primitive::<Int64Type>().iter().map(|number| number.unwrap_or(0).into()).collect());
        }
        let times = cast(values, &DataType::Timestamp(TimeUnit::Nanosecond, None)).ok()?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        Some(times.iter().map(|time| time.unwrap_or(0).into()).collect())
    };
    let steps: Vec<i128> = match step {
        None => vec![if is_time { DAY_NS } else { 1 }],
        Some(values) => match values.data_type() {
            DataType::Interval(_) => step_ns(values),
            _ => place(values).unwrap_or_default(),
        },
    };
    let (starts, stops) = (start.and_then(place).unwrap_or_else(|| vec![0]), place(stop).unwrap_or_default());
    let at = |values: &[i128], row: usize| values.get(if values.len() == 1 { 0 } else { row }).copied().unwrap_or(0);
    let count = |row| {
        let (span, step) = (at(&stops, row) - at(&starts, row), at(&steps, row));
        // a step of nothing is an error of the function, one of the other direction gives nothing
        if step == 0 || (span < 0) != (step < 0) { 1 } else { (span / step) as u128 + 1 }
    };
    (0..rows_of(arguments)).map(|row| 8 * count(row)).sum()
}

const DAY_NS: i128 = 86_400_000_000_000;

fn step_ns(values: &ArrayRef) -> Vec<i128> {
    let wide = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
    let Ok(steps) = cast(values, &wide) else { return Vec::new() };
    let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
    let nanos = steps.iter().map(|step| {
        step.map_or(0, |step| {
            let days = i128::from(step.months) * 28 + i128::from(step.days);
            days * DAY_NS + i128::from(step.nanoseconds)
        })
    });
    nanos.collect()
}

/// A text in which every piece that the second argument may match, empty ones between letters too, becomes the third,
/// which may repeat what was matched.
fn replaced(arguments: &[ArrayRef]) -> u128 {
    let [texts, _, by, ..] = arguments else { return 0 };
    let (Some(texts_octets), Some(by_octets)) = (text_lengths(texts), text_lengths(by)) else { return 0 };
    let each = |row| {
        let (text, by) = (texts_octets[row_in(texts, row)] as u128, by_octets[row_in(by, row)] as u128);
        (2 * text + 1) * (by + 1)
    };
    (0..rows_of(arguments)).map(each).sum()
}

/// The values of a list, with the second argument between them and the third in place of nulls.
fn joined(arguments: &[ArrayRef]) -> u128 {
    let [lists, between @ ..] = arguments else { return 0 };
    let all: usize = super::width::innermost(lists, 1).iter().sum();
    let beside: usize = between.iter().map(|values| widest(values)).sum();
    // a number is longer as text
    4 * octets(lists) as u128 + all as u128 * beside as u128
}

/// The values of a list, each of which may become the third argument.
fn replaced_in_list(arguments: &[ArrayRef]) -> u128 {
    let [lists, _, by, ..] = arguments else { return 0 };
    let all: usize = super::width::innermost(lists, 1).iter().sum();
    octets(lists) as u128 + all as u128 * widest(by) as u128
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use datafusion::common::ScalarValue;

    use super::*;

    fn text(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    fn number(numbers: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(numbers.to_vec()))
    }

    #[test]
    fn estimates_are_not_below_what_is_made() {
        assert_eq!(repeated(&[text(&["ab", "c"]), number(&[3, -1])]), 6);
        assert_eq!(repeated(&[text(&["ab"]), number(&[1, 2, 3])]), 12);
        assert!(padded(&[text(&["ab"]), number(&[100])]) >= 100);
        assert_eq!(series(&[number(&[1]), number(&[1_000_000_000_000])]), 8_000_000_000_000);
        assert_eq!(series(&[number(&[10]), number(&[0]), number(&[-5])]), 24);
        assert_eq!(series(&[number(&[10]), number(&[0])]), 8);
        assert!(replaced(&[text(&["aaa"]), text(&[""]), text(&["bb"])]) >= 11);
    }

    #[test]
    fn a_scalar_of_a_scalar_is_one_row() {
        let arguments =
            [ColumnarValue::Scalar(ScalarValue::from("x")), ColumnarValue::Scalar(ScalarValue::from(5_i64))];
        assert_eq!(repeated(&arrays(&arguments, 1).expect("arrays")), 5);
    }
}
