//! Reports that are sent: to servers that are there, down, slow, or refuse, at times that are simulated.

mod faults;
mod mail;
mod schedule;
mod server;
mod syslog;
mod webhook;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value, json};
use weir_notify::{Action, Notifier, NotifyCounters, NotifyCounts, Scope};
use weir_reports::{Journal, Retention};

/// Thursday, 2026-01-01T12:00:00Z.
pub(crate) const NOON_MS: i64 = 1_767_268_800_000;

pub(crate) const SECOND: i64 = 1_000;
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 3_600_000;

/// A report of the watch `scan`, whose key is a number.
pub(crate) fn report(number: u64, severity: &str) -> Map<String, Value> {
    let report = json!({
        "id": format!("scan/{number}"), "watch": "scan", "title": "A host tries many services", "severity": severity,
        "window_start": "2026-01-01T11:59:50.000Z", "window_end": "2026-01-01T12:00:00.000Z", "key": format!("n={number}"),
        "rows": 1, "evidence": [{ "flows": number }], "records_lost": 0, "suppressed": 0, "next": "weir query",
    });
    report.as_object().expect("an object").clone()
}

/// A journal with an action, at a time that is simulated.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    journal: Option<Journal>,
    action: Action,
    scope: Scope,
    pub(crate) now_ms: i64,
    counters: Arc<NotifyCounters>,
    notices: Arc<Mutex<Vec<String>>>,
    notifier: Option<Notifier>,
}

impl Scene {
    pub(crate) fn new(action: &str) -> Self {
        Self::with_retention(action, Retention::default())
    }

    pub(crate) fn with_retention(action: &str, retention: Retention) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(folder.path(), retention).expect("a journal");
        let table = action.parse().expect("TOML");
        let action = Action::read(table, folder.path()).unwrap_or_else(|error| panic!("{error:?}"));
        let mut scene = Self {
            folder,
            journal: Some(journal),
            action,
            scope: Scope::Watch("scan".to_owned()),
            now_ms: NOON_MS,
            counters: Arc::default(),
            notices: Arc::default(),
            notifier: None,
        };
        scene.restart();
        scene
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file that says how far the action is.
    pub(crate) fn cursor(&self) -> PathBuf {
        let mut files = std::fs::read_dir(self.folder()).expect("a folder").map(|entry| entry.expect("a file").path());
        files.find(|path| path.extension().is_some_and(|ending| ending == "sent")).expect("a cursor")
    }

    /// As if the process had ended, and begun again.
    pub(crate) fn restart(&mut self) {
        let notices = Arc::clone(&self.notices);
        let notice = Arc::new(move |text| notices.lock().expect("notices").push(text));
        let notifier = Notifier::new(&self.scope, &self.action, self.folder.path(), &self.counters, notice);
        self.notifier = Some(notifier.expect("a notifier"));
    }

    /// The same, with the journal.
    pub(crate) fn reopen(&mut self) {
        drop(self.journal.take());
        self.journal = Some(Journal::open(self.folder(), Retention::default()).expect("a journal"));
        self.restart();
    }

    pub(crate) fn append(&mut self, reports: impl IntoIterator<Item = Map<String, Value>>) {
        let journal = self.journal.as_mut().expect("a journal");
        journal.append(reports, self.now_ms).expect("appended");
        journal.cut(self.now_ms).expect("cut");
    }

    /// The same for the reports of all watches.
    pub(crate) fn of_all(mut self) -> Self {
        self.scope = Scope::All;
        self.restart();
        self
    }

    /// Sends in a thread, by the clock of the machine.
    pub(crate) fn start(&mut self, is_ending: &Arc<AtomicBool>) -> JoinHandle<()> {
        self.notifier.take().expect("a notifier").start(is_ending).expect("a thread")
    }

    /// One turn; how long it may take until the next.
    pub(crate) fn turn(&mut self) -> Duration {
        self.notifier.as_mut().expect("a notifier").turn(self.now_ms)
    }

    /// Lets so much time go by, with a turn whenever it is due; the number of turns.
    pub(crate) fn pass(&mut self, length_ms: i64) -> u64 {
        let end_ms = self.now_ms + length_ms;
        let mut turns = 0;
        while self.now_ms < end_ms {
            let wait = self.turn();
            turns += 1;
            self.now_ms = (self.now_ms + wait.as_millis() as i64).min(end_ms);
        }
        turns
    }

    pub(crate) fn counts(&self) -> NotifyCounts {
        self.counters.counts()
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        self.notices.lock().expect("notices").clone()
    }
}
