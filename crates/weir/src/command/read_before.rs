//! Files whose flows an archive has already.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tracing::warn;
use weir_archive::{EarlierContent, EarlierFiles, ReadFile, SourceFile, SourceFiles};
use weir_capture::Input;
use weir_chain::FileEnd;

/// What standard input is called, and where the system has it.
const STANDARD_INPUT: (&str, &str) = ("-", "/dev/stdin");

/// What files are compared with, and what is to be noted of them once their flows are in the archive.
pub(crate) struct ReadBefore {
    known: SourceFiles,
    earlier: EarlierFiles,
    new: Vec<NewFile>,
}

/// A file that is about to be read.
struct NewFile {
    path: PathBuf,
    file: SourceFile,
    /// What is in it when it is compressed: the same capture is known whether it is compressed or not.
    unpacked: Option<SourceFile>,
    /// Whether a command before this one began it, and may have stored a part of its flows.
    was_begun: bool,
}

/// Which files are read although the archive has flows of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Nothing,
    /// Those that a command was reading when it did not come to its end.
    Begun,
    All,
}

impl NewFile {
    fn contents(&self) -> impl Iterator<Item = SourceFile> {
        std::iter::once(self.file).chain(self.unpacked)
    }

    fn has_content_of(&self, other: &Self) -> bool {
        self.contents().any(|content| other.contents().any(|other| other == content))
    }
}

impl ReadBefore {
    /// Takes away the files that the archive has the flows of, or some of them, and says so. All stay when they are read
    /// `again`, and so does what cannot be read: whoever reads it says what is wrong. What is no file can be read only once,
    /// so it stays, and a line says that it is not compared.
    pub(crate) fn leave_out(archive: &Path, files: &mut Vec<PathBuf>, again: bool) -> anyhow::Result<Self> {
        Self::compare(archive, files, if again { Again::All } else { Again::Nothing })
    }

    /// The same where nobody looks on who could ask for a file again. A file that was read in part is read from its begin
    /// with a warning, for flows that come twice can be seen, and the rest would be lost.
    pub(crate) fn leave_out_read(archive: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<Self> {
        Self::compare(archive, files, Again::Begun)
    }

    fn compare(archive: &Path, files: &mut Vec<PathBuf>, again: Again) -> anyhow::Result<Self> {
        let known = SourceFiles::of(archive)?;
        let mut found = Self { earlier: EarlierFiles::of(&known), known, new: Vec::new() };
        let before = files.len();
        let mut wanted = Vec::new();
        for path in files.drain(..) {
            if found.is_wanted(&path, again) {
                wanted.push(path);
            }
        }
        *files = wanted;
        let left_out = before - files.len();
        if left_out > 0 {
            eprintln!("{left_out} of {before} files left out\nhint: --again reads them again");
        }
        Ok(found)
    }

    /// Whether a file is to be read; says why when it is not.
    fn is_wanted(&mut self, path: &Path, again: Again) -> bool {
        let place = if path.as_os_str() == STANDARD_INPUT.0 { Path::new(STANDARD_INPUT.1) } else { path };
        if !place.is_file() {
            if place.exists() && again != Again::All {
                let name = if place == path { path.display().to_string() } else { "standard input".to_owned() };
                eprintln!("{name} is not a file: whether the archive has its flows already is not checked");
            }
            return true;
        }
        let Ok(file) = SourceFile::of(place) else { return true };
        let is_known = self.known.read_as(&file).is_some();
        let unpacked = if is_known { None } else { unpacked(place) };
        let mut new = NewFile { path: path.to_owned(), file, unpacked, was_begun: false };
        let begun = new.contents().find_map(|content| self.known.begun_as(&content));
        new.was_begun = begun.is_some();
        if again != Again::All {
            for content in new.contents() {
                let Some(name) = self.known.read_as(&content) else { continue };
                let what = if self.known.was_damaged(&content) {
                    "all that can be read of it, for it is damaged"
                } else {
                    "its flows"
                };
                eprintln!("{} is left out: the archive has {what}{}", path.display(), as_what(name, path));
                return false;
            }
            if let Some(name) = begun {
                let (path, name) = (path.display(), as_what(name, path));
                if again == Again::Nothing {
                    eprintln!(
                        "{path} is left out: a command that was reading it did not come to its end, and the archive may \
                         have a part of its flows{name}"
                    );
                    return false;
                }
                warn!(
                    "{path} is read from its begin: a command that was reading it did not come to its end, and flows that it \
                     stored are in the archive twice{name}"
                );
            }
            if let Some(other) = self.new.iter().find(|other| other.has_content_of(&new)) {
                if other.path == path {
                    eprintln!("{} is left out: it is named twice", path.display());
                } else {
                    eprintln!("{} is left out: it has the content of {}", path.display(), other.path.display());
                }
                return false;
            }
            if place == path && begun.is_none() {
                warn_of_earlier_content(&self.earlier, path);
            }
        }
        self.new.push(new);
        true
    }

    /// Takes down each file before its first flows come to the archive.
    pub(crate) fn begun_taker(&self) -> impl Fn(&Path) + Send + Sync + 'static + use<> {
        let begun = self.known.begun_files();
        let new = self.new.iter().map(|new| (new.path.clone(), new.contents().collect::<Vec<_>>()));
        let new: HashMap<PathBuf, Vec<SourceFile>> = new.collect();
        move |path| {
            for file in new.get(path).into_iter().flatten() {
                if let Err(error) = begun.add(*file, path) {
                    warn!("{} will not be recognized if this command is killed: {error}", path.display());
                }
            }
        }
    }

