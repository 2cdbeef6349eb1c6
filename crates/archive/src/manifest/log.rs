//! The manifest on the disk: one file an edit, and a checkpoint.
//!
//! ```text
//! manifest/checkpoint                 the state after some commit
//! manifest/0000000000000412.edit      each commit after it, and some before
//! manifest/new-58d3c1a07e2b4f96       a file being written
//! manifest/reserve                    space for commits on a full disk
//! ```
//!
//! A commit is a file with the next number, which is given its name only when it is whole and durable, and only when
//! no other process has used the number: then the edit is made again on top of what the other one did.
//!
//! The checkpoint is replaced whenever some edits have come, and edits long before it are removed. Who reads opens the
//! checkpoint, then one number after another until there is none; when the checkpoint has moved on meanwhile, it
//! starts over.
//!
//! So a number that was used is free again some time later, and a process may be stopped for that long before it takes the one
//! that was the next. That no file has the number proves nothing then: the checkpoint must be before it, and must not move
//! until it is taken. That is what the lock in `commit_lock` is for. It is held for two calls of the system and never while
//! anything is written or synced, and readers do without it. For the same reason a checkpoint never replaces a later one.

use std::collections::hash_map::RandomState;
use std::fs::{self, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::codec::{self, BadFile, HEADER_OCTETS};
use super::commit_lock::CommitLock;
use super::edit::Edit;
use super::rebuild::{Care, rebuild};
use super::state::ArchiveState;
use crate::layout::Layout;
use crate::segment::Segment;
use crate::{Action, ArchiveError, disk, folder, readers};

/// A checkpoint is written with each commit whose number is a multiple of this, or with the next one that can.
const CHECKPOINT_EDITS: u64 = 32;
/// So many edits before a checkpoint stay, for those who follow the log.
const EDITS_KEPT: u64 = 32;
/// Attempts to read a checkpoint and the edits after it, while others commit.
const ATTEMPTS_MAX: u32 = 1000;

/// No commit takes so long.
const COMMIT_TIME_MAX: Duration = Duration::from_hours(1);

const CHECKPOINT: &str = "checkpoint";
const SUFFIX: &str = ".edit";
/// A file that is removed when the disk is full, so that a commit can say what goes.
const RESERVE: &str = "reserve";

/// The manifest as one reader or writer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    folder: PathBuf,
    root: Arc<Path>,
    state: Arc<ArchiveState>,
}

impl Manifest {
    /// Whether an archive has a manifest: those of format 1 have none.
    pub(crate) fn exists(layout: &Layout) -> bool {
        layout.manifest().join(CHECKPOINT).exists()
    }

    /// Whether an archive has a manifest, or should have one.
    pub(crate) fn is_expected(layout: &Layout) -> Result<bool, ArchiveError> {
        Ok(Self::exists(layout) || layout.version()? > 1)
    }

    /// Starts the manifest of an archive that has none, or replaces one, with this state.
    pub(crate) fn create(layout: &Layout, mut state: ArchiveState) -> Result<Self, ArchiveError> {
        folder::create(&layout.manifest())?;
        // Numbers are not used again: a follower of the old log must not take an edit for the one it waits for.
        // The same goes for the numbers of leases, which readers may hold that know nothing of this state.
        let last = last_number(&layout.manifest())?.max(readers::newest(layout)?);
        state.sequence = state.sequence.max(last) + 1;
        for pending in &mut state.pending {
            pending.since = state.sequence;
        }
        let manifest = Self { folder: layout.manifest(), root: layout.shared_root(), state: Arc::new(state) };
        let new = manifest.new_checkpoint()?;
        // whatever is there, it does not count
        manifest.name_checkpoint(&new).inspect_err(|_| drop(disk::remove(&new)))?;
        folder::sync(&manifest.folder)?;
        for number in numbers(&manifest.folder)? {
            let path = manifest.edit_path(number);
            disk::remove(&path).map_err(Action::UpdateManifest.failed(&path))?;
        }
        folder::sync(&manifest.folder)?;
        Ok(manifest)
    }

