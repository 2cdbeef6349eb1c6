mod naive;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt16Type, UInt64Type};
use proptest::prelude::*;
use weir_chain::compliance::{self, Outcome};
use weir_flow::{Column, FlowBatchBuilder, parse_address};

use super::*;
use weir_rows::flow_columns::{number, numbers};

/// A flow. Its number is the place in the input, and stands in `flow_id`.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    exporter: u8,
    domain: Option<u32>,
    src: (&'static str, Option<u16>),
    dst: (&'static str, Option<u16>),
    protocol: u8,
    icmp_type: Option<u8>,
    icmp_type_code: Option<u16>,
    start: Option<i64>,
    end: Option<i64>,
    received: Option<i64>,
    bytes: Option<u64>,
    packets: Option<u64>,
    tcp_flags: Option<u16>,
    bytes_reverse: Option<u64>,
}

const CLIENT: &str = "192.0.2.10";
const SERVER: &str = "198.51.100.80";

fn flow(start: i64, src: (&'static str, u16), dst: (&'static str, u16)) -> Row {
    Row {
        exporter: 1,
        domain: Some(7),
        src: (src.0, Some(src.1)),
        dst: (dst.0, Some(dst.1)),
        protocol: 6,
        icmp_type: None,
        icmp_type_code: None,
        start: Some(start),
        end: Some(start + 10),
        received: None,
        bytes: Some(1),
        packets: Some(1),
        tcp_flags: None,
        bytes_reverse: None,
    }
}

fn request(start: i64) -> Row {
    flow(start, (CLIENT, 40_000), (SERVER, 443))
}

fn response(start: i64) -> Row {
    flow(start, (SERVER, 443), (CLIENT, 40_000))
}

/// ICMP as NetFlow v5 tells it: type and code in the port of the destination.
fn icmp(start: i64, icmp_type: u16, src: &'static str, dst: &'static str) -> Row {
    Row { protocol: 1, ..flow(start, (src, 0), (dst, icmp_type * 256)) }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    let octets = |text: &str| parse_address(text).expect("an address");
    for (number, row) in rows.iter().enumerate() {
        builder.time(Column::Received).push(row.received);
        builder.time(Column::Start).push(row.start);
        builder.time(Column::End).push(row.end);
        builder.address(Column::Exporter).push(Some(&[10, 0, 0, row.exporter]));
        builder.u32(Column::ObservationDomain).push(row.domain);
        builder.address(Column::SrcAddr).push(Some(&octets(row.src.0)));
        builder.address(Column::DstAddr).push(Some(&octets(row.dst.0)));
        builder.u16(Column::SrcPort).push(row.src.1);
        builder.u16(Column::DstPort).push(row.dst.1);
        builder.u8(Column::Protocol).push(Some(row.protocol));
        builder.u16(Column::TcpFlags).push(row.tcp_flags);
        builder.u64(Column::Packets).push(row.packets);
        builder.u64(Column::Bytes).push(row.bytes);
        builder.u64(Column::BytesReverse).push(row.bytes_reverse);
        builder.u8(Column::IcmpType).push(row.icmp_type);
        builder.u16(Column::IcmpTypeCode).push(row.icmp_type_code);
        builder.u64(Column::FlowId).push(Some(number as u64));
    }
    builder.finish().record_batch().clone()
}

/// What comes out of a row: its number, and the values that a partner changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HandedOnRow {
    number: usize,
    start: Option<i64>,
    end: Option<i64>,
    tcp_flags: Option<u16>,
    bytes_reverse: Option<u64>,
    packets_reverse: Option<u64>,
}

fn of<T: ArrowPrimitiveType>(rows: &RecordBatch, column: Column, row: usize) -> Option<T::Native> {
    number(numbers::<T>(rows, column).expect("the column"), row)
}

fn handed_on(outcome: &Outcome) -> Vec<HandedOnRow> {
    let Some(rows) = &outcome.rows else { return Vec::new() };
    let row = |row| HandedOnRow {
        number: of::<UInt64Type>(rows, Column::FlowId, row).expect("a number") as usize,
        start: of::<TimestampMillisecondType>(rows, Column::Start, row),
        end: of::<TimestampMillisecondType>(rows, Column::End, row),
        tcp_flags: of::<UInt16Type>(rows, Column::TcpFlags, row),
        bytes_reverse: of::<UInt64Type>(rows, Column::BytesReverse, row),
        packets_reverse: of::<UInt64Type>(rows, Column::PacketsReverse, row),
    };
    (0..rows.num_rows()).map(row).collect()
}

