//! What is measured of a group besides its usual sums.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{ColumnType, FlowBatch};

use super::sums::add_saturating;
use crate::Measure;

/// Adds the further measures of some flows to those of others. True when a sum is larger than 64 bits hold.
pub(super) fn join(measures: &[Measure], into: &mut [Option<u64>], more: &[Option<u64>]) -> bool {
    let mut is_over = false;
    for ((into, value), measure) in into.iter_mut().zip(more).zip(measures) {
        match (into, value) {
            (Some(into), Some(value)) => match measure {
                Measure::Sum(_) => is_over |= add_saturating(into, *value),
                Measure::Or(_) => *into |= value,
            },
            (none, value) => *none = none.or(*value),
        }
    }
    is_over
}

/// The numbers of further measures, of the rows of a batch.
pub(crate) struct MeasureColumns(Vec<Option<ArrayRef>>);

impl MeasureColumns {
    pub(crate) fn of(batch: &FlowBatch, measures: &[Measure]) -> Self {
        Self(measures.iter().map(|measure| batch.column(measure.column()).cloned()).collect())
    }

    /// The numbers of a row, put into `into`.
    #[inline]
    pub(crate) fn row(&self, row: usize, measures: &[Measure], into: &mut Vec<Option<u64>>) {
        into.clear();
        for (values, measure) in self.0.iter().zip(measures) {
            let values = values.as_ref().filter(|values| values.is_valid(row));
            into.push(values.and_then(|values| match measure.column().column_type() {
                ColumnType::U8 => Some(u64::from(values.as_primitive::<UInt8Type>().value(row))),
                ColumnType::U16 => Some(u64::from(values.as_primitive::<UInt16Type>().value(row))),
                ColumnType::U32 => Some(u64::from(values.as_primitive::<UInt32Type>().value(row))),
                ColumnType::U64 => Some(values.as_primitive::<UInt64Type>().value(row)),
                _ => None,
            }));
        }
    }
}
