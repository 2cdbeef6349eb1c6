//! Where the sequence numbers of exporters stood, by the table `exporter_sequences`.

pub(crate) mod fold;

use std::collections::{BTreeMap, HashSet};

use weir_flow::sequences::read_sequence_rows;
use weir_flow::{SequenceKey, SequenceRow, Table};

use crate::{ArchiveError, Segment, Snapshot};

/// Days before that of the last row whose rows are read as well.
const DAYS_BEFORE: i64 = 1;

/// Something that an archive had, and has no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceHole {
    /// Who sent it.
    pub key: SequenceKey,
    /// What the numbers count.
    pub unit: String,
    /// How much it is.
    pub missing: u32,
    /// After and until when it was received, milliseconds since the epoch.
    pub between_ms: [i64; 2],
}

impl Snapshot {
    /// Where the sequence numbers of all exporters stand that were heard on the last day of the archive or on the day
    /// before: the last row of each, which tells of the time from where nothing is missing on.
    pub fn last_sequences(&self) -> Result<Vec<SequenceRow>, ArchiveError> {
        let segments = self.segments(Table::ExporterSequences);
        let last_day = segments.iter().map(|segment| segment.day).max();
        let first_day = last_day.map_or(i64::MIN, |day| day.saturating_sub(DAYS_BEFORE));
        let mut last: BTreeMap<SequenceKey, SequenceRow> = BTreeMap::new();
        self.each_sequence(
            |segment| segment.day >= first_day,
            |row| match last.get_mut(&row.key) {
                None => {
                    last.insert(row.key.clone(), row);
                }
                Some(before) => {
                    if let Some(row) = before.follow(row).filter(|row| row.received_ms >= before.received_ms) {
                        *before = row;
                    }
                }
            },
        )?;
        Ok(last.into_values().collect())
    }

    /// What the archive had and has no more, though it has not expired: files were removed or damaged. It shows where a
    /// row goes on from one that is not there.
    pub fn sequence_holes(&self) -> Result<Vec<SequenceHole>, ArchiveError> {
        let mut rows: BTreeMap<SequenceKey, Vec<SequenceRow>> = BTreeMap::new();
        self.each_sequence(
            |_| true,
            |row| {
                let of_key = rows.entry(row.key.clone()).or_default();
                let row = match of_key.last_mut() {
                    Some(last) => last.follow(row),
                    None => Some(row),
                };
                of_key.extend(row);
            },
        )?;
        let mut holes = Vec::new();
        for (key, mut rows) in rows {
            rows.sort_by_key(|row| row.received_ms);
            let ends: HashSet<u32> = rows.iter().map(|row| row.next).collect();
            // what was before the first has expired
            for pair in rows.windows(2) {
                let [before, row] = pair else { continue };
                let Some(first) = row.first.filter(|first| !ends.contains(first)) else { continue };
                let missing = first.wrapping_sub(before.next);
                let between_ms = [before.received_ms, row.since_ms];
                holes.push(SequenceHole { key: key.clone(), unit: row.unit.clone(), missing, between_ms });
            }
        }
        Ok(holes)
    }

    /// Gives each row to `take`, those of one exporter in the order in which they were written.
    fn each_sequence(
        &self,
        is_wanted: impl Fn(&Segment) -> bool,
        mut take: impl FnMut(SequenceRow),
    ) -> Result<(), ArchiveError> {
        let segments = self.segments(Table::ExporterSequences).iter();
        for segment in segments.filter(|segment| is_wanted(segment)) {
            segment.read()?.iter().flat_map(read_sequence_rows).for_each(&mut take);
        }
        self.tail(Table::ExporterSequences)?.iter().flat_map(read_sequence_rows).for_each(&mut take);
        Ok(())
    }
}
