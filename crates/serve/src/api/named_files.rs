//! Files of a folder that requests name.
//!
//! A name is letters, digits, `-` and `_`, so that no path leads out of the folder. A file is written beside the one before
//! and takes its place, so that whoever reads it has one or the other.

use std::io;
use std::path::{Path, PathBuf};

use crate::problem::{Answered, Problem};

/// Files at most.
const FILES_MAX: usize = 1000;
/// The ending of all of them.
const ENDING: &str = "toml";

/// Files of one kind.
#[derive(Debug, Clone)]
pub(super) struct NamedFiles {
    folder: PathBuf,
    /// What a file is called in errors: watch, dashboard.
    kind: &'static str,
}

impl NamedFiles {
    pub(super) fn new(folder: PathBuf, kind: &'static str) -> Self {
        Self { folder, kind }
    }

    /// The names, sorted. A folder that is not there has none.
    pub(super) fn names(&self) -> Answered<Vec<String>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.problem(&self.folder, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.problem(&self.folder, &error))?.path();
            if path.extension().is_some_and(|ending| ending == ENDING)
                && let Some(name) = path.file_stem().and_then(|name| name.to_str())
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
        std::fs::read_to_string(&path).map_err(|error| self.problem(&path, &error))
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Answered<()> {
        let path = self.path(name)?;
        if !path.exists() && self.names()?.len() >= FILES_MAX {
            let (kind, count) = (self.kind, FILES_MAX);
            let problem =
                Problem::request(format!("{count} files are kept, and the {kind} '{name}' would be one more"));
            return Err(problem.with_hint("remove one first"));
        }
        let new = path.with_extension(format!("{ENDING}.new"));
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&new, text))
            .and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|error| Problem::internal(format!("the {} cannot be written: {error}", self.kind)))
    }

    pub(super) fn remove(&self, name: &str) -> Answered<()> {
        let path = self.path(name)?;
        std::fs::remove_file(&path).map_err(|error| self.problem(&path, &error))
    }

    /// The file of a name. A name that is none leads nowhere.
    fn path(&self, name: &str) -> Answered<PathBuf> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_fit) {
            return Err(Problem::not_found(format!("'{}' is no name of a {}", name.escape_debug(), self.kind))
                .with_hint("write letters, digits, - and _"));
        }
        Ok(self.folder.join(format!("{name}.{ENDING}")))
    }

    fn problem(&self, path: &Path, error: &io::Error) -> Problem {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match error.kind() {
            io::ErrorKind::NotFound => Problem::not_found(format!("there is no {} '{name}'", self.kind)),
            _ => Problem::internal(format!("'{name}' cannot be read: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let files = NamedFiles::new(PathBuf::from("watches"), "watch");
        for name in ["", ".", "..", "../portscan", "a/b", "a\\b", "a.toml", "ä", "a b"] {
            assert_eq!(files.path(name).expect_err("no name").status, 404, "{name}");
        }
        assert!(files.path("port-scan_2").is_ok());
    }

    #[test]
    fn files_are_written_listed_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = NamedFiles::new(folder.path().join("dashboards"), "dashboard");
        assert_eq!(files.names().expect("none yet"), Vec::<String>::new());
        files.write("b", "title = 'B'").expect("written");
        files.write("a", "title = 'A'").expect("written");
        files.write("b", "title = 'C'").expect("written again");
        assert_eq!(files.names().expect("names"), ["a", "b"]);
        assert_eq!(files.read("b").expect("read"), "title = 'C'");
        files.remove("a").expect("removed");
        assert_eq!(files.names().expect("names"), ["b"]);
        let problem = files.remove("a").expect_err("gone");
        assert_eq!((problem.status, problem.detail.as_str()), (404, "there is no dashboard 'a'"));
        for number in 1..FILES_MAX {
            files.write(&format!("n{number}"), "").expect("written");
        }
        assert!(files.write("one-more", "").is_err_and(|problem| problem.status == 400));
        files.write("b", "title = 'D'").expect("what is there can be changed");
    }
}
