//! Texts of a watch file with places for [secrets](Secret).

use std::ffi::OsString;
use std::io;
use std::path::Path;

use toml::Value;
use weir_chain::{OptionValue, Problem, Secret, ValueType};

fn one_text(value: &Value) -> Result<&str, Problem> {
    value.as_str().ok_or(Problem::Needs("text"))
}

fn last_word(words: &[OsString]) -> Result<&str, Problem> {
    words.last().and_then(|word| word.to_str()).ok_or_else(|| Problem::because("a word is not UTF-8"))
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
            let no_place =
                || Problem::Because("a '{' begins no place for a secret".to_owned(), Some(Secret::HINT.to_owned()));
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
            TextPart::Secret(secret) => format!("{{{}}}", secret.place()),
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
}
