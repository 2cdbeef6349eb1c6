//! Capture files: pcap and pcapng, as they are or compressed with gzip, zstd, xz, bzip2 or lz4.
//!
//! ```text
//! input ─▶ capture ─▶ pcap or pcapng ─▶ sink ─▶ block
//! octets   pieces     records            packets
//! ```
//!
//! The readers are our own since this is where a meter of files spends its time: packets are never copied one by one.
//! Nothing in a file is trusted: what is before the first record that is not valid is delivered, and the rest of that
//! file is dropped, because where a record ends is only known from its length.

mod error;
mod file;
mod input;
mod interfaces;
mod left_out;
mod merge;
mod packed;
mod pcap;
mod pcapng;
mod reader;
mod sink;
mod time;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::error::{CaptureDamage, CaptureError};
use self::file::{BLOCK_OCTETS, CaptureFile, Shared};
pub use self::input::Input;
use self::merge::Merged;
pub use self::merge::{FILES_OPEN_MAX, PACKED_PLACES};
pub use self::reader::CaptureReader;
pub use self::sink::FRAME_OCTETS_MAX;
use crate::WarningHandler;
use crate::filter::Filter;
use crate::source::{FillOutcome, Interface, PacketBlock, PacketSource, SourceCounts, SourceError};

/// Which files to read, and how.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// The files; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// Which packets to deliver, in libpcap's language; `None` for all. The others are counted in `frames_filtered`.
    pub filter: Option<String>,
    /// Where the end of each file is noted.
    pub ends: FileEnds,
}

/// How the reading of files ended. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct FileEnds(Arc<Mutex<FileStates>>);

/// How the reading of a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureEnd {
    /// All of its packets were delivered.
    Whole,
    /// The packets before its damage were delivered.
    Damaged,
    /// It could not be opened, or the system refused to read it, as it may not another time.
    Refused,
}

#[derive(Debug, Default)]
struct FileStates {
    files: HashMap<PathBuf, FileState>,
    /// Those of which the first packets were delivered since somebody asked.
    begun: Vec<PathBuf>,
    /// Those of which the last packets were delivered since somebody asked.
    over: Vec<PathBuf>,
}

/// What is known of a file.
#[derive(Debug, Default)]
struct FileState {
    /// How it will end when its last packet is delivered, if not well.
    failure: Option<CaptureEnd>,
    is_over: bool,
}

impl FileEnds {
    /// How a file ended; `None` as long as not all that can be read of it was delivered.
    pub fn end_of(&self, path: &Path) -> Option<CaptureEnd> {
        let states = self.states();
        let state = states.files.get(path).filter(|state| state.is_over)?;
        Some(state.failure.unwrap_or(CaptureEnd::Whole))
    }

    /// The files of which the first packets were delivered since the last call.
    pub fn take_begun(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.states().begun)
    }

    /// The files that have ended since the last call, in that order, with how they did. Whoever wants to have seen the
    /// [begin](Self::take_begun) of each asks for these first.
    pub fn take_over(&self) -> Vec<(PathBuf, CaptureEnd)> {
        let mut states = self.states();
        let over = std::mem::take(&mut states.over);
        let end = |path: PathBuf| {
            let failure = states.files.get(&path).and_then(|state| state.failure);
            (path, failure.unwrap_or(CaptureEnd::Whole))
        };
        over.into_iter().map(end).collect()
    }

    fn states(&self) -> MutexGuard<'_, FileStates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, path: &Path) {
        self.states().begun.push(path.to_owned());
    }

    fn end(&self, path: &Path) {
        let mut states = self.states();
        let state = states.files.entry(path.to_owned()).or_default();
        let was_over = std::mem::replace(&mut state.is_over, true);
        if !was_over {
            states.over.push(path.to_owned());
        }
    }

    fn update(&self, path: &Path, update: impl FnOnce(&mut FileState)) {
        update(self.states().files.entry(path.to_owned()).or_default());
    }
}

impl FileOptions {
    fn shared(&self, filter: Option<Filter>) -> Shared {
        Shared { filter, ends: self.ends.clone(), ..Shared::default() }
    }
}

