//! Finding the frames of a tail, whole and in their turn, also behind octets that are damaged.
//!
//! Positions follow one another, so a frame that is missing leaves a gap. Behind damage the next whole frame of the same
//! tail is searched for, in steps of 64 octets. When these are written to a new file, frames without payload are put
//! where others are lost: the positions have no gap then, and how many are lost stays known. What speaks against it is
//! that a damaged file of older programs has no mark: there any frame counts whose position is possible.

use std::collections::HashMap;

use super::{FoundFrame, FrameHeader, HEADER_OCTETS, MAGIC, TailMark};
use crate::Position;
use crate::position::TailNumber;

/// What follows the whole frames of a tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailEnd {
    /// Nothing.
    Clean,
    /// Octets that may be a part of the next frame, with no frame after them: a write that did not finish.
    Torn,
    /// Octets that are no part of the next frame, or have frames after them: the file was changed after it was written.
    Damaged,
}

/// The frames of a tail.
#[derive(Debug)]
pub(crate) struct Scan {
    /// What its frames have in common; `None` when it has no frame of its own.
    pub(crate) mark: Option<TailMark>,
    /// Whole frames, without a gap.
    pub(crate) frames: Vec<FoundFrame>,
    /// Octets that they take.
    pub(crate) whole_octets: usize,
    pub(crate) end: TailEnd,
    /// What was found behind them.
    pub(crate) behind: Behind,
}

/// What was found of a tail behind the first octets that are no frame.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// Whole frames, in the order of their positions, which have gaps.
    pub(crate) frames: Vec<FoundFrame>,
    /// Flows in frames of which only the header is whole.
    pub(crate) rows_lost: u64,
    /// The last position found, of a whole frame or of a header alone.
    pub(crate) last: Option<Position>,
}

impl Behind {
    /// Flows in the whole frames.
    pub(crate) fn rows(&self) -> u64 {
        rows(&self.frames)
    }

    /// Octets of the whole frames.
    pub(crate) fn octets(&self) -> u64 {
        self.frames.iter().map(|frame| frame.header.frame_octets()).sum()
    }
}

impl Scan {
    /// Position of the last frame before any damage.
    pub(crate) fn last(&self) -> Option<Position> {
        self.frames.last().map(|frame| frame.header.position)
    }

    /// Flows in the frames before any damage.
    pub(crate) fn rows(&self) -> u64 {
        rows(&self.frames)
    }

    /// Whether a frame may be the next one behind those found so far, `octets` octets after the end of the last: no
    /// more can be missing in between than have room there.
    fn may_follow(&self, header: &FrameHeader, octets: usize) -> bool {
        let last = self.behind.frames.last().or(self.frames.last());
        let gap = last.map(|last| header.position.get().checked_sub(last.header.position.get()));
        let most = (octets / HEADER_OCTETS) as u64 + 1;
        self.mark == Some(header.mark) && gap.is_none_or(|gap| gap.is_some_and(|gap| (1..=most).contains(&gap)))
    }

    /// Searches for frames from the first octets on that are none.
    fn search(&mut self, octets: &(impl Octets + ?Sized)) {
        let mut at = self.whole_octets;
        let mut end = at;
        while at < octets.length() {
            let header = FrameHeader::parse(octets.header_at(at).as_ref());
            let Some(header) = header.filter(|header| self.may_follow(header, at - end)) else {
                at += HEADER_OCTETS;
                continue;
            };
            self.behind.last = self.behind.last.max(Some(header.position));
            // A header counts only with its whole frame: what follows it may be anything otherwise.
            if let Some(frame) = whole_frame(octets, at, header) {
                at = frame.end();
                end = at;
                self.behind.frames.push(frame);
            } else {
                self.behind.rows_lost += u64::from(header.flows_rows);
                at += HEADER_OCTETS;
            }
        }
    }

