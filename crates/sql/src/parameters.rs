//! Parameters of a statement: `$1`, `$2` and so on.
//!
//! The engine infers the type of a parameter from what it is compared with. A value that comes as text without a type is
//! what a literal in quotes would be there: `src_addr = $1` takes an address, `protocol = $1` a name or a number, and
//! `LIMIT $1` a number, by the same rules as `'192.0.2.1'`, `'TCP'` and `10` in the text of a statement.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::{ParamValues, Result, ScalarValue, plan_err};
use datafusion::logical_expr::LogicalPlan;

/// Parameters that a statement may have.
const PARAMETERS_MAX: usize = 1 << 16;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValue {
    /// A value with a type.
    Typed(ScalarValue),
    /// Text of a value whose type follows from where it stands.
    Text(String),
}

/// What a statement takes and gives.
#[derive(Debug, Clone)]
pub struct StatementDescription {
    /// Columns of its answer.
    pub columns: SchemaRef,
    /// Its parameters by number; those whose type nothing says are text.
    pub parameters: Vec<FieldRef>,
}

/// The parameters of a plan; `declared` types of the caller win over those that the engine infers.
pub(crate) fn fields(plan: &LogicalPlan, declared: &[Option<DataType>]) -> Result<Vec<FieldRef>> {
    let inferred = plan.get_parameter_fields()?;
    let mut count = declared.len();
    for name in inferred.keys() {
        match number(name) {
            Some(position) if position < PARAMETERS_MAX => count = count.max(position + 1),
            _ => return plan_err!("a parameter is named {name}, and parameters are $1, $2 and so on"),
        }
    }
    let field = |position: usize| {
        let name = format!("${}", position + 1);
        let declared = declared.get(position).cloned().flatten().map(|kind| Arc::new(Field::new(&name, kind, true)));
        let inferred = || inferred.get(&name).cloned().flatten().filter(|field| field.data_type() != &DataType::Null);
        declared.or_else(inferred).unwrap_or_else(|| Arc::new(Field::new(&name, DataType::Utf8, true)))
    };
    Ok((0..count).map(field).collect())
}

/// The position of a parameter, from 0.
fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// The plan with values in place of parameters.
pub(crate) fn replaced(plan: LogicalPlan, values: &[ParameterValue]) -> Result<LogicalPlan> {
    let fields = fields(&plan, &[])?;
    if fields.len() > values.len() {
        return plan_err!("the statement has {} parameters, and {} values came", fields.len(), values.len());
    }
    let value = |(position, value): (usize, &ParameterValue)| match value {
        ParameterValue::Typed(value) => value.clone(),
        ParameterValue::Text(text) => literal(text, fields.get(position)),
    };
    let values: Vec<ScalarValue> = values.iter().enumerate().map(value).collect();
    plan.with_param_values(ParamValues::from(values))
}

/// The literal that a text is: a number where one is wanted, else text, which rules of literals understand or refuse.
fn literal(text: &str, field: Option<&FieldRef>) -> ScalarValue {
    let as_text = || ScalarValue::Utf8(Some(text.to_owned()));
    match field.map(|field| field.data_type()) {
        Some(kind) if kind.is_numeric() || kind == &DataType::Boolean => {
            ScalarValue::try_from_string(text.trim().to_owned(), kind).unwrap_or_else(|_| as_text())
        }
        _ => as_text(),
    }
}

/// The plan with nulls in place of parameters, to find out the types of its columns.
pub(crate) fn with_nulls(plan: LogicalPlan, parameters: &[FieldRef]) -> Result<LogicalPlan> {
    if parameters.is_empty() {
        return Ok(plan);
    }
    let nulls = parameters.iter().map(|field| ScalarValue::try_from(field.data_type())).collect::<Result<Vec<_>>>()?;
    plan.with_param_values(ParamValues::from(nulls))
}
