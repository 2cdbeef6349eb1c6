//! Sends the reports of a watch to a target.
//!
//! Everything depends on the time that is given to [`Notifier::turn`], so an hour can be over at once in a test. A target that is
//! down is tried again after half a second, and then after twice as long each time up to a minute; up to half of
//! that is left to chance, so that those who wait for one server do not come at once when it is up.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_reports::JournalError;
use weir_reports::journal::REPORTS;
use weir_reports::log::LogReader;

use crate::action::Action;
use crate::counters::{NotifyCounters, add};
use crate::cursor::{Cursor, KeptCursor};
use crate::gathering::{Batching, Gathering, Scope, is_quiet};
use crate::target::{Message, SendError, Target};
use crate::targets;

/// How often the journal is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long it takes until a target that is down is tried again: at first, and at most.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));
/// How long a watch that ends may go on sending; the next start sends the rest.
const ENDING_MAX: Duration = Duration::from_secs(2);
const HOUR_MS: i64 = 3_600_000;

/// Takes what whoever runs the watches should know.
pub type Notice = Arc<dyn Fn(String) + Send + Sync>;

/// Sends the reports of a watch, or of all, to a target.
pub struct Notifier {
    scope: Scope,
    action: Action,
    /// The file of reports.
    journal: PathBuf,
    cursor_path: PathBuf,
    cursor: Cursor,
    /// Whether the cursor has moved and could not be kept.
    is_unkept: bool,
    /// Whether the journal was not there when it was looked at last.
    is_journal_missing: bool,
    gathering: Gathering,
    target: Box<dyn Target>,
    /// When messages of the last hour were sent.
    sent_ms: VecDeque<i64>,
    failures: u32,
    /// When the target is tried again.
    again_ms: Option<i64>,
    /// When it must have ended.
    ends_at: Option<Instant>,
    counters: Arc<NotifyCounters>,
    notice: Notice,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").field("scope", &self.scope).field("action", &self.action).finish_non_exhaustive()
    }
}

/// A number of an action that stays the same when others come and go (FNV-1a).
fn number_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3))
}

/// A part of a time, at least half of it.
fn at_random(length: Duration) -> Duration {
    let half = length / 2;
    let chance = RandomState::new().hash_one(0) % 1_000;
    half + half * u32::try_from(chance).unwrap_or(0) / 1_000
}

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

impl Notifier {
    /// Begins after the reports that are in the journal of `folder` when the action is new, and where it was otherwise.
    pub fn new(
        scope: &Scope,
        action: &Action,
        folder: &Path,
        counters: &Arc<NotifyCounters>,
        notice: Notice,
    ) -> Result<Self, JournalError> {
        let journal = folder.join(REPORTS);
        let cursor_path = folder.join(format!("{}.{:016x}.sent", scope.file_name(), number_of(&action.identity())));
        let begin = || -> io::Result<Cursor> {
            let kept = KeptCursor::read(&cursor_path)?;
            let cursor = match kept {
                KeptCursor::Whole(cursor) => {
                    if LogReader::open(&journal)?.is_none_or(|log| cursor.sent <= log.end()) {
                        return Ok(cursor);
                    }
                    // found now, before the watch adds to what is there
                    notice(shortened(scope));
                    cursor_at(&journal, scope, None)?
                }
                KeptCursor::Place(place) => cursor_at(&journal, scope, Some(place))?,
                KeptCursor::Missing => cursor_at(&journal, scope, None)?,
                KeptCursor::Damaged => {
                    notice(format!("{scope}: how far reports were sent is not known; it begins at the end"));
                    cursor_at(&journal, scope, None)?
                }
            };
            cursor.keep(&cursor_path)?;
            Ok(cursor)
        };
        let cursor = begin().map_err(JournalError::at(&cursor_path))?;
        Ok(Self {
            scope: scope.clone(),
            target: targets::target(&action.target),
            action: action.clone(),
            journal,
            cursor_path,
            gathering: Gathering::new(&cursor, false),
            cursor,
            is_unkept: false,
            is_journal_missing: false,
            sent_ms: VecDeque::new(),
            failures: 0,
            again_ms: None,
            ends_at: None,
            counters: Arc::clone(counters),
            notice,
        })
    }