/// Runs the block over flows whose bytes are made their numbers plus 100, and compares with pairs of initiator and
/// partner (`0+1`) and single numbers.
fn check(options: &str, rows: &[Row], expected: &str) -> Outcome {
    let mut rows = rows.to_vec();
    for (number, row) in rows.iter_mut().enumerate() {
        row.bytes = Some(number as u64 + 100);
    }
    let outcome = compliance::transform(&KIND, options, &[vec![batch(&rows)]]);
    let text = |row: HandedOnRow| match row.bytes_reverse {
        Some(bytes) if row.packets_reverse.is_some() => format!("{}+{}", row.number, bytes - 100),
        _ => row.number.to_string(),
    };
    let found: Vec<String> = handed_on(&outcome).into_iter().map(text).collect();
    assert_eq!(found.join(" "), expected, "with {options:?}");
    outcome
}

#[test]
fn a_request_and_its_response_are_one_flow() {
    let forward = Row { bytes: Some(500), packets: Some(5), tcp_flags: Some(0x02), end: Some(1900), ..request(1000) };
    let back = Row { bytes: Some(90_000), packets: Some(60), tcp_flags: Some(0x11), end: Some(2000), ..response(1003) };
    for rows in [[forward.clone(), back.clone()], [back, forward]] {
        let number = rows.iter().position(|row| row.bytes == Some(500)).expect("the request");
        let outcome = compliance::transform(&KIND, "", &[vec![batch(&rows)]]);
        let stitched = HandedOnRow {
            number,
            start: Some(1000),
            end: Some(2000),
            tcp_flags: Some(0x13),
            bytes_reverse: Some(90_000),
            packets_reverse: Some(60),
        };
        assert_eq!(handed_on(&outcome), [stitched]);
        assert_eq!(outcome.counter("flows_stitched"), 1);
        assert_eq!(outcome.state_max.rows, 1);
        // all else is the initiator's
        let out = outcome.rows.expect("rows");
        for column in [Column::SrcAddr, Column::DstPort, Column::Bytes, Column::Packets, Column::Exporter] {
            let sent = batch(&rows).column_by_name(column.name()).expect("sent").slice(number, 1);
            assert_eq!(&sent, out.column_by_name(column.name()).expect("handed on"), "{column}");
        }
    }
}

#[test]
fn what_one_side_does_not_know_comes_from_the_other() {
    let forward = Row { end: None, tcp_flags: None, ..request(1000) };
    let back = Row { bytes: None, tcp_flags: Some(0x12), ..response(1001) };
    let outcome = compliance::transform(&KIND, "", &[vec![batch(&[forward, back])]]);
    let [row] = &handed_on(&outcome)[..] else { panic!("one row") };
    assert_eq!((row.end, row.tcp_flags), (Some(1011), Some(0x12)));
    assert_eq!((row.bytes_reverse, row.packets_reverse), (None, Some(1)));
}

#[test]
fn the_initiator_is_who_started_or_who_sent_to_the_lower_port() {
    check("", &[response(1000), request(1001)], "0+1");
    check("", &[response(1000), request(1000)], "1+0");
    check("", &[request(1000), response(1000)], "0+1");
    let (one, two) = (flow(0, (CLIENT, 123), (SERVER, 123)), flow(0, (SERVER, 123), (CLIENT, 123)));
    check("", &[one.clone(), two.clone()], "0+1");
    check("", &[two, one], "0+1");
}

#[test]
fn flows_that_nobody_answers_stay_as_they_are() {
    let outcome = check("", &[request(1000), request(2000), flow(1500, (CLIENT, 40_001), (SERVER, 443))], "0 2 1");
    assert_eq!(outcome.counter("rows_unmatched"), 3);
    assert_eq!(outcome.counter("flows_stitched"), 0);
}

