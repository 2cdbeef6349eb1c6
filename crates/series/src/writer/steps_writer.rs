//! Appends steps to the files of one resolution.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::Counts;
use crate::content::{Content, StepsFile};
use crate::folder::{FileKind, Folder};
use crate::frame::{self, FILE_HEAD_LEN};
use crate::resolution::Resolution;
use crate::{FamilyId, FamilyRows, SeriesError};

/// The file that is being written, for the thread that syncs it.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedFile(Arc<Mutex<Option<Arc<File>>>>);

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
}

impl StepsWriter {
    /// Opens the newest block of a resolution, and cuts off what was not finished.
    pub(super) fn open(folder: &Folder, resolution: Resolution, counts: &Counts) -> Result<Self, SeriesError> {
        let path = folder.of(resolution);
        fs::create_dir_all(&path).map_err(SeriesError::io("make the folder", &path))?;
        let mut writer = Self {
            folder: folder.clone(),
            resolution,
            open: None,
            last_secs: None,
            shared: SharedFile::default(),
            buffer: Vec::new(),
        };
        for (block, kind) in folder.blocks(resolution)?.into_iter().rev() {
            match kind {
                FileKind::Steps => writer.recover(block, counts)?,
                FileKind::Block => writer.last_secs = last_of_block(folder, resolution, block)?,
            }
            if writer.last_secs.is_some() {
                break;
            }
        }
        Ok(writer)
    }

    /// Opens a file of steps that another process has left.
    fn recover(&mut self, block: i64, counts: &Counts) -> Result<(), SeriesError> {
        let Some(steps) = StepsFile::open(&self.folder, self.resolution, block, true)? else { return Ok(()) };
        counts.steps_damaged.fetch_add(steps.damaged, Ordering::Relaxed);
        let mut open = self.opened(block)?;
        let len = open.file.metadata().map_err(SeriesError::io("read", &open.path))?.len();
        let octets = steps.octets.max(FILE_HEAD_LEN);
        if len > octets {
            open.file.set_len(octets).map_err(SeriesError::io("shorten", &open.path))?;
            counts.octets_cut.fetch_add(len - octets, Ordering::Relaxed);
        }
        open.octets = octets;
        self.last_secs = steps.frames.last().map(|frame| frame.time_secs);
        if self.last_secs.is_some() {
            self.shared.set(Some(Arc::clone(&open.file)));
            self.open = Some(open);
        }
        Ok(())
    }

    fn opened(&self, block: i64) -> Result<OpenFile, SeriesError> {
        let path = self.folder.file(self.resolution, block, FileKind::Steps);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(SeriesError::io("open", &path))?;
        let head = frame::file_head(self.resolution.step_secs);
        file.write_all_at(&head, 0).map_err(SeriesError::io("write", &path))?;
        Ok(OpenFile { block, path, file: Arc::new(file), octets: FILE_HEAD_LEN })
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
            self.shared.set(Some(Arc::clone(&open.file)));
            self.open = Some(open);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        self.buffer.clear();
        frame::encode(time_secs, known, groups, &mut self.buffer);
        if let Err(error) = open.file.write_all_at(&self.buffer, open.octets) {
            // half a frame must not be in front of the next one
            let _ = open.file.set_len(open.octets);
            return Err(SeriesError::io("write", &open.path)(error));
        }
        open.octets += self.buffer.len() as u64;
        self.last_secs = Some(time_secs);
        Ok(())
    }
}

/// The last step of a block that was turned around.
fn last_of_block(folder: &Folder, resolution: Resolution, block: i64) -> Result<Option<i64>, SeriesError> {
    let content = Content::open(folder, resolution, block, FileKind::Block)?;
    let place = content.and_then(|content| content.known().iter().rposition(|&known| known > 0));
    Ok(place.map(|place| block * resolution.block_secs() + place as i64 * i64::from(resolution.step_secs)))
}

impl SharedFile {
    fn set(&self, file: Option<Arc<File>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        file.map_or(Ok(()), |file| file.sync_data())
    }
}
