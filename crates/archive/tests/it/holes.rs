//! Segments that were merged over a hole: what expired in between is not covered by them.

use weir_archive::{CompactionOptions, ExpiryOptions, Rollup, Snapshot, compact, expire, rebuild_manifest};
use weir_flow::{Column, Delivery, FlowBatchBuilder, Table};

use crate::archive_of;

/// 2026-01-02T00:00:00Z.
const DAY_MS: i64 = 1_767_312_000_000;
const HOUR_MS: i64 = 3_600_000;

/// Flows received at one hour of the day; the first may end days later, by a clock that is wrong.
fn flows(hour: i64, rows: usize, last_end_ms: i64) -> Delivery {
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    let time = DAY_MS + hour * HOUR_MS;
    builder.time(Column::Received).repeat(time, rows);
    for column in [Column::Start, Column::End] {
        builder
            .time(column)
            .extend((0..rows).map(|row| if row == 0 && column == Column::End { last_end_ms } else { time }));
    }
    for column in [Column::Packets, Column::Bytes] {
        builder.u64(column).extend((0..rows).map(|_| 1));
    }
    Delivery::from(builder.finish())
}

fn summed(snapshot: &Snapshot) -> u64 {
    snapshot.summaries().expect("listed").iter().map(weir_archive::SegmentSummary::rows).sum()
}

/// The oldest that expires is not always the first: one with a flow that ends days later counts as newer.
#[test]
fn what_expired_between_two_segments_stays_summed_up_when_they_are_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let later = DAY_MS + 3 * 24 * HOUR_MS;
    let parts =
        [(1, DAY_MS + HOUR_MS), (4, DAY_MS + 4 * HOUR_MS), (7, DAY_MS + 7 * HOUR_MS), (25, DAY_MS + 25 * HOUR_MS)];
    for (number, (hour, end)) in parts.into_iter().enumerate() {
        archive_of(dir, flows(hour, 3000, if number == 0 { later } else { end }));
    }
    let octets: u64 =
        Snapshot::open(dir).expect("a snapshot").segments(Table::Flows).iter().map(|segment| segment.octets).sum();
    let limit = ExpiryOptions { octets_max: Some(octets - 1), low_water_percent: 100, ..ExpiryOptions::default() };
    let expired = expire(dir, &limit, false).expect("expired");
    assert_eq!(expired.segments.len(), 1, "{expired:?}");
    assert_eq!(expired.segments[0].first.get(), 2, "the second, for the first has a flow that seems new");
    let all = |what: &str| {
        let snapshot = Snapshot::open(dir).expect("a snapshot");
        assert_eq!((snapshot.flows(), summed(&snapshot), snapshot.rows_expired()), (9000, 3000, 3000), "{what}");
        let summary = &snapshot.summaries().expect("listed")[0];
        assert!(summary.rollup(Rollup::SrcPort).is_ok());
    };
    all("after expiry");
    let merged =
        compact(dir, &CompactionOptions { fan_in: 2, ..CompactionOptions::default() }, |_| {}).expect("merged");
    assert_eq!(merged.segments_merged, 2, "{merged:?}");
    all("after merging");
    expire(dir, &ExpiryOptions { octets_max: Some(u64::MAX), ..ExpiryOptions::default() }, false)
        .expect("nothing to do");
    all("after the next expiry");
    assert_eq!(rebuild_manifest(dir).expect("rebuilt"), []);
    all("by the files alone");
}

/// What was set aside as damaged does not count as merged when its neighbours are.
#[test]
fn a_segment_that_was_set_aside_can_be_put_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    for hour in 1..=3 {
        archive_of(dir, flows(hour, 100, DAY_MS + hour * HOUR_MS));
    }
    let second = Snapshot::open(dir).expect("a snapshot").segments(Table::Flows)[1].clone();
    let whole = std::fs::read(second.path()).expect("a segment");
    std::fs::write(second.path(), b"").expect("emptied");
    let checked = weir_archive::check(dir, true, |_| {}).expect("checked");
    assert_eq!(checked.findings.len(), 1, "{checked:?}");
    let aside = checked.findings[0].set_aside.clone().expect("set aside");
    assert_eq!(Snapshot::open(dir).expect("a snapshot").rows_set_aside(), 100);
    compact(dir, &CompactionOptions { fan_in: 2, ..CompactionOptions::default() }, |_| {}).expect("merged");
    assert_eq!(Snapshot::open(dir).expect("a snapshot").flows(), 200);
    std::fs::remove_file(aside).expect("removed");
    std::fs::write(second.path(), whole).expect("put back");
    compact(dir, &CompactionOptions::default(), |_| {}).expect("maintenance leaves it alone");
    assert!(second.path().exists());
    assert_eq!(rebuild_manifest(dir).expect("rebuilt"), []);
    assert_eq!(Snapshot::open(dir).expect("a snapshot").flows(), 300);
}
