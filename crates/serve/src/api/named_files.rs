//! Files of a folder that requests name.
//!
//! A name is letters, digits, `-` and `_`, so that no path leads out of the folder. A file is written next to the one before
//! and takes its place, so that whoever reads it has one or the other. Each content has a tag: a change that names the tag of
//! what it is based on is refused when somebody else was faster, and so is a new file whose name somebody else has taken.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::Response;
use weir_disk::Replacement;
use weir_query::Progress;

use super::extract::IfMatch;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;

/// Files at most.
const FILES_MAX: usize = 1000;
/// The ending of all of them.
const ENDING: &str = "toml";
/// Letters of a name. File systems take names of 255 octets, and a new file has a longer one until it takes its place.
const NAME_LETTERS_MAX: usize = 200;
/// Mode of a new file, less what the process leaves out of it.
const MODE: u32 = 0o666;

/// Files of one kind.
#[derive(Debug, Clone)]
pub(super) struct NamedFiles {
    folder: PathBuf,
    /// What a file is called in errors: watch, dashboard.
    kind: &'static str,
    /// Of the request that changes them.
    progress: Option<Arc<Progress>>,
}

impl NamedFiles {
    pub(super) fn new(folder: PathBuf, kind: &'static str) -> Self {
        Self { folder, kind, progress: None }
    }

    /// The same, for a request that changes them only while somebody waits for its answer.
    pub(super) fn of_turn(self, turn: &Turn) -> Self {
        Self { progress: Some(Arc::clone(&turn.control.progress)), ..self }
    }

    /// All files, sorted by name, each with its text or why there is none to use: one file that cannot be read hides no other
    /// one. A folder that is not there has none.
    pub(super) fn all(&self) -> Answered<Vec<(String, Answered<String>)>> {
        let files = self.names()?.into_iter().map(|name| {
            let text = self.read(&name);
            (name, text)
        });
        // one that was removed since the folder was read is none
        let is_there = |(name, text): &(String, Answered<String>)| text.is_ok() || self.file_of(name).exists();
        Ok(files.filter(is_there).collect())
    }

