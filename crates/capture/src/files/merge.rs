//! Several capture files, merged by the times of their packets.
//!
//! Each file that is open has a block of its own. Of the file whose next packet is the earliest, all packets up to the
//! next packet of any other file are delivered. When that is its whole block, which is nearly always so for rotated
//! captures, the block itself changes hands; otherwise packets are copied into the block that is delivered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;
use std::path::PathBuf;

use super::file::{BLOCK_OCTETS, CaptureFile, Shared};
use super::input::Input;
use crate::WarningHandler;
use crate::source::{FillOutcome, Interface, PacketBlock, PacketSource, SourceCounts, SourceError};

/// Most capture files that are open at once; one compressed with xz or zstd counts as [`PACKED_PLACES`]. Each has a block,
/// so this also limits memory, to about 160 MiB, and 129 MiB for each of at most 16 files of xz or zstd, most of which need
/// a tenth of that. Pipes are open all the time, and only those that are being merged count.
pub const FILES_OPEN_MAX: usize = 256;

/// As how many open files one counts that is compressed with xz or zstd.
pub const PACKED_PLACES: usize = 16;

/// Octets of a file that are read to see when it begins.
const PROBE_OCTETS: usize = 16 << 10;

/// Most packets that are copied into one block.
const PACKETS_MAX: usize = 32 << 10;

/// When the next packet of a file was captured, and the position of the file in the arguments: the order of merging.
type Turn = (i64, usize);

/// A source of several files.
pub(super) struct Merged {
    paths: Vec<PathBuf>,
    /// Files that are not open yet, the one whose turn comes next at the end.
    waiting: Vec<Waiting>,
    /// Files that are open, by their position in the arguments.
    open: Vec<Option<Box<Open>>>,
    turns: BinaryHeap<Reverse<Turn>>,
    files_open_max: usize,
    /// How many of these places the files have that wait for their turn in `turns`.
    places_taken: usize,
    shared: Shared,
    warn: WarningHandler,
}

struct Waiting {
    turn: Turn,
    /// As how many open files it counts.
    places: usize,
    /// What cannot be opened twice stays open.
    open: Option<Box<Open>>,
}

struct Open {
    capture: CaptureFile<'static>,
    block: PacketBlock,
    /// Position of the next packet in the block.
    next: usize,
    /// Whether packets of it were delivered.
    is_begun: bool,
}

impl Merged {
    /// Looks into every file for when it begins.
    pub(super) fn open(paths: &[PathBuf], shared: Shared, warn: WarningHandler) -> Self {
        let mut merged = Self {
            paths: paths.to_vec(),
            waiting: Vec::new(),
            open: paths.iter().map(|_| None).collect(),
            turns: BinaryHeap::new(),
            files_open_max: FILES_OPEN_MAX,
            places_taken: 0,
            shared,
            warn,
        };
        merged.waiting = (0..paths.len()).filter_map(|file| merged.probe(file)).collect();
        merged.waiting.sort_by_key(|waiting| Reverse(waiting.turn));
        merged
    }

    /// With another limit than [`FILES_OPEN_MAX`].
    #[cfg(test)]
    pub(super) fn with_files_open_max(self, files_open_max: usize) -> Self {
        Self { files_open_max, ..self }
    }

    /// When a file begins; `None` when it has no packet.
    fn probe(&mut self, file: usize) -> Option<Waiting> {
        let counts = self.shared.counts;
        // Without the filter, or whole files might be read twice for the first packet that it takes.
        let filter = if self.paths[file].is_file() { self.shared.filter.take() } else { None };
        let mut block = PacketBlock::default();
        let opened = self.open_capture(file, PROBE_OCTETS).map(|mut capture| {
            let result = capture.fill(&mut block, &mut self.shared);
            (capture, result)
        });
        self.shared.filter = self.shared.filter.take().or(filter);
        let (mut capture, result) = opened?;
        self.shared.report(&self.paths[file], None, &self.warn);
        let Some(first) = block.packets().first() else {
            self.shared.report(&self.paths[file], result.err(), &self.warn);
            self.shared.end(&self.paths[file]);
            return None;
        };
        let (turn, places) = ((first.time_us, file), places(&capture));
        if capture.is_regular() {
            // all of it is read again, and then it counts
            self.shared.counts = counts;
            return Some(Waiting { turn, places, open: None });
        }
        self.shared.report(&self.paths[file], result.err(), &self.warn);
        capture.set_block_octets(BLOCK_OCTETS);
        Some(Waiting { turn, places, open: Some(Box::new(Open { capture, block, next: 0, is_begun: false })) })
    }

