//! A file of reports, one object of JSON a line.

use std::path::PathBuf;

use weir_reports::lines::append_lines;

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
        append_lines(&self.path, &lines)
            .map_err(|error| SendError::again(format!("cannot write {}: {error}", self.path.display())))
    }
}