#[test]
fn flows_of_equal_keys_find_the_nearest() {
    let [f1, r1, f2, r2] = [request(0), response(3), request(5000), response(5002)];
    let clones = |rows: [&Row; 4]| rows.map(Row::clone);
    check("", &clones([&f1, &r1, &f2, &r2]), "0+1 2+3");
    check("", &clones([&f1, &f2, &r1, &r2]), "0+2 1+3");
    check("", &clones([&f1, &f2, &r2, &r1]), "0+3 1+2");
    check("", &clones([&r2, &r1, &f2, &f1]), "3+1 2+0");
    // the first response is lost
    check("", &[f1.clone(), f2.clone(), r2.clone()], "0 1+2");
    // the second request is lost
    check("", &[f1, r1, r2], "0+1 2");
}

#[test]
fn pieces_of_a_long_flow_are_matched_piece_by_piece() {
    let rows: Vec<Row> =
        (0..4).map(|piece| request(piece * 60_000)).chain((0..4).map(|piece| response(piece * 60_000 + 2))).collect();
    check("window = '300s'", &rows, "0+4 1+5 2+6 3+7");
    // one way in one piece, the other in three
    check("window = '300s'", &[request(0), response(1), response(60_000), response(120_000)], "0+1 2 3");
}

#[test]
fn each_exporter_and_domain_is_matched_by_itself() {
    let by = |exporter, domain, row: Row| Row { exporter, domain, ..row };
    let rows = [
        by(1, Some(7), request(1000)),
        by(2, Some(7), request(1001)),
        by(3, Some(7), request(1002)),
        by(3, Some(7), response(1005)),
        by(2, Some(8), response(1006)),
        by(1, Some(7), response(1007)),
        by(2, None, response(1008)),
    ];
    check("", &rows, "0+5 1 2+3 4 6");
}

#[test]
fn protocols_families_and_translated_addresses_do_not_match() {
    let udp = Row { protocol: 17, ..response(1001) };
    let outside = flow(1001, (SERVER, 443), ("203.0.113.1", 40_000));
    check("", &[request(1000), udp, outside], "0 1 2");
    let v6 = [flow(0, ("2001:db8::1", 4000), ("2001:db8::2", 53)), flow(1, ("2001:db8::2", 53), ("2001:db8::1", 4000))];
    check("", &v6, "0+1");
    // four octets are not the beginning of sixteen
    let mixed =
        [flow(0, ("32.1.13.184", 4000), ("2001:db8::", 53)), flow(1, ("2001:db8::", 53), ("32.1.13.184", 4000))];
    check("", &mixed, "0+1");
}

#[test]
fn a_null_port_counts_as_zero() {
    let gre = |start, src, dst, port| Row { protocol: 47, src: (src, port), dst: (dst, port), ..request(start) };
    check("", &[gre(0, CLIENT, SERVER, None), gre(1, SERVER, CLIENT, Some(0))], "0+1");
}

#[test]
fn a_flow_to_itself_has_no_opposite() {
    let itself = flow(0, (CLIENT, 500), (CLIENT, 500));
    let outcome = check("", &[itself.clone(), itself], "0 1");
    assert_eq!(outcome.counter("rows_without_opposite"), 2);
    check("", &[flow(0, (CLIENT, 500), (CLIENT, 501)), flow(1, (CLIENT, 501), (CLIENT, 500))], "0+1");
}

#[test]
fn echo_requests_match_replies() {
    let rows = [icmp(1000, 8, CLIENT, SERVER), icmp(1001, 0, SERVER, CLIENT)];
    check("", &rows, "0+1");
    // the request is the initiator's, whatever the clock says
    let outcome = check("", &[icmp(1000, 0, SERVER, CLIENT), icmp(1001, 8, CLIENT, SERVER)], "1+0");
    assert_eq!(handed_on(&outcome)[0].start, Some(1000));
    // both ping each other
    let rows = [
        icmp(1000, 8, CLIENT, SERVER),
        icmp(1000, 8, SERVER, CLIENT),
        icmp(1001, 0, CLIENT, SERVER),
        icmp(1002, 0, SERVER, CLIENT),
    ];
    check("", &rows, "0+3 1+2");
    // two requests, two replies, and an echo of oneself
    check("", &[icmp(0, 8, CLIENT, SERVER), icmp(1, 8, SERVER, CLIENT)], "0 1");
    check("", &[icmp(0, 8, CLIENT, CLIENT), icmp(0, 0, CLIENT, CLIENT)], "0+1");
    // a timestamp reply is none to an echo request
    check("", &[icmp(0, 8, CLIENT, SERVER), icmp(1, 14, SERVER, CLIENT), icmp(2, 13, CLIENT, SERVER)], "0 2+1");
}

