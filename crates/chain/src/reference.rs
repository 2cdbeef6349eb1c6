//! What kinds of components there are, as text made of their own tables.

use std::fmt::Write;

use crate::registry::Role;
use crate::{AnyKind, ByteSize, OptionSpec, Registry, ValueType};

impl Role {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Transform => "transform",
            Self::Sink => "sink",
        }
    }
}

/// One line for each kind, sources first.
pub fn list(registry: &Registry) -> String {
    let mut text = String::new();
    for role in [Role::Source, Role::Transform, Role::Sink] {
        for kind in registry.kinds().filter(|kind| kind.role() == role) {
            let _ = writeln!(text, "{:<18} {:<7} {}", kind.name(), role.name(), first_sentence(kind.doc()));
        }
    }
    text
}

/// All about a kind, as Markdown.
pub fn page(kind: &dyn AnyKind) -> String {
    let mut text = format!("## {}\n\n", kind.name());
    let _ = match kind.inputs() {
        [] => writeln!(text, "A {}.\n", kind.role().name()),
        [_] => writeln!(text, "A {} with one input.\n", kind.role().name()),
        inputs => writeln!(text, "A {} with the inputs `{}`.\n", kind.role().name(), inputs.join("`, `")),
    };
    let _ = writeln!(text, "{}\n", kind.doc().trim());
    let specs = kind.options();
    if specs.is_empty() {
        text.push_str("It has no options.\n");
        return text;
    }
    text.push_str("| option | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for spec in &specs {
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", spec.key, type_text(spec), default_text(spec), meaning(spec));
    }
    text
}

/// A page with all kinds, as Markdown.
pub fn pages(registry: &Registry) -> String {
    let mut text = String::new();
    for role in [Role::Source, Role::Transform, Role::Sink] {
        for kind in registry.kinds().filter(|kind| kind.role() == role) {
            text.push_str(&page(kind));
            text.push('\n');
        }
    }
    text
}

fn first_sentence(doc: &str) -> String {
    let doc = doc.trim().replace('\n', " ");
    doc.split_once(". ").map_or(doc.clone(), |(first, _)| format!("{first}."))
}

/// The documentation of an option, and that of the words it may be.
fn meaning(spec: &OptionSpec) -> String {
    let mut text = spec.doc.clone();
    if let ValueType::Choice(words) = single(&spec.value_type) {
        for (word, doc) in *words {
            let _ = write!(text, "<br>`{word}`: {}", doc.trim());
        }
    }
    text.replace('|', "\\|")
}

/// The type of one value of a list.
fn single(value_type: &ValueType) -> &ValueType {
    match value_type {
        ValueType::List(item) => item,
        other => other,
    }
}

fn type_text(spec: &OptionSpec) -> String {
    let one = match single(&spec.value_type) {
        ValueType::Text(_) => "text".to_owned(),
        ValueType::Choice(_) => "word".to_owned(),
        ValueType::Integer | ValueType::Size if spec.range.is_some() => range_text(spec),
        ValueType::Integer => "whole number".to_owned(),
        ValueType::Number => "number".to_owned(),
        ValueType::Duration => "duration".to_owned(),
        ValueType::Size => "size".to_owned(),
        ValueType::Boolean => "`true` or `false`".to_owned(),
        ValueType::Path => "path".to_owned(),
        ValueType::List(_) => "list".to_owned(),
    };
    if matches!(spec.value_type, ValueType::List(_)) { format!("list: {one}") } else { one }
}

fn range_text(spec: &OptionSpec) -> String {
    let range = spec.range.clone().unwrap_or(0..=u64::MAX);
    let (min, max) = range.into_inner();
    match spec.value_type {
        ValueType::Size if max > 1 << 50 => "size".to_owned(),
        ValueType::Size => format!("size, {} to {}", ByteSize::from_bytes(min), ByteSize::from_bytes(max)),
        _ if max >= 1 << 40 => format!("whole number from {min}"),
        _ => format!("whole number, {min} to {max}"),
    }
}

fn default_text(spec: &OptionSpec) -> String {
    match &spec.default {
        _ if spec.is_required => "must be given".to_owned(),
        None => "none".to_owned(),
        Some(text) => format!("`{text}`"),
    }
}
