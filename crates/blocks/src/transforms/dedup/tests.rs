mod naive;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use proptest::prelude::*;
use weir_chain::compliance::{self, Outcome};
use weir_flow::{FlowBatchBuilder, parse_address};

use super::*;

/// An observation. Its number is the place in the input, and stands in `flow_id`.
#[derive(Debug, Clone)]
struct Row {
    exporter: Option<String>,
    start: Option<i64>,
    received: Option<i64>,
    src_addr: String,
    src_port: Option<u16>,
    tos: u8,
    packets: Option<u64>,
}

/// What exporter `10.0.0.N` has seen of the flow from port `src_port`.
fn seen(exporter: u8, start: i64, src_port: u16) -> Row {
    Row {
        exporter: Some(format!("10.0.0.{exporter}")),
        start: Some(start),
        received: None,
        src_addr: "192.0.2.1".to_owned(),
        src_port: Some(src_port),
        tos: 0,
        packets: Some(10),
    }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    let octets = |text: &str| parse_address(text).expect("an address");
    for (number, row) in rows.iter().enumerate() {
        builder.time(Column::Received).push(row.received);
        builder.time(Column::Start).push(row.start);
        builder.address(Column::Exporter).push(row.exporter.as_deref().map(octets).as_deref());
        builder.address(Column::SrcAddr).push(Some(&octets(&row.src_addr)));
        builder.address(Column::DstAddr).push(Some(&octets("2001:db8::53")));
        builder.u16(Column::SrcPort).push(row.src_port);
        builder.u16(Column::DstPort).push(Some(53));
        builder.u8(Column::Protocol).push(Some(17));
        builder.u8(Column::Tos).push(Some(row.tos));
        builder.u64(Column::Packets).push(row.packets);
        builder.u64(Column::FlowId).push(Some(number as u64));
    }
    builder.finish().record_batch().clone()
}

/// What comes out: number of the row, path, observations.
type HandedOnRow = (usize, String, u32);

fn handed_on(outcome: &Outcome) -> Vec<HandedOnRow> {
    let Some(rows) = &outcome.rows else { return Vec::new() };
    let numbers = rows.column_by_name("flow_id").expect("numbers").as_primitive::<UInt64Type>();
    let paths = rows.column_by_name("path").expect("paths").as_string::<i32>();
    let counts = rows.column_by_name("observations").expect("counts").as_primitive::<UInt32Type>();
    let row = |row| (numbers.value(row) as usize, paths.value(row).to_owned(), counts.value(row));
    (0..rows.num_rows()).map(row).collect()
}

/// Runs the block, and compares with `number: path` for each row, `10.0.0.` left out.
fn check(options: &str, rows: &[Row], expected: &[&str]) -> Outcome {
    let outcome = compliance::transform(&KIND, options, &[vec![batch(rows)]]);
    let found: Vec<String> = handed_on(&outcome)
        .into_iter()
        .map(|(number, path, count)| {
            assert_eq!(path.split(' ').count() as u32, count, "{path}");
            format!("{number}: {}", path.replace("10.0.0.", ""))
        })
        .collect();
    assert_eq!(found, expected, "with {options:?}");
    outcome
}

#[test]
fn three_exporters_in_a_line_make_one_row() {
    // the last one in the line exports first
    let rows = [seen(3, 1005, 7), seen(1, 1000, 7), seen(2, 1003, 7)];
    let outcome = check("", &rows, &["1: 1 2 3"]);
    assert_eq!(outcome.counter("rows_duplicate"), 2);
    assert_eq!(outcome.state_max.rows, 3);
    let columns = outcome.rows.expect("rows");
    let names: Vec<_> = columns.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names[names.len() - 2..], ["path", "observations"]);
}

#[test]
fn the_row_with_most_packets_may_be_kept() {
    let mut rows = [seen(1, 1000, 7), seen(2, 1001, 7), seen(3, 1002, 7), seen(4, 1001, 7)];
    rows[1].packets = Some(12);
    rows[2].packets = None;
    rows[3].packets = Some(12);
    check("keep = 'most'", &rows, &["1: 1 2 4 3"]);
    check("keep = 'first'", &rows, &["0: 1 2 4 3"]);
}

