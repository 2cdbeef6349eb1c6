//! Chain files: TOML text into the components of a chain and who feeds whom.
//!
//! ```toml
//! name = "needle"
//! burst_records = 2048            # of every queue, unless a component says otherwise
//! queue_bursts = 100
//!
//! [components.reader]
//! type = "archive-reader"
//! archive = "flows"
//!
//! [components.ssh]
//! type = "filter"
//! inputs = ["reader"]
//! where = "dst port 22"
//! thread = "own"                  # or "upstream", or the name of a thread that several components share
//!
//! [components.count]
//! type = "counter"
//! inputs = ["ssh"]
//! ```
//!
//! Everything is checked before anything is opened, and all errors are told at once, each with its place.

use std::path::{Path, PathBuf};

use toml::Value;
use toml::de::{DeTable, DeValue};

use crate::columns::{ColumnRule, FlowColumnRule};
use crate::option_error::unknown_key;
use crate::options::Given;
use crate::registry::Role;
use crate::{AnyKind, ConfigError, Opener, OptionError, Registry};

/// Rows of a burst unless a chain file says otherwise.
pub const BURST_RECORDS: usize = 2048;
/// Bursts that a queue holds unless a chain file says otherwise.
pub const QUEUE_BURSTS: usize = 100;

/// Keys that every component has, whatever its kind.
const COMPONENT_KEYS: &[&str] = &["type", "inputs", "thread", "burst_records", "queue_bursts"];
const CHAIN_KEYS: &[&str] = &["name", "burst_records", "queue_bursts", "components"];

/// In which thread a component runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadChoice {
    /// What suits the component: its own for sources and components with several inputs, that of the component before it otherwise.
    Default,
    /// Its own, which has its name.
    Own,
    /// That of the component before it.
    Upstream,
    /// The thread of this name, which components may share.
    Named(String),
}

/// The queue in front of a component that runs in another thread than the component before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSpec {
    /// Rows of a burst; 0 leaves bursts as the component before it makes them.
    pub burst_records: usize,
    /// Bursts that the queue holds.
    pub queue_bursts: usize,
}

/// A component as the chain file has it.
pub struct ComponentSpec {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static dyn AnyKind,
    /// For each input, in the order of the kind's inputs, the names of the components that feed it.
    pub inputs: Vec<Vec<String>>,
    /// In which thread it runs.
    pub thread: ThreadChoice,
    /// The queue in front of it, if there is one.
    pub queue: QueueSpec,
    /// What it does to columns that flows do not have.
    pub(crate) columns: ColumnRule,
    /// Which columns of flows it needs and hands on.
    pub(crate) flow_columns: FlowColumnRule,
    /// Makes the component.
    pub(crate) opener: Opener,
    /// Where the chain file tells of it.
    pub(crate) place: Place,
}

/// A place in a text, as octets from its beginning; `None` when the text does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place(pub Option<usize>);

/// A value given from outside the file: `key=value` for the chain, `component.key=value` for a component.
#[derive(Debug, Clone)]
pub struct Setting {
    component: Option<String>,
    key: String,
    value: Value,
}

impl Setting {
    /// Parses `key=value` or `component.key=value`; a value that is no TOML is taken as text.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let Some((path, value)) = text.split_once('=') else {
            return Err(OptionError::new(text, format!("'{text}' has no '='")).with_hint("write component.key=value"));
        };
        let as_toml =
            format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
        let value = as_toml.unwrap_or_else(|| Value::String(value.to_owned()));
        let (component, key) = match path.trim().split_once('.') {
            Some((component, key)) => (Some(component.to_owned()), key.to_owned()),
            None => (None, path.trim().to_owned()),
        };
        Ok(Self { component, key, value })
    }
}

/// One key and its value, with its place.
#[derive(Debug)]
struct Entry {
    key: String,
    value: Value,
    place: Place,
}

/// A chain file before kinds are looked up.
#[derive(Debug, Default)]
struct Raw {
    chain: Vec<Entry>,
    components: Vec<(String, Place, Vec<Entry>)>,
}

/// The components of a chain file and the name of the chain.
pub(crate) struct Parsed {
    pub name: String,
    pub components: Vec<ComponentSpec>,
}

/// Parses a chain file. `folder` is what relative paths in it are relative to.
pub(crate) fn parse(
    text: &str,
    folder: &Path,
    registry: &Registry,
    settings: &[Setting],
) -> Result<Parsed, Vec<ConfigError>> {
    let mut raw = read(text)?;
    let mut reader = Reader { text, folder: folder.to_owned(), registry, errors: Vec::new() };
    for setting in settings {
        reader.apply(&mut raw, setting);
    }
    let parsed = reader.chain(raw);
    if reader.errors.is_empty() { Ok(parsed) } else { Err(reader.errors) }
}

/// Line and column of a place.
pub(crate) fn error_at(text: &str, place: Place, message: String, hint: Option<String>) -> ConfigError {
    let Some(offset) = place.0 else { return ConfigError { line: 0, column: 0, message, hint } };
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    ConfigError { line, column, message, hint }
}

