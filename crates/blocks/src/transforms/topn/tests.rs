//! Tests of the greatest groups.

use proptest::prelude::*;
use weir_chain::{AnyKind, compliance};
use weir_flow::FlowBatch;
use weir_generate::TrafficModel;

use super::*;
use weir_rows::naive::{self, Group, Key, Row, Settings};

const TOPN: &dyn AnyKind = &KIND;

#[test]
fn complies() {
    let model = TrafficModel { hosts: 1 << 10, flows_per_second: 100, ipv6_permille: 300, ..TrafficModel::new(4) };
    let flows: Vec<_> = model.flows(9_000).expect("a model").map(|batch| batch.record_batch().clone()).collect();
    let options = "keys = ['dst_port', 'protocol']\nwindow = '20s'\nlateness = '60s'\nn = 3";
    let outcome = compliance::transform(TOPN, options, &[flows]);
    let rows = FlowBatch::try_new(outcome.rows.expect("rows")).expect("flows");
    let windows = naive::numbers(rows.record_batch(), "start").into_iter().map(|start| start.map(|ms| ms / 20_000));
    let bytes = naive::numbers(rows.record_batch(), "bytes");
    let places: Vec<_> = windows.zip(bytes.into_iter().map(Reverse)).collect();
    assert!(places.is_sorted(), "{places:?}");
    let counts: Vec<usize> = places.chunk_by(|left, right| left.0 == right.0).map(<[_]>::len).collect();
    assert!(counts.len() >= 5 && counts.iter().all(|count| *count <= 3) && counts.contains(&3), "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn they_are_those_of_sorted_lists(
        rows in naive::rows(), width_ms in 0_i64..900, lateness_ms in 0_i64..500, groups_max in 1_usize..14,
        n in 1_usize..5, measure in prop::sample::select(vec!["packets", "bytes", "flows"]),
    ) {
        // few values, so that many groups are equal
        let rows: Vec<Row> = rows.into_iter().map(|row| Row { packets: row.packets.map(|count| count % 3), ..row }).collect();
        let settings = Settings { width_ms, lateness_ms, groups_max, hand_on: false };
        let mut expected = naive::group(&rows, settings, |row| (row.src.clone(), row.port));
        let value = |group: &Group<'_>| naive::sum(group.rows.iter().map(|row| match measure {
            "packets" => row.packets,
            "bytes" => row.bytes,
            _ => row.flows.or(Some(1)),
        }));
        // what is too large for 64 bits is still compared as it is
        let greatness = |group: &Group<'_>| group.rows.iter().map(|row| match measure {
            "packets" => row.packets.unwrap_or(0).into(),
            "bytes" => row.bytes.unwrap_or(0).into(),
            _ => i128::from(row.flows.unwrap_or(1)),
        }).sum::<i128>();
        expected.groups.sort_by_key(|group| (group.window_ms, Reverse(greatness(group)), group.key.clone()));
        let windows = expected.groups.chunk_by(|left, right| left.window_ms == right.window_ms);
        let expected_groups: Vec<&Group<'_>> = windows.flat_map(|window| window.iter().take(n)).collect();
        let options = format!(
            "keys = ['src_addr', 'src_port']\nn = {n}\nmeasure = '{measure}'\nwindow = '{width_ms}ms'\nlateness = '{lateness_ms}ms'\n\
             groups_max = {groups_max}"
        );
        let batches = if rows.is_empty() { vec![] } else { vec![naive::batch(&rows)] };
        let outcome = compliance::transform(TOPN, &options, &[batches]);
        prop_assert_eq!(outcome.counter("rows_shed"), expected.shed);
        prop_assert_eq!(outcome.counter("rows_late_dropped"), expected.late);
        prop_assert_eq!(outcome.len(), expected_groups.len());
        if let Some(found) = &outcome.rows {
            let values: Vec<_> = expected_groups.iter().map(|group| value(group)).collect();
            prop_assert_eq!(naive::numbers(found, measure), values);
            let ports = naive::numbers(found, "src_port").into_iter().map(|port| port.map(|port| port as u16));
            let keys: Vec<Key> = naive::octets(found, "src_addr").into_iter().zip(ports).collect();
            prop_assert_eq!(keys, expected_groups.iter().map(|group| group.key.clone()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_key_decides_between_equals() {
    let row = |octet: u8, bytes| Row { start_ms: Some(5), src: Some(vec![10, 0, 0, octet]), bytes, ..Row::default() };
    let rows = naive::batch(&[
        row(9, Some(7)),
        row(4, Some(7)),
        row(1, None),
        row(5, Some(8)),
        row(2, Some(7)),
        row(0, Some(0)),
    ]);
    let outcome = compliance::transform(TOPN, "n = 3\nwindow = 0", &[vec![rows.clone()]]);
    let found = outcome.rows.expect("rows");
    let last = |rows: &RecordBatch| {
        naive::octets(rows, "src_addr").into_iter().map(|octets| octets.expect("an address")[3]).collect::<Vec<_>>()
    };
    assert_eq!(last(&found), [5, 2, 4]);
    let outcome = compliance::transform(TOPN, "n = 30\nwindow = 0", &[vec![rows]]);
    let found = outcome.rows.expect("rows");
    assert_eq!(last(&found), [5, 2, 4, 9, 0, 1]);
    assert_eq!(naive::numbers(&found, "bytes")[4..], [Some(0), None]);
}

#[test]
fn a_measure_that_is_the_key_is_refused() {
    let error = weir_chain::options::parse("keys = 'bytes'").and_then(configure).err().expect("a mistake");
    assert_eq!((error.key.as_str(), error.message.as_str()), ("measure", "'bytes' is part of the key"));
}
