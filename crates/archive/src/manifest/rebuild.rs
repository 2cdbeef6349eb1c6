//! The state of an archive by its files alone: for archives of format 1, which had no manifest, and for those that
//! have lost theirs.
//!
//! A merged segment supersedes those that it was made of: the tails of both are in their metadata, or as a range in
//! their names where an older program wrote them. A segment of a tail whose file is still there counts only when the
//! tail was merged or summed up since: nothing else proves that all its segments are there.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use weir_flow::Table;

use super::state::{ArchiveState, Epoch, PendingDeletion, PendingFile, PendingReason, WriterState};
use crate::civil::day_of_partition;
use crate::layout::{Layout, TailName};
use crate::position::{LOCAL, TailNumber};
use crate::segment::{SegmentName, found_segment};
use crate::summaries::{SegmentSummary, found_summary};
use crate::tail_set::TailSet;
use crate::{ArchiveError, Position, Segment, folder, readers};

/// How much is read of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// Only names: for a reader of an archive that has no manifest yet.
    Names,
    /// Headers, and the metadata of merged segments.
    Headers,
}

/// A state made of files, and what did not fit into it.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    pub(crate) state: ArchiveState,
    /// Segments made in part of the same tails as others that have more rows: these do not count.
    pub(crate) conflicts: Vec<Segment>,
}

/// Looks through the folders of an archive.
pub(crate) fn rebuild(layout: &Layout, care: Care) -> Result<Rebuilt, ArchiveError> {
    let tails: HashSet<TailNumber> = layout.tail_numbers()?.into_iter().collect();
    let expired = readers::expired_of_format_1(layout)?;
    let mut rebuilt = Rebuilt { state: ArchiveState::new(), ..Rebuilt::default() };
    let (segments, summaries) = (all_segments(layout, care)?, all_summaries(layout, care)?);
    let proven = proven_tails(&segments, &summaries);
    let committed = committed_tails(layout, &tails, &proven)?;
    for mut group in by_day(segments) {
        group.retain(|segment| segment.tails.iter().all(&committed));
        rebuilt.add_day(group, &expired);
    }
    rebuilt.add_summaries(summaries);
    rebuilt.finish(layout, &tails)?;
    Ok(rebuilt)
}

/// Tells of a tail whether it was sealed.
fn committed_tails(
    layout: &Layout,
    tails: &HashSet<TailNumber>,
    proven: &TailSet,
) -> Result<impl Fn(TailNumber) -> bool, ArchiveError> {
    let (tails, proven) = (tails.clone(), proven.clone());
    // Format 1 committed by removing tails in the order of their numbers, imports of several included.
    let first = if layout.version()? == 1 { tails.iter().min().copied() } else { None };
    Ok(move |tail| match first {
        Some(first) => tail < first,
        None => !tails.contains(&tail) || proven.contains(tail),
    })
}

/// Tails that were committed for certain: of what was merged, and of what has expired.
fn proven_tails(segments: &[Segment], summaries: &[SegmentSummary]) -> TailSet {
    let merged = segments.iter().map(|segment| &segment.tails).filter(|tails| tails.first() < tails.last());
    TailSet::union(merged.chain(summaries.iter().map(SegmentSummary::tails)))
}

fn all_segments(layout: &Layout, care: Care) -> Result<Vec<Segment>, ArchiveError> {
    let mut found = Vec::new();
    for &table in Table::ALL {
        for partition in layout.partitions(table)? {
            let Some(day) = day_of_partition(&partition) else { continue };
            for name in folder::names(&partition)? {
                let Some(parsed) = name.to_str().and_then(SegmentName::parse) else { continue };
                found.extend(found_segment(layout, (table, day), parsed, care == Care::Headers)?);
            }
        }
    }
    Ok(found)
}

fn all_summaries(layout: &Layout, care: Care) -> Result<Vec<SegmentSummary>, ArchiveError> {
    let mut found = Vec::new();
    for partition in layout.summary_partitions()? {
        let Some(day) = day_of_partition(&partition) else { continue };
        for name in folder::names(&partition)? {
            let Some(name) = name.to_str() else { continue };
            found.extend(found_summary(layout, day, name, care == Care::Headers)?);
        }
    }
    Ok(found)
}

