//! Reports that somebody knows of, and need not come again for a while.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::JournalError;
use crate::journal::ACKNOWLEDGED;

/// Acknowledges reports of a watch, of one key or of all, until a time.
pub fn acknowledge(folder: &Path, watch: &str, key: Option<&str>, until_ms: i64) -> Result<(), JournalError> {
    let path = folder.join(ACKNOWLEDGED);
    let line = format!("{}\n", json!({ "watch": watch, "key": key, "until_ms": until_ms }));
    let write = || {
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.write_all(line.as_bytes())?;
        file.sync_data()
    };
    write().map_err(JournalError::at(&path))
}

/// Acknowledgements, as far as they were read.
#[derive(Debug, Default)]
pub struct Acknowledgements {
    length: u64,
    lines: Vec<(String, Option<String>, i64)>,
}

impl Acknowledgements {
    /// Those of a journal.
    pub fn of(folder: &Path) -> Self {
        let mut read = Self::default();
        read.refresh(folder);
        read
    }

    /// Reads the file when it has changed.
    pub fn refresh(&mut self, folder: &Path) {
        let path = folder.join(ACKNOWLEDGED);
        let length = std::fs::metadata(&path).map_or(0, |found| found.len());
        if length == self.length {
            return;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let parsed = text.lines().filter_map(|line| {
            let value: Value = serde_json::from_str(line).ok()?;
            let watch = value.get("watch")?.as_str()?.to_owned();
            let key = value.get("key").and_then(Value::as_str).map(str::to_owned);
            Some((watch, key, value.get("until_ms")?.as_i64()?))
        });
        self.lines = parsed.collect();
        self.length = length;
    }

    /// Whether reports of a key are acknowledged at a time.
    pub fn has(&self, watch: &str, key: &str, at_ms: i64) -> bool {
        self.lines.iter().any(|(of, only, until_ms)| {
            of == watch && *until_ms > at_ms && only.as_ref().is_none_or(|only| only == key)
        })
    }
}
