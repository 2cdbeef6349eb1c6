//! Files whose flows an archive has already.

use std::path::{Path, PathBuf};

use weir_archive::{SourceFile, SourceFiles};

/// What files are compared with, and what is to be noted of them once their flows are in the archive.
pub(crate) struct ReadBefore {
    known: SourceFiles,
    new: Vec<(SourceFile, PathBuf)>,
}

impl ReadBefore {
    /// Takes away the files that the archive has the flows of, and says so. All stay when they are read `again`, and so
    /// does what is no file or cannot be read: whoever reads it says what is wrong.
    pub(crate) fn leave_out(archive: &Path, files: &mut Vec<PathBuf>, again: bool) -> anyhow::Result<Self> {
        let mut found = Self { known: SourceFiles::of(archive)?, new: Vec::new() };
        let (mut left_out, before) = (0, files.len());
        files.retain(|path| {
            let Some(file) = path.is_file().then(|| SourceFile::of(path).ok()).flatten() else { return true };
            let is_twice = found.new.iter().any(|(other, _)| *other == file);
            match found.known.read_as(&file) {
                Some(name) if !again => {
                    eprintln!("{} is left out: the archive has its flows{}", path.display(), as_what(name, path));
                }
                None if is_twice && !again => eprintln!("{} is left out: it is named twice", path.display()),
                _ => {
                    found.new.push((file, path.clone()));
                    return true;
                }
            }
            left_out += 1;
            false
        });
        if left_out > 0 {
            eprintln!("{left_out} of {before} files left out\nhint: --again reads them again");
        }
        Ok(found)
    }

    /// Notes the files: all their flows are in the archive.
    pub(crate) fn note(mut self) -> anyhow::Result<()> {
        if !self.new.is_empty() {
            self.known.add(self.new.iter().map(|(file, path)| (*file, path.as_path())))?;
        }
        Ok(())
    }
}

fn as_what(name: &str, path: &Path) -> String {
    if Path::new(name) == path { String::new() } else { format!(", read from {name}") }
}
