//! Values of options: from a chain file, from the words of a command line, and back.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::Value;

use super::{ByteSize, Rate, TimeSpan, UnitError};
use crate::option_error::closest;

/// Type of an option, as people and machines are shown it.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueType {
    /// `true` or `false`; a flag without a value.
    Boolean,
    /// A whole number.
    Integer,
    /// A number with or without a fraction.
    Number,
    /// A text; the word says what kind of text.
    Text(&'static str),
    /// One of some words, each with its help.
    Choice(&'static [(&'static str, &'static str)]),
    /// A [`TimeSpan`].
    Duration,
    /// A [`ByteSize`].
    Size,
    /// A path. In a chain file a relative one is relative to the folder of the file.
    Path,
    /// A list; one value alone is a list of one.
    List(Box<ValueType>),
}

/// What is wrong with a value. The option is added by whoever reads the struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The value has another type than the one named.
    Needs(&'static str),
    /// Something else, and what to do about it when that is known.
    Because(String, Option<String>),
}

impl Problem {
    /// A problem with a message: lower case, no final period, names the value.
    pub fn because(message: impl Into<String>) -> Self {
        Self::Because(message.into(), None)
    }

    /// A text without the unit that its option needs, or with a wrong one.
    fn of_unit(error: &UnitError) -> Self {
        Self::Because(error.message(), Some(error.hint().to_owned()))
    }

    /// A word that is not among those allowed.
    pub fn no_choice(word: &str, words: &[(&str, &str)]) -> Self {
        Self::Because(format!("'{word}' is not known here"), Some(closest(word, words.iter().map(|(word, _)| *word))))
    }
}

/// A type that an option may have.
pub trait OptionValue: Sized {
    /// The type, for help and schemas.
    fn value_type() -> ValueType;

    /// Reads a value of a chain file; relative paths are relative to `folder`.
    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem>;

    /// Reads the words that a command was given, at least one.
    fn from_words(words: &[OsString]) -> Result<Self, Problem>;

    /// The value as a chain file has it; `None` when it is left out there.
    fn to_toml(&self) -> Option<Value>;

    /// The value of an option that may be left out without a default; `None` for one that must be given.
    fn absent() -> Option<Self> {
        None
    }

    /// What stands for an option that must be given in `Default::default()` of its struct.
    fn unset() -> Self;
}

/// A type that is written as a text. Crates above implement it for types of their own.
pub trait OptionText: Sized {
    /// The type, for help and schemas.
    fn value_type() -> ValueType;

    /// Parses the text.
    fn parse_text(text: &str) -> Result<Self, Problem>;

    /// The text.
    fn text(&self) -> String;

    /// What stands for a value that must be given in `Default::default()` of its struct.
    fn unset() -> Self;
}

impl<T: OptionText> OptionValue for T {
    fn value_type() -> ValueType {
        T::value_type()
    }

    fn from_toml(value: &Value, _folder: &Path) -> Result<Self, Problem> {
        match value {
            Value::String(text) => T::parse_text(text),
            // a rate needs no unit; a size and a duration say why a number alone is not enough, and need none for 0
            Value::Integer(number)
                if matches!(T::value_type(), ValueType::Size | ValueType::Duration | ValueType::Text(RATE)) =>
            {
                T::parse_text(&number.to_string())
            }
            _ => Err(Problem::Needs("text")),
        }
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        T::parse_text(text_of(last(words))?)
    }

    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.text()))
    }

    fn unset() -> Self {
        T::unset()
    }
}

impl OptionText for String {
    fn value_type() -> ValueType {
        ValueType::Text("TEXT")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        Ok(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }

    fn unset() -> Self {
        Self::new()
    }
}

impl OptionText for TimeSpan {
    fn value_type() -> ValueType {
        ValueType::Duration
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        text.parse().map_err(|error| Problem::of_unit(&error))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn unset() -> Self {
        Self::ZERO
    }
}

impl OptionText for ByteSize {
    fn value_type() -> ValueType {
        ValueType::Size
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        text.parse().map_err(|error| Problem::of_unit(&error))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn unset() -> Self {
        Self::default()
    }
}

/// What stands for a rate in help.
const RATE: &str = "RATE";

impl OptionText for Rate {
    fn value_type() -> ValueType {
        ValueType::Text(RATE)
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        text.parse().map_err(|error| Problem::of_unit(&error))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn unset() -> Self {
        Self::default()
    }
}

impl OptionText for IpAddr {
    fn value_type() -> ValueType {
        ValueType::Text("ADDRESS")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        text.parse().map_err(|_| Problem::because(format!("'{text}' is not an address")))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn unset() -> Self {
        Self::from([0, 0, 0, 0])
    }
}

impl OptionText for SocketAddr {
    fn value_type() -> ValueType {
        ValueType::Text("ADDRESS:PORT")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        text.parse().map_err(|_| Problem::because(format!("'{text}' is not an address with a port")))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn unset() -> Self {
        Self::from(([0, 0, 0, 0], 0))
    }
}

impl OptionValue for bool {
    fn value_type() -> ValueType {
        ValueType::Boolean
    }

