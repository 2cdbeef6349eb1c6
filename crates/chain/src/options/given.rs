//! What a user gave: a table of a chain file, or the words of a command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::Value;

use super::{ByteSize, OptionSpec, OptionValue, Options, Problem, ValueType, doc_text};
use crate::OptionError;
use crate::option_error::unknown_key;

/// The options that a user gave, by key.
#[derive(Debug, Default)]
pub struct Given {
    table: toml::Table,
    words: BTreeMap<&'static str, Vec<OsString>>,
    folder: PathBuf,
}

impl Given {
    /// A table of a chain file; relative paths in it are relative to `folder`.
    pub fn from_table(table: toml::Table, folder: &Path) -> Self {
        Self { table, words: BTreeMap::new(), folder: folder.to_owned() }
    }

    /// The values of flags, by key; relative paths stay as they are.
    pub fn from_words(words: BTreeMap<&'static str, Vec<OsString>>) -> Self {
        Self { words, ..Self::default() }
    }

    /// One option; `default` when it was not given.
    pub fn value<T: OptionValue>(
        &self,
        key: &'static str,
        default: Option<T>,
        range: Option<RangeInclusive<u64>>,
    ) -> Result<T, OptionError> {
        let found = if let Some(words) = self.words.get(key) {
            T::from_words(words)
        } else if let Some(value) = self.table.get(key) {
            T::from_toml(value, &self.folder)
        } else {
            let default = default.or_else(T::absent);
            return default.ok_or_else(|| OptionError::new(key, format!("'{key}' must be given")));
        };
        let value = found.map_err(|problem| self.error(key, problem))?;
        if let (Some(range), Some(number)) = (range, value.to_toml().as_ref().and_then(whole_number))
            && !range.contains(&number)
        {
            return Err(OptionError::new(key, out_of_range(key, number, range, &T::value_type())));
        }
        Ok(value)
    }

    fn error(&self, key: &'static str, problem: Problem) -> OptionError {
        match problem {
            Problem::Needs(needed) => {
                let found = self.table.get(key).map_or("text", Value::type_str);
                OptionError::new(key, format!("'{key}' is {found}, but {needed} is needed"))
            }
            Problem::Because(message, hint) => {
                OptionError { key: key.to_owned(), message: format!("'{key}': {message}"), hint }
            }
        }
    }

    /// What help and reference show of one option.
    pub fn spec<T: OptionValue>(
        key: &'static str,
        doc: &'static str,
        default: Option<T>,
        range: Option<RangeInclusive<u64>>,
        off: Option<&'static str>,
    ) -> OptionSpec {
        let is_required = default.is_none() && T::absent().is_none();
        let default = default.and_then(|value| value.to_toml()).map(|value| value.to_string());
        OptionSpec { key, value_type: T::value_type(), range, default, is_required, doc: doc_text(doc), off }
    }
}

/// What is wrong with a number outside its range. Sizes have their units, as those that are written instead need them.
fn out_of_range(key: &str, number: u64, range: RangeInclusive<u64>, value_type: &ValueType) -> String {
    let is_size = *value_type == ValueType::Size;
    let text = |number: u64| if is_size { ByteSize::from_bytes(number).to_string() } else { number.to_string() };
    let (min, max) = range.into_inner();
    let needed = if is_size { "size" } else { "number" };
    let until = if max == u64::MAX { String::new() } else { format!(" to {}", text(max)) };
    format!("'{key}' is {}, but a {needed} from {}{until} is needed", text(number), text(min))
}

/// The number that a range is for: a whole number, or the bytes of a size.
fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::String(text) => text.parse::<ByteSize>().ok().map(ByteSize::bytes),
        _ => None,
    }
}

/// Reads all options of a struct and refuses keys that it does not have.
pub fn read<O: Options>(given: &Given) -> Result<O, OptionError> {
    let specs = O::specs();
    for key in given.table.keys() {
        if !specs.iter().any(|spec| spec.key == key) {
            return Err(unknown_key(key, specs.iter().map(|spec| spec.key)));
        }
    }
    O::take(given)
}

impl ValueType {
    /// Whether a flag of this type takes a value.
    pub fn takes_value(&self) -> bool {
        *self != Self::Boolean
    }
}
