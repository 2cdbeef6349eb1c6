//! Steps that have keys which a loss of power took.
//!
//! A key is in the catalogue before the first step that has it, and the catalogue is synced before the steps. Of what was not synced
//! there may be any part: also a step without the line of its key. The key gets another number when it comes again, and would
//! read as zero in that step. Such a step was not durable, and nothing behind it in its file was: all of it is cut off, and
//! is a gap. What speaks against it is that steps go whose other keys are known.

use std::fs::OpenOptions;
use std::sync::atomic::Ordering;

use super::Counts;
use crate::catalogue::CatalogueWriter;
use crate::content::StepsFile;
use crate::folder::{FileKind, Folder};
use crate::resolution::Resolution;
use crate::{Catalogue, Coverage, Family, SeriesError, SeriesId};

/// Cuts off steps from the first one on that has a key which is not known, of families with every key.
pub(super) fn cut_off(
    folder: &Folder,
    resolutions: &[Resolution],
    families: &[Family],
    catalogue: &CatalogueWriter,
    counts: &Counts,
) -> Result<(), SeriesError> {
    // a line that was durable and is damaged costs its own key, and no steps
    if catalogue.has_damaged_lines() {
        return Ok(());
    }
    for &resolution in resolutions {
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
            let Some(octets) = first_lost(&steps, families, catalogue.catalogue())? else { continue };
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
fn first_lost(steps: &StepsFile, families: &[Family], catalogue: &Catalogue) -> Result<Option<u64>, SeriesError> {
    for frame in &steps.frames {
        for group in &frame.groups {
            let family = families.get(usize::from(group.family.0));
            if family.is_none_or(|family| family.coverage != Coverage::Complete) {
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
