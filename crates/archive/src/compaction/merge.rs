//! Several segments as one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_flow::Table;

use crate::books::days;
use crate::segment::{SegmentOrigin, rewrite};
use crate::tail_set::TailSet;
use crate::upkeep::now_ms;
use crate::{ArchiveError, ArchiveOptions, Segment};

/// Writes the rows of segments of one table and day to a new file and syncs it. Returns the segment that it is once it
/// has been moved to its path. It is abandoned soon after `is_ending` is set.
pub(super) fn merged(
    table: Table,
    inputs: &[Segment],
    path: &Path,
    options: &ArchiveOptions,
    is_ending: &AtomicBool,
) -> Result<Segment, ArchiveError> {
    let mut expected = 0;
    for input in inputs {
        if is_ending.load(Ordering::Relaxed) {
            return Err(ArchiveError::MergeAbandoned);
        }
        // What is damaged must not be sealed again with checksums that are right.
        input.check()?;
        let found = input.rows_by_footer()?;
        if found != input.rows {
            return Err(ArchiveError::MergedRows { path: input.path(), expected: input.rows, found });
        }
        expected += found;
    }
    let positions = (inputs.iter().map(|input| input.first).min(), inputs.iter().map(|input| input.last).max());
    let (Some(one), (Some(first), Some(last))) = (inputs.first(), positions) else {
        return Err(ArchiveError::MergedRows { path: path.to_owned(), expected: 0, found: 0 });
    };
    let tails = TailSet::union(inputs.iter().map(|input| &input.tails));
    let origin = SegmentOrigin { root: one.root.clone(), day: one.day, tails, first, last, deliveries: None };
    let ranges = inputs.iter().map(|input| input.time_range_ms);
    let step = days::step(ranges, options.compaction.books_minutes_age_max, now_ms());
    let merged = rewrite(table, inputs, origin, path, step, options, is_ending)?;
    // rows of some tables become fewer
    let is_possible = if table.is_folded() { 1..=expected } else { expected..=expected };
    if !is_possible.contains(&merged.rows) {
        return Err(ArchiveError::MergedRows { path: one.partition(), expected, found: merged.rows });
    }
    Ok(merged)
}