fn read(text: &str) -> Result<Raw, Vec<ConfigError>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let told = errors.iter().map(|error| {
            let place = Place(error.span().map(|span| span.start));
            error_at(text, place, error.message().replace('\n', ", "), None)
        });
        return Err(told.collect());
    }
    let mut raw = Raw::default();
    for (key, value) in document.get_ref() {
        if key.get_ref() != "components" {
            raw.chain.push(entry(key, value));
            continue;
        }
        let Some(components) = value.get_ref().as_table() else {
            let message = "'components' is a table of components".to_owned();
            let hint = Some("write [components.NAME] above the keys of each component".to_owned());
            return Err(vec![error_at(text, Place(Some(value.span().start)), message, hint)]);
        };
        for (name, component) in components {
            let place = Place(Some(name.span().start));
            let Some(table) = component.get_ref().as_table() else {
                let message = format!("component '{}' is no table", name.get_ref());
                return Err(vec![error_at(text, place, message, None)]);
            };
            let mut entries: Vec<_> = table.iter().map(|(key, value)| entry(key, value)).collect();
            entries.sort_by_key(|entry| entry.place.0);
            raw.components.push((name.get_ref().to_string(), place, entries));
        }
    }
    // tables come sorted by name; people think in the order of the file
    raw.components.sort_by_key(|(_, place, _)| place.0);
    Ok(raw)
}

fn entry(key: &toml::Spanned<std::borrow::Cow<'_, str>>, value: &toml::Spanned<DeValue<'_>>) -> Entry {
    Entry { key: key.get_ref().to_string(), value: owned(value.get_ref()), place: Place(Some(key.span().start)) }
}

/// The same value without places. Numbers out of range become text, which no parameter takes for a number.
fn owned(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::String(number.as_str().to_owned()),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Value::Float(number),
            Err(_) => Value::String(number.as_str().to_owned()),
        },
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(values) => Value::Array(values.iter().map(|value| owned(value.get_ref())).collect()),
        DeValue::Table(table) => {
            Value::Table(table.iter().map(|(key, value)| (key.get_ref().to_string(), owned(value.get_ref()))).collect())
        }
    }
}

