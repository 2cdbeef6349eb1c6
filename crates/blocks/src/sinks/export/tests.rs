mod connections;
mod judges;
mod options_data;
mod secure;

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::UInt64Type;
use weir_chain::compliance;
use weir_collect::{Decoder, Limits, Session, Transport};
use weir_export::Refusal;
use weir_generate::TrafficModel;
use weir_print::ColumnText;
use weir_testkit::ports;

use super::*;

/// Flows of two families whose `bytes` are their numbers.
fn flows(count: u64, ipv6_permille: u16) -> RecordBatch {
    let model = TrafficModel { ipv6_permille, numbered: true, ..TrafficModel::new(9) };
    let batches: Vec<_> = model.flows(count).expect("flows").map(|batch| batch.record_batch().clone()).collect();
    concat_batches(&batches[0].schema(), &batches).expect("a batch")
}

struct Receiver(UdpSocket);

impl Receiver {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // What was sent on the loopback interface is there when the sender has returned.
        socket.set_nonblocking(true).expect("not blocking");
        Self(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    /// Decodes everything that has come.
    fn received(&self) -> (RecordBatch, u64) {
        let mut decoder = Decoder::new(Limits::default());
        let (mut octets, mut datagrams) = (vec![0; 65_536], 0);
        while let Ok((length, source)) = self.0.recv_from(&mut octets) {
            decoder.datagram(source, 1_767_225_600_000, &octets[..length]);
            datagrams += 1;
        }
        let statistics = decoder.statistics();
        let lost = [weir_flow::Counter::RecordsLost, weir_flow::Counter::DatagramsLost];
        assert_eq!(lost.map(|counter| statistics.total(counter)), [0, 0]);
        assert_eq!((statistics.problems, statistics.sets_waiting), (Vec::new(), 0));
        let flows = decoder.take_delivery().flows.map(|flows| flows.record_batch().clone());
        (flows.unwrap_or_else(|| RecordBatch::new_empty(weir_flow::Table::Flows.schema())), datagrams)
    }
}

/// Decodes the messages of one session; nothing may be missing or wrong.
fn decoded(octets: &[u8]) -> RecordBatch {
    let mut decoder = Decoder::new(Limits::default());
    let session = Session { transport: Transport::Tcp, source: SocketAddr::from(([127, 0, 0, 1], 1)) };
    for message in weir_collect::stream::messages(octets) {
        decoder.message(session, 1_767_225_600_000, message);
    }
    let statistics = decoder.statistics();
    assert_eq!(statistics.total(weir_flow::Counter::RecordsLost), 0);
    assert_eq!((statistics.problems, statistics.sets_waiting), (Vec::new(), 0));
    let flows = decoder.take_delivery().flows.map(|flows| flows.record_batch().clone());
    flows.unwrap_or_else(|| RecordBatch::new_empty(weir_flow::Table::Flows.schema()))
}

/// Every row as text, in order, without what a collector adds.
fn texts(rows: &RecordBatch) -> Vec<String> {
    let added =
        ["received", "exporter", "observation_domain", "export_version", "engine_type", "engine_id", "time_flags"];
    let mut texts = vec![Vec::new(); rows.num_rows()];
    for (field, values) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if added.contains(&field.name().as_str()) {
            continue;
        }
        let mut column = ColumnText::new(field, values);
        for (row, text) in texts.iter_mut().enumerate() {
            text.extend_from_slice(format!(" {}=", field.name()).as_bytes());
            column.push(row, text);
        }
    }
    let mut texts: Vec<_> = texts.into_iter().map(|text| String::from_utf8(text).expect("text")).collect();
    texts.sort_unstable();
    texts
}

fn numbers(rows: &RecordBatch) -> BTreeSet<u64> {
    rows.column_by_name("bytes").expect("bytes").as_primitive::<UInt64Type>().values().iter().copied().collect()
}

