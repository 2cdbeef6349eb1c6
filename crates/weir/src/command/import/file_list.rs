//! The files that a directory has, and those below it.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds a file, or all files of a directory and those below it, by their names.
pub(super) fn add_files(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // a link to a directory may lead round in a circle
        let followed = !entry.is_symlink() || entry.is_file();
        if !hidden && followed {
            add_files(&entry, files)?;
        }
    }
    Ok(())
}
