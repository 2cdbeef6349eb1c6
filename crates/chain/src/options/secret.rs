//! Secrets, which a configuration names and does not have.
//!
//! A secret is read from its file or environment variable each time that it is used, so a new one needs no restart. It is in no message
//! and no `Debug` text; what is shown is where it comes from.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use toml::Value;

use super::{OptionValue, Problem, ValueType};

/// A file of a secret is at most this long.
const SECRET_MAX: u64 = 64 << 10;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// In a file.
    File(PathBuf),
    /// In an environment variable.
    Environment(String),
}

impl Secret {
    /// What is said about a secret that is written into the configuration itself.
    pub const HINT: &'static str = "write file:PATH or env:NAME, of the file or environment variable that has it";

    /// Parses `file:PATH`, whose path is relative to `folder`, or `env:NAME`; `None` when it is neither.
    pub fn parse(text: &str, folder: &Path) -> Option<Self> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Some(Self::File(folder.join(path))),
            Some(("env", name)) if !name.is_empty() => Some(Self::Environment(name.to_owned())),
            _ => None,
        }
    }

    /// Where it is, as [`parse`](Self::parse) takes it.
    pub fn place(&self) -> String {
        match self {
            Self::File(path) => format!("file:{}", path.display()),
            Self::Environment(name) => format!("env:{name}"),
        }
    }

    /// Reads it; a file without the end of its line.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no text or is longer than 64 KiB; the variable is not set. The message has its place.
    pub fn read(&self) -> io::Result<String> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", self.place()));
        match self {
            Self::Environment(name) => {
                std::env::var(name).map_err(|_| named(io::Error::new(io::ErrorKind::NotFound, "it is not set")))
            }
            Self::File(path) => {
                if std::fs::metadata(path).map_err(named)?.len() > SECRET_MAX {
                    return Err(named(io::Error::new(io::ErrorKind::InvalidData, "it is too long for a secret")));
                }
                let text = std::fs::read_to_string(path).map_err(named)?;
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}

impl OptionValue for Secret {
    fn value_type() -> ValueType {
        ValueType::Text("file:PATH or env:NAME")
    }

    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem> {
        let text = value.as_str().ok_or(Problem::Needs("text"))?;
        // the text is not repeated: it may be the secret
        Self::parse(text, folder)
            .ok_or_else(|| Problem::Because("a secret is not written here".to_owned(), Some(Self::HINT.to_owned())))
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        let word =
            words.last().and_then(|word| word.to_str()).ok_or_else(|| Problem::because("a word is not UTF-8"))?;
        Self::from_toml(&Value::String(word.to_owned()), Path::new(""))
    }

    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.place()))
    }

    fn unset() -> Self {
        Self::Environment(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_in_the_file_nor_in_the_error() {
        let error = Secret::from_toml(&Value::String("hunter2".to_owned()), Path::new("")).expect_err("a secret");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        let read = Secret::from_toml(&Value::String("file:x".to_owned()), Path::new("/w")).expect("a secret");
        assert_eq!(read, Secret::File("/w/x".into()));
        let unset = Secret::Environment("WEIR_NO_SUCH_VARIABLE".to_owned()).read().expect_err("not set");
        assert!(unset.to_string().contains("env:WEIR_NO_SUCH_VARIABLE"), "{unset}");
    }
}
