//! Information Elements without a column of their own, as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use datafusion::common::{Result, plan_err};
use weir_flow::element_by_name;
use weir_flow::elements::elements_of_row;
use weir_flow::registry::{self, DataType};
use weir_print::push_element_value;

/// `element(elements, 'name')` or `element(elements, 'enterprise/id')`: the value as text, null where the flow has no
/// such element. When a flow has it more than once, the first.
pub(super) fn element(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &arguments[0];
    let names: &StringArray = arguments[1].as_string();
    let mut known: Option<(&str, Key)> = None;
    let mut texts = StringBuilder::with_capacity(column.len(), column.len() * 8);
    let mut text = String::new();
    for row in 0..column.len() {
        if names.is_null(row) {
            texts.append_null();
            continue;
        }
        let name = names.value(row);
        let key = match known {
            Some((known, key)) if known == name => key,
            _ => Key::parse(name)?,
        };
        known = Some((name, key));
        let values = elements_of_row(column, row);
        match values.iter().find(|value| (value.enterprise, value.id) == (key.enterprise, key.id)) {
            Some(value) => {
                text.clear();
                push_element_value(&mut text, key.data_type, value.octets);
                texts.append_value(&text);
            }
            None => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

#[derive(Clone, Copy)]
struct Key {
    enterprise: u32,
    id: u16,
    data_type: DataType,
}

impl Key {
    fn parse(name: &str) -> Result<Self> {
        if let Some(element) = element_by_name(name) {
            return Ok(Self { enterprise: element.enterprise, id: element.id, data_type: element.data_type });
        }
        let (enterprise, id) = name.split_once('/').unwrap_or(("0", name));
        let (Ok(enterprise), Ok(id)) = (enterprise.trim().parse(), id.trim().parse()) else {
            return plan_err!(
                "'{}' is no Information Element\nhint: write a registered name, or 'enterprise/number' as in '9/12235'",
                name.escape_debug()
            );
        };
        let data_type = registry::element(enterprise, id).map_or(DataType::OctetArray, |element| element.data_type);
        Ok(Self { enterprise, id, data_type })
    }
}
