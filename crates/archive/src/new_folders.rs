//! The folders that opening an archive will create, so that they can be removed when the archive is not used.
//!
//! A process creates its archive before it has flows, so that flows have a place. When it gets none, because a name is misspelt
//! for instance, an empty archive would remain, which the next command would take for a real one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{ArchiveError, Writer};

/// The folders of an archive that did not exist before it was created. The default is none.
#[derive(Debug, Default)]
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// The folders that do not exist yet, taken before the archive is created: its own, then those above it. There are none when
    /// the folder of the archive is there.
    pub fn of(archive: &Path) -> Self {
        let is_new = |folder: &&Path| folder.try_exists().is_ok_and(|is_there| !is_there);
        let named = archive.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        Self(named.take_while(is_new).map(Path::to_owned).collect())
    }

    /// The folder of the archive, if it was new.
    pub fn archive(&self) -> Option<&Path> {
        self.0.first().map(PathBuf::as_path)
    }

    /// Forgets the folders, because the archive is used.
    pub fn keep(&mut self) {
        self.0.clear();
    }

    /// Removes the archive of `writer`, as [`Writer::remove`] does, and then the new folders above it. One that others have put
    /// something into stays, and those above it.
    pub fn remove(&self, writer: Writer) -> Result<(), ArchiveError> {
        writer.remove()?;
        // an error is that of a folder that is used
        drop(self.0.iter().skip(1).try_for_each(fs::remove_dir));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArchiveOptions;

    #[test]
    fn only_folders_that_were_not_there_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (above, archive) = (folder.path().join("above"), folder.path().join("above").join("archive"));
        let new_folders = NewFolders::of(&archive);
        assert_eq!(new_folders.archive(), Some(archive.as_path()));
        let (writer, _) = Writer::open(&archive, ArchiveOptions::default()).expect("an archive");
        assert_eq!(NewFolders::of(&archive).archive(), None, "it is there by now");
        new_folders.remove(writer).expect("removed");
        assert!(!above.exists() && folder.path().exists());
        // and one above that has something else in it
        let (writer, _) = Writer::open(&archive, ArchiveOptions::default()).expect("an archive");
        fs::write(above.join("other"), b"of others").expect("written");
        new_folders.remove(writer).expect("removed");
        assert!(!archive.exists() && above.exists());
    }
}
