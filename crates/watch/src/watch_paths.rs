//! Where watch files are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::WatchError;

/// Watch files by path, with when they were changed, where the file system tells, and their length in octets.
pub type WatchPaths = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Looks up watch files. A folder stands for its files that end in `.toml`, but for folders and pipes, whatever their name:
/// reading a pipe would never end; and for hidden files, which editors make next to those that they change. Without any file
/// that is an error.
pub fn watch_paths(given: &[PathBuf]) -> Result<WatchPaths, WatchError> {
    let found = looked_up(given)?;
    if found.is_empty() { Err(WatchError::NoFiles) } else { Ok(found) }
}

/// Refuses a file among those that were found when another one, before it in their order, has its name: a watch is named by
/// its file, and only one of a name can run.
pub fn check_name(found: &WatchPaths, path: &Path) -> Result<(), WatchError> {
    let name = name_of(path);
    let mut before = found.keys().take_while(|other| other.as_path() != path);
    match before.find(|other| name_of(other) == name) {
        Some(other) => Err(WatchError::TwoOfName { name, other: Some(other.clone()) }),
        None => Ok(()),
    }
}

/// The name of the watch of a file: that of the file without its ending.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// As [`watch_paths`], of those that are there; there may be none.
pub(crate) fn watch_paths_there(given: &[PathBuf]) -> Result<WatchPaths, WatchError> {
    let there = given.iter().filter(|path| path.try_exists().unwrap_or(true)).cloned().collect::<Vec<_>>();
    looked_up(&there)
}

fn looked_up(given: &[PathBuf]) -> Result<WatchPaths, WatchError> {
    let mut found = BTreeMap::new();
    for path in given {
        let unreadable = |source| WatchError::Read { path: path.clone(), source };
        let about = fs::metadata(path).map_err(unreadable)?;
        if !about.is_dir() {
            found.insert(path.clone(), (about.modified().ok(), about.len()));
            continue;
        }
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.extension().is_some_and(|ending| ending == "toml")
                && !is_hidden
                && let Ok(about) = fs::metadata(&path)
                && about.is_file()
            {
                found.insert(path, (about.modified().ok(), about.len()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_no_watch_of_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("count.toml"), "").expect("written");
        fs::create_dir(folder.path().join("folder.toml")).expect("a folder");
        std::os::unix::fs::symlink("ann@host.123", folder.path().join("gone.toml")).expect("a link");
        for hidden in [".#count.toml", ".old.toml"] {
            fs::write(folder.path().join(hidden), "").expect("written");
        }
        let found = watch_paths(&[folder.path().to_owned()]).expect("one");
        assert_eq!(found.keys().collect::<Vec<_>>(), [&folder.path().join("count.toml")]);
        // one that is named is meant
        let named = folder.path().join(".old.toml");
        assert_eq!(watch_paths(std::slice::from_ref(&named)).expect("one").keys().collect::<Vec<_>>(), [&named]);
    }
}