fn counter(counters: &[(&'static str, u64)], name: &str) -> u64 {
    counters.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name}")).1
}

fn refused(parameters: &str) -> String {
    let error = weir_chain::options::parse(parameters).and_then(configure).err().expect("an error");
    format!("{}: {}", error.key, error.message)
}

#[test]
fn compliance_and_a_collector_gets_what_was_sent() {
    // 600 flows are some 40 kB, which fit into the receive buffer of any system.
    for (version, ipv6_permille) in [("netflow-v5", 0), ("netflow-v9", 300), ("ipfix", 300)] {
        let sent = flows(600, ipv6_permille);
        for burst_rows in [1, 77, 600] {
            let receiver = Receiver::new();
            let others = format!("protocol = '{version}'\nclock = 'rows'\ndomain = 7");
            let parameters = format!("to = '{}'\n{others}", receiver.address());
            let counters = compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), burst_rows);
            let (received, datagrams) = receiver.received();
            assert_eq!(texts(&received), texts(&sent), "{version} in bursts of {burst_rows}");
            assert_eq!(counter(&counters, "records_exported"), 600);
            assert_eq!(counter(&counters, "datagrams_sent"), datagrams);
            assert!(lane::REFUSED.iter().all(|name| counter(&counters, name) == 0));
            assert_eq!(received.column_by_name("exporter").expect("exporters").null_count(), 0);
        }
    }
}

#[test]
fn what_version_5_cannot_tell_is_counted() {
    let sent = flows(1000, 400);
    let receiver = Receiver::new();
    let parameters = format!("to = '{}'\nprotocol = 'netflow-v5'\nclock = 'rows'", receiver.address());
    let counters = compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), 100);
    let is_narrow =
        |row: &usize| sent.column_by_name("src_addr").expect("addresses").as_binary::<i32>().value(*row).len() == 4;
    let narrow = (0..1000).filter(is_narrow).count() as u64;
    assert!((400..800).contains(&narrow));
    assert_eq!(counter(&counters, "records_exported"), narrow);
    assert_eq!(counter(&counters, "records_refused_address"), 1000 - narrow);
    assert_eq!(receiver.received().0.num_rows() as u64, narrow);
    // Flows that end after the export, or long before it, cannot be told by an uptime.
    let old = TrafficModel { start_ms: 1_000_000_000_000, ..TrafficModel::new(1) }.flows(50).expect("flows").next();
    let old = old.expect("a batch").record_batch().clone();
    let parameters = format!("to = '{}'\nprotocol = 'netflow-v5'", receiver.address());
    let counters = compliance::sink(&KIND, &parameters, &[old], 100);
    assert_eq!((counter(&counters, "records_refused_time"), counter(&counters, "datagrams_sent")), (50, 0));
}

#[test]
fn all_get_all_or_each_its_turn() {
    // Few enough for the receive buffer.
    let sent = flows(1200, 100);
    for distribute in ["all", "round-robin"] {
        let receivers = [Receiver::new(), Receiver::new()];
        let [first, second] = [&receivers[0], &receivers[1]].map(Receiver::address);
        let parameters = format!("to = ['{first}', '{second}']\ndistribute = '{distribute}'\nclock = 'rows'");
        let counters = compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), 300);
        let collectors_of_a_flow = if distribute == "all" { 2 } else { 1 };
        assert_eq!(counter(&counters, "records_exported"), 1200 * collectors_of_a_flow);
        let [first, second] = receivers.map(|receiver| numbers(&receiver.received().0));
        let is_turn = |turn: u64| (0..1200).filter(|row| distribute == "all" || row / 512 % 2 == turn).collect();
        assert!(first == is_turn(0) && second == is_turn(1), "{distribute}");
    }
}

#[test]
fn flows_wait_no_longer_than_a_tick() {
    let receiver = Receiver::new();
    let (Built::Sink(mut sink), _) = compliance::open(&KIND, &format!("to = '{}'", receiver.address())) else {
        panic!("no sink")
    };
    sink.take(Burst::new(flows(3, 0))).expect("taken");
    assert_eq!((sink.state().rows, receiver.received().1), (3, 0));
    sink.tick().expect("a tick");
    assert_eq!((sink.state().rows, receiver.received().0.num_rows()), (0, 3));
    sink.take(Burst::new(flows(3, 0).slice(0, 0))).expect("taken");
    sink.finish().expect("finished");
}

#[test]
fn the_queue_timeout_says_how_long_flows_wait() {
    let open = |timeout: &str| {
        let receiver = Receiver::new();
        let parameters = format!("to = '{}'\nqueue_timeout = '{timeout}s'", receiver.address());
        let (Built::Sink(mut sink), _) = compliance::open(&KIND, &parameters) else { panic!("no sink") };
        sink.take(Burst::new(flows(3, 0))).expect("taken");
        (sink, receiver)
    };
    let (_, receiver) = open("0");
    assert_eq!(receiver.received().0.num_rows(), 3, "at once");
    let (mut sink, receiver) = open("30");
    sink.tick().expect("a tick");
    assert_eq!((sink.state().rows, receiver.received().1), (3, 0), "not yet");
    // another tick would be at 1.5 s or later
    let (mut sink, receiver) = open("1.5");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        assert_eq!(sink.state().rows, 3);
        thread::sleep(Duration::from_millis(10));
    }
    sink.tick().expect("a tick");
    assert_eq!((sink.state().rows, receiver.received().0.num_rows()), (0, 3));
}