    /// Sends in a thread of its own, until `is_ending`, and then what can still be sent at once.
    pub fn start(mut self, is_ending: &Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
        let is_ending = Arc::clone(is_ending);
        self.target.ends_with(&is_ending);
        let run = move || {
            loop {
                let is_last = is_ending.load(Ordering::Relaxed);
                if is_last {
                    self.ends_at = Some(Instant::now() + ENDING_MAX);
                }
                let mut left = self.turn(now_ms());
                if is_last {
                    return;
                }
                while !left.is_zero() && !is_ending.load(Ordering::Relaxed) {
                    let step = left.min(LOOK_EVERY);
                    thread::sleep(step);
                    left -= step;
                }
            }
        };
        thread::Builder::new().name("weir-notify".to_owned()).spawn(run)
    }

    /// Sends what is to be sent at a time; gives how long it may take until the next turn.
    pub fn turn(&mut self, now_ms: i64) -> Duration {
        if let Some(again_ms) = self.again_ms {
            let left_ms = again_ms.saturating_sub(now_ms);
            // a clock that went back must not put it off
            if (1..=HOUR_MS).contains(&left_ms) {
                return Duration::from_millis(left_ms.unsigned_abs());
            }
        }
        match self.send_due(now_ms) {
            Ok(()) => {
                self.again_ms = None;
                if self.gathering.reports.is_empty() {
                    self.recovered();
                }
                LOOK_EVERY
            }
            Err(error) => self.failed(&error, now_ms),
        }
    }

    fn recovered(&mut self) {
        if self.failures > 0 {
            let (scope, failures) = (&self.scope, self.failures);
            (self.notice)(format!("{scope}: reports are sent again, after {failures} failures"));
            self.failures = 0;
        }
    }

    fn failed(&mut self, error: &SendError, now_ms: i64) -> Duration {
        add(&self.counters.sends_failed, 1);
        if self.failures == 0 {
            (self.notice)(format!("{}: reports cannot be sent, trying again: {error}", self.scope));
        }
        let doubled = RETRY_AFTER.0.saturating_mul(1 << self.failures.min(16)).min(RETRY_AFTER.1);
        self.failures = self.failures.saturating_add(1);
        let asked = match error {
            SendError::Again { after, .. } => after.unwrap_or_default(),
            SendError::Unknown(_) | SendError::Refused(_) => Duration::ZERO,
        };
        let wait = at_random(doubled).max(asked);
        self.again_ms = Some(now_ms.saturating_add(millis(wait)));
        wait
    }

    fn send_due(&mut self, now_ms: i64) -> Result<(), SendError> {
        if self.is_unkept {
            // what was sent must not be forgotten, so nothing more is sent before
            self.keep()?;
        }
        let is_quiet = is_quiet(&self.action, now_ms);
        if is_quiet != self.gathering.is_quiet {
            self.gathering = Gathering::new(&self.cursor, is_quiet);
        }
        let Some(mut log) = LogReader::open(&self.journal)? else {
            self.miss_journal();
            return Ok(());
        };
        self.is_journal_missing = false;
        self.pass_removed(&log)?;
        loop {
            let batching = match (self.target.takes_several(), self.may_send(now_ms)) {
                (false, _) => Batching::Never,
                (true, true) => Batching::Digests,
                (true, false) => Batching::Always,
            };
            self.gathering.read(&mut log, &self.scope, &self.action, &self.cursor, batching)?;
            let is_due = self.gathering.is_due(&self.action, now_ms) && self.may_send(now_ms);
            if !is_due || self.ends_at.is_some_and(|end| Instant::now() > end) {
                return self.pass_unwanted();
            }
            self.send(now_ms)?;
        }
    }

