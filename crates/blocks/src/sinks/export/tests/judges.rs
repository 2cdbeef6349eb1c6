//! What others make of the octets that are sent: tshark of captures, nfacctd as a collector.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;

use arrow::datatypes::{UInt8Type, UInt16Type};
use weir_flow::{AddressText, OptionsKind, OptionsRow, OptionsRows, SideTables};
use weir_testkit::{program, write_capture};

use super::connections::open;
use super::*;

/// The port of captures, whose octets tshark takes for flows.
const PORT: u16 = 4739;

/// An Ethernet frame of IPv4 from 127.0.0.1 to itself.
fn frame(protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend(((20 + segment.len()) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    frame.extend_from_slice(segment);
    frame
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let length = ((8 + payload.len()) as u16).to_be_bytes();
    let [high, low] = PORT.to_be_bytes();
    frame(17, &[&[0xc0, 0, high, low, length[0], length[1], 0, 0], payload].concat())
}

/// Octets of a connection as its segments, each of them as long as an Ethernet frame carries.
fn tcp(octets: &[u8]) -> Vec<Vec<u8>> {
    let segment = |sequence: u32, flags: u8, payload: &[u8]| {
        let mut segment = vec![0xc0, 0];
        segment.extend(PORT.to_be_bytes());
        segment.extend(sequence.to_be_bytes());
        segment.extend([0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend_from_slice(payload);
        frame(6, &segment)
    };
    let syn = segment(0, 2, &[]);
    let data = octets.chunks(1460).enumerate().map(|(number, piece)| segment(1 + 1460 * number as u32, 0x18, piece));
    std::iter::once(syn).chain(data).collect()
}

/// Runs tshark on frames.
struct Dissected {
    tshark: PathBuf,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Dissected {
    fn new(tshark: PathBuf, frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sent.pcap");
        let start_us = 1_767_225_600_000_000;
        write_capture(&path, (start_us..).step_by(1_000).zip(frames));
        Self { tshark, path, _folder: folder }
    }

    fn run(&self, arguments: &[&str]) -> Vec<String> {
        let output = Command::new(&self.tshark)
            .args(["-d", "udp.port==4739,cflow", "-d", "tcp.port==4739,cflow", "-r"])
            .arg(&self.path)
            .args(arguments)
            .output()
            .expect("tshark");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
    }

    /// All values of a field, in the order of the flows.
    fn values(&self, field: &str) -> Vec<String> {
        let field = format!("cflow.{field}");
        let lines = self.run(&["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=;", "-e", &field]);
        let values = lines.iter().flat_map(|line| line.split(';')).filter(|value| !value.is_empty());
        values.map(str::to_owned).collect()
    }

    fn check_nothing_wrong(&self) {
        for filter in [
            "_ws.malformed",
            // warnings and errors
            "_ws.expert.severity >= 6291456",
            "cflow.template_frame == 0",
            "cflow.sequence_analysis.expected_sn",
        ] {
            assert_eq!(self.run(&["-Y", filter]), [""; 0], "{filter}");
        }
        let text = self.run(&["-V"]);
        assert_eq!(text.iter().find(|line| line.contains("No template found")), None);
    }
}

/// Columns that are compared, and what tshark calls them.
const FIELDS: [(&str, &str); 7] = [
    ("src_addr", "srcaddr"),
    ("dst_addr", "dstaddr"),
    ("src_port", "srcport"),
    ("dst_port", "dstport"),
    ("protocol", "protocol"),
    ("packets", "packets"),
    ("bytes", "octets"),
];

/// A column as tshark and nfacctd write it.
fn written(rows: &RecordBatch, name: &str) -> Vec<String> {
    let column = rows.column_by_name(name).expect("a column");
    match name {
        "src_addr" | "dst_addr" => {
            column.as_binary::<i32>().iter().flatten().map(|octets| AddressText(octets).to_string()).collect()
        }
        "src_port" | "dst_port" => column.as_primitive::<UInt16Type>().values().iter().map(u16::to_string).collect(),
        "protocol" => column.as_primitive::<UInt8Type>().values().iter().map(u8::to_string).collect(),
        _ => column.as_primitive::<UInt64Type>().values().iter().map(u64::to_string).collect(),
    }
}

/// What one flow says in these columns, for all flows in one order.
fn lines(columns: &[Vec<String>]) -> Vec<String> {
    let count = columns[0].len();
    assert!(
        columns.iter().all(|column| column.len() == count),
        "{:?}",
        columns.iter().map(Vec::len).collect::<Vec<_>>()
    );
    let line = |row: usize| columns.iter().map(|column| column[row].as_str()).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<_> = (0..count).map(line).collect();
    lines.sort_unstable();
    lines
}

/// Interfaces and sampling, as a Metering Process tells them.
fn side_tables() -> SideTables {
    let mut rows = OptionsRows::default();
    let blank = OptionsRow::blank(1, &[], 0, 10);
    let interface = OptionsRow { kind: OptionsKind::Interface, key: Some(3), name: Some("eth3"), ..blank.clone() };
    rows.push(&interface, std::iter::empty());
    let sampler =
        OptionsRow { kind: OptionsKind::Sampler, key: Some(0), sampling_interval: Some(100), ..blank.clone() };
    rows.push(&sampler, std::iter::empty());
    SideTables { others: rows.take().into_iter().collect(), ..SideTables::default() }
}

/// Sends flows, with what is told beside them, and yields what came.
fn sent_over_udp(sent: &RecordBatch, version: &str) -> Vec<Vec<u8>> {
    let receiver = Receiver::new();
    let (mut sink, _) = open(&format!("to = '{}'\nprotocol = '{version}'\nclock = 'rows'", receiver.address()));
    sink.take(Burst::with_side_tables(sent.clone(), side_tables())).expect("taken");
    sink.finish().expect("finished");
    let mut datagrams = Vec::new();
    let mut octets = vec![0; 65_536];
    while let Ok((length, _)) = receiver.0.recv_from(&mut octets) {
        datagrams.push(octets[..length].to_vec());
    }
    datagrams
}

fn check(dissected: &Dissected, sent: &RecordBatch, version: &str) {
    dissected.check_nothing_wrong();
    let found: Vec<_> = FIELDS.iter().map(|(_, field)| dissected.values(field)).collect();
    let expected: Vec<_> = FIELDS.iter().map(|(column, _)| written(sent, column)).collect();
    assert_eq!(lines(&found), lines(&expected), "{version}");
    let text = dissected.run(&["-V"]).join("\n");
    match version {
        "netflow-v5" => assert!(text.contains(".00 0000 0110 0100 = SampleRate: 100"), "the header tells it"),
        "netflow-v9" => assert_eq!(dissected.values("sampling_interval"), ["100"]),
        _ => assert_eq!(dissected.values("sampling_packet_space"), ["99"]),
    }
    assert_eq!(text.contains("eth3"), version != "netflow-v5", "{version}");
}

#[test]
fn tshark_reads_datagrams_as_they_were_meant() {
    let Some(tshark) = program("tshark") else { return };
    for version in ["netflow-v5", "netflow-v9", "ipfix"] {
        let sent = flows(800, 0);
        let datagrams = sent_over_udp(&sent, version);
        assert!(datagrams.len() > 20);
        let dissected = Dissected::new(tshark.clone(), datagrams.iter().map(|datagram| udp(datagram)));
        check(&dissected, &sent, version);
    }
}

#[test]
fn tshark_reads_a_connection_as_it_was_meant() {
    let Some(tshark) = program("tshark") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = listener.local_addr().expect("an address");
    let reader = thread::spawn(move || {
        let mut octets = Vec::new();
        listener.accept().expect("a connection").0.read_to_end(&mut octets).expect("read");
        octets
    });
    let sent = flows(2_000, 0);
    let (mut sink, _) = open(&format!("to = 'tcp://{to}'\nclock = 'rows'"));
    sink.take(Burst::with_side_tables(sent.clone(), side_tables())).expect("taken");
    sink.finish().expect("finished");
    let dissected = Dissected::new(tshark, tcp(&reader.join().expect("read")));
    check(&dissected, &sent, "ipfix");
}

/// Packets and octets by flow key, as nfacctd sums them up.
type Sums = BTreeMap<String, [u64; 2]>;

/// Sums of rows, whose columns are those of the key, packets and octets.
fn sums(columns: &[Vec<String>]) -> Sums {
    let mut sums = Sums::new();
    for line in lines(columns) {
        let mut fields: Vec<&str> = line.split(' ').collect();
        let numbers = fields.split_off(fields.len() - 2);
        let sum = sums.entry(fields.join(" ")).or_default();
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number.parse::<u64>().expect("a number"));
    }
    sums
}

/// What a file of nfacctd says.
fn printed(path: &Path) -> Sums {
    let text = fs::read_to_string(path).unwrap_or_default();
    // the last line may still be being written
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut rows = whole.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let Some(names) = rows.next() else { return Sums::new() };
    let rows: Vec<_> = rows.filter(|row| *row != names).collect();
    let column = |name: &str| {
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no {name}: {names:?}"));
        rows.iter().map(|row| row[at].to_owned()).collect()
    };
    let columns = ["SRC_IP", "DST_IP", "SRC_PORT", "DST_PORT", "PACKETS", "BYTES"].map(column);
    if rows.is_empty() { Sums::new() } else { sums(&columns) }
}

/// Runs nfacctd until it has printed what it was sent.
fn nfacctd(nfacctd: &Path, version: &str, sent: &RecordBatch) -> Sums {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let port = ports::free_port();
    let config = format!(
        "daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\nnfacctd_pipe_size: 4000000\nplugins: print\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto\n\
         print_output: csv\nprint_output_file: {}\nprint_output_file_append: true\nprint_refresh_time: 1\nprint_cache_entries: 32771\n\
         nfacctd_disable_checks: false\nlogfile: {}\n",
        path("flows.csv").display(),
        path("log").display()
    );
    fs::write(path("nfacctd.conf"), config).expect("written");
    let child = Command::new(nfacctd)
        .arg("-f")
        .arg(path("nfacctd.conf"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nfacctd");
    let mut child = Nfcapd(child);
    // of its two processes the one that prints must be at work as well, or it is not told of what comes
    let log = || fs::read_to_string(path("log")).unwrap_or_default();
    wait_until("nfacctd listens", || ports::waiting_octets(port).is_some() && log().contains("Purging cache - END"));
    let parameters =
        format!("to = '127.0.0.1:{port}'\nprotocol = '{version}'\nclock = 'rows'\nrecords_per_second = 20000");
    let (mut sink, _) = open(&parameters);
    sink.take(Burst::with_side_tables(sent.clone(), side_tables())).expect("taken");
    sink.finish().expect("finished");
    // it prints once a second what has come since
    let packets = sent.column_by_name("packets").expect("packets").as_primitive::<UInt64Type>();
    let packets: u64 = packets.values().iter().sum();
    let has_all = || printed(&path("flows.csv")).values().map(|[packets, _]| packets).sum::<u64>() >= packets;
    wait_until("nfacctd has printed all", has_all);
    let ended = Command::new("kill").args(["-INT", &child.0.id().to_string()]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    child.0.wait().expect("its end");
    let log = log();
    for trouble in ["malformed", "unknown template", "expecting flow", "WARN", "ERROR"] {
        assert!(!log.contains(trouble), "{log}");
    }
    printed(&path("flows.csv"))
}

#[test]
fn nfacctd_prints_what_was_sent() {
    let Some(program) = program("nfacctd") else { return };
    for version in ["netflow-v5", "netflow-v9", "ipfix"] {
        let sent = flows(2_000, 0);
        let columns = ["src_addr", "dst_addr", "src_port", "dst_port", "packets", "bytes"];
        assert_eq!(nfacctd(&program, version, &sent), sums(&columns.map(|name| written(&sent, name))), "{version}");
    }
}
