//! The audit: a line for each question, for each refusal and for each who signs in.
//!
//! Lines are JSON in one file, which is set aside when it is full; so many files are kept. A line is written by the thread of
//! its question, with one write, before the answer is given. What cannot be written is counted, said in the log and by
//! `/readyz`; with `required` questions are refused until lines can be written again.
//!
//! Other programs may set the file aside as well (logrotate): each line goes to the file that has the name at that moment. What
//! speaks against looking for it each time is a system call for each line, which takes less than writing the line does.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_chain::{ByteSize, options};

use crate::problem::{Answered, Problem};
use crate::rate_limit::{RateLimit, site};

/// Lines about strangers of one address that are written.
const STRANGER_LINES_PER_MINUTE: u32 = 60;
/// How often a failure is logged.
const TOLD_EVERY: Duration = Duration::from_mins(1);

options! {
    /// The audit: who asked what, when, and how it ended.
    pub struct AuditOptions {
        /// Append a line of JSON for each question, each refusal and each who signs in to this file. Without it they are lines
        /// of the log only.
        file: Option<PathBuf>,
        /// Set the file aside when it is so large, with .1 behind its name, and older ones with higher numbers.
        file_size_max: ByteSize = ByteSize::from_mib(64) => 4096..=1 << 40,
        /// Keep at most this many files, the one that is written included.
        files_max: usize = 8 => 1..=10_000,
        /// Refuse questions while lines cannot be written.
        required: bool = false,
    }
}

/// What is written down.
#[derive(Debug, Serialize)]
pub(crate) struct AuditLine<'a> {
    /// RFC 3339, in UTC.
    pub(crate) time: String,
    /// question, refused, sign-in or reload.
    pub(crate) event: &'static str,
    pub(crate) user: &'a str,
    pub(crate) from: Option<IpAddr>,
    /// What was asked, or the request that was refused.
    pub(crate) text: &'a str,
    /// answered, cached, cancelled, failed, accepted or refused.
    pub(crate) outcome: &'a str,
    /// Status of HTTP, of what was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(flatten)]
    pub(crate) cost: Option<AuditCost>,
}

/// What a question took.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct AuditCost {
    /// Microseconds.
    pub(crate) took_us: u64,
    /// Rows of the answer.
    pub(crate) rows: u64,
    /// Rows that were looked at.
    pub(crate) rows_read: u64,
    /// Octets that were read from segments.
    pub(crate) octets_read: u64,
}

impl<'a> AuditLine<'a> {
    /// A line about now.
    pub(crate) fn now(
        event: &'static str,
        user: &'a str,
        from: Option<IpAddr>,
        text: &'a str,
        outcome: &'a str,
    ) -> Self {
        let time = format!("{:.3}", jiff::Timestamp::now());
        Self { time, event, user, from, text, outcome, status: None, cost: None }
    }
}

/// A text, or its first letters with how many follow.
pub(crate) fn beginning(text: &str, letters_max: usize) -> String {
    match text.char_indices().nth(letters_max) {
        Some((end, _)) => format!("{}… ({} letters more)", &text[..end], text[end..].chars().count()),
        None => text.to_owned(),
    }
}

/// Where lines are written.
#[derive(Debug)]
pub(crate) struct AuditLog {
    options: AuditOptions,
    written: Mutex<Written>,
    strangers: RateLimit<IpAddr>,
    counts: AuditCounts,
}

/// What became of lines.
#[derive(Debug, Default)]
pub(crate) struct AuditCounts {
    /// Lines that were written.
    pub(crate) lines: AtomicU64,
    /// Lines that could not be written.
    pub(crate) lost: AtomicU64,
    /// Lines about strangers that were left out, because one address made too many.
    pub(crate) left_out: AtomicU64,
}

impl Default for AuditLog {
    fn default() -> Self {
        Self {
            options: AuditOptions::default(),
            written: Mutex::default(),
            strangers: RateLimit::at_once(STRANGER_LINES_PER_MINUTE),
            counts: AuditCounts::default(),
        }
    }
}

/// The file that is written.
#[derive(Debug, Default)]
struct Written {
    file: Option<OpenFile>,
    octets: u64,
    /// Why the last line is not there.
    failure: Option<String>,
    told: Option<Instant>,
}

/// An open file, and which one it is.
#[derive(Debug)]
struct OpenFile {
    file: File,
    device: u64,
    inode: u64,
}

impl OpenFile {
    /// Whether this is what the name stands for now.
    fn is(&self, named: &Metadata) -> bool {
        (self.device, self.inode) == (named.dev(), named.ino())
    }
}

impl AuditLog {
    /// Finds out whether the file could be written, as [`open`](Self::open) does first. It is not made.
    pub(crate) fn could_open(options: &AuditOptions) -> io::Result<()> {
        options.file.as_deref().map_or(Ok(()), weir_disk::check_file)
    }

