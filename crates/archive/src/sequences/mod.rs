//! Where the sequence numbers of exporters stood, by the table `exporter_sequences`.

pub(crate) mod fold;

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_flow::sequences::read_sequence_rows;
use weir_flow::{SequenceKey, SequenceRow, Table};

use crate::civil::day_of_ms;
use crate::upkeep::now_ms;
use crate::{ArchiveError, Segment, Snapshot};

/// Days before that of the last row whose rows are read as well.
const DAYS_BEFORE: i64 = 1;

/// Most exporters that are gone on with: more are made up.
const LAST_MAX: usize = 1 << 17;

/// Leaves those heard last.
fn keep_newest(last: &mut HashMap<SequenceKey, SequenceRow>) {
    if last.len() > LAST_MAX {
        let mut times: Vec<i64> = last.values().map(|row| row.received_ms).collect();
        let (_, oldest, _) = times.select_nth_unstable_by(LAST_MAX - 1, |one, other| other.cmp(one));
        let oldest = *oldest;
        last.retain(|_, row| row.received_ms >= oldest);
    }
}

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
    /// before: the last row of each in the order in which they were written, of the exporters heard last if there are more
    /// than [`LAST_MAX`]. Days to come do not count: a clock was wrong.
    pub fn last_sequences(&self) -> Result<Vec<SequenceRow>, ArchiveError> {
        let today = day_of_ms(now_ms());
        let is_past = |segment: &&Segment| segment.day <= today + 1;
        let segments = self.segments(Table::ExporterSequences).iter().filter(is_past);
        let last_day = segments.map(|segment| segment.day).max();
        let first_day = last_day.map_or(i64::MIN, |day| day.saturating_sub(DAYS_BEFORE));
        let mut last: HashMap<SequenceKey, SequenceRow> = HashMap::new();
        self.each_sequence(
            |segment| (first_day..=today + 1).contains(&segment.day),
            |row| {
                let before = last.remove(&row.key);
                let row = match before {
                    Some(mut before) => before.follow(row).unwrap_or(before),
                    None => row,
                };
                last.insert(row.key.clone(), row);
                if last.len() >= 2 * LAST_MAX {
                    keep_newest(&mut last);
                }
            },
        )?;
        keep_newest(&mut last);
        let mut last: Vec<SequenceRow> = last.into_values().collect();
        last.sort_by_key(|row| std::cmp::Reverse(row.received_ms));
        Ok(last)
    }

    /// Ranges of sequence numbers that earlier rows recorded and that are missing now although they have not expired: files of
    /// this table were removed or damaged, and perhaps files of flows with them. Found where a row continues from one that is
    /// absent.
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
        let mut segments: Vec<&Segment> = segments.filter(|segment| is_wanted(segment)).collect();
        segments.sort_by_key(|segment| segment.last);
        for segment in segments {
            segment.read()?.iter().flat_map(read_sequence_rows).for_each(&mut take);
        }
        self.tail(Table::ExporterSequences)?.iter().flat_map(read_sequence_rows).for_each(&mut take);
        Ok(())
    }
}
