//! `sum`, which stops at the ends of its type.
//!
//! Counters of flows come from the network, and four of them are enough to pass 2^64. `DataFusion`'s sum of whole numbers
//! begins again at zero there; this one stays at the largest number, or the smallest, as the sums of `weir_query` do. Sums
//! of numbers without a sign are the same in whatever order rows come; those of numbers with a sign may depend on it, once
//! they have met an end. Other types are summed as `DataFusion` does.
//!
//! An answer with such a sum is not right, and must not pass for one: the function of a statement has a flag, which is set
//! where a sum meets an end. That costs nothing while sums fit. It is set for all sums that an answer was made of, also those of groups
//! that a later step of the statement leaves out.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use weir_query::SaturationFlag;

/// The function that takes the place of `sum` in a statement, and sets its flag.
pub(crate) fn saturating_sum(saturation: &SaturationFlag) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(SaturatingSum { inner: sum_udaf(), saturation: saturation.clone() }))
}

#[derive(Debug)]
struct SaturatingSum {
    inner: Arc<AggregateUDF>,
    /// Set when a sum does not fit.
    saturation: SaturationFlag,
}

/// Those of two statements are the same function: what one has of history serves the other.
impl PartialEq for SaturatingSum {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for SaturatingSum {}

impl Hash for SaturatingSum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl AggregateUDFImpl for SaturatingSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (arguments.return_field.data_type(), arguments.is_distinct) {
            (DataType::UInt64, false) => Ok(Box::new(WideSum::<UInt64Type>::new(&self.saturation))),
            (DataType::Int64, false) => Ok(Box::new(WideSum::<Int64Type>::new(&self.saturation))),
            (DataType::UInt64, true) => Ok(Box::new(DistinctSum::<UInt64Type>::new(&self.saturation))),
            (DataType::Int64, true) => Ok(Box::new(DistinctSum::<Int64Type>::new(&self.saturation))),
            _ => self.inner.accumulator(arguments),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let saturation = self.saturation.clone();
        match arguments.return_field.data_type() {
            DataType::UInt64 => {
                Ok(Box::new(PrimitiveGroupsAccumulator::<UInt64Type, _>::new(&DataType::UInt64, move |sum, value| {
                    if let Some(more) = sum.checked_add(value) {
                        *sum = more;
                    } else {
                        *sum = sum.saturating_add(value);
                        saturation.set();
                    }
                })))
            }
            DataType::Int64 => {
                Ok(Box::new(PrimitiveGroupsAccumulator::<Int64Type, _>::new(&DataType::Int64, move |sum, value| {
                    if let Some(more) = sum.checked_add(value) {
                        *sum = more;
                    } else {
                        *sum = sum.saturating_add(value);
                        saturation.set();
                    }
                })))
            }
            _ => self.inner.create_groups_accumulator(arguments),
        }
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (arguments.return_field.data_type(), arguments.is_distinct) {
            (DataType::UInt64, false) => Ok(Box::new(WideSum::<UInt64Type>::new(&self.saturation))),
            (DataType::Int64, false) => Ok(Box::new(WideSum::<Int64Type>::new(&self.saturation))),
            _ => self.inner.create_sliding_accumulator(arguments),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn value_from_stats(&self, arguments: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// A sum that is exact until it is asked for: 2^63 rows of the largest number fit.
struct WideSum<T> {
    sum: i128,
    rows: u64,
    saturation: SaturationFlag,
    of: PhantomData<fn() -> T>,
}

impl<T> WideSum<T> {
    fn new(saturation: &SaturationFlag) -> Self {
        Self { sum: 0, rows: 0, saturation: saturation.clone(), of: PhantomData }
    }
}

impl<T> Debug for WideSum<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} rows", self.sum, self.rows)
    }
}

/// The number of a type that is nearest to a sum; the flag is set when it is another one.
fn nearest<T: ArrowPrimitiveType>(sum: i128, saturation: &SaturationFlag) -> Result<ScalarValue>
where
    T::Native: TryFrom<i128> + Bounds,
{
    let end = if sum < 0 { T::Native::SMALLEST } else { T::Native::LARGEST };
    let number = T::Native::try_from(sum).unwrap_or_else(|_| {
        saturation.set();
        end
    });
    ScalarValue::new_primitive::<T>(Some(number), &T::DATA_TYPE)
}

/// The ends of a type.
trait Bounds {
    const SMALLEST: Self;
    const LARGEST: Self;
}

impl Bounds for u64 {
    const SMALLEST: Self = u64::MIN;
    const LARGEST: Self = u64::MAX;
}

impl Bounds for i64 {
    const SMALLEST: Self = i64::MIN;
    const LARGEST: Self = i64::MAX;
}

/// The values of an array of whole numbers that are not null.
fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> impl Iterator<Item = i128>
where
    T::Native: Into<i128>,
{
    array.as_primitive::<T>().iter().flatten().map(Into::into)
}

impl<T: ArrowPrimitiveType> Accumulator for WideSum<T>
where
    T::Native: Into<i128> + TryFrom<i128> + Bounds,
{
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.sum += values::<T>(&arrays[0]).sum::<i128>();
        self.rows += (arrays[0].len() - arrays[0].null_count()) as u64;
        Ok(())
    }

    /// Takes rows back that a window has left behind.
    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.sum -= values::<T>(&arrays[0]).sum::<i128>();
        self.rows -= (arrays[0].len() - arrays[0].null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.rows == 0 { ScalarValue::try_from(&T::DATA_TYPE) } else { nearest::<T>(self.sum, &self.saturation) }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum in which each number counts once.
struct DistinctSum<T> {
    numbers: HashSet<i128>,
    saturation: SaturationFlag,
    of: PhantomData<fn() -> T>,
}

impl<T> DistinctSum<T> {
    fn new(saturation: &SaturationFlag) -> Self {
        Self { numbers: HashSet::new(), saturation: saturation.clone(), of: PhantomData }
    }
}

impl<T> Debug for DistinctSum<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} numbers", self.numbers.len())
    }
}

impl<T: ArrowPrimitiveType> Accumulator for DistinctSum<T>
where
    T::Native: Into<i128> + TryFrom<i128> + Bounds,
{
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.numbers.extend(values::<T>(&arrays[0]));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().for_each(|list| self.numbers.extend(values::<T>(&list)));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers =
            self.numbers.iter().map(|number| nearest::<T>(*number, &self.saturation)).collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &T::DATA_TYPE))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.numbers.is_empty() {
            return ScalarValue::try_from(&T::DATA_TYPE);
        }
        nearest::<T>(self.numbers.iter().sum(), &self.saturation)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.numbers.capacity() * size_of::<(i128, u8)>()
    }
}
