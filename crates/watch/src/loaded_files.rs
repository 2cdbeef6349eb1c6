//! The watch files that a process runs, followed as they change and as their watches are paused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weir_reports::watches::{self, ListedWatch};

use crate::error::{WatchError, with_causes};
use crate::file::WatchFile;
use crate::runner::Runner;
use crate::watch::plan_with_keys;
use crate::watch_paths::{name_of, watch_paths, watch_paths_there};

/// What decides whether the file of a watch is read again.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SeenFile {
    /// When the file was changed, and its length.
    about: (Option<SystemTime>, u64),
    /// Whether `weir watch pause`, or a page of the service, has paused its watch.
    is_paused: bool,
}

/// A watch as it was begun.
struct BegunWatch {
    file: WatchFile,
    /// The text of its file.
    text: String,
}

/// Takes lines for the user.
type Taker = dyn Fn(&str) + Send;

/// The files that run, as they were when they were read.
pub struct LoadedFiles {
    journal: PathBuf,
    seen: BTreeMap<PathBuf, SeenFile>,
    /// What the journal says of each file.
    listed: BTreeMap<PathBuf, ListedWatch>,
    /// The watches that are in the runner: what runs when its file is wrong by now.
    begun: BTreeMap<PathBuf, BegunWatch>,
    /// Why watches do not run yet, by name, as the journal has it.
    join_errors: BTreeMap<String, String>,
    is_first: bool,
    /// Whether this process has written its list: there may be one of an earlier process.
    is_listed: bool,
    say: Box<Taker>,
}

impl LoadedFiles {
    /// None yet; what changes is said to `say`. If `fails_at_first`, it is an error at first that a folder is missing, that there is
    /// no file, or that one is wrong which was named itself.
    pub fn new(journal: PathBuf, fails_at_first: bool, say: impl Fn(&str) + Send + 'static) -> Self {
        Self {
            journal,
            seen: BTreeMap::new(),
            listed: BTreeMap::new(),
            begun: BTreeMap::new(),
            join_errors: BTreeMap::new(),
            is_first: fails_at_first,
            is_listed: false,
            say: Box::new(say),
        }
    }

    /// Files that are wrong now, so that they run nothing or what they said before.
    pub fn wrong_files(&self) -> usize {
        self.listed.values().filter(|watch| watch.error.is_some()).count()
    }

    /// Makes the runner run what the files say. One that is wrong is reported, and what ran before goes on, as do the others: a
    /// mistake in a folder must not stop at the next start what it did no harm to before.
    pub fn refresh(&mut self, runner: &mut Runner, files: &[PathBuf]) -> Result<(), WatchError> {
        let found = match if self.is_first { watch_paths(files) } else { watch_paths_there(files) } {
            Ok(found) => found,
            Err(error) if self.is_first => return Err(error),
            // what cannot be looked at now has not gone
            Err(_) => return Ok(()),
        };
        let mut is_changed = !self.is_listed;
        let gone: Vec<_> = self.seen.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        for path in gone {
            self.seen.remove(&path);
            self.listed.remove(&path);
            is_changed = true;
            let name = name_of(&path);
            // a file that was refused runs nothing: the watch of its name is that of another file
            if self.begun.remove(&path).is_none() {
                continue;
            }
            if runner.remove(&name) {
                (self.say)(&format!("watch '{name}' is removed"));
            }
            // files that were refused because of this one are read again
            let begun = &self.begun;
            self.seen.retain(|other, _| begun.contains_key(other) || name_of(other) != name);
        }
        for (path, about) in found {
            let now = SeenFile { about, is_paused: watches::is_paused(&self.journal, &name_of(&path)) };
            if self.seen.get(&path) == Some(&now) {
                continue;
            }
            let begun = self.begin(runner, &path, now);
            let listed = match begun {
                Err(error) if self.is_first && files.contains(&path) => return Err(error),
                Err(error) => {
                    let text = error.of_file(&path);
                    (self.say)(&format!("error: {text}"));
                    if self.seen.get(&path).is_some_and(|before| before.is_paused != now.is_paused) {
                        self.pause_begun(runner, &path, now.is_paused);
                    }
                    self.wrong(&path, text)
                }
                Ok(listed) => listed,
            };
            self.seen.insert(path.clone(), now);
            self.listed.insert(path, listed);
            is_changed = true;
        }
        self.is_first = false;
        let join_errors = runner.join_errors();
        if is_changed || join_errors != self.join_errors {
            self.join_errors = join_errors;
            self.keep_list();
        }
        Ok(())
    }

