//! Steps that have keys which a loss of power or damage took.
//!
//! A key is in the catalogue before the first step that has it, and the catalogue is synced before the steps. Of what was not synced
//! there may be any part: also a step without the line of its key. The key gets another number when it comes again, and would
//! read as zero in that step. Such a step was not durable, and nothing behind it in its file was: all of it is cut off, and
//! is a gap. What speaks against it is that steps go whose other keys are known.
//!
//! Lines of the catalogue that were durable and are damaged beyond repair are another thing: their keys may be in any step. Steps
//! stay, and it is noted until when a key that is absent may have had another number, so that it is not taken for zero. That is noted
//! of families only that have such a number in a step, or whose steps cannot all be read: the others have lost nothing.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::sync::atomic::Ordering;

use super::Counts;
use crate::catalogue::CatalogueWriter;
use crate::content::{Content, StepsFile};
use crate::folder::{DescribedFamily, Description, FileKind, Folder};
use crate::resolution::Resolution;
use crate::{Catalogue, Coverage, FamilyId, SeriesError, SeriesId};

/// Cuts off steps from the first one on that has a key which is not known, of families with every key.
pub(super) fn cut_off(
    folder: &Folder,
    description: &Description,
    catalogue: &CatalogueWriter,
    counts: &Counts,
) -> Result<(), SeriesError> {
    // a line that was durable and is damaged costs its own key, and no steps
    if catalogue.catalogue().damaged_lines() > 0 {
        return Ok(());
    }
    for &resolution in &description.resolutions {
        for (block, kind) in folder.blocks(resolution)? {
            // keys are synced before a block is turned around
            if kind != FileKind::Steps {
                continue;
            }
            let steps = match StepsFile::open(folder, resolution, block, false) {
                Err(error) if error.is_damage() => continue,
                steps => steps?,
            };
            let Some(steps) = steps else { continue };
            let Some(octets) = first_lost(&steps, &description.families, catalogue.catalogue())? else { continue };
            let path = folder.file(resolution, block, kind);
            let file = OpenOptions::new().write(true).open(&path).map_err(SeriesError::io("open", &path))?;
            let len = file.metadata().map_err(SeriesError::io("read", &path))?.len();
            // durable before the number of the key is given to another one
            let shortened = weir_disk::set_length(&file, &path, octets).and_then(|()| weir_disk::sync(&file, &path));
            shortened.map_err(SeriesError::io("shorten", &path))?;
            counts.octets_cut.fetch_add(len.saturating_sub(octets), Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Where the first step begins that has a key which is not known.
fn first_lost(
    steps: &StepsFile,
    families: &[DescribedFamily],
    catalogue: &Catalogue,
) -> Result<Option<u64>, SeriesError> {
    // the keys of steps before damage are known to be lost
    let is_durable =
        |described: &DescribedFamily, time_secs| described.lost.is_some_and(|lost| time_secs <= lost.last_secs);
    for frame in &steps.frames {
        for group in &frame.groups {
            let described = families.get(usize::from(group.family.0));
            let complete = described.filter(|described| described.family.coverage == Coverage::Complete);
            if complete.is_none_or(|described| is_durable(described, frame.time_secs)) {
                continue;
            }
            let rows = match steps.rows(group, 0, u32::MAX) {
                Err(error) if error.is_damage() => continue,
                rows => rows?,
            };
            if rows.ids.iter().any(|id| catalogue.key(group.family, SeriesId(*id)).is_none()) {
                // half of a step in parts would be a wrong number
                let first = steps.frames.iter().find(|other| other.time_secs == frame.time_secs);
                return Ok(first.map(|first| first.offset));
            }
        }
    }
    Ok(None)
}

/// Notes which numbers have lost their keys to damaged lines, gives none of these to another key, and writes the catalogue anew when
/// any line was damaged. To be called once the last step is known, and before a key is given a number.
pub(super) fn note(
    folder: &Folder,
    description: &mut Description,
    catalogue: &mut CatalogueWriter,
    last_secs: Option<i64>,
    counts: &Counts,
) -> Result<(), SeriesError> {
    let (repaired, damaged) = (catalogue.catalogue().repaired_lines(), catalogue.catalogue().damaged_lines());
    counts.keys_repaired.fetch_add(repaired, Ordering::Relaxed);
    counts.keys_lost.fetch_add(damaged, Ordering::Relaxed);
    if let Some(last_secs) = last_secs.filter(|_| damaged > 0) {
        let last_numbers = lost_numbers(folder, description, catalogue.catalogue())?;
        folder.note_lost_keys(description, last_secs, &last_numbers)?;
    }
    for (family, described) in (0..).map(FamilyId).zip(&description.families) {
        if let Some(lost) = described.lost {
            catalogue.reserve(family, lost.last_number);
        }
    }
    if repaired + damaged > 0 {
        catalogue.mend()?;
    }
    Ok(())
}

/// What steps have of the numbers of a family.
#[derive(Debug, Clone, Copy)]
struct FoundNumbers {
    /// The largest one in any step that can be read.
    last: u32,
    /// Whether a key was lost, or may have been: steps that cannot be read have any number.
    is_lost: bool,
}

/// For each family that may have lost keys, the largest number of a series in any step that can be read.
fn lost_numbers(
    folder: &Folder,
    description: &Description,
    catalogue: &Catalogue,
) -> Result<Vec<Option<u32>>, SeriesError> {
    let before = |described: &DescribedFamily| described.lost.map_or(0, |lost| lost.last_number);
    let nothing = |described: &DescribedFamily| FoundNumbers { last: before(described), is_lost: false };
    let mut found: Vec<FoundNumbers> = description.families.iter().map(nothing).collect();
    for &resolution in &description.resolutions {
        for (block, kind) in folder.blocks(resolution)? {
            let content = match Content::open(folder, resolution, block, kind) {
                Err(error) if error.is_damage() => {
                    for found in &mut found {
                        found.is_lost = true;
                    }
                    continue;
                }
                content => content?,
            };
            let Some(content) = content else { continue };
            for ((family, described), found) in (0..).map(FamilyId).zip(&description.families).zip(&mut found) {
                let ids = match content.ids(family) {
                    Err(error) if error.is_damage() => {
                        found.is_lost = true;
                        continue;
                    }
                    ids => ids?,
                };
                found.last = ids.iter().copied().fold(found.last, u32::max);
                let is_unnamed = |id: &u32| catalogue.key(family, SeriesId(*id)).is_none();
                let unnamed: BTreeSet<u32> = ids.into_iter().filter(is_unnamed).collect();
                found.is_lost = found.is_lost
                    || !content.damaged().is_empty()
                    || has_newly_lost(&content, (family, described), (resolution, block), &unnamed)?;
            }
        }
    }
    Ok(found.into_iter().map(|found| Some(found.last).filter(|_| found.is_lost)).collect())
}

/// Whether a block has any of these numbers, which have no keys, in a step that came after those of which it is known that
/// keys were lost.
fn has_newly_lost(
    content: &Content,
    (family, described): (FamilyId, &DescribedFamily),
    (resolution, block): (Resolution, i64),
    unnamed: &BTreeSet<u32>,
) -> Result<bool, SeriesError> {
    let (Some(&first), Some(&last)) = (unnamed.first(), unnamed.last()) else { return Ok(false) };
    let Some(lost) = described.lost else { return Ok(true) };
    let is_behind = |time_secs: i64| time_secs > lost.last_secs;
    if !content.times(resolution, block).any(is_behind) {
        return Ok(false);
    }
    let runs = match content.runs(family, &described.family, first, last) {
        Err(error) if error.is_damage() => return Ok(true),
        runs => runs?,
    };
    let begin_secs = block * resolution.block_secs();
    let time = |place: u16| begin_secs + i64::from(place) * i64::from(resolution.step_secs);
    let has_behind = |index: usize| runs.places[runs.rows(index)].iter().any(|place| is_behind(time(*place)));
    let found = runs.ids.iter().enumerate().any(|(index, id)| unnamed.contains(id) && has_behind(index));
    Ok(found || !runs.damaged.is_empty())
}
