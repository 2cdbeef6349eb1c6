//! A file of reports, one object of JSON a line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::target::{Message, SendError, Target};

/// Appends reports to a file. It is opened for each message, so one that was moved away is made anew.
#[derive(Debug)]
pub(crate) struct FileTarget {
    path: PathBuf,
}

impl FileTarget {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut file: File = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let length = file.metadata()?.len();
        let written = file.write_all(lines).and_then(|()| file.sync_data());
        if written.is_err() {
            // a part of a line must not become one with the next
            let _ = file.set_len(length);
        }
        written
    }
}

impl Target for FileTarget {
    fn takes_several(&self) -> bool {
        true
    }

    fn send(&mut self, message: &Message<'_>, _now_ms: i64) -> Result<(), SendError> {
        let mut lines = Vec::new();
        for report in message.0 {
            lines.extend_from_slice(&report.line);
            lines.push(b'\n');
        }
        let named = |error: io::Error| SendError::again(format!("cannot write {}: {error}", self.path.display()));
        self.append(&lines).map_err(named)
    }
}
