//! `weir meter`: captures into archives, to collectors of several kinds and to standard output, and wrong input.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_testkit::certificates::{Certificate, Says};
use weir_testkit::{program, write_capture};

use crate::process::{Collector, run, sent_to_nfcapd, wait_for, weir};

const PACKETS: u32 = 3_000;
const FLOWS: u32 = 700;

/// An Ethernet frame of IPv4 with TCP or UDP, or of something else, by its number.
fn frame(number: u32) -> Vec<u8> {
    let flow = number % FLOWS;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    if number % 100 == 99 {
        frame[13] = 6;
    }
    let protocol = if flow.is_multiple_of(3) { 17 } else { 6 };
    let octets = 60 + (number % 7) as u8;
    frame.extend([
        0x45,
        (flow % 4) as u8,
        0,
        octets,
        0,
        1,
        0,
        0,
        64,
        protocol,
        0,
        0,
        192,
        0,
        2,
        (flow % 200) as u8,
        198,
        51,
        100,
        7,
    ]);
    frame.extend((20_000 + flow as u16).to_be_bytes());
    frame.extend([1, 187]);
    match protocol {
        17 => frame.extend([0, octets - 20, 0, 0]),
        _ => frame.extend([0, 0, 0, number as u8, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]),
    }
    frame.resize(14 + usize::from(octets), 0);
    frame
}