    /// Opens the file, so that one that cannot be written is an error at the start.
    pub(crate) fn open(options: AuditOptions) -> io::Result<Self> {
        Self::could_open(&options)?;
        let mut written = Written::default();
        if let Some(path) = &options.file {
            written.open(path)?;
        }
        Ok(Self { options, written: Mutex::new(written), ..Self::default() })
    }

    /// Writes a line about somebody who has not proved who they are. Of one address only some are written: nobody pushes out
    /// what is there by knocking.
    pub(crate) fn write_of_stranger(&self, line: &AuditLine<'_>) {
        match line.from.map(|from| self.strangers.take(&site(from))) {
            Some(Err(_)) => {
                self.counts.left_out.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.write(line),
        }
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: &AuditLine<'_>) {
        // numbers and texts can be written
        let text = serde_json::to_string(line).unwrap_or_default();
        tracing::info!(target: "weir_audit", "{text}");
        let Some(path) = &self.options.file else { return };
        let mut written = self.written();
        match written.append(path, &text, &self.options) {
            Ok(()) => {
                self.counts.lines.fetch_add(1, Ordering::Relaxed);
                written.failure = None;
            }
            Err(error) => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
                written.fail(path, &error);
            }
        }
    }

    /// Fails when the last line could not be written, and lines are required.
    pub(crate) fn check(&self) -> Answered<()> {
        let failure = if self.options.required { self.failure() } else { None };
        let Some(failure) = failure else { return Ok(()) };
        // whether it can be written now is found out by writing
        self.write(&AuditLine::now("probe", "", None, "", "accepted"));
        match self.failure() {
            None => Ok(()),
            Some(_) => Err(Problem::unavailable(format!("the audit cannot be written: {failure}"))),
        }
    }

    /// Why the last line could not be written, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.written().failure.clone()
    }

    /// What became of lines.
    pub(crate) fn counts(&self) -> &AuditCounts {
        &self.counts
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        // a line that was cut off by a panic is followed by the next
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    fn open(&mut self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
        let about = file.metadata()?;
        if may_be_read_by_all(&about) {
            // whoever made it chose its mode, which may be meant
            tracing::warn!("the audit {} can be read by every account of this machine", path.display());
        }
        self.octets = about.len();
        let mut last = [b'\n'];
        if self.octets > 0 {
            file.read_exact_at(&mut last, self.octets - 1)?;
        }
        if last != [b'\n'] {
            // a line that was cut off must not become one with the next
            file.write_all(b"\n")?;
            self.octets += 1;
        }
        self.file = Some(OpenFile { file, device: about.dev(), inode: about.ino() });
        Ok(())
    }

    /// Opens the file that has the name now, unless it is the one that is open.
    fn follow(&mut self, path: &Path) -> io::Result<()> {
        let is_open = |named: &Metadata| self.file.as_ref().is_some_and(|open| open.is(named));
        match fs::metadata(path).ok().filter(is_open) {
            // it may have been copied and emptied
            Some(named) => self.octets = named.len(),
            None => self.open(path)?,
        }
        Ok(())
    }

    fn append(&mut self, path: &Path, text: &str, options: &AuditOptions) -> io::Result<()> {
        self.follow(path)?;
        let line = format!("{text}\n");
        if self.octets > 0 && self.octets + line.len() as u64 > options.file_size_max.bytes() {
            set_aside(path, options.files_max)?;
            self.open(path)?;
        }
        let Some(open) = &mut self.file else { return Ok(()) };
        let written = open.file.write_all(line.as_bytes());
        // a part of a line may be there: the file is looked at again
        match written {
            Ok(()) => self.octets += line.len() as u64,
            Err(_) => self.file = None,
        }
        written
    }

    fn fail(&mut self, path: &Path, error: &io::Error) {
        self.file = None;
        self.failure = Some(error.to_string());
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            self.told = Some(Instant::now());
            tracing::error!("the audit {} cannot be written: {error}", path.display());
        }
    }
}

/// Whether a file can be read by accounts that are neither its owner nor of its group.
fn may_be_read_by_all(about: &Metadata) -> bool {
    about.mode() & 0o004 != 0
}

