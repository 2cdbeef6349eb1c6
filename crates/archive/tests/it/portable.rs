//! Exports, and archives that import them.

use std::fs;
use std::path::{Path, PathBuf};

use weir_archive::{
    Action, ArchiveError, ArchiveOptions, CompactionOptions, ExportSelection, Position, Snapshot, Writer, compact,
    export, import, rebuild_manifest,
};
use weir_flow::Table;

use crate::numbered::{batches, check, delivery, numbers, rows_up_to, take_back_commit};

fn archive(dir: &Path, deliveries: u64) {
    let options = ArchiveOptions { segment_rows_max: 40, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir, options).expect("an archive");
    for number in 1..=deliveries {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
}

fn flow_ids(dir: &Path) -> Vec<u64> {
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let mut ids = numbers(&batches(&snapshot, Table::Flows), "flow_id");
    ids.sort_unstable();
    ids
}

#[test]
fn what_is_exported_is_imported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, carried, target] = ["source", "carried", "target"].map(|name| folder.path().join(name));
    archive(&source, 50);
    let exported = export(&source, &carried, &ExportSelection::default()).expect("exported");
    let books = Snapshot::open(&source).expect("a snapshot").rows(Table::ExporterBooks).expect("readable");
    assert_eq!(exported.rows, rows_up_to(Position::new(50)) + books, "flows and books");
    let imported = import(&target, &carried).expect("imported");
    assert_eq!(
        (imported.segments, imported.rows, imported.octets),
        (exported.segments, exported.rows, exported.octets)
    );
    assert_eq!(check(&target), Position::new(50), "into an empty archive with the same positions");
    let again = import(&target, &carried).expect("passed over");
    assert_eq!((again.segments, again.segments_known), (0, exported.segments));
    assert_eq!(check(&target), Position::new(50));

    // Into an archive that has rows already: behind these, and the writer goes on behind both.
    let other = folder.path().join("other");
    archive(&other, 10);
    let imported = import(&other, &carried).expect("imported");
    assert_eq!(imported.position, Position::new(60));
    let (mut writer, recovery) = Writer::open(&other, ArchiveOptions::default()).expect("the archive opens");
    assert_eq!(recovery.position, Position::new(60));
    assert_eq!(writer.append(delivery(Position::new(61))).expect("appended"), Position::new(61));
    assert!(matches!(import(&other, &carried), Err(ArchiveError::Locked { .. })), "while a writer has it");
    writer.close().expect("sealed");
    let total =
        rows_up_to(Position::new(10)) + rows_up_to(Position::new(50)) + delivery(Position::new(61)).rows() as u64;
    assert_eq!(flow_ids(&other).len() as u64, total);
}

#[test]
fn a_part_is_the_segments_that_may_have_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, carried, target] = ["source", "carried", "target"].map(|name| folder.path().join(name));
    archive(&source, 100);
    // From the second day on: midnight of 2025-11-21, row 200 of one a second.
    let part =
        ExportSelection { from_ms: Some(1_763_683_200_000), tables: vec![Table::Flows], ..ExportSelection::default() };
    let exported = export(&source, &carried, &part).expect("exported");
    assert!(!carried.join("exporter_books").exists());
    import(&target, &carried).expect("imported");
    let expected: Vec<u64> = (200..rows_up_to(Position::new(100))).collect();
    assert_eq!(flow_ids(&target), expected);
    assert_eq!(exported.rows, expected.len() as u64);
    let refused = export(&source, &carried, &part);
    assert!(matches!(refused, Err(ArchiveError::NotEmpty { .. })), "{refused:?}");
}

#[test]
fn an_export_that_is_not_whole_adds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, carried, target] = ["source", "carried", "target"].map(|name| folder.path().join(name));
    archive(&source, 30);
    export(&source, &carried, &ExportSelection::default()).expect("exported");
    let refused = import(&target, &source);
    assert!(matches!(refused, Err(ArchiveError::NotAnExport { .. })), "{refused:?}");
    archive(&target, 7);
    let day = carried.join("exporter_books/date=2025-11-20");
    let last = fs::read_dir(day).expect("a day").next().expect("a file").expect("a file").path();
    let whole = fs::read(&last).expect("a segment");
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut octets = whole.clone();
        octets[at] ^= 1;
        fs::write(&last, &octets).expect("written");
        let refused = import(&target, &carried);
        assert!(matches!(refused, Err(ArchiveError::BadExport { .. })), "{refused:?}");
        assert_eq!(check(&target), Position::new(7));
    }
    fs::write(&last, &whole).expect("written");
    import(&target, &carried).expect("imported");
}

/// The file of flows that was made of several tails, all of them behind this position.
fn merged_flows(dir: &Path, after: Position) -> PathBuf {
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let behind = snapshot.segments(Table::Flows).iter().filter(|segment| segment.first > after);
    let merged = behind.map(weir_archive::Segment::path).find(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        name.split('_').next().and_then(|tails| tails.split_once('-')).is_some_and(|(first, last)| first != last)
    });
    merged.expect("a merged segment")
}

