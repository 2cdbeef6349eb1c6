//! Interfaces and sampling on their way from a Metering Process to collectors.

use arrow::datatypes::UInt32Type;
use weir_flow::{OptionsKind, OptionsRow, OptionsRows, SideTables, TableBatch};

use super::connections::{count, open};
use super::*;

/// Rows of an exporter: interfaces by index and name, and of a sampler one packet in so many.
fn rows(exporter: &[u8], interfaces: &[(u32, &str)], sampling: Option<u32>) -> SideTables {
    let mut rows = OptionsRows::default();
    let blank = OptionsRow::blank(1_700_000_000_000, exporter, 0, 10);
    for (index, name) in interfaces {
        let scope = format!("ingressInterface={index}");
        let row = OptionsRow {
            kind: OptionsKind::Interface,
            scope: &scope,
            key: Some((*index).into()),
            name: Some(name),
            ..blank.clone()
        };
        rows.push(&row, std::iter::empty());
    }
    if let Some(interval) = sampling {
        let row = OptionsRow {
            kind: OptionsKind::Sampler,
            scope: "selectorId=0",
            key: Some(0),
            sampling_interval: Some(interval),
            ..blank.clone()
        };
        rows.push(&row, [(0, 304, &[0_u8, 4][..])].into_iter());
    }
    SideTables { others: rows.take().into_iter().collect(), ..SideTables::default() }
}

/// What a decoder has heard: kind, key, name, interval.
type Heard = BTreeSet<(String, Option<u64>, Option<String>, Option<u32>)>;

fn heard(tables: &[TableBatch]) -> Heard {
    let mut heard = Heard::new();
    for rows in tables.iter().filter(|rows| rows.table() == weir_flow::Table::ExporterOptions) {
        let rows = rows.record_batch();
        let column = |name: &str| rows.column_by_name(name).expect("a column");
        let (kinds, names) = (column("kind").as_string::<i32>(), column("name").as_string::<i32>());
        let keys = column("key").as_primitive::<UInt64Type>();
        let intervals = column("sampling_interval").as_primitive::<UInt32Type>();
        for (row, key) in keys.iter().enumerate() {
            let name = names.iter().nth(row).flatten().map(str::to_owned);
            heard.insert((kinds.value(row).to_owned(), key, name, intervals.iter().nth(row).flatten()));
        }
    }
    heard
}

/// Everything that came by UDP, decoded.
fn received(receiver: &Receiver) -> (Heard, usize) {
    let mut decoder = Decoder::new(Limits::default());
    let mut octets = vec![0; 65_536];
    while let Ok((length, source)) = receiver.0.recv_from(&mut octets) {
        decoder.datagram(source, 1_767_225_600_000, &octets[..length]);
    }
    let statistics = decoder.statistics();
    assert_eq!((statistics.total(weir_flow::Counter::RecordsLost), statistics.sets_waiting), (0, 0));
    assert_eq!(statistics.problems, Vec::new());
    let delivery = decoder.take_delivery();
    (heard(&delivery.side_tables.others), delivery.rows())
}

fn interface(index: u64, name: &str) -> (String, Option<u64>, Option<String>, Option<u32>) {
    ("interface".into(), Some(index), Some(name.into()), None)
}

#[test]
fn collectors_hear_what_is_told() {
    for (version, sampler) in [("netflow-v9", None), ("ipfix", Some(0))] {
        let receivers = [Receiver::new(), Receiver::new()];
        let [first, second] = [&receivers[0], &receivers[1]].map(Receiver::address);
        for distribute in ["all", "round-robin"] {
            let (mut sink, meter) = open(&format!(
                "to = ['{first}', '{second}']\nprotocol = '{version}'\nclock = 'rows'\ndistribute = '{distribute}'"
            ));
            let told = rows(&[], &[(2, "eth0"), (7, "wlp3s0")], Some(100));
            sink.take(Burst::with_side_tables(flows(600, 0), told)).expect("taken");
            sink.finish().expect("finished");
            let sampler = ("sampler".to_owned(), sampler, None, Some(100));
            let all = Heard::from([interface(2, "eth0"), interface(7, "wlp3s0"), sampler]);
            for receiver in &receivers {
                let (heard, flows) = received(receiver);
                assert_eq!(heard, all, "{version} {distribute}");
                assert!(flows > 0);
            }
            assert_eq!(["options_told", "options_left_out"].map(|name| count(&meter, name)), [3, 0]);
        }
    }
}

