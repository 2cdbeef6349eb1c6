//! Secrets, which a watch file names and does not have.
//!
//! A secret is read from its file or environment variable each time that it is used, so a new one needs no restart. It is in no message
//! and no `Debug` text; what is shown is where it comes from.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use toml::Value;
use weir_chain::{OptionValue, Problem, ValueType};

/// A file of a secret is at most this long.
const SECRET_MAX: u64 = 64 << 10;
/// What is said about a secret that is written into the file itself.
const HINT: &str = "write file:PATH or env:NAME, of the file or environment variable that has it";

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// In a file.
    File(PathBuf),
    /// In an environment variable.
    Environment(String),
}

impl Secret {
    fn parse(text: &str, folder: &Path) -> Option<Self> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Some(Self::File(folder.join(path))),
            Some(("env", name)) if !name.is_empty() => Some(Self::Environment(name.to_owned())),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::File(path) => format!("file:{}", path.display()),
            Self::Environment(name) => format!("env:{name}"),
        }
    }

    /// Reads it; a file without the end of its line.
    pub(crate) fn read(&self) -> io::Result<String> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", self.text()));
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

fn one_text(value: &Value) -> Result<&str, Problem> {
    value.as_str().ok_or(Problem::Needs("text"))
}

fn last_word(words: &[OsString]) -> Result<&str, Problem> {
    words.last().and_then(|word| word.to_str()).ok_or_else(|| Problem::because("a word is not UTF-8"))
}

impl OptionValue for Secret {
    fn value_type() -> ValueType {
        ValueType::Text("file:PATH or env:NAME")
    }

    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem> {
        // the text is not repeated: it may be the secret
        Self::parse(one_text(value)?, folder)
            .ok_or_else(|| Problem::Because("a secret is not written here".to_owned(), Some(HINT.to_owned())))
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        Self::from_toml(&Value::String(last_word(words)?.to_owned()), Path::new(""))
    }

    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.text()))
    }

    fn unset() -> Self {
        Self::Environment(String::new())
    }
}

/// A text with places for secrets: `Bearer {file:PATH}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretText {
    parts: Vec<TextPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TextPart {
    Plain(String),
    Secret(Secret),
}

impl SecretText {
    fn parse(text: &str, folder: &Path) -> Result<Self, Problem> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let no_place = || Problem::Because("a '{' begins no place for a secret".to_owned(), Some(HINT.to_owned()));
            let (place, behind) = after.split_once('}').ok_or_else(no_place)?;
            parts.push(TextPart::Plain(before.to_owned()));
            parts.push(TextPart::Secret(Secret::parse(place, folder).ok_or_else(no_place)?));
            rest = behind;
        }
        parts.push(TextPart::Plain(rest.to_owned()));
        parts.retain(|part| *part != TextPart::Plain(String::new()));
        Ok(Self { parts })
    }

    /// The text as it was written, with the places.
    pub(crate) fn shown(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            TextPart::Plain(text) => text.clone(),
            TextPart::Secret(secret) => format!("{{{}}}", secret.text()),
        });
        parts.collect()
    }

    /// The text with the secrets.
    pub(crate) fn read(&self) -> io::Result<String> {
        let parts = self.parts.iter().map(|part| match part {
            TextPart::Plain(text) => Ok(text.clone()),
            TextPart::Secret(secret) => secret.read(),
        });
        parts.collect()
    }
}

impl OptionValue for SecretText {
    fn value_type() -> ValueType {
        ValueType::Text("text, with {file:PATH} or {env:NAME} for secrets")
    }

    fn from_toml(value: &Value, folder: &Path) -> Result<Self, Problem> {
        Self::parse(one_text(value)?, folder)
    }

    fn from_words(words: &[OsString]) -> Result<Self, Problem> {
        Self::parse(last_word(words)?, Path::new(""))
    }

    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.shown()))
    }

    fn unset() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_when_they_are_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = SecretText::parse("Bearer {file:token}", folder.path()).expect("a text");
        let missing = text.read().expect_err("no file").to_string();
        assert!(missing.contains("token") && missing.starts_with("cannot read file:"), "{missing}");
        for secret in ["s3cret", "other"] {
            std::fs::write(folder.path().join("token"), format!("{secret}\n")).expect("a file");
            assert_eq!(text.read().expect("a secret"), format!("Bearer {secret}"));
        }
        assert!(!format!("{text:?}").contains("other"));
        assert!(SecretText::parse("Bearer {token}", folder.path()).is_err());
    }

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
