//! Information Elements without a column of their own, as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use datafusion::common::{Result, plan_err};
use weir_flow::{Column, NamedElement};
use weir_print::element_texts;

/// `element(elements, 'name')` or `element(elements, 'enterprise/id')`: the value as text, null where the flow has no
/// such element. When a flow has it more than once, the first.
pub(super) fn element(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &arguments[0];
    let names: &StringArray = arguments[1].as_string();
    if let Some(name) = only(names) {
        return Ok(Arc::new(element_texts(column, &parse(name)?)));
    }
    let mut texts = StringBuilder::with_capacity(column.len(), column.len() * 8);
    for row in 0..column.len() {
        if names.is_null(row) {
            texts.append_null();
            continue;
        }
        let found = element_texts(&column.slice(row, 1), &parse(names.value(row))?);
        texts.append_option(found.iter().next().flatten());
    }
    Ok(Arc::new(texts.finish()))
}

/// The name, when it is the same for all rows.
fn only(names: &StringArray) -> Option<&str> {
    let first = (!names.is_empty() && names.null_count() == 0).then(|| names.value(0))?;
    names.iter().all(|name| name == Some(first)).then_some(first)
}

fn parse(name: &str) -> Result<NamedElement> {
    if let Some(element) = NamedElement::parse(name) {
        return Ok(element);
    }
    if let Some(column) = Column::by_name(name) {
        return plan_err!("'{0}' is a column, and no Information Element\nhint: write {0} alone", column.name());
    }
    plan_err!(
        "'{}' is no Information Element\nhint: write a registered name, or 'enterprise/number' as in '9/12235'",
        name.escape_debug()
    )
}