#[test]
fn clocks_may_differ_as_far_as_is_allowed() {
    // the clock of exporter 2 is 400 ms slow, so it seems to be the first
    let rows = [seen(1, 1000, 7), seen(2, 605, 7), seen(3, 1010, 7)];
    check("", &rows, &["1: 2 1 3"]);
    check("tolerance = '405ms'", &rows, &["1: 2 1 3"]);
    check("tolerance = '404ms'", &rows, &["1: 2 1", "2: 3"]);
    check("tolerance = '300ms'", &rows, &["1: 2", "0: 1 3"]);
    check("tolerance = 0", &rows, &["1: 2", "0: 1", "2: 3"]);
}

#[test]
fn an_observation_may_be_lost() {
    check("", &[seen(1, 1000, 7), seen(3, 1010, 7)], &["0: 1 3"]);
}

#[test]
fn flows_of_equal_keys_that_follow_each_other_stay_apart() {
    let (first, second) =
        ([seen(1, 0, 7), seen(2, 5, 7), seen(3, 9, 7)], [seen(1, 600, 7), seen(2, 604, 7), seen(3, 611, 7)]);
    let orders: [[&Row; 6]; 3] = [
        [&first[0], &first[1], &first[2], &second[0], &second[1], &second[2]],
        [&first[0], &second[0], &first[1], &second[1], &first[2], &second[2]],
        [&first[2], &second[2], &second[1], &first[1], &second[0], &first[0]],
    ];
    for (order, kept) in orders.into_iter().zip([["0", "3"], ["0", "1"], ["5", "4"]]) {
        let rows = order.map(Row::clone);
        check("", &rows, &kept.map(|kept| format!("{kept}: 1 2 3")).each_ref().map(String::as_str));
    }
    // exporter 1 lost its row of the second flow, exporter 3 that of the first
    let rows = [first[0].clone(), second[2].clone(), second[1].clone(), first[1].clone()];
    check("tolerance = '500ms'", &rows, &["0: 1 2", "2: 2 3"]);
}

#[test]
fn rows_of_one_exporter_are_never_put_together() {
    let rows = [seen(1, 1000, 7), seen(1, 1000, 7), seen(2, 1001, 7), seen(2, 1002, 7), seen(1, 1000, 8)];
    check("", &rows, &["0: 1 2", "1: 1 2", "4: 1"]);
}

#[test]
fn pieces_of_a_long_flow_are_matched_piece_by_piece() {
    let pieces = |exporter: u8, offset: i64| (0..3).map(move |piece| seen(exporter, piece * 60_000 + offset, 7));
    let rows: Vec<Row> = pieces(1, 0).chain(pieces(2, 4)).collect();
    check("window = '300s'", &rows, &["0: 1 2", "1: 1 2", "2: 1 2"]);
    // cut at other times, pieces are rows of their own, except for the first
    let rows: Vec<Row> = pieces(1, 0).chain([seen(2, 4, 7), seen(2, 30_004, 7), seen(2, 90_004, 7)]).collect();
    check("window = '300s'", &rows, &["0: 1 2", "4: 2", "1: 1", "5: 2", "2: 1"]);
}

#[test]
fn what_translation_or_marking_changes_is_another_flow() {
    let mut rows = [seen(1, 1000, 7), seen(2, 1001, 7), seen(3, 1002, 7)];
    rows[1].src_addr = "198.51.100.1".to_owned();
    check("", &rows, &["0: 1 3", "1: 2"]);
    rows[2].tos = 8;
    check(
        "keys = ['src_addr', 'dst_addr', 'src_port', 'dst_port', 'protocol', 'tos']",
        &rows,
        &["0: 1", "1: 2", "2: 3"],
    );
    check("keys = ['src_port']", &rows, &["0: 1 2 3"]);
}

#[test]
fn nulls_are_equal_to_nulls_only() {
    let mut rows = [seen(1, 1000, 0), seen(2, 1001, 0), seen(3, 1002, 0), seen(3, 1003, 0), seen(3, 1004, 0)];
    rows[1].src_port = None;
    rows[2].src_port = None;
    rows[3].exporter = None;
    rows[4].exporter = None;
    check("", &rows, &["0: 1 -", "1: 2 3", "4: -"]);
}

