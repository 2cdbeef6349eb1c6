//! The files that a directory has, and those below it.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;
use weir_capture::{CaptureError, CaptureReader, Input, looks_like_messages};
use weir_formats::Format;

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

/// Leaves out those of the files from `first` on that are of no format that is read. They were found in a directory, where
/// other files may be as well; one that somebody names is an error.
pub(super) fn leave_out_unknown(files: &mut Vec<PathBuf>, first: usize) {
    let found = files.split_off(first);
    let (unknown, known): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| is_of_no_format(path));
    for path in unknown {
        warn!("{} is of no known format, and is left out", path.display());
    }
    files.extend(known);
}

/// Whether a file begins as none that is read does. What cannot be read is reported by its reader.
fn is_of_no_format(path: &Path) -> bool {
    if !path.is_file() || !matches!(Format::of_file(path), Ok(None)) {
        return false;
    }
    let Ok(mut input) = Input::open(path) else { return false };
    let has_messages = input.first_octets().is_ok_and(looks_like_messages);
    !has_messages && matches!(CaptureReader::open(input), Err(CaptureError::NotACapture(_) | CaptureError::Empty))
}
