//! Which nfcapd files an archive has already.
//!
//! A file of the archive has a line before files are read, and one for each when its flows are stored; the first kind says
//! how many rows the archive had. So after a kill it shows whether nothing of the files is in the archive, all of them, or
//! a part that nothing can tell apart.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Where in an archive it is.
const FOLDER: &str = "import";
const FILE: &str = "nfcapd-files.tsv";

/// Words that lines begin with.
const BEGIN: &str = "begin";
const DONE: &str = "done";

/// The files that were imported, with the octets that they had.
#[derive(Debug)]
pub(super) struct ImportedFiles {
    path: PathBuf,
    log: File,
    done: HashMap<PathBuf, u64>,
    /// Rows of the archive before files of which nothing says that they were stored, and the files.
    begun: Option<(u64, Vec<PathBuf>)>,
}

impl ImportedFiles {
    /// Reads what is known of an archive, which may not be there yet.
    pub(super) fn open(archive: &Path) -> anyhow::Result<Self> {
        let folder = archive.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(FILE);
        let failed = || format!("cannot read {}", path.display());
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other.with_context(failed)?,
        };
        let mut log = OpenOptions::new().create(true).append(true).open(&path).with_context(failed)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // a line that a crash cut short
            log.write_all(b"\n").with_context(failed)?;
        }
        let mut found = Self { path: path.clone(), log, done: HashMap::new(), begun: None };
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).for_each(|line| found.take(line));
        Ok(found)
    }

    fn take(&mut self, line: &str) {
        let mut fields = line.splitn(3, '\t');
        let (Some(word), Some(number), Some(path)) = (fields.next(), fields.next(), fields.next()) else { return };
        let Ok(number) = number.parse() else { return };
        match word {
            BEGIN => match &mut self.begun {
                Some((rows, paths)) if *rows == number => paths.push(path.into()),
                begun => *begun = Some((number, vec![path.into()])),
            },
            DONE => {
                self.done.insert(path.into(), number);
                if let Some((_, paths)) = &mut self.begun {
                    paths.retain(|begun| begun != Path::new(path));
                }
                self.begun = self.begun.take().filter(|(_, paths)| !paths.is_empty());
            }
            _ => {}
        }
    }

    /// The octets that a file had when it was imported.
    pub(super) fn octets_of(&self, path: &Path) -> Option<u64> {
        self.done.get(path).copied()
    }

    /// Takes the files of which a process that was killed did not say that they are stored, with the rows of the archive
    /// before them.
    pub(super) fn take_begun(&mut self) -> Option<(u64, Vec<PathBuf>)> {
        self.begun.take()
    }

    /// Writes down that files are about to be read into an archive of this many rows.
    pub(super) fn begin(&mut self, files: &[PathBuf], rows: u64) -> anyhow::Result<()> {
        let lines: Vec<_> = files.iter().map(|path| format!("{BEGIN}\t{rows}\t{}\n", path.display())).collect();
        self.append(&lines.concat())
    }

    /// Writes down that the flows of files, each with its octets, are stored.
    pub(super) fn done(&mut self, files: &[(PathBuf, u64)]) -> anyhow::Result<()> {
        let line = |(path, octets): &(PathBuf, u64)| format!("{DONE}\t{octets}\t{}\n", path.display());
        self.append(&files.iter().map(line).collect::<Vec<_>>().concat())?;
        self.done.extend(files.iter().cloned());
        Ok(())
    }

    fn append(&mut self, lines: &str) -> anyhow::Result<()> {
        let written = self.log.write_all(lines.as_bytes()).and_then(|()| self.log.sync_data());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_known_after_a_crash() {
        let archive = tempfile::tempdir().expect("a folder");
        let [one, two] = ["/flows/nfcapd.202611220000", "/flows/nfcapd.202611220005"].map(PathBuf::from);
        let mut files = ImportedFiles::open(archive.path()).expect("opens");
        files.begin(&[one.clone(), two.clone()], 7).expect("written");
        files.done(&[(one.clone(), 100)]).expect("written");
        drop(files);
        let path = archive.path().join(FOLDER).join(FILE);
        let text = fs::read_to_string(&path).expect("read");
        fs::write(&path, format!("{text}done\t10")).expect("written");
        let mut files = ImportedFiles::open(archive.path()).expect("opens");
        assert_eq!((files.octets_of(&one), files.octets_of(&two)), (Some(100), None));
        assert_eq!(files.take_begun(), Some((7, vec![two.clone()])));
        files.done(&[(two.clone(), 50)]).expect("written");
        drop(files);
        let mut files = ImportedFiles::open(archive.path()).expect("opens");
        assert_eq!((files.octets_of(&two), files.take_begun()), (Some(50), None));
    }
}
