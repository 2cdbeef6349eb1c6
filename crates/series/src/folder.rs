//! The files of a store: names, the lock, the description.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::resolution::{self, Resolution, steps_text};
use crate::{Family, SeriesError};

/// Version of the layout that this program writes, and the newest that it reads.
const VERSION: u32 = 3;
/// The description of a store.
const DESCRIPTION: &str = "store.toml";

/// What a store has: its resolutions and families, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    version: u32,
    pub(crate) resolutions: Vec<Resolution>,
    #[serde(default)]
    pub(crate) families: Vec<DescribedFamily>,
}

/// A family, and in which times it was counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DescribedFamily {
    #[serde(flatten)]
    pub(crate) family: Family,
    /// From which second until which other one, the last one without an end. Outside of them nothing is known of it.
    #[serde(default)]
    pub(crate) counted: Vec<Counted>,
    /// What is known of keys whose lines of the catalogue were damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<LostKeys>,
}

/// That keys are lost. Which ones is not known, so a key that comes again has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LostKeys {
    /// The last finest step that was written before, in seconds since the epoch. In it and before it a key that is absent may have
    /// had another number.
    pub(crate) last_secs: i64,
    /// The largest number that a series had.
    pub(crate) last_number: u32,
}

/// A time in which a family was counted, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    from_secs: Option<i64>,
    until_secs: Option<i64>,
}

impl DescribedFamily {
    /// Whether the family was counted in any part of a step.
    pub(crate) fn is_counted(&self, begin_secs: i64, step_secs: u32) -> bool {
        let end_secs = begin_secs.saturating_add(i64::from(step_secs));
        self.counted.iter().any(|counted| {
            counted.from_secs.is_none_or(|from| from < end_secs)
                && counted.until_secs.is_none_or(|until| begin_secs < until)
        })
    }
}

impl Description {
    /// The families alone.
    pub(crate) fn specs(&self) -> Vec<Family> {
        self.families.iter().map(|described| described.family.clone()).collect()
    }
}

/// Whether the steps of a block have been turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Steps,
    Block,
}

/// The lock of a store, held while this lives.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that this one is just starting holds a copy of it for a moment.
        let _ = self.0.unlock();
    }
}

