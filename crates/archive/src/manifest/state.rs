//! What an archive is made of: the one place that decides which files count.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_flow::Table;

use super::edit::Edit;
use super::key::SegmentKey;
use super::refused::EditRefused;
use crate::position::{LOCAL, TailNumber, WriterId};
use crate::tail_set::TailSet;
use crate::{Position, Segment, SegmentSummary};

/// Epochs remembered of a writer, some three octets each. Positions of older ones are not known any more.
pub(crate) const EPOCHS_MAX: usize = 1024;

/// Everything that counts, as of one commit.
///
/// Files are in it or they do not count, whatever lies in the folders. What speaks against one object for all of it is
/// that every reader loads it whole: some 50 octets a segment, a millisecond for ten thousand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ArchiveState {
    /// Number of the last commit.
    pub(crate) sequence: u64,
    pub(crate) writers: BTreeMap<WriterId, WriterState>,
    pub(crate) segments: BTreeMap<SegmentKey, Segment>,
    /// Of segments of flows that have expired.
    pub(crate) summaries: BTreeMap<SegmentKey, SegmentSummary>,
    /// Files that count no more and wait for readers, in the order of commits.
    pub(crate) pending: Vec<PendingDeletion>,
    /// Flows that expired since the archive was made.
    pub(crate) rows_expired: u64,
    /// Flows in segments set aside as damaged or gone.
    pub(crate) rows_set_aside: u64,
}

/// How far a writer has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WriterState {
    /// The last position of what was sealed, or taken over when the writer opened.
    pub(crate) position: Position,
    /// Tails before this one are sealed, but for those that were skipped.
    pub(crate) first_tail: TailNumber,
    pub(crate) skipped: TailSet,
    /// Tails of which flows are gone: expired, set aside as damaged, or lost with the tail. Of those that are not here
    /// and have no segment of flows it is known that they had none.
    pub(crate) gone: TailSet,
    /// The newest last; never empty once the writer has opened.
    pub(crate) epochs: Vec<Epoch>,
}

/// Positions from one on that were given out by one writer, from its opening to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) number: u32,
    /// The last position before it. What an earlier epoch had behind it was lost in a crash of the machine.
    pub(crate) after: Position,
}

/// A file that counts no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingDeletion {
    /// The commit since which it does not.
    pub(crate) since: u64,
    pub(crate) file: PendingFile,
    pub(crate) reason: PendingReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PendingFile {
    Segment(Segment),
    Summary(SegmentSummary),
}

impl PendingFile {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Segment(segment) => segment.path(),
            Self::Summary(summary) => summary.path(),
        }
    }

    pub(crate) fn octets(&self) -> u64 {
        match self {
            Self::Segment(segment) => segment.octets,
            Self::Summary(summary) => summary.octets(),
        }
    }
}

/// Why a file counts no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingReason {
    Merged,
    Expired,
}

impl WriterState {
    /// Whether a tail counts as such: it is not sealed.
    pub(crate) fn has_tail(&self, tail: TailNumber) -> bool {
        tail >= self.first_tail || self.skipped.contains(tail)
    }

    /// The epoch that the writer is in; the first is 1.
    pub(crate) fn epoch(&self) -> u32 {
        self.epochs.last().map_or(1, |epoch| epoch.number)
    }
}

impl Segment {
    pub(crate) fn key(&self) -> SegmentKey {
        SegmentKey { table: self.table, day: self.day, writer: self.writer, first_tail: self.tails.first() }
    }
}

impl ArchiveState {
    /// An archive to which nothing was written yet.
    pub(crate) fn new() -> Self {
        let local = WriterState { first_tail: 1, ..WriterState::default() };
        Self { writers: BTreeMap::from([(LOCAL, local)]), ..Self::default() }
    }

    /// How far the writer of this machine has come.
    pub(crate) fn local(&self) -> &WriterState {
        const NONE: &WriterState = &WriterState {
            position: Position::ZERO,
            first_tail: 1,
            skipped: TailSet::EMPTY,
            gone: TailSet::EMPTY,
            epochs: Vec::new(),
        };
        self.writers.get(&LOCAL).unwrap_or(NONE)
    }

    /// Segments of a table, by day and tails.
    pub(crate) fn segments_of(&self, table: Table) -> impl Iterator<Item = &Segment> {
        let key = |day, writer, first_tail| SegmentKey { table, day, writer, first_tail };
        let all = key(i64::MIN, 0, 0)..=key(i64::MAX, WriterId::MAX, TailNumber::MAX);
        self.segments.range(all).map(|(_, segment)| segment)
    }

    /// Octets of the segments that count.
    pub(crate) fn octets(&self) -> u64 {
        self.segments.values().map(|segment| segment.octets).sum()
    }