/// Writes the capture: a packet each 20 ms, so that every flow has gone idle once.
fn capture(path: &Path) {
    let frames = (0..PACKETS).map(|number| (1_700_000_000_000_000 + i64::from(number) * 20_000, frame(number)));
    write_capture(path, frames);
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// What is compared of the flows in an archive, in one order.
fn flows(archive: &Path) -> String {
    // NetFlow v5 has no way to tell that there are no flags
    let columns =
        "src_addr, dst_addr, src_port, dst_port, protocol, tos, coalesce(tcp_flags, 0), start, \"end\", packets, bytes";
    let sql = format!("SELECT {columns} FROM flows ORDER BY {columns}");
    let output = run(&["sql", "--archive", archive.to_str().expect("UTF-8"), "--format", "csv", &sql]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn metered_flows_are_the_same_by_every_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let file = path("trace.pcap");
    capture(&file);
    let file = file.to_str().expect("UTF-8");
    let direct = path("direct");
    let output = run(&["meter", file, "--archive", direct.to_str().expect("UTF-8")]);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("3000 packets, 2970 of them in"), "{told}");
    assert!(told.contains("30  packets that are not IP"), "{told}");
    let expected = flows(&direct);
    // of every hundredth flow all packets are no IP
    assert_eq!(expected.lines().count(), 1 + (FLOWS - FLOWS / 100) as usize, "{expected}");

    for version in ["netflow-v5", "netflow-v9", "ipfix"] {
        let archive = path(version);
        let collector = Collector::start(&archive, &[]);
        let to = collector.address.to_string();
        let output = run(&["meter", file, "--to", &to, "--protocol", version, "--workers", "2"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        collector.stop();
        assert_eq!(flows(&archive), expected, "by {version}");
    }

    let output = run(&["meter", file, "--to", "-", "--format", "csv", "--filter", "proto udp"]);
    let udp = expected.lines().filter(|line| line.contains(",17,")).count();
    assert_eq!(text(&output.stdout).lines().count(), 1 + udp, "{}", text(&output.stderr));
}

#[test]
fn the_books_of_a_metered_archive_balance() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [packets, whole, part] = ["packets.pcap", "whole", "part"].map(path);
    capture(Path::new(&packets));
    for arguments in [
        &["meter", &packets, "--archive", &whole][..],
        &["meter", &packets, "--archive", &part, "--filter", "proto udp"],
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let rows = |archive: &str| flows(Path::new(archive)).lines().count() - 1;
    let (all, kept) = (rows(&whole), rows(&part));
    assert!(kept > 0 && kept < all, "{kept} of {all}");
    for (archive, left_out) in [(&whole, 0), (&part, all - kept)] {
        let books = run(&["books", "--archive", archive]);
        let said = text(&books.stderr);
        let expected = format!("records stored by the books: {all}, filtered: {left_out}, flows in the archive: ");
        assert!(books.status.success() && said.contains(&expected) && said.contains("the books balance"), "{said}");
    }
}

#[test]
fn statistics_of_captures_have_each_flow_when_it_was_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [packets, archive, alone] = ["packets.pcap", "flows", "alone"].map(path);
    capture(Path::new(&packets));
    // each packet is a flow
    let meter = ["meter", &packets, "--idle-timeout", "5s"];
    let output = run(&[&meter[..], &["--archive", &archive, "--statistics", "--statistics-by", "tos"]].concat());
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("flows counted in") && !said.contains("warning"), "{said}");
    let answer = |statement: &str| {
        let output = run(&["sql", "--archive", &archive, "-q", "-o", "csv", statement]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let sums = "sum(packets) AS packets, sum(bytes) AS bytes";
    let counted = answer(&format!(
        "SELECT date_trunc('second', \"end\") AS time, count(*) AS flows, {sums} FROM flows GROUP BY 1 ORDER BY 1"
    ));
    assert!(counted.lines().count() > 50, "{counted}");
    let steps = "WHERE step = 1 AND flows > 0 AND by =";
    assert_eq!(
        answer(&format!("SELECT time, flows, packets, bytes FROM series {steps} 'total' ORDER BY time")),
        counted
    );
    let of_tos =
        answer(&format!("SELECT key, sum(flows) AS flows, {sums} FROM series {steps} 'tos' GROUP BY key ORDER BY key"));
    let tos = answer(&format!("SELECT tos AS key, count(*) AS flows, {sums} FROM flows GROUP BY tos ORDER BY tos"));
    assert_eq!(of_tos, tos);
    // statistics alone need no archive, and a folder
    let output = run(&["meter", &packets, &format!("--statistics={alone}")]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    let listed = run(&["series", "ls", "--statistics", &alone, "--format", "csv"]);
    assert!(text(&listed.stdout).contains("total,1,"), "{}", text(&listed.stderr));
    let nowhere = run(&["meter", &packets, "--statistics"]);
    let said = text(&nowhere.stderr);
    assert!(!nowhere.status.success() && said.contains("\nhint: --statistics=DIR, or --archive DIR"), "{said}");
}

#[test]
fn metered_flows_are_the_same_over_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let in_folder = |name: &str| path(name).to_str().expect("UTF-8").to_owned();
    let file = in_folder("trace.pcapng");
    named_capture(Path::new(&file));
    let direct = path("direct");
    let sampling = ["--sampling", "count", "--sampling-interval", "2"];
    let arguments = ["meter", &file, "--archive", direct.to_str().expect("UTF-8")];
    let output = run(&[arguments, sampling].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (expected, told) = (flows(&direct), options(&direct));
    assert!(told.contains(",eth7,"), "{told}");

    let authority = Certificate::authority("flow authority");
    authority.write(folder.path(), "ca");
    let server = Says { dns: &["collector.example"], ..Says::name("collector") };
    authority.sign(&server).write(folder.path(), "server");
    authority.sign(&Says { dns: &["meter.example"], ..Says::name("meter") }).write(folder.path(), "meter");
    let [ca, server, server_key, meter, meter_key] =
        ["ca.pem", "server.pem", "server.key", "meter.pem", "meter.key"].map(in_folder);
    let collecting = ["--tls-cert", &server, "--tls-key", &server_key, "--tls-ca", &ca, "--tls-peers", "meter.example"];
    let metering = ["--tls-cert", &meter, "--tls-key", &meter_key, "--tls-ca", &ca, "--tls-name", "collector.example"];
    for (transport, collecting, metering) in
        [("udp", &[][..], &[][..]), ("tcp", &[], &[]), ("tls", &collecting, &metering)]
    {
        let archive = path(transport);
        let collector = Collector::listen(&archive, &format!("{transport}://127.0.0.1:0"), collecting);
        let to = format!("{transport}://{}", collector.address);
        let arguments = ["meter", &file, "--to", &to, "--workers", "2"];
        let output = run(&[&arguments[..], &sampling, metering].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(", 0 not sent"), "{}", text(&output.stderr));
        collector.stop();
        assert_eq!(flows(&archive), expected, "over {transport}");
        assert_eq!(options(&archive), told, "over {transport}");
    }
    // without its certificate the meter is not let in, and says what became of the flows
    let archive = path("refused");
    let collector = Collector::listen(&archive, "tls://127.0.0.1:0", &collecting);
    let to = format!("tls://{}", collector.address);
    let arguments = ["meter", &file, "--to", &to, "--tls-ca", &ca, "--tls-name", "someone.example"];
    let output = run(&[&arguments[..], &["--finish-timeout", "0.5s"]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("flows not sent to a collector"), "{}", text(&output.stderr));
    collector.stop();
}

#[test]
fn flows_that_a_collector_did_not_get_are_told_by_the_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    capture(folder.path().join("trace.pcap").as_path());
    let (file, nobody) = (path("trace.pcap"), format!("tcp://{}", weir_testkit::ports::free_address()));
    let direct = path("direct");
    assert!(run(&["meter", &file, "--archive", &direct]).status.success());
    let expected = flows(Path::new(&direct));

    // a collector that is not there costs neither the archive nor the collector beside it anything
    let (collected, archive) = (folder.path().join("collected"), path("archive"));
    let collector = Collector::listen(&collected, "tcp://127.0.0.1:0", &[]);
    let somebody = format!("tcp://{}", collector.address);
    let to = ["meter", &file, "--to", &nobody, "--to", &somebody, "--archive", &archive, "--finish-timeout", "5s"];
    let output = run(&to);
    collector.stop();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert_eq!([flows(&collected), flows(Path::new(&archive))], [expected.clone(), expected.clone()]);
    let count =
        told.lines().find_map(|line| line.strip_prefix("error: ")?.strip_suffix(" flows were not sent to a collector"));
    let stored = told.lines().find_map(|line| line.strip_prefix("archive: ")?.split(' ').next());
    assert!(count.is_some() && count == stored, "{told}");
    assert!(told.contains("\nhint: "), "{told}");
    // what cannot be read weighs more
    std::fs::write(path("garbage"), [7; 100]).expect("written");
    let output = run(&["meter", &path("garbage"), &file, "--to", &nobody, "--finish-timeout", "0s"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    // nothing tells whether datagrams arrive
    let output = run(&["meter", &file, "--to", &nobody.replace("tcp", "udp")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn an_interrupt_does_not_wait_for_a_collector_that_takes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.pcap");
    capture(&file);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = format!("tcp://{}", listener.local_addr().expect("an address"));
    // an hour, unless it is interrupted
    let mut metering = weir();
    metering.arg("meter").arg(&file).args(["--to", &to, "--finish-timeout", "3600s", "--room-timeout", "3600s"]);
    let mut metering = metering.args(["--stall-timeout", "3600s"]).stderr(Stdio::piped()).spawn().expect("weir starts");
    let mut collector = listener.accept().expect("a connection").0;
    // flows have come, and the end of the connection: nothing is left but to wait until it is closed
    while collector.read(&mut [0; 8192]).expect("read") > 0 {}
    let begun = Instant::now();
    kill(Pid::from_raw(metering.id() as i32), Signal::SIGINT).expect("it still runs");
    let status = metering.wait().expect("it ends");
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(3));
    let told = std::io::read_to_string(metering.stderr.take().expect("its errors")).expect("UTF-8");
    assert!(told.contains("error: it is not known whether "), "{told}");
    drop(collector);
}

/// The first of three files is read when the second, a pipe, has given more than it holds; the third is not begun.
#[test]
fn what_was_read_before_an_interrupt_is_not_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [first, pipe, last, archive, piped] = ["first.pcap", "pipe", "last.pcap", "archive", "piped.pcap"].map(path);
    let later = |path: &str, secs: i64, packets: u32| {
        let begin_us = (1_700_000_000 + secs) * 1_000_000;
        write_capture(Path::new(path), (0..packets).map(|number| (begin_us + i64::from(number), frame(number))));
    };
    capture(Path::new(&first));
    later(&piped, 1_000, 10_000);
    later(&last, 2_000, 100);
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut metering = weir();
    metering.args(["meter", &first, &pipe, &last, "--archive", &archive]).stderr(Stdio::piped());
    let mut metering = metering.spawn().expect("weir starts");
    let mut lines = BufReader::new(metering.stderr.take().expect("its errors")).lines().map_while(Result::ok);
    let octets = std::fs::read(&piped).expect("a capture");
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).expect("it is read");
    writer.write_all(&octets).expect("it is read");
    kill(Pid::from_raw(metering.id() as i32), Signal::SIGINT).expect("it still runs");
    assert!(lines.any(|line| line.contains("stopping: ")));
    let until = Instant::now() + Duration::from_mins(2);
    while metering.try_wait().expect("its status").is_none() {
        assert!(Instant::now() < until, "it goes on");
        // wakes it while it waits for a packet, of which it may have no need any more
        let _ = writer.write_all(&octets[24..24 + 16 + 74]);
        std::thread::sleep(Duration::from_millis(10));
    }
    let told: Vec<_> = lines.collect();
    assert!(metering.wait().expect("it has ended").success(), "{told:?}");

    let output = run(&["meter", &first, &last, "--archive", &archive]);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(
        told.starts_with(&format!("{first} is left out: the archive has its flows\n1 of 2 files left out")),
        "{told}"
    );
    let output = run(&["meter", &first, &last, "--archive", &archive]);
    assert!(text(&output.stderr).contains("2 of 2 files left out"), "{}", text(&output.stderr));
}

/// The packets of a pipe lie between those of a file: when it waits for the pipe, the file is half read.
#[test]
fn a_file_that_was_read_in_part_before_a_kill_is_recognized() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [half, copy, other, pipe, archive, piped] =
        ["half.pcap", "copy.pcap", "other.pcap", "pipe", "archive", "piped.pcap"].map(path);
    let at = |secs: i64, number: u32| ((1_700_000_000 + secs) * 1_000_000 + i64::from(number), frame(number));
    write_capture(Path::new(&half), (0..100).map(|number| at(0, number)).chain([at(2_000, 100)]));
    write_capture(Path::new(&other), (0..100).map(|number| at(3_000, number)));
    write_capture(Path::new(&piped), (0..10_000).map(|number| at(1_000, number)));
    std::fs::copy(&half, &copy).expect("copied");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut metering = weir();
    metering.args(["meter", &half, &pipe, &other, "--archive", &archive]).stderr(Stdio::null());
    let mut metering = metering.spawn().expect("weir starts");
    let octets = std::fs::read(&piped).expect("a capture");
    let writer = std::fs::OpenOptions::new().write(true).open(&pipe).expect("it is read");
    (&writer).write_all(&octets).expect("it is read");
    wait_for("flows are stored", || {
        // flows that have ended are handed on while packets come
        (&writer).write_all(&octets[24..24 + 16 + 74]).expect("it is read");
        let counted = run(&["sql", "-q", "--archive", &archive, "-o", "csv", "SELECT count(*) AS n FROM flows"]);
        text(&counted.stdout).lines().nth(1).is_some_and(|count| count != "0")
    });
    metering.kill().expect("it still runs");
    metering.wait().expect("it ends");

    let before = flows(Path::new(&archive));
    let output = run(&["meter", &copy, "--archive", &archive]);
    let told = text(&output.stderr);
    let expected = format!(
        "{copy} is left out: a command that was reading it did not come to its end, and the archive may have a part of \
         its flows, read from {half}\n1 of 1 files left out\nhint: --again "
    );
    assert!(output.status.success() && told.starts_with(&expected), "{told}");
    assert_eq!(flows(Path::new(&archive)), before);
    // what was not begun is read, and what is read to its end is as any other file
    for arguments in
        [&["meter", &other, "--archive", &archive][..], &["meter", &copy, "--archive", &archive, "--again"]]
    {
        let output = run(arguments);
        let told = text(&output.stderr);
        assert!(output.status.success() && !told.contains("left out"), "{told}");
    }
    let output = run(&["meter", &half, "--archive", &archive]);
    let told = text(&output.stderr);
    assert!(told.starts_with(&format!("{half} is left out: the archive has its flows, read from {copy}\n")), "{told}");
}

/// The packets of a pipe go on for longer after a file than any flow does: the file is noted while the pipe is read, and is not
/// metered again after a kill.
#[test]
fn a_file_is_noted_when_its_flows_are_stored_while_others_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [first, last, pipe, archive, alone] = ["first.pcap", "last.pcap", "pipe", "archive", "alone"].map(path);
    capture(Path::new(&first));
    write_capture(Path::new(&last), (0..100).map(|number| (4_000_000_000_000_000 + i64::from(number), frame(number))));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut metering = weir();
    metering.args(["meter", &first, &pipe, &last, "--archive", &archive]).stderr(Stdio::null());
    let mut metering = metering.spawn().expect("weir starts");
    let writer = std::fs::OpenOptions::new().write(true).open(&pipe).expect("it is read");
    let header = std::fs::read(&first).expect("a capture")[..24].to_vec();
    (&writer).write_all(&header).expect("it is read");
    let secs = std::cell::Cell::new(1_700_001_000_u32);
    wait_for("the first file is noted", || {
        // an hour later each
        secs.set(secs.get() + 3_600);
        let (packet, octets) = (frame(0), (frame(0).len() as u32).to_le_bytes());
        let record = [&secs.get().to_le_bytes()[..], &[0; 4], &octets, &octets, &packet].concat();
        (&writer).write_all(&record).expect("it is read");
        let noted = std::fs::read_to_string(Path::new(&archive).join("sources/files"));
        noted.is_ok_and(|noted| noted.contains("first.pcap"))
    });
    metering.kill().expect("it still runs");
    metering.wait().expect("it ends");

    let output = run(&["meter", &first, &last, "--archive", &archive]);
    let told = text(&output.stderr);
    let expected = format!("{first} is left out: the archive has its flows\n1 of 2 files left out");
    assert!(output.status.success() && told.starts_with(&expected), "{told}");
    assert!(run(&["meter", &first, "--archive", &alone]).status.success());
    let of_first = |archive: &str| {
        // before the packets of the pipe
        let sql = "SELECT count(*), sum(packets), sum(bytes) FROM flows WHERE start < '2023-11-14 22:20:00'";
        let output = run(&["sql", "-q", "--archive", archive, "--format", "csv", sql]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(of_first(&archive), of_first(&alone));
}

/// What exporters told of interfaces and samplers, without who they are.
fn options(archive: &Path) -> String {
    let columns = "kind, scope, key, name, sampling_interval, packets_selected, packets_observed";
    let sql = format!("SELECT DISTINCT {columns} FROM exporter_options ORDER BY {columns}");
    let output = run(&["sql", "--archive", archive.to_str().expect("UTF-8"), "--format", "csv", &sql]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Writes the capture as pcapng, whose interface has a name.
fn named_capture(path: &Path) {
    let mut file: Vec<u8> = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len().next_multiple_of(4)) as u32;
        file.extend(kind.to_le_bytes());
        file.extend(length.to_le_bytes());
        file.extend(body);
        file.resize(file.len().next_multiple_of(4), 0);
        file.extend(length.to_le_bytes());
    };
    // version 1.0, of a length that is not told
    block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    // Ethernet, no limit, if_name
    block(1, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 4, 0, b'e', b't', b'h', b'7', 0, 0, 0, 0]);
    for number in 0..PACKETS {
        let (time_us, frame) = (1_700_000_000_000_000 + u64::from(number) * 20_000, frame(number));
        let length = frame.len() as u32;
        let words = [0, (time_us >> 32) as u32, time_us as u32, length, length];
        let mut body: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        body.extend(frame);
        block(6, &body);
    }
    std::fs::write(path, file).expect("the capture is written");
}

#[test]
fn text_has_the_columns_that_any_flow_may_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let udp = in_ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, &[0x4e, 0x20, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    let icmp = in_ipv4([10, 0, 0, 1], [10, 0, 0, 2], 1, &[3, 1, 0, 0, 0, 0, 0, 0]);
    let frame = |tag: &[u8], packet: &[u8]| [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tag, &[8, 0], packet].concat();
    // more flows than a batch has, and then what the first batch has no column for
    let plain = |number: u32| {
        let mut frame = frame(&[], &udp);
        frame[26..30].copy_from_slice(&number.to_be_bytes());
        frame
    };
    let frames = (0..40_000).map(plain).chain([frame(&[], &icmp), frame(&[0x81, 0, 0, 7], &udp)]);
    let frames = (0..).zip(frames).map(|(number, frame)| (1_700_000_000_000_000 + number * 1_000, frame));
    write_capture(Path::new(&path("trace.pcap")), frames);
    let output = run(&["meter", &path("trace.pcap"), "-o", "ndjson", "--idle-timeout", "1s"]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(told.lines().count(), 40_002);
    assert!(told.lines().any(|flow| flow.contains("\"icmp_type\":3,\"icmp_code\":1")), "the type of ICMP");
    assert!(told.lines().any(|flow| flow.contains("\"src_vlan\":7")), "the VLAN");
}

/// An IPv4 header without options in front of what it carries.
fn in_ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, carried: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, (20 + carried.len()) as u8, 0, 1, 0, 0, 64, protocol, 0, 0];
    packet.extend(src.into_iter().chain(dst).chain(carried.iter().copied()));
    packet
}

/// The same of IPv6, of which the last octets of the addresses differ.
fn in_ipv6(src: u8, dst: u8, next: u8, carried: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, carried.len() as u8, next, 64];
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    packet.extend(address(src).into_iter().chain(address(dst)).chain(carried.iter().copied()));
    packet
}

#[test]
fn the_ends_of_tunnels_are_told_by_every_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let udp = [0x4e, 0x20, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
    let inner = || in_ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, &udp);
    let gre = |inner: &[u8]| [&[0, 0, 8, 0], inner].concat();
    let packets = [
        inner(),
        // RFC 2003 and RFC 2784: the same inner packet by two tunnels, one of them in both directions
        in_ipv4([192, 0, 2, 1], [192, 0, 2, 2], 4, &inner()),
        in_ipv4([192, 0, 2, 1], [192, 0, 2, 2], 4, &inner()),
        in_ipv4([192, 0, 2, 2], [192, 0, 2, 1], 4, &inner()),
        in_ipv4([192, 0, 2, 1], [192, 0, 2, 3], 47, &gre(&inner())),
        // RFC 2473 and RFC 4213: the families differ
        in_ipv6(1, 2, 4, &inner()),
        in_ipv4([192, 0, 2, 1], [192, 0, 2, 2], 41, &in_ipv6(7, 8, 17, &udp)),
        // a tunnel in a tunnel: the outermost counts
        in_ipv4([198, 51, 100, 1], [198, 51, 100, 2], 4, &in_ipv4([192, 0, 2, 1], [192, 0, 2, 2], 4, &inner())),
    ];
    let ethertype = |packet: &[u8]| if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let frame = |packet: &Vec<u8>| [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &ethertype(packet)[..], packet].concat();
    let frames = (0..).zip(&packets).map(|(number, packet)| (1_700_000_000_000_000 + number, frame(packet)));
    write_capture(Path::new(&path("trace.pcap")), frames);

    let columns = "src_addr, dst_addr, src_port, tunnel_src_addr, tunnel_dst_addr, packets";
    let told = |archive: &str| {
        let sql = format!("SELECT {columns} FROM flows ORDER BY {columns}");
        let output = run(&["sql", "-q", "--archive", archive, "--format", "csv", &sql]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut lines: Vec<_> = text(&output.stdout).lines().skip(1).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = [
        "10.0.0.1,10.0.0.2,20000,,,1",
        "10.0.0.1,10.0.0.2,20000,192.0.2.1,192.0.2.2,2",
        "10.0.0.1,10.0.0.2,20000,192.0.2.1,192.0.2.3,1",
        "10.0.0.1,10.0.0.2,20000,192.0.2.2,192.0.2.1,1",
        "10.0.0.1,10.0.0.2,20000,198.51.100.1,198.51.100.2,1",
        "10.0.0.1,10.0.0.2,20000,2001:db8::1,2001:db8::2,1",
        "2001:db8::7,2001:db8::8,20000,192.0.2.1,192.0.2.2,1",
    ];
    let (trace, direct) = (path("trace.pcap"), path("direct"));
    let key = "src_addr,dst_addr,src_port,dst_port,protocol,tunnel_endpoints";
    let metering = ["meter", &trace, "--keys", key];
    let output = run(&[&metering[..], &["--archive", &direct]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(told(&direct), expected);
    for version in ["netflow-v9", "ipfix"] {
        let archive = path(version);
        let collector = Collector::start(Path::new(&archive), &[]);
        let to = collector.address.to_string();
        let output = run(&[&metering[..], &["--to", &to, "--protocol", version, "--workers", "2"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        collector.stop();
        assert_eq!(told(&archive), expected, "by {version}");
    }
    let output = run(&[&metering[..], &["-o", "ndjson"]].concat());
    assert!(text(&output.stdout).contains("\"tunnel_src_addr\":\"198.51.100.1\""), "{}", text(&output.stdout));
    let output = run(&[&metering[..], &["--headers", "outer"]].concat());
    assert!(text(&output.stderr).contains("hint: headers = \"inner\" has both"), "{}", text(&output.stderr));
}

#[test]
fn nfcapd_takes_what_is_metered() {
    let (Some(nfcapd), Some(nfdump)) = (program("nfcapd"), program("nfdump")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.pcap");
    capture(&file);
    for version in ["netflow-v5", "netflow-v9", "ipfix"] {
        let files = folder.path().join(version);
        let arguments = ["meter", file.to_str().expect("UTF-8"), "--protocol", version];
        sent_to_nfcapd(&nfcapd, &files, &arguments);
        let output = Command::new(&nfdump).arg("-R").arg(&files).arg("-I").output().expect("nfdump runs");
        let sums = text(&output.stdout);
        assert!(sums.contains("Packets: 2970"), "by {version}: {sums}");
    }
}

#[test]
fn interfaces_are_listed_with_their_addresses() {
    let output = weir().args(["meter", "--list-interfaces"]).output().expect("weir runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let listed = text(&output.stdout);
    let loopback = listed.lines().find(|line| line.split_whitespace().nth(1) == Some("lo"));
    let loopback = loopback.unwrap_or_else(|| panic!("there is no lo: {listed}"));
    assert!(loopback.contains("127.0.0.1"), "{loopback}");
}

#[test]
fn a_capture_whose_name_is_no_text_is_metered() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(OsStr::from_bytes(b"trace-\xff.pcap"));
    capture(&path);
    let output = weir().arg("meter").arg(&path).output().expect("weir runs");
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("3000 packets"), "{told}");
}

/// Two readers would each get a part of it.
#[test]
fn standard_input_is_metered_once() {
    let output = run(&["meter", "-", "-"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("standard input (-) is named twice"), "{told}");
}

#[test]
fn what_cannot_be_metered_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(path("garbage"), [7; 100]).expect("written");
    capture(folder.path().join("trace.pcap").as_path());
    for (arguments, told) in [
        (vec!["meter", "no-such-thing"], "neither a file nor an interface 'no-such-thing'"),
        (vec!["meter", &path("garbage")], "garbage"),
        (vec!["meter", &path("trace.pcap"), "--packet-filter", "no such filter"], "filter"),
        (vec!["meter", &path("trace.pcap"), "--keys", "colour"], "colour"),
        (vec!["meter", &path("trace.pcap"), "--to", "nowhere"], "'nowhere' is no address with a port"),
        (
            vec!["meter", &path("trace.pcap"), "--to", "tcp://[::1]:9", "--protocol", "netflow-v5"],
            "NetFlow v5 goes over UDP alone",
        ),
        (
            vec!["meter", &path("trace.pcap"), "--to", "[::1]:9", "--tls-ca", "ca.pem"],
            "no collector is reached over TLS",
        ),
        (vec!["meter", &path("trace.pcap"), "--to", "udp://no-such-host.invalid:9"], "'no-such-host.invalid'"),
        (vec!["meter", &path("trace.pcap"), "lo"], "'lo' is an interface"),
    ] {
        let output = run(&arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).contains(told), "{arguments:?}: {}", text(&output.stderr));
    }
    // LINKTYPE_JUNIPER_PPPOE, which is not dissected
    let mut other_link = std::fs::read(path("trace.pcap")).expect("readable");
    other_link[20] = 167;
    std::fs::write(path("other-link.pcap"), other_link).expect("written");
    let output = run(&["meter", &path("other-link.pcap")]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("link type 167") && told.contains("3000  frames of an unknown link layer"), "{told}");
    // of several files the whole ones are metered all the same
    let output = run(&["meter", &path("garbage"), &path("trace.pcap")]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("3000 packets"), "{}", text(&output.stderr));
    let output = weir().args(["meter", &path("trace.pcap"), "--show-chain"]).output().expect("weir runs");
    assert!(text(&output.stdout).contains("type = \"meter\""));
    let limits = ["--queue-size", "1MiB", "--room-timeout", "7s", "--stall-timeout", "8s", "--finish-timeout", "0.5s"];
    let output = run(&[&["meter", &path("trace.pcap"), "--to", "[::1]:9", "--show-chain"], &limits[..]].concat());
    let chain = text(&output.stdout);
    for line in [
        "queue_size = \"1MiB\"",
        "room_timeout = \"7s\"",
        "stall_timeout = \"8s\"",
        "finish_timeout = \"500ms\"",
        "stop_timeout = \"500ms\"",
    ] {
        assert!(chain.lines().any(|told| told == line), "{line}: {chain}");
    }
}
