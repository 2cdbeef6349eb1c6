//! What a check finds: everything that was changed, and nothing that was not.

use std::fs;
use std::path::{Path, PathBuf};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{
    ArchiveOptions, CheckReport, CompactionOptions, ExpiryOptions, Fault, Position, Snapshot, Writer, check, compact,
    expire, inventory, rebuild_manifest,
};
use weir_flow::Table;

use crate::numbered::{batches, delivery, numbers, rows_up_to};

const FLIPS: u32 = 25;

fn write(dir: &Path, from: u64, to: u64) -> Writer {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let options = ArchiveOptions { segment_rows_max: 100, compaction, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir, options).expect("an archive");
    for number in from..=to {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer
}

/// An archive with merged and sealed segments, void ones that a reader holds, and a tail.
fn archive(dir: &Path) -> Snapshot {
    write(dir, 1, 55).close().expect("sealed");
    let reader = Snapshot::open(dir).expect("a snapshot");
    compact(dir, &CompactionOptions::default(), |_| {}).expect("merged");
    write(dir, 56, 60).close().expect("sealed");
    drop(write(dir, 61, 64));
    reader
}

fn checked(dir: &Path, repair: bool) -> CheckReport {
    check(dir, repair, |_| {}).expect("checked")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The flows, or `None` when reading them fails.
fn read(dir: &Path) -> Option<Vec<u64>> {
    let snapshot = Snapshot::open(dir).ok()?;
    let mut all = Vec::new();
    for segment in snapshot.segments(Table::Flows) {
        all.extend(segment.read().ok()?);
    }
    all.extend(snapshot.tail(Table::Flows).expect("readable"));
    let mut ids = numbers(&all, "flow_id");
    ids.sort_unstable();
    Some(ids)
}

#[test]
fn a_whole_archive_is_whole_beside_its_writer_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = archive(dir.path());
    let found = checked(dir.path(), false);
    assert_eq!((&found.findings, &found.leftovers, &found.set_aside), (&vec![], &vec![], &vec![]));
    assert!(found.covered > 0 && found.tails == 1, "{found:?}");
    drop(reader);
    let writer = write(dir.path(), 65, 70);
    assert_eq!(checked(dir.path(), true).findings, []);
    writer.close().expect("sealed");
    let found = checked(dir.path(), true);
    let books = Snapshot::open(dir.path()).expect("a snapshot").rows(Table::ExporterBooks).expect("readable");
    assert_eq!((found.findings, found.rows), (vec![], rows_up_to(Position::new(70)) + books));
}

#[test]
fn a_flipped_bit_in_any_file_is_found_or_harmless() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("archive");
    let reader = archive(&dir);
    let whole: Vec<u64> = (0..rows_up_to(Position::new(64))).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
    let (mut found, mut harmless) = (0, 0);
    for path in files(&dir) {
        let octets = fs::read(&path).expect("a file");
        // the lock files say who holds them, and nothing reads that but an error
        let flips = if octets.is_empty() || path.ends_with("lock") { 0 } else { FLIPS };
        for _ in 0..flips.min(octets.len() as u32 * 8) {
            let bit = random.next_u64() as usize % (octets.len() * 8);
            let mut flipped = octets.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).expect("written");
            match check(&dir, false, |_| {}) {
                Ok(report) if report.findings.is_empty() => {
                    // a flip that nobody finds must change nothing: rows of the end of the tail were never whole
                    let rows = read(&dir).expect("what is not damaged can be read");
                    let is_tail = path.extension().is_some_and(|end| end == "tail");
                    let is_same = rows == whole || is_tail && whole.starts_with(&rows);
                    assert!(is_same, "bit {bit} of {}", path.display());
                    harmless += 1;
                }
                Ok(report) => {
                    assert!(report.findings.iter().all(|finding| finding.path == path), "{report:?}");
                    found += 1;
                }
                Err(_) => found += 1,
            }
        }
        fs::write(&path, &octets).expect("written");
    }
    drop(reader);
    assert_eq!(read(&dir), Some(whole));
    println!("{found} flips found, {harmless} harmless");
    assert!(found > 4 * FLIPS, "{found} found, {harmless} harmless");
}

