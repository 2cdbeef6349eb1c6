//! The joiner against a naive one, and the flows of the paper's figure 1.

use arrow::array::AsArray;
use proptest::prelude::*;
use weir_chain::compliance::{self, Outcome};
use weir_flow::FlowBatchBuilder;

use super::*;

/// The compliance test takes a reference that lives as long as the program.
const JOINER: &BlockKind = &KIND;

/// A record of the tests; negative keys are the other direction of positive ones.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    key: i8,
    exporter: u8,
    start: i64,
    end: i64,
    packets: u64,
}

fn told(key: i8, start: i64, end: i64, packets: u64) -> Told {
    Told { key, exporter: 1, start, end, packets }
}

fn batch(records: &[Told]) -> Vec<RecordBatch> {
    if records.is_empty() {
        return Vec::new();
    }
    let mut builder = FlowBatchBuilder::new(records.len());
    for record in records {
        builder.begin_rows(1);
        builder.time(Column::Start).push(Some(record.start));
        builder.time(Column::End).push(Some(record.end));
        builder.address(Column::Exporter).push(Some(&[192, 0, 2, record.exporter]));
        let (host, peer) = ([10, 0, 0, record.key.unsigned_abs()], [0xfd; 16]);
        let ports = [1000, 443];
        let back = usize::from(record.key < 0);
        let ends = [&host[..], &peer[..]];
        builder.address(Column::SrcAddr).push(Some(ends[back]));
        builder.address(Column::DstAddr).push(Some(ends[1 - back]));
        builder.u16(Column::SrcPort).push(Some(ports[back]));
        builder.u16(Column::DstPort).push(Some(ports[1 - back]));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u16(Column::TcpFlags).push(Some(1 << (record.packets % 8)));
        builder.u64(Column::Packets).push(Some(record.packets));
        builder.u64(Column::Bytes).push(Some(record.packets * 100));
    }
    vec![builder.finish().record_batch().clone()]
}

fn join(parameters: &str, records: &[Told]) -> Outcome {
    compliance::block(JOINER, parameters, &[batch(records)])
}

/// A joined flow: start, end, packets, records joined, flags.
type Joined = (i64, i64, u64, u64, u16);

fn joined(outcome: &Outcome) -> Vec<Joined> {
    let Some(rows) = &outcome.rows else { return Vec::new() };
    let time = |name| rows.column_by_name(name).expect("a column").as_primitive::<TimestampMillisecondType>();
    let count = |name| rows.column_by_name(name).expect("a column").as_primitive::<UInt64Type>();
    let flags = rows.column_by_name("tcp_flags").expect("a column").as_primitive::<UInt16Type>();
    let (start, end, packets, flows, bytes) =
        (time("start"), time("end"), count("packets"), count("flows"), count("bytes"));
    (0..rows.num_rows())
        .map(|row| {
            assert_eq!(bytes.value(row), packets.value(row) * 100);
            (start.value(row), end.value(row), packets.value(row), flows.value(row), flags.value(row))
        })
        .collect()
}

#[test]
fn timeouts_of_figure_1_are_undone() {
    // One flow lasts 130 s: the active timeout of 60 s cuts it twice, its last part ends by the inactive timeout. The
    // other has one packet at once (fast timeout), a few 20 s later (inactive timeout), and was in the cache when that
    // was cleared.
    let records = [
        told(2, 1_000, 1_000, 1),
        told(2, 21_000, 24_000, 5),
        told(1, 0, 60_000, 600),
        told(2, 70_000, 71_000, 2),
        told(1, 60_010, 120_000, 580),
        told(1, 120_020, 130_000, 90),
    ];
    let outcome = join("", &records);
    let flags = |packets: &[u64]| packets.iter().fold(0, |flags, packets| flags | 1 << (packets % 8));
    assert_eq!(
        joined(&outcome),
        [(1_000, 71_000, 8, 3, flags(&[1, 5, 2])), (0, 130_000, 1270, 3, flags(&[600, 580, 90])),]
    );
    // a part of 60 s ends 60 s after the one before it
    assert_eq!(join("max_waiting_secs = 60", &records).len(), 2);
    assert_eq!(join("max_waiting_secs = 59.999", &records).len(), 3);
}

#[test]
fn flows_are_cut_at_the_longest_duration() {
    let records: Vec<_> = (0..10).map(|at| told(1, at * 10_000, at * 10_000 + 9_000, 1)).collect();
    let outcome = join("max_duration_secs = 39", &records);
    let spans: Vec<_> = joined(&outcome).iter().map(|flow| (flow.0, flow.1)).collect();
    assert_eq!(spans, [(0, 39_000), (40_000, 79_000), (80_000, 99_000)]);
}

