//! Capture files: pcap and pcapng, as they are or compressed with gzip or zstd.
//!
//! ```text
//! input ─▶ capture ─▶ pcap or pcapng ─▶ sink ─▶ block
//! octets   pieces     records            packets
//! ```
//!
//! The readers are our own since this is where a meter of files spends its time: packets are never copied one by one.
//! Nothing in a file is believed: what is before the first octet that makes no sense is handed on, and the rest of that
//! file is given up, because where a record ends is only known from its length.

mod capture;
mod error;
mod input;
mod interfaces;
mod merge;
mod pcap;
mod pcapng;
mod sink;
mod time;

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::capture::{BLOCK_OCTETS, Capture, Shared};
use self::error::FileError;
pub use self::merge::FILES_OPEN_MAX;
use self::merge::Merged;
pub use self::sink::FRAME_OCTETS_MAX;
use super::Tell;
use super::filter::Filter;
use crate::block::{Interface, PacketBlock, PacketSource, Pulled, SourceCounts, SourceError};

/// Which files to read, and how.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// The files; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// Which packets to hand on, in libpcap's language; `None` for all. The others are counted in `frames_filtered`.
    pub filter: Option<String>,
}

/// A source of the packets of capture files.
///
/// **Order.** Several files are merged by the times of their packets; of equal times that of the file named first comes
/// first. Within a file the order is that of the file, whatever the times. So captures of several interfaces at the same
/// time are read as if they were one, and the files of a rotated capture one after the other, however they are named.
/// A file is open only while it is its turn, and at most [`FILES_OPEN_MAX`] are: of more files that overlap in time the
/// last ones are read later than their times say.
///
/// **Damage.** What cannot be opened, or not be read to its end, is told with one line and counted in `files_failed`.
///
/// **Filter.** A file with a link type that the filter has no meaning on fails.
///
/// **Drops.** `kernel_drops` is what the interface statistics of pcapng files say.
pub fn files(options: &FileOptions, tell: &Tell) -> Result<Box<dyn PacketSource>, SourceError> {
    let filter = options.filter.as_deref().map(Filter::new).transpose()?;
    match options.paths.as_slice() {
        [] => Err(SourceError::Unusable { what: "no capture file is named".to_owned(), hint: None }),
        [path] => Ok(Box::new(Single::open(path, filter, Arc::clone(tell)))),
        paths => Ok(Box::new(Merged::open(paths, filter, Arc::clone(tell)))),
    }
}

/// One file, whose blocks are handed on as they are read.
struct Single {
    path: PathBuf,
    /// `None` when it could not be opened.
    capture: Option<Capture>,
    shared: Shared,
    tell: Tell,
}

impl Single {
    fn open(path: &Path, filter: Option<Filter>, tell: Tell) -> Self {
        let mut shared = Shared { filter, ..Shared::default() };
        let capture = Capture::open(path, BLOCK_OCTETS, &mut shared)
            .inspect_err(|error| fail(path, error, &mut shared.counts, &tell));
        Self { path: path.to_owned(), capture: capture.ok(), shared, tell }
    }
}

impl PacketSource for Single {
    fn fill(&mut self, block: &mut PacketBlock) -> Result<Pulled, SourceError> {
        let Some(capture) = &mut self.capture else {
            block.clear();
            return Ok(Pulled::Ended);
        };
        if let Err(error) = capture.fill(block, &mut self.shared) {
            fail(&self.path, &error, &mut self.shared.counts, &self.tell);
        }
        Ok(if block.packets().is_empty() { Pulled::Ended } else { Pulled::Packets })
    }

    fn interfaces(&self) -> &[Interface] {
        self.shared.interfaces.list()
    }

    fn counts(&self) -> SourceCounts {
        self.shared.counts
    }
}

/// Counts a file that failed, and tells why.
fn fail(path: &Path, error: &FileError, counts: &mut SourceCounts, tell: &Tell) {
    counts.files_failed += 1;
    let name: &dyn Display = if path.as_os_str() == "-" { &"standard input" } else { &path.display() };
    tell(&format!("{name} {error}"));
}