    /// Notes the files that were read, of those that were about to be: what was read of them is in the archive.
    pub(crate) fn note(&mut self, read: &[(PathBuf, FileEnd)]) -> anyhow::Result<()> {
        let read: HashMap<&Path, FileEnd> = read.iter().map(|(path, end)| (path.as_path(), *end)).collect();
        let files = self.new.iter().filter_map(|new| {
            let is_damaged = *read.get(new.path.as_path())? == FileEnd::Damaged;
            Some(new.contents().map(move |file| ReadFile { file, path: &new.path, is_damaged }))
        });
        let files: Vec<_> = files.flatten().collect();
        if !files.is_empty() {
            self.known.add(files)?;
        }
        Ok(())
    }

    /// Takes back that files were begun: neither flows nor counters came to the archive of any of them, so that none come twice,
    /// but its books count what was read again. Of files that a command before this one began, the archive may have a part.
    pub(crate) fn forget_begun(&mut self) -> anyhow::Result<()> {
        let files: Vec<_> = self.new.iter().filter(|new| !new.was_begun).flat_map(NewFile::contents).collect();
        Ok(self.known.forget_begun(files)?)
    }
}

/// Warns when flows of a file that is read come twice: the archive has those of a part that the file had before.
fn warn_of_earlier_content(earlier: &EarlierFiles, path: &Path) {
    let Ok(content) = Input::open(path) else { return };
    let shown = path.display();
    match earlier.content_before(path, content) {
        Ok(Some(EarlierContent::Beginning(name))) => {
            warn!("{shown} has grown since it was read: what it had then comes twice{}", as_what(&name, path));
        }
        Ok(Some(EarlierContent::Other)) => {
            warn!("{shown} was read before and had other content: what it had then as well comes twice");
        }
        // whoever reads it says what is wrong with it
        Ok(None) | Err(_) => {}
    }
}

/// What is in a compressed file; `None` when it is not compressed, and when it cannot be unpacked to its end.
fn unpacked(path: &Path) -> Option<SourceFile> {
    let input = Input::open(path).ok().filter(Input::is_compressed)?;
    SourceFile::read(input).ok()
}

fn as_what(name: &str, path: &Path) -> String {
    if Path::new(name) == path { String::new() } else { format!(", read from {name}") }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn who_follows_a_folder_reads_files_that_were_read_in_part() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, archive] = ["nfcapd.202611240000", "archive"].map(|name| folder.path().join(name));
        fs::write(&file, "flows").expect("written");
        fs::create_dir(&archive).expect("a folder");
        let files = || vec![file.clone()];
        let begun = SourceFiles::of(&archive).expect("nothing yet").begun_files();
        begun.add(SourceFile::of(&file).expect("readable"), &file).expect("written");
        let mut wanted = files();
        ReadBefore::leave_out(&archive, &mut wanted, false).expect("compared");
        assert_eq!(wanted, Vec::<PathBuf>::new());
        wanted = files();
        let mut before = ReadBefore::leave_out_read(&archive, &mut wanted).expect("compared");
        assert_eq!(wanted, files());
        // and once it is read to its end, not again
        before.note(&[(file.clone(), FileEnd::Whole)]).expect("noted");
        ReadBefore::leave_out_read(&archive, &mut wanted).expect("compared");
        assert_eq!(wanted, Vec::<PathBuf>::new());
    }
}