/// An archive with tails of its own that has imported segments which another one had merged, of tails whose numbers it has
/// too; and the position behind which these are.
fn with_merged_of_another(folder: &Path, own: u64) -> (PathBuf, Position) {
    let [source, carried, target] = ["source", "carried", "target"].map(|name| folder.join(name));
    archive(&source, 50);
    let options = CompactionOptions { fan_in: 2, ..CompactionOptions::default() };
    compact(&source, &options, |_| {}).expect("merged");
    export(&source, &carried, &ExportSelection::default()).expect("exported");
    archive(&target, own);
    import(&target, &carried).expect("imported");
    (target, Position::new(own))
}

#[test]
fn what_an_interrupted_import_of_merged_segments_left_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, own) = with_merged_of_another(folder.path(), 50);
    let before = flow_ids(&target);
    // As if the first import had been killed before its commit, and the one after it had taken the next name.
    let merged = merged_flows(&target, own);
    let mut leftover = merged.with_extension("").into_os_string();
    leftover.push("_g1.parquet");
    fs::copy(&merged, &leftover).expect("copied");
    compact(&target, &CompactionOptions::default(), |_| {}).expect("maintenance goes on");
    assert!(!Path::new(&leftover).exists(), "it is in nobody's way any more");
    assert_eq!(flow_ids(&target), before);
}

#[test]
fn segments_that_were_merged_elsewhere_keep_their_tails_when_the_manifest_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, own) = with_merged_of_another(folder.path(), 15);
    merged_flows(&target, own);
    let before = flow_ids(&target);
    assert_eq!(before.len() as u64, rows_up_to(own) + rows_up_to(Position::new(50)));
    assert_eq!(rebuild_manifest(&target).expect("rebuilt"), []);
    assert_eq!(flow_ids(&target), before);
    compact(&target, &CompactionOptions::default(), |_| {}).expect("merged");
    assert_eq!(flow_ids(&target), before, "nothing of its own counted as merged");
}

#[test]
fn an_import_takes_no_name_that_a_file_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, carried, first, second] =
        ["source", "carried", "first", "second"].map(|name| folder.path().join(name));
    archive(&source, 50);
    let options = CompactionOptions { fan_in: 2, ..CompactionOptions::default() };
    compact(&source, &options, |_| {}).expect("merged");
    export(&source, &carried, &ExportSelection::default()).expect("exported");
    archive(&first, 0);
    archive(&second, 0);
    import(&first, &carried).expect("imported");
    // The next one would have the same names. One of them is taken, by a file of several tails that nobody knows.
    let merged = merged_flows(&first, Position::ZERO);
    let taken = second.join(merged.strip_prefix(&first).expect("of the archive"));
    fs::create_dir_all(taken.parent().expect("a day")).expect("a folder");
    fs::write(&taken, "rows that are nowhere else").expect("written");
    import(&second, &carried).expect("imported");
    assert_eq!(fs::read(&taken).expect("a file"), b"rows that are nowhere else");
    assert_eq!(flow_ids(&second), flow_ids(&source));
}

#[test]
fn an_import_that_fails_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, carried, target] = ["source", "carried", "target"].map(|name| folder.path().join(name));
    archive(&source, 50);
    compact(&source, &CompactionOptions { fan_in: 2, ..CompactionOptions::default() }, |_| {}).expect("merged");
    let exported = export(&source, &carried, &ExportSelection::default()).expect("exported");
    archive(&target, 0);
    // the folder of a day, of a table that comes after the flows, is a link to nowhere
    let day = target.join("exporter_books/date=2025-11-20");
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &day).expect("linked");
    let refused = import(&target, &carried);
    assert!(matches!(refused, Err(ArchiveError::Io { action: Action::PlaceSegment, .. })), "{refused:?}");
    let days = fs::read_dir(target.join("flows")).expect("flows").map(|day| day.expect("a day").path());
    let left: Vec<PathBuf> = days.filter(|day| fs::read_dir(day).expect("a day").next().is_some()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    fs::remove_file(&day).expect("removed");
    assert_eq!(import(&target, &carried).expect("imported").segments, exported.segments);
    assert_eq!(flow_ids(&target), flow_ids(&source));
}

#[test]
fn an_import_cut_off_before_its_commit_never_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, carried, target] = ["source", "carried", "target"].map(|name| folder.path().join(name));
    archive(&source, 30);
    export(&source, &carried, &ExportSelection::default()).expect("exported");
    archive(&target, 7);
    let segments = || Snapshot::open(&target).expect("a snapshot").segments(Table::Flows).len();
    let before = segments();
    import(&target, &carried).expect("imported");
    let record = fs::read_dir(target.join("imported")).expect("records").next().expect("one").expect("one").path();
    let number = record.file_name().expect("a name").to_str().expect("digits").to_owned();
    assert_eq!(number.len(), 16, "a number of a tail");
    // As after a crash just before the commit.
    take_back_commit(&target);
    assert_eq!(segments(), before);
    assert_eq!(check(&target), Position::new(7));
    let (writer, recovery) = Writer::open(&target, ArchiveOptions::default()).expect("the archive opens");
    assert!(recovery.segments_uncommitted > 2 && !record.exists(), "{recovery:?}");
    writer.close().expect("sealed");
    assert_eq!(check(&target), Position::new(7));
    let again = import(&target, &carried).expect("imported");
    assert_eq!(again.segments_known, 0, "it is imported as if for the first time");
    assert!(segments() > before);
}