    /// The segments that may expire, those in front that go first. Those of the newest tail stay: an archive that
    /// nobody writes to any more does not become empty.
    pub(crate) fn oldest_first(&self) -> Vec<&Segment> {
        let newest = self.segments.values().map(|segment| segment.tails.last()).max();
        let mut all: Vec<&Segment> = self
            .segments
            .values()
            .filter(|segment| newest.is_some_and(|newest| segment.tails.last() < newest))
            .collect();
        all.sort_by_key(|segment| (segment.table != Table::Flows, segment.newest_ms(), segment.tails.first()));
        all
    }

    /// Applies the next commit: all of it, or nothing when it is refused.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), EditRefused> {
        // What must hold is looked at before anything changes.
        match edit {
            Edit::Opened { writer, epoch, position } => self.open(*writer, *epoch, *position)?,
            Edit::Sealed { writer, tails, last, segments } => self.seal(*writer, *tails, *last, segments)?,
            Edit::Skipped { writer, tail } => self.skip(*writer, *tail)?,
            Edit::Merged { inputs, output } => self.merge(inputs, output)?,
            Edit::Expired { segments, written, summaries } => self.expire(segments, written, summaries)?,
            Edit::SetAside { segments, summaries } => self.set_aside(segments, summaries)?,
            Edit::Summarised { written } => self.summarise(written)?,
            Edit::Deleted { through } => self.pending.retain(|pending| pending.since > *through),
        }
        self.sequence += 1;
        Ok(())
    }

    fn writer(&mut self, writer: WriterId) -> &mut WriterState {
        let new = || WriterState { first_tail: 1, ..WriterState::default() };
        self.writers.entry(writer).or_insert_with(new)
    }

    fn open(&mut self, writer: WriterId, epoch: u32, position: Position) -> Result<(), EditRefused> {
        let state = self.writer(writer);
        if position < state.position {
            return Err(EditRefused::PositionGoesBack);
        }
        match state.epochs.last_mut() {
            Some(last) if last.number > epoch => return Err(EditRefused::EpochGoesBack),
            Some(last) if last.number == epoch => {}
            // nothing is left of the last one
            Some(last) if last.after == position => last.number = epoch,
            _ => state.epochs.push(Epoch { number: epoch, after: position }),
        }
        let too_many = state.epochs.len().saturating_sub(EPOCHS_MAX);
        state.epochs.drain(..too_many);
        Ok(())
    }

    fn seal(
        &mut self,
        writer: WriterId,
        tails: (TailNumber, TailNumber),
        last: Position,
        segments: &[Segment],
    ) -> Result<(), EditRefused> {
        let state = self.writer(writer);
        let was_skipped = tails.0 == tails.1 && state.skipped.contains(tails.0);
        if tails.0 > tails.1 || !(was_skipped || tails.0 == state.first_tail) {
            return Err(EditRefused::WrongTail);
        }
        let sealed = TailSet::range(tails.0, tails.1);
        let is_of_them = |segment: &Segment| {
            segment.writer == writer && !segment.tails.is_empty() && sealed.includes(&segment.tails)
        };
        if !segments.iter().all(is_of_them) {
            return Err(EditRefused::WrongTail);
        }
        self.may_add(segments)?;
        let state = self.writer(writer);
        if was_skipped {
            state.skipped.remove(tails.0);
        } else {
            state.first_tail = tails.1 + 1;
        }
        state.position = state.position.max(last);
        let gone = without_flows(&sealed, segments);
        state.gone = TailSet::union([&state.gone, &gone]);
        self.segments.extend(segments.iter().map(|segment| (segment.key(), segment.clone())));
        Ok(())
    }

    /// No tail may be in two segments of a table and day, nor in one and the summary of another.
    fn may_add(&self, segments: &[Segment]) -> Result<(), EditRefused> {
        let clash = |segment: &Segment| {
            let key = |first_tail| SegmentKey { first_tail, ..segment.key() };
            let before = key(0)..=key(segment.tails.last());
            let live = self.segments.range(before.clone()).any(|(_, other)| other.tails.intersects(&segment.tails));
            let gone = self.summaries.range(before).any(|(_, other)| other.tails().intersects(&segment.tails));
            live || gone
        };
        let twice = segments.iter().enumerate().any(|(number, one)| {
            let mut others = segments.iter().skip(number + 1);
            others.any(|other| one.is_beside(other) && one.tails.intersects(&other.tails))
        });
        if twice || segments.iter().any(clash) { Err(EditRefused::SameTail) } else { Ok(()) }
    }

    fn skip(&mut self, writer: WriterId, tail: TailNumber) -> Result<(), EditRefused> {
        let state = self.writer(writer);
        if tail != state.first_tail {
            return Err(EditRefused::WrongTail);
        }
        state.skipped.insert(tail);
        state.first_tail += 1;
        Ok(())
    }

    fn merge(&mut self, inputs: &[SegmentKey], output: &Segment) -> Result<(), EditRefused> {
        let found: Option<Vec<&Segment>> = inputs.iter().map(|key| self.segments.get(key)).collect();
        let found = found.ok_or(EditRefused::UnknownSegment)?;
        let rows: u64 = found.iter().map(|segment| segment.rows).sum();
        let tails = TailSet::union(found.iter().map(|segment| &segment.tails));
        let same_rows = if output.table.is_folded() { output.rows <= rows } else { output.rows == rows };
        let same = found.iter().all(|segment| segment.is_beside(output)) && tails == output.tails && same_rows;
        let mut distinct = inputs.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if !same || distinct.len() != inputs.len() || inputs.is_empty() {
            return Err(EditRefused::WrongMerge);
        }
        self.retire(inputs, PendingReason::Merged);
        self.segments.insert(output.key(), output.clone());
        Ok(())
    }

    /// Segments that are there count no more.
    fn retire(&mut self, segments: &[SegmentKey], reason: PendingReason) {
        let since = self.sequence + 1;
        for key in segments {
            if let Some(segment) = self.segments.remove(key) {
                if reason == PendingReason::Expired && segment.table == Table::Flows {
                    self.rows_expired += segment.rows;
                }
                self.pending.push(PendingDeletion { since, file: PendingFile::Segment(segment), reason });
            }
        }
    }

    /// Flows of these segments are no longer there.
    fn lose_flows(&mut self, segments: &[SegmentKey]) {
        for key in segments.iter().filter(|key| key.table == Table::Flows) {
            if let Some(tails) = self.segments.get(key).map(|segment| segment.tails.clone()) {
                let state = self.writer(key.writer);
                state.gone = TailSet::union([&state.gone, &tails]);
            }
        }
    }

    fn expire(
        &mut self,
        segments: &[SegmentKey],
        written: &[SegmentSummary],
        summaries: &[SegmentKey],
    ) -> Result<(), EditRefused> {
        if !segments.iter().all(|key| self.segments.contains_key(key)) {
            return Err(EditRefused::UnknownSegment);
        }
        if !summaries.iter().all(|key| self.summaries.contains_key(key)) {
            return Err(EditRefused::UnknownSummary);
        }
        let of_them = |summary: &SegmentSummary| {
            segments.contains(&summary.key())
                && self.segments.get(&summary.key()).is_some_and(|segment| &segment.tails == summary.tails())
        };
        if !written.iter().all(of_them) {
            return Err(EditRefused::SummaryOfLiveFlows);
        }
        self.lose_flows(segments);
        self.retire(segments, PendingReason::Expired);
        let since = self.sequence + 1;
        for key in summaries {
            if let Some(summary) = self.summaries.remove(key) {
                let file = PendingFile::Summary(summary);
                self.pending.push(PendingDeletion { since, file, reason: PendingReason::Expired });
            }
        }
        self.summaries.extend(written.iter().map(|summary| (summary.key(), summary.clone())));
        Ok(())
    }

    fn set_aside(&mut self, segments: &[SegmentKey], summaries: &[SegmentKey]) -> Result<(), EditRefused> {
        if !segments.iter().all(|key| self.segments.contains_key(key)) {
            return Err(EditRefused::UnknownSegment);
        }
        if !summaries.iter().all(|key| self.summaries.contains_key(key)) {
            return Err(EditRefused::UnknownSummary);
        }
        self.lose_flows(segments);
        for key in segments {
            if let Some(segment) = self.segments.remove(key).filter(|segment| segment.table == Table::Flows) {
                self.rows_set_aside += segment.rows;
            }
        }
        for key in summaries {
            self.summaries.remove(key);
        }
        Ok(())
    }

    fn summarise(&mut self, written: &[SegmentSummary]) -> Result<(), EditRefused> {
        let clash = |summary: &SegmentSummary| {
            let key = |first_tail| SegmentKey { first_tail, ..summary.key() };
            let mut live = self.segments.range(key(0)..=key(summary.tails().last()));
            live.any(|(_, segment)| segment.tails.intersects(summary.tails()))
        };
        if written.iter().any(clash) {
            return Err(EditRefused::SummaryOfLiveFlows);
        }
        self.summaries.extend(written.iter().map(|summary| (summary.key(), summary.clone())));
        Ok(())
    }
}

/// The sealed tails whose flows are lost. The last tail was read whole when anything came of it, so it had no flows if
/// there is no segment of them; those in front of it were missing, or not part of what was imported.
fn without_flows(sealed: &TailSet, segments: &[Segment]) -> TailSet {
    let of_flows = segments.iter().filter(|segment| segment.table == Table::Flows).map(|segment| &segment.tails);
    let read = if segments.is_empty() { TailSet::EMPTY } else { TailSet::range(sealed.last(), sealed.last()) };
    sealed.without(&TailSet::union(of_flows.chain([&read])))
}