    fn from_toml(value: &Value, _folder: &Path) -> Result<Self, Problem> {
        value.as_bool().ok_or(Problem::Needs("true or false"))
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        text_of(last(words))?.parse().map_err(|_| Problem::Needs("true or false"))
    }

    fn to_toml(&self) -> Option<Value> {
        Some(Value::Boolean(*self))
    }

    fn unset() -> Self {
        false
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn value_type() -> ValueType {
                ValueType::Integer
            }

            fn from_toml(value: &Value, _folder: &Path) -> Result<Self, Problem> {
                let number = value.as_integer().ok_or(Problem::Needs("a whole number"))?;
                Self::try_from(number).map_err(|_| out_of_range(number, Self::MAX as u64))
            }

            fn from_words(words: &[OsString]) -> Result<Self, Problem> {
                let text = text_of(last(words))?;
                let number: i128 =
                    text.parse().map_err(|_| Problem::because(format!("'{text}' is not a whole number")))?;
                Self::try_from(number).map_err(|_| out_of_range(number, Self::MAX as u64))
            }

            fn to_toml(&self) -> Option<Value> {
                i64::try_from(*self).ok().map(Value::Integer)
            }

            fn unset() -> Self {
                0
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize);

fn out_of_range(number: impl std::fmt::Display, max: u64) -> Problem {
    Problem::because(format!("it is {number}, but a number from 0 to {max} is needed"))
}

impl OptionValue for f64 {
    fn value_type() -> ValueType {
        ValueType::Number
    }

    fn from_toml(value: &Value, _folder: &Path) -> Result<Self, Problem> {
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as Self));
        number.filter(|number| number.is_finite()).ok_or(Problem::Needs("a number"))
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        let text = text_of(last(words))?;
        let number = text.parse::<Self>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| Problem::because(format!("'{text}' is not a number")))
    }

    fn to_toml(&self) -> Option<Value> {
        Some(Value::Float(*self))
    }

    fn unset() -> Self {
        0.0
    }
}

impl OptionValue for PathBuf {
    fn value_type() -> ValueType {
        ValueType::Path
    }

    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem> {
        value.as_str().map(|text| folder.join(text)).ok_or(Problem::Needs("text"))
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        Ok(Self::from(last(words)))
    }

    /// A path that is not UTF-8 has no place in a chain file; it is only shown there.
    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.to_string_lossy().into_owned()))
    }

    fn unset() -> Self {
        Self::new()
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn value_type() -> ValueType {
        T::value_type()
    }

    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem> {
        T::from_toml(value, folder).map(Some)
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        T::from_words(words).map(Some)
    }

    fn to_toml(&self) -> Option<Value> {
        self.as_ref().and_then(T::to_toml)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn unset() -> Self {
        None
    }
}

impl<T: OptionValue> OptionValue for Vec<T> {
    fn value_type() -> ValueType {
        ValueType::List(Box::new(T::value_type()))
    }

    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem> {
        match value {
            Value::Array(values) => values.iter().map(|value| T::from_toml(value, folder)).collect(),
            value => Ok(vec![T::from_toml(value, folder)?]),
        }
        .map_err(|problem| match problem {
            Problem::Needs("text") => Problem::Needs("a list of texts"),
            problem => problem,
        })
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        words.iter().map(|word| T::from_words(std::slice::from_ref(word))).collect()
    }

    fn to_toml(&self) -> Option<Value> {
        let values: Vec<_> = self.iter().filter_map(T::to_toml).collect();
        Some(Value::Array(values))
    }

    fn unset() -> Self {
        Self::new()
    }
}

/// The word that counts when a flag of one value is given.
fn last(words: &[OsString]) -> &OsStr {
    words.last().map(OsString::as_os_str).unwrap_or_default()
}

fn text_of(word: &OsStr) -> Result<&str, Problem> {
    word.to_str().ok_or_else(|| Problem::because(format!("'{}' is not UTF-8", word.to_string_lossy())))
}