#[test]
fn both_directions_become_one_flow() {
    let records = [told(1, 0, 10, 3), told(-1, 5, 20, 2), told(-2, 0, 25, 7), told(1, 15, 30, 1), told(2, 30, 40, 4)];
    let outcome = join("direction = 'bi'", &records);
    let rows = outcome.rows.expect("rows");
    let count = |name| rows.column_by_name(name).expect("a column").as_primitive::<UInt64Type>().values().to_vec();
    assert_eq!((count("packets"), count("packets_reverse")), (vec![4, 7], vec![2, 4]));
    assert_eq!(count("bytes_reverse"), [200, 400]);
    let ports = rows.column_by_name("src_port").expect("a column").as_primitive::<UInt16Type>();
    assert_eq!(ports.values(), &[1000, 443], "the direction is that of the first record");
    assert_eq!(join("", &records).len(), 4, "apart by default");
}

#[test]
fn exporters_are_kept_apart_when_asked() {
    let records = [told(1, 0, 10, 3), Told { exporter: 2, ..told(1, 0, 11, 2) }, told(1, 0, 12, 1)];
    assert_eq!(join("", &records).len(), 1);
    let outcome = join("exporters = 'apart'", &records);
    let rows = outcome.rows.expect("rows");
    let exporters = rows.column_by_name("exporter").expect("a column").as_binary::<i32>();
    assert_eq!(exporters.iter().collect::<Vec<_>>(), [Some(&[192, 0, 2, 2][..]), Some(&[192, 0, 2, 1])]);
}

#[test]
fn over_the_limit_those_that_would_leave_first_leave() {
    let records: Vec<_> = (1..=10).map(|key| told(key, 0, i64::from(key) * 1000, 1)).collect();
    let outcome = join("flows_max = 4", &records);
    assert_eq!((outcome.len(), outcome.counter("flows_shed")), (10, 6));
    let mut again = records.clone();
    again.push(told(1, 10_500, 11_000, 1));
    assert_eq!(join("flows_max = 4", &again).len(), 11, "what comes of a flow that was shed begins anew");
    assert_eq!(join("flows_max = 40", &again).len(), 10);
    assert!(outcome.window_max.rows <= 5);
}

#[test]
fn late_records_are_counted_and_handed_on() {
    let records = [told(1, 0, 1_000_000, 1), told(2, 0, 10, 2), told(3, 0, 999_990, 3)];
    let outcome = join("", &records);
    assert_eq!((outcome.len(), outcome.counter("rows_late")), (3, 1));
}

/// The same with a list of flows that is searched from end to end. Each flow with how many there were before.
fn naive(records: &[Told], waiting_ms: i64, duration_ms: i64) -> Vec<Joined> {
    struct Open {
        key: i8,
        open: bool,
        flow: Joined,
    }
    let mut flows: Vec<Open> = Vec::new();
    for record in records {
        let flags = 1 << (record.packets % 8);
        let found = flows.iter_mut().find(|flow| flow.open && flow.key == record.key);
        if let Some(open) = found {
            let (start, end) = (open.flow.0.min(record.start), open.flow.1.max(record.end));
            if record.end - open.flow.1 <= waiting_ms && end - start <= duration_ms {
                open.flow = (start, end, open.flow.2 + record.packets, open.flow.3 + 1, open.flow.4 | flags);
                continue;
            }
            open.open = false;
        }
        flows.push(Open { key: record.key, open: true, flow: (record.start, record.end, record.packets, 1, flags) });
    }
    let mut joined: Vec<_> = flows.into_iter().map(|open| open.flow).collect();
    joined.sort_by_key(|flow| flow.1);
    joined
}

fn sorted_records() -> impl Strategy<Value = Vec<Told>> {
    let record = (-3..4_i8, 0..100_000_i64, 0..30_000_i64, 0..100_u64);
    prop::collection::vec(record, 0..120).prop_map(|mut records| {
        records.sort_by_key(|record| record.1);
        records.into_iter().map(|(key, end, length, packets)| told(key, end - length, end, packets)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn as_the_naive_one(records in sorted_records(), waiting_ms in 0..50_000_i64, duration_ms in 30_000..200_000_i64) {
        let secs = |millis: i64| millis as f64 / 1000.0;
        let parameters =
            format!("max_waiting_secs = {}\nmax_duration_secs = {}", secs(waiting_ms), secs(duration_ms));
        prop_assert_eq!(joined(&join(&parameters, &records)), naive(&records, waiting_ms, duration_ms));
    }
}