    fn open_capture(&mut self, file: usize, block_octets: usize) -> Option<CaptureFile<'static>> {
        let path = &self.paths[file];
        match Input::open(path).and_then(|input| CaptureFile::open(input, block_octets, &mut self.shared)) {
            Ok(capture) => Some(capture),
            Err(error) => {
                self.shared.fail(path, &error, false, &self.warn);
                None
            }
        }
    }

    /// Opens the files whose turn it is.
    fn open_waiting(&mut self) {
        while let Some(waiting) = self.waiting.pop_if(|waiting| {
            let first = self.turns.peek();
            let has_place = self.places_taken + waiting.places <= self.files_open_max;
            first.is_none_or(|first| waiting.turn < first.0 && has_place)
        }) {
            let file = waiting.turn.1;
            match waiting.open {
                Some(open) => self.put(file, open),
                None => {
                    if let Some(capture) = self.open_capture(file, BLOCK_OCTETS) {
                        self.refill(
                            file,
                            Box::new(Open { capture, block: PacketBlock::default(), next: 0, is_begun: false }),
                        );
                    }
                }
            }
        }
    }

    /// Fills the empty block of a file, which is closed if there is nothing left.
    fn refill(&mut self, file: usize, mut open: Box<Open>) {
        open.next = 0;
        if open.capture.has_ended() {
            self.shared.end(&self.paths[file]);
            return;
        }
        let filled = open.capture.fill(&mut open.block, &mut self.shared);
        self.shared.report(&self.paths[file], filled.err(), &self.warn);
        self.put(file, open);
    }

    /// Waits for the turn of the next packet of a file, which has ended when there is none.
    fn put(&mut self, file: usize, open: Box<Open>) {
        if let Some(packet) = open.block.packets().get(open.next) {
            self.turns.push(Reverse((packet.time_us, file)));
            self.places_taken += places(&open.capture);
            self.open[file] = Some(open);
        } else {
            self.shared.end(&self.paths[file]);
        }
    }

    /// The turn of any other file than one that has so many places.
    fn next_turn(&self, places: usize) -> Option<Turn> {
        let has_place = |waiting: &&Waiting| self.places_taken + places + waiting.places <= self.files_open_max;
        let waiting = self.waiting.last().filter(has_place);
        let waiting = waiting.map(|waiting| waiting.turn);
        self.turns.peek().map(|turn| turn.0).into_iter().chain(waiting).min()
    }
}

impl Open {
    /// Position of the first packet that is not before the turn of another file.
    fn end_of_run(&self, file: usize, other: Option<Turn>) -> usize {
        let packets = self.block.packets();
        let Some(other) = other else { return packets.len() };
        let rest = packets.get(self.next..).unwrap_or_default();
        self.next + rest.iter().position(|packet| (packet.time_us, file) > other).unwrap_or(rest.len())
    }

    /// Copies packets up to a position; fewer when the block is full.
    fn copy_run(&mut self, end: usize, into: &mut PacketBlock) {
        for packet in self.block.packets().get(self.next..end).unwrap_or_default() {
            if is_full(into) {
                break;
            }
            into.push(*packet, self.block.frame(packet));
            self.next += 1;
        }
    }
}

/// As how many open files one counts.
fn places(capture: &CaptureFile<'_>) -> usize {
    if capture.takes_much_memory() { PACKED_PLACES } else { 1 }
}

/// Whether a block has enough; packets of no octet count too.
fn is_full(block: &PacketBlock) -> bool {
    block.octets().len() >= BLOCK_OCTETS || block.packets().len() >= PACKETS_MAX
}

impl PacketSource for Merged {
    fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
        block.clear();
        while !is_full(block) {
            self.open_waiting();
            let Some(Reverse((_, file))) = self.turns.pop() else { break };
            let Some(mut open) = self.open.get_mut(file).and_then(Option::take) else { continue };
            let places = places(&open.capture);
            self.places_taken -= places;
            if !open.is_begun {
                open.is_begun = true;
                self.shared.ends.begin(&self.paths[file]);
            }
            let end = open.end_of_run(file, self.next_turn(places));
            let is_whole = end == open.block.packets().len();
            if is_whole && open.next == 0 && block.packets().is_empty() {
                mem::swap(block, &mut open.block);
                self.refill(file, open);
                break;
            }
            open.copy_run(end, block);
            if open.next == open.block.packets().len() {
                self.refill(file, open);
            } else {
                self.put(file, open);
            }
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

#[cfg(test)]
mod tests;
