//! What kinds of components there are, as text made of their own tables.

use std::fmt::Write;

use crate::registry::Role;
use crate::{ComponentKind, ParameterSpec, ParameterType, Registry};

impl Role {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Transform => "component",
            Self::Sink => "sink",
        }
    }
}

/// One line for each kind, sources first.
pub fn list(registry: &Registry) -> String {
    let mut text = String::new();
    for role in [Role::Source, Role::Transform, Role::Sink] {
        for kind in registry.kinds().filter(|kind| kind.role == role) {
            let _ = writeln!(text, "{:<18} {:<7} {}", kind.name, role.name(), first_sentence(kind.doc));
        }
    }
    text
}

/// All about a kind, as Markdown.
pub fn page(kind: &ComponentKind) -> String {
    let mut text = format!("## {}\n\n", kind.name);
    let _ = match kind.inputs {
        [] => writeln!(text, "A {}.\n", kind.role.name()),
        [_] => writeln!(text, "A {} with one input.\n", kind.role.name()),
        inputs => writeln!(text, "A {} with the inputs `{}`.\n", kind.role.name(), inputs.join("`, `")),
    };
    let _ = writeln!(text, "{}\n", kind.doc.trim());
    if kind.parameters.is_empty() {
        text.push_str("It has no parameters.\n");
        return text;
    }
    text.push_str("| parameter | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for spec in kind.parameters {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            spec.key,
            type_text(spec.parameter_type),
            default_text(spec),
            spec.doc.trim().replace('\n', " ").replace('|', "\\|")
        );
    }
    text
}

/// A page with all kinds, as Markdown.
pub fn pages(registry: &Registry) -> String {
    let mut text = String::new();
    for role in [Role::Source, Role::Transform, Role::Sink] {
        for kind in registry.kinds().filter(|kind| kind.role == role) {
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

fn type_text(parameter_type: ParameterType) -> String {
    match parameter_type {
        ParameterType::Text => "text".to_owned(),
        ParameterType::Choice(words) => format!("one of `{}`", words.join("`, `")),
        ParameterType::Integer(min, max) if max >= 1 << 40 => format!("whole number from {min}"),
        ParameterType::Integer(min, max) => format!("whole number, {min} to {max}"),
        ParameterType::Number => "number".to_owned(),
        ParameterType::Seconds => "seconds".to_owned(),
        ParameterType::Boolean => "`true` or `false`".to_owned(),
        ParameterType::Texts => "list of texts".to_owned(),
        ParameterType::Path => "path".to_owned(),
        ParameterType::Paths => "list of paths".to_owned(),
    }
}

fn default_text(spec: &ParameterSpec) -> String {
    match spec.default {
        None => "must be given".to_owned(),
        Some("") => "none".to_owned(),
        Some(text) => format!("`{text}`"),
    }
}
