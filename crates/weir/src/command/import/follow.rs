//! `weir import --follow`: the files of a directory, as a running nfcapd completes them.
//!
//! nfcapd writes to `nfcapd.current.PID` and renames the file when it is complete. So a file is read when it has another
//! name, says how many flows it has, and is the same in two looks. The directory is looked at every second: that finds
//! files on any file system and after any downtime. What speaks against it is the second, and the cost of a listing.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use tracing::{info, warn};
use weir_chain::FileEnd;
use weir_filter::Predicate;
use weir_formats::{Format, nfcapd};
use weir_query::{Archive, QueryOptions, TimeWindow};

use super::file_list::add_files;
use super::imported_files::ImportedFiles;
use crate::command::read_before::ReadBefore;
use crate::command::report::{counted, noun_of};
use crate::running::Signals;

/// From one look at the directory to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a wait is interrupted to see whether the process is to end.
const WAIT: Duration = Duration::from_millis(50);
/// Files that are read at a time: what is under way at a stop, and what a kill leaves in doubt.
const FILES_AT_ONCE: usize = 16;
/// A file that does not say how many flows it has is read as it is when it has been the same for so long: whoever wrote
/// it is gone.
const UNFINISHED_MAX: Duration = Duration::from_mins(1);
/// What nfcapd calls the file that it writes to.
const CURRENT: &str = "nfcapd.current";

/// What was imported of some files.
#[derive(Debug, Default)]
pub(super) struct ImportCounts {
    pub(super) flows: u64,
    /// Files that could not be read, or not to their end.
    pub(super) failed: u64,
    /// Records and blocks that could not be read.
    pub(super) damaged: u64,
    /// Files that were read, and how that ended.
    pub(super) read: Vec<(PathBuf, FileEnd)>,
}

/// Follows a directory until a signal comes. `import` reads files into the archive; a signal does not interrupt it, so that
/// a file is imported as a whole.
pub(super) fn run(
    archive: &Path,
    directory: &Path,
    import: &dyn Fn(&[PathBuf]) -> anyhow::Result<ImportCounts>,
) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(directory.is_dir(), "{} is not a directory", directory.display());
    let directory = std::path::absolute(directory)?;
    let signals = Signals::new()?;
    let mut imported = ImportedFiles::open(archive)?;
    settle(&mut imported, archive)?;
    let (mut watched, mut all, mut files_imported) = (WatchedFiles::default(), ImportCounts::default(), 0);
    info!("following {}", directory.display());
    while !signals.is_stopping() {
        let ready = watched.look(&directory, &imported)?;
        for files in ready.chunks(FILES_AT_ONCE) {
            if signals.is_stopping() {
                break;
            }
            let of_files = sized(files);
            let mut unread = files.to_vec();
            // without those that weir import has read to their end: what is done here is never looked at again
            let mut before = ReadBefore::leave_out_read(archive, &mut unread)?;
            let mut counts = ImportCounts::default();
            if !unread.is_empty() {
                imported.begin(&unread, rows_of(archive))?;
                counts = import(&unread)?;
            }
            // first: a process that is killed in between finds the files begun, and here that it has them
            before.note(&counts.read)?;
            imported.done(&of_files)?;
            let last = files.last().map_or("", |path| name(path));
            info!("imported {} of {}, up to {last}", counted(counts.flows, "flow"), counted(files.len(), "file"));
            files_imported += files.len() as u64;
            all.flows += counts.flows;
            all.failed += counts.failed;
            all.damaged += counts.damaged;
        }
        let looked = Instant::now();
        while !signals.is_stopping() && looked.elapsed() < LOOK_EVERY {
            thread::sleep(WAIT);
        }
    }
    let ImportCounts { flows, failed, damaged, .. } = all;
    let files = counted(files_imported, "file");
    eprintln!("{files}: {} read, {failed} failed, {}", files_imported.saturating_sub(failed), counted(flows, "flow"));
    for warning in warnings(damaged, watched.foreign.len(), watched.changed.len()) {
        eprintln!("warning: {warning}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What was not imported: damaged records and blocks, files that are none of nfcapd's, and files that changed afterwards.
fn warnings(damaged: u64, foreign: usize, changed: usize) -> Vec<String> {
    let (record, block) = (noun_of(damaged, "record"), noun_of(damaged, "block"));
    let damaged = (damaged > 0).then(|| format!("{damaged} {record} or {block} could not be read"));
    let foreign = (foreign > 0).then(|| format!("{} left out: not written by nfcapd", counted(foreign, "file")));
    let changed =
        (changed > 0).then(|| format!("{} not imported again: changed after the import", counted(changed, "file")));
    damaged.into_iter().chain(foreign).chain(changed).collect()
}

/// Finds out what happened to files that a process was importing when it was killed.
fn settle(imported: &mut ImportedFiles, archive: &Path) -> anyhow::Result<()> {
    let Some((rows_before, files)) = imported.take_begun() else { return Ok(()) };
    let stored = rows_of(archive).saturating_sub(rows_before);
    let in_files: u64 = files.iter().map(|path| FileState::of(path).map_or(0, |state| state.flows)).sum();
    if stored > 0 && stored == in_files {
        return imported.done(&sized(&files));
    }
    if stored > 0 {
        let names: Vec<_> = files.iter().map(|path| name(path)).collect();
        warn!(
            "{stored} of the {in_files} flows of {} were stored when the process was killed: the files are imported \
             again, and these flows are in the archive twice",
            names.join(", ")
        );
    }
    Ok(())
}

/// Rows of an archive; 0 when it is not there yet.
fn rows_of(archive: &Path) -> u64 {
    let archive = Archive::open(archive, QueryOptions::default());
    let totals = archive.and_then(|archive| archive.totals(&Predicate::True, &TimeWindow::default()));
    totals.map_or(0, |totals| totals.rows.unwrap_or(totals.flows))
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn octets_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}

/// Files with their octets.
fn sized(files: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    files.iter().map(|path| (path.clone(), octets_of(path))).collect()
}

/// What a look shows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    octets: u64,
    changed: Option<SystemTime>,
    /// Flows that it says it has; 0 when it does not say.
    flows: u64,
    is_finished: bool,
}

impl FileState {
    /// `None` when there is no such file any more.
    fn of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        let statistics = nfcapd::Reader::open(path).ok().and_then(|reader| reader.info().statistics);
        Some(Self {
            octets: metadata.len(),
            changed: metadata.modified().ok(),
            flows: statistics.map_or(0, |statistics| statistics.total.flows),
            is_finished: statistics.is_some(),
        })
    }
}

