//! One run of sequence numbers, from where an exporter began to be heard until it starts again.
//!
//! What the numbers leave out is kept as gaps, so that a datagram that comes late is distinguished from one that makes
//! no sense: the first fills a gap, the second does not. The numbers wrap at 2^32; every comparison is one of
//! differences.

use std::collections::VecDeque;

/// A jump ahead by no more than this is loss without further proof. Units are whatever the numbers count.
pub(super) const GAP_SURE: u32 = 1 << 12;
/// Gaps that are remembered; the oldest is forgotten first, and what comes late for it then is a stray.
pub(crate) const GAPS_MAX: usize = 64;
/// Ranges of which it is not known yet whether something is missing in them. The oldest is forgotten first, and counts
/// as complete.
const UNDECIDED_MAX: usize = 4_096;
/// For this many datagrams after the first of a line, those from before it may still come.
const EARLY_DATAGRAMS: u32 = 64;

/// Units that did not come, from `start` up to but without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    start: u32,
    end: u32,
    /// False for what is before the first datagram of a line: it may have been sent before anyone listened.
    counted: bool,
    /// Of what is before the first datagram: follows one that may have had more units than are known.
    doubtful: bool,
}

impl Gap {
    fn holds(self, sequence: u32, units: u32) -> bool {
        let (offset, length) = (sequence.wrapping_sub(self.start), self.end.wrapping_sub(self.start));
        offset < length && units <= length - offset
    }
}

/// What placing a datagram changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// Units found missing.
    pub lost: u32,
    /// Units that had been counted as lost, and came.
    pub late: u32,
    /// Whether a later datagram had come before.
    pub reordered: bool,
}

/// The line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Number of the first datagram.
    pub first: u32,
    /// Number that the next datagram must have.
    pub expected: u32,
    /// The datagram before `expected` may have had more units than are known.
    open: bool,
    datagrams: u32,
    gaps: VecDeque<Gap>,
    undecided: VecDeque<Gap>,
}

impl Line {
    /// Begins with a datagram. `complete` says whether `units` is all that it has.
    pub(super) fn begin(sequence: u32, units: u32, complete: bool) -> Self {
        let before = Gap { start: sequence.wrapping_sub(GAP_SURE), end: sequence, counted: false, doubtful: false };
        Self {
            first: sequence,
            expected: sequence.wrapping_add(units),
            open: !complete,
            datagrams: 1,
            gaps: VecDeque::from([before]),
            undecided: VecDeque::new(),
        }
    }

    /// Goes on from where a line of a process before this one ended.
    pub(super) fn resume(expected: u32) -> Self {
        let (gaps, undecided) = (VecDeque::new(), VecDeque::new());
        Self { first: expected, expected, open: false, datagrams: EARLY_DATAGRAMS, gaps, undecided }
    }

    /// Whether the datagram before `expected` may have had more units than are known.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Ranges of which it is not known yet whether something is missing in them.
    #[inline]
    pub(super) fn undecided(&self) -> usize {
        self.undecided.len()
    }

    /// Takes all of them for complete.
    pub(super) fn leave_undecided(&mut self) {
        self.undecided = VecDeque::new();
    }

    /// How far ahead of the expected number this one is; negative when it is behind.
    pub(super) fn ahead(&self, sequence: u32) -> i32 {
        sequence.wrapping_sub(self.expected) as i32
    }

    /// Places a datagram, if it has a place: one that goes on, or one that `can_be_late` and fills a gap.
    pub(super) fn take(&mut self, sequence: u32, units: u32, complete: bool, can_be_late: bool) -> Option<Placed> {
        let ahead = self.ahead(sequence);
        if (0..=GAP_SURE as i32).contains(&ahead) {
            return Some(self.advance(sequence, units, complete));
        }
        if ahead >= 0 || !can_be_late {
            return None;
        }
        // A datagram without units, of templates only, need not fill a gap.
        let fills_nothing = units == 0 && ahead >= -(GAP_SURE as i32);
        let nothing = Placed { reordered: true, ..Placed::default() };
        self.fill(sequence, units, complete).or(fills_nothing.then_some(nothing))
    }

    fn advance(&mut self, sequence: u32, units: u32, complete: bool) -> Placed {
        let missing = Gap { start: self.expected, end: sequence, counted: true, doubtful: false };
        let ahead = sequence.wrapping_sub(self.expected);
        self.expected = sequence.wrapping_add(units);
        self.datagrams = self.datagrams.saturating_add(1);
        if self.datagrams == EARLY_DATAGRAMS {
            self.gaps.retain(|gap| gap.counted);
        }
        if ahead == 0 && units == 0 && complete {
            // Templates only: what the datagram before had is as unknown as it was.
            return Placed::default();
        }
        let was_open = std::mem::replace(&mut self.open, !complete);
        if ahead == 0 {
            return Placed::default();
        }
        if was_open {
            push(&mut self.undecided, missing, UNDECIDED_MAX);
            return Placed::default();
        }
        push(&mut self.gaps, missing, GAPS_MAX);
        Placed { lost: ahead, ..Placed::default() }
    }