    /// Whether the octets behind the frames may be a part of the next one: what a system that went down left of it.
    fn is_torn(&self, octets: &(impl Octets + ?Sized)) -> bool {
        let header = octets.header_at(self.whole_octets);
        let header = header.as_ref();
        if header.iter().all(|octet| *octet == 0) {
            return true;
        }
        if header.len() < HEADER_OCTETS {
            let length = header.len().min(MAGIC.len());
            return header[..length] == MAGIC[..length];
        }
        FrameHeader::parse(header).is_some_and(|header| self.may_follow(&header, 0))
    }
}

fn rows(frames: &[FoundFrame]) -> u64 {
    frames.iter().map(|frame| u64::from(frame.header.flows_rows)).sum()
}

/// Octets in which frames are looked for: in memory, or a file of which little should be in memory.
pub(crate) trait Octets {
    /// How many there are.
    fn length(&self) -> usize;
    /// Up to [`HEADER_OCTETS`] octets at `at`, fewer when there are no more.
    fn header_at(&self, at: usize) -> impl AsRef<[u8]>;
    /// The checksum of `length` octets at `at`, or `None` when there are fewer.
    fn crc_at(&self, at: usize, length: usize) -> Option<u32>;
}

impl Octets for [u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn header_at(&self, at: usize) -> impl AsRef<[u8]> {
        let rest = self.get(at..).unwrap_or_default();
        &rest[..rest.len().min(HEADER_OCTETS)]
    }

    fn crc_at(&self, at: usize, length: usize) -> Option<u32> {
        self.get(at..at.checked_add(length)?).map(crc32c::crc32c)
    }
}

/// Finds the whole frames of the tail of this number: all checksums right, positions one after another.
pub(crate) fn scan(octets: &(impl Octets + ?Sized), number: TailNumber) -> Scan {
    let mark = mark_of(octets, number);
    let mut scan = Scan { mark, frames: Vec::new(), whole_octets: 0, end: TailEnd::Clean, behind: Behind::default() };
    while let Some(frame) = frame_at(octets, scan.whole_octets).filter(|frame| scan.may_follow(&frame.header, 0)) {
        scan.whole_octets = frame.end();
        scan.frames.push(frame);
    }
    if scan.whole_octets < octets.length() {
        let is_torn = scan.is_torn(octets);
        scan.search(octets);
        scan.end = if is_torn && scan.behind.frames.is_empty() { TailEnd::Torn } else { TailEnd::Damaged };
    }
    scan
}

/// The mark of a tail: that of its first frame. When not even the header of that can be read, the mark of those frames
/// which take most octets: what a sender put into the flows of a damaged frame is less than what is behind it.
fn mark_of(octets: &(impl Octets + ?Sized), number: TailNumber) -> Option<TailMark> {
    let first = FrameHeader::parse(octets.header_at(0).as_ref());
    if let Some(first) = first.filter(|first| first.mark.may_be_of(number)) {
        return Some(first.mark);
    }
    let mut taken: HashMap<TailMark, u64> = HashMap::new();
    let mut at = HEADER_OCTETS;
    while at < octets.length() {
        match frame_at(octets, at).filter(|frame| frame.header.mark.may_be_of(number)) {
            Some(frame) => {
                *taken.entry(frame.header.mark).or_default() += frame.header.frame_octets();
                at = frame.end();
            }
            None => at += HEADER_OCTETS,
        }
    }
    taken.into_iter().max_by_key(|(_, octets)| *octets).map(|(mark, _)| mark)
}

fn frame_at(octets: &(impl Octets + ?Sized), at: usize) -> Option<FoundFrame> {
    let header = FrameHeader::parse(octets.header_at(at).as_ref())?;
    whole_frame(octets, at, header)
}

fn whole_frame(octets: &(impl Octets + ?Sized), at: usize, header: FrameHeader) -> Option<FoundFrame> {
    let payload_at = at + HEADER_OCTETS;
    let crc = octets.crc_at(payload_at, header.payload_octets() as usize)?;
    (crc == header.payload_crc).then_some(FoundFrame { header, payload_at })
}