#[test]
fn the_type_of_icmp_is_found_where_it_is() {
    let (client, server) = ("2001:db8::1", "2001:db8::2");
    let v6 = |start, src, dst| Row { protocol: 58, src: (src, None), dst: (dst, None), ..request(start) };
    let rows = [
        Row { icmp_type: Some(128), ..v6(1000, client, server) },
        Row { icmp_type_code: Some(129 << 8), ..v6(1001, server, client) },
    ];
    check("", &rows, "0+1");
    let rows = [
        Row {
            icmp_type: Some(128),
            icmp_type_code: Some(129 << 8),
            dst: (server, Some(129 << 8)),
            ..v6(0, client, server)
        },
        Row { icmp_type_code: Some(129 << 8), dst: (client, Some(128 << 8)), ..v6(1, server, client) },
    ];
    check("", &rows, "0+1");
    // 8 and 0 are not echo in ICMPv6
    let rows =
        [Row { icmp_type: Some(8), ..v6(0, client, server) }, Row { icmp_type: Some(0), ..v6(1, server, client) }];
    check("", &rows, "0 1");
    let unreachable = [icmp(0, 3, CLIENT, SERVER), icmp(1, 3, SERVER, CLIENT)];
    assert_eq!(check("", &unreachable, "0 1").counter("rows_without_opposite"), 2);
}

#[test]
fn what_is_bidirectional_already_stays_so() {
    let both = Row { bytes_reverse: Some(5), ..request(1000) };
    let outcome = compliance::transform(&KIND, "", &[vec![batch(&[both, response(1001)])]]);
    assert_eq!(outcome.counter("rows_bidirectional"), 1);
    let reverse: Vec<_> = handed_on(&outcome).iter().map(|row| row.bytes_reverse).collect();
    assert_eq!(reverse, [Some(5), None]);
}

#[test]
fn the_window_is_that_of_starts() {
    let rows = [request(0), response(10_000), flow(10_001, (CLIENT, 1), (SERVER, 2)), response(0)];
    check("window = '10s'", &rows, "0+1 3 2");
    let rows = [request(0), flow(10_001, (CLIENT, 1), (SERVER, 2)), response(1), response(0)];
    let outcome = check("window = '10s'", &rows, "0 3 2 1");
    assert_eq!(outcome.counter("rows_late_passed"), 1);
    let outcome = check("window = '10s'\nlate = 'drop'", &rows, "0 2 1");
    assert_eq!(outcome.counter("rows_late_dropped"), 1);
}

#[test]
fn rows_with_no_start_or_a_wrong_clock_go_on_at_once() {
    let rows = [
        request(1000),
        Row { start: None, ..response(0) },
        Row { received: Some(1000), ..response(3_601_001) },
        response(1001),
    ];
    let outcome = check("", &rows, "1 2 0+3");
    assert_eq!(outcome.counter("rows_without_start"), 2);
}

#[test]
fn the_table_is_bounded() {
    let other = |start, port| flow(start, (CLIENT, port), (SERVER, 80));
    let rows = [request(1000), other(1010, 1), other(1020, 2), response(1005), flow(1011, (SERVER, 80), (CLIENT, 1))];
    let outcome = check("window_rows_max = 2", &rows, "0 3 1+4 2");
    assert_eq!(outcome.counter("handed_on_early"), 2);
    let outcome = check("window_rows_max = 2\nwhen_full = 'shed'", &rows, "0 1");
    assert_eq!(outcome.counter("rows_shed"), 3);
    assert_eq!(outcome.state_max.rows, 2);
}

