//! Everything that can fail.

use std::io;
use std::path::{Path, PathBuf};

use crate::Damage;

/// Why a store could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// The system refused something about a file or folder.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process writes to the store.
    #[error("another process writes to the store {}", .0.display())]
    Locked(PathBuf),
    /// The folder has no store.
    #[error("there is no store of statistics in {}", .0.display())]
    NoStore(PathBuf),
    /// A file is not what it should be.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Steps cannot be read because a file is damaged.
    #[error("{0}")]
    DamagedSteps(Damage),
    /// The keys of series are not known because the catalogue is damaged. Other series of the same steps are.
    #[error("the catalogue of keys is damaged: {series} series by {family}, the first at {first_secs} s, have no key")]
    LostKeys {
        /// The family.
        family: String,
        /// How many series.
        series: usize,
        /// When the first step begins that has one of them, in seconds since the epoch.
        first_secs: i64,
    },
    /// Keys that were asked for are not known in some steps, and the family has lost keys that are not known by name.
    #[error("the catalogue of keys is damaged: series by {family} have lost keys, and {keys} may be among them")]
    KeysMayBeLost {
        /// The family.
        family: String,
        /// The keys.
        keys: String,
    },
    /// The description of the store is not readable.
    #[error("cannot understand {}: {what}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A later version of weir wrote the store.
    #[error("{} has version {found}, and this program knows {known}", path.display())]
    Version {
        /// The description of the store.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that can be read.
        known: u32,
    },
    /// The store has a family of the same name with other metrics.
    #[error("the store has a family '{0}' with other metrics")]
    OtherMetrics(String),
    /// The store has other resolutions.
    #[error("the store has the steps {found}, not {wanted}")]
    OtherResolutions {
        /// The steps of the store.
        found: String,
        /// The steps asked for.
        wanted: String,
    },
    /// Resolutions that cannot be consolidated one from the other, or are kept too shortly.
    #[error("wrong resolutions: {0}")]
    Resolutions(String),
    /// A step that is not after the last one.
    #[error("the step at {time_secs} s is before the last one, at {last_secs} s")]
    StepInThePast {
        /// The step.
        time_secs: i64,
        /// The last step that was written.
        last_secs: i64,
    },
    /// A family, resolution or series that the store does not have.
    #[error("the store has no {kind} '{name}'")]
    Unknown {
        /// What kind of thing it is.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// More steps than are read at once.
    #[error("{steps} steps are too many to read at once, {max} are not: name a shorter time or longer steps")]
    TooManySteps {
        /// Steps of the time asked for.
        steps: usize,
        /// Most steps.
        max: usize,
    },
    /// Series could not be made rows.
    #[error("cannot make rows of series: {0}")]
    Rows(String),
    /// Too many steps wait to be consolidated, as on a full disk.
    #[error("too many steps wait to be consolidated")]
    Busy,
    /// The thread that consolidates has ended.
    #[error("consolidating has ended: {0}")]
    Consolidation(String),
}

impl SeriesError {
    /// Whether a file is damaged, so that trying again is of no use.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::DamagedSteps(_) | Self::LostKeys { .. } | Self::KeysMayBeLost { .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
            }
            _ => false,
        }
    }

    /// Whether it may pass: a full disk, or steps that wait to be consolidated.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Busy) && !self.is_damage()
    }

    /// Makes an error of what the system said about a file.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
