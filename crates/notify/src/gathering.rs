//! Which reports go into the next message.
//!
//! Reports are read from the journal, beginning at the cursor. There are two passes over it, of which one is active:
//! outside of quiet hours all reports that are wanted are sent, in order; in quiet hours only the urgent ones, which
//! overtake those that are held back, and the first pass leaves them out afterwards.

use std::io;

use weir_reports::log::{LogReader, LoggedReport};

use crate::action::{Action, QuietHoursPolicy};
use crate::cursor::Cursor;
use crate::target::severity_of;

/// Reports of a message at most.
const REPORTS_MAX: usize = 100;
/// Octets of the reports of a message, of which the last may go beyond.
const OCTETS_MAX: usize = 256 << 10;

/// Reports that were read and not sent, and what was passed over meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// The reports of the next message.
    pub(crate) reports: Vec<LoggedReport>,
    /// The place up to which the journal was read.
    pub(crate) read_through: u64,
    /// Reports of the watch that were read, sent or not.
    passed: u64,
    /// Of these, the urgent ones that were sent before.
    passed_urgent: u64,
    /// Reports of quiet hours that are dropped.
    pub(crate) quieted: u64,
    octets: usize,
    /// Whether more than one report goes into the message.
    takes_several: bool,
    /// Whether sending was tried; then the message does not change any more.
    pub(crate) is_closed: bool,
    /// Whether this is the pass of quiet hours.
    pub(crate) is_quiet: bool,
}

/// Whose reports are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of a watch.
    Watch(String),
    /// Those of all watches of the journal.
    All,
}

impl Scope {
    /// Whether a report is one of them. A line that was edited until it cannot be read is none.
    pub(crate) fn has(&self, report: &LoggedReport) -> bool {
        match self {
            Self::Watch(name) => report.text("watch") == name,
            Self::All => report.members.is_some(),
        }
    }

    /// The watch, if it is only one.
    pub(crate) fn watch(&self) -> Option<&str> {
        match self {
            Self::Watch(name) => Some(name),
            Self::All => None,
        }
    }

    /// The first part of names of files; no watch has a name with `+`.
    pub(crate) fn file_name(&self) -> &str {
        self.watch().unwrap_or("+all")
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Watch(name) => write!(f, "watch '{name}'"),
            Self::All => f.write_str("all watches"),
        }
    }
}

/// What happens to a report.
enum Verdict {
    /// It is of another watch.
    Foreign,
    /// It is not sent, or not now.
    Passed,
    /// It was sent in quiet hours.
    Overtaken,
    /// It is dropped.
    Quieted,
    /// It is sent.
    Wanted,
}

/// Whether a time is in quiet hours.
pub(crate) fn is_quiet(action: &Action, at_ms: i64) -> bool {
    action.schedule.quiet.iter().any(|hours| hours.has(at_ms, &action.schedule.zone.0))
}

impl Gathering {
    /// Begins where a cursor is.
    pub(crate) fn new(cursor: &Cursor, is_quiet: bool) -> Self {
        let read_through = if is_quiet { cursor.urgent.max(cursor.sent) } else { cursor.sent };
        Self { read_through, is_quiet, ..Self::default() }
    }

    /// Reads on until the message is full, or the end of the journal. `batching`: whether it may have more than one report.
    pub(crate) fn read(
        &mut self,
        log: &mut LogReader,
        scope: &Scope,
        action: &Action,
        cursor: &Cursor,
        batching: Batching,
    ) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        self.takes_several |= batching == Batching::Always && !self.reports.is_empty();
        if log.place() != self.read_through {
            log.seek(self.read_through)?;
        }
        while !self.is_full() {
            let Some(report) = log.next_report()? else { break };
            let begin = self.read_through;
            self.read_through = report.end;
            match self.verdict(&report, begin, scope, action, cursor) {
                Verdict::Foreign => {}
                Verdict::Passed => self.passed += 1,
                Verdict::Overtaken => {
                    self.passed += 1;
                    self.passed_urgent += 1;
                }
                Verdict::Quieted => {
                    self.passed += 1;
                    self.quieted += 1;
                }
                Verdict::Wanted => {
                    self.passed += 1;
                    self.take(report, action, batching);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, report: LoggedReport, action: &Action, batching: Batching) {
        if self.reports.is_empty() {
            // reports that were held back are sent in one message
            let was_held = !self.is_quiet && report.reported_ms().is_some_and(|at_ms| is_quiet(action, at_ms));
            self.takes_several = match batching {
                Batching::Never => false,
                Batching::Always => true,
                Batching::Digests => action.digest_ms() > 0 || was_held,
            };
        }
        self.octets += report.line.len();
        self.reports.push(report);
    }

    fn verdict(&self, report: &LoggedReport, begin: u64, scope: &Scope, action: &Action, cursor: &Cursor) -> Verdict {
        let schedule = &action.schedule;
        if !scope.has(report) {
            return Verdict::Foreign;
        }
        let severity = severity_of(report);
        if severity.rank() < schedule.severity.rank() {
            return Verdict::Passed;
        }
        let is_urgent = severity.rank() > schedule.quiet_up_to.rank();
        match (self.is_quiet, is_urgent) {
            (true, false) => Verdict::Passed,
            (false, true) if begin < cursor.urgent => Verdict::Overtaken,
            (false, false)
                if schedule.quiet_then == QuietHoursPolicy::Drop
                    && report.reported_ms().is_some_and(|at_ms| is_quiet(action, at_ms)) =>
            {
                Verdict::Quieted
            }
            (true, true) | (false, _) => Verdict::Wanted,
        }
    }

    fn is_full(&self) -> bool {
        let reports_max = if self.takes_several { REPORTS_MAX } else { 1 };
        self.reports.len() >= reports_max || self.octets >= OCTETS_MAX
    }

    /// Whether the message is to be sent: at once, or when its first report is as old as a digest is long.
    pub(crate) fn is_due(&self, action: &Action, now_ms: i64) -> bool {
        let Some(first) = self.reports.first() else { return false };
        let Some(reported_ms) = first.reported_ms() else { return true };
        // a clock that was set back must not delay the message
        self.is_closed || self.is_full() || !(reported_ms..reported_ms + action.digest_ms()).contains(&now_ms)
    }

    /// The cursor after the message, and after what was passed over.
    pub(crate) fn cursor_after(&self, cursor: &Cursor) -> Cursor {
        if self.is_quiet {
            let urgent_sent = cursor.urgent_sent + self.reports.len() as u64;
            return Cursor { urgent: self.read_through, urgent_sent, ..*cursor };
        }
        Cursor {
            sent: self.read_through,
            passed: cursor.passed + self.passed,
            urgent: cursor.urgent,
            urgent_sent: cursor.urgent_sent.saturating_sub(self.passed_urgent),
        }
    }
}

/// How many reports go into a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batching {
    /// One.
    Never,
    /// Those of a digest, and those that were held back.
    Digests,
    /// As many as there are: there were too many messages.
    Always,
}
