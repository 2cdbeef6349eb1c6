//! SIGKILL at random moments under load: what was in the archive stays, nothing is there twice, the books agree.

use std::cell::OnceCell;
use std::fs::OpenOptions;
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use nix::fcntl::OFlag;
use weir_archive::Snapshot;
use weir_flow::Table;
use weir_testkit::write_capture;
use weir_wire::{FieldSpecifier, Template, TemplateId, ipfix};

use crate::process::{Collector, Exporter, run, wait_for, weir};

const KILLS: u64 = 50;

/// Everything a table holds, sealed and not.
fn rows(archive: &Path, table: Table) -> Vec<RecordBatch> {
    let snapshot = Snapshot::open(archive).expect("a snapshot");
    let sealed = snapshot.segments(table).iter().flat_map(|segment| segment.read().expect("a whole segment"));
    sealed.chain(snapshot.tail(table).expect("readable")).collect()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<u64> {
    let of =
        |batch: &RecordBatch| batch.column_by_name(column).map(|c| c.as_primitive::<UInt64Type>().values().to_vec());
    batches.iter().filter_map(of).flatten().collect()
}

/// The numbers of all flows, in order, and how many flows the books say there are.
fn audit(archive: &Path) -> (Vec<u64>, u64) {
    let mut flows = numbers(&rows(archive, Table::Flows), "bytes");
    flows.sort_unstable();
    (flows, numbers(&rows(archive, Table::ExporterBooks), "records_stored").iter().sum())
}

#[test]
fn killed_fifty_times_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let (mut seen_before, mut next) = (Vec::new(), 0);
    for round in 0..KILLS {
        // small segments, so that kills also hit rotation, sealing and the removal of tails
        let collector = Collector::start(&archive, &["--commit-interval", "50ms", "--segment-rows", "3000"]);
        let mut exporter = Exporter::new(next);
        // from no time at all to some sealed segments; the multiplier scatters the moments
        let until = Instant::now() + Duration::from_millis(round * 7919 % 400);
        let mut acknowledged = Vec::new();
        while Instant::now() < until {
            for _ in 0..20 {
                exporter.send(collector.address);
            }
            acknowledged = audit(&archive).0;
        }
        collector.kill();
        next = exporter.next();
        let (flows, booked) = audit(&archive);
        assert!(flows.windows(2).all(|pair| pair[0] < pair[1]), "round {round}: a flow is there twice");
        assert_eq!(flows.len() as u64, booked, "round {round}: flows and books differ");
        for kept in [&seen_before, &acknowledged] {
            let missing = kept.iter().find(|number| flows.binary_search(number).is_err());
            assert_eq!(missing, None, "round {round}: a flow that was there is gone");
        }
        seen_before = flows;
    }
    Collector::start(&archive, &[]).stop();
    let (flows, booked) = audit(&archive);
    assert_eq!((flows.len() as u64, &flows), (booked, &seen_before), "sealing what the kills left changed it");
    assert!(flows.len() > 10_000, "only {} flows: the load was no load", flows.len());
}

#[test]
fn what_was_acknowledged_in_order_is_all_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let collector = Collector::start(&archive, &["--segment-rows", "2000"]);
    let mut exporter = Exporter::new(0);
    for _ in 0..200 {
        exporter.send(collector.address);
    }
    collector.stop();
    let (flows, booked) = audit(&archive);
    assert_eq!((flows.len(), booked), (6000, 6000));
    assert_eq!(flows, (0..6000).collect::<Vec<_>>());
}

/// An IPFIX message with a Template, or with a flow of so many octets, or both.
fn message(with_template: bool, octets: Option<u32>) -> Vec<u8> {
    let fields = vec![FieldSpecifier::iana(8, 4), FieldSpecifier::iana(1, 4)];
    let template = Template::new(TemplateId::new(300).expect("an id"), fields, 0).expect("a template");
    let mut datagram = Vec::new();
    let mut builder = ipfix::MessageBuilder::new(&mut datagram, &ipfix::Header::default());
    if with_template {
        builder.template(&template).expect("fits");
    }
    if let Some(octets) = octets {
        let record = |out: &mut Vec<u8>| out.extend([[10, 0, 0, 1], octets.to_be_bytes()].concat());
        builder.record(&template, record).expect("fits");
    }
    builder.finish();
    datagram
}

