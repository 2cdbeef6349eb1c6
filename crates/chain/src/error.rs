//! What can go wrong with a chain.

use std::error::Error;

/// Why a component cannot go on. The chain adds the name of the component.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ComponentError {
    message: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ComponentError {
    /// An error of its own: lower case, no final period, names the thing.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// An error with a cause, which the message does not repeat.
    pub fn caused(message: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }

    /// A component needs a column that its input does not have.
    pub fn missing_column(column: &str, rows: &arrow::array::RecordBatch) -> Self {
        let schema = rows.schema();
        let found: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        Self::new(format!("input has no column '{column}'; it has {}", found.join(", ")))
    }

    /// The message and all its causes in one line.
    pub fn chain(&self) -> String {
        weir_flow::with_causes(self)
    }
}

/// What is wrong with a chain file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Line of the file, from 1; 0 when the error has no place.
    pub line: usize,
    /// Column of the line in letters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it, when that is known.
    pub hint: Option<String>,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}
