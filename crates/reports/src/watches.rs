//! Which watches a process runs on an archive, and which of them somebody has paused.
//!
//! Whoever runs watches keeps the list of them in the journal, so that a command knows them without their files. A pause is
//! a file in the journal, which commands make and remove, and which the process that runs the watch notices: watch files
//! may be read-only, or come from elsewhere. What speaks against it is that a watch can be paused in two places: a file that
//! says `paused = true` keeps it paused, whatever is here.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::journal::{LOCK, replace};
use crate::{JournalError, Severity};

/// File of the list.
const WATCHES: &str = "watches.json";

/// A watch as the process that runs it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWatch {
    /// Its name.
    pub name: String,
    /// The severity of its reports; `None` when its file could never be read.
    pub severity: Option<Severity>,
    /// Its windows in words; empty when its statement could never be planned.
    pub window: String,
    /// Whether its file says that it is paused.
    pub is_paused_by_file: bool,
    /// The columns of the keys of its reports; `None` when its file could never be read.
    pub key: Option<Vec<KeyColumn>>,
    /// What is wrong with its file, if anything: what ran before then goes on. Or why it does not run yet, and tries again.
    pub error: Option<String>,
}

/// A column of keys of reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Whether its values are addresses, or networks of them.
    pub is_address: bool,
}

/// Replaces the list of watches.
pub fn keep(folder: &Path, watches: &[ListedWatch]) -> Result<(), JournalError> {
    let listed = watches.iter().map(|watch| {
        json!({
            "name": watch.name,
            "severity": watch.severity.map(Severity::word),
            "window": watch.window,
            "paused": watch.is_paused_by_file,
            "key": watch.key.as_ref().map(|key| key.iter().map(kept_column).collect::<Vec<_>>()),
            "error": watch.error,
        })
    });
    let path = folder.join(WATCHES);
    replace(&path, Value::Array(listed.collect()).to_string().as_bytes()).map_err(JournalError::at(&path))
}

/// The watches that were kept last, by any process. There are none where none was.
pub fn read(folder: &Path) -> Result<Vec<ListedWatch>, JournalError> {
    let path = folder.join(WATCHES);
    let octets = match std::fs::read(&path) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(JournalError::at(&path)(error)),
    };
    let listed: Vec<Value> =
        serde_json::from_slice(&octets).map_err(|error| JournalError::at(&path)(io::Error::from(error)))?;
    Ok(listed.iter().filter_map(parsed).collect())
}

fn kept_column(column: &KeyColumn) -> Value {
    json!({ "name": column.name, "address": column.is_address })
}

fn parsed_column(value: &Value) -> Option<KeyColumn> {
    let is_address = value.get("address").and_then(Value::as_bool).unwrap_or(false);
    Some(KeyColumn { name: value.get("name")?.as_str()?.to_owned(), is_address })
}

fn parsed(value: &Value) -> Option<ListedWatch> {
    let text = |member: &str| value.get(member).and_then(Value::as_str);
    Some(ListedWatch {
        name: text("name")?.to_owned(),
        severity: text("severity").and_then(Severity::by_word),
        window: text("window").unwrap_or_default().to_owned(),
        is_paused_by_file: value.get("paused").and_then(Value::as_bool).unwrap_or(false),
        key: value.get("key").and_then(Value::as_array).map(|key| key.iter().filter_map(parsed_column).collect()),
        error: text("error").map(str::to_owned),
    })
}

/// Pauses a watch until it is [resumed](resume), also over restarts. False when it was paused so already.
pub fn pause(folder: &Path, watch: &str, now_ms: i64) -> Result<bool, JournalError> {
    let path = pause_path(folder, watch);
    if path.try_exists().map_err(JournalError::at(&path))? {
        return Ok(false);
    }
    let text = json!({ "asked_ms": now_ms }).to_string();
    replace(&path, text.as_bytes()).map_err(JournalError::at(&path))?;
    Ok(true)
}

/// Ends the pause of a watch. False when there was none.
pub fn resume(folder: &Path, watch: &str) -> Result<bool, JournalError> {
    let path = pause_path(folder, watch);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(JournalError::at(&path)(error)),
    }
}

/// Whether somebody has [paused](pause) a watch; its file may say so too. A watch counts as paused where that cannot be
/// told: a file system that fails for a moment ends no pause.
pub fn is_paused(folder: &Path, watch: &str) -> bool {
    pause_path(folder, watch).try_exists().unwrap_or(true)
}

fn pause_path(folder: &Path, watch: &str) -> PathBuf {
    folder.join(format!("{watch}.pause"))
}

/// Whether a process runs the watches of a journal.
pub fn is_run(folder: &Path) -> bool {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return false };
    // one that opens the journal at this moment is refused by a lock that is shared, and tries again
    match lock.try_lock_shared() {
        Ok(()) => {
            // closing the file gives it back as well
            let _ = lock.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, Retention};

    #[test]
    fn the_list_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path()).expect("no list"), []);
        let scan = ListedWatch {
            name: "scan".to_owned(),
            severity: Some(Severity::Warning),
            window: "a minute".to_owned(),
            is_paused_by_file: true,
            key: Some(vec![KeyColumn { name: "src_addr".to_owned(), is_address: true }]),
            error: None,
        };
        let wrong = ListedWatch {
            name: "wrong".to_owned(),
            severity: None,
            window: String::new(),
            is_paused_by_file: false,
            key: None,
            error: Some("no TOML".to_owned()),
        };
        keep(folder.path(), std::slice::from_ref(&wrong)).expect("kept");
        keep(folder.path(), &[scan.clone(), wrong.clone()]).expect("replaced");
        assert_eq!(read(folder.path()).expect("a list"), [scan, wrong]);
    }

    #[test]
    fn a_pause_lasts_until_it_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let paused = || ["scan", "flood"].map(|watch| is_paused(folder.path(), watch));
        assert!(!resume(folder.path(), "scan").expect("there was none"));
        assert!(pause(folder.path(), "scan", 1).expect("paused"));
        assert!(!pause(folder.path(), "scan", 2).expect("it was"));
        assert_eq!(paused(), [true, false]);
        assert!(resume(folder.path(), "scan").expect("ended"));
        assert_eq!(paused(), [false, false]);
    }

    /// A link to itself is an error of the system (ELOOP), as a file server that does not answer is (EIO).
    #[cfg(unix)]
    #[test]
    fn a_file_system_that_fails_ends_no_pause() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("scan.pause", folder.path().join("scan.pause")).expect("a link");
        assert!(is_paused(folder.path(), "scan"));
        assert!(pause(folder.path(), "scan", 1).is_err(), "that it was paused is not known");
    }

    #[test]
    fn who_holds_the_journal_runs_its_watches() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!is_run(folder.path()));
        let journal = Journal::open(folder.path(), Retention::default()).expect("a journal");
        assert!(is_run(folder.path()));
        drop(journal);
        assert!(!is_run(folder.path()));
    }
}