/// A source of the packets of capture files.
///
/// **Order.** Several files are merged by the times of their packets; of equal times that of the file named first comes
/// first. Within a file the order is that of the file, whatever the times. So captures of several interfaces at the same
/// time are read as if they were one, and the files of a rotated capture one after the other, however they are named.
/// A file is open only while it is its turn, and at most [`FILES_OPEN_MAX`] are, where one compressed with xz or zstd counts
/// as [`PACKED_PLACES`] for its memory: of more files that overlap in time the last ones are read later than their times say.
///
/// **Damage.** What cannot be opened, or not be read to its end, is reported with one line and counted in `files_failed`.
///
/// **Links.** Frames of a link type that is not dissected, or that the filter has no meaning on, are left out and counted in
/// `frames_unknown_link` and `frames_unfilterable`; the first of each is reported with one line.
///
/// **Drops.** `kernel_drops` is what the interface statistics of pcapng files say.
pub fn open_files(options: &FileOptions, warn: &WarningHandler) -> Result<Box<dyn PacketSource>, SourceError> {
    let filter = options.filter.as_deref().map(Filter::new).transpose()?;
    match options.paths.as_slice() {
        [] => Err(SourceError::Unusable { what: "no capture file is named".to_owned(), hint: None }),
        [path] => Ok(Box::new(Single::open(path, options.shared(filter), Arc::clone(warn)))),
        paths => Ok(Box::new(Merged::open(paths, options.shared(filter), Arc::clone(warn)))),
    }
}

/// One file, whose blocks are delivered as they are read.
struct Single {
    path: PathBuf,
    /// `None` when it could not be opened.
    capture: Option<CaptureFile<'static>>,
    is_begun: bool,
    shared: Shared,
    warn: WarningHandler,
}

impl Single {
    fn open(path: &Path, mut shared: Shared, warn: WarningHandler) -> Self {
        let capture = Input::open(path)
            .and_then(|input| CaptureFile::open(input, BLOCK_OCTETS, &mut shared))
            .inspect_err(|error| shared.fail(path, error, false, &warn));
        Self { path: path.to_owned(), capture: capture.ok(), is_begun: false, shared, warn }
    }
}

impl PacketSource for Single {
    fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
        let Some(capture) = &mut self.capture else {
            block.clear();
            return Ok(FillOutcome::Ended);
        };
        let filled = capture.fill(block, &mut self.shared);
        self.shared.report(&self.path, filled.err(), &self.warn);
        if !self.is_begun && !block.packets().is_empty() {
            self.is_begun = true;
            self.shared.ends.begin(&self.path);
        }
        if capture.has_ended() {
            self.shared.end(&self.path);
        }
        Ok(if block.packets().is_empty() { FillOutcome::Ended } else { FillOutcome::Packets })
    }

    fn interfaces(&self) -> &[Interface] {
        self.shared.interfaces.list()
    }

    fn counts(&self) -> SourceCounts {
        self.shared.counts
    }
}

impl Shared {
    /// Reports what was found while a block was filled: links that are left out, and what ended the file.
    fn report(&mut self, path: &Path, error: Option<CaptureError>, warn: &WarningHandler) {
        for left_out in self.left_out.take_unreported() {
            warn(&line_of(path, &left_out));
        }
        if let Some(error) = error {
            self.fail(path, &error, true, warn);
        }
    }

    /// Counts and notes a file that failed, and reports why. `is_open` when it could be opened.
    fn fail(&mut self, path: &Path, error: &CaptureError, is_open: bool, warn: &WarningHandler) {
        self.counts.files_failed += 1;
        // what the system refuses to read may be read another time, as what could not be opened
        let is_refused = matches!(error, CaptureError::Read { error, .. } if error.raw_os_error().is_some());
        let end = if is_open && !is_refused { CaptureEnd::Damaged } else { CaptureEnd::Refused };
        self.ends.update(path, |state| state.failure = state.failure.or(Some(end)));
        warn(&line_of(path, error));
    }

    /// Notes that the last packet of a file is being delivered.
    fn end(&self, path: &Path) {
        self.ends.end(path);
    }
}

/// What there is to say about a file.
fn line_of(path: &Path, what: &dyn Display) -> String {
    let name: &dyn Display = if path.as_os_str() == "-" { &"standard input" } else { &path.display() };
    format!("{name}: {what}")
}
