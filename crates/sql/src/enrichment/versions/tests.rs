use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// 2025-11-24T16:00:00Z
const DAY_1_MS: i64 = 1_764_000_000_000;
const DAY_MS: i64 = 86_400_000;

fn text(path: &Path) -> Result<String, EngineError> {
    fs::read_to_string(path).map_err(EngineError::enrichment)
}

fn write(path: &Path, text: &str, changed_ms: i64) {
    fs::write(path, text).expect("written");
    let changed = UNIX_EPOCH + Duration::from_millis(changed_ms as u64);
    fs::File::options().append(true).open(path).and_then(|file| file.set_modified(changed)).expect("changed");
}

/// A file that was kept as `one`, `two` and `three` of three days.
fn kept(folder: &Path) -> VersionedFile {
    let path = folder.join("file");
    let file = VersionedFile {
        name: "test",
        path: Some(path.clone()),
        folder: Some(folder.join("versions")),
        limits: Some(VersionLimits::default()),
    };
    for (day, content) in [(0, "one"), (1, "two"), (2, "three")] {
        write(&path, content, DAY_1_MS + day * DAY_MS);
        let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
        tables.unkept().expect("it is new").keep();
    }
    file
}

/// Where a version is kept.
fn version_path(file: &VersionedFile, content: &str) -> PathBuf {
    let entries = fs::read_dir(file.folder.as_ref().expect("a folder")).expect("a folder");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| fs::read_to_string(path).is_ok_and(|text| text == content)).expect("a version")
}

/// Changes the octets of a version.
fn damage(file: &VersionedFile, content: &str) {
    fs::write(version_path(file, content), "?").expect("written");
}

/// What is found from before the first day to after the last one.
fn found(tables: &VersionedTable<String>) -> [Option<String>; 5] {
    [-1, 0, 1, 2, 9].map(|day| at(tables, Some(DAY_1_MS + day * DAY_MS)))
}

fn at(tables: &VersionedTable<String>, at_ms: Option<i64>) -> Option<String> {
    tables.at(at_ms).map(|table| table.as_ref().clone())
}

fn all(texts: [&str; 5]) -> [Option<String>; 5] {
    texts.map(|text| Some(text.to_owned()))
}

#[test]
fn a_version_is_used_for_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path());
    let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    assert!(tables.has_several() && tables.unkept().is_none(), "the same content is no new version");
    assert_eq!(found(&tables), all(["one", "one", "two", "three", "three"]));
    assert_eq!(at(&tables, Some(DAY_1_MS + DAY_MS - 1)).as_deref(), Some("one"));
    assert_eq!(at(&tables, None).as_deref(), Some("three"));
    let times = [Some(1), Some(0), None, Some(-1), Some(2)].map(|day| day.map(|day: i64| DAY_1_MS + day * DAY_MS));
    let times = TimestampMillisecondArray::from(times.to_vec());
    let mut by_row = TablesByRow::new(Some(&tables), Some(&times));
    let rows: Vec<_> = (0..5).filter_map(|row| by_row.table(row).cloned()).collect();
    assert_eq!(rows, ["two", "one", "three", "one", "three"]);
    // it holds the tables of its batch
    drop(by_row);
    let changed = |from, until| tables.changed_within(DAY_1_MS + from * DAY_MS, DAY_1_MS + until * DAY_MS);
    assert_eq!(changed(0, 3), Some(DAY_1_MS + 2 * DAY_MS));
    assert_eq!(changed(0, 2), Some(DAY_1_MS + DAY_MS), "the end of a window is not in it");
    assert_eq!((changed(0, 1), changed(2, 9)), (None, None));
    assert_eq!(tables.into_table(DAY_1_MS).as_deref(), Some("one"));
}

#[test]
fn without_the_file_there_are_its_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = VersionedFile { path: None, ..kept(folder.path()) };
    let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    assert_eq!(found(&tables), all(["one", "one", "two", "three", "three"]));
    let nowhere = VersionedFile { folder: Some(folder.path().join("none")), ..file };
    assert!(VersionedTable::load(&nowhere, text).expect("nothing is wrong").is_none());
}