/// The folder of a store.
#[derive(Debug, Clone)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Takes the lock of the writer.
    pub(crate) fn lock(&self) -> Result<Lock, SeriesError> {
        create_folder(&self.0)?;
        let path = self.0.join("lock");
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = open.map_err(SeriesError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(SeriesError::Locked(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(SeriesError::io("lock", &path)(source)),
        }
    }

    /// Reads the description; `None` when the folder has none.
    pub(crate) fn description(&self) -> Result<Option<Description>, SeriesError> {
        let path = self.0.join(DESCRIPTION);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SeriesError::io("read", &path)(error)),
        };
        let wrong = |what: String| SeriesError::Description { path: path.clone(), what };
        let found: Description = toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
        if found.version > VERSION {
            return Err(SeriesError::Version { path, found: found.version, known: VERSION });
        }
        resolution::check(&found.resolutions)?;
        Ok(Some(found))
    }

    /// The description with these families in it, written anew when something is added.
    pub(crate) fn describe(&self, resolutions: &[Resolution], families: &[Family]) -> Result<Description, SeriesError> {
        resolution::check(resolutions)?;
        let found = self.description()?;
        let fresh = || Description { version: VERSION, resolutions: resolutions.to_vec(), families: Vec::new() };
        let mut wanted = found.clone().unwrap_or_else(fresh);
        let steps = |resolutions: &[Resolution]| resolutions.iter().map(|one| one.step_secs).collect::<Vec<_>>();
        if steps(&wanted.resolutions) != steps(resolutions) {
            let (found, wanted) = (steps_text(&wanted.resolutions), steps_text(resolutions));
            return Err(SeriesError::OtherResolutions { found, wanted });
        }
        wanted.resolutions = resolutions.to_vec();
        wanted.version = VERSION;
        for family in families {
            match wanted.families.iter_mut().find(|known| known.family.name == family.name) {
                Some(known) => {
                    let joined = known.family.with_sketches_of(family);
                    known.family = joined.ok_or_else(|| SeriesError::OtherMetrics(family.name.clone()))?;
                }
                None => {
                    wanted.families.push(DescribedFamily { family: family.clone(), counted: Vec::new(), lost: None });
                }
            }
        }
        if found.as_ref() != Some(&wanted) {
            let text = toml::to_string(&wanted).unwrap_or_default();
            replace(&self.0.join(DESCRIPTION), text.as_bytes())?;
        }
        Ok(wanted)
    }

    /// Notes that these families are counted after the last step, and the others no more.
    pub(crate) fn count(
        &self,
        description: &mut Description,
        families: &[Family],
        last_secs: Option<i64>,
    ) -> Result<(), SeriesError> {
        let before = description.clone();
        let next_secs = last_secs.map(|last| last + 1);
        for described in &mut description.families {
            let is_open = described.counted.last().is_some_and(|counted| counted.until_secs.is_none());
            let is_counted = families.iter().any(|family| family.name == described.family.name);
            match (is_counted, is_open) {
                (true, false) => described.counted.push(Counted { from_secs: next_secs, until_secs: None }),
                (false, true) => described.counted.iter_mut().for_each(|counted| {
                    counted.until_secs = counted.until_secs.or(next_secs);
                }),
                _ => {}
            }
        }
        if before != *description {
            let text = toml::to_string(description).unwrap_or_default();
            replace(&self.0.join(DESCRIPTION), text.as_bytes())?;
        }
        Ok(())
    }

    /// Notes that keys are lost: for each family that may have lost some, the largest number of its series.
    pub(crate) fn note_lost_keys(
        &self,
        description: &mut Description,
        last_secs: i64,
        last_numbers: &[Option<u32>],
    ) -> Result<(), SeriesError> {
        for (described, last_number) in description.families.iter_mut().zip(last_numbers) {
            if let Some(last_number) = *last_number {
                described.lost = Some(LostKeys { last_secs, last_number });
            }
        }
        let text = toml::to_string(description).unwrap_or_default();
        replace(&self.0.join(DESCRIPTION), text.as_bytes())
    }

    /// The folder of a resolution.
    pub(crate) fn of(&self, resolution: Resolution) -> PathBuf {
        self.0.join(resolution.folder_name())
    }

    /// The file of a block.
    pub(crate) fn file(&self, resolution: Resolution, block: i64, kind: FileKind) -> PathBuf {
        let ending = match kind {
            FileKind::Steps => "steps",
            FileKind::Block => "block",
        };
        self.of(resolution).join(format!("{block}.{ending}"))
    }

    /// The blocks of a resolution in the order of time. A block that is turned around replaces its steps.
    pub(crate) fn blocks(&self, resolution: Resolution) -> Result<BTreeMap<i64, FileKind>, SeriesError> {
        let mut blocks = BTreeMap::new();
        let path = self.of(resolution);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(blocks),
            Err(error) => return Err(SeriesError::io("list", &path)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(SeriesError::io("list", &path))?;
            let name = entry.file_name();
            let Some((number, ending)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
            let kind = match ending {
                "steps" => FileKind::Steps,
                "block" => FileKind::Block,
                _ => continue,
            };
            let Ok(number) = number.parse() else { continue };
            let known = blocks.entry(number).or_insert(kind);
            *known = (*known).max(kind);
        }
        Ok(blocks)
    }
}

/// The name of a file that is not read any more.
pub(crate) fn aside(path: &Path, why: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(why);
    name.into()
}

/// Gives a file a name under which it is not read.
pub(crate) fn set_aside(path: &Path, why: &str) -> Result<(), SeriesError> {
    weir_disk::rename(path, &aside(path, why)).map_err(SeriesError::io("rename", path))
}

/// Gives a file other contents, all at once. When that fails, nothing is left of them.
pub(crate) fn replace(path: &Path, octets: &[u8]) -> Result<(), SeriesError> {
    let part = path.with_extension("part");
    let write = || {
        weir_disk::write_synced(&part, octets)?;
        weir_disk::rename(&part, path)
    };
    let written = write().inspect_err(|_| {
        // what is there in part takes what a full disk lacks
        let _ = weir_disk::remove(&part);
    });
    written.map_err(SeriesError::io("write", path))?;
    sync_parent(path)
}

/// Makes the name of a file durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), SeriesError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    weir_disk::sync_folder(parent).map_err(SeriesError::io("sync", parent))
}

/// Makes a folder with a durable name, when there is none.
pub(crate) fn create_folder(path: &Path) -> Result<(), SeriesError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(SeriesError::io("make the folder", parent))?;
    }
    match weir_disk::create_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(SeriesError::io("make the folder", path))?,
    }
    sync_parent(path)
}