    /// Reads the manifest of an archive.
    pub(crate) fn load(layout: &Layout) -> Result<Self, ArchiveError> {
        let (folder, root) = (layout.manifest(), layout.shared_root());
        let mut manifest = Self { folder, root, state: Arc::default() };
        manifest.reload()?;
        Ok(manifest)
    }

    /// What counts in an archive, also when it has no manifest yet: then nothing is written, and its folders are listed.
    pub(crate) fn load_or_rebuild(layout: &Layout) -> Result<Arc<ArchiveState>, ArchiveError> {
        if Self::is_expected(layout)? {
            return Self::load(layout).map(|manifest| manifest.state);
        }
        rebuild(layout, Care::Names).map(|rebuilt| Arc::new(rebuilt.state))
    }

    /// Commits after the checkpoint, of which there are seldom more than 32; 0 when the archive has no manifest.
    pub(crate) fn commits_since_checkpoint(layout: &Layout) -> Result<u64, ArchiveError> {
        if !Self::exists(layout) {
            return Ok(0);
        }
        let folder = layout.manifest();
        // The checkpoint is read last: it may be replaced meanwhile, and old commits removed.
        let last = numbers(&folder)?.into_iter().max().unwrap_or(0);
        Ok(last.saturating_sub(checkpoint_sequence(&folder)?))
    }

    /// What counts, as of the last commit that was read.
    pub(crate) fn state(&self) -> &Arc<ArchiveState> {
        &self.state
    }

    /// Reads what was committed since. Returns whether there was anything.
    pub(crate) fn refresh(&mut self) -> Result<bool, ArchiveError> {
        let before = self.state.sequence;
        self.read_edits()?;
        if self.checkpoint_sequence()? > self.state.sequence {
            // More was committed than the log keeps, or removed while it was read.
            self.reload()?;
        }
        Ok(self.state.sequence != before)
    }

    /// Fails when a commit is gone and later ones are there: what counts is not known then.
    fn check_gap(&self) -> Result<(), ArchiveError> {
        let next = self.state.sequence + 1;
        if numbers(&self.folder)?.into_iter().all(|number| number < next) {
            return Ok(());
        }
        // it may have been committed meanwhile
        let path = self.edit_path(next);
        if path.exists() || self.checkpoint_sequence()? >= next {
            return Ok(());
        }
        Err(ArchiveError::DamagedManifest { path, what: "it is gone, and later commits are there".to_owned() })
    }

    /// Commits what `edit` makes of the newest state: `None` when there is nothing to do. Returns whether there was.
    /// It is called again when another process commits first.
    pub(crate) fn commit(
        &mut self,
        mut edit: impl FnMut(&ArchiveState) -> Result<Option<Edit>, ArchiveError>,
    ) -> Result<bool, ArchiveError> {
        self.refresh()?;
        loop {
            let Some(edit) = edit(&self.state)? else { return Ok(false) };
            let mut next = ArchiveState::clone(&self.state);
            next.apply(&edit).map_err(|source| ArchiveError::RefusedEdit { root: self.root.to_path_buf(), source })?;
            if self.put(next.sequence, &codec::encode_edit(&edit))? {
                self.state = Arc::new(next);
                break;
            }
            if !self.refresh()? {
                let path = self.edit_path(self.state.sequence + 1);
                return Err(ArchiveError::DamagedManifest { path, what: "it cannot be read back".to_owned() });
            }
        }
        if self.is_checkpoint_due() {
            // The commit is durable, whatever becomes of this. The next one tries it again, and `commits_since_checkpoint` grows.
            let _ = self.move_checkpoint();
        }
        Ok(true)
    }

    /// Commits what `edit` makes of the newest state and of these segments, which stand in their places. Files of
    /// segments that did not come to count are removed, as far as that is known: a commit that failed late may count.
    pub(crate) fn commit_segments(
        &mut self,
        segments: &[Segment],
        edit: impl FnMut(&ArchiveState) -> Result<Option<Edit>, ArchiveError>,
    ) -> Result<bool, ArchiveError> {
        let committed = self.commit(edit);
        if !matches!(committed, Ok(true)) && self.refresh().is_ok() {
            let counts =
                |segment: &Segment| self.state.segments.get(&segment.key()).is_some_and(|known| known == segment);
            for segment in segments.iter().filter(|segment| !counts(segment)) {
                // otherwise the next process that opens the archive removes it
                let _ = disk::remove(&segment.path());
            }
        }
        committed
    }

