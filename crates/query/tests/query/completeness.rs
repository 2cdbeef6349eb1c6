//! How complete a window is, by its rule.

use weir_archive::Writer;
use weir_flow::{BooksBatch, BooksRow, Counter, Delivery, SideTables};
use weir_query::{Archive, QueryOptions, TimeWindow, WindowRule};

const MINUTE_MS: i64 = 60_000;

#[test]
fn a_window_has_the_minutes_that_its_rule_touches() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), weir_archive::ArchiveOptions::default()).expect("an archive");
    let rows = (0..5).map(|minute| {
        let mut counts = [0; Counter::COUNT];
        // decimal places say which minutes are in a sum
        counts[Counter::RecordsStored as usize] = 10_u64.pow(minute);
        let minute_ms = 1_763_596_800_000 + i64::from(minute) * MINUTE_MS;
        BooksRow { minute_ms, exporter: None, observation_domain: None, export_version: None, counts }
    });
    let rows: Vec<_> = rows.collect();
    let first_ms = rows[0].minute_ms;
    let side_tables = SideTables { books: Some(BooksBatch::from_rows(&rows)), ..SideTables::default() };
    writer.append(Delivery { flows: None, side_tables }).expect("appended");
    let check = |from_ms: Option<i64>, until_ms: Option<i64>, rule: WindowRule, expected: u64| {
        let archive = Archive::open(folder.path(), QueryOptions::default()).expect("an archive");
        let at = |ms: Option<i64>| ms.map(|ms| first_ms + ms);
        let window = TimeWindow { from_ms: at(from_ms), until_ms: at(until_ms), rule };
        assert_eq!(archive.completeness(&window).expect("readable").stored, expected, "{window:?}");
    };
    let all = || {
        check(None, None, WindowRule::Overlaps, 11_111);
        check(Some(MINUTE_MS), Some(2 * MINUTE_MS), WindowRule::Overlaps, 110);
        check(Some(2 * MINUTE_MS - 1), Some(2 * MINUTE_MS - 1), WindowRule::Overlaps, 10);
        check(Some(MINUTE_MS - 1), Some(2 * MINUTE_MS), WindowRule::Inside, 10);
        check(Some(MINUTE_MS), None, WindowRule::Inside, 11_110);
        check(None, Some(MINUTE_MS), WindowRule::Inside, 1);
    };
    all();
    writer.close().expect("sealed");
    all();
}
