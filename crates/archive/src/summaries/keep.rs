//! Keeping the rollups of segments that are about to expire.

use std::fs;

use super::{SegmentSummary, format};
use crate::layout::Layout;
use crate::order::flow_order;
use crate::rollup::Rollup;
use crate::rollup::build::rollups;
use crate::segment::Columns;
use crate::{Action, ArchiveError, Segment, SummaryOptions, disk, folder};

/// Rollups as a file has them.
type Rollups = Vec<(Rollup, Vec<u8>)>;

/// What was written of the rollups of segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SummaryCounts {
    /// Summaries written.
    pub(crate) summaries: u64,
    /// Their octets.
    pub(crate) octets: u64,
    /// Segments among them that could not be summed up.
    pub(crate) without_sums: u64,
    /// Segments that were removed without a summary, because there was no space for one.
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

/// A summary for which there was no space: it is written when the file of its segment is removed.
#[derive(Debug, Clone)]
pub(crate) struct WaitingSummary {
    segment: Segment,
    octets: Vec<u8>,
}

/// Writes summaries of segments before these go.
#[derive(Debug)]
pub(crate) struct SummaryWriter<'a> {
    layout: &'a Layout,
    options: SummaryOptions,
    heavy_keys_min: usize,
    now_ms: i64,
    /// Written, and not committed yet.
    pub(crate) written: Vec<SegmentSummary>,
    pub(crate) waiting: Vec<WaitingSummary>,
    pub(crate) counts: SummaryCounts,
}

impl<'a> SummaryWriter<'a> {
    /// Rollups that must be made first keep `heavy_keys_min` keys of each kind. The caller holds the lock of
    /// maintenance.
    pub(crate) fn new(layout: &'a Layout, options: SummaryOptions, heavy_keys_min: u32, now_ms: i64) -> Self {
        let heavy_keys_min = heavy_keys_min as usize;
        let (written, waiting, counts) = (Vec::new(), Vec::new(), SummaryCounts::default());
        Self { layout, options, heavy_keys_min, now_ms, written, waiting, counts }
    }

