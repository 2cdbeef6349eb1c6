//! Parameters of components: one table tells key, type, default and help, and everything else derives from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use crate::ParameterError;

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// `"text"`
    Text,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// A whole number from the first to the last of these, both included.
    Integer(u64, u64),
    /// A number, with or without a fraction.
    Number,
    /// Seconds, with or without a fraction.
    Seconds,
    /// `true` or `false`.
    Boolean,
    /// `["text", "text"]`, or one text alone.
    Texts,
    /// A path; a relative one is relative to the folder that the chain file is in.
    Path,
    /// A list of paths, or one path alone.
    Paths,
}

/// One parameter of a kind of component.
#[derive(Debug, Clone, Copy)]
pub struct ParameterSpec {
    /// Key in the chain file; units last.
    pub key: &'static str,
    /// Type of the value.
    pub parameter_type: ParameterType,
    /// Default as written in a chain file (`"\"start\""`, `"20"`); `None` when the parameter must be given, the empty
    /// text when it may be left out without a default.
    pub default: Option<&'static str>,
    /// One sentence for the reference page.
    pub doc: &'static str,
}

/// The parameters of one component, checked against the table of its kind: no unknown key, none missing, types as told.
///
/// # Panics
/// Getters panic when the table has no such key or gives it another type: that is a defect in the code of the component,
/// found by the first test that configures it.
#[derive(Debug, Clone)]
pub struct Parameters {
    specs: &'static [ParameterSpec],
    values: BTreeMap<&'static str, Value>,
    folder: PathBuf,
}

impl Parameters {
    /// Checks values against a table. Relative paths are taken as relative to `folder`.
    pub fn new(
        specs: &'static [ParameterSpec],
        given: &toml::Table,
        folder: impl Into<PathBuf>,
    ) -> Result<Self, ParameterError> {
        let mut values = BTreeMap::new();
        for (key, value) in given {
            let Some(spec) = specs.iter().find(|spec| spec.key == key) else {
                return Err(unknown_key(key, specs.iter().map(|spec| spec.key)));
            };
            check(spec, value)?;
            values.insert(spec.key, value.clone());
        }
        for spec in specs {
            if values.contains_key(spec.key) {
                continue;
            }
            match spec.default {
                None => return Err(ParameterError::new(spec.key, format!("'{}' must be given", spec.key))),
                Some("") => {}
                Some(text) => {
                    let value = parse_default(spec.key, text);
                    check(spec, &value)?;
                    values.insert(spec.key, value);
                }
            }
        }
        Ok(Self { specs, values, folder: folder.into() })
    }

    fn get(&self, key: &str, is_type: impl Fn(ParameterType) -> bool) -> Option<&Value> {
        let spec = self.specs.iter().find(|spec| spec.key == key);
        assert!(spec.is_some_and(|spec| is_type(spec.parameter_type)), "'{key}' is no parameter of this type");
        self.values.get(key)
    }