    fn fill(&mut self, sequence: u32, units: u32, complete: bool) -> Option<Placed> {
        self.datagrams = self.datagrams.saturating_add(1);
        let end = sequence.wrapping_add(units);
        if let Some(at) = self.gaps.iter().position(|gap| gap.holds(sequence, units)) {
            let gap = self.gaps.remove(at)?;
            let (before, after) = (Gap { end: sequence, ..gap }, Gap { start: end, doubtful: !complete, ..gap });
            let mut late = if gap.counted { units } else { 0 };
            // The pieces take the place of the whole, so that the oldest stays the first to be forgotten.
            if !complete && gap.counted {
                // What seemed to be missing after it may be in it.
                late += after.end.wrapping_sub(after.start);
                push(&mut self.undecided, Gap { doubtful: false, ..after }, UNDECIDED_MAX);
            } else if after.start != after.end {
                self.gaps.insert(at, after);
            }
            if before.start != before.end {
                self.gaps.insert(at, before);
            }
            return Some(Placed { late, lost: 0, reordered: true });
        }
        // Templates with the number of a datagram that has more units may have come before or after it.
        let divides = |gap: &&Gap| gap.holds(sequence, units) && (units > 0 || !complete || gap.start != sequence);
        let at = self.undecided.iter().position(|gap| divides(&gap))?;
        let gap = self.undecided.get_mut(at)?;
        let after = Gap { start: end, ..*gap };
        gap.end = sequence;
        if gap.start == gap.end {
            self.undecided.remove(at);
        }
        // What had more units than are known is before this datagram, so what is missing after it is lost.
        let mut lost = after.end.wrapping_sub(after.start);
        if !complete {
            push(&mut self.undecided, after, UNDECIDED_MAX);
            lost = 0;
        } else if lost > 0 {
            push(&mut self.gaps, after, GAPS_MAX);
        }
        Some(Placed { lost, late: 0, reordered: true })
    }

    /// Learns how many units a datagram had beyond those known when it came; `known_end` is where those ended.
    pub(super) fn settle(&mut self, known_end: u32, more: u32) -> Placed {
        if self.open && self.expected == known_end {
            self.expected = known_end.wrapping_add(more);
            self.open = false;
            return Placed::default();
        }
        let at = self.undecided.iter().position(|gap| gap.start == known_end);
        let Some(gap) = at.and_then(|at| self.undecided.remove(at)) else { return Placed::default() };
        let lost = gap.end.wrapping_sub(gap.start).saturating_sub(more);
        if lost > 0 {
            push(&mut self.gaps, Gap { start: known_end.wrapping_add(more), ..gap }, GAPS_MAX);
        }
        Placed { lost, ..Placed::default() }
    }

    /// Goes on with another line that is more than [`GAP_SURE`] ahead of this one, once it is known that what is
    /// between them was lost. Returns how much that is.
    pub(super) fn join(&mut self, ahead: Line) -> u32 {
        let end = ahead.first.wrapping_sub(GAP_SURE);
        let mut far = Gap { start: self.expected, end, counted: true, doubtful: false };
        let mut lost = 0;
        for gap in ahead.gaps {
            if !gap.counted && !gap.doubtful && gap.start == far.end {
                far.end = gap.end;
                continue;
            }
            if gap.doubtful && !gap.counted {
                push(&mut self.undecided, Gap { counted: true, doubtful: false, ..gap }, UNDECIDED_MAX);
                continue;
            }
            if !gap.counted {
                lost += gap.end.wrapping_sub(gap.start);
            }
            push(&mut self.gaps, Gap { counted: true, ..gap }, GAPS_MAX);
        }
        if self.open {
            push(&mut self.undecided, far, UNDECIDED_MAX);
        } else {
            lost += far.end.wrapping_sub(far.start);
            push(&mut self.gaps, far, GAPS_MAX);
        }
        self.undecided.extend(ahead.undecided);
        (self.expected, self.open) = (ahead.expected, ahead.open);
        lost
    }
}

fn push(gaps: &mut VecDeque<Gap>, gap: Gap, gaps_max: usize) {
    if gaps.len() >= gaps_max {
        gaps.pop_front();
    }
    gaps.push_back(gap);
}