#[test]
fn rows_of_several_schemas_go_together() {
    let sparse = |start, src, dst, has_port: bool| {
        let mut builder = FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        builder.time(Column::Start).push(Some(start));
        builder.address(Column::SrcAddr).push(parse_address(src).as_deref());
        builder.address(Column::DstAddr).push(parse_address(dst).as_deref());
        builder.u8(Column::Protocol).push(Some(6));
        if has_port {
            builder.u16(Column::DstPort).push(Some(0));
            builder.u64(Column::Bytes).push(Some(9));
        }
        builder.finish().record_batch().clone()
    };
    let inputs = [vec![sparse(1000, CLIENT, SERVER, true), sparse(1001, SERVER, CLIENT, false)]];
    let outcome = compliance::transform(&KIND, "", &inputs);
    assert_eq!(outcome.counter("flows_stitched"), 1);
    let rows = outcome.rows.expect("rows");
    let names: Vec<_> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    let expected = ["start", "end", "src_addr", "dst_addr", "dst_port", "protocol", "tcp_flags", "bytes"];
    assert_eq!(names, [&expected[..], &["bytes_reverse", "packets_reverse"]].concat());
    assert_eq!(rows.column_by_name("src_addr").expect("addresses").as_binary::<i32>().value(0), [192, 0, 2, 10]);
}

#[test]
fn keys_that_are_gone_are_forgotten_and_others_are_not() {
    let pair = |number: u16| {
        let client = (CLIENT, 1024 + number);
        let forward = flow(i64::from(number) * 10, client, (SERVER, 443));
        let before = number.checked_sub(50);
        let back = before.map(|before| flow(i64::from(before) * 10 + 1, (SERVER, 443), (CLIENT, 1024 + before)));
        [Some(forward), back]
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
    assert_eq!(context.counters.counter("flows_stitched").get(), 20_000 - 50);
    assert!(octets_max < 1_500_000, "{octets_max} octets for 100 flows at a time");
}

/// Few ends, so that flows often meet, to themselves too.
fn any_row() -> impl Strategy<Value = Row> {
    let end = || {
        (prop_oneof![Just(CLIENT), Just(SERVER)], proptest::option::of(prop_oneof![Just(0u16), Just(53), Just(2048)]))
    };
    let times = (
        proptest::option::weighted(0.9, 0..60i64),
        proptest::option::of(0..90i64),
        proptest::option::weighted(0.2, 0..50i64),
    );
    let protocol = prop_oneof![3 => Just(6u8), 2 => Just(1), 1 => Just(58)];
    let icmp = (
        proptest::option::of(prop_oneof![Just(0u8), Just(8), Just(3), Just(128), Just(129)]),
        proptest::option::of(prop_oneof![Just(0u16), Just(8 << 8), Just(13 << 8), Just(14 << 8 | 3)]),
    );
    let values = (
        proptest::option::of(0..9u64),
        proptest::option::of(0..9u64),
        proptest::option::of(0..64u16),
        proptest::option::weighted(0.05, 0..9u64),
    );
    let observed = (1..3u8, proptest::option::weighted(0.8, 1..3u32));
    (end(), end(), times, protocol, icmp, values, observed).prop_map(
        |(src, dst, times, protocol, icmp, values, observed)| {
            let (start, end, received) = times;
            let (bytes, packets, tcp_flags, bytes_reverse) = values;
            let (icmp_type, icmp_type_code) = icmp;
            let (exporter, domain) = observed;
            let time = |time: i64| time * 100;
            let (start, end, received) = (start.map(time), end.map(time), received.map(time));
            Row {
                exporter,
                domain,
                src,
                dst,
                protocol,
                icmp_type,
                icmp_type_code,
                start,
                end,
                received,
                bytes,
                packets,
                tcp_flags,
                bytes_reverse,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_does_what_the_naive_model_does(
        mut rows in proptest::collection::vec(any_row(), 1..70),
        drift in 0..200i64,
        limits in (1..60u64, prop_oneof![Just(1000usize), 1..20usize]),
        choices: [bool; 2],
    ) {
        for (number, row) in rows.iter_mut().enumerate() {
            let later = |time: i64| time + number as i64 * drift;
            (row.start, row.received) = (row.start.map(later), row.received.map(later));
        }
        let [sheds, drops_late] = choices;
        let model = naive::Model { window_ms: limits.0 as i64 * 100, future_ms: 1500, rows_max: limits.1, sheds, drops_late };
        let expected = model.run(&rows);
        let outcome = compliance::transform(&KIND, &model.options(), &[vec![batch(&rows)]]);
        prop_assert_eq!(handed_on(&outcome), expected.rows);
        let late = if drops_late { "rows_late_dropped" } else { "rows_late_passed" };
        let names = [late, "rows_shed", "handed_on_early", "rows_without_start", "flows_stitched", "rows_unmatched"];
        prop_assert_eq!(names.map(|name| outcome.counter(name)), expected.counts);
    }
}