/// Makes sense of a file, gathering errors.
struct Reader<'a> {
    text: &'a str,
    folder: PathBuf,
    registry: &'a Registry,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn error(&mut self, place: Place, message: String, hint: Option<String>) {
        self.errors.push(error_at(self.text, place, message, hint));
    }

    fn apply(&mut self, raw: &mut Raw, setting: &Setting) {
        let entries = match &setting.component {
            None => Some(&mut raw.chain),
            Some(name) => raw.components.iter_mut().find(|(known, ..)| known == name).map(|(_, _, entries)| entries),
        };
        let Some(entries) = entries else {
            let name = setting.component.as_deref().unwrap_or_default();
            let error = unknown_key(name, raw.components.iter().map(|(known, ..)| known.as_str()));
            self.error(Place(None), format!("there is no component '{name}' to set"), error.hint);
            return;
        };
        entries.retain(|entry| entry.key != setting.key);
        entries.push(Entry { key: setting.key.clone(), value: setting.value.clone(), place: Place(None) });
    }

    fn chain(&mut self, raw: Raw) -> Parsed {
        let mut name = "chain".to_owned();
        let mut queue = QueueSpec { burst_records: BURST_RECORDS, queue_bursts: QUEUE_BURSTS };
        for entry in &raw.chain {
            match entry.key.as_str() {
                "name" => match entry.value.as_str() {
                    Some(text) => text.clone_into(&mut name),
                    None => self.error(entry.place, "'name' is text".to_owned(), None),
                },
                "burst_records" | "queue_bursts" => self.queue_key(entry, &mut queue),
                key => {
                    let error = unknown_key(key, CHAIN_KEYS.iter().copied());
                    self.error(entry.place, error.message, error.hint);
                }
            }
        }
        if raw.components.is_empty() {
            let hint = Some("write [components.NAME] above the keys of each component".to_owned());
            self.error(Place(None), "the chain has no component".to_owned(), hint);
        }
        let components = raw.components.into_iter().filter_map(|component| self.component(component, queue)).collect();
        Parsed { name, components }
    }

    fn queue_key(&mut self, entry: &Entry, queue: &mut QueueSpec) {
        let least = i64::from(entry.key == "queue_bursts");
        match entry.value.as_integer() {
            Some(number) if (least..=100_000_000).contains(&number) => match entry.key.as_str() {
                "burst_records" => queue.burst_records = number as usize,
                _ => queue.queue_bursts = number as usize,
            },
            _ => {
                let message = format!("'{}' needs a whole number from {least} to 100000000", entry.key);
                self.error(entry.place, message, None);
            }
        }
    }

    fn component(
        &mut self,
        (name, place, entries): (String, Place, Vec<Entry>),
        queue: QueueSpec,
    ) -> Option<ComponentSpec> {
        let Some(type_entry) = entries.iter().find(|entry| entry.key == "type") else {
            self.error(place, format!("component '{name}' has no type"), Some("write type = \"...\"".to_owned()));
            return None;
        };
        let word = type_entry.value.as_str().unwrap_or_default();
        let Some(kind) = self.registry.get(word) else {
            let error = unknown_key(word, self.registry.kinds().map(AnyKind::name));
            self.error(type_entry.place, format!("there is no kind of component '{word}'"), error.hint);
            return None;
        };
        let (mut inputs, mut thread, mut queue) = (None, ThreadChoice::Default, queue);
        let mut given = toml::Table::new();
        for entry in &entries {
            match entry.key.as_str() {
                "type" => {}
                "inputs" => inputs = Some(self.inputs(&name, kind, entry)),
                "thread" => thread = self.thread(&name, kind, entry),
                "burst_records" | "queue_bursts" => self.queue_key(entry, &mut queue),
                key => {
                    given.insert(key.to_owned(), entry.value.clone());
                }
            }
        }
        if inputs.is_none() && kind.role() != Role::Source {
            let hint = Some("write inputs = [\"the component before it\"]".to_owned());
            self.error(place, format!("component '{name}' has no inputs"), hint);
        }
        let place_of = |key: &str| entries.iter().find(|entry| entry.key == key).map_or(place, |entry| entry.place);
        let given = Given::from_table(given, &self.folder);
        let opener = match kind.configure(&given) {
            Ok(opener) => opener,
            Err(error) => {
                let error = with_component_keys(error, kind);
                self.error(place_of(&error.key), format!("component '{name}': {}", error.message), error.hint);
                return None;
            }
        };
        let inputs = inputs.unwrap_or_default();
        let (columns, flow_columns) = (kind.columns(&given), kind.flow_columns(&given));
        Some(ComponentSpec { name, kind, inputs, thread, queue, columns, flow_columns, opener, place })
    }

    fn thread(&mut self, name: &str, kind: &dyn AnyKind, entry: &Entry) -> ThreadChoice {
        match entry.value.as_str() {
            Some("own") => ThreadChoice::Own,
            Some("upstream") if kind.role() == Role::Source => {
                let hint = Some("write \"own\" or the name of a thread".to_owned());
                self.error(entry.place, format!("source '{name}' has no upstream"), hint);
                ThreadChoice::Own
            }
            Some("upstream") => ThreadChoice::Upstream,
            Some(thread) if !thread.is_empty() => ThreadChoice::Named(thread.to_owned()),
            _ => {
                let hint = Some("write \"own\", \"upstream\" or the name of a thread".to_owned());
                self.error(entry.place, format!("component '{name}': 'thread' is text"), hint);
                ThreadChoice::Default
            }
        }
    }

    /// `["a", "b"]` or `"a"` for the one input; `{ first = "a", second = ["b"] }` for several.
    fn inputs(&mut self, name: &str, kind: &dyn AnyKind, entry: &Entry) -> Vec<Vec<String>> {
        let mut inputs = vec![Vec::new(); kind.inputs().len()];
        if kind.inputs().is_empty() {
            self.error(entry.place, format!("source '{name}' has no input"), None);
            return inputs;
        }
        let Value::Table(table) = &entry.value else {
            match names(&entry.value) {
                Some(upstream) if kind.inputs().len() == 1 && !upstream.is_empty() => inputs[0] = upstream,
                _ => {
                    let message =
                        format!("component '{name}': which components feed its inputs {}?", kind.inputs().join(", "));
                    self.error(entry.place, message, Some(example(kind)));
                }
            }
            return inputs;
        };
        for (input, value) in table {
            let Some(index) = kind.inputs().iter().position(|known| known == input) else {
                let error = unknown_key(input, kind.inputs().iter().copied());
                self.error(entry.place, format!("component '{name}' has no input '{input}'"), error.hint);
                continue;
            };
            match names(value) {
                Some(upstream) => inputs[index] = upstream,
                None => self.error(
                    entry.place,
                    format!("component '{name}': input '{input}' is a list of components"),
                    None,
                ),
            }
        }
        for (input, upstream) in kind.inputs().iter().zip(&inputs) {
            if upstream.is_empty() {
                self.error(
                    entry.place,
                    format!("component '{name}': nobody feeds input '{input}'"),
                    Some(example(kind)),
                );
            }
        }
        inputs
    }
}

/// An unknown key may be a misspelt one of those that every component has.
fn with_component_keys(error: OptionError, kind: &dyn AnyKind) -> OptionError {
    let specs = kind.options();
    let own = specs.iter().map(|spec| spec.key);
    if own.clone().any(|key| key == error.key) || COMPONENT_KEYS.contains(&error.key.as_str()) {
        return error;
    }
    unknown_key(&error.key, own.chain(COMPONENT_KEYS.iter().copied()).collect::<Vec<_>>().into_iter())
}

fn names(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn example(kind: &dyn AnyKind) -> String {
    match kind.inputs() {
        [_] => "write inputs = [\"the component before it\"]".to_owned(),
        several => {
            let parts: Vec<_> = several.iter().map(|input| format!("{input} = \"...\"")).collect();
            format!("write inputs = {{ {} }}", parts.join(", "))
        }
    }
}
