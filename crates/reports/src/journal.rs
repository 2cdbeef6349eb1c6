//! What watches found and how far they are, on disk.
//!
//! Reports are appended to `reports.ndjson` and synced before anybody hears of them; then the state of the watch is
//! replaced. A crash between the two makes the window be asked again, and its reports, which have the same ids, are
//! known. Whoever sends reports elsewhere reads them from this file and keeps how far they got, so a receiver that is
//! down for an hour gets them later.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::JournalError;
use crate::log::{LogReader, LogWriter, Retention};

/// File of reports.
pub const REPORTS: &str = "reports.ndjson";
/// How much of the file of reports is read back when a watch begins: some hundred thousand of them. What a crash left to do
/// is at its end, and a key that was reported before is reported again at worst.
const READ_BACK_MAX: u64 = 64 << 20;
/// File of acknowledgements.
pub const ACKNOWLEDGED: &str = "acknowledged.ndjson";
/// File whose lock the process has that runs the watches.
pub(crate) const LOCK: &str = "lock";
/// How long a lock may be taken by whoever only looks whether it is.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// How far a watch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchState {
    /// The end of the last window that was asked, or of the last one before the watch began.
    pub window_end_ms: i64,
    /// What the windows were; those of other lengths cannot go on from here.
    pub windows: (i64, i64),
}

/// The journal of the watches of an archive.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    reports: LogWriter,
    /// Held while the journal is open.
    _lock: File,
}

/// What was reported before.
#[derive(Debug, Default)]
pub struct PreviousReports {
    /// Ids of reports of windows that end after the state of their watch.
    pub ids: HashSet<String>,
    /// When a key of a watch was last reported: the end of the window.
    pub last: HashMap<String, i64>,
}

impl Journal {
    /// Opens the journal in a folder, which is made; only one process may have it.
    pub fn open(folder: &Path, retention: Retention) -> Result<Self, JournalError> {
        std::fs::create_dir_all(folder).map_err(JournalError::at(folder))?;
        let lock_path = folder.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(JournalError::at(&lock_path))?;
        lock.try_lock()
            .or_else(|_| {
                std::thread::sleep(LOOK_MAX);
                lock.try_lock()
            })
            .map_err(|_| {
                let taken =
                    io::Error::new(io::ErrorKind::WouldBlock, "another process runs the watches of this archive");
                JournalError::at(&lock_path)(taken)
            })?;
        let path = folder.join(REPORTS);
        let reports = LogWriter::open(&path, retention).map_err(JournalError::at(&path))?;
        Ok(Self { folder: folder.to_owned(), reports, _lock: lock })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How far a watch is; `None` when it is new, or its state cannot be understood.
    pub fn state(&self, watch: &str) -> Result<Option<WatchState>, JournalError> {
        state(&self.folder, watch)
    }

    /// Appends reports, with the time as `reported`, and syncs them: all of them or, on an error, none.
    pub fn append(
        &mut self,
        reports: impl IntoIterator<Item = Map<String, Value>>,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let reported = Timestamp::from_millisecond(now_ms).map(|time| format!("{time:.3}"));
        let mut lines = String::new();
        for mut members in reports {
            // a clock beyond the year 9999 has no text
            if let Ok(reported) = &reported {
                members.insert("reported".to_owned(), Value::String(reported.clone()));
            }
            lines.push_str(&Value::Object(members).to_string());
            lines.push('\n');
        }
        self.reports.append(&lines).map_err(JournalError::at(&self.folder.join(REPORTS)))
    }

    /// Removes the oldest reports when there are too many or they are too old; the number of those. Reports that were appended stay when
    /// it fails, and it is tried again a minute later.
    pub fn cut(&mut self, now_ms: i64) -> Result<u64, JournalError> {
        self.reports.cut(now_ms).map_err(JournalError::at(&self.folder.join(REPORTS)))
    }

    /// Replaces how far a watch is; its reports are appended before.
    pub fn keep_state(&self, watch: &str, state: &WatchState) -> Result<(), JournalError> {
        let path = state_path(&self.folder, watch);
        let (size_ms, slide_ms) = state.windows;
        let text = json!({ "window_end_ms": state.window_end_ms, "size_ms": size_ms, "slide_ms": slide_ms });
        replace(&path, text.to_string().as_bytes()).map_err(JournalError::at(&path))
    }

    /// Notes that a watch is paused since this time, or since an earlier one; gives that one.
    pub fn pause(&self, watch: &str, now_ms: i64) -> Result<i64, JournalError> {
        if let Some(since_ms) = self.paused_since(watch)? {
            return Ok(since_ms);
        }
        let path = self.paused_path(watch);
        let text = json!({ "paused_since_ms": now_ms }).to_string();
        replace(&path, text.as_bytes()).map_err(JournalError::at(&path))?;
        Ok(now_ms)
    }

    /// Since when a watch is paused, in milliseconds since the epoch; `None` when it is not.
    pub fn paused_since(&self, watch: &str) -> Result<Option<i64>, JournalError> {
        let path = self.paused_path(watch);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let value: Option<Value> = serde_json::from_str(&text).ok();
                Ok(value.and_then(|value| value.get("paused_since_ms")?.as_i64()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(JournalError::at(&path)(error)),
        }
    }

    /// Notes that a watch is not paused any more.
    pub fn resume(&self, watch: &str) -> Result<(), JournalError> {
        let path = self.paused_path(watch);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(JournalError::at(&path)(error)),
            _ => Ok(()),
        }
    }

    fn paused_path(&self, watch: &str) -> PathBuf {
        self.folder.join(format!("{watch}.paused"))
    }

    /// What a watch reported before about windows that end after `after_ms`, and when it reported each key in the time `repeat_after_ms`
    /// before, as far as the last part of the file tells.
    pub fn reported(&self, watch: &str, repeat_after_ms: i64, after_ms: i64) -> Result<PreviousReports, JournalError> {
        let path = self.folder.join(REPORTS);
        let since_ms = after_ms.saturating_sub(repeat_after_ms);
        let read = || -> io::Result<PreviousReports> {
            let mut reported = PreviousReports::default();
            let Some(mut log) = LogReader::open(&path)? else { return Ok(reported) };
            log.seek_to_last(READ_BACK_MAX)?;
            while let Some(report) = log.next_report()? {
                let end = report.text("window_end").parse::<Timestamp>().map(Timestamp::as_millisecond);
                let Ok(end_ms) = end else { continue };
                if report.text("watch") != watch || end_ms <= since_ms {
                    continue;
                }
                if report.is_withdrawal() {
                    // the next report of the key is no repetition
                    if reported.last.get(report.text("key")) == Some(&end_ms) {
                        reported.last.remove(report.text("key"));
                    }
                } else {
                    let last = reported.last.entry(report.text("key").to_owned()).or_insert(end_ms);
                    *last = (*last).max(end_ms);
                }
                if end_ms > after_ms {
                    reported.ids.insert(report.text("id").to_owned());
                }
            }
            Ok(reported)
        };
        read().map_err(JournalError::at(&path))
    }
}

/// Replaces a small file: a crash leaves what was there or what is new.
pub fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(octets)?;
    file.sync_data()?;
    std::fs::rename(&new, path)
}

