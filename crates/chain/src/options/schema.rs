//! A JSON schema of chain files, for editors: every kind of component with its options.

use serde_json::{Map, Value, json};

use super::{OptionSpec, ValueType};
use crate::{AnyKind, Registry, Role};

/// The schema of chain files whose components are of the kinds of a registry.
pub fn schema(registry: &Registry) -> Value {
    let kinds: Vec<Value> = registry.kinds().map(component).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir chain",
        "type": "object",
        "additionalProperties": false,
        "required": ["components"],
        "properties": {
            "name": { "type": "string", "description": "Name of the chain." },
            "burst_records": { "type": "integer", "minimum": 0, "description": "Rows of a burst, 0 for bursts as they come." },
            "queue_bursts": { "type": "integer", "minimum": 1, "description": "Bursts that a queue holds." },
            "components": { "type": "object", "additionalProperties": { "oneOf": kinds } },
        },
    })
}

/// The table of one component.
fn component(kind: &dyn AnyKind) -> Value {
    let specs = kind.options();
    let mut properties = Map::new();
    properties.insert("type".to_owned(), json!({ "const": kind.name() }));
    properties.insert("thread".to_owned(), json!({ "type": "string" }));
    let mut required = vec!["type"];
    if kind.role() != Role::Source {
        properties.insert("inputs".to_owned(), inputs(kind.inputs()));
        for key in ["burst_records", "queue_bursts"] {
            properties.insert(key.to_owned(), json!({ "type": "integer", "minimum": 0 }));
        }
        required.push("inputs");
    }
    required.extend(specs.iter().filter(|spec| spec.is_required).map(|spec| spec.key));
    properties.extend(specs.iter().map(|spec| (spec.key.to_owned(), option(spec))));
    json!({
        "title": kind.name(),
        "description": kind.doc(),
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn inputs(names: &[&str]) -> Value {
    let names_of_components = json!({ "type": ["string", "array"], "items": { "type": "string" } });
    match names {
        [_] => names_of_components,
        several => json!({
            "type": "object",
            "required": several,
            "properties": several.iter().map(|name| ((*name).to_owned(), names_of_components.clone())).collect::<Map<_, _>>(),
        }),
    }
}

/// The value of one option.
pub fn option(spec: &OptionSpec) -> Value {
    let mut schema = value(&spec.value_type);
    let fields = schema.as_object_mut().into_iter();
    for fields in fields {
        fields.insert("description".to_owned(), json!(spec.doc));
        if let Some(default) = spec.default.as_deref().and_then(default_value) {
            fields.insert("default".to_owned(), default);
        }
        if let (Some(range), ValueType::Integer) = (&spec.range, &spec.value_type) {
            fields.insert("minimum".to_owned(), json!(range.start()));
            fields.insert("maximum".to_owned(), json!(range.end()));
        }
    }
    schema
}

fn value(value_type: &ValueType) -> Value {
    match value_type {
        ValueType::Boolean => json!({ "type": "boolean" }),
        ValueType::Integer => json!({ "type": "integer", "minimum": 0 }),
        ValueType::Number => json!({ "type": "number" }),
        ValueType::Text(_) | ValueType::Path => json!({ "type": "string" }),
        ValueType::Choice(words) => json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() }),
        ValueType::Duration => json!({ "type": "string", "pattern": "^(0|([0-9.]+ *(ms|s|m|h|d|w|y) *)+)$" }),
        ValueType::Size => json!({ "type": "string", "pattern": "^(0|[0-9.]+ *(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB))$" }),
        ValueType::List(item) => {
            let item = value(item);
            json!({ "oneOf": [item, { "type": "array", "items": item }] })
        }
    }
}

/// A default as JSON; it was written as TOML.
fn default_value(text: &str) -> Option<Value> {
    let mut table = format!("value = {text}").parse::<toml::Table>().ok()?;
    Some(match table.remove("value")? {
        toml::Value::String(text) => json!(text),
        toml::Value::Integer(number) => json!(number),
        toml::Value::Float(number) => json!(number),
        toml::Value::Boolean(flag) => json!(flag),
        toml::Value::Array(values) => {
            json!(values.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>())
        }
        _ => return None,
    })
}
