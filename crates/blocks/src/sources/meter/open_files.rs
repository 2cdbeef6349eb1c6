//! Of which files the flows are that are handed on, so that each file is known to be stored while others are read.
//!
//! Packets of several files are merged by their times, and a flow may have packets of several. So each batch counts for all files
//! of which packets were read and not all flows were handed on. A file is through when the packets of others are later than all of
//! its own by the active and the idle timeout: no flow goes on for longer. What speaks against it is that the last files are
//! through only when all are.

use std::path::PathBuf;

use weir_capture::{CaptureEnd, FileEnds};
use weir_chain::{FileEnd, FileReceipts, Notices};
use weir_flow::Delivery;
use weir_meter::Metering;

/// Files of which flows may still be handed on.
pub(super) struct OpenFiles {
    ends: FileEnds,
    files: Vec<OpenFile>,
    mark: Option<Mark>,
}

struct OpenFile {
    path: PathBuf,
    receipts: FileReceipts,
    /// Whether it was reported that flows of it come.
    is_reported: bool,
    /// How it ended, and the latest time of any packet that had come then.
    end: Option<(FileEnd, i64)>,
}

/// Through when workers had handed flows on, and the batches of these that were still to be taken then.
struct Mark {
    through_us: i64,
    batches: usize,
}

impl OpenFiles {
    pub(super) fn new(ends: FileEnds) -> Self {
        Self { ends, files: Vec::new(), mark: None }
    }

    /// Looks how far workers are and which files have ended; `waiting` counts the batches that workers have left to be taken, of
    /// which none may be taken meanwhile. Gives how many others have begun.
    pub(super) fn look(&mut self, metering: &Metering, notices: &Notices, waiting: impl FnOnce() -> usize) -> usize {
        let over = self.ends.take_over();
        let begun = self.begin(notices);
        if !over.is_empty() {
            self.end(over, metering.latest_us());
        }
        if self.mark.is_none() && !self.files.is_empty() {
            let through_us = metering.handed_on_through_us();
            // after the other: what workers leave between the two is then among these
            self.mark = Some(Mark { through_us, batches: waiting() });
            self.handed_on(0);
        }
        begun
    }

    /// Reports the files of which flows are at hand for the first time. Gives how many others have begun since the last look.
    pub(super) fn report_begun(&mut self, notices: &Notices) -> usize {
        let begun = self.begin(notices);
        for file in self.files.iter_mut().filter(|file| !file.is_reported) {
            file.is_reported = true;
            notices.file_begun(&file.path);
        }
        begun
    }

    /// Gives what is about to be handed on a receipt for each file whose flows it may have.
    pub(super) fn attach(&self, delivery: &mut Delivery) {
        for file in &self.files {
            file.receipts.attach(delivery);
        }
    }

    /// So many batches were taken and handed on.
    pub(super) fn handed_on(&mut self, batches: usize) {
        let Some(mark) = &mut self.mark else { return };
        mark.batches = mark.batches.saturating_sub(batches);
        if mark.batches == 0 {
            let through_us = mark.through_us;
            self.mark = None;
            self.close(through_us);
        }
    }

    /// All flows were handed on.
    pub(super) fn finish(&mut self) {
        let over = self.ends.take_over();
        self.end(over, i64::MIN);
        self.close(i64::MAX);
    }

    fn begin(&mut self, notices: &Notices) -> usize {
        let known = self.files.len();
        for path in self.ends.take_begun() {
            let receipts = notices.file_receipts(&path);
            self.files.push(OpenFile { path, receipts, is_reported: false, end: None });
        }
        self.files.len() - known
    }

    fn end(&mut self, over: Vec<(PathBuf, CaptureEnd)>, latest_us: i64) {
        for (path, end) in over {
            // those without packets were not begun
            let Some(at) = self.files.iter().position(|file| file.end.is_none() && file.path == path) else { continue };
            let end = match end {
                CaptureEnd::Whole => FileEnd::Whole,
                CaptureEnd::Damaged => FileEnd::Damaged,
                CaptureEnd::Refused => {
                    self.files.remove(at);
                    continue;
                }
            };
            self.files[at].end = Some((end, latest_us));
        }
    }

    /// All flows were handed on of what had come when no packet was later than this.
    fn close(&mut self, through_us: i64) {
        self.files.retain(|file| match file.end {
            Some((end, latest_us)) if latest_us <= through_us => {
                file.receipts.ended(end);
                false
            }
            _ => true,
        });
    }
}