#[test]
fn what_is_told_late_is_heard_before_the_next_flows_and_again() {
    let receiver = Receiver::new();
    let (mut sink, _) = open(&format!("to = '{}'\ntemplate_refresh_datagrams = 1", receiver.address()));
    sink.take(Burst::new(flows(3, 0))).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(received(&receiver).0, Heard::new());
    // without any flows
    let none = || Burst::with_side_tables(flows(1, 0).slice(0, 0), rows(&[], &[(2, "eth0")], None));
    sink.take(none()).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(received(&receiver), (Heard::from([interface(2, "eth0")]), 0));
    // what is known already is not told again before its time
    sink.take(none()).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(received(&receiver), (Heard::new(), 0));
    // with the templates, when it is their turn
    sink.take(Burst::new(flows(3, 0))).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(received(&receiver), (Heard::from([interface(2, "eth0")]), 3));
    // and another name when it changes
    let renamed = rows(&[], &[(2, "uplink")], None);
    sink.take(Burst::with_side_tables(flows(3, 0), renamed)).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(received(&receiver), (Heard::from([interface(2, "uplink")]), 3));
}

#[test]
fn version_5_tells_the_interval_in_its_header() {
    let receiver = Receiver::new();
    let (mut sink, meter) = open(&format!("to = '{}'\nprotocol = 'netflow-v5'\nclock = 'rows'", receiver.address()));
    sink.take(Burst::with_side_tables(flows(60, 0), rows(&[], &[(2, "eth0")], Some(100)))).expect("taken");
    let mut octets = [0; 2048];
    let (length, _) = receiver.0.recv_from(&mut octets).expect("a datagram");
    // one packet in 100, and the mode of version 5
    assert_eq!((length, &octets[22..24]), (1464, &[0x40, 100][..]));
    assert_eq!(["options_told", "options_left_out"].map(|name| count(&meter, name)), [1, 1]);
    sink.take(Burst::with_side_tables(flows(60, 0), rows(&[], &[], Some(20_000)))).expect("taken");
    assert_eq!(count(&meter, "options_left_out"), 2, "14 bits");
}

#[test]
fn what_cannot_be_told_is_counted() {
    // without flows as well: by the clock of today all of them are too old for NetFlow v9
    for (clock, flows_heard) in [("rows", 3), ("now", 0)] {
        what_can_be_told_is_heard(clock, flows_heard);
    }
}

fn what_can_be_told_is_heard(clock: &str, flows_heard: usize) {
    let receiver = Receiver::new();
    let (mut sink, meter) = open(&format!("to = '{}'\nprotocol = 'netflow-v9'\nclock = '{clock}'", receiver.address()));
    let long = "x".repeat(33);
    let mut told = rows(&[192, 0, 2, 1], &[(1, "eth0"), (2, &long)], None);
    // of another exporter, whose interface 1 is another one
    told.others.extend(rows(&[192, 0, 2, 2], &[(1, "ge-0/0/0")], None).others);
    sink.take(Burst::with_side_tables(flows(3, 0), told)).expect("taken");
    sink.finish().expect("finished");
    assert_eq!(received(&receiver), (Heard::from([interface(1, "eth0")]), flows_heard));
    assert_eq!(["options_told", "options_left_out"].map(|name| count(&meter, name)), [1, 2]);
}

/// Told as the rate of all, that of a part would make wrong what collectors scale by it.
#[test]
fn the_rate_of_a_part_is_not_told_as_that_of_all() {
    let receiver = Receiver::new();
    let (mut sink, meter) = open(&format!("to = '{}'\nprotocol = 'ipfix'\nclock = 'rows'", receiver.address()));
    let mut samplers = OptionsRows::default();
    for scope in ["templateId=256", "line_card=1", "ingressVRFID=7", "exportingProcessId=1"] {
        let blank = OptionsRow::blank(1_700_000_000_000, &[], 0, 10);
        let row = OptionsRow { kind: OptionsKind::Sampler, scope, sampling_interval: Some(100), ..blank };
        samplers.push(&row, std::iter::empty());
    }
    let told = SideTables { others: samplers.take().into_iter().collect(), ..SideTables::default() };
    sink.take(Burst::with_side_tables(flows(3, 0), told)).expect("taken");
    sink.finish().expect("finished");
    assert_eq!(received(&receiver).0, Heard::from([("sampler".to_owned(), Some(0), None, Some(100))]));
    assert_eq!(["options_told", "options_left_out"].map(|name| count(&meter, name)), [1, 3]);
}