    /// Lists the watches in the journal, for `weir watch list`. Watches run without that, too.
    fn keep_list(&mut self) {
        self.is_listed = true;
        let with_error = |watch: &ListedWatch| {
            let error = watch.error.as_ref().or_else(|| self.join_errors.get(&watch.name));
            ListedWatch { error: error.cloned(), ..watch.clone() }
        };
        let listed: Vec<ListedWatch> = self.listed.values().map(with_error).collect();
        if let Err(error) = watches::keep(&self.journal, &listed) {
            (self.say)(&format!("the list of watches cannot be written: {}", with_causes(&error)));
        }
    }

    /// How a watch is listed whose file is wrong: what ran before goes on.
    fn wrong(&self, path: &Path, error: String) -> ListedWatch {
        let before = self.listed.get(path).cloned();
        let before = before.unwrap_or_else(|| ListedWatch {
            name: name_of(path),
            severity: None,
            window: String::new(),
            is_paused_by_file: false,
            key: None,
            error: None,
        });
        ListedWatch { error: Some(error), ..before }
    }

    /// Pauses or resumes a watch whose file is wrong by now, as it was begun. Where that fails it stays as it is.
    fn pause_begun(&self, runner: &mut Runner, path: &Path, is_paused: bool) {
        let Some(BegunWatch { file, .. }) = self.begun.get(path) else { return };
        let (was_paused, is_paused) = (file.options.paused || !is_paused, file.options.paused || is_paused);
        runner.remove(&file.name);
        let Err(error) = put(runner, file.clone(), is_paused) else {
            let what = if is_paused { "is paused" } else { "goes on" };
            (self.say)(&format!("watch '{}' {what}, as it was", file.name));
            return;
        };
        (self.say)(&format!("error: {}", error.of_file(path)));
        if let Err(error) = put(runner, file.clone(), was_paused) {
            (self.say)(&format!("error: {}", error.of_file(path)));
        }
    }

    fn begin(&mut self, runner: &mut Runner, path: &Path, now: SeenFile) -> Result<ListedWatch, WatchError> {
        let (file, text) = WatchFile::read_with_text(path)?;
        // files that run nothing do not count: one that was refused for its name would refuse changes of the one that runs
        let mut others = self.begun.keys().filter(|other| other.as_path() != path);
        if let Some(other) = others.find(|other| name_of(other) == file.name) {
            return Err(WatchError::TwoOfName { name: file.name, other: Some(other.clone()) });
        }
        let is_paused = file.options.paused || now.is_paused;
        let is_same_text = self.begun.get(path).is_some_and(|begun| begun.text == text);
        if is_same_text
            && self.seen.get(path).is_some_and(|before| before.is_paused == now.is_paused)
            && runner.is_paused(&file.name) == Some(is_paused)
            && let Some(listed) = self.listed.get(path)
        {
            // written again as it was: its open windows stay
            return Ok(ListedWatch { error: None, ..listed.clone() });
        }
        // planned first, so that a mistake leaves the old one running
        let (plan, key) = plan_with_keys(file.clone())?;
        let window = plan.lines().next().unwrap_or_default();
        let listed = ListedWatch {
            name: file.name.clone(),
            severity: Some(file.options.reports.severity),
            window: window.strip_prefix("window: ").unwrap_or(window).to_owned(),
            is_paused_by_file: file.options.paused,
            key: Some(key),
            error: None,
        };
        let was_there = runner.remove(&file.name);
        if let Err(error) = put(runner, file.clone(), is_paused) {
            // one that asks history, and there is no archive
            if let Some(before) = self.begun.get(path).filter(|_| was_there) {
                put(runner, before.file.clone(), before.file.options.paused || now.is_paused)?;
            }
            return Err(error);
        }
        self.begun.insert(path.to_owned(), BegunWatch { file, text });
        if !self.is_first {
            let what = match (is_paused, was_there) {
                (true, _) => "is paused",
                (false, true) if is_same_text => "goes on",
                (false, true) => "is changed",
                (false, false) => "is added",
            };
            (self.say)(&format!("watch '{}' {what}", listed.name));
        }
        Ok(listed)
    }
}

fn put(runner: &mut Runner, file: WatchFile, is_paused: bool) -> Result<(), WatchError> {
    if is_paused { runner.pause(file) } else { runner.add(file) }
}