    /// Sends the message that was gathered.
    fn send(&mut self, now_ms: i64) -> Result<(), SendError> {
        self.gathering.is_closed = true;
        let count = self.gathering.reports.len() as u64;
        match self.target.send(&Message(&self.gathering.reports), now_ms) {
            Ok(()) => {
                add(&self.counters.reports_sent, count);
                self.recovered();
            }
            Err(SendError::Refused(reason)) => {
                add(&self.counters.reports_refused, count);
                let scope = &self.scope;
                (self.notice)(format!("{scope}: {count} reports are refused, and not sent again: {reason}"));
            }
            Err(error) => {
                if matches!(error, SendError::Unknown(_)) {
                    self.sent_ms.push_back(now_ms);
                }
                return Err(error);
            }
        }
        self.sent_ms.push_back(now_ms);
        self.advance()
    }

    /// Keeps what was passed over, when there is nothing to send.
    fn pass_unwanted(&mut self) -> Result<(), SendError> {
        let place = if self.gathering.is_quiet { self.cursor.urgent } else { self.cursor.sent };
        let is_further = self.gathering.read_through > place;
        if self.gathering.reports.is_empty() && is_further { self.advance() } else { Ok(()) }
    }

    /// Goes on behind what was gathered.
    fn advance(&mut self) -> Result<(), SendError> {
        add(&self.counters.reports_quieted, self.gathering.quieted);
        self.cursor = self.gathering.cursor_after(&self.cursor);
        self.gathering = Gathering::new(&self.cursor, self.gathering.is_quiet);
        self.keep()
    }

    fn keep(&mut self) -> Result<(), SendError> {
        self.is_unkept = true;
        let kept = self.cursor.keep(&self.cursor_path);
        kept.map_err(|error| SendError::again(format!("cannot write {}: {error}", self.cursor_path.display())))?;
        self.is_unkept = false;
        Ok(())
    }

    /// Reports once that others have removed the journal. The next one begins at the place after it, and is sent from its first
    /// report on; that one says as well what was lost.
    fn miss_journal(&mut self) {
        if self.cursor.sent > 0 && !self.is_journal_missing {
            let (scope, journal) = (&self.scope, self.journal.display());
            (self.notice)(format!("{scope}: {journal} is not there any more; sending goes on with the next report"));
            self.is_journal_missing = true;
        }
    }

    /// Counts what was removed from the journal before it was sent, and goes on behind it.
    fn pass_removed(&mut self, log: &LogReader) -> Result<(), SendError> {
        let scope = &self.scope;
        if self.cursor.sent > log.end() {
            (self.notice)(shortened(scope));
            self.cursor = cursor_at(&self.journal, scope, None)?;
        } else if self.cursor.sent < log.begins_at() {
            let removed = log.removed(scope.watch());
            let unsent = removed.saturating_sub(self.cursor.passed).saturating_sub(self.cursor.urgent_sent);
            if unsent > 0 {
                add(&self.counters.reports_unsent, unsent);
                (self.notice)(format!("{scope}: {unsent} reports were removed from the journal before they were sent"));
            }
            self.cursor = Cursor { sent: log.begins_at(), passed: removed, urgent_sent: 0, ..self.cursor };
        } else {
            return Ok(());
        }
        self.gathering = Gathering::new(&self.cursor, self.gathering.is_quiet);
        self.keep()
    }

    /// Whether there is room for one more message in this hour.
    fn may_send(&mut self, now_ms: i64) -> bool {
        while self.sent_ms.front().is_some_and(|at_ms| !(now_ms - HOUR_MS..=now_ms).contains(at_ms)) {
            self.sent_ms.pop_front();
        }
        let messages_max = self.action.messages_per_hour_max();
        if messages_max == usize::MAX {
            self.sent_ms.clear();
        }
        self.sent_ms.len() < messages_max
    }
}

fn shortened(scope: &Scope) -> String {
    format!("{scope}: the journal is shorter than it was; sending begins at its end")
}

/// The cursor of a place, or of the end of the journal.
fn cursor_at(journal: &Path, scope: &Scope, place: Option<u64>) -> io::Result<Cursor> {
    let Some(mut log) = LogReader::open(journal)? else { return Ok(Cursor::default()) };
    let sent = place.filter(|place| *place <= log.end()).unwrap_or(log.end());
    let mut passed = log.removed(scope.watch());
    while log.place() < sent {
        let Some(report) = log.next_report()? else { break };
        passed += u64::from(scope.has(&report));
    }
    Ok(Cursor { sent, passed, urgent: 0, urgent_sent: 0 })
}
