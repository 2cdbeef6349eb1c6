//! Steps into commands, and answers into what becomes of the step.
//!
//! A file that was updated until the step begins, or that nothing can have come for since, gets the step; every other one, and each
//! that is new, gets what it lacks before it. What rrdtool answers decides: an error is about a file, whose row counts as refused
//! when it fails twice, and the others go on. A disk that has no space for another file is waited for, as is a folder that takes none, and
//! so is rrdtool itself, which is started again when it has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use arrow::array::{Array, AsArray, UInt64Array};
use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_forward::{StatisticsStep, StatisticsStore, StoreError, StoredRows};
use weir_series::{Family, Metric, SeriesStore};

use crate::files::{RrdFile, file_name, reading, unknown};
use crate::history::{History, unreadable};
use crate::process::{Answer, Rrdtool, last_update};
use crate::{RrdError, RrdOptions};

/// How often a file is tried with a step.
const ATTEMPTS: usize = 2;
/// How often rrdtool may crash over a file until it is left alone.
const CRASHES_MAX: u32 = 3;
/// Files of which it is remembered when they were updated last.
const FILES_MAX: usize = 1 << 20;
/// Files whose errors are logged.
const REPORTED_MAX: usize = 20;
/// What the folder is tried with when a file cannot be made, in octets at most.
const TRIAL_OCTETS_MAX: u64 = 1 << 24;
/// The name of the file that the folder is tried with.
const TRIAL: &str = ".weir-trial";
/// Errors that are not about one file, and pass.
const PASSING: [&str; 5] = [
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Too many open files",
    "Cannot allocate memory",
];

/// Keeps files of rrdtool up to date.
#[derive(Debug)]
pub struct RrdStore {
    options: RrdOptions,
    rrdtool: Option<Rrdtool>,
    files: HashMap<String, FileState>,
    /// When the first step begins that was handed over: what came after it was handed over, too.
    since_secs: i64,
    /// Files over which rrdtool has crashed, and how often since they were updated.
    crashes: HashMap<String, u32>,
    /// Files whose errors were logged.
    reported: HashSet<String>,
    is_damage_logged: bool,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
struct FileState {
    last_update_secs: i64,
    metrics: usize,
}

/// A row of a step on its way into a file.
struct Row<'a> {
    by: &'a str,
    key: &'a str,
    file: String,
    metrics: &'a [Metric],
    reading: String,
    /// Whether the step knows of the series only that there was nothing of it.
    is_silent: bool,
}

/// The columns of a step that say something of a family.
struct FamilyColumns<'a> {
    metrics: &'a [Metric],
    /// For each metric its values.
    values: Vec<Option<&'a UInt64Array>>,
}

/// A command for a file, which is named by its place in a list.
type Command = (usize, String);
/// Files for which commands failed, by the same places, and why.
type Failed = BTreeMap<usize, String>;

impl RrdStore {
    /// A store of files in a folder, which is made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made, and when rrdtool cannot be run.
    pub fn new(options: RrdOptions) -> Result<Self, RrdError> {
        let folder = |source| RrdError::Folder { path: options.folder.clone(), source };
        fs::create_dir_all(&options.folder).map_err(folder)?;
        let program = |source| RrdError::Program { program: options.program.clone(), source };
        let rrdtool = Rrdtool::start(&options.program, &options.folder).map_err(program)?;
        Ok(Self {
            options,
            rrdtool: Some(rrdtool),
            files: HashMap::new(),
            since_secs: i64::MAX,
            crashes: HashMap::new(),
            reported: HashSet::new(),
            is_damage_logged: false,
        })
    }