#[test]
fn killed_between_template_and_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let exporter = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let collector = Collector::start(&archive, &[]);
    exporter.send_to(&message(true, None), collector.address).expect("sent");
    let state = archive.join("collector/exporters.state");
    let until = Instant::now() + Duration::from_mins(2);
    while !state.exists() {
        assert!(Instant::now() < until, "what exporters told is not written down");
        std::thread::sleep(Duration::from_millis(20));
    }
    collector.kill();
    let collector = Collector::start(&archive, &[]);
    exporter.send_to(&message(false, Some(7)), collector.address).expect("sent");
    collector.stop();
    assert_eq!(audit(&archive), (vec![7], 1));
    let waited = numbers(&rows(&archive, Table::ExporterBooks), "sets_waiting_in");
    assert_eq!(waited.iter().sum::<u64>(), 0, "the first datagram was decoded at once");
}

#[test]
fn data_waits_over_a_restart_until_its_template_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let exporter = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let collector = Collector::start(&archive, &[]);
    for octets in 1..=3 {
        exporter.send_to(&message(false, Some(octets)), collector.address).expect("sent");
    }
    collector.stop();
    assert_eq!(audit(&archive).0, [0; 0]);
    let collector = Collector::start(&archive, &[]);
    exporter.send_to(&message(true, Some(4)), collector.address).expect("sent");
    let until = Instant::now() + Duration::from_mins(2);
    while audit(&archive).0.len() < 4 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    collector.stop();
    assert_eq!(audit(&archive), (vec![1, 2, 3, 4], 4));
}

/// An Ethernet frame with an export message in UDP, from this port.
fn frame(port: u16, message: &[u8]) -> Vec<u8> {
    let length = |headers: usize| ((headers + message.len()) as u16).to_be_bytes();
    let ethernet = [2_u8, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let ip = [&[0x45_u8, 0][..], &length(28), &[0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]].concat();
    let udp = [port.to_be_bytes(), 4739_u16.to_be_bytes(), length(8), [0, 0]].concat();
    [&ethernet[..], &ip, &udp, message].concat()
}

/// The second of three files has a flow whose Template may be in another one, so it is not read to its end when the
/// command waits for a pipe, and is killed.
#[test]
fn only_the_file_that_was_being_read_counts_as_read_in_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [first, second, pipe, third, archive] =
        ["first.pcap", "second.pcap", "pipe", "third.pcap", "archive"].map(path);
    let capture = |path: &str, frames: Vec<Vec<u8>>| {
        write_capture(Path::new(path), (0..).zip(frames).map(|(at, frame)| (1_700_000_000_000_000 + at, frame)));
    };
    capture(&first, vec![frame(1, &message(true, Some(1))), frame(1, &message(false, Some(2)))]);
    capture(&second, vec![frame(1, &message(false, Some(3))), frame(2, &message(false, Some(4)))]);
    capture(&third, vec![frame(1, &message(true, Some(5)))]);
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut importing = weir();
    importing.args(["import", "--archive", &archive, &first, &second, &pipe, &third]).stderr(Stdio::null());
    let mut importing = importing.spawn().expect("weir starts");
    // there is a reader when the files before are read; without one a pipe cannot be opened so
    let writer = OnceCell::new();
    wait_for("the pipe is read", || {
        let opened = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&pipe);
        opened.is_ok_and(|opened| writer.set(opened).is_ok())
    });
    let archive_path = Path::new(&archive);
    wait_for("the first file is noted", || {
        let noted = std::fs::read_to_string(archive_path.join("sources/files"));
        noted.is_ok_and(|noted| noted.contains("first.pcap"))
    });
    wait_for("flows of the second are stored", || audit(archive_path).0 == [1, 2, 3]);
    importing.kill().expect("it still runs");
    importing.wait().expect("it ends");
    drop(writer);

    let output = run(&["import", "--archive", &archive, &first, &second, &third]);
    let told = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "{first} is left out: the archive has its flows\n{second} is left out: a command that was reading it did not come \
         to its end, and the archive may have a part of its flows\n2 of 3 files left out\n"
    );
    assert!(output.status.success() && told.starts_with(&expected), "{told}");
    assert_eq!(audit(archive_path).0, [1, 2, 3, 5]);
}
