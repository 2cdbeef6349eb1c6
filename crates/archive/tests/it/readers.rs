//! Readers beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_archive::{ArchiveOptions, Position, Writer};

use crate::numbered::{check, delivery};

#[test]
fn every_snapshot_is_the_archive_at_one_position() {
    let dir = tempfile::tempdir().expect("a folder");
    // Three deliveries make a tail, so that nearly every snapshot meets a sealing.
    let options =
        ArchiveOptions { commit_interval: Duration::from_millis(1), segment_rows_max: 12, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    let done = AtomicBool::new(false);
    let snapshots = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut before, mut snapshots) = (Position::ZERO, 0);
                    while !done.load(Ordering::Acquire) {
                        let durable = before;
                        let position = check(dir.path());
                        assert!(position >= durable, "{position} after {durable}");
                        before = position;
                        snapshots += 1;
                    }
                    snapshots
                })
            })
            .collect();
        for number in 1..=600 {
            writer.append(delivery(Position::new(number))).expect("appended");
        }
        let summary = writer.close().expect("sealed");
        done.store(true, Ordering::Release);
        assert!(summary.statistics.tails_sealed > 50, "{summary:?}");
        readers.into_iter().map(|reader| reader.join().expect("no wrong snapshot")).sum::<u32>()
    });
    assert!(snapshots > 0);
    assert_eq!(check(dir.path()), Position::new(600));
}
