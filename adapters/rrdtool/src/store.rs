//! Steps into updates of files, and answers into the outcome of the step.
//!
//! Of each file it is known when it was updated last, if rrdtool has confirmed that to this process or the file has everything before
//! the step at hand: it gets the step. Of any other file, after an error too, rrdtool is asked, and what it lacks is read from
//! the statistics and comes before the step. A file that cannot be updated twice is left for a while; its row counts as refused, and the
//! others go on. One that is locked is waited for first, for a few attempts at a step. A disk that has no space for another file is
//! waited for, as is a folder that takes none, and so is rrdtool itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::path::Path;

use weir_forward::{StatisticsStep, StatisticsStore, StoreError, StoredRows};
use weir_series::SeriesStore;

use crate::commands::{CRASHES_MAX, CommandRunner, FileCommands};
use crate::files::{RrdFile, unknown};
use crate::history::{History, unreadable};
use crate::process::file_info;
use crate::rows::{Row, end_secs, rows};
use crate::{RrdError, RrdOptions};

/// How often a file is tried with a step.
const ATTEMPTS: usize = 2;
/// Steps for which a file is left that was refused again and again.
const PAUSE_STEPS_MAX: u32 = 64;
/// Files of which it is remembered when they were updated last, and those that are left.
const FILES_MAX: usize = 1 << 20;
/// Series that are read from the statistics at once: between them it is looked at whether forwarding stops.
const SERIES_MAX: usize = 256;
/// Files whose errors are logged.
const REPORTED_MAX: usize = 20;
/// What the folder is tried with when a file cannot be made, in octets at most.
const TRIAL_OCTETS_MAX: u64 = 1 << 24;
/// The name of the file that the folder is tried with.
const TRIAL: &str = ".weir-trial";

/// Keeps files of rrdtool up to date.
#[derive(Debug)]
pub struct RrdStore {
    options: RrdOptions,
    runner: CommandRunner,
    /// Files that have everything until their last update that they can have. One for which commands are on their way is not
    /// among them.
    files: HashMap<String, FileState>,
    pauses: HashMap<String, Pause>,
    /// Files whose errors were logged.
    reported: HashSet<String>,
    is_damage_logged: bool,
    /// The last to be dropped: rrdtool has ended before another process may begin.
    _lock: FolderLock,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
struct FileState {
    last_update_secs: i64,
    metrics: usize,
}

/// For how long a file is left that was refused.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    /// Steps until it is tried again.
    steps_left: u32,
    /// The same when it is refused once more.
    steps_next: u32,
}

/// The lock of a folder. It is gone with the process.
#[derive(Debug)]
struct FolderLock(File);

/// A step, and its rows.
struct StepRows<'a> {
    step: &'a StatisticsStep,
    rows: &'a [Row<'a>],
    /// The names of their files.
    names: Vec<&'a str>,
}

/// A row by its place, and when its file was updated last; `None` when there is none.
type LastUpdate = (usize, Option<i64>);
/// Rows whose files could not be updated, and why.
type Failed = BTreeMap<usize, String>;

impl RrdStore {
    /// A store of files in a folder, which is made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made or another process has it, and when rrdtool cannot be run.
    pub fn new(options: RrdOptions) -> Result<Self, RrdError> {
        let folder = |source| RrdError::Folder { path: options.folder.clone(), source };
        fs::create_dir_all(&options.folder).map_err(folder)?;
        let lock = FolderLock::new(&options.folder)?;
        let program = |source| RrdError::Program { program: options.program.clone(), source };
        let runner = CommandRunner::start(&options).map_err(program)?;
        Ok(Self {
            options,
            runner,
            files: HashMap::new(),
            pauses: HashMap::new(),
            reported: HashSet::new(),
            is_damage_logged: false,
            _lock: lock,
        })
    }