    /// Whether a parameter has a value, its own or by default.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// A text or the word of a choice; empty when there is none.
    pub fn text(&self, key: &str) -> &str {
        let value = self.get(key, |kind| matches!(kind, ParameterType::Text | ParameterType::Choice(_)));
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// A whole number; 0 when there is none.
    pub fn integer(&self, key: &str) -> u64 {
        let value = self.get(key, |kind| matches!(kind, ParameterType::Integer(..)));
        value.and_then(Value::as_integer).map_or(0, |number| number as u64)
    }

    /// A number; 0 when there is none.
    pub fn number(&self, key: &str) -> f64 {
        self.get(key, |kind| kind == ParameterType::Number).and_then(as_number).unwrap_or_default()
    }

    /// A span of time; zero when there is none.
    pub fn duration(&self, key: &str) -> Duration {
        let seconds = self.get(key, |kind| kind == ParameterType::Seconds).and_then(as_number);
        Duration::try_from_secs_f64(seconds.unwrap_or_default()).unwrap_or(Duration::MAX)
    }

    /// A span of time in milliseconds, rounded; 0 when there is none.
    pub fn millis(&self, key: &str) -> i64 {
        let seconds = self.get(key, |kind| kind == ParameterType::Seconds).and_then(as_number);
        (seconds.unwrap_or_default() * 1000.0).round() as i64
    }

    /// True or false; false when there is none.
    pub fn boolean(&self, key: &str) -> bool {
        self.get(key, |kind| kind == ParameterType::Boolean).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A list of texts; empty when there is none.
    pub fn texts(&self, key: &str) -> Vec<String> {
        self.get(key, |kind| kind == ParameterType::Texts).map(as_texts).unwrap_or_default()
    }

    /// A path; `None` when there is none.
    pub fn path(&self, key: &str) -> Option<PathBuf> {
        let value = self.get(key, |kind| kind == ParameterType::Path)?;
        value.as_str().map(|text| self.folder.join(text))
    }

    /// A list of paths; empty when there is none.
    pub fn paths(&self, key: &str) -> Vec<PathBuf> {
        let texts = self.get(key, |kind| kind == ParameterType::Paths).map(as_texts).unwrap_or_default();
        texts.iter().map(|text| self.folder.join(text)).collect()
    }
}

/// The error about a key that nobody knows, with the known key that is most like it.
pub(crate) fn unknown_key<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> ParameterError {
    let error = ParameterError::new(key, format!("'{key}' is not known here"));
    let best = known.clone().map(|other| (strsim::jaro_winkler(key, other), other)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likeness, other)) if likeness > 0.75 => error.with_hint(format!("did you mean '{other}'?")),
        _ => {
            let known: Vec<_> = known.collect();
            error.with_hint(format!("known are: {}", known.join(", ")))
        }
    }
}

fn parse_default(key: &str, text: &str) -> Value {
    match format!("default = {text}").parse::<toml::Table>() {
        Ok(mut table) => table.remove("default").unwrap_or(Value::Boolean(false)),
        Err(error) => panic!("the default of '{key}' is no TOML value: {error}"),
    }
}

fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

fn as_texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn check(spec: &ParameterSpec, value: &Value) -> Result<(), ParameterError> {
    let wrong = |needed: &str| {
        let found = value.type_str();
        Err(ParameterError::new(spec.key, format!("'{}' is {found}, but {needed} is needed", spec.key)))
    };
    match spec.parameter_type {
        ParameterType::Text | ParameterType::Path if !value.is_str() => wrong("text"),
        ParameterType::Boolean if !value.is_bool() => wrong("true or false"),
        ParameterType::Number if as_number(value).is_none_or(|number| !number.is_finite()) => wrong("a number"),
        ParameterType::Seconds if as_number(value).is_none_or(|seconds| !(0.0..=1e9).contains(&seconds)) => {
            wrong("a number of seconds from 0 to 1000000000")
        }
        ParameterType::Texts | ParameterType::Paths => {
            let is_list = value.as_array().is_some_and(|values| values.iter().all(Value::is_str));
            if is_list || value.is_str() { Ok(()) } else { wrong("a list of texts") }
        }
        ParameterType::Choice(words) => match value.as_str() {
            None => wrong("text"),
            Some(word) if words.contains(&word) => Ok(()),
            Some(word) => {
                let error = unknown_key(word, words.iter().copied());
                Err(ParameterError { key: spec.key.to_owned(), ..error })
            }
        },
        ParameterType::Integer(min, max) => match value.as_integer().map(u64::try_from) {
            Some(Ok(number)) if (min..=max).contains(&number) => Ok(()),
            Some(_) => {
                let found = value.as_integer().unwrap_or_default();
                let message = format!("'{}' is {found}, but a number from {min} to {max} is needed", spec.key);
                Err(ParameterError::new(spec.key, message))
            }
            None => wrong("a whole number"),
        },
        _ => Ok(()),
    }
}