    /// Writes the summary of a segment that is about to go, unless it is too old for one. Neither damage of the segment nor
    /// a bad sector keeps it from going: then nothing would ever expire again, and the disk would fill up. When there is no room for it
    /// the summary waits until the segment has gone; any other failure is an error, and the segment must stay.
    pub(crate) fn keep(&mut self, segment: &Segment) -> Result<(), ArchiveError> {
        if segment.table != weir_flow::Table::Flows || segment.newest_ms() < self.options.oldest_ms(self.now_ms) {
            return Ok(());
        }
        let rollups = match rollups_of(segment) {
            // It has none, or they cannot be read: they may be made of the flows.
            Ok(None) => made(segment, self.heavy_keys_min),
            Err(error) if error.is_unreadable() => made(segment, self.heavy_keys_min),
            other => other.map(Option::unwrap_or_default),
        };
        let rollups = match rollups {
            // What cannot be read any more is deleted too; the empty summary records the number of rows.
            Err(error) if error.is_unreadable() => Vec::new(),
            other => other?,
        };
        self.counts.without_sums += u64::from(rollups.is_empty());
        let octets = format::encode(&rollups, &segment.tails);
        let waiting = WaitingSummary { segment: segment.clone(), octets };
        match write(self.layout, &waiting) {
            Ok(summary) => {
                self.counts.summaries += 1;
                self.counts.octets += summary.octets();
                self.written.push(summary);
            }
            Err(error) if error.is_full_disk() => self.waiting.push(waiting),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Writes summaries that wait for room, the last of them first, as far as there is some. On an error those that are written
/// before are in `written` too.
pub(crate) fn write_waiting(
    layout: &Layout,
    waiting: &[WaitingSummary],
    written: &mut Vec<SegmentSummary>,
) -> Result<(), ArchiveError> {
    for summary in waiting.iter().rev() {
        match write(layout, summary) {
            Ok(summary) => written.push(summary),
            Err(error) if error.is_full_disk() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a temporary file, syncs it and moves it into its place, which is synced too.
fn write(layout: &Layout, waiting: &WaitingSummary) -> Result<SegmentSummary, ArchiveError> {
    let summary = SegmentSummary::of(waiting.segment.clone(), waiting.octets.len() as u64);
    let (new, place, partition) = (layout.merging().join("summary"), summary.path(), summary.partition());
    let failed = Action::WriteSummary.failed(&place);
    if let Err(source) = disk::write_synced(&new, &waiting.octets) {
        // the next maintenance would clear it otherwise
        let _ = fs::remove_file(&new);
        return Err(failed(source));
    }
    folder::create(&layout.summaries())?;
    folder::create(&partition)?;
    disk::rename(&new, &place).map_err(failed)?;
    folder::sync(&partition)?;
    Ok(summary)
}

impl SummaryOptions {
    /// What is older than this is not kept.
    pub(crate) fn oldest_ms(&self, now_ms: i64) -> i64 {
        let age_ms = u64::try_from(self.age_max.as_millis()).unwrap_or(u64::MAX);
        // of what has no age at all nothing is kept either, not even what clocks have put into the future
        if age_ms == 0 { i64::MAX } else { now_ms.saturating_sub_unsigned(age_ms) }
    }
}

/// The rollups that a segment has, once their checksums are right and they can be decoded; `None` when it has none.
fn rollups_of(segment: &Segment) -> Result<Option<Rollups>, ArchiveError> {
    let Some(index) = segment.index()? else { return Ok(None) };
    let mut rollups = Vec::new();
    for &rollup in Rollup::ALL {
        if index.rollup(rollup)?.is_some() {
            rollups.extend(index.rollup_octets(rollup)?.map(|octets| (rollup, octets)));
        }
    }
    Ok(Some(rollups).filter(|rollups| !rollups.is_empty()))
}

/// The rollups of a segment that has none, made of its flows; none when a flow lacks what is summed up.
fn made(segment: &Segment, heavy_keys_min: usize) -> Result<Rollups, ArchiveError> {
    // what is damaged must not be kept with checksums that are right
    segment.check()?;
    let columns = Columns::of_segments(weir_flow::Table::Flows, std::slice::from_ref(segment));
    let order = flow_order(&columns)?;
    rollups(&columns, &order.rows, &order, heavy_keys_min)
}

#[cfg(test)]
mod tests {
    use weir_flow::Table;

    use super::*;
    use crate::expiry::write_late;
    use crate::manifest::tests::segment_of;
    use crate::upkeep::Upkeep;
    use crate::{ArchiveOptions, Writer};

    #[test]
    fn a_summary_waits_until_it_is_committed() {
        let dir = tempfile::tempdir().expect("a folder");
        Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive").0.close().expect("closed");
        let layout = Layout::new(dir.path());
        let segment = Segment { root: layout.shared_root(), ..segment_of(Table::Flows, 1, 1) };
        let octets = format::encode(&[], &segment.tails);
        let mut waiting = vec![WaitingSummary { segment, octets }];
        let mut counts = SummaryCounts::default();
        let mut upkeep = Upkeep::begin(&layout).expect("the lock");
        // a commit that cannot be read
        let next = layout.manifest().join(format!("{:016}.edit", upkeep.state().sequence + 1));
        fs::create_dir(&next).expect("a folder");
        write_late(&mut upkeep, &mut waiting, &mut counts).expect_err("what counts is not known");
        assert_eq!((waiting.len(), counts.summaries), (1, 0));
        fs::remove_dir(&next).expect("removed");
        write_late(&mut upkeep, &mut waiting, &mut counts).expect("written");
        assert_eq!((waiting.len(), counts.summaries, upkeep.state().summaries.len()), (0, 1, 1));
    }
}