    /// The names, sorted, also those that no request can name. Left out are hidden files, which editors make next to those that
    /// they change, and what is no file: reading a pipe would never end.
    fn names(&self) -> Answered<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.problem(&self.folder, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.problem(&self.folder, &error))?.path();
            if path.extension().is_some_and(|ending| ending == ENDING)
                && let Some(name) = path.file_stem().and_then(|name| name.to_str())
                && !name.starts_with('.')
                && fs::metadata(&path).is_ok_and(|about| about.is_file())
            {
                names.push(name.to_owned());
            }
            if names.len() >= FILES_MAX {
                break;
            }
        }
        names.sort();
        Ok(names)
    }

    pub(super) fn read(&self, name: &str) -> Answered<String> {
        let path = self.path(name)?;
        let mut text = String::new();
        // without waiting for whoever writes to a pipe
        let read = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).and_then(|mut file| {
            if !file.metadata()?.is_file() {
                return Err(io::ErrorKind::NotFound.into());
            }
            file.read_to_string(&mut text)
        });
        read.map_err(|error| self.problem(&path, &error))?;
        Ok(text)
    }

    /// Writes a file, if it is the one that the request is based on.
    pub(super) fn write(&self, name: &str, text: &str, based_on: &IfMatch) -> Answered<()> {
        let path = self.path(name)?;
        let unwritten = |error: io::Error| self.unwritten(&error);
        fs::create_dir_all(&self.folder).map_err(unwritten)?;
        let replacement = Replacement::begin(&path).map_err(unwritten)?;
        self.check(name, based_on)?;
        if !path.exists() && self.names()?.len() >= FILES_MAX {
            let (kind, count) = (self.kind, FILES_MAX);
            let problem =
                Problem::request(format!("{count} files are kept, and the {kind} '{name}' would be one more"));
            return Err(problem.with_hint("remove one first"));
        }
        replacement.write_as_own(text.as_bytes(), MODE).map_err(unwritten)
    }

    /// Removes a file, if it is the one that the request is based on.
    pub(super) fn remove(&self, name: &str, based_on: &IfMatch) -> Answered<()> {
        let path = self.path(name)?;
        let _others_wait = Replacement::begin(&path).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => self.unwritten(&error),
            _ => self.problem(&path, &error),
        })?;
        self.check(name, based_on)?;
        fs::remove_file(&path).map_err(|error| self.problem(&path, &error))
    }

    /// Refuses a change that is based on another content than there is, and one that was answered while it waited for others.
    fn check(&self, name: &str, based_on: &IfMatch) -> Answered<()> {
        if self.progress.as_ref().is_some_and(|progress| progress.is_stopped()) {
            return Err(Problem::cancelled(format!("the {} '{name}' is as it was: the request had ended", self.kind)));
        }
        let IfMatch { tags, none_of } = based_on;
        if tags.is_none() && none_of.is_none() {
            return Ok(());
        }
        let now = self.read(name).ok().map(|text| tag(&text));
        let is_now = |tag: &str| now.as_deref() == Some(tag);
        // a list of tags, or a star for whatever there is (RFC 9110 section 13.1.1)
        if let Some(tags) = tags
            && !listed(tags).any(|tag| is_now(tag) || (tag == "*" && self.file_of(name).is_file()))
        {
            let problem = Problem::changed(format!("the {} '{name}' is another one by now", self.kind));
            return Err(problem.with_hint("read it again, and change what is there now"));
        }
        // here the star is also for a file that cannot be read, and a weak tag is as good (section 13.1.2)
        let is_there = |tag: &str| match tag {
            "*" => self.file_of(name).exists(),
            tag => is_now(tag.strip_prefix("W/").unwrap_or(tag)),
        };
        if let Some(tags) = none_of
            && listed(tags).any(is_there)
        {
            let problem = Problem::changed(format!("there is a {} '{name}' by now", self.kind));
            return Err(problem.with_hint("read it, and change what is there, or choose another name"));
        }
        Ok(())
    }

    /// The file of a name. A name that is none leads nowhere.
    fn path(&self, name: &str) -> Answered<PathBuf> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let letters = name.chars().count();
        let detail = if letters > NAME_LETTERS_MAX {
            format!("{letters} letters are no name of a {}", self.kind)
        } else if name.is_empty() || !name.chars().all(is_fit) {
            format!("'{}' is no name of a {}", name.escape_debug(), self.kind)
        } else {
            return Ok(self.file_of(name));
        };
        Err(Problem::not_found(detail).with_hint(format!("write letters, digits, - and _, {NAME_LETTERS_MAX} at most")))
    }

    fn file_of(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ENDING}"))
    }

    fn unwritten(&self, error: &io::Error) -> Problem {
        let detail = format!("the {} cannot be written: {error}", self.kind);
        match error.kind() {
            io::ErrorKind::TimedOut => Problem::unavailable(detail),
            _ => Problem::internal(detail),
        }
    }

    fn problem(&self, path: &Path, error: &io::Error) -> Problem {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match error.kind() {
            io::ErrorKind::NotFound => Problem::not_found(format!("there is no {} '{name}'", self.kind)),
            io::ErrorKind::InvalidData => Problem::request(format!("the file of '{name}' is no text in UTF-8")),
            _ => Problem::internal(format!("'{name}' cannot be read: {error}")),
        }
    }
}

/// The tags of a list.
fn listed(tags: &str) -> impl Iterator<Item = &str> {
    tags.split(',').map(str::trim)
}