/// Gives each file the next number; what is over the limit is removed.
fn set_aside(path: &Path, files_max: usize) -> io::Result<()> {
    let numbered = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if files_max <= 1 {
        return fs::remove_file(path);
    }
    for number in (1..files_max - 1).rev() {
        match fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, numbered(1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn line(text: &str) -> AuditLine<'_> {
        AuditLine::now("question", "ann", None, text, "answered")
    }

    fn counted(audit: &AuditLog) -> (u64, u64) {
        (audit.counts().lines.load(Ordering::Relaxed), audit.counts().lost.load(Ordering::Relaxed))
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["text"].to_string())
            .collect()
    }

    #[test]
    fn a_line_that_was_cut_off_takes_no_other_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, "{\"tim").expect("written");
        let audit =
            AuditLog::open(AuditOptions { file: Some(path.clone()), ..AuditOptions::default() }).expect("opened");
        audit.write(&line("question"));
        let text = fs::read_to_string(&path).expect("the audit");
        let last = text.lines().last().expect("a line");
        assert!(serde_json::from_str::<serde_json::Value>(last).is_ok(), "{text}");
    }

    #[test]
    fn files_are_set_aside_and_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let options = AuditOptions { file: Some(path.clone()), files_max: 3, ..AuditOptions::default() };
        let audit =
            AuditLog::open(AuditOptions { file_size_max: ByteSize::from_bytes(4096), ..options }).expect("opened");
        for number in 0..500 {
            audit.write(&line(&format!("question {number}\n\"x\"")));
        }
        let files: Vec<_> = fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file")).collect();
        assert_eq!(files.len(), 3, "{files:?}");
        assert!(files.iter().all(|file| file.metadata().expect("a file").len() <= 4096));
        assert_eq!(lines(&path).last().map(String::as_str), Some("\"question 499\\n\\\"x\\\"\""));
        assert_eq!(counted(&audit), (500, 0));
    }

    #[test]
    fn the_beginning_of_a_text_says_what_follows() {
        assert_eq!(beginning("Zürich", 6), "Zürich");
        assert_eq!(beginning("Zürich", 2), "Zü… (4 letters more)");
        assert_eq!(beginning("", 0), "");
    }

    /// What logrotate does with `create` and with `copytruncate` (logrotate(8)).
    #[test]
    fn lines_go_to_the_file_that_has_the_name_when_another_program_sets_it_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, aside) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl-20261127"));
        let options = AuditOptions { file: Some(path.clone()), ..AuditOptions::default() };
        let audit =
            AuditLog::open(AuditOptions { file_size_max: ByteSize::from_bytes(4096), ..options }).expect("opened");
        audit.write(&line("before"));
        fs::rename(&path, &aside).expect("set aside");
        fs::write(&path, "").expect("created");
        audit.write(&line("behind"));
        assert_eq!(lines(&aside), ["\"before\""]);
        assert_eq!(lines(&path), ["\"behind\""]);
        // emptied, and so far from full again
        let fill = || (0..30).for_each(|_| audit.write(&line("fill")));
        fill();
        File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("emptied");
        fill();
        assert_eq!(lines(&path).len(), 30);
        assert_eq!(counted(&audit), (62, 0));
    }

    #[test]
    fn a_file_that_every_account_may_read_is_recognised() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let options = AuditOptions { file: Some(path.clone()), ..AuditOptions::default() };
        AuditLog::open(options).expect("opened");
        assert!(!may_be_read_by_all(&fs::metadata(&path).expect("its own file")));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("as logrotate makes it");
        assert!(may_be_read_by_all(&fs::metadata(&path).expect("a file")));
    }

    #[test]
    fn nobody_pushes_lines_out_by_knocking() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let audit =
            AuditLog::open(AuditOptions { file: Some(path.clone()), ..AuditOptions::default() }).expect("opened");
        let from = Some(IpAddr::from([192, 0, 2, 1]));
        for _ in 0..1000 {
            audit.write_of_stranger(&AuditLine::now("refused", "", from, "GET /api/v1/flows", "refused"));
        }
        let written = lines(&path).len();
        assert!((60..100).contains(&written), "{written}");
        assert_eq!(audit.counts().left_out.load(Ordering::Relaxed), 1000 - written as u64);
        audit.write_of_stranger(&AuditLine::now("refused", "", Some([192, 0, 2, 2].into()), "another", "refused"));
        assert_eq!(lines(&path).last().map(String::as_str), Some("\"another\""));
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_questions_wait_where_lines_are_required() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep").join("audit.jsonl");
        let missing = AuditOptions { file: Some(path.clone()), required: true, ..AuditOptions::default() };
        AuditLog::open(missing.clone()).expect_err("no folder");
        fs::create_dir(folder.path().join("deep")).expect("a folder");
        let audit = AuditLog::open(missing).expect("opened");
        fs::remove_dir_all(folder.path().join("deep")).expect("removed");
        audit.check().expect("nothing has failed yet");
        audit.write(&line("lost"));
        assert_eq!(counted(&audit), (0, 1));
        assert_eq!(audit.check().expect_err("not written").status, 503);
        fs::create_dir(folder.path().join("deep")).expect("a folder");
        audit.check().expect("it can be written again");
        audit.write(&line("kept"));
        assert_eq!(lines(&path).last().map(String::as_str), Some("\"kept\""));
    }
}
