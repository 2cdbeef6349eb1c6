//! nfdump's filters as functions of the columns that they read.
//!
//! A filter is evaluated in one place, by itself: in a scan, which finds it in such a call, or row by row where flows
//! are no longer those of the archive, because their counts are scaled for instance.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, ident,
};
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};

#[derive(Debug, PartialEq, Eq)]
struct FlowFilter {
    /// The engine takes calls for the same whose names and arguments are: so the name says which filter it is.
    name: String,
    predicate: Predicate,
    columns: Vec<Column>,
    signature: Signature,
}

impl Hash for FlowFilter {
    /// By the name, which is the text of the filter.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for FlowFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows));
        let columns = self.columns.iter().zip(arrays).map(|(column, array)| Ok((*column, array?)));
        let flows = FlowBatch::from_columns(rows, columns.collect::<Result<_>>()?)
            .map_err(|error| DataFusionError::External(error.into()))?;
        Ok(ColumnarValue::Array(Arc::new(self.predicate.mask(&flows))))
    }
}

/// Whether a filter takes a row of `flows`: true or false, never null.
pub fn filter_expr(predicate: &Predicate) -> Expr {
    // In the order of the schema, which batches of flows need.
    let columns: Vec<Column> = predicate.columns().into_iter().collect();
    let arguments = columns.iter().map(|column| ident(column.name())).collect();
    let signature = match columns.len() {
        0 => Signature::nullary(Volatility::Immutable),
        count => Signature::any(count, Volatility::Immutable),
    };
    let name = format!("flow_filter[{predicate}]");
    ScalarUDF::from(FlowFilter { name, predicate: predicate.clone(), columns, signature }).call(arguments)
}

/// The filter that a function is, when its arguments are the columns of flows that the filter reads.
pub(crate) fn filter_of(call: &ScalarFunction) -> Option<&Predicate> {
    let filter = call.func.inner().downcast_ref::<FlowFilter>()?;
    let is_of_column = |(argument, column): (&Expr, &Column)| match argument {
        Expr::Column(named) => named.name == column.name(),
        _ => false,
    };
    let are_columns =
        filter.columns.len() == call.args.len() && call.args.iter().zip(&filter.columns).all(is_of_column);
    are_columns.then_some(&filter.predicate)
}
