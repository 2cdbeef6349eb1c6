//! Counts as they were before sampling: the columns `bytes_scaled` and `packets_scaled` of `flows`.
//!
//! They are no columns of the archive. `flows` is a view over what is kept, and the two are computed when somebody asks
//! for them, from the interval that the exporter reported or from a table of corrections. So a correction holds for the
//! past too, and a question that does not ask for them pays nothing.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, TimestampMillisecondType, UInt32Type, UInt64Type};
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, ident,
};
use weir_flow::Column;
use weir_flow::scaling::{Corrections, ScalingColumns};

/// The columns of the view besides those that are kept, and what each is scaled from.
const SCALED: [(&str, Column); 2] = [("bytes_scaled", Column::Bytes), ("packets_scaled", Column::Packets)];

/// What decides about the factor of a flow. The interval comes first: without corrections nothing else is read.
const DECIDING: [Column; 6] = [
    Column::SamplingInterval,
    Column::Exporter,
    Column::ObservationDomain,
    Column::SamplerId,
    Column::InIf,
    Column::Received,
];

/// The view of flows: every column that is kept, and the scaled ones.
pub(crate) fn with_scaled(flows: DataFrame, corrections: &Arc<Corrections>) -> Result<LogicalPlan> {
    let scaled = Arc::new(ScalarUDF::from(Scaled::new(corrections)));
    let mut columns: Vec<Expr> = Column::ALL.iter().map(|column| ident(column.name())).collect();
    for (name, column) in SCALED {
        columns.push(scaled.call(Scaled::arguments(corrections, column)).alias(name));
    }
    Ok(flows.select(columns)?.into_unoptimized_plan())
}

/// Flows whose `bytes` and `packets` are the scaled ones.
pub(crate) fn in_place_of_counts(flows: DataFrame) -> Result<DataFrame> {
    SCALED.iter().try_fold(flows, |flows, (name, column)| flows.with_column(column.name(), ident(*name)))
}

/// A count, times the factor of its flow.
#[derive(Debug)]
struct Scaled {
    corrections: Arc<Corrections>,
    signature: Signature,
}

impl Scaled {
    fn new(corrections: &Arc<Corrections>) -> Self {
        let signature = Signature::any(Self::arguments(corrections, Column::Bytes).len(), Volatility::Immutable);
        Self { corrections: Arc::clone(corrections), signature }
    }

    fn arguments(corrections: &Corrections, column: Column) -> Vec<Expr> {
        let deciding = if corrections.is_empty() { &DECIDING[..1] } else { &DECIDING[..] };
        std::iter::once(&column).chain(deciding).map(|column| ident(column.name())).collect()
    }
}

/// Two are the same when they have the same table.
impl PartialEq for Scaled {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.corrections, &other.corrections)
    }
}

impl Eq for Scaled {}

impl Hash for Scaled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.corrections).hash(state);
    }
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &'static str {
        "scaled"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let Some(counts) = arrays.first().and_then(|counts| counts.as_primitive_opt::<UInt64Type>()) else {
            return Ok(ColumnarValue::Array(Arc::new(UInt64Array::new_null(rows))));
        };
        let numbers =
            |position: usize| arrays.get(position).and_then(|array: &ArrayRef| array.as_primitive_opt::<UInt32Type>());
        let columns = ScalingColumns {
            interval: numbers(1),
            exporter: arrays.get(2).and_then(|array| array.as_binary_opt()),
            domain: numbers(3),
            sampler: numbers(4),
            in_if: numbers(5),
            received: arrays.get(6).and_then(|array| array.as_primitive_opt::<TimestampMillisecondType>()),
        };
        let factors = self.corrections.factors(rows, &columns);
        let scale = |(count, factor): (&u64, &f64)| match factor.fract() {
            // whole factors, which most are, keep every digit
            0.0 => count.saturating_mul(*factor as u64),
            _ => (*count as f64 * factor).round() as u64,
        };
        let values: Vec<u64> = counts.values().iter().zip(factors.values()).map(scale).collect();
        Ok(ColumnarValue::Array(Arc::new(UInt64Array::new(values.into(), counts.nulls().cloned()))))
    }
}
