//! Commands for many files: those of one file are done one after the other, those of several files together.
//!
//! The next command of a file is sent after the one before it has succeeded: rrdtool takes a later step of which an earlier one
//! failed, and the earlier one would be lost. A file that another program reads is locked for a moment, and tried again; one that
//! stays locked fails alone. rrdtool that has ended is started again with the next command.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use weir_forward::StoreError;

use crate::RrdOptions;
use crate::process::{Answer, Rrdtool};

/// How often rrdtool may crash over a file until it is left alone.
pub(crate) const CRASHES_MAX: u32 = 3;
/// What rrdtool answers while another program reads or updates the file.
const LOCKED: &str = "could not lock RRD";
/// How long a file that is locked is left until it is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// How often a file that is locked is tried again before the whole step is.
const LOCKS_MAX: u32 = 50;
/// How often a step waits for a file that stays locked until this file is left alone and the others go on.
const LOCKED_STEPS_MAX: u32 = 3;
/// Errors that are not about what a file is, and pass, as a lock does.
const PASSING: [&str; 5] = [
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Too many open files",
    "Cannot allocate memory",
];

/// Has commands done, and knows over which files rrdtool crashed.
#[derive(Debug)]
pub(crate) struct CommandRunner {
    program: PathBuf,
    folder: PathBuf,
    rrdtool: Option<Rrdtool>,
    /// How often rrdtool has crashed over files since they were updated.
    crashes: HashMap<String, u32>,
    /// How often a step has waited in vain for files that were locked, since they were updated.
    locked: HashMap<String, u32>,
}

/// Commands for a file, which is named by its place in a list.
#[derive(Debug)]
pub(crate) struct FileCommands {
    place: usize,
    /// The first one is the next to be sent.
    commands: VecDeque<String>,
    locks: u32,
}

/// How commands for files ended.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// For each place of a file the last answer, or the first error: the commands after it were not sent.
    pub(crate) answers: Vec<(usize, Answer)>,
    /// An error that passes. Files without an answer may have been updated in part.
    passing: Option<String>,
}

impl FileCommands {
    /// `None` when there are none.
    pub(crate) fn new(place: usize, commands: Vec<String>) -> Option<Self> {
        (!commands.is_empty()).then(|| Self { place, commands: commands.into(), locks: 0 })
    }

    /// The place of the file.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Takes the answer to the first command; gives the outcome when no more of them are to be sent. `locked` is how often a step
    /// has waited in vain for files.
    fn take(
        &mut self,
        answer: Answer,
        passing: &mut Option<String>,
        name: &str,
        locked: &mut HashMap<String, u32>,
    ) -> Option<(usize, Answer)> {
        if let Err(error) = &answer {
            let is_locked = error.contains(LOCKED);
            if is_locked && self.locks < LOCKS_MAX {
                self.locks += 1;
                return None;
            }
            self.commands.clear();
            let is_passing = if is_locked {
                let steps = locked.entry(name.to_owned()).or_default();
                *steps = steps.saturating_add(1);
                *steps <= LOCKED_STEPS_MAX
            } else {
                PASSING.iter().any(|text| error.contains(text))
            };
            if is_passing {
                passing.get_or_insert_with(|| format!("{name}: {error}"));
                return None;
            }
            return Some((self.place, answer));
        }
        self.locks = 0;
        self.commands.pop_front();
        self.commands.is_empty().then_some((self.place, answer))
    }
}

impl Outcomes {
    /// # Errors
    /// The one that passes, if there was any.
    pub(crate) fn check(self) -> Result<(), StoreError> {
        self.passing.map_or(Ok(()), |why| Err(StoreError::Unavailable(why)))
    }
}

impl CommandRunner {
    /// Starts the program of the options in their folder.
    ///
    /// # Errors
    /// When it cannot be run.
    pub(crate) fn start(options: &RrdOptions) -> std::io::Result<Self> {
        let rrdtool = Rrdtool::start(&options.program, &options.folder)?;
        let (program, folder) = (options.program.clone(), options.folder.clone());
        Ok(Self { program, folder, rrdtool: Some(rrdtool), crashes: HashMap::new(), locked: HashMap::new() })
    }

    /// Whether rrdtool has crashed over a file too often.
    pub(crate) fn is_crashing(&self, name: &str) -> bool {
        self.crashes.get(name).is_some_and(|crashes| *crashes >= CRASHES_MAX)
    }

    /// Forgets crashes over a file, and that it was locked: it was updated.
    pub(crate) fn forget_failures(&mut self, name: &str) {
        self.crashes.remove(name);
        self.locked.remove(name);
    }

    /// Has commands for files with these names done.
    ///
    /// # Errors
    /// When rrdtool ends: any of the files may have been updated in part.
    pub(crate) fn run(&mut self, names: &[&str], mut files: Vec<FileCommands>) -> Result<Outcomes, StoreError> {
        let mut outcomes = Outcomes::default();
        while !files.is_empty() && outcomes.passing.is_none() {
            let answers = self.ask(names, &files)?;
            let mut are_locked = false;
            for (file, answer) in files.iter_mut().zip(answers) {
                let outcome = file.take(answer, &mut outcomes.passing, names[file.place], &mut self.locked);
                outcomes.answers.extend(outcome);
                are_locked |= file.locks > 0;
            }
            files.retain(|file| !file.commands.is_empty());
            if are_locked && outcomes.passing.is_none() {
                thread::sleep(LOCK_PAUSE);
            }
        }
        Ok(outcomes)
    }

    /// Has the next command of each file done, and gives their answers in the same order.
    fn ask(&mut self, names: &[&str], files: &[FileCommands]) -> Result<Vec<Answer>, StoreError> {
        let mut rrdtool = match self.rrdtool.take() {
            Some(rrdtool) => rrdtool,
            None => Rrdtool::start(&self.program, &self.folder)
                .map_err(|error| StoreError::Unavailable(format!("cannot run {}: {error}", self.program.display())))?,
        };
        let mut answers = Vec::with_capacity(files.len());
        let commands = files.iter().filter_map(|file| file.commands.front());
        let Err(end) = rrdtool.ask(commands.map(String::as_str), |answer| answers.push(answer)) else {
            self.rrdtool = Some(rrdtool);
            return Ok(answers);
        };
        if let Some(file) = files.get(answers.len()).filter(|_| end.is_crash) {
            *self.crashes.entry(names[file.place].to_owned()).or_default() += 1;
        }
        Err(StoreError::Unavailable(end.why))
    }
}