fn by_day(segments: Vec<Segment>) -> impl Iterator<Item = Vec<Segment>> {
    let mut groups: BTreeMap<(Table, i64), Vec<Segment>> = BTreeMap::new();
    for segment in segments {
        groups.entry((segment.table, segment.day)).or_default().push(segment);
    }
    groups.into_values()
}

impl Rebuilt {
    /// Adds the segments of a table and day: those of most tails first, so that what they were made of does not count.
    fn add_day(&mut self, mut segments: Vec<Segment>, expired: &HashSet<PathBuf>) {
        segments.sort_by_key(|segment| {
            let count: u64 = segment.tails.ranges().iter().map(|(first, last)| last - first + 1).sum();
            (std::cmp::Reverse((count, segment.rows)), segment.tails.first(), segment.generation)
        });
        let mut live: Vec<Segment> = Vec::new();
        for segment in segments {
            let has_expired = expired.contains(&segment.path());
            let wider = live.iter().find(|other| other.tails.intersects(&segment.tails));
            match wider {
                None if has_expired => self.retire(PendingFile::Segment(segment), PendingReason::Expired),
                None => live.push(segment),
                Some(wider) if wider.tails.includes(&segment.tails) => {
                    self.retire(PendingFile::Segment(segment), PendingReason::Merged);
                }
                Some(_) => self.conflicts.push(segment),
            }
        }
        self.state.segments.extend(live.into_iter().map(|segment| (segment.key(), segment)));
    }

    fn retire(&mut self, file: PendingFile, reason: PendingReason) {
        self.state.pending.push(PendingDeletion { since: 0, file, reason });
    }

    /// Adds the summaries whose flows are in no segment, those of most tails first.
    fn add_summaries(&mut self, mut summaries: Vec<SegmentSummary>) {
        summaries.sort_by_key(|summary| {
            std::cmp::Reverse((summary.tails().last() - summary.tails().first(), summary.rows()))
        });
        for summary in summaries {
            let key = summary.key();
            let clashes = |segment: &Segment| segment.day == key.day && segment.tails.intersects(summary.tails());
            let has_flows = self.state.segments_of(Table::Flows).any(clashes);
            let of_day = self.state.summaries.values().filter(|other| other.key().day == key.day);
            if has_flows || of_day.into_iter().any(|other| other.tails().intersects(summary.tails())) {
                self.retire(PendingFile::Summary(summary), PendingReason::Expired);
            } else {
                self.state.rows_expired += summary.rows();
                self.state.summaries.insert(key, summary);
            }
        }
    }

    /// What the numbers go on from: those of everything that was ever sealed, damaged files included.
    fn finish(&mut self, layout: &Layout, tails: &HashSet<TailNumber>) -> Result<(), ArchiveError> {
        let live = self.state.segments.values().map(|segment| (segment.tails.last(), segment.last));
        let summed = self.state.summaries.values().map(|summary| (summary.tails().last(), summary.segment().last));
        let mut sealed = live.chain(summed).fold((0, Position::ZERO), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        for pending in &self.state.pending {
            if let PendingFile::Segment(segment) = &pending.file {
                sealed = (sealed.0.max(segment.tails.last()), sealed.1.max(segment.last));
            }
        }
        for &table in Table::ALL {
            for damaged in layout.damaged_segments(table)? {
                sealed = (sealed.0.max(damaged.tails.1), sealed.1.max(damaged.last));
            }
        }
        for name in layout.tail_names()? {
            if let TailName::Damaged(number, last) = name {
                // the rest of it is in the tail of its number, or was sealed
                let is_sealed = !tails.contains(&number);
                sealed = (if is_sealed { sealed.0.max(number) } else { sealed.0 }, sealed.1.max(last));
            }
        }
        let skipped = tails.iter().filter(|tail| **tail <= sealed.0).map(|tail| (*tail, *tail));
        // Whether a tail had flows is known only of those that still have some.
        let live = TailSet::union(self.state.segments_of(Table::Flows).map(|segment| &segment.tails));
        let gone = TailSet::range(1, sealed.0).without(&live);
        let local = WriterState {
            position: sealed.1,
            first_tail: sealed.0 + 1,
            skipped: TailSet::of_ranges(skipped),
            gone,
            epochs: vec![Epoch { number: 1, after: Position::ZERO }],
        };
        self.state.writers.insert(LOCAL, local);
        Ok(())
    }
}
