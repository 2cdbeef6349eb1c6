//! Appends steps to the files of one resolution.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Counts;
use super::stored_steps::steps_of;
use crate::content::{Content, StepsFile};
use crate::folder::{FileKind, Folder, aside, create_folder, replace, set_aside};
use crate::frame::{self, FILE_HEAD_LEN};
use crate::resolution::Resolution;
use crate::shared_file::SharedFile;
use crate::{Family, FamilyId, FamilyRows, SeriesError, StoreOptions};

/// A resolution of a store, and what its steps have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolved<'a> {
    pub(super) resolution: Resolution,
    pub(super) is_finest: bool,
    pub(super) families: &'a [Family],
}

/// Appends steps to the files of one resolution.
#[derive(Debug)]
pub(super) struct StepsWriter {
    folder: Folder,
    resolution: Resolution,
    open: Option<OpenFile>,
    last_secs: Option<i64>,
    shared: SharedFile,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct OpenFile {
    block: i64,
    path: PathBuf,
    file: Arc<File>,
    octets: u64,
    /// Frames of the file that are of the same step as the frame before them.
    continuations: u32,
}

impl StepsWriter {
    /// Opens the newest block of a resolution, and cuts off what was not finished. Steps after `latest_secs` are those of a clock
    /// that was ahead: they are set aside, or none could be written until that time has come.
    pub(super) fn open(
        folder: &Folder,
        of: Resolved<'_>,
        latest_secs: i64,
        counts: &Counts,
    ) -> Result<Self, SeriesError> {
        let resolution = of.resolution;
        let path = folder.of(resolution);
        create_folder(&path)?;
        let mut writer = Self {
            folder: folder.clone(),
            resolution,
            open: None,
            last_secs: None,
            shared: SharedFile::default(),
            buffer: Vec::new(),
        };
        for (block, kind) in folder.blocks(resolution)?.into_iter().rev() {
            let path = folder.file(resolution, block, kind);
            if block > resolution.block_of(latest_secs) {
                set_aside(&path, ".ahead")?;
                counts.files_set_aside.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let recovered = match kind {
                FileKind::Steps => writer.recover(block, latest_secs, counts),
                FileKind::Block => {
                    turn_back(folder, &of, block).and_then(|()| writer.recover(block, latest_secs, counts))
                }
            };
            match recovered {
                Err(error) if error.is_damage() => {
                    set_aside(&path, ".damaged")?;
                    counts.files_damaged.fetch_add(1, Ordering::Relaxed);
                }
                recovered => recovered?,
            }
            if writer.last_secs.is_some() {
                break;
            }
        }
        Ok(writer)
    }

    /// Opens a file of steps that another process has left.
    fn recover(&mut self, block: i64, latest_secs: i64, counts: &Counts) -> Result<(), SeriesError> {
        let Some(steps) = StepsFile::open(&self.folder, self.resolution, block, true)? else { return Ok(()) };
        counts.steps_damaged.fetch_add(steps.damaged, Ordering::Relaxed);
        let mut open = self.opened(block)?;
        open.continuations = steps.continuations;
        let len = open.file.metadata().map_err(SeriesError::io("read", &open.path))?.len();
        let future = steps.frames.iter().position(|frame| frame.time_secs > latest_secs);
        let kept = &steps.frames[..future.unwrap_or(steps.frames.len())];
        // what is behind the steps that are kept must not be read behind those that come; without any it is written over
        let end = future.map_or(steps.octets, |first| steps.frames[first].offset);
        let octets = if kept.is_empty() { FILE_HEAD_LEN } else { end };
        if future.is_some() {
            fs::copy(&open.path, aside(&open.path, ".ahead")).map_err(SeriesError::io("copy", &open.path))?;
            counts.files_set_aside.fetch_add(1, Ordering::Relaxed);
        }
        if len > octets {
            weir_disk::set_length(&open.file, &open.path, octets).map_err(SeriesError::io("shorten", &open.path))?;
            counts.octets_cut.fetch_add(len - octets, Ordering::Relaxed);
        }
        open.octets = octets;
        self.last_secs = kept.last().map(|frame| frame.time_secs);
        if self.last_secs.is_some() {
            self.shared.set(Arc::clone(&open.file), &open.path);
            self.open = Some(open);
        }
        Ok(())
    }

    fn opened(&self, block: i64) -> Result<OpenFile, SeriesError> {
        let path = self.folder.file(self.resolution, block, FileKind::Steps);
        let opened = weir_disk::open_or_create(OpenOptions::new().read(true).write(true), &path);
        let file = opened.map_err(SeriesError::io("open", &path))?;
        let head = frame::file_head(self.resolution.step_secs);
        file.write_all_at(&head, 0).map_err(SeriesError::io("write", &path))?;
        weir_disk::written(&path);
        Ok(OpenFile { block, path, file: Arc::new(file), octets: FILE_HEAD_LEN, continuations: 0 })
    }

    /// The largest number of a series of each family in the file that is written.
    pub(super) fn last_ids(&self, families: &[Family]) -> Result<Vec<(FamilyId, u32)>, SeriesError> {
        let Some(open) = &self.open else { return Ok(Vec::new()) };
        let Some(steps) = StepsFile::open(&self.folder, self.resolution, open.block, true)? else {
            return Ok(Vec::new());
        };
        (0..families.len() as u16).map(FamilyId).map(|id| Ok((id, steps.last_id(id)?))).collect()
    }

    /// The last step that was written.
    pub(super) fn last_secs(&self) -> Option<i64> {
        self.last_secs
    }

    pub(super) fn shared(&self) -> SharedFile {
        self.shared.clone()
    }

    /// Appends a step. After an error nothing of it is there.
    pub(super) fn write(
        &mut self,
        time_secs: i64,
        known: u32,
        groups: &[(FamilyId, FamilyRows)],
    ) -> Result<(), SeriesError> {
        let block = self.resolution.block_of(time_secs);
        if self.open.as_ref().is_none_or(|open| open.block != block) {
            let open = self.opened(block)?;
            self.shared.set(Arc::clone(&open.file), &open.path);
            self.open = Some(open);
        }
        let is_continued = self.last_secs == Some(time_secs);
        let Some(open) = &mut self.open else { return Ok(()) };
        self.buffer.clear();
        let continuations = open.continuations + u32::from(is_continued);
        frame::encode(time_secs, known, continuations, groups, &mut self.buffer);
        if let Err(error) = open.file.write_all_at(&self.buffer, open.octets) {
            // half a frame must not be in front of the next one
            let _ = open.file.set_len(open.octets);
            return Err(SeriesError::io("write", &open.path)(error));
        }
        weir_disk::written(&open.path);
        open.octets += self.buffer.len() as u64;
        open.continuations = continuations;
        self.last_secs = Some(time_secs);
        Ok(())
    }
}

/// The latest step that is believed. When the clock was ahead for a while, what was written then is in the future, and far from
/// what was written before; anything else is a clock that is behind now, and no reason to doubt what there is.
pub(super) fn latest_believed(folder: &Folder, finest: Resolution, options: &StoreOptions) -> Result<i64, SeriesError> {
    let latest = options.latest_secs();
    let (mut believed, mut doubted) = (None, None);
    for (block, kind) in folder.blocks(finest)? {
        if (block + 1).saturating_mul(finest.block_secs()) <= latest {
            believed = Some((block + 1) * finest.block_secs());
            continue;
        }
        let Ok(Some(content)) = Content::open(folder, finest, block, kind) else { continue };
        for time_secs in content.times(finest, block) {
            if time_secs <= latest {
                believed = Some(time_secs);
            } else {
                doubted = doubted.or(Some(time_secs));
            }
        }
    }
    let is_far = believed
        .zip(doubted)
        .is_some_and(|(before, after)| after.saturating_sub(before).unsigned_abs() > options.ahead_secs_max);
    Ok(if is_far { latest } else { i64::MAX })
}

/// Makes steps of a block again, so that more can be written behind them: its successors were set aside.
fn turn_back(folder: &Folder, of: &Resolved<'_>, block: i64) -> Result<(), SeriesError> {
    let Some(content) = Content::open(folder, of.resolution, block, FileKind::Block)? else { return Ok(()) };
    let mut octets = frame::file_head(of.resolution.step_secs);
    for step in steps_of(&content, of.resolution, block, of.families, i64::MIN, of.is_finest)? {
        frame::encode(step.time_secs, step.known, 0, &step.groups, &mut octets);
    }
    // while both are there the block counts, so a crash in between costs nothing
    replace(&folder.file(of.resolution, block, FileKind::Steps), &octets)?;
    let path = folder.file(of.resolution, block, FileKind::Block);
    weir_disk::remove(&path).map_err(SeriesError::io("remove", &path))
}