/// What is known of the files of the directory that are not imported.
#[derive(Debug, Default)]
struct WatchedFiles {
    /// How files were in the look before, and since when they are so.
    waiting: HashMap<PathBuf, (FileState, Instant)>,
    /// Files that are none of nfcapd's, with their octets.
    foreign: HashMap<PathBuf, u64>,
    /// Files that changed after they were imported.
    changed: HashSet<PathBuf>,
}

impl WatchedFiles {
    /// The files that can be read now, in the order of their names.
    fn look(&mut self, directory: &Path, imported: &ImportedFiles) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        add_files(directory, &mut files).with_context(|| format!("cannot read {}", directory.display()))?;
        files.retain(|path| !name(path).starts_with(CURRENT));
        self.waiting.retain(|path, _| path.exists());
        let mut ready = Vec::new();
        for path in files {
            match imported.octets_of(&path) {
                Some(octets) if octets == octets_of(&path) => {}
                Some(_) if self.changed.insert(path.clone()) => {
                    warn!("{} changed after it was imported, and is not imported again", path.display());
                }
                None if self.is_ready(&path) => ready.push(path),
                Some(_) | None => {}
            }
        }
        for path in &ready {
            self.waiting.remove(path);
        }
        Ok(ready)
    }

    /// Whether a file is complete: it says so, or nobody has written to it for long.
    fn is_ready(&mut self, path: &Path) -> bool {
        if self.foreign.get(path).is_some_and(|octets| *octets == octets_of(path)) {
            return false;
        }
        let Some(state) = FileState::of(path) else { return false };
        let since = self.waiting.get(path).filter(|(before, _)| *before == state).map(|(_, since)| *since);
        let Some(since) = since else {
            self.waiting.insert(path.to_owned(), (state, Instant::now()));
            return false;
        };
        // what is written down of a file is one line
        let is_one_line = path.to_str().is_some_and(|path| !path.contains(char::is_control));
        if !is_one_line || !matches!(Format::of_file(path), Ok(Some(Format::Nfcapd))) {
            warn!("{} is not an nfcapd file, and is left out", path.display());
            self.foreign.insert(path.to_owned(), state.octets);
            return false;
        }
        state.is_finished || since.elapsed() >= UNFINISHED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_not_many() {
        assert_eq!(warnings(0, 0, 0), [""; 0]);
        let of_one = [
            "1 record or block could not be read",
            "1 file left out: not written by nfcapd",
            "1 file not imported again: changed after the import",
        ];
        assert_eq!(warnings(1, 1, 1), of_one);
        let of_two = ["2 records or blocks could not be read", "3 files left out: not written by nfcapd"];
        assert_eq!(warnings(2, 3, 0), of_two);
    }
}