    /// Brings the files of some rows up to a step.
    fn update(
        &mut self,
        work: &StepRows<'_>,
        places: &[usize],
        history: &mut History<'_>,
        is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<Failed, StoreError> {
        let StepRows { step, rows, .. } = *work;
        let (mut failed, last_updates) = self.look_up(work, places)?;
        let mut updates: Vec<FileCommands> = Vec::new();
        let mut behind: BTreeMap<&str, Vec<LastUpdate>> = BTreeMap::new();
        for &place in places {
            if failed.contains_key(&place) {
                continue;
            }
            let (row, last_update) = (&rows[place], last_updates.get(&place).copied());
            match self.files.get(&row.file).map(|state| state.last_update_secs) {
                Some(last) if last > history.newest_end_secs() => {
                    failed.insert(place, format!("it was updated until {last} s already, later than the statistics"));
                }
                Some(last) if last >= end_secs(step) => {}
                Some(last) => {
                    let file = row.as_file(step.step_secs, history.rows());
                    let commands = file.updates(Some(last), [(step.time_secs, row.reading.clone())]);
                    updates.extend(FileCommands::new(place, commands));
                }
                // once there is something of it, it gets the silence before
                None if row.is_silent && last_update.is_none() => {}
                None => behind.entry(row.by).or_default().push((place, last_update)),
            }
        }
        self.send(work, updates, Some(end_secs(step)), &mut failed)?;
        for mut files in behind.into_values() {
            // those that lack about as much are read together
            files.sort_by_key(|(_, last_update)| *last_update);
            for files in files.chunks(SERIES_MAX) {
                self.make_up(work, files.to_vec(), history, is_stopping, &mut failed)?;
            }
        }
        Ok(failed)
    }

    /// Asks when files were updated last that are there and of which it is not known. Those that have everything before the step
    /// are known from then on.
    fn look_up(&mut self, work: &StepRows<'_>, places: &[usize]) -> Result<(Failed, BTreeMap<usize, i64>), StoreError> {
        if self.files.len() > FILES_MAX {
            self.files.clear();
        }
        let (mut failed, mut last_updates) = (Failed::new(), BTreeMap::new());
        let mut commands: Vec<FileCommands> = Vec::new();
        for &place in places {
            let name = work.names[place];
            if self.runner.is_crashing(name) {
                failed.insert(place, format!("rrdtool crashed over it {CRASHES_MAX} times"));
            } else if !self.files.contains_key(name) && self.is_there(name)? {
                commands.extend(FileCommands::new(place, vec![format!("info {name}")]));
            }
        }
        let mut outcomes = self.runner.run(&work.names, commands)?;
        let step_secs = work.step.step_secs;
        for (place, answer) in std::mem::take(&mut outcomes.answers) {
            match file_info(answer) {
                Ok(info) if info.step_secs != step_secs => {
                    let found = info.step_secs;
                    let why =
                        format!("it has steps of {found} s, not of {step_secs} s; another folder keeps them apart");
                    failed.insert(place, why);
                }
                Ok(info) => {
                    let (last_update_secs, metrics) = (info.last_update_secs, work.rows[place].metrics.len());
                    if last_update_secs >= work.step.time_secs {
                        self.files.insert(work.names[place].to_owned(), FileState { last_update_secs, metrics });
                    }
                    last_updates.insert(place, last_update_secs);
                }
                Err(error) => {
                    failed.insert(place, error);
                }
            }
        }
        outcomes.check()?;
        Ok((failed, last_updates))
    }

    /// Gives files of a family what they lack before the step, a slice of time after the other, and then the step.
    fn make_up(
        &mut self,
        work: &StepRows<'_>,
        mut files: Vec<LastUpdate>,
        history: &mut History<'_>,
        is_stopping: &mut dyn FnMut() -> bool,
        failed: &mut Failed,
    ) -> Result<(), StoreError> {
        let StepRows { step, rows, .. } = *work;
        let first_secs = files.iter().map(|(_, last_update)| history.first_secs(*last_update)).min();
        let mut from_secs = first_secs.unwrap_or(step.time_secs);
        while let Some(&(first, _)) = files.first() {
            if is_stopping() {
                return Err(StoreError::Unavailable("forwarding stops before files have what they lack".to_owned()));
            }
            let until_secs = history.slice_end_secs(from_secs, files.len());
            let is_last = until_secs >= step.time_secs;
            let keys: Vec<&str> = files.iter().map(|(place, _)| rows[*place].key).collect();
            let readings = history.readings(rows[first].by, &keys, (from_secs, until_secs))?;
            let mut updates: Vec<FileCommands> = Vec::new();
            for ((place, last_update), mut readings) in files.iter_mut().zip(readings) {
                if is_last {
                    readings.push((step.time_secs, rows[*place].reading.clone()));
                }
                let Some(begin_secs) = readings.last().map(|(begin_secs, _)| *begin_secs) else { continue };
                let file = rows[*place].as_file(step.step_secs, history.rows());
                updates.extend(FileCommands::new(*place, file.updates(*last_update, readings)));
                *last_update = (*last_update).max(Some(begin_secs + i64::from(step.step_secs)));
            }
            // in the middle it has not everything before the step
            self.send(work, updates, is_last.then(|| end_secs(step)), failed)?;
            if is_last {
                break;
            }
            files.retain(|(place, _)| !failed.contains_key(place));
            from_secs = until_secs;
        }
        Ok(())
    }

    /// Has files updated, and adds those that were not; with a time the others have everything until then.
    fn send(
        &mut self,
        work: &StepRows<'_>,
        updates: Vec<FileCommands>,
        last_update_secs: Option<i64>,
        failed: &mut Failed,
    ) -> Result<(), StoreError> {
        for update in &updates {
            self.files.remove(work.names[update.place()]);
        }
        let outcomes = self.runner.run(&work.names, updates)?;
        for (place, answer) in &outcomes.answers {
            let name = work.names[*place];
            match answer {
                Ok(_) => {
                    self.runner.forget_failures(name);
                    self.pauses.remove(name);
                    if let Some(last_update_secs) = last_update_secs {
                        let metrics = work.rows[*place].metrics.len();
                        self.files.insert(name.to_owned(), FileState { last_update_secs, metrics });
                    }
                }
                Err(error) => {
                    failed.insert(*place, error.clone());
                }
            }
        }
        outcomes.check()
    }

    /// Ends the rows of largest values of files that got nothing any more: rrdtool keeps such a row when something comes after it.
    fn end_maxima(&mut self, step: &StatisticsStep) -> Result<(), StoreError> {
        let width = i64::from(step.step_secs) * i64::from(RrdFile::MAXIMUM_STEPS);
        let row_end = |state: &FileState| {
            let last = state.last_update_secs;
            (last.rem_euclid(width) != 0).then(|| (last.div_euclid(width) + 1).saturating_mul(width))
        };
        let due = |(name, state): (&String, &FileState)| {
            let end = row_end(state).filter(|end| *end <= end_secs(step))?;
            Some((name.clone(), FileState { last_update_secs: end, ..*state }))
        };
        let due: Vec<(String, FileState)> = self.files.iter().filter_map(due).collect();
        let names: Vec<&str> = due.iter().map(|(name, _)| name.as_str()).collect();
        let mut updates: Vec<FileCommands> = Vec::new();
        for (place, (name, state)) in due.iter().enumerate() {
            // one that fails is looked up when its key comes
            self.files.remove(name);
            let command = format!("update {name} {}", unknown(state.last_update_secs, state.metrics));
            updates.extend(FileCommands::new(place, vec![command]));
        }
        let outcomes = self.runner.run(&names, updates)?;
        for (place, _) in outcomes.answers.iter().filter(|(_, answer)| answer.is_ok()) {
            let (name, state) = &due[*place];
            self.files.insert(name.clone(), *state);
        }
        Ok(())
    }

    /// Whether there is a file of this name.
    ///
    /// # Errors
    /// When that cannot be known: a file that is there must not count as none.
    fn is_there(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.options.folder.join(name);
        let found = path.try_exists();
        found.map_err(|error| StoreError::Unavailable(format!("cannot look for {}: {error}", path.display())))
    }

    /// Whether the folder takes a file of this size: rrdtool does not always say that it did not.
    fn try_folder(&self, octets: u64) -> Result<(), StoreError> {
        let path = self.options.folder.join(TRIAL);
        let written = fs::write(&path, vec![0_u8; octets.min(TRIAL_OCTETS_MAX) as usize]);
        // one that cannot be removed is written over
        let _ = fs::remove_file(&path);
        written.map_err(|error| {
            let folder = self.options.folder.display();
            StoreError::Unavailable(format!("no file can be made in {folder}: {error}"))
        })
    }

    /// Whether a file is left for now. Each step counts.
    fn is_left(&mut self, file: &str) -> bool {
        let Some(pause) = self.pauses.get_mut(file).filter(|pause| pause.steps_left > 0) else { return false };
        pause.steps_left -= 1;
        true
    }

    /// Leaves a file that was refused for longer each time, and logs why, once and of so many files.
    fn refuse(&mut self, file: &str, why: &str) {
        if self.pauses.len() > FILES_MAX {
            self.pauses.clear();
        }
        let pause = self.pauses.entry(file.to_owned()).or_default();
        *pause = Pause {
            steps_left: pause.steps_next,
            steps_next: pause.steps_next.saturating_mul(2).clamp(1, PAUSE_STEPS_MAX),
        };
        // it may be another one when it is tried again
        self.files.remove(file);
        if self.reported.len() >= REPORTED_MAX || !self.reported.insert(file.to_owned()) {
            return;
        }
        tracing::warn!("{file} gets no statistics: {why}");
        if self.reported.len() == REPORTED_MAX {
            tracing::warn!("errors of other files are counted and not logged");
        }
    }
}

impl StatisticsStore for RrdStore {
    fn store(
        &mut self,
        step: &StatisticsStep,
        is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        let series = SeriesStore::open(&self.options.statistics).map_err(|error| unreadable(&error))?;
        let mut history = History::new(&series, step)?;
        let rows = rows(step, &series);
        let work = StepRows { step, rows: &rows, names: rows.iter().map(|row| row.file.as_str()).collect() };
        let (left, mut places): (Vec<usize>, Vec<usize>) =
            (0..rows.len()).partition(|place| self.is_left(&rows[*place].file));
        let mut failed = Failed::new();
        // what is known of a file that fails may be wrong: somebody has removed or updated it
        for _ in 0..ATTEMPTS {
            failed = self.update(&work, &places, &mut history, is_stopping)?;
            places = failed.keys().copied().collect();
            for place in &places {
                self.files.remove(work.names[*place]);
            }
            if places.is_empty() {
                break;
            }
        }
        let missing = places.iter().find(|place| !self.options.folder.join(work.names[**place]).exists());
        if let Some(place) = missing {
            let metrics = rows[*place].metrics.len() as u64;
            // a number of eight octets for each step and metric, a twelfth for the largest ones, and the head
            self.try_folder(history.rows().saturating_mul(metrics).saturating_mul(9).saturating_add(8_192))?;
        }
        self.end_maxima(step)?;
        for (place, why) in &failed {
            self.refuse(work.names[*place], why);
        }
        if let Some(damage) = history.damage().filter(|_| !self.is_damage_logged) {
            tracing::warn!("some steps that files lack cannot be read, and are unknown in them: {damage}");
            self.is_damage_logged = true;
        }
        let refused = (failed.len() + left.len()) as u64;
        Ok(StoredRows { stored: rows.len() as u64 - refused, refused })
    }
}

impl FolderLock {
    fn new(folder: &Path) -> Result<Self, RrdError> {
        let failed = |source| RrdError::Folder { path: folder.to_owned(), source };
        let file = File::open(folder).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(RrdError::Locked { path: folder.to_owned() }),
            // not every file system has locks of folders
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self(file)),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // a program that is being started has the file too, for a moment
        let _ = self.0.unlock();
    }
}
