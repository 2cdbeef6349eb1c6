//! Keeping the rollups of segments that are about to expire.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{SUFFIX, SegmentSummary, exists, format, parse};
use crate::layout::Layout;
use crate::order::flow_order;
use crate::rollup::Rollup;
use crate::rollup::build::rollups;
use crate::segment::{Columns, SegmentName};
use crate::stock::PlacedSegment;
use crate::{Action, ArchiveError, Segment, SummaryOptions, folder};

/// What was written of the rollups of segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SummaryCounts {
    /// Summaries written.
    pub(crate) summaries: u64,
    /// Their octets.
    pub(crate) octets: u64,
    /// Segments among them that could not be summed up.
    pub(crate) without_sums: u64,
    /// Segments that went without a summary, because there was no room for one.
    pub(crate) lost: u64,
}

impl SummaryCounts {
    /// Counts what was written elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        self.summaries += other.summaries;
        self.octets += other.octets;
        self.without_sums += other.without_sums;
        self.lost += other.lost;
    }
}

/// Writes summaries of segments before these go.
#[derive(Debug)]
pub(crate) struct SummaryWriter<'a> {
    layout: &'a Layout,
    options: SummaryOptions,
    heavy_keys_min: usize,
    now_ms: i64,
    /// Summaries for which there was no room, and their places.
    waiting: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) written: SummaryCounts,
}

impl<'a> SummaryWriter<'a> {
    /// Rollups that must be made first keep `heavy_keys_min` keys of each kind. The caller holds the lock of upkeep.
    pub(crate) fn new(layout: &'a Layout, options: SummaryOptions, heavy_keys_min: u32, now_ms: i64) -> Self {
        let heavy_keys_min = heavy_keys_min as usize;
        Self { layout, options, heavy_keys_min, now_ms, waiting: Vec::new(), written: SummaryCounts::default() }
    }

    /// Writes the summary of a segment that is about to go, unless it is too old for one or has it already. When there
    /// is no room for it the summary waits until the segment has gone; any other failure is an error, and the segment
    /// must stay.
    pub(crate) fn keep(&mut self, kept: &PlacedSegment) -> Result<(), ArchiveError> {
        let is_wanted =
            kept.table == weir_flow::Table::Flows && kept.newest_ms() >= self.options.oldest_ms(self.now_ms);
        let Some(place) = self.place(kept).filter(|_| is_wanted) else { return Ok(()) };
        if exists(&place)? && is_whole(&place)? {
            return Ok(());
        }
        let rollups = rollups_of(&kept.segment).or_else(|_| made(&kept.segment, self.heavy_keys_min));
        // What cannot be read any more goes all the same: its summary tells that so many flows are in no sum.
        let rollups = rollups.unwrap_or_default();
        self.written.without_sums += u64::from(rollups.is_empty());
        let octets = format::encode(&rollups);
        match self.write(&place, &octets) {
            Err(error) if error.is_full_disk() => self.waiting.push((place, octets)),
            other => other?,
        }
        Ok(())
    }

    /// Writes what waits, now that segments have gone. What finds no room even so is counted as lost. A crash between
    /// the removal and this is the one that loses a summary; where there is room there is nothing in between.
    pub(crate) fn finish(mut self) -> Result<SummaryCounts, ArchiveError> {
        for (place, octets) in std::mem::take(&mut self.waiting) {
            match self.write(&place, &octets) {
                Err(error) if error.is_full_disk() => self.written.lost += 1,
                other => other?,
            }
        }
        Ok(self.written)
    }

    /// Where the summary of a segment belongs; `None` when the segment has no name that says so.
    fn place(&self, kept: &PlacedSegment) -> Option<PathBuf> {
        let stem = kept.segment.path.file_name()?.to_str()?.strip_suffix(SegmentName::SUFFIX)?;
        Some(self.layout.summary_partition(kept.day).join(format!("{stem}{SUFFIX}")))
    }

    /// Writes a temporary file, syncs it and moves it into its place, which is synced too: whatever has a name is
    /// whole.
    fn write(&mut self, place: &Path, octets: &[u8]) -> Result<(), ArchiveError> {
        let new = self.layout.merging().join("summary");
        let failed = Action::WriteSummary.failed(place);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(octets)?;
            file.sync_all()
        });
        if let Err(source) = written {
            // the next maintenance would clear it otherwise
            let _ = fs::remove_file(&new);
            return Err(failed(source));
        }
        if let Some(partition) = place.parent() {
            folder::create(&self.layout.summaries())?;
            folder::create(partition)?;
            fs::rename(&new, place).map_err(failed)?;
            folder::sync(partition)?;
        }
        self.written.summaries += 1;
        self.written.octets += octets.len() as u64;
        Ok(())
    }
}

impl SummaryOptions {
    /// What is older than this is not kept.
    pub(crate) fn oldest_ms(&self, now_ms: i64) -> i64 {
        let age_ms = u64::try_from(self.age_max.as_millis()).unwrap_or(u64::MAX);
        // of what has no age at all nothing is kept either, not even what clocks have put into the future
        if age_ms == 0 { i64::MAX } else { now_ms.saturating_sub_unsigned(age_ms) }
    }
}

/// Whether the summary at a place that has one is what was written.
fn is_whole(place: &Path) -> Result<bool, ArchiveError> {
    let name = place.file_name().and_then(|name| parse(name.to_str()?));
    let summary = name.map(|name| Segment::stat(place.to_owned(), name)).transpose()?.flatten();
    Ok(summary.map(SegmentSummary::new).is_some_and(|summary| summary.check().is_ok()))
}

/// The rollups that a segment has, once their checksums are right and they can be decoded. An error when it has none.
fn rollups_of(segment: &Segment) -> Result<Vec<(Rollup, Vec<u8>)>, ArchiveError> {
    let index = segment.index()?;
    let none = || ArchiveError::DamagedSegment { path: segment.path.clone(), part: "no rollups".to_owned() };
    let index = index.ok_or_else(none)?;
    let mut rollups = Vec::new();
    for &rollup in Rollup::ALL {
        if index.rollup(rollup)?.is_some() {
            rollups.extend(index.rollup_octets(rollup)?.map(|octets| (rollup, octets)));
        }
    }
    if rollups.is_empty() { Err(none()) } else { Ok(rollups) }
}

/// The rollups of a segment that has none, made of its flows; none when a flow lacks what is summed up.
fn made(segment: &Segment, heavy_keys_min: usize) -> Result<Vec<(Rollup, Vec<u8>)>, ArchiveError> {
    // what is damaged must not be kept with checksums that are right
    segment.check()?;
    let columns = Columns::of_segments(weir_flow::Table::Flows, std::slice::from_ref(segment));
    let order = flow_order(&columns)?;
    rollups(&columns, &order.rows, &order, heavy_keys_min)
}
