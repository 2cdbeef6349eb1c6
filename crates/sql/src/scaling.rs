//! Counts as they were before sampling: the columns `bytes_scaled` and `packets_scaled` of `flows`.
//!
//! They are no columns of the archive. `flows` is a view over what is kept, and the two are computed when somebody asks
//! for them, from the interval that the exporter reported or from a table of corrections. So a correction holds for the
//! past too, and a question that does not ask for them pays nothing.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{DataType, TimestampMillisecondType, UInt32Type, UInt64Type};
use arrow::error::ArrowError;
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
const DECIDING: &[Column] = &[
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

/// Whether a column is a count that is scaled.
pub(crate) fn is_scaled(column: Column) -> bool {
    SCALED.iter().any(|(_, scaled)| *scaled == column)
}

/// The columns that decide about the factor of a flow.
pub(crate) fn deciding(corrections: &Corrections) -> &'static [Column] {
    if corrections.is_empty() { &DECIDING[..1] } else { DECIDING }
}

/// A batch of flows whose `bytes` and `packets`, where it has them, are the scaled ones. Of the columns that [decide](deciding) those
/// that are absent are null throughout.
pub(crate) fn scaled(flows: &RecordBatch, corrections: &Corrections) -> Result<RecordBatch, ArrowError> {
    let values = |column: Column| flows.column_by_name(column.name());
    let numbers = |column: Column| values(column).and_then(|values| values.as_primitive_opt::<UInt32Type>());
    let columns = ScalingColumns {
        interval: numbers(Column::SamplingInterval),
        exporter: values(Column::Exporter).and_then(|values| values.as_binary_opt()),
        domain: numbers(Column::ObservationDomain),
        sampler: numbers(Column::SamplerId),
        in_if: numbers(Column::InIf),
        received: values(Column::Received).and_then(|values| values.as_primitive_opt::<TimestampMillisecondType>()),
    };
    let factors = corrections.factors(flows.num_rows(), &columns);
    let counts = |name: &str| SCALED.iter().any(|(_, column)| column.name() == name);
    let seen = flows.schema_ref().fields().iter().zip(flows.columns()).map(|(field, values)| {
        match values.as_primitive_opt::<UInt64Type>().filter(|_| counts(field.name())) {
            Some(counts) => Arc::new(multiplied(counts, &factors)) as ArrayRef,
            None => Arc::clone(values),
        }
    });
    // flows may have none of the columns
    let options = RecordBatchOptions::new().with_row_count(Some(flows.num_rows()));
    RecordBatch::try_new_with_options(flows.schema(), seen.collect(), &options)
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
        std::iter::once(&column).chain(deciding(corrections)).map(|column| ident(column.name())).collect()
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
        Ok(ColumnarValue::Array(Arc::new(multiplied(counts, &factors))))
    }
}

/// Counts, each times its factor.
fn multiplied(counts: &UInt64Array, factors: &Float64Array) -> UInt64Array {
    let scale = |(count, factor): (&u64, &f64)| match factor.fract() {
        // whole factors, which most are, keep every digit
        0.0 => count.saturating_mul(*factor as u64),
        _ => (*count as f64 * factor).round() as u64,
    };
    let values: Vec<u64> = counts.values().iter().zip(factors.values()).map(scale).collect();
    UInt64Array::new(values.into(), counts.nulls().cloned())
}
