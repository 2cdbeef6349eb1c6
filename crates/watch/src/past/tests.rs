use std::path::Path;
use std::time::Duration;

use weir_archive::{ArchiveOptions, ExpiryOptions, SummaryOptions, Writer, expire};
use weir_flow::{Delivery, FlowBatch, FlowBatchBuilder, parse_address};

use super::*;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;

fn flow(at_ms: i64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    builder.address(Column::Exporter).push(Some(&parse_address("198.51.100.1").expect("an address")));
    for column in [Column::Received, Column::Start, Column::End] {
        builder.time(column).push(Some(at_ms));
    }
    builder.u64(Column::Packets).push(Some(1));
    builder.u64(Column::Bytes).push(Some(40));
    builder.finish()
}

/// An archive with a segment of each flow that is sealed, and the others in its tail. The newest segment never expires.
fn archive(folder: &Path, sealed: &[i64], unsealed: &[i64]) {
    let open = || Writer::open(folder, ArchiveOptions::default()).expect("an archive").0;
    for at_ms in sealed {
        let mut writer = open();
        writer.append(Delivery::from(flow(*at_ms))).expect("appended");
        writer.close().expect("sealed");
    }
    let mut writer = open();
    for at_ms in unsealed {
        writer.append(Delivery::from(flow(*at_ms))).expect("appended");
    }
}

fn expire_sealed(folder: &Path) {
    let summaries = SummaryOptions { age_max: Duration::MAX, octets_max: None };
    let options = ExpiryOptions { age_max: Some(Duration::ZERO), summaries, ..ExpiryOptions::default() };
    let report = expire(folder, &options, false).expect("expired");
    assert_eq!((report.segments.len(), report.summaries_written), (1, 1));
}

fn needed() -> NeededPast {
    let text = "query = 'SELECT 1'\nzone = 'UTC'\nhistory_min = '7d'";
    NeededPast::of(&WatchFile::parse(text, "new", Path::new("")).expect("a watch"))
}

fn snapshot(folder: &Path) -> Arc<Snapshot> {
    Arc::new(Snapshot::open(folder).expect("a snapshot"))
}

#[test]
fn an_old_capture_that_has_expired_is_no_past() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &[NEW_YEAR_MS - 300 * DAY_MS, NEW_YEAR_MS - HOUR_MS], &[]);
    expire_sealed(folder.path());
    let archive = snapshot(folder.path());
    assert_eq!(archive.rows_expired(), 1);
    assert_eq!(needed().lacking(NEW_YEAR_MS, &archive).expect("an answer"), Some(HOUR_MS));
}

#[test]
fn flows_that_have_expired_were_a_past_but_not_for_a_backtest() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &[NEW_YEAR_MS - 8 * DAY_MS, NEW_YEAR_MS - HOUR_MS], &[]);
    expire_sealed(folder.path());
    let archive = snapshot(folder.path());
    let mut past = needed();
    assert_eq!(past.lacking(NEW_YEAR_MS, &archive).expect("an answer"), None);
    let mut past_there = needed();
    past_there.must_be_there();
    assert_eq!(past_there.lacking(NEW_YEAR_MS, &archive).expect("an answer"), Some(HOUR_MS));
    // of those that are younger than what is needed the first one is the begin of the past
    let early_ms = NEW_YEAR_MS - 3 * DAY_MS;
    assert_eq!(past.lacking(early_ms, &archive).expect("an answer"), Some(5 * DAY_MS));
}

/// A collector that stood still for longer than the past that counts is a new one.
#[test]
fn what_was_enough_is_not_when_it_is_too_old() {
    let folder = tempfile::tempdir().expect("a folder");
    let (before_ms, again_ms) = (NEW_YEAR_MS - 8 * DAY_MS, NEW_YEAR_MS + 10 * DAY_MS);
    archive(folder.path(), &[], &[before_ms, again_ms - HOUR_MS]);
    let archive = snapshot(folder.path());
    let mut past = needed();
    let mut lacking = |at_ms: i64| past.lacking(at_ms, &archive).expect("an answer");
    assert_eq!([0, 5, 6].map(|days| lacking(NEW_YEAR_MS + days * DAY_MS)), [None; 3]);
    assert_eq!(lacking(again_ms), Some(HOUR_MS));
    assert_eq!(lacking(again_ms + HOUR_MS), Some(2 * HOUR_MS));
    assert_eq!(lacking(again_ms + 7 * DAY_MS), None);
}
