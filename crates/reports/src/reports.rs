//! Reports read back from the journal, for whoever looks at them later.
//!
//! Only the end of the file is read: what people look at is new. All of it is the [table](crate::table). No lock is taken, so the process that
//! runs the watches is not disturbed; a line that is being written is left out.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
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
        ControlFlow::Continue(())
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

/// Whether a watch has reported a key, of which as little is kept as is needed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReportedKeys {
    /// It has.
    HasKey,
    /// It has not: other keys that it reported, the last one first.
    Others(Vec<String>),
}

/// Looks for a key among the reports of a watch, and remembers so many others at most. Reading stops where the key is.
pub(crate) fn find_key(folder: &Path, watch: &str, key: &str, others_max: usize) -> Result<ReportedKeys, JournalError> {
    let path = folder.join(REPORTS);
    let (mut has_key, mut others) = (false, Vec::new());
    each(&path, |members| {
        let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("watch") != watch {
            return ControlFlow::Continue(());
        }
        has_key = text("key") == key;
        if has_key {
            return ControlFlow::Break(());
        }
        note_key(&mut others, text("key"), others_max);
        ControlFlow::Continue(())
    })
    .map_err(JournalError::at(&path))?;
    Ok(if has_key { ReportedKeys::HasKey } else { ReportedKeys::Others(others) })
}

/// Puts a key in front of those before it, each of which is there once, and leaves out those that are too many.
fn note_key(keys: &mut Vec<String>, key: &str, keys_max: usize) {
    if key.is_empty() {
        return;
    }
    keys.retain(|other| other != key);
    keys.insert(0, key.to_owned());
    keys.truncate(keys_max);
}

fn kept(members: Map<String, Value>, acknowledgements: &Acknowledgements) -> Option<KeptReport> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let end: jiff::Timestamp = text("window_end").parse().ok()?;
    let window_end_ms = end.as_millisecond();
    let is_acknowledged = acknowledgements.has(text("watch"), text("key"), window_end_ms);
    Some(KeptReport { members, window_end_ms, is_acknowledged })
}

/// Calls `take` with each object at the end of a file, in its order, until it breaks; there is none in a file that is not there.
fn each(path: &Path, mut take: impl FnMut(Map<String, Value>) -> ControlFlow<()>) -> io::Result<()> {
    let Some(mut log) = LogReader::open(path)? else { return Ok(()) };
    log.seek_to_last(READ_BACK_MAX)?;
    while let Some(report) = log.next_report()? {
        // what a person broke in the file is no report
        if report.members.is_some_and(|members| take(members).is_break()) {
            break;
        }
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
    fn a_key_is_looked_for_and_few_others_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let find = |watch: &str, key: &str| find_key(folder.path(), watch, key, 3).expect("read");
        let others = |keys: &[&str]| ReportedKeys::Others(keys.iter().map(|key| (*key).to_owned()).collect());
        assert_eq!(find("scan", "a"), others(&[]));
        let line = |(watch, key): (&str, &str)| json!({ "watch": watch, "key": key }).to_string() + "\n";
        let keys = ["a", "b", "c", "", "d", "b"].map(|key| ("scan", key));
        let lines: String = keys.into_iter().chain([("flood", "x")]).map(line).collect();
        std::fs::write(folder.path().join(REPORTS), lines).expect("written");
        // each once, the last three
        assert_eq!(find("scan", "x"), others(&["b", "d", "c"]));
        assert_eq!(find("scan", "a"), ReportedKeys::HasKey);
        assert_eq!(find("flood", "a"), others(&["x"]));
        // reading stops at the key: the file is not looked at behind it
        let mut taken = 0;
        let stopped = each(&folder.path().join(REPORTS), |_| {
            taken += 1;
            if taken == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        stopped.expect("read");
        assert_eq!(taken, 2);
    }

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