#[test]
fn a_limit_on_the_rate_loses_nothing() {
    let receiver = Receiver::new();
    let sent = flows(300, 0);
    let parameters = format!("to = '{}'\nrecords_per_second = 4000\nfrom = '127.0.0.9'", receiver.address());
    let counters = compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), 300);
    let (received, _) = receiver.received();
    assert_eq!((counter(&counters, "records_exported"), numbers(&received)), (300, numbers(&sent)));
    let exporters = received.column_by_name("exporter").expect("exporters").as_binary::<i32>();
    assert!(exporters.iter().all(|exporter| exporter == Some(&[127, 0, 0, 9])));
}

#[test]
fn what_the_system_does_not_take_is_counted() {
    // Sending to the broadcast address needs a permission that the socket does not ask for.
    let receiver = Receiver::new();
    let parameters = format!("to = ['255.255.255.255:9', '{}']\nallow_remote = true", receiver.address());
    let counters = compliance::sink(&KIND, &parameters, &[flows(100, 0)], 100);
    assert_eq!(counter(&counters, "records_unsent"), 100);
    assert_eq!(counter(&counters, "records_exported"), 100, "to the other");
    assert_eq!(counter(&counters, "datagrams_sent"), receiver.received().1);
    assert!(counter(&counters, "datagrams_failed") >= counter(&counters, "datagrams_sent"));
}

#[test]
fn columns_that_are_not_of_flows_are_left_out() {
    let receiver = Receiver::new();
    let sent = flows(10, 0);
    let names: ArrayRef = Arc::new(StringArray::from(vec!["example"; 10]));
    // Out of order, with a stranger among them.
    let columns = ["bytes", "src_addr"].map(|name| (name, sent.column_by_name(name).expect("a column").clone()));
    let [bytes, address] = columns;
    let mixed = RecordBatch::try_from_iter([bytes, ("country", names.clone()), address]).expect("a batch");
    compliance::sink(&KIND, &format!("to = '{}'", receiver.address()), &[mixed], 10);
    let schema = sent.schema_ref();
    let positions = ["src_addr", "bytes"].map(|name| schema.index_of(name).expect("a column"));
    assert_eq!(texts(&receiver.received().0), texts(&sent.project(&positions).expect("columns")));
    let strangers = RecordBatch::try_from_iter([("country", names)]).expect("a batch");
    let (Built::Sink(mut sink), _) = compliance::open(&KIND, "to = '127.0.0.1:9'") else { panic!("no sink") };
    assert_eq!(sink.take(Burst::new(strangers)).expect_err("an error").to_string(), "rows have no column of flows");
}

