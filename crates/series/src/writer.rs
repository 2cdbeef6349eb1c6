//! Writes steps.

mod background;
mod lost_keys;
mod steps_writer;
mod stored_steps;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::background::{Background, Message, SharedFiles};
use self::steps_writer::{Resolved, StepsWriter, latest_believed};
use crate::catalogue::CatalogueWriter;
use crate::consolidation::Cut;
use crate::content::Content;
use crate::folder::{Folder, Lock};
use crate::resolution::Resolution;
use crate::{Catalogue, Coverage, Family, FamilyId, SeriesError, SeriesId, StepRows, StoreOptions};

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
    /// For each family what coarser steps keep of it.
    cuts: Vec<Option<Cut>>,
    steps: StepsWriter,
    last_secs: Option<i64>,
    background: Background,
    counts: Arc<Counts>,
    /// Held while the writer lives.
    _lock: Lock,
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
    /// Blocks removed before their time because the store was larger than it may be.
    pub blocks_dropped: u64,
    /// Attempts of the background thread that failed and are made again.
    pub failures: u64,
    /// Octets of unfinished writes that were cut off when the store was opened.
    pub octets_cut: u64,
    /// Steps left out because their checksums were wrong.
    pub steps_damaged: u64,
    /// Files that were damaged: set aside when they were the newest, else not read.
    pub files_damaged: u64,
    /// Files set aside because their steps were of a clock that was ahead.
    pub files_set_aside: u64,
    /// Places of the catalogue of keys where a bit was another one, and was corrected.
    pub keys_repaired: u64,
    /// Lines of the catalogue of keys that were damaged beyond repair.
    pub keys_lost: u64,
}

#[derive(Debug, Default)]
struct Counts {
    steps: AtomicU64,
    steps_consolidated: AtomicU64,
    blocks: AtomicU64,
    blocks_dropped: AtomicU64,
    failures: AtomicU64,
    octets_cut: AtomicU64,
    steps_damaged: AtomicU64,
    files_damaged: AtomicU64,
    files_set_aside: AtomicU64,
    keys_repaired: AtomicU64,
    keys_lost: AtomicU64,
}

impl StatisticsWriter {
    /// Opens the store in a folder for writing, and makes it when there is none. Families that it does not have are added.
    pub fn open(dir: &Path, options: &StoreOptions, families: &[Family]) -> Result<Self, SeriesError> {
        let folder = Folder(dir.to_owned());
        let lock = folder.lock()?;
        let mut description = folder.describe(&options.resolutions, families)?;
        let counted = families;
        let families = Arc::new(description.specs());
        let mut catalogue = CatalogueWriter::open(&folder)?;
        let counts = Arc::new(Counts::default());
        let resolutions = description.resolutions.clone();
        lost_keys::cut_off(&folder, &description, &catalogue, &counts)?;
        let of = Resolved { resolution: resolutions[0], is_finest: true, families: &families };
        let latest_secs = latest_believed(&folder, resolutions[0], options)?;
        let steps = StepsWriter::open(&folder, of, latest_secs, &counts)?;
        for (family, last) in steps.last_ids(&families)? {
            catalogue.reserve(family, last);
        }
        lost_keys::note(&folder, &mut description, &mut catalogue, steps.last_secs(), &counts)?;
        let cuts = cuts(options, &families, &mut catalogue);
        // keys before the steps that have them
        catalogue.flush()?;
        let last_secs = steps.last_secs();
        folder.count(&mut description, counted, last_secs)?;
        let shared = SharedFiles { catalogue: catalogue.shared(), finest: steps.shared() };
        let background = Background::start(
            folder.clone(),
            options,
            Arc::clone(&families),
            Arc::clone(&counts),
            shared,
            (latest_secs, &cuts),
        )?;
        Ok(Self { families, folder, resolutions, catalogue, cuts, steps, last_secs, background, counts, _lock: lock })
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
    /// When this has returned, the step survives the end of this process. After an error that
    /// [may pass](SeriesError::may_pass) nothing of it was written, and it may be tried again.
    pub fn write_step(&mut self, time_secs: i64, rows: StepRows) -> Result<(), SeriesError> {
        let time_secs = self.resolutions[0].step_of(time_secs);
        if let Some(last_secs) = self.last_secs.filter(|&last| time_secs < last) {
            return Err(SeriesError::StepInThePast { time_secs, last_secs });
        }
        self.background.wait_for_room()?;
        self.catalogue.flush()?;
        self.steps.write(time_secs, 1, &rows.families)?;
        self.last_secs = Some(time_secs);
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        self.background.send(Message::Step { time_secs, rows })
    }

    /// Forgets series that are in no step any more, and returns how many. It reads which series every block has, so it is
    /// for now and then: keys that come and go would otherwise make the catalogue grow for ever. While a file is damaged, it is
    /// not known which series are in it: none is forgotten, and that is an error.
    pub fn forget_unused(&mut self) -> Result<usize, SeriesError> {
        let mut used = self.used()?;
        for (used, cut) in used.iter_mut().zip(&self.cuts) {
            used.extend(cut.map(|cut| cut.other));
        }
        let before = self.catalogue().len();
        self.catalogue.retain(|family, id| used[usize::from(family.0)].contains(&id.0))?;
        Ok(before - self.catalogue().len())
    }

    /// For each family the series that are in any step.
    fn used(&self) -> Result<Vec<HashSet<u32>>, SeriesError> {
        let mut used = vec![HashSet::new(); self.families.len()];
        for &resolution in &self.resolutions {
            for (block, kind) in self.folder.blocks(resolution)? {
                let Some(content) = Content::open(&self.folder, resolution, block, kind)? else { continue };
                for (family, used) in (0..).map(FamilyId).zip(&mut used) {
                    used.extend(content.ids(family)?);
                }
            }
        }
        Ok(used)
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &*self.counts;
        WriterCounts {
            steps: of(&counts.steps),
            steps_consolidated: of(&counts.steps_consolidated),
            blocks: of(&counts.blocks),
            blocks_dropped: of(&counts.blocks_dropped),
            failures: of(&counts.failures),
            octets_cut: of(&counts.octets_cut),
            steps_damaged: of(&counts.steps_damaged),
            files_damaged: of(&counts.files_damaged),
            files_set_aside: of(&counts.files_set_aside),
            keys_repaired: of(&counts.keys_repaired),
            keys_lost: of(&counts.keys_lost),
        }
    }

    /// Waits until everything is consolidated and on the disk, and ends the writer. The coarser steps that are not over
    /// are made when the store is opened again.
    pub fn close(mut self) -> Result<WriterCounts, SeriesError> {
        self.background.end()?;
        Ok(self.counts())
    }
}

/// What coarser steps keep of each family.
fn cuts(options: &StoreOptions, families: &[Family], catalogue: &mut CatalogueWriter) -> Vec<Option<Cut>> {
    let mut cut = |(id, family): (FamilyId, &Family)| {
        let largest = options.largest.as_ref().filter(|_| family.coverage == Coverage::Largest)?;
        let metric = family.metric(&largest.metric)?;
        let other = catalogue.number(id, &largest.other).0;
        Some(Cut { keys_max: largest.keys_max.max(1), metric, other })
    };
    (0..).map(FamilyId).zip(families).map(&mut cut).collect()
}
