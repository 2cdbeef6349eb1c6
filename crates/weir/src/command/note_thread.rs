//! Notes files as soon as the archive has all of their flows, while others are still read: after a kill, or on a full
//! disk, only the file that was being read counts as read in part.
//!
//! Whoever reports a file must not wait, and a note waits for the disk, so a thread writes them. Each note writes the whole
//! list, which may have hundreds of thousands of files: those that come meanwhile, and for ten times as long, are noted
//! together, so that notes take at most a tenth of the time of the disk. What speaks against it is that a kill in that time
//! leaves them begun, as it does those that the disk has not confirmed.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use tracing::warn;
use weir_chain::FileEnd;

use super::read_before::ReadBefore;

/// A file whose flows the archive has, and how its reading ended.
type KeptFile = (PathBuf, FileEnd);

/// After a note files are gathered for so many times as long as it took.
const GATHER_TIMES: u32 = 10;

/// The thread that notes files.
pub(crate) struct NoteThread {
    /// `None` is the last.
    files: Sender<Option<KeptFile>>,
    thread: JoinHandle<ReadBefore>,
}

impl NoteThread {
    pub(crate) fn start(before: ReadBefore) -> anyhow::Result<Self> {
        let (files, kept) = mpsc::channel();
        let thread = thread::Builder::new().name("weir-notes".to_owned()).spawn(move || note_all(before, &kept));
        Ok(Self { files, thread: thread.context("cannot start a thread")? })
    }

    /// Takes files as they are kept.
    pub(crate) fn taker(&self) -> impl Fn(&Path, FileEnd) + Send + Sync + 'static + use<> {
        let files = self.files.clone();
        move |path, end| {
            let _ = files.send(Some((path.to_owned(), end)));
        }
    }

    /// Waits until all files that were taken are noted.
    pub(crate) fn end(self) -> ReadBefore {
        let _ = self.files.send(None);
        match self.thread.join() {
            Ok(before) => before,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Notes files until the last.
fn note_all(before: ReadBefore, kept: &Receiver<Option<KeptFile>>) -> ReadBefore {
    let mut notes = Notes { before, waiting: Vec::new(), has_failed: false };
    let (mut is_last, mut until) = (false, Instant::now());
    while !is_last {
        is_last = gather(kept, until, &mut notes.waiting);
        let took = notes.write();
        until = Instant::now() + GATHER_TIMES * took;
    }
    notes.before
}

/// Waits for a file, and then for more until this time; true after the last.
fn gather(kept: &Receiver<Option<KeptFile>>, until: Instant, files: &mut Vec<KeptFile>) -> bool {
    let mut next = kept.recv().unwrap_or_default();
    while let Some(file) = next {
        files.push(file);
        match kept.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(more) => next = more,
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
    true
}

struct Notes {
    before: ReadBefore,
    /// Files that are not noted. What a full disk does not take is tried again with the next files, and at the end.
    waiting: Vec<KeptFile>,
    has_failed: bool,
}

impl Notes {
    /// Notes what waits; gives how long that took.
    fn write(&mut self) -> Duration {
        if self.waiting.is_empty() {
            return Duration::ZERO;
        }
        let began = Instant::now();
        match self.before.note(&self.waiting) {
            Ok(()) => self.waiting.clear(),
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                warn!("files that are read cannot be noted, and may count as read in part: {error:#}");
            }
            Err(_) => {}
        }
        began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_archive::{SourceFile, SourceFiles};

    use super::*;

    /// Two files in a folder, and what is noted of them in an archive.
    struct Files {
        archive: PathBuf,
        files: [PathBuf; 2],
    }

    impl Files {
        fn new(folder: &Path) -> Self {
            let [one, two, archive] = ["one.csv", "two.csv", "archive"].map(|name| folder.join(name));
            fs::write(&one, "flows").expect("written");
            fs::write(&two, "more flows").expect("written");
            fs::create_dir(&archive).expect("a folder");
            Self { archive, files: [one, two] }
        }

        fn before(&self) -> ReadBefore {
            ReadBefore::leave_out(&self.archive, &mut self.files.to_vec(), false).expect("compared")
        }

        fn are_noted(&self) -> [bool; 2] {
            let known = SourceFiles::of(&self.archive).expect("readable");
            self.files.each_ref().map(|path| known.read_as(&SourceFile::of(path).expect("readable")).is_some())
        }
    }

    #[test]
    fn a_file_is_noted_before_the_next_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::new(folder.path());
        let noting = NoteThread::start(files.before()).expect("started");
        let taker = noting.taker();
        taker(&files.files[0], FileEnd::Whole);
        let until = Instant::now() + Duration::from_mins(2);
        while files.are_noted() != [true, false] {
            assert!(Instant::now() < until, "it is not noted");
            thread::yield_now();
        }
        taker(&files.files[1], FileEnd::Damaged);
        drop(noting.end());
        assert_eq!(files.are_noted(), [true, true]);
    }

    #[test]
    fn files_are_gathered_until_the_time_is_over_or_the_last_has_come() {
        let (files, kept) = mpsc::channel();
        let names = |found: &[KeptFile]| found.iter().map(|(path, _)| path.display().to_string()).collect::<Vec<_>>();
        for name in ["one", "two"] {
            files.send(Some((PathBuf::from(name), FileEnd::Whole))).expect("sent");
        }
        let mut found = Vec::new();
        assert!(!gather(&kept, Instant::now(), &mut found));
        assert_eq!(names(&found), ["one", "two"], "what is there is taken at once");
        let sending = thread::spawn(move || {
            for name in ["three", "four"] {
                files.send(Some((PathBuf::from(name), FileEnd::Whole))).expect("sent");
            }
            files.send(None).expect("sent");
        });
        assert!(gather(&kept, Instant::now() + Duration::from_hours(1), &mut found), "the last has come");
        assert_eq!(names(&found), ["one", "two", "three", "four"]);
        sending.join().expect("no panic");
    }

    #[test]
    fn what_could_not_be_noted_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::new(folder.path());
        let mut notes = Notes { before: files.before(), waiting: Vec::new(), has_failed: false };
        // there is a file where the folder of the notes is to be
        let place = files.archive.join("sources");
        fs::write(&place, "").expect("written");
        notes.waiting.push((files.files[0].clone(), FileEnd::Whole));
        notes.write();
        fs::remove_file(&place).expect("removed");
        assert_eq!(files.are_noted(), [false, false]);
        notes.write();
        assert_eq!(files.are_noted(), [true, false]);
    }
}