/// Whether a watch has run on the archive of a journal.
pub fn has_run(folder: &Path, watch: &str) -> bool {
    state_path(folder, watch).exists()
}

/// How far a watch is, without the lock of the journal; `None` when it has not run, or its state cannot be understood.
pub fn state(folder: &Path, watch: &str) -> Result<Option<WatchState>, JournalError> {
    let path = state_path(folder, watch);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::at(&path)(error)),
    };
    let parsed = || {
        let value: Value = serde_json::from_str(&text).ok()?;
        Some(WatchState {
            window_end_ms: value.get("window_end_ms")?.as_i64()?,
            windows: (value.get("size_ms")?.as_i64()?, value.get("slide_ms")?.as_i64()?),
        })
    };
    Ok(parsed())
}

fn state_path(folder: &Path, watch: &str) -> PathBuf {
    folder.join(format!("{watch}.state"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What late flows have taken back does not make the next report of the key a repetition.
    #[test]
    fn a_report_that_was_withdrawn_is_not_the_last_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::open(folder.path(), Retention::default()).expect("a journal");
        let report = |key: &str, second: u8, rows: u64, is_correction: bool| {
            let report = json!({
                "id": format!("w/{second}/{key}/{is_correction}"), "watch": "w", "key": key, "rows": rows, "correction": is_correction,
                "window_end": format!("2026-01-01T00:00:{second:02}.000Z"),
            });
            report.as_object().cloned().unwrap_or_default()
        };
        let reports = [
            report("a", 10, 1, false),
            report("b", 10, 1, false),
            report("b", 20, 1, false),
            report("a", 10, 0, true),
            report("b", 10, 0, true),
        ];
        journal.append(reports, 0).expect("appended");
        let reported = journal.reported("w", i64::MAX, i64::MIN).expect("reports");
        assert_eq!(reported.last.into_iter().collect::<Vec<_>>(), [("b".to_owned(), 1_767_225_620_000)]);
        assert_eq!(reported.ids.len(), 5);
    }
}
