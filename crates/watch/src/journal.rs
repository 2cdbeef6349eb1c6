//! What watches found and how far they are, on disk.
//!
//! Reports are appended to `reports.ndjson` and synced before anybody hears of them; then the state of the watch is
//! replaced. A crash between the two makes the window be asked again, and its reports, which have the same ids, are
//! known. Whoever sends reports elsewhere reads them from this file and keeps how far they got, so a receiver that is
//! down for an hour gets them later. What speaks against one file is that it grows; a report has some hundred octets.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::report::Report;
use crate::{WatchError, WatchOptions};

/// File of reports.
pub const REPORTS: &str = "reports.ndjson";
/// How much of the file of reports is read back when a watch begins: some hundred thousand of them. What a crash left to do
/// is at its end, and a key that was reported before is reported again at worst.
const READ_BACK_MAX: u64 = 64 << 20;
/// File of acknowledgements.
pub const ACKNOWLEDGED: &str = "acknowledged.ndjson";

/// How far a watch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchState {
    /// The end of the last window that was asked.
    pub window_end_ms: i64,
    /// What the windows were; those of other lengths cannot go on from here.
    pub windows: (i64, i64),
}

/// The journal of the watches of an archive.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    reports: File,
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

fn cannot_use(path: &Path) -> impl FnOnce(io::Error) -> WatchError + use<> {
    let path = path.to_owned();
    |source| WatchError::Journal { path, source }
}

impl Journal {
    /// Opens the journal in a folder, which is made; only one process may have it.
    pub fn open(folder: &Path) -> Result<Self, WatchError> {
        std::fs::create_dir_all(folder).map_err(cannot_use(folder))?;
        let lock_path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(cannot_use(&lock_path))?;
        lock.try_lock().map_err(|_| {
            let taken = io::Error::new(io::ErrorKind::WouldBlock, "another process runs the watches of this archive");
            cannot_use(&lock_path)(taken)
        })?;
        let path = folder.join(REPORTS);
        let reports = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(cannot_use(&path))?;
        let mut journal = Self { folder: folder.to_owned(), reports, _lock: lock };
        journal.end_of_whole_lines().map_err(cannot_use(&path))?;
        Ok(journal)
    }

    /// Removes a last line that a crash cut off.
    fn end_of_whole_lines(&mut self) -> io::Result<()> {
        let length = self.reports.seek(SeekFrom::End(0))?;
        let mut end = length;
        let mut octet = [0];
        while end > 0 {
            self.reports.seek(SeekFrom::Start(end - 1))?;
            self.reports.read_exact(&mut octet)?;
            if octet == *b"\n" {
                break;
            }
            end -= 1;
        }
        if end < length {
            self.reports.set_len(end)?;
        }
        Ok(())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How far a watch is; `None` when it is new, or its state cannot be understood.
    pub fn state(&self, watch: &str) -> Result<Option<WatchState>, WatchError> {
        let path = self.state_path(watch);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot_use(&path)(error)),
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

    fn state_path(&self, watch: &str) -> PathBuf {
        self.folder.join(format!("{watch}.state"))
    }

    /// Appends reports and syncs them: all of them or, on an error, none.
    pub fn append(&mut self, reports: &[Report]) -> Result<(), WatchError> {
        let path = self.folder.join(REPORTS);
        let mut text = String::new();
        for report in reports {
            text.push_str(&report.json().to_string());
            text.push('\n');
        }
        let length = self.reports.metadata().map_err(cannot_use(&path))?.len();
        let written = self.reports.write_all(text.as_bytes()).and_then(|()| self.reports.sync_data());
        if written.is_err() {
            // a part of a line must not become one with the next; when this fails too, the next start cuts it off
            let _ = self.reports.set_len(length);
        }
        written.map_err(cannot_use(&path))
    }

    /// Replaces how far a watch is; its reports are appended before.
    pub fn keep_state(&self, watch: &str, state: &WatchState) -> Result<(), WatchError> {
        let path = self.state_path(watch);
        let (size_ms, slide_ms) = state.windows;
        let text = json!({ "window_end_ms": state.window_end_ms, "size_ms": size_ms, "slide_ms": slide_ms });
        replace(&path, text.to_string().as_bytes()).map_err(cannot_use(&path))
    }

    /// What a watch reported before, as far as the last part of the file tells.
    pub fn reported(&self, watch: &str, options: &WatchOptions, after_ms: i64) -> Result<PreviousReports, WatchError> {
        let path = self.folder.join(REPORTS);
        let mut reported = PreviousReports::default();
        let mut file = File::open(&path).map_err(cannot_use(&path))?;
        let length = file.metadata().map_err(cannot_use(&path))?.len();
        let begin = length.saturating_sub(READ_BACK_MAX);
        file.seek(SeekFrom::Start(begin)).map_err(cannot_use(&path))?;
        let since_ms = after_ms.saturating_sub(options.reports.repeat_after.millis());
        // the first line may be a part of one
        for line in BufReader::new(file).split(b'\n').skip(usize::from(begin > 0)) {
            let line = line.map_err(cannot_use(&path))?;
            // what a person broke in the file is no report
            let Ok(value) = serde_json::from_slice::<Value>(&line) else { continue };
            let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            let end = text("window_end").parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond);
            let Ok(end_ms) = end else { continue };
            if text("watch") != watch || end_ms <= since_ms {
                continue;
            }
            let last = reported.last.entry(text("key").to_owned()).or_insert(end_ms);
            *last = (*last).max(end_ms);
            if end_ms > after_ms {
                reported.ids.insert(text("id").to_owned());
            }
        }
        Ok(reported)
    }
}

/// Replaces a small file: a crash leaves what was there or what is new.
pub(crate) fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(octets)?;
    file.sync_data()?;
    std::fs::rename(&new, path)
}

/// Whether a watch has run on the archive of a journal.
pub fn has_run(folder: &Path, watch: &str) -> bool {
    folder.join(format!("{watch}.state")).exists()
}

/// Acknowledges reports of a watch, of one key or of all, until a time.
pub fn acknowledge(folder: &Path, watch: &str, key: Option<&str>, until_ms: i64) -> Result<(), WatchError> {
    let path = folder.join(ACKNOWLEDGED);
    let line = format!("{}\n", json!({ "watch": watch, "key": key, "until_ms": until_ms }));
    let write = || {
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.write_all(line.as_bytes())?;
        file.sync_data()
    };
    write().map_err(cannot_use(&path))
}

/// Acknowledgements, as far as they were read.
#[derive(Debug, Default)]
pub struct Acknowledgements {
    length: u64,
    lines: Vec<(String, Option<String>, i64)>,
}

impl Acknowledgements {
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
