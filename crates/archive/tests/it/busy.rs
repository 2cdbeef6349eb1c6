//! Files that cannot be replaced or removed, while everything else can.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_archive::{
    Action, ArchiveError, ArchiveOptions, CompactionOptions, ExpiryOptions, Position, Snapshot, Writer,
    commits_since_checkpoint, expire, inventory,
};
use weir_flow::Table;

use crate::numbered::delivery;

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
    // in memory, where there is such a place: many files are synced
    let memory = ["/dev/shm", "/tmp"].into_iter().find(|dir| Path::new(dir).is_dir()).unwrap_or(".");
    let dir = tempfile::tempdir_in(memory).expect("a folder");
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

#[test]
fn a_file_that_cannot_be_removed_keeps_no_other_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let options = ArchiveOptions { segment_rows_max: 100, compaction, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    for number in 1..=100 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
    let paths = || {
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        snapshot.segments(Table::Flows).iter().map(weir_archive::Segment::path).collect::<Vec<PathBuf>>()
    };
    let before = paths();
    let Some(busy) = BusyFile::at(before.first().expect("segments")) else { return };
    let everything = ExpiryOptions { age_max: Some(Duration::ZERO), ..ExpiryOptions::default() };
    for _ in 0..2 {
        let expired = expire(dir.path(), &everything, false);
        let Err(ArchiveError::Io { action: Action::RemoveSegment, path, .. }) = &expired else { panic!("{expired:?}") };
        assert_eq!(*path, busy.0);
        let left: Vec<&PathBuf> = before.iter().filter(|path| path.exists()).collect();
        assert_eq!((left.len(), left.first()), (1 + paths().len(), Some(&&busy.0)), "{left:?}");
    }
    drop(busy);
    expire(dir.path(), &everything, false).expect("it can be removed");
    assert_eq!(inventory(dir.path()).expect("an inventory").pending, Vec::<PathBuf>::new());
    assert!(before.iter().filter(|path| path.exists()).eq(&paths()));
}
