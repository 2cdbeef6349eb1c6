//! `sum`, which stops at the ends of its type.
//!
//! Counters of flows come from the network, and four of them are enough to pass 2^64. `DataFusion`'s sum of whole numbers
//! begins again at zero there; this one stays at the largest number, or the smallest, as the sums of `weir_query` do. So do
//! sums of decimals, at the largest number that has their digits: 38 for products of counters. Sums
//! of numbers without a sign are the same in whatever order rows come; those of numbers with a sign may depend on it, once
//! they have met an end. Other types are summed as `DataFusion` does.
//!
//! An answer with such a sum is not right, and must not pass for one: the function of a statement has a flag, which is set
//! where a sum meets an end. That costs nothing while sums fit. It is set for all sums that an answer was made of, also those of groups
//! that a later step of the statement leaves out.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, FieldRef, Int64Type, MAX_DECIMAL128_FOR_EACH_PRECISION, UInt64Type, i256,
};
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
        match self.exact(&arguments) {
            Some(accumulator) => Ok(accumulator),
            None => self.inner.accumulator(arguments),
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
        let of = arguments.return_field.data_type();
        match of {
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
            DataType::Decimal128(..) => {
                let (smallest, largest) = ends(of);
                Ok(Box::new(PrimitiveGroupsAccumulator::<Decimal128Type, _>::new(of, move |sum, value| {
                    let more = sum.checked_add(value).filter(|more| (smallest..=largest).contains(more));
                    if let Some(more) = more {
                        *sum = more;
                    } else {
                        *sum = if value < 0 { smallest } else { largest };
                        saturation.set();
                    }
                })))
            }
            _ => self.inner.create_groups_accumulator(arguments),
        }
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.exact(&arguments) {
            Some(accumulator) => Ok(accumulator),
            None => self.inner.create_sliding_accumulator(arguments),
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

impl SaturatingSum {
    /// The accumulator of a type whose sums would begin again at the other end; it takes rows back, too.
    fn exact(&self, arguments: &AccumulatorArgs) -> Option<Box<dyn Accumulator>> {
        let (of, is_distinct) = (arguments.return_field.data_type(), arguments.is_distinct);
        match of {
            DataType::UInt64 => Some(accumulator::<UInt64Type>(of, is_distinct, &self.saturation)),
            DataType::Int64 => Some(accumulator::<Int64Type>(of, is_distinct, &self.saturation)),
            DataType::Decimal128(..) => Some(accumulator::<Decimal128Type>(of, is_distinct, &self.saturation)),
            _ => None,
        }
    }
}

fn accumulator<T: ArrowPrimitiveType>(
    of: &DataType,
    is_distinct: bool,
    saturation: &SaturationFlag,
) -> Box<dyn Accumulator>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    if is_distinct {
        Box::new(DistinctSum::<T>::new(of, saturation))
    } else {
        Box::new(WideSum::<T>::new(of, saturation))
    }
}

/// The smallest and the largest number of a type.
fn ends(of: &DataType) -> (i128, i128) {
    match of {
        DataType::UInt64 => (0, u64::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::Decimal128(digits, _) => {
            let largest = MAX_DECIMAL128_FOR_EACH_PRECISION.get(usize::from(*digits)).copied().unwrap_or(i128::MAX);
            (-largest, largest)
        }
        _ => (i128::MIN, i128::MAX),
    }
}

/// The number of a type that is nearest to a sum; the flag is set when it is another one.
fn nearest<T: ArrowPrimitiveType>(sum: i256, of: &DataType, saturation: &SaturationFlag) -> Result<ScalarValue>
where
    T::Native: TryFrom<i128>,
{
    let (smallest, largest) = ends(of);
    let number = sum.to_i128().filter(|sum| (smallest..=largest).contains(sum)).unwrap_or_else(|| {
        saturation.set();
        if sum.is_negative() { smallest } else { largest }
    });
    ScalarValue::new_primitive::<T>(T::Native::try_from(number).ok(), of)
}

/// The values of an array of numbers that are not null.
fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> impl Iterator<Item = i128>
where
    T::Native: Into<i128>,
{
    array.as_primitive::<T>().iter().flatten().map(Into::into)
}

/// The sum of an array.
fn total<T: ArrowPrimitiveType>(array: &ArrayRef) -> i256
where
    T::Native: Into<i128>,
{
    // numbers of 128 bits are added several times as fast, and their sum seldom does not fit
    let (mut total, mut part) = (i256::ZERO, 0_i128);
    for value in values::<T>(array) {
        if let Some(more) = part.checked_add(value) {
            part = more;
        } else {
            total = total.wrapping_add(i256::from_i128(part));
            part = value;
        }
    }
    total.wrapping_add(i256::from_i128(part))
}

/// A sum that is exact until it is asked for: 2^64 rows of the largest number fit.
struct WideSum<T> {
    sum: i256,
    rows: u64,
    of: DataType,
    saturation: SaturationFlag,
    kind: PhantomData<fn() -> T>,
}

impl<T> WideSum<T> {
    fn new(of: &DataType, saturation: &SaturationFlag) -> Self {
        Self { sum: i256::ZERO, rows: 0, of: of.clone(), saturation: saturation.clone(), kind: PhantomData }
    }
}

impl<T> Debug for WideSum<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} rows", self.sum, self.rows)
    }
}

