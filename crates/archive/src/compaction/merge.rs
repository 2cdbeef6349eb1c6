//! Several segments as one, with the name that supersedes them.

use std::path::Path;

use weir_flow::Table;

use crate::books::days;
use crate::segment::{SegmentName, SegmentRange, rewrite};
use crate::stock::now_ms;
use crate::{ArchiveError, ArchiveOptions, Segment};

/// Writes the rows of segments of one table and day to a new file and syncs it. Returns the name that it must get.
pub(super) fn merged(
    table: Table,
    inputs: &[Segment],
    path: &Path,
    options: &ArchiveOptions,
) -> Result<SegmentName, ArchiveError> {
    let folder = || inputs.first().and_then(|input| input.path.parent()).unwrap_or(path).to_owned();
    let mut expected = 0;
    for input in inputs {
        // What is damaged must not be sealed again with checksums that are right.
        input.check()?;
        let found = input.rows_by_footer()?;
        if found != input.rows {
            return Err(ArchiveError::MergedRows { path: input.path.clone(), expected: input.rows, found });
        }
        expected += found;
    }
    let (Some(first), Some(last)) =
        (inputs.iter().min_by_key(|input| input.tails.0), inputs.iter().max_by_key(|input| input.tails.1))
    else {
        return Err(ArchiveError::MergedRows { path: folder(), expected: 0, found: 0 });
    };
    let range = SegmentRange { tails: (first.tails.0, last.tails.1), first: first.first, last: last.last };
    let ranges = inputs.iter().map(|input| input.time_range_ms);
    let step = days::step(ranges, options.compaction.books_minutes_age_max, now_ms());
    let name = rewrite(table, inputs, range, path, step, options)?;
    // rows of the books are added up
    let is_possible = if table == Table::ExporterBooks { 1..=expected } else { expected..=expected };
    if !is_possible.contains(&name.rows) {
        return Err(ArchiveError::MergedRows { path: folder(), expected, found: name.rows });
    }
    Ok(name)
}
