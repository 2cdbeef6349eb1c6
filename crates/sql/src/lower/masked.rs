//! Tests that are evaluated by the filter itself, as a function of the columns that they read.
//!
//! So every test that a collector can answer can be asked of an archive, with the same answer. What speaks against it
//! for the other tests is that no scan prunes by such a function.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, ident,
};
use weir_filter::{Predicate, Test};
use weir_flow::{Column, FlowBatch};

#[derive(Debug, PartialEq, Eq)]
struct Masked {
    /// The engine takes calls for the same whose names and arguments are: so the name says which test it is.
    name: String,
    predicate: Predicate,
    columns: Vec<Column>,
    signature: Signature,
}

impl Hash for Masked {
    /// By the name, which is the text of the test.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Masked {
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

/// Whether the test takes a row: true or false, never null.
pub(super) fn masked(test: &Test) -> Expr {
    let predicate = Predicate::Test(test.clone());
    // In the order of the schema, which batches of flows need.
    let columns: Vec<Column> = predicate.columns().into_iter().collect();
    let arguments = columns.iter().map(|column| ident(column.name())).collect();
    let signature = Signature::any(columns.len(), Volatility::Immutable);
    let name = format!("flow_filter[{predicate}]");
    ScalarUDF::from(Masked { name, predicate, columns, signature }).call(arguments)
}