impl<T: ArrowPrimitiveType> Accumulator for WideSum<T>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.sum = self.sum.wrapping_add(total::<T>(&arrays[0]));
        self.rows += (arrays[0].len() - arrays[0].null_count()) as u64;
        Ok(())
    }

    /// Takes rows back that a window has left behind.
    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.sum = self.sum.wrapping_sub(total::<T>(&arrays[0]));
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
        if self.rows == 0 {
            return ScalarValue::try_from(&self.of);
        }
        nearest::<T>(self.sum, &self.of, &self.saturation)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum in which each number counts once.
struct DistinctSum<T> {
    /// How many rows have each number: it counts until a window has left all of them behind.
    rows_of: HashMap<i128, u64>,
    sum: i256,
    of: DataType,
    saturation: SaturationFlag,
    kind: PhantomData<fn() -> T>,
}

impl<T> DistinctSum<T> {
    fn new(of: &DataType, saturation: &SaturationFlag) -> Self {
        Self {
            rows_of: HashMap::new(),
            sum: i256::ZERO,
            of: of.clone(),
            saturation: saturation.clone(),
            kind: PhantomData,
        }
    }

    fn add(&mut self, number: i128) {
        let rows = self.rows_of.entry(number).or_default();
        if *rows == 0 {
            self.sum = self.sum.wrapping_add(i256::from_i128(number));
        }
        *rows += 1;
    }

    fn take_back(&mut self, number: i128) {
        let Entry::Occupied(mut rows) = self.rows_of.entry(number) else { return };
        *rows.get_mut() -= 1;
        if *rows.get() == 0 {
            rows.remove();
            self.sum = self.sum.wrapping_sub(i256::from_i128(number));
        }
    }
}

impl<T> Debug for DistinctSum<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} numbers", self.rows_of.len())
    }
}

impl<T: ArrowPrimitiveType> Accumulator for DistinctSum<T>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        values::<T>(&arrays[0]).for_each(|number| self.add(number));
        Ok(())
    }

    /// Takes rows back that a window has left behind.
    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        values::<T>(&arrays[0]).for_each(|number| self.take_back(number));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            values::<T>(&list).for_each(|number| self.add(number));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers = self.rows_of.keys().map(|number| {
            // the state has the numbers themselves, which are those of the type
            nearest::<T>(i256::from_i128(*number), &self.of, &self.saturation)
        });
        let numbers = numbers.collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &self.of))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.rows_of.is_empty() {
            return ScalarValue::try_from(&self.of);
        }
        nearest::<T>(self.sum, &self.of, &self.saturation)
    }

    fn size(&self) -> usize {
        // the table has an octet for each place, and leaves one of eight places free
        let places = self.rows_of.capacity() * 8 / 7;
        size_of_val(self) + places * (size_of::<(i128, u64)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_distinct_sum_is_counted_as_it_is_allocated() {
        let mut sum = DistinctSum::<UInt64Type>::new(&DataType::UInt64, &SaturationFlag::default());
        (0..1000).for_each(|number| sum.add(number));
        // of 1,024 places, 896 would be used at most
        assert!(sum.size() >= 2048 * (32 + 1), "{} octets", sum.size());
    }
}