#[test]
fn who_only_reads_keeps_nothing_and_may_name_another_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = VersionedFile { limits: None, ..kept(folder.path()) };
    // the file itself, changed since its last version was kept
    write(file.path.as_ref().expect("a path"), "four", DAY_1_MS + 3 * DAY_MS);
    let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    assert_eq!(found(&tables), all(["one", "one", "two", "three", "four"]));
    assert!(tables.unkept().is_none());
    let other = folder.path().join("other");
    write(&other, "other", DAY_1_MS);
    let other = VersionedFile { path: Some(other), ..file };
    let tables = VersionedTable::load(&other, text).expect("readable").expect("a table");
    assert_eq!(found(&tables), all(["other"; 5]));
}

#[test]
fn a_neighbour_stands_in_for_a_damaged_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path());
    damage(&file, "two");
    let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    assert_eq!(found(&tables), all(["one", "one", "one", "three", "three"]), "the older one");
    damage(&file, "one");
    let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    assert_eq!(found(&tables), all(["three"; 5]), "the newer one where there is no older one");
    damage(&file, "three");
    let alone = VersionedFile { path: None, ..file };
    let tables = VersionedTable::load(&alone, text).expect("readable").expect("a table");
    assert_eq!(found(&tables), [const { None::<String> }; 5]);
}

#[test]
fn a_version_that_could_not_be_read_is_tried_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path());
    let mut tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    (tables.recent_max, tables.retry_after) = (1, Duration::MAX);
    let day = |tables: &VersionedTable<String>, day: i64| at(tables, Some(DAY_1_MS + day * DAY_MS));
    assert_eq!(day(&tables, 0).as_deref(), Some("one"));
    // which is in memory no more
    assert_eq!(day(&tables, 1).as_deref(), Some("two"));
    let (path, away) = (version_path(&file, "one"), folder.path().join("away"));
    fs::rename(&path, &away).expect("renamed");
    assert_eq!(day(&tables, 0).as_deref(), Some("two"));
    fs::rename(&away, &path).expect("renamed");
    assert_eq!(day(&tables, 0).as_deref(), Some("two"), "not at once");
    tables.retry_after = Duration::ZERO;
    assert_eq!(day(&tables, 0).as_deref(), Some("one"));
    // what is damaged stays out of use
    damage(&file, "two");
    let tables = VersionedTable::load(&file, text).expect("readable").expect("a table");
    assert_eq!(day(&tables, 1).as_deref(), Some("one"));
    assert!(matches!(*tables.versions[1].table.lock().expect("no panic"), Made::Unusable));
}

static MADE: AtomicUsize = AtomicUsize::new(0);

fn counted(path: &Path) -> Result<String, EngineError> {
    MADE.fetch_add(1, Ordering::Relaxed);
    text(path)
}

#[test]
fn old_tables_are_made_when_they_are_asked_for_and_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path());
    let tables = VersionedTable::load(&file, counted).expect("readable").expect("a table");
    for (day, made) in [(2, 1), (9, 1), (0, 2), (0, 2), (1, 3), (0, 3)] {
        assert!(tables.at(Some(DAY_1_MS + day * DAY_MS)).is_some());
        assert_eq!(MADE.load(Ordering::Relaxed), made, "day {day}");
    }
}

static MADE_AGAIN: AtomicUsize = AtomicUsize::new(0);

fn counted_again(path: &Path) -> Result<String, EngineError> {
    MADE_AGAIN.fetch_add(1, Ordering::Relaxed);
    text(path)
}

#[test]
fn few_old_tables_stay_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path());
    let mut tables = VersionedTable::load(&file, counted_again).expect("readable").expect("a table");
    tables.recent_max = 1;
    let made = || MADE_AGAIN.load(Ordering::Relaxed);
    let day = |day: i64| DAY_1_MS + day * DAY_MS;
    for (asked, count) in [(2, 1), (0, 2), (0, 2), (9, 2), (0, 2), (1, 3), (0, 4), (0, 4)] {
        assert!(tables.at(Some(day(asked))).is_some());
        assert_eq!(made(), count, "day {asked}");
    }
    // one that somebody uses is not made a second time
    let used = tables.at(Some(day(0)));
    assert!(tables.at(Some(day(1))).is_some() && made() == 5);
    assert!(tables.at(Some(day(0))).is_some() && made() == 5);
    drop(used);
    // nor are those of rows of one batch
    let times = TimestampMillisecondArray::from([0, 1, 0, 1, 0, 1].map(day).to_vec());
    let mut by_row = TablesByRow::new(Some(&tables), Some(&times));
    let rows: Vec<_> = (0..6).filter_map(|row| by_row.table(row).cloned()).collect();
    assert_eq!(rows, ["one", "two", "one", "two", "one", "two"]);
    assert_eq!(made(), 6);
}