/// Names of scopes decide, and not what is in the texts of exporters.
#[test]
fn only_rates_of_all_and_of_samplers_with_numbers_are_told() {
    const DOMAIN: u32 = 3;
    const OCTETS: &[u8] = &[9];
    let told = |scope: &str, key: Option<u64>, number_element: Option<u16>| {
        let receiver = Receiver::new();
        let (mut sink, _) = open(&format!("to = '{}'\nprotocol = 'ipfix'\nclock = 'rows'", receiver.address()));
        let mut samplers = OptionsRows::default();
        let blank = OptionsRow::blank(1_700_000_000_000, &[], DOMAIN, 10);
        let row = OptionsRow { kind: OptionsKind::Sampler, scope, key, sampling_interval: Some(100), ..blank };
        samplers.push(&row, number_element.map(|id| (0, id, OCTETS)).into_iter());
        let told = SideTables { others: samplers.take().into_iter().collect(), ..SideTables::default() };
        sink.take(Burst::with_side_tables(flows(3, 0), told)).expect("taken");
        sink.finish().expect("finished");
        received(&receiver).0.into_iter().map(|(_, key, _, _)| key).collect::<Vec<_>>()
    };
    let of_all = [
        "",
        "system=0",
        "scope143=1",
        "exporterIPv4Address=192.0.2.1 exportingProcessId=1",
        "observationDomainId=3",
        "observationDomainId=0",
    ];
    for scope in of_all {
        assert_eq!(told(scope, None, None), [Some(0)], "{scope}");
    }
    let of_parts = [
        "observationDomainId=7",
        "applicationId=0x0d000001",
        "64999/99=9",
        "scope61=1",
        "samplerName=system system=0",
        "system=0 …",
    ];
    for scope in of_parts {
        assert_eq!(told(scope, None, None), [], "{scope}");
    }
    // samplers with numbers, in the scope or not, and keys of interfaces
    let quoted = r#"samplerName="a \"b\" template=1 \\" selectorId=5"#;
    for scope in ["selectorId=5", "samplerName=per-interface samplerId=5", quoted, "scope302=5"] {
        assert_eq!(told(scope, Some(5), None), [Some(5)], "{scope}");
    }
    assert_eq!(told("system=0", Some(9), Some(48)), [Some(9)]);
    assert_eq!(told("system=0", Some(9), None), [Some(0)]);
    for scope in ["interface=9", "ingressInterface=9", "applicationId=0x0d000001", "samplerName=x"] {
        assert_eq!(told(scope, Some(9), None), [], "{scope}");
    }
}

#[test]
fn corrections_do_not_grow_for_ever() {
    let early = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = early.local_addr().expect("an address");
    drop(early);
    let (mut sink, meter) = open(&format!("to = 'tcp://{address}'"));
    for round in 0..6_000 {
        let told = rows(&[], &[(2, &format!("a name that changes {round}"))], None);
        sink.take(Burst::with_side_tables(flows(1, 0).slice(0, 0), told)).expect("taken");
        sink.tick().expect("a tick");
    }
    sink.take(Burst::new(flows(3, 0))).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(count(&meter, "options_told"), 6_000);
    let late = std::net::TcpListener::bind(address).expect("the same port");
    let reader = thread::spawn(move || {
        let mut octets = Vec::new();
        std::io::Read::read_to_end(&mut late.accept().expect("a connection").0, &mut octets).expect("read");
        octets
    });
    wait_until("all is sent", || count(&meter, "records_exported") == 3);
    sink.finish().expect("finished");
    let octets = reader.join().expect("read");
    assert!(octets.len() < 2_000, "{} octets", octets.len());
    assert_eq!(decoded(&octets).num_rows(), 3);
    let told = String::from_utf8_lossy(&octets);
    assert!(told.contains("a name that changes 5999") && !told.contains("a name that changes 0"));
}
