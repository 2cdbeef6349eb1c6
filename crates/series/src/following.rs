//! Steps that come after a time, for those who follow a store.

use crate::SeriesError;
use crate::content::Content;
use crate::reader::{Blocks, SeriesStore};
use crate::resolution::Resolution;

/// Steps of a resolution after a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepsAfter {
    /// When they begin, in seconds since the epoch, in order. None of them changes any more.
    pub times: Vec<i64>,
    /// When the oldest steps begin that are kept; `None` when there are none.
    pub oldest_secs: Option<i64>,
    /// When the newest one begins, whether it is among them or not.
    pub newest_secs: Option<i64>,
    /// Whether there are more than were asked for.
    pub has_more: bool,
    /// When the last step begins of a damaged block that comes next: none of its steps can be read.
    pub damaged_through_secs: Option<i64>,
}

impl SeriesStore {
    /// The steps after a time, `max` at most. The newest of the finest steps is not among them: another part of it may come.
    pub fn steps_after(&self, resolution: Resolution, after_secs: i64, max: usize) -> Result<StepsAfter, SeriesError> {
        let blocks = self.blocks(resolution)?;
        let oldest_secs = blocks.first_key_value().map(|(block, _)| block * resolution.block_secs());
        let mut found = StepsAfter { oldest_secs, ..StepsAfter::default() };
        // what comes next: a damaged block that is done with is not looked at again
        let next_secs = after_secs.saturating_add(i64::from(resolution.step_secs));
        for (&block, &kind) in blocks.range(resolution.block_of(next_secs)..) {
            let content = match Content::open(&self.folder, resolution, block, kind) {
                // what is before it comes first
                Err(error) if error.is_damage() => {
                    let end_secs = (block + 1) * resolution.block_secs();
                    let through_secs = end_secs - i64::from(resolution.step_secs);
                    found.damaged_through_secs = Some(through_secs).filter(|_| found.times.is_empty());
                    found.has_more = true;
                    break;
                }
                content => content?,
            };
            // removed since the blocks were listed
            let Some(content) = content else { continue };
            found.times.extend(content.times(resolution, block).filter(|time_secs| *time_secs > after_secs));
            found.has_more = found.times.len() > max;
            if found.has_more {
                break;
            }
        }
        found.newest_secs = match found.times.last() {
            Some(last) => Some(*last),
            None => self.newest_secs(resolution, &blocks)?,
        };
        if !found.has_more && resolution == self.resolutions()[0] {
            found.times.pop();
        }
        found.times.truncate(max);
        Ok(found)
    }

    fn newest_secs(&self, resolution: Resolution, blocks: &Blocks) -> Result<Option<i64>, SeriesError> {
        let Some((&block, &kind)) = blocks.last_key_value() else { return Ok(None) };
        match Content::open(&self.folder, resolution, block, kind) {
            Err(error) if error.is_damage() => Ok(None),
            content => Ok(content?.and_then(|content| content.times(resolution, block).last())),
        }
    }
}