    /// Brings the files of some rows up to a step.
    fn update(
        &mut self,
        rows: &[Row<'_>],
        places: &[usize],
        step: &StatisticsStep,
        history: &mut History<'_>,
    ) -> Result<Failed, StoreError> {
        let names: Vec<&str> = rows.iter().map(|row| row.file.as_str()).collect();
        let end_secs = end_secs(step);
        let mut failed = self.look_up(rows, &names, places)?;
        let mut commands: Vec<Command> = Vec::new();
        let mut behind: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for &place in places.iter().filter(|place| !failed.contains_key(*place)) {
            let row = &rows[place];
            match self.last_update_secs(&row.file) {
                Some(last) if last >= end_secs => {}
                Some(last) if last >= self.since_secs => {
                    let file = row.as_file(step, history);
                    let updates = file.updates(Some(last), [(step.time_secs, row.reading.clone())]);
                    commands.extend(updates.into_iter().map(|command| (place, command)));
                }
                // once there is something of it, it gets the silence before
                None if row.is_silent => {}
                _ => behind.entry(row.by).or_default().push(place),
            }
        }
        self.send(rows, &names, &commands, end_secs, &mut failed)?;
        for (by, places) in behind {
            for places in places.chunks(history.series_max()) {
                let wanted: Vec<(&str, Option<i64>)> =
                    places.iter().map(|place| (rows[*place].key, self.last_update_secs(names[*place]))).collect();
                let readings = history.readings(by, &wanted)?;
                let mut commands: Vec<Command> = Vec::new();
                for ((&place, (_, last)), mut readings) in places.iter().zip(wanted).zip(readings) {
                    readings.push((step.time_secs, rows[place].reading.clone()));
                    let updates = rows[place].as_file(step, history).updates(last, readings);
                    commands.extend(updates.into_iter().map(|command| (place, command)));
                }
                self.send(rows, &names, &commands, end_secs, &mut failed)?;
            }
        }
        Ok(failed)
    }

    fn last_update_secs(&self, file: &str) -> Option<i64> {
        self.files.get(file).map(|state| state.last_update_secs)
    }

    /// Asks when files were updated last that are there and of which it is not known.
    fn look_up(&mut self, rows: &[Row<'_>], names: &[&str], places: &[usize]) -> Result<Failed, StoreError> {
        if self.files.len() > FILES_MAX {
            self.files.clear();
        }
        let mut failed = Failed::new();
        let mut commands: Vec<Command> = Vec::new();
        for &place in places {
            let name = names[place];
            if self.crashes.get(name).is_some_and(|crashes| *crashes >= CRASHES_MAX) {
                failed.insert(place, format!("rrdtool crashed over it {CRASHES_MAX} times"));
            } else if !self.files.contains_key(name) && self.options.folder.join(name).exists() {
                commands.push((place, format!("last {name}")));
            }
        }
        let mut found = Vec::new();
        self.ask(names, &commands, |place, answer| match last_update(answer) {
            Ok(last_update_secs) => found.push((place, last_update_secs)),
            Err(error) => {
                failed.insert(place, error);
            }
        })?;
        for (place, last_update_secs) in found {
            let state = FileState { last_update_secs, metrics: rows[place].metrics.len() };
            self.files.insert(names[place].to_owned(), state);
        }
        Ok(failed)
    }

    /// Has files updated until a time, and adds those that were not.
    fn send(
        &mut self,
        rows: &[Row<'_>],
        names: &[&str],
        commands: &[Command],
        end_secs: i64,
        failed: &mut Failed,
    ) -> Result<(), StoreError> {
        let mut passing = None;
        // of several commands for a file the first one that fails says why
        self.ask(names, commands, |place, answer| {
            if let Err(error) = answer {
                if PASSING.iter().any(|text| error.contains(text)) {
                    passing.get_or_insert_with(|| format!("{}: {error}", names[place]));
                }
                failed.entry(place).or_insert(error);
            }
        })?;
        for (place, _) in commands {
            if failed.contains_key(place) {
                self.files.remove(names[*place]);
            } else {
                self.crashes.remove(names[*place]);
                let state = FileState { last_update_secs: end_secs, metrics: rows[*place].metrics.len() };
                self.files.insert(names[*place].to_owned(), state);
            }
        }
        passing.map_or(Ok(()), |why| Err(StoreError::Unavailable(why)))
    }

    /// Has commands done, and hands on the answers with the places of their files.
    fn ask(
        &mut self,
        names: &[&str],
        commands: &[Command],
        mut take: impl FnMut(usize, Answer),
    ) -> Result<(), StoreError> {
        if commands.is_empty() {
            return Ok(());
        }
        let mut rrdtool = match self.rrdtool.take() {
            Some(rrdtool) => rrdtool,
            None => Rrdtool::start(&self.options.program, &self.options.folder).map_err(|error| {
                StoreError::Unavailable(format!("cannot run {}: {error}", self.options.program.display()))
            })?,
        };
        let mut answered = 0;
        let asked = rrdtool.ask(commands.iter().map(|(_, command)| command.as_str()), |answer| {
            take(commands[answered].0, answer);
            answered += 1;
        });
        let Err(end) = asked else {
            self.rrdtool = Some(rrdtool);
            return Ok(());
        };
        // what has no answer may have been done, and so may a part of what a file was to get
        for (place, _) in commands {
            self.files.remove(names[*place]);
        }
        if let Some((place, _)) = commands.get(answered).filter(|_| end.is_crash) {
            *self.crashes.entry(names[*place].to_owned()).or_default() += 1;
        }
        Err(StoreError::Unavailable(end.why))
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
        let command = |(name, state): &(String, FileState)| {
            format!("update {name} {}", unknown(state.last_update_secs, state.metrics))
        };
        let commands: Vec<Command> = due.iter().map(command).enumerate().collect();
        let mut failed = HashSet::new();
        self.ask(&names, &commands, |place, answer| {
            if answer.is_err() {
                failed.insert(place);
            }
        })?;
        for (place, (name, state)) in due.into_iter().enumerate() {
            // one that failed is looked at again when its key comes
            if failed.contains(&place) {
                self.files.remove(&name);
            } else {
                self.files.insert(name, state);
            }
        }
        Ok(())
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

    /// Logs what is wrong with a file, once, and of so many files.
    fn report(&mut self, file: &str, why: &str) {
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
    fn store(&mut self, step: &StatisticsStep) -> Result<StoredRows, StoreError> {
        self.since_secs = self.since_secs.min(step.time_secs);
        let series = SeriesStore::open(&self.options.statistics).map_err(|error| unreadable(&error))?;
        let mut history = History::new(&series, step)?;
        let rows = rows(step, &series);
        let mut places: Vec<usize> = (0..rows.len()).collect();
        let mut failed = Failed::new();
        // what is known of a file that fails may be wrong: somebody has removed or updated it
        for _ in 0..ATTEMPTS {
            failed = self.update(&rows, &places, step, &mut history)?;
            places = failed.keys().copied().collect();
            if places.is_empty() {
                break;
            }
        }
        let missing = places.iter().find(|place| !is_there(&self.options.folder, &rows[**place].file));
        if let Some(place) = missing {
            let metrics = rows[*place].metrics.len() as u64;
            // a number of eight octets for each step and metric, a twelfth for the largest ones, and the head
            self.try_folder(history.rows().saturating_mul(metrics).saturating_mul(9).saturating_add(8_192))?;
        }
        self.end_maxima(step)?;
        for (place, why) in &failed {
            self.report(&rows[*place].file, why);
        }
        if let Some(damage) = history.damage().filter(|_| !self.is_damage_logged) {
            tracing::warn!("some steps that files lack cannot be read, and are unknown in them: {damage}");
            self.is_damage_logged = true;
        }
        let refused = failed.len() as u64;
        Ok(StoredRows { stored: rows.len() as u64 - refused, refused })
    }
}

impl Row<'_> {
    fn as_file(&self, step: &StatisticsStep, history: &History<'_>) -> RrdFile<'_> {
        RrdFile { name: &self.file, step_secs: step.step_secs, metrics: self.metrics, rows: history.rows() }
    }
}

fn is_there(folder: &Path, file: &str) -> bool {
    folder.join(file).exists()
}

/// When a step ends.
fn end_secs(step: &StatisticsStep) -> i64 {
    step.time_secs + i64::from(step.step_secs)
}

/// The rows of a step with what their files get of it.
fn rows<'a>(step: &'a StatisticsStep, series: &'a SeriesStore) -> Vec<Row<'a>> {
    let [by, key] = [2, 3].map(|column| step.rows.column(column).as_string::<i32>());
    // how many of the finest steps have the series
    let count = step.rows.column(5).as_primitive::<UInt32Type>();
    let column = |metric: &Metric| -> Option<&'a UInt64Array> {
        step.rows.column_by_name(&metric.name).map(AsArray::as_primitive::<UInt64Type>)
    };
    let columns = |family: &'a Family| {
        let values = family.metrics.iter().map(column).collect();
        (family.name.as_str(), FamilyColumns { metrics: &family.metrics, values })
    };
    let families: HashMap<&str, FamilyColumns<'_>> = series.families().iter().map(columns).collect();
    let row = |at: usize| {
        let family = families.get(by.value(at))?;
        let values = family
            .values
            .iter()
            .map(|values| values.filter(|values| values.is_valid(at)).map(|values| values.value(at)));
        Some(Row {
            by: by.value(at),
            key: key.value(at),
            file: file_name(by.value(at), key.value(at)),
            metrics: family.metrics,
            reading: reading(end_secs(step), values),
            is_silent: count.value(at) == 0,
        })
    };
    (0..step.rows.num_rows()).filter_map(row).collect()
}
