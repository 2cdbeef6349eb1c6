//! An archive that is opened once and of which many snapshots are taken.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::caches::Caches;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::tail::TailFrames;
use crate::tails::{TailOpener, counting_tails};
use crate::{ArchiveError, Snapshot};

/// Attempts to take a snapshot of an archive whose writer seals tails faster than that.
const ATTEMPTS_MAX: u32 = 1000;

/// How much an [`ArchiveHandle`] may keep in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleOptions {
    /// Octets of indexes of segments and of frames of tails that are kept for later questions. Default: 128 MiB.
    pub cache_octets_max: u64,
}

impl Default for HandleOptions {
    fn default() -> Self {
        Self { cache_octets_max: 128 << 20 }
    }
}

/// An archive of which many snapshots are taken. Clones are handles of the same archive.
///
/// A snapshot of it reads what was committed since the last one, and the frames that were appended; indexes of segments
/// and frames of tails stay in memory as far as [`HandleOptions`] allow. Files of segments are opened when they are read
/// and closed after that; tails stay open, but for very many of them.
#[derive(Debug, Clone)]
pub struct ArchiveHandle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    caches: Arc<Caches>,
    last: Mutex<Option<LastSnapshot>>,
}

/// The manifest and the tails of the last snapshot.
#[derive(Debug)]
struct LastSnapshot {
    manifest: Manifest,
    tails: BTreeMap<TailNumber, TailFrames>,
}

impl ArchiveHandle {
    /// A handle of the archive in `dir`.
    pub fn open(dir: &Path, options: &HandleOptions) -> Result<Self, ArchiveError> {
        let layout = Layout::new(dir);
        layout.check()?;
        let caches = Arc::new(Caches::new(options.cache_octets_max));
        Ok(Self { inner: Arc::new(Inner { layout, caches, last: Mutex::new(None) }) })
    }

    /// Takes a snapshot: everything that was appended so far. See [`Snapshot`].
    pub fn snapshot(&self) -> Result<Snapshot, ArchiveError> {
        let Inner { layout, caches, last } = &*self.inner;
        if !Manifest::is_expected(layout)? {
            return Snapshot::open(layout.root());
        }
        // after a panic of another thread the manifest is read again below
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ATTEMPTS_MAX {
            let lease = Lease::take(layout)?;
            // an error leaves `None`, so that the next call reads everything
            let mut now = match last.take() {
                Some(mut last) => {
                    last.manifest.refresh()?;
                    last
                }
                None => LastSnapshot { manifest: Manifest::load(layout)?, tails: BTreeMap::new() },
            };
            let epoch = now.manifest.state().local().epoch();
            let is_whole = now.find_tails(layout)?;
            if now.manifest.refresh()? {
                if now.manifest.state().local().epoch() != epoch {
                    now.tails.clear();
                    caches.clear_frames();
                }
                *last = Some(now);
                continue;
            }
            is_whole?;
            let (state, mut tails) = (Arc::clone(now.manifest.state()), std::mem::take(&mut now.tails));
            let snapshot = Snapshot::of_tails(state, tails.values_mut(), lease, Some(caches))?;
            *last = Some(LastSnapshot { tails, ..now });
            return Ok(snapshot);
        }
        Err(ArchiveError::Unsettled { path: layout.root().to_owned(), attempts: ATTEMPTS_MAX })
    }

    /// The folder of the archive.
    pub fn dir(&self) -> &Path {
        self.inner.layout.root()
    }

    /// Octets that are kept for later questions.
    pub fn cache_octets(&self) -> u64 {
        self.inner.caches.octets()
    }
}

impl LastSnapshot {
    /// Finds the tails that count. The inner error may be because one was sealed meanwhile.
    fn find_tails(&mut self, layout: &Layout) -> Result<Result<(), ArchiveError>, ArchiveError> {
        let state = Arc::clone(self.manifest.state());
        let numbers = match counting_tails(layout, &state)? {
            Ok(numbers) => numbers,
            Err(missing) => return Ok(Err(missing)),
        };
        self.tails.retain(|number, _| numbers.binary_search(number).is_ok());
        let (opener, last) = (TailOpener::new(), numbers.last().copied());
        for number in numbers {
            if self.tails.contains_key(&number) {
                continue;
            }
            match opener.open(layout, number, self.tails.len(), Some(number) == last)? {
                Some(tail) => self.tails.insert(number, tail),
                None => return Ok(Err(ArchiveError::MissingTail { path: layout.tail(number) })),
            };
        }
        Ok(Ok(()))
    }
}
