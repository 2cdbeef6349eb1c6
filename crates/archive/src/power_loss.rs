//! What a loss of power may leave of an archive, and that nothing which was synced is missing then.
//!
//! A run of a writer is recorded, and cut at any change. `WEIR_POWER_LOSS_STATES` asks for more states than a test run has
//! time for.

use std::fs;
use std::path::Path;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_flow::{Column, Delivery, FlowBatchBuilder, Table};
use weir_testkit::power_loss::{Disk, Recorded, Recorder};

use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::seal::seal_tail;
use crate::tail::FinishedTail;
use crate::{ArchiveOptions, CompactionOptions, Position, Snapshot, Writer, compact};

const ROWS: u64 = 3;

fn delivery(number: u64) -> Delivery {
    let rows = ROWS as usize;
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    builder.time(Column::Received).repeat(1_763_683_200_000, rows);
    builder.u64(Column::FlowId).extend((0..rows).map(|row| number * ROWS + row as u64));
    Delivery::from(builder.finish())
}

fn numbers(snapshot: &Snapshot) -> Result<Vec<u64>, String> {
    let mut batches = snapshot.tail(Table::Flows).map_err(|error| error.chain())?;
    for segment in snapshot.segments(Table::Flows) {
        segment.check().map_err(|error| error.chain())?;
        batches.extend(segment.read().map_err(|error| error.chain())?);
    }
    let mut numbers = Vec::new();
    for batch in batches {
        let column = batch.column_by_name("flow_id").expect("a column").as_primitive::<UInt64Type>().clone();
        numbers.extend(column.values().iter().copied());
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Appends, seals and merges; returns what was changed, and which position was durable after how many changes.
fn record(dir: &Path) -> (Vec<Recorded>, Vec<(usize, Position)>) {
    let recorder = Recorder::start(dir);
    let options = ArchiveOptions {
        commit_interval: Duration::from_millis(1),
        upkeep_interval: Duration::from_millis(5),
        segment_rows_max: 12,
        compaction: CompactionOptions { fan_in: 2, ..CompactionOptions::default() },
        ..ArchiveOptions::default()
    };
    let mut durable = Vec::new();
    let mut number = 0;
    for _ in 0..3 {
        let (mut writer, _) = Writer::open(dir, options).expect("an archive");
        for _ in 0..14 {
            let position = writer.append(delivery(number)).expect("appended");
            number += 1;
            if number.is_multiple_of(3) {
                let reached = writer.durability().wait_for(position, Duration::from_mins(1)).expect("durable");
                durable.push((recorder.recorded().len(), reached));
            }
        }
        if number < 40 {
            drop(writer);
        } else {
            let _ = writer.close().expect("sealed");
        }
        compact(dir, &options.compaction, |_| {}).expect("merged");
    }
    (recorder.recorded(), durable)
}

/// Fails unless everything up to `durable` is there, and of what came after it whole deliveries, each once. Those may
/// have gaps: two tails that were not synced are two files.
fn examine(dir: &Path, durable: Position) -> Result<(), String> {
    let whole = |numbers: &[u64], what: &str| {
        let deliveries: Vec<u64> = numbers.chunks(ROWS as usize).map(|rows| rows[0] / ROWS).collect();
        let rows = deliveries.iter().flat_map(|delivery| (0..ROWS).map(move |row| delivery * ROWS + row));
        let is_whole = rows.eq(numbers.iter().copied()) && deliveries.windows(2).all(|pair| pair[0] < pair[1]);
        let is_enough = (0..durable.get()).eq(deliveries.iter().copied().take(durable.get() as usize));
        if is_whole && is_enough { Ok(()) } else { Err(format!("{what}: {durable} durable, found {numbers:?}")) }
    };
    // A reader that comes first finds all of it, or says that it cannot.
    let found = Snapshot::open(dir).and_then(|snapshot| snapshot.tail(Table::Flows).map(|_| snapshot));
    match found {
        Ok(snapshot) => whole(&numbers(&snapshot)?, "before recovery")?,
        Err(error) if durable == Position::ZERO || error.is_damage() => {}
        Err(error) => return Err(format!("reading: {}", error.chain())),
    }
    let opened = Writer::open(dir, ArchiveOptions::default());
    let (mut writer, _) = opened.map_err(|error| format!("opening: {}", error.chain()))?;
    let found = numbers(&Snapshot::open(dir).map_err(|error| format!("recovered: {}", error.chain()))?)?;
    whole(&found, "after recovery")?;
    writer.append(delivery(1000)).map_err(|error| format!("appending: {}", error.chain()))?;
    writer.close().map_err(|error| format!("sealing: {}", error.chain()))?;
    let sealed = numbers(&Snapshot::open(dir).map_err(|error| format!("sealed: {}", error.chain()))?)?;
    if sealed.len() == found.len() + ROWS as usize { whole(&sealed, "sealed") } else { Err("rows went".to_owned()) }
}

/// Examines crash states; returns what was wrong with the first bad one.
fn search(changes: &[Recorded], durable: &[(usize, Position)], states: u64) -> Option<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
    for state in 0..states {
        let at = random.next_u64() as usize % (changes.len() + 1);
        let mut disk = Disk::default();
        changes[..at].iter().for_each(|change| disk.apply(change));
        let reached =
            durable.iter().rev().find(|(after, _)| *after <= at).map_or(Position::ZERO, |(_, position)| *position);
        let dir =
            tempfile::tempdir_in(["/dev/shm", "/tmp"].into_iter().find(|dir| Path::new(dir).is_dir()).unwrap_or("."));
        let dir = dir.expect("a folder");
        disk.crash(dir.path(), &mut || random.next_u32());
        if let Err(wrong) = examine(dir.path(), reached) {
            return Some(format!(
                "state {state}, cut after change {at} ({:?}): {wrong}",
                changes.get(at.saturating_sub(1)).map(name_of)
            ));
        }
    }
    None
}

fn name_of(recorded: &Recorded) -> String {
    match recorded {
        Recorded::Content(path, octets) => format!("{} octets of {}", octets.len(), path.display()),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_was_synced_survives_a_loss_of_power() {
    let states = std::env::var("WEIR_POWER_LOSS_STATES").ok().map_or(1000, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a folder");
    let (changes, durable) = record(dir.path());
    assert!(changes.iter().any(|change| matches!(change, Recorded::Link(..))), "commits were recorded");
    assert_eq!(search(&changes, &durable, states), None);
}

/// Without one of its syncs the archive loses something, and the search finds it.
#[test]
fn a_sync_that_is_left_out_is_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let (changes, durable) = record(dir.path());
    let kinds: [fn(&Recorded) -> bool; 4] = [
        |change| matches!(change, Recorded::Sync(path) if path.starts_with("tail")),
        |change| matches!(change, Recorded::Sync(path) if path.starts_with("tmp")),
        |change| matches!(change, Recorded::SyncFolder(path) if path.starts_with("flows")),
        |change| matches!(change, Recorded::SyncFolder(path) if path.starts_with("manifest")),
    ];
    for (kind, is_left_out) in kinds.into_iter().enumerate() {
        let without: Vec<Recorded> = changes.iter().filter(|change| !is_left_out(change)).cloned().collect();
        // where the others are now
        let moved: Vec<_> = durable
            .iter()
            .map(|(at, position)| (changes[..*at].iter().filter(|change| !is_left_out(change)).count(), *position))
            .collect();
        assert!(search(&without, &moved, 600).is_some(), "kind {kind}");
    }
}

/// That a commit is seen does not mean that it is durable: who made it may have failed, or been killed, right behind it.
#[test]
fn a_tail_goes_only_once_its_commit_is_durable() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    let position = writer.append(delivery(0)).expect("appended");
    writer.durability().wait_for(position, Duration::from_mins(1)).expect("durable");
    let layout = Layout::new(dir.path());
    let number = *layout.tail_numbers().expect("listed").first().expect("a tail");
    let path = layout.tail(number);
    let octets = fs::read(&path).expect("a tail");
    let _ = writer.close().expect("sealed");
    let is_synced_first = |act: &dyn Fn()| {
        fs::write(&path, &octets).expect("put back");
        let recorder = Recorder::start(dir.path());
        act();
        let changes = recorder.recorded();
        let goes = |change: &Recorded| matches!(change, Recorded::Remove(path) if path.starts_with("tail"));
        let is_sync = |change: &Recorded| matches!(change, Recorded::SyncFolder(path) if path.ends_with("manifest"));
        changes[..changes.iter().position(goes).expect("it goes")].iter().any(is_sync)
    };
    let seal_again = || {
        let mut manifest = Manifest::load(&layout).expect("a manifest");
        let (rows, octets) = (ROWS, octets.len() as u64);
        let tail = FinishedTail { number, path: path.clone(), last: Some(position), rows, octets, failures: 0 };
        seal_tail(&layout, &mut manifest, &ArchiveOptions::default(), &tail).expect("it was sealed before");
    };
    assert!(is_synced_first(&seal_again), "by the attempt after one that failed");
    let open = || drop(Writer::open(dir.path(), ArchiveOptions::default()).expect("the archive opens"));
    assert!(is_synced_first(&open), "by the writer after one that was killed");
}
