//! What is wrong with an option.

/// What is wrong with an option of a component. Place and component are added by whoever reads the chain file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionError {
    /// Key of the option.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it, when that is known.
    pub hint: Option<String>,
}

impl OptionError {
    /// An error about an option.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), hint: None }
    }

    /// The same error with a remedy.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The error about an unknown key, with the known key that is most like it.
pub(crate) fn unknown_key<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> OptionError {
    OptionError::new(key, format!("'{key}' is not known here")).with_hint(closest(key, known))
}

/// The remedy for an unknown word: the known one that is most like it, or all of them.
pub fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let likeness = |other: &'a str| (strsim::jaro_winkler(word, other), other);
    match known.clone().map(likeness).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, other)) if likeness > 0.75 => format!("did you mean '{other}'?"),
        _ => format!("known are: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
