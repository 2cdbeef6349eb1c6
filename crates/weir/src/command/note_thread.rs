//! Notes files as soon as the archive has all of their flows, while others are still read: after a kill, or on a full
//! disk, only the file that was being read counts as read in part.
//!
//! Whoever reports a file must not wait, and a note waits for the disk, so a thread writes them. Files that come
//! meanwhile are noted together. What speaks against it is that a kill in that time leaves them begun, as it does those
//! that the disk has not confirmed.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use tracing::warn;
use weir_chain::FileEnd;

use super::read_before::ReadBefore;

/// A file whose flows the archive has, and how its reading ended.
type KeptFile = (PathBuf, FileEnd);

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
    let (mut notes, mut is_last) = (Notes { before, waiting: Vec::new(), has_failed: false }, false);
    while !is_last {
        let first = kept.recv().unwrap_or_default();
        for next in std::iter::once(first).chain(kept.try_iter()) {
            is_last |= next.is_none();
            notes.waiting.extend(next);
        }
        notes.write();
    }
    notes.before
}

struct Notes {
    before: ReadBefore,
    /// Files that are not noted. What a full disk does not take is tried again with the next files, and at the end.
    waiting: Vec<KeptFile>,
    has_failed: bool,
}

impl Notes {
    fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match self.before.note(&self.waiting) {
            Ok(()) => self.waiting.clear(),
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                warn!("files that are read cannot be noted, and may count as read in part: {error:#}");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

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
