//! Writes steps.

mod background;
mod steps_writer;
mod stored_steps;

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::background::{Background, Message};
use self::steps_writer::{Resolved, StepsWriter};
use crate::catalogue::CatalogueWriter;
use crate::content::Content;
use crate::folder::Folder;
use crate::resolution::Resolution;
use crate::{Catalogue, Family, FamilyId, SeriesError, SeriesId, StepRows, StoreOptions};

/// The one writer of a store.
///
/// [`write_step`](Self::write_step) is one write at the end of a file. What is made of the step later (coarser steps,
/// blocks, removing what is too old) is done by a thread of the writer; when it cannot keep up, writing waits for it.
#[derive(Debug)]
pub struct StatisticsWriter {
    families: Arc<Vec<Family>>,
    folder: Folder,
    resolutions: Vec<Resolution>,
    catalogue: CatalogueWriter,
    steps: StepsWriter,
    last_secs: Option<i64>,
    background: Background,
    counts: Arc<Counts>,
    /// Held while the writer lives.
    _lock: File,
}

/// What a writer has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterCounts {
    /// Steps written.
    pub steps: u64,
    /// Coarser steps made.
    pub steps_consolidated: u64,
    /// Blocks made.
    pub blocks: u64,
    /// Attempts of the background thread that failed and are made again.
    pub failures: u64,
    /// Octets of unfinished writes that were cut off when the store was opened.
    pub octets_cut: u64,
    /// Steps left out because their checksums were wrong.
    pub steps_damaged: u64,
    /// Files set aside because their steps were of a clock that was ahead.
    pub files_set_aside: u64,
}

#[derive(Debug, Default)]
struct Counts {
    steps: AtomicU64,
    steps_consolidated: AtomicU64,
    blocks: AtomicU64,
    failures: AtomicU64,
    octets_cut: AtomicU64,
    steps_damaged: AtomicU64,
    files_set_aside: AtomicU64,
}

impl StatisticsWriter {
    /// Opens the store in a folder for writing, and makes it when there is none. Families that it does not have are added.
    pub fn open(dir: &Path, options: &StoreOptions, families: &[Family]) -> Result<Self, SeriesError> {
        let folder = Folder(dir.to_owned());
        let lock = folder.lock()?;
        let description = folder.describe(&options.resolutions, families)?;
        let families = Arc::new(description.families);
        let catalogue = CatalogueWriter::open(&folder)?;
        let counts = Arc::new(Counts::default());
        let resolutions = description.resolutions;
        let of = Resolved { resolution: resolutions[0], is_finest: true, families: &families };
        let steps = StepsWriter::open(&folder, of, options.latest_secs(), &counts)?;
        let last_secs = steps.last_secs();
        let shared = steps.shared();
        let background =
            Background::start(folder.clone(), options, Arc::clone(&families), Arc::clone(&counts), shared)?;
        Ok(Self { families, folder, resolutions, catalogue, steps, last_secs, background, counts, _lock: lock })
    }

    /// The families, in the order of their numbers.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The number of a family.
    pub fn family(&self, name: &str) -> Option<FamilyId> {
        self.families.iter().position(|family| family.name == name).map(|place| FamilyId(place as u16))
    }

    /// The number of a series; a new one when the key has none.
    pub fn series(&mut self, family: FamilyId, key: &str) -> SeriesId {
        self.catalogue.number(family, key)
    }

    /// The series so far.
    pub fn catalogue(&self) -> &Catalogue {
        self.catalogue.catalogue()
    }

    /// The last step that was written.
    pub fn last_secs(&self) -> Option<i64> {
        self.last_secs
    }

    /// Writes the step that a time is in. A step may be written in parts, whose counters are added up; an earlier step than
    /// the last one is refused. Rows must be sorted, see [`FamilyRows::sorted`](crate::FamilyRows::sorted).
    ///
    /// When this has returned, the step survives the end of this process. After an error nothing of it was written, and
    /// it may be tried again.
    pub fn write_step(&mut self, time_secs: i64, rows: StepRows) -> Result<(), SeriesError> {
        let time_secs = self.resolutions[0].step_of(time_secs);
        if let Some(last_secs) = self.last_secs.filter(|&last| time_secs < last) {
            return Err(SeriesError::StepInThePast { time_secs, last_secs });
        }
        self.background.check()?;
        self.catalogue.flush()?;
        self.steps.write(time_secs, 1, &rows.families)?;
        self.last_secs = Some(time_secs);
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        self.background.send(Message::Step { time_secs, rows })
    }

    /// Forgets series that are in no step any more, and returns how many. It reads which series every block has, so it is
    /// for now and then: keys that come and go would otherwise make the catalogue grow for ever.
    pub fn forget_unused(&mut self) -> Result<usize, SeriesError> {
        let mut used = vec![HashSet::new(); self.families.len()];
        for &resolution in &self.resolutions {
            for (block, kind) in self.folder.blocks(resolution)? {
                let Some(content) = Content::open(&self.folder, resolution, block, kind)? else { continue };
                for (family, used) in (0..).map(FamilyId).zip(&mut used) {
                    used.extend(content.ids(family)?);
                }
            }
        }
        let before = self.catalogue().len();
        self.catalogue.retain(|family, id| used[usize::from(family.0)].contains(&id.0))?;
        Ok(before - self.catalogue().len())
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &*self.counts;
        WriterCounts {
            steps: of(&counts.steps),
            steps_consolidated: of(&counts.steps_consolidated),
            blocks: of(&counts.blocks),
            failures: of(&counts.failures),
            octets_cut: of(&counts.octets_cut),
            steps_damaged: of(&counts.steps_damaged),
            files_set_aside: of(&counts.files_set_aside),
        }
    }

    /// Waits until everything is consolidated and on the disk, and ends the writer. The coarser steps that are not over
    /// are made when the store is opened again.
    pub fn close(mut self) -> Result<WriterCounts, SeriesError> {
        self.background.end()?;
        let _ = self.catalogue.sync();
        Ok(self.counts())
    }
}
