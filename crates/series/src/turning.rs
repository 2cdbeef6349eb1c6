//! Turns finished steps around into blocks, and removes what is older than its retention.

use std::io;

use crate::block::BlockWriter;
use crate::content::StepsFile;
use crate::folder::{FileKind, Folder, set_aside};
use crate::resolution::Resolution;
use crate::{Family, FamilyId, SeriesError};

/// Rows that are in memory at once.
const SLICE_ROWS: u64 = 4 << 20;

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turned {
    /// Blocks made.
    pub(crate) blocks: u64,
    /// Steps left out because they are damaged.
    pub(crate) steps_damaged: u64,
    /// Files of steps set aside because nothing of them can be read.
    pub(crate) files_damaged: u64,
}

/// Turns around the steps of all blocks before `current`, and removes blocks before `oldest`.
pub(crate) fn turn_around(
    folder: &Folder,
    resolution: Resolution,
    families: &[Family],
    current: i64,
    oldest: i64,
) -> Result<Turned, SeriesError> {
    let mut turned = Turned::default();
    let blocks = folder.blocks(resolution)?;
    // as many blocks stay as the retention has: a clock that is years ahead must not remove what there is
    let newest: usize = blocks.len().saturating_sub(resolution.blocks_kept());
    for (rank, (block, kind)) in blocks.into_iter().enumerate() {
        if block < oldest && rank < newest {
            remove(folder, resolution, block, FileKind::Block)?;
            remove(folder, resolution, block, FileKind::Steps)?;
        } else if block < current {
            if kind == FileKind::Steps {
                match make_block(folder, resolution, families, block) {
                    // it would be met again at every block that ends, and no other one would be made
                    Err(error) if error.is_damage() => {
                        set_aside(&folder.file(resolution, block, FileKind::Steps), ".damaged")?;
                        turned.files_damaged += 1;
                        continue;
                    }
                    damaged => turned.steps_damaged += damaged?,
                }
                turned.blocks += 1;
            }
            remove(folder, resolution, block, FileKind::Steps)?;
        }
    }
    Ok(turned)
}

/// Removes a file of a block, if it is there.
pub(crate) fn remove(folder: &Folder, resolution: Resolution, block: i64, kind: FileKind) -> Result<(), SeriesError> {
    let path = folder.file(resolution, block, kind);
    match weir_disk::remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SeriesError::io("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// Returns how many steps were left out because they are damaged.
fn make_block(folder: &Folder, resolution: Resolution, families: &[Family], block: i64) -> Result<u64, SeriesError> {
    let Some(steps) = StepsFile::open(folder, resolution, block, true)? else { return Ok(0) };
    let path = folder.file(resolution, block, FileKind::Block);
    let mut writer = BlockWriter::create(&path, resolution, steps.known())?;
    for (id, family) in (0..).map(FamilyId).zip(families) {
        let (mut rows, mut columns, mut sketches) = (0, 0, 0);
        for (_, group) in steps.groups(id) {
            rows += u64::from(group.rows);
            columns = columns.max(usize::from(group.columns));
            sketches = sketches.max(usize::from(group.sketches));
        }
        if rows == 0 {
            continue;
        }
        // numbers are dense, so slices of numbers have about the same number of rows each
        let last = steps.last_id(id)?;
        let slices = rows.div_ceil(SLICE_ROWS).min(u64::from(last) + 1);
        let bound = |slice: u64| (slice * (u64::from(last) + 1) / slices) as u32;
        for slice in 0..slices {
            let mut runs = steps.runs(id, family, bound(slice), bound(slice + 1).wrapping_sub(1))?;
            if !runs.damaged.is_empty() {
                let path = folder.file(resolution, block, FileKind::Steps);
                return Err(SeriesError::Damaged { path, what: "it has changed while it was read" });
            }
            runs.widen(sketches);
            writer.write(&runs)?;
        }
        writer.end_family(id, columns, sketches)?;
    }
    writer.finish()?;
    Ok(steps.damaged)
}
