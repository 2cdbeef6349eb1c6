//! What a question may have to read, before it is asked.
//!
//! Two answers: by the times of segments, which costs nothing, and by what the indexes of segments know about the filter. The
//! second reads indexes and no page. Its own cost is bounded ([`EstimateLimits`]): what it does not come to counts as a whole, so
//! that its segments and flows stay upper bounds. Its octets are by averages, and no bound.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use weir_archive::{Segment, TailFrame};

use crate::flows::FlowSources;
use crate::options::go_on;
use crate::scan::{ScanSpec, frame_may_have, rows_left};
use crate::{QueryError, QueryOptions};

/// What a question may have to read at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Segments that may have flows of the window.
    pub segments: u64,
    /// Octets of these.
    pub octets: u64,
    /// Flows of these, and flows in no segment yet.
    pub rows_max: u64,
}

impl Estimate {
    /// Of all segments and deliveries of these sources.
    pub(crate) fn of(flows: &FlowSources) -> Self {
        let tail: u64 = flows.frames.iter().map(|frame| frame.flows() as u64).sum();
        Self {
            segments: flows.segments.len() as u64,
            octets: flows.segments.iter().map(|segment| segment.octets).sum(),
            rows_max: flows.segments.iter().map(|segment| segment.rows).sum::<u64>() + tail,
        }
    }
}

/// What is left of an [`Estimate`] once the indexes of segments have left out pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilteredEstimate {
    /// Segments of which some page is left, or which were not looked at.
    pub segments: u64,
    /// Octets of the pages that are left, of all columns. A page counts as many octets as its rows have on average in the
    /// segment, so it is no upper bound: pages with rows that are larger than others take more. A question about few columns
    /// reads less.
    pub octets: u64,
    /// Flows of these pages, and flows in no segment yet that may pass. A list of all flows that pass looks at exactly these.
    pub rows_max: u64,
    /// Segments that were not looked at because of [`EstimateLimits`], or whose index cannot be read. They count as a whole.
    pub segments_unchecked: u64,
    /// Flows of these.
    pub rows_unchecked: u64,
}

/// What a [`FilteredEstimate`] may cost: how many indexes are read, and how long. A single index may take longer than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimateLimits {
    /// Indexes that are read, those of the largest segments.
    pub indexes_max: usize,
    /// Time after which no other index is read.
    pub time_max: Duration,
}

impl Default for EstimateLimits {
    /// 1,000 indexes and 250 ms.
    fn default() -> Self {
        Self { indexes_max: 1_000, time_max: Duration::from_millis(250) }
    }
}

impl FilteredEstimate {
    /// Of these sources, whose frames are those of the tail.
    pub(crate) fn of(
        flows: &FlowSources,
        wanted: &ScanSpec,
        limits: EstimateLimits,
        options: &QueryOptions,
    ) -> Result<Self, QueryError> {
        let frames = flows.frames.iter().filter(|frame| frame_may_have(frame, wanted));
        let mut estimate =
            Self { rows_max: frames.map(TailFrame::flows).map(|rows| rows as u64).sum(), ..Self::default() };
        // the largest first: where the limits are reached, what is left counts as a whole
        let mut segments: Vec<&Segment> = flows.segments.iter().collect();
        segments.sort_by_key(|segment| Reverse(segment.rows));
        let began = Instant::now();
        for (number, segment) in segments.into_iter().enumerate() {
            go_on(options)?;
            let is_looked_at = number < limits.indexes_max && began.elapsed() < limits.time_max;
            // what is wrong with a file is for the question to report: an estimate has a bound without it
            let known = if is_looked_at { rows_by_index(flows, segment, wanted).ok() } else { None };
            estimate.segments_unchecked += u64::from(known.is_none());
            estimate.rows_unchecked += if known.is_none() { segment.rows } else { 0 };
            let rows = known.unwrap_or(segment.rows);
            estimate.segments += u64::from(rows > 0);
            estimate.rows_max += rows;
            estimate.octets += part_of(segment.octets, rows, segment.rows);
        }
        Ok(estimate)
    }
}

/// Rows of the pages of a segment that its index leaves; all of them where it has none.
fn rows_by_index(flows: &FlowSources, segment: &Segment, wanted: &ScanSpec) -> Result<u64, QueryError> {
    match flows.index_of(segment)? {
        Some(index) => rows_left(&index, wanted),
        None => Ok(segment.rows),
    }
}

/// The octets of some rows of all, as if each row had as many, rounded up.
fn part_of(octets: u64, rows: u64, rows_all: u64) -> u64 {
    let part = (u128::from(octets) * u128::from(rows.min(rows_all))).div_ceil(u128::from(rows_all.max(1)));
    u64::try_from(part).unwrap_or(octets)
}