    fn edit_path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016}{SUFFIX}"))
    }

    /// Writes a file of these octets under a unique name, and syncs it. The number of the process is not unique: in two
    /// containers both may be 1.
    fn write_new(&self, octets: &[u8]) -> io::Result<PathBuf> {
        // The keys of this hash are random numbers of the system.
        let random = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
        let new = self.folder.join(format!("new-{random:016x}"));
        disk::write_new_synced(&new, octets).map(|()| new)
    }

    /// Puts the edit of this number, if that is the one after the newest. Durable when this returns true; when it returns false,
    /// others have committed and the edit does not count.
    ///
    /// The one before it may be there and not durable yet: another thread has linked it, and is about to sync the folder. So the
    /// folder is synced first; a loss of power could otherwise keep the second entry and take the first.
    fn put(&self, number: u64, payload: &[u8]) -> Result<bool, ArchiveError> {
        let octets = codec::file(number, payload);
        if !self.with_kept_room(|| self.write_and_link(number, &octets))? {
            return Ok(false);
        }
        folder::sync(&self.folder)?;
        Ok(true)
    }

    /// Does what `write` does. On a full disk, or where a quota is used up, the room that is kept is given up for it, one part
    /// after another: removing something from such a disk is a commit too.
    pub(super) fn with_kept_room<T>(
        &self,
        mut write: impl FnMut() -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let parts: [fn(&Self); 3] = [Self::release_reserve, Self::remove_edits_left, Self::release_books_reserve];
        let mut written = write();
        for give_up in parts {
            if !written.as_ref().is_err_and(ArchiveError::is_full_disk) {
                break;
            }
            give_up(self);
            written = write();
        }
        written
    }

    fn release_reserve(&self) {
        let _ = fs::remove_file(self.folder.join(RESERVE));
    }

    /// Removes edits that nobody follows any more, and which are still there.
    fn remove_edits_left(&self) {
        let _ = self.checkpoint_sequence().and_then(|checkpoint| self.remove_old_edits(checkpoint));
    }

    /// Gives up the room of the books, which is worth nothing on a disk from which nothing can be removed.
    fn release_books_reserve(&self) {
        let _ = disk::remove(&Layout::new(&self.root).reserve());
    }

    /// Writes an edit to a new file, and gives it its name if that is the one after the newest.
    fn write_and_link(&self, number: u64, octets: &[u8]) -> Result<bool, ArchiveError> {
        let path = self.edit_path(number);
        let failed = Action::UpdateManifest.failed(&path);
        let new = self.write_new(octets).map_err(failed)?;
        let synced = disk::sync_folder(&self.folder).map_err(failed);
        let linked = synced.and_then(|()| self.link_next(&new, number));
        // Whether the commit counts does not depend on it; one that stays is removed by a later writer.
        let _ = disk::remove(&new);
        linked
    }

    /// Gives a commit its name, unless others have committed since: false then.
    fn link_next(&self, new: &Path, number: u64) -> Result<bool, ArchiveError> {
        let _shared = CommitLock::share(&self.folder)?;
        // Until the lock is given back the checkpoint stays where it is, and edits of this number on stay with it: the number is
        // free only if it was never used.
        if self.checkpoint_sequence()? >= number {
            return Ok(false);
        }
        self.link(new, number)
    }

    /// Gives a commit its name, unless there is one of this number, or there was: false then.
    ///
    /// Programs that know nothing of the lock may have moved the checkpoint meanwhile. When it is so far that edits of this
    /// number are removed, this one may have come after that. What it was to do is looked at again on top of the newest state then;
    /// whether that has it already or not, the file is no longer needed.
    pub(super) fn link(&self, new: &Path, number: u64) -> Result<bool, ArchiveError> {
        let path = self.edit_path(number);
        let failed = Action::UpdateManifest.failed(&path);
        match disk::link(new, &path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            other => other.map_err(failed)?,
        }
        if number >= oldest_kept(self.checkpoint_sequence()?) {
            return Ok(true);
        }
        remove_edit(&path)?;
        Ok(false)
    }

    /// Octets that are reserved for commits on a full disk.
    pub(crate) fn reserve_octets(&self) -> u64 {
        fs::metadata(self.folder.join(RESERVE)).map_or(0, |metadata| metadata.len())
    }

    /// Reserves so many octets for commits on a full disk, if there is space for all of them now. Otherwise what was reserved
    /// before stays.
    pub(crate) fn keep_reserve(&self, octets: u64) {
        let (path, before) = (self.folder.join(RESERVE), self.reserve_octets());
        // Nothing depends on it, so a failure is no error.
        if self.extend_reserve(octets).is_err() {
            let _ = match before {
                0 => fs::remove_file(&path),
                before => OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(before)),
            };
        }
    }

    /// Reserves up to so many octets again, as many as there is space for: a commit needs few of them.
    pub(crate) fn restore_reserve(&self, octets: u64) {
        let _ = self.extend_reserve(octets);
    }

    /// Extends the reserve to so many octets; where that fails, it may have some more than before.
    fn extend_reserve(&self, octets: u64) -> io::Result<()> {
        let missing = vec![0u8; octets.saturating_sub(self.reserve_octets()) as usize];
        if missing.is_empty() {
            return Ok(());
        }
        let mut file = OpenOptions::new().append(true).create(true).open(self.folder.join(RESERVE))?;
        file.write_all(&missing)
    }

    /// Whether there should be a later checkpoint than the one that is there.
    fn is_checkpoint_due(&self) -> bool {
        let is_older = |checkpoint: u64| checkpoint / CHECKPOINT_EDITS < self.state.sequence / CHECKPOINT_EDITS;
        self.checkpoint_sequence().is_ok_and(is_older)
    }

    /// Replaces the checkpoint by this state, and removes the edits long before it. While somebody commits, both wait for a
    /// later commit: one that was stopped in the middle must find that its number is taken.
    pub(super) fn move_checkpoint(&self) -> Result<(), ArchiveError> {
        if CommitLock::try_alone(&self.folder)?.is_none() {
            // what is written now would be for nothing, and may be much
            return Ok(());
        }
        let new = self.new_checkpoint()?;
        let replaced = self.replace_checkpoint(&new);
        if !matches!(replaced, Ok(true)) {
            let _ = disk::remove(&new);
            return replaced.map(drop);
        }
        // Only then: a loss of power could otherwise keep the old checkpoint, and take the edits behind it.
        folder::sync(&self.folder)?;
        self.remove_old_edits(self.state.sequence)
    }

    /// Gives a checkpoint its name, unless there is a later one or another process commits: false then. The edits between this one
    /// and a later one may be gone, so that readers could not read on.
    fn replace_checkpoint(&self, new: &Path) -> Result<bool, ArchiveError> {
        let Some(_alone) = CommitLock::try_alone(&self.folder)? else { return Ok(false) };
        if self.checkpoint_sequence()? >= self.state.sequence {
            return Ok(false);
        }
        self.name_checkpoint(new).map(|()| true)
    }

    /// Writes the checkpoint of this state to a new file.
    fn new_checkpoint(&self) -> Result<PathBuf, ArchiveError> {
        let octets = codec::file(self.state.sequence, &codec::encode_state(&self.state));
        self.write_new(&octets).map_err(Action::UpdateManifest.failed(&self.folder.join(CHECKPOINT)))
    }

    fn name_checkpoint(&self, new: &Path) -> Result<(), ArchiveError> {
        let path = self.folder.join(CHECKPOINT);
        disk::rename(new, &path).map_err(Action::UpdateManifest.failed(&path))
    }

    /// Removes the edits long before this checkpoint, which is there, or a later one: a process that is about to commit one of these
    /// numbers sees that. Edits that were left before, by a crash or during a commit of another process, are included.
    fn remove_old_edits(&self, checkpoint: u64) -> Result<(), ArchiveError> {
        let kept = oldest_kept(checkpoint);
        let old = numbers(&self.folder)?.into_iter().filter(|number| *number < kept);
        old.map(|number| self.edit_path(number)).try_for_each(|path| remove_edit(&path))
    }

    fn reload(&mut self) -> Result<(), ArchiveError> {
        for _ in 0..ATTEMPTS_MAX {
            let path = self.folder.join(CHECKPOINT);
            let octets = fs::read(&path).map_err(Action::ReadManifest.failed(&path))?;
            let state = codec::payload_of(&octets)
                .and_then(|(sequence, payload)| codec::decode_state(payload, sequence, &self.root));
            self.state = Arc::new(state.map_err(|bad| bad_file(&path, bad))?);
            self.read_edits()?;
            if self.checkpoint_sequence()? <= self.state.sequence {
                return self.check_gap();
            }
        }
        Err(ArchiveError::Unsettled { path: self.folder.clone(), attempts: ATTEMPTS_MAX })
    }

    /// Applies every edit that follows.
    fn read_edits(&mut self) -> Result<(), ArchiveError> {
        loop {
            let number = self.state.sequence + 1;
            let path = self.edit_path(number);
            let octets = match fs::read(&path) {
                Ok(octets) => octets,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(source) => return Err(Action::ReadManifest.failed(&path)(source)),
            };
            let (sequence, payload) = codec::payload_of(&octets).map_err(|bad| bad_file(&path, bad))?;
            if sequence != number {
                let what = format!("it is commit {sequence}");
                return Err(ArchiveError::DamagedManifest { path, what });
            }
            let edit = codec::decode_edit(payload, &self.root).map_err(|bad| bad_file(&path, bad))?;
            let state = Arc::make_mut(&mut self.state);
            state.apply(&edit).map_err(|refused| ArchiveError::DamagedManifest { path, what: refused.to_string() })?;
        }
    }

    /// The number of the checkpoint that is there now.
    fn checkpoint_sequence(&self) -> Result<u64, ArchiveError> {
        checkpoint_sequence(&self.folder)
    }
}

