//! How much of the disk a store takes, and how it stays within a limit.
//!
//! How long steps are kept says how large a store becomes only for keys that are known beforehand. So a store may have a
//! limit by size: the oldest blocks go then, those of the finest steps first, of which there are the most octets for the
//! least time. What speaks against it is that a question about seconds then has less of the past than the retention says.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::folder::{FileKind, Folder};
use crate::turning::remove;
use crate::{Resolution, SeriesError};

/// Blocks of a resolution that stay whatever they take, the newest: after a restart the open step of the next coarser resolution is
/// made of them.
fn blocks_min(resolution: Resolution, coarser: Option<&Resolution>) -> usize {
    let needed = coarser.map_or(0, |coarser| i64::from(coarser.step_secs).unsigned_abs());
    let blocks = needed.div_ceil(resolution.block_secs().unsigned_abs().max(1)).saturating_add(1).max(2);
    usize::try_from(blocks).unwrap_or(usize::MAX)
}

/// How much of the disk a store takes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSize {
    /// Octets of all files, those that are not of a resolution included.
    pub octets: u64,
    /// Of each resolution, the finest first.
    pub resolutions: Vec<ResolutionSize>,
}

/// How much of the disk the steps of one length take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolutionSize {
    /// The length of steps, and how long they are kept.
    pub resolution: Resolution,
    /// Blocks, the one that is written included.
    pub blocks: u64,
    /// Octets of all files in its folder.
    pub octets: u64,
}

impl StoreSize {
    /// The size of the store in a folder, by the sizes of its files; `None` when there is no store.
    pub fn of(dir: &Path) -> Result<Option<Self>, SeriesError> {
        let folder = Folder(dir.to_owned());
        let Some(description) = folder.description()? else { return Ok(None) };
        let mut octets: u64 = files(dir)?.into_iter().map(|(_, octets)| octets).sum();
        let mut resolutions = Vec::new();
        for resolution in description.resolutions {
            let files = files(&folder.of(resolution))?;
            let of_files: u64 = files.iter().map(|(_, octets)| octets).sum();
            octets += of_files;
            let blocks = blocks(&files).len() as u64;
            resolutions.push(ResolutionSize { resolution, blocks, octets: of_files });
        }
        Ok(Some(Self { octets, resolutions }))
    }
}

/// Removes the oldest blocks until the store has `octets_max` octets at most: those of the finest resolution, then those of
/// the next one. The newest of each stay; where even that is too much, coarser steps stay as well, for they would go for
/// nothing. Returns how many blocks were removed.
pub(crate) fn keep_within(folder: &Folder, resolutions: &[Resolution], octets_max: u64) -> Result<u64, SeriesError> {
    let mut octets: u64 = files(&folder.0)?.into_iter().map(|(_, octets)| octets).sum();
    let mut removable = Vec::new();
    for (number, resolution) in resolutions.iter().enumerate() {
        let files = files(&folder.of(*resolution))?;
        octets += files.iter().map(|(_, octets)| octets).sum::<u64>();
        let mut blocks = blocks(&files);
        for _ in 0..blocks_min(*resolution, resolutions.get(number + 1)).min(blocks.len()) {
            blocks.pop_last();
        }
        removable.push(blocks);
    }
    let least = octets.saturating_sub(removable.iter().flat_map(BTreeMap::values).sum());
    let levels = if least <= octets_max { resolutions.len() } else { 1 };
    let mut removed = 0;
    for (resolution, blocks) in resolutions.iter().zip(&removable).take(levels) {
        for (block, of_block) in blocks {
            if octets <= octets_max {
                return Ok(removed);
            }
            remove(folder, *resolution, *block, FileKind::Block)?;
            remove(folder, *resolution, *block, FileKind::Steps)?;
            octets = octets.saturating_sub(*of_block);
            removed += 1;
        }
    }
    Ok(removed)
}

/// Names and octets of the files in a folder, of which there need be none.
fn files(path: &Path) -> Result<Vec<(String, u64)>, SeriesError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(SeriesError::io("list", path)(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(SeriesError::io("list", path))?;
        // one that is removed meanwhile takes nothing
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            files.push((entry.file_name().to_string_lossy().into_owned(), metadata.len()));
        }
    }
    Ok(files)
}

/// Octets of each block, in the order of time.
fn blocks(files: &[(String, u64)]) -> BTreeMap<i64, u64> {
    let mut blocks = BTreeMap::new();
    for (name, octets) in files {
        let number = name.strip_suffix(".steps").or_else(|| name.strip_suffix(".block"));
        if let Some(block) = number.and_then(|number| number.parse().ok()) {
            *blocks.entry(block).or_insert(0) += octets;
        }
    }
    blocks
}