#[test]
fn addresses_of_exporters_are_written_as_addresses() {
    let mut rows = [seen(1, 1000, 7), seen(2, 1001, 7)];
    rows[1].exporter = Some("2001:db8::1".to_owned());
    check("", &rows, &["0: 1 2001:db8::1"]);
}

#[test]
fn rows_come_in_the_order_of_their_starts() {
    let starts = [(1, 5000, 1), (1, 3000, 2), (1, 5000, 3), (1, 4000, 4), (2, 2500, 2), (1, 16_000, 5)];
    let rows = starts.map(|(exporter, start, port)| seen(exporter, start, port));
    check("window = '12s'", &rows, &["4: 2 1", "3: 1", "0: 1", "2: 1", "5: 1"]);
}

#[test]
fn late_rows_are_passed_on_or_dropped() {
    let rows = [seen(1, 100_000, 1), seen(1, 110_001, 2), seen(2, 100_000, 1), seen(2, 100_001, 3)];
    let outcome = check("window = '10s'", &rows, &["0: 1", "2: 2", "3: 2", "1: 1"]);
    assert_eq!(outcome.counter("rows_late_passed"), 1);
    let outcome = check("window = '10s'\nlate = 'drop'", &rows, &["0: 1", "3: 2", "1: 1"]);
    assert_eq!(outcome.counter("rows_late_dropped"), 1);
}

#[test]
fn rows_with_no_start_or_a_wrong_clock_go_on_at_once() {
    let mut rows = [seen(1, 1000, 1), seen(2, 1001, 1), seen(1, 3_601_001, 1), seen(3, 1002, 1), seen(1, 3_601_000, 2)];
    rows[1].start = None;
    rows[2].received = Some(1000);
    rows[4].received = Some(1000);
    let outcome = check("", &rows, &["1: 2", "2: 1", "0: 1 3", "4: 1"]);
    assert_eq!(outcome.counter("rows_without_start"), 2);
    // without the check one wrong clock would make all others late
    let outcome = check("future = '4000s'", &rows, &["1: 2", "0: 1", "3: 3", "4: 1", "2: 1"]);
    assert_eq!(outcome.counter("rows_late_passed"), 1);
}

#[test]
fn the_table_is_bounded() {
    let rows =
        [seen(1, 1000, 1), seen(1, 1010, 2), seen(1, 1020, 3), seen(2, 1001, 1), seen(2, 1011, 2), seen(2, 1021, 3)];
    // the first goes before its time when the third comes, and its second observation finds nothing and goes as well
    let outcome = check("window_rows_max = 2", &rows, &["0: 1", "3: 2", "1: 1 2", "2: 1 2"]);
    assert_eq!(outcome.counter("handed_on_early"), 3);
    assert_eq!(outcome.state_max.rows, 2);
    let outcome = check("window_rows_max = 2\nwhen_full = 'shed'", &rows, &["0: 1", "1: 1"]);
    assert_eq!(outcome.counter("rows_shed"), 4);
}

#[test]
fn searches_end_after_so_many_flows() {
    let count = TRIES_MAX as u16 + 10;
    let ones = (0..count).map(|_| seen(1, 1000, 7));
    let rows: Vec<Row> = ones.chain((0..count).map(|_| seen(2, 1000, 7))).collect();
    let outcome = compliance::transform(&KIND, "", &[vec![batch(&rows)]]);
    assert_eq!(outcome.counter("searches_cut"), 20, "ten of each exporter");
    assert_eq!(outcome.counter("rows_duplicate"), TRIES_MAX as u64);
}

