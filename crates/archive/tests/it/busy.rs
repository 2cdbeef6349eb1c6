//! Files that cannot be replaced or removed, while everything else can.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_archive::{ArchiveOptions, Writer, commits_since_checkpoint};

/// A file that is in use as a mount of itself: it can be read, and neither removed nor replaced.
struct BusyFile(PathBuf);

impl BusyFile {
    /// `None` when this process may not mount.
    fn at(path: &Path) -> Option<Self> {
        match Command::new("mount").arg("--bind").args([path, path]).output() {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            _ => {
                weir_testkit::skip("root", "mounting a file needs root");
                None
            }
        }
    }
}

impl Drop for BusyFile {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn commits_count_without_their_checkpoint_and_the_next_one_makes_it() {
    let dir = tempfile::tempdir().expect("a folder");
    // each opening is a commit
    let open = || drop(Writer::open(dir.path(), ArchiveOptions::default()).expect("the archive opens"));
    open();
    let Some(busy) = BusyFile::at(&dir.path().join("manifest/checkpoint")) else { return };
    (0..35).for_each(|_| open());
    assert_eq!(commits_since_checkpoint(dir.path()).expect("readable"), 36);
    drop(busy);
    open();
    assert_eq!(commits_since_checkpoint(dir.path()).expect("readable"), 0);
}
