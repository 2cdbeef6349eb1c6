//! Reports read back from the journal, for whoever looks at them later.
//!
//! Only the end of the file is read: what people look at is new. All of it is the [table](crate::table). No lock is taken, so the process that
//! runs the watches is not disturbed; a line that is being written is left out.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use crate::journal::{ACKNOWLEDGED, REPORTS};
use crate::log::LogReader;
use crate::{Acknowledgements, JournalError};

/// Octets at the end of the file that are read.
const READ_BACK_MAX: u64 = 8 << 20;

/// A report as the journal has it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptReport {
    /// Its members, as the journal has them.
    pub members: Map<String, Value>,
    /// The end of its window, in milliseconds since the epoch.
    pub window_end_ms: i64,
    /// Whether its key is acknowledged.
    pub is_acknowledged: bool,
}

impl KeptReport {
    /// A member that is a text.
    pub fn text(&self, name: &str) -> &str {
        self.members.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Reads the reports of windows that end after a time, of one watch or of all, the newest first. There are none where no
/// watch has run.
pub fn read(
    folder: &Path,
    watch: Option<&str>,
    after_ms: i64,
    reports_max: usize,
) -> Result<Vec<KeptReport>, JournalError> {
    let path = folder.join(REPORTS);
    let acknowledgements = Acknowledgements::of(folder);
    let mut found: Vec<KeptReport> = Vec::new();
    each(&path, |members| {
        let report = kept(members, &acknowledgements);
        if let Some(report) = report
            && report.window_end_ms > after_ms
            && watch.is_none_or(|watch| report.text("watch") == watch)
        {
            found.push(report);
        }
    })
    .map_err(JournalError::at(&path))?;
    found.reverse();
    found.truncate(reports_max);
    Ok(found)
}

/// When each watch reported last, in milliseconds since the epoch. All reports are read: where their file is at its limit,
/// that takes some seconds.
pub fn last_reported(folder: &Path) -> Result<HashMap<String, i64>, JournalError> {
    let path = folder.join(REPORTS);
    let read = || -> io::Result<HashMap<String, i64>> {
        let mut last = HashMap::new();
        let Some(mut log) = LogReader::open(&path)? else { return Ok(last) };
        while let Some(report) = log.next_report()? {
            if let Some(reported_ms) = report.reported_ms() {
                let of_watch = last.entry(report.text("watch").to_owned()).or_insert(reported_ms);
                *of_watch = reported_ms.max(*of_watch);
            }
        }
        Ok(last)
    };
    read().map_err(JournalError::at(&path))
}

fn kept(members: Map<String, Value>, acknowledgements: &Acknowledgements) -> Option<KeptReport> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let end: jiff::Timestamp = text("window_end").parse().ok()?;
    let window_end_ms = end.as_millisecond();
    let is_acknowledged = acknowledgements.has(text("watch"), text("key"), window_end_ms);
    Some(KeptReport { members, window_end_ms, is_acknowledged })
}

/// Calls `take` with each object at the end of a file, in its order; there is none in a file that is not there.
fn each(path: &Path, mut take: impl FnMut(Map<String, Value>)) -> io::Result<()> {
    let Some(mut log) = LogReader::open(path)? else { return Ok(()) };
    log.seek_to_last(READ_BACK_MAX)?;
    while let Some(report) = log.next_report()? {
        // what a person broke in the file is no report
        report.members.map(&mut take);
    }
    Ok(())
}

/// Counts the reports that nobody has acknowledged, again when a file has changed.
#[derive(Debug, Default)]
pub struct OpenReports {
    lengths: Option<[u64; 2]>,
    count: u64,
}

impl OpenReports {
    /// The number; `None` where no watch has run.
    pub fn count(&mut self, folder: &Path) -> Option<u64> {
        let length = |name: &str| std::fs::metadata(folder.join(name)).ok().map(|found| found.len());
        let lengths = [length(REPORTS)?, length(ACKNOWLEDGED).unwrap_or(0)];
        if self.lengths != Some(lengths) {
            let open = read(folder, None, i64::MIN, usize::MAX).ok()?;
            self.count = open.iter().filter(|report| !report.is_acknowledged).count() as u64;
            self.lengths = Some(lengths);
        }
        Some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acknowledge;

    #[test]
    fn reports_are_read_and_counted_until_they_are_acknowledged() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut open = OpenReports::default();
        assert_eq!(open.count(folder.path()), None);
        assert!(read(folder.path(), None, 0, 10).expect("none").is_empty());
        let line = |watch: &str, key: &str, minute: u8| {
            json!({ "watch": watch, "key": key, "window_end": format!("2026-01-01T00:{minute:02}:00.000Z") })
                .to_string()
        };
        let lines = [line("scan", "a", 1), line("scan", "b", 2), line("flood", "a", 3), "{\"broken\"".to_owned()];
        std::fs::write(folder.path().join(REPORTS), lines.join("\n") + "\n").expect("written");
        assert_eq!(open.count(folder.path()), Some(3));
        // date -u -d 2026-01-01 +%s
        let begin_ms = 1_767_225_600_000;
        let found = read(folder.path(), Some("scan"), begin_ms + 60_000, 10).expect("reports");
        assert_eq!((found.len(), found[0].text("key"), found[0].window_end_ms), (1, "b", begin_ms + 120_000));
        let newest = read(folder.path(), None, begin_ms, 1).expect("reports");
        assert_eq!(newest[0].text("watch"), "flood");
        acknowledge(folder.path(), "scan", Some("a"), begin_ms + 600_000).expect("acknowledged");
        assert_eq!(open.count(folder.path()), Some(2));
    }
}