#[test]
fn keys_that_are_gone_are_forgotten_and_others_are_not() {
    // exporter 2 tells of each flow 50 rows after exporter 1, most often in another batch
    let pair = |number: u16| {
        let before = number.checked_sub(50);
        let second = before.map(|before| seen(2, i64::from(before) * 10 + 1, before));
        [Some(seen(1, i64::from(number) * 10, number)), second]
    };
    let rows: Vec<Row> = (0..20_000).flat_map(pair).flatten().collect();
    let (Built::Transform(mut block), context) = compliance::open(&KIND, "window = '1s'") else {
        panic!("a transform")
    };
    let mut out = Outlet::new();
    let mut octets_max = 0;
    for chunk in rows.chunks(97) {
        block.take(0, batch(chunk), &mut out).expect("rows");
        octets_max = octets_max.max(block.state().octets);
    }
    block.finish(&mut out).expect("the end");
    assert_eq!(out.drain().map(|burst| burst.len()).sum::<usize>(), 20_000);
    assert_eq!(context.counters.counter("rows_duplicate").get(), 20_000 - 50);
    assert!(octets_max < 1_000_000, "{octets_max} octets for 100 flows at a time");
}

#[test]
fn mistakes_in_options_are_refused() {
    let refused = |text: &str| weir_chain::options::parse(text).and_then(configure).err().expect("an error").key;
    assert_eq!(refused("keys = ['exporter', 'src_addr']"), "keys");
    assert_eq!(refused("tolerance = '2001ms'\nwindow = '2s'"), "tolerance");
    assert_eq!(refused("tolerance = '86400001ms'\nwindow = '2d'"), "tolerance");
    assert!(weir_chain::options::parse("tolerance = '1d'\nwindow = '2d'").and_then(configure).is_ok());
}

#[test]
fn a_column_that_is_there_already_is_an_error() {
    let outcome = compliance::transform(&KIND, "", &[vec![batch(&[seen(1, 1000, 7)])]]);
    let (Built::Transform(mut block), _) = compliance::open(&KIND, "") else { panic!("a transform") };
    let error = block.take(0, outcome.rows.expect("rows"), &mut Outlet::new()).expect_err("twice");
    assert_eq!(error.to_string(), "input has a column 'path' already");
}

fn any_row() -> impl Strategy<Value = Row> {
    let start = prop_oneof![9 => (0..60i64).prop_map(Some), 1 => Just(None)];
    let exporter = prop_oneof![9 => (1..5u8).prop_map(|n| Some(format!("10.0.0.{n}"))), 1 => Just(None)];
    let src_port = prop_oneof![9 => (0..3u16).prop_map(Some), 1 => Just(None)];
    let received = prop_oneof![3 => Just(None), 1 => (0..40i64).prop_map(Some)];
    (exporter, start, received, src_port, proptest::option::of(0..4u64)).prop_map(
        |(exporter, start, received, src_port, packets)| {
            let start = start.map(|start| start * 100);
            let received = received.map(|received| received * 100);
            Row { exporter, start, received, src_port, packets, ..seen(1, 0, 0) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_does_what_the_naive_model_does(
        mut rows in proptest::collection::vec(any_row(), 1..70),
        drift in 0..200i64,
        limits in (1..40u64, 0..8u64, prop_oneof![Just(1000usize), 1..20usize]),
        choices: [bool; 3],
    ) {
        // time goes on from row to row, by and large
        for (number, row) in rows.iter_mut().enumerate() {
            row.start = row.start.map(|start| start + number as i64 * drift);
            row.received = row.received.map(|received| received + number as i64 * drift);
        }
        let (window, tolerance, rows_max) = limits;
        let tolerance = tolerance.min(window);
        let [keeps_most, sheds, drops_late] = choices;
        let model = naive::Model {
            window_ms: window as i64 * 100,
            tolerance_ms: tolerance as i64 * 100,
            future_ms: 1500,
            rows_max,
            keeps_most,
            sheds,
            drops_late,
        };
        let expected = model.run(&rows);
        let outcome = compliance::transform(&KIND, &model.options(), &[vec![batch(&rows)]]);
        prop_assert_eq!(handed_on(&outcome), expected.rows);
        let late = if drops_late { "rows_late_dropped" } else { "rows_late_passed" };
        let counters = [late, "rows_shed", "handed_on_early", "rows_without_start", "rows_duplicate"];
        prop_assert_eq!(counters.map(|name| outcome.counter(name)), expected.counts);
    }
}