#[test]
fn parameters_must_make_sense() {
    assert_eq!(refused("to = '192.0.2.1:2055'"), "to: 192.0.2.1:2055 is not on this machine");
    assert_eq!(refused("to = '[::ffff:192.0.2.1]:2055'"), "to: [::ffff:192.0.2.1]:2055 is not on this machine");
    compliance::open(&KIND, "to = ['127.255.0.1:1', '[::1]:1', '[::ffff:127.0.0.1]:1']");
    assert_eq!(refused("to = 'localhost'"), "to: 'to': 'localhost' is no address with a port");
    assert_eq!(refused("to = '127.0.0.1:0'"), "to: 'to': '127.0.0.1:0' is no address with a port");
    assert_eq!(refused("to = []"), "to: at least one address is needed");
    assert_eq!(refused("to = '127.0.0.1:9'\nfrom = '::1'"), "from: nothing can be sent from ::1 to 127.0.0.1:9");
    let domain = refused("to = '127.0.0.1:9'\nprotocol = 'netflow-v5'\ndomain = 65536");
    assert!(domain.starts_with("domain: observation domain 65536 is more than"), "{domain}");
    let octets = refused("to = '127.0.0.1:9'\nmessage_size_max = '100B'");
    assert_eq!(octets, "message_size_max: 'message_size_max' is 100B, but a size from 512B to 65535B is needed");
    // messages of connections may be longer than datagrams, unless there is a collector that gets datagrams
    compliance::open(&KIND, "to = 'tcp://127.0.0.1:9'\nmessage_size_max = '65535B'");
    let octets = refused("to = ['tcp://127.0.0.1:9', '127.0.0.1:9']\nmessage_size_max = '65535B'");
    assert!(octets.starts_with("message_size_max: datagrams of 65535 octets"), "{octets}");
    for version in ["5", "9"] {
        assert_eq!(
            refused(&format!("to = ['127.0.0.1:9', 'tcp://127.0.0.1:9']\nprotocol = 'netflow-v{version}'")),
            format!("protocol: NetFlow v{version} goes over UDP alone, not to tcp://127.0.0.1:9")
        );
    }
    assert_eq!(refused("to = 'http://127.0.0.1:9'"), "to: 'to': 'http' is no transport");
    assert_eq!(refused("to = 'tcp://192.0.2.1:4739'"), "to: 192.0.2.1:4739 is not on this machine");
    let useless = refused("to = 'tcp://127.0.0.1:9'\ntls_ca = 'ca.pem'");
    assert_eq!(useless, "tls_ca: 'tls_ca' has no effect: no collector is reached over TLS");
    let alone = refused("to = 'tls://127.0.0.1:9'\ntls_cert = 'own.pem'");
    assert_eq!(alone, "tls_key: 'tls_key' must be given with 'tls_cert'");
}

#[test]
fn what_is_wrong_is_told_when_the_sink_opens() {
    for (parameters, told) in [
        ("to = 'udp://no-such-host.invalid:2055'", "cannot find the address of 'no-such-host.invalid'"),
        ("to = 'tcp://no-such-host.invalid:4739'", "cannot find the address of 'no-such-host.invalid'"),
        ("to = 'tls://127.0.0.1:9'\ntls_ca = 'no-such.pem'", "flows cannot be sent over TLS"),
    ] {
        let options = weir_chain::options::parse(parameters).expect("options");
        let error =
            configure(options).expect("options that make sense")(&ComponentContext::default()).err().expect("an error");
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn refusals_have_their_counters() {
    let names: Vec<_> = Refusal::ALL.iter().map(|reason| format!("records_refused_{}", reason.label())).collect();
    assert_eq!(names, lane::REFUSED);
}

/// A running nfcapd, ended when it is dropped.
struct Nfcapd(Child);

impl Drop for Nfcapd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..24_000 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: not within two minutes");
}

/// Flows, packets, octets and sequence failures that nfdump finds in a folder of nfcapd.
fn nfdump_totals(folder: &Path) -> [u64; 4] {
    let output = Command::new("nfdump").arg("-R").arg(folder).arg("-I").output().expect("nfdump");
    let text = String::from_utf8(output.stdout).expect("text");
    ["Flows", "Packets", "Bytes", "Sequence failures"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    })
}

#[test]
fn nfcapd_gets_what_was_sent() {
    if weir_testkit::program("nfcapd").is_none() || weir_testkit::program("nfdump").is_none() {
        return;
    }
    for version in ["netflow-v5", "netflow-v9", "ipfix"] {
        let folder = tempfile::tempdir().expect("a folder");
        let port = ports::free_port();
        let child = Command::new("nfcapd")
            .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-B", "4000000", "-w"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nfcapd");
        let mut nfcapd = Nfcapd(child);
        wait_until("nfcapd listens", || ports::is_waiting_at(nfcapd.0.id(), port));
        let sent = flows(5000, if version == "netflow-v5" { 0 } else { 300 });
        let parameters =
            format!("to = '127.0.0.1:{port}'\nprotocol = '{version}'\nclock = 'rows'\nrecords_per_second = 50000");
        compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), 500);
        wait_until("nfcapd has read all", || ports::is_waiting_at(nfcapd.0.id(), port));
        let ended = Command::new("kill").args(["-TERM", &nfcapd.0.id().to_string()]).status();
        assert!(ended.is_ok_and(|status| status.success()) && nfcapd.0.wait().expect("its end").success());
        let sum = |name: &str| {
            sent.column_by_name(name).expect("a column").as_primitive::<UInt64Type>().values().iter().sum()
        };
        assert_eq!(nfdump_totals(folder.path()), [5000, sum("packets"), sum("bytes"), 0], "version {version}");
    }
}
