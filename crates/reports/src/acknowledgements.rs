//! Reports that somebody knows of, and need not come again for a while.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Value, json};

use crate::JournalError;
use crate::journal::ACKNOWLEDGED;
use crate::lines::append_lines;

/// Acknowledges reports of a watch, of one key or of all, until a time.
pub fn acknowledge(folder: &Path, watch: &str, key: Option<&str>, until_ms: i64) -> Result<(), JournalError> {
    let path = folder.join(ACKNOWLEDGED);
    let line = format!("{}\n", json!({ "watch": watch, "key": key, "until_ms": until_ms }));
    append_lines(&path, line.as_bytes()).map_err(JournalError::at(&path))
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
        // one that cannot be read now is read the next time, and what is known holds until then
        let octets = match std::fs::read(&path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!("acknowledgements in {} cannot be read: {error}", path.display());
                return;
            }
        };
        let parsed = octets.split(|&octet| octet == b'\n').filter_map(|line| {
            let value: Value = serde_json::from_slice(line).ok()?;
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

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_cut_off_takes_no_other_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        acknowledge(folder.path(), "scan", None, 10).expect("written");
        let path = folder.path().join(ACKNOWLEDGED);
        let mut file = OpenOptions::new().append(true).open(&path).expect("a file");
        file.write_all(b"{\"watch\":\"ca\xff").expect("half a line");
        acknowledge(folder.path(), "beacon", Some("192.0.2.1"), 10).expect("written");
        let read = Acknowledgements::of(folder.path());
        assert!(read.has("scan", "any", 9) && read.has("beacon", "192.0.2.1", 9) && !read.has("beacon", "other", 9));
    }
}