fn checkpoint_sequence(folder: &Path) -> Result<u64, ArchiveError> {
    let path = folder.join(CHECKPOINT);
    let mut octets = [0; HEADER_OCTETS];
    let read = fs::File::open(&path).and_then(|mut file| file.read_exact(&mut octets));
    read.map_err(Action::ReadManifest.failed(&path))?;
    codec::sequence_of(&octets).map_err(|bad| bad_file(&path, bad))
}

/// The number of the oldest edit that stays with a checkpoint of this number.
fn oldest_kept(checkpoint: u64) -> u64 {
    checkpoint.saturating_sub(EDITS_KEPT)
}

/// Removes an edit, unless another process has removed it.
fn remove_edit(path: &Path) -> Result<(), ArchiveError> {
    match disk::remove(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(Action::UpdateManifest.failed(path)),
    }
}

fn bad_file(path: &Path, bad: BadFile) -> ArchiveError {
    let what = match bad {
        BadFile::Corrupt => "it is not what was written".to_owned(),
        BadFile::Version(version) => format!("version {version} is of a later program"),
    };
    ArchiveError::DamagedManifest { path: path.to_owned(), what }
}

/// Numbers of the edits in a folder, in no order.
fn numbers(folder: &Path) -> Result<Vec<u64>, ArchiveError> {
    let names = folder::names(folder)?;
    Ok(names.iter().filter_map(|name| name.to_str()?.strip_suffix(SUFFIX)?.parse().ok()).collect())
}

/// The largest number that any file of a manifest has, readable or not.
fn last_number(folder: &Path) -> Result<u64, ArchiveError> {
    let edits = numbers(folder)?.into_iter().max().unwrap_or(0);
    let octets = fs::read(folder.join(CHECKPOINT)).unwrap_or_default();
    Ok(edits.max(codec::sequence_of(&octets).unwrap_or(0)))
}

/// Removes files of commits that a crash has interrupted: those that are older than any commit takes.
pub(crate) fn clear_new(layout: &Layout) -> Result<u64, ArchiveError> {
    let mut cleared = 0;
    for name in folder::names(&layout.manifest())? {
        let path = layout.manifest().join(&name);
        let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
        let is_old = changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > COMMIT_TIME_MAX);
        if is_old && name.to_str().is_some_and(|name| name.starts_with("new-")) {
            folder::remove_leftover(&path)?;
            cleared += 1;
        }
    }
    Ok(cleared)
}