#[test]
fn what_is_damaged_is_set_aside_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    write(dir, 1, 60).close().expect("sealed");
    let segments = Snapshot::open(dir).expect("a snapshot").segments(Table::Flows).to_vec();
    let newest = segments.iter().max_by_key(|segment| segment.last).expect("a segment").clone();
    let mut octets = fs::read(newest.path()).expect("a segment");
    let middle = octets.len() / 3;
    octets[middle] ^= 16;
    fs::write(newest.path(), &octets).expect("written");
    let renamed = newest.path().with_file_name("letter.parquet");
    fs::write(&renamed, "dear").expect("written");

    let found = checked(dir, false);
    assert_eq!(found.findings.len(), 2, "{found:?}");
    assert!(found.findings.iter().all(|finding| finding.set_aside.is_none()) && renamed.exists());
    let repaired = checked(dir, true);
    assert_eq!(repaired.findings.len(), 2);
    for finding in &repaired.findings {
        let aside = finding.set_aside.as_ref().expect("set aside");
        assert!(aside.exists() && !finding.path.exists(), "{finding:?}");
    }
    let after = checked(dir, false);
    assert_eq!((after.findings.len(), after.set_aside.len()), (0, 2));
    let left = Snapshot::open(dir).expect("a snapshot");
    assert_eq!(left.flows(), rows_up_to(Position::new(60)) - newest.rows);
    assert_eq!(batches(&left, Table::Flows).iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), left.flows());
    // The newest position was in what is set aside, and is not given out again.
    let (writer, recovery) = Writer::open(dir, ArchiveOptions::default()).expect("the archive opens");
    assert_eq!(recovery.position, Position::new(60));
    drop(writer);
}

#[test]
fn a_damaged_tail_is_set_aside_when_nobody_writes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    drop(write(dir, 1, 10));
    let tail = inventory(dir).expect("an inventory").tails[0].clone();
    assert_eq!(tail.rows, rows_up_to(Position::new(10)));
    let mut octets = fs::read(&tail.path).expect("a tail");
    octets[100] ^= 1;
    fs::write(&tail.path, &octets).expect("written");
    let found = checked(dir, true);
    let [finding] = &found.findings[..] else { panic!("{found:?}") };
    assert!(matches!(finding.fault, Fault::Tail { .. }), "{finding:?}");
    assert!(finding.set_aside.as_ref().is_some_and(|path| path.exists()), "{finding:?}");
    let after = checked(dir, false);
    assert_eq!((after.findings.len(), after.set_aside.len()), (0, 1));
}

#[test]
fn names_that_say_something_else_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    write(dir, 1, 40).close().expect("sealed");
    let segment = Snapshot::open(dir).expect("a snapshot").segments(Table::ExporterBooks)[0].clone();
    let name = segment.path().file_name().expect("a name").to_str().expect("text").to_owned();
    // A file under another name is no segment that counts. A manifest made anew believes the name, and the check not.
    let fault_of = |other: PathBuf| {
        fs::create_dir_all(other.parent().expect("a folder")).expect("a day");
        fs::rename(segment.path(), &other).expect("renamed");
        let found = checked(dir, false);
        let faults: Vec<_> = found.findings.iter().map(|finding| (&finding.path, &finding.fault)).collect();
        assert!(matches!(faults[0], (path, Fault::Unreadable(_)) if *path == segment.path()), "{faults:?}");
        assert_eq!(faults[1..], [(&other, &Fault::NotInManifest)]);
        // maintenance leaves the only file that has these rows
        expire(dir, &ExpiryOptions::default(), false).expect("maintenance");
        assert!(other.exists());
        assert_eq!(rebuild_manifest(dir).expect("rebuilt"), []);
        let found = checked(dir, false);
        fs::rename(&other, segment.path()).expect("renamed back");
        assert_eq!(rebuild_manifest(dir).expect("rebuilt"), []);
        assert_eq!(found.findings.len(), 1, "{found:?}");
        found.findings[0].fault.clone()
    };
    let rows = segment.path().with_file_name(name.replace(&format!("_r{}_", segment.rows), "_r7777_"));
    assert_eq!(fault_of(rows), Fault::Rows { named: 7777, found: segment.rows });
    let (first, last) = segment.time_range_ms.expect("times");
    let times = segment.path().with_file_name(name.replace(&format!("_t{first}to"), &format!("_t{last}to")));
    assert!(matches!(fault_of(times), Fault::Times { .. }));
    let day = dir.join("exporter_books/date=2020-02-29").join(&name);
    assert_eq!(fault_of(day), Fault::Day { found: "2025-11-20".to_owned() });
    assert_eq!(checked(dir, false).findings, []);
}