/// The header `ETag` of a text (RFC 9110 section 8.8.3).
pub(super) fn tag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// The same response with the tag of what it shows.
pub(super) fn with_tag(mut response: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::thread;

    use super::*;

    const ANY: IfMatch = IfMatch { tags: None, none_of: None };

    fn one_of(tags: &str) -> IfMatch {
        IfMatch { tags: Some(tags.to_owned()), none_of: None }
    }

    fn none_of(tags: &str) -> IfMatch {
        IfMatch { tags: None, none_of: Some(tags.to_owned()) }
    }

    fn names(files: &NamedFiles) -> Vec<String> {
        files.names().expect("names")
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let files = NamedFiles::new(PathBuf::from("watches"), "watch");
        let long = "a".repeat(5000);
        for name in ["", ".", "..", "../portscan", "a/b", "a\\b", "a.toml", "ä", "a b", &long] {
            assert_eq!(files.path(name).expect_err("no name").status, 404, "{name}");
        }
        assert!(files.path("port-scan_2").is_ok());
    }

    #[test]
    fn the_longest_name_has_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().to_owned(), "watch");
        let name = "a".repeat(NAME_LETTERS_MAX);
        files.write(&name, "title = 'A'", &ANY).expect("written");
        assert_eq!(files.read(&name).expect("read"), "title = 'A'");
    }

    #[test]
    fn files_are_written_listed_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().join("dashboards"), "dashboard");
        assert_eq!(names(&files), Vec::<String>::new());
        files.write("b", "title = 'B'", &ANY).expect("written");
        files.write("a", "title = 'A'", &ANY).expect("written");
        files.write("b", "title = 'C'", &ANY).expect("written again");
        assert_eq!(names(&files), ["a", "b"]);
        assert_eq!(files.read("b").expect("read"), "title = 'C'");
        files.remove("a", &ANY).expect("removed");
        assert_eq!(names(&files), ["b"]);
        let problem = files.remove("a", &ANY).expect_err("gone");
        assert_eq!((problem.status, problem.detail.as_str()), (404, "there is no dashboard 'a'"));
        for number in 1..FILES_MAX {
            fs::write(files.file_of(&format!("n{number}")), "").expect("written");
        }
        assert!(files.write("one-more", "", &ANY).is_err_and(|problem| problem.status == 400));
        files.write("b", "title = 'D'", &ANY).expect("what is there can be changed");
    }

    /// What editors leave next to a file, what people name as they like, and what is no file.
    #[test]
    fn one_file_that_cannot_be_read_hides_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().to_owned(), "dashboard");
        let path = |name: &str| folder.path().join(name);
        files.write("fine", "title = 'Fine'", &ANY).expect("written");
        // a lock of emacs, which leads nowhere
        symlink("ann@host.123", path(".#fine.toml")).expect("a link");
        fs::write(path("latin.toml"), b"title = 'Z\xfcrich'").expect("written");
        fs::write(path("my border.toml"), "title = 'Mine'").expect("written");
        fs::create_dir(path("folder.toml")).expect("a folder");
        assert!(Command::new("mkfifo").arg(path("pipe.toml")).status().expect("it runs").success());
        let all = files.all().expect("a list");
        let seen: Vec<(&str, Result<&str, u16>)> =
            all.iter().map(|(name, text)| (name.as_str(), text.as_deref().map_err(|problem| problem.status))).collect();
        assert_eq!(seen, [("fine", Ok("title = 'Fine'")), ("latin", Err(400)), ("my border", Err(404))]);
        assert_eq!(files.read("pipe").expect_err("no file").status, 404);
        assert_eq!(files.read("folder").expect_err("no file").status, 404);
    }

    #[test]
    fn a_change_of_what_somebody_else_has_changed_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().to_owned(), "watch");
        let based_on = |text: &str| one_of(&tag(text));
        assert_eq!(files.write("a", "mine", &one_of("*")).expect_err("none").status, 412);
        files.write("a", "old", &ANY).expect("written");
        files.write("a", "mine", &based_on("old")).expect("nobody was faster");
        let late = files.write("a", "theirs", &based_on("old")).expect_err("too late");
        assert_eq!((late.status, late.detail.as_str()), (412, "the watch 'a' is another one by now"));
        assert_eq!(files.remove("a", &based_on("old")).expect_err("too late").status, 412);
        assert_eq!(files.read("a").expect("read"), "mine");
        let several = one_of(&format!("{}, {}", tag("other"), tag("mine")));
        files.remove("a", &several).expect("one of them");
    }

    /// RFC 9110 section 13.1.1: the star is met by whatever there is.
    #[test]
    fn a_file_that_is_no_text_is_there_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().to_owned(), "watch");
        let star = one_of("*");
        fs::write(folder.path().join("latin.toml"), b"title = 'Z\xfcrich'").expect("written");
        assert_eq!(files.write("latin", "new", &one_of(&tag("old"))).expect_err("another one").status, 412);
        files.write("latin", "title = 'Zürich'", &star).expect("it is there");
        assert_eq!(files.read("latin").expect("text now"), "title = 'Zürich'");
        fs::create_dir(folder.path().join("folder.toml")).expect("a folder");
        assert_eq!(files.remove("folder", &star).expect_err("no file").status, 412);
    }

    #[test]
    fn a_change_whose_request_has_ended_is_not_made_any_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let progress = Arc::new(Progress::default());
        let files = NamedFiles::new(folder.path().to_owned(), "watch");
        let files = NamedFiles { progress: Some(Arc::clone(&progress)), ..files };
        files.write("a", "old", &ANY).expect("somebody waits for it");
        progress.stop();
        let late = files.write("a", "new", &ANY).expect_err("it was answered");
        assert_eq!((late.status, late.detail.as_str()), (409, "the watch 'a' is as it was: the request had ended"));
        assert_eq!(files.remove("a", &ANY).expect_err("it was answered").status, 409);
        assert_eq!(files.read("a").expect("read"), "old");
    }

    #[test]
    fn a_new_file_takes_the_place_of_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().to_owned(), "dashboard");
        files.write("a", "mine", &none_of("*")).expect("there is none");
        let late = files.write("a", "theirs", &none_of("*")).expect_err("it is there");
        assert_eq!((late.status, late.detail.as_str()), (412, "there is a dashboard 'a' by now"));
        let weak = format!("{}, W/{}", tag("other"), tag("mine"));
        assert_eq!(files.write("a", "theirs", &none_of(&weak)).expect_err("it is one of them").status, 412);
        assert_eq!(files.read("a").expect("read"), "mine");
        files.write("a", "theirs", &none_of(&tag("other"))).expect("it is another one");
        // one that cannot be read is there as well
        fs::write(files.file_of("latin"), b"title = 'Z\xfcrich'").expect("written");
        assert_eq!(files.write("latin", "new", &none_of("*")).expect_err("it is there").status, 412);
    }

    /// With one name for all new files some writes fail, and files are mixtures.
    #[test]
    fn files_that_are_written_at_the_same_time_are_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().to_owned(), "watch");
        let text = |number: usize| number.to_string().repeat(50_000 + number);
        let texts: Vec<String> = (0..4).map(text).collect();
        files.write("a", &texts[0], &ANY).expect("written");
        thread::scope(|scope| {
            for text in &texts {
                let (files, texts) = (&files, &texts);
                scope.spawn(move || {
                    for _ in 0..20 {
                        files.write("a", text, &ANY).expect("written");
                        assert!(texts.contains(&files.read("a").expect("read")), "a mixture");
                    }
                });
            }
        });
        // one of many writers, each based on what it read, is the one that changes it
        let before = one_of(&tag(&files.read("a").expect("read")));
        let written = thread::scope(|scope| {
            let (files, before) = (&files, &before);
            let write = move |number: usize| files.write("a", &format!("title = '{number}'"), before).is_ok();
            let writers: Vec<_> = (0..4).map(|number| scope.spawn(move || write(number))).collect();
            writers.into_iter().map(|writer| writer.join().expect("it ends")).filter(|is_written| *is_written).count()
        });
        assert_eq!(written, 1);
    }
}
