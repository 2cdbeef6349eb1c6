//! TCP (RFC 7011 section 10.4).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use weir_collect::{CollectorOptions, Limits, SessionLimits, Transport};
use weir_flow::{Column, Counter};
use weir_wire::{ObservationDomainId, ipfix};

use super::super::{data, ipfix_message, simple_record, simple_template, templates_only};
use super::{Running, listening};

pub(super) fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).expect("connected")
}

/// A connection that sends these octets and ends.
pub(super) fn send(address: SocketAddr, octets: &[u8]) {
    connect(address).write_all(octets).expect("sent");
}

/// Whether the other side closes the connection, be it by a reset.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn of_domain(domain: u32, hosts: &[u8]) -> Vec<u8> {
    let (template, mut out) = (simple_template(), Vec::new());
    let header = ipfix::Header { domain: ObservationDomainId(domain), ..ipfix::Header::default() };
    let mut message = ipfix::MessageBuilder::new(&mut out, &header);
    if hosts.is_empty() {
        message.template(&template).expect("fits");
    }
    for &host in hosts {
        message.record(&template, |out| simple_record(out, host, 1)).expect("fits");
    }
    message.finish();
    out
}

#[test]
fn two_domains_in_one_connection_one_octet_at_a_time() {
    let mut running = Running::start(&listening(Transport::Tcp));
    let mut stream = connect(running.address());
    stream.set_nodelay(true).expect("an option");
    let messages = [of_domain(1, &[]), of_domain(2, &[1]), of_domain(1, &[2, 3]), of_domain(2, &[])].concat();
    for octet in messages.chunks(1) {
        stream.write_all(octet).expect("sent");
    }
    // the set of domain 2 waited for the template of domain 2, which is not that of domain 1
    running.until_counted(Counter::RecordsStored, 3);
    assert_eq!(running.total(Counter::SetsWaitingOut), 1);
    drop(stream);
    let booked = running.finish();
    assert_eq!((running.rows(), booked[Counter::ConnectionsFailed as usize]), (3, 0));
}

#[test]
fn templates_live_as_long_as_their_connection() {
    let mut running = Running::start(&listening(Transport::Tcp));
    let mut first = connect(running.address());
    first.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    send(running.address(), &data(0, &[1]));
    // the other connection has told no template, and its end gives its set up
    running.until_counted(Counter::SetsExpired, 1);
    first.write_all(&data(0, &[1, 2])).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    let domains: usize = running.collector.statistics().iter().map(|decoder| decoder.domains).sum();
    assert_eq!(domains, 1);
    running.finish();
}

#[test]
fn an_exporter_killed_in_mid_message_loses_that_message_alone() {
    let mut running = Running::start(&listening(Transport::Tcp));
    let mut other = connect(running.address());
    other.write_all(&templates_only(0)).expect("sent");
    let whole = [templates_only(0), data(0, &[1, 2])].concat();
    let cut = data(2, &[3]);
    send(running.address(), &[whole.as_slice(), &cut[..cut.len() - 1]].concat());
    running.until_problem("stream_cut_short", 1);
    other.write_all(&data(0, &[4])).expect("sent");
    running.until_counted(Counter::RecordsStored, 3);
    assert_eq!(running.total(Counter::ConnectionsFailed), 1);
    running.finish();
}

#[test]
fn broken_framing_ends_its_connection_and_no_other() {
    let mut running = Running::start(&listening(Transport::Tcp));
    let mut other = connect(running.address());
    other.write_all(&templates_only(0)).expect("sent");
    let good = [templates_only(0), data(0, &[1])].concat();
    let mut longer = data(1, &[2]);
    longer[3] += 1;
    let cases: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1\r\n\r\n", "stream_wrong_version"),
        // NetFlow v9 tells no length, so it has no place on a stream
        (&[0, 9, 0, 1], "stream_wrong_version"),
        (&[0, 10, 0, 15], "stream_message_length"),
        (&[0, 10, 0, 0, 0, 0], "stream_message_length"),
        // a length that lies has the next message begin in the wrong place
        (&[longer, data(2, &[3])].concat(), "stream_wrong_version"),
    ];
    let mut labels = std::collections::BTreeMap::new();
    for (bad, label) in cases {
        let mut stream = connect(running.address());
        stream.write_all(&good).and_then(|()| stream.write_all(bad)).expect("sent");
        assert!(is_closed(&mut stream), "{label}");
        let count = labels.entry(label).and_modify(|count| *count += 1).or_insert(1);
        running.until_problem(label, *count);
    }
    other.write_all(&data(0, &[4])).expect("sent");
    // five good ones, the one whose length lied, and that of the other connection
    running.until_counted(Counter::RecordsStored, 7);
    let booked = running.finish();
    assert_eq!(booked[Counter::ConnectionsFailed as usize], 5);
}

#[test]
fn two_hundred_connections_at_once() {
    let mut running = Running::start(&listening(Transport::Tcp));
    let mut streams: Vec<_> = (0..200).map(|_| connect(running.address())).collect();
    for stream in &mut streams {
        stream.write_all(&templates_only(0)).expect("sent");
    }
    for round in 0..5 {
        for stream in &mut streams {
            stream.write_all(&data(round * 3, &[1, 2, 3])).expect("sent");
        }
    }
    running.until_counted(Counter::RecordsStored, 200 * 5 * 3);
    let booked = running.finish();
    assert_eq!(booked[Counter::ConnectionsAccepted as usize], 200);
    assert_eq!((booked[Counter::RecordsLost as usize], booked[Counter::SetsWaitingIn as usize]), (0, 0));
}

/// A connection from an address of this machine.
fn from(host: u8, running: &Running) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into()).expect("bound");
    socket.connect(&running.address().into()).expect("connected");
    TcpStream::from(socket)
}

/// Who connects and says nothing keeps nobody out.
#[test]
fn connections_without_a_message_give_their_places_up() {
    let sessions = SessionLimits { connections_max: 4, connections_per_source_max: 3, ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..listening(Transport::Tcp) });
    let mut exporter = from(9, &running);
    exporter.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    let mut silent: Vec<_> = [1, 1, 1].map(|host| from(host, &running)).into();
    running.until_counted(Counter::ConnectionsAccepted, 4);
    // everything is taken, and another exporter comes
    let mut other = from(3, &running);
    other.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 2);
    assert!(is_closed(&mut silent.remove(0)), "the oldest of them");
    // of a source that has all it may have, its own oldest
    silent.push(from(1, &running));
    running.until_counted(Counter::ConnectionsAccepted, 6);
    let mut more = from(1, &running);
    assert!(is_closed(&mut silent.remove(0)));
    for stream in [&mut exporter, &mut other, &mut more] {
        stream.write_all(&data(0, &[1])).expect("sent");
    }
    running.until_counted(Counter::RecordsStored, 2);
    running.until_problem("connections_over_limit", 3);
    running.finish();
}

#[test]
fn connections_beyond_a_limit_are_closed_and_counted() {
    let sessions = SessionLimits { connections_max: 3, connections_per_source_max: 2, ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..listening(Transport::Tcp) });
    let mut held: Vec<_> = [1, 1, 2].map(|host| from(host, &running)).into();
    for stream in &mut held {
        stream.write_all(&templates_only(0)).expect("sent");
    }
    let templates = running.total(Counter::Templates);
    running.until_counted(Counter::Templates, templates.max(3));
    assert!(is_closed(&mut from(3, &running)));
    running.until_problem("connections_over_limit", 1);
    drop(held.pop());
    // a place is free again once the end of the connection was seen
    running.until("a place for source 3", |running| {
        let sent = from(3, running).write_all(&templates_only(0));
        sent.is_ok() && running.total(Counter::Templates) > 3
    });
    running.until("a refusal of source 1", |running| {
        let closed = is_closed(&mut from(1, running));
        closed && running.problem("connections_of_source_over_limit") > 0
    });
    assert!(running.finish()[Counter::ConnectionsRefused as usize] >= 2);
}

#[test]
fn who_is_slow_or_silent_is_closed() {
    let sessions = SessionLimits { message_timeout: Duration::from_millis(200), ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..listening(Transport::Tcp) });
    let mut quiet = connect(running.address());
    quiet.write_all(&templates_only(0)).expect("sent");
    let mut slow = connect(running.address());
    slow.write_all(&[0]).expect("sent");
    assert!(is_closed(&mut slow));
    running.until_problem("stream_message_too_slow", 1);
    // the time runs from the first octet, also for one who never stops sending
    let mut dripping = connect(running.address());
    dripping.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let mut message = [0, 10, 0xff, 0xff].into_iter().chain(std::iter::repeat_n(0, 1000));
    let closed = message.any(|octet| {
        let answer = dripping.write_all(&[octet]).and_then(|()| dripping.read(&mut [0; 1]));
        answer.map_or_else(|error| error.kind() != std::io::ErrorKind::WouldBlock, |count| count == 0)
    });
    assert!(closed, "a message that never ends is waited for");
    running.until_problem("stream_message_too_slow", 2);
    // an exporter between two messages has all the time of the other limit
    quiet.write_all(&data(0, &[1])).expect("sent");
    running.until_counted(Counter::RecordsStored, 1);
    running.finish();

    let sessions = SessionLimits { idle_timeout: Duration::from_millis(200), ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..listening(Transport::Tcp) });
    let mut idle = connect(running.address());
    idle.write_all(&templates_only(0)).expect("sent");
    assert!(is_closed(&mut idle));
    running.until_problem("stream_idle", 1);
    running.finish();
}

#[test]
fn a_collector_that_is_behind_slows_the_exporter_and_loses_nothing() {
    let sessions = SessionLimits { queue_reads_max: 1, ..SessionLimits::default() };
    let options = CollectorOptions {
        sessions,
        queue_deliveries_max: 1,
        delivery_rows_max: 1,
        limits: Limits::default(),
        ..listening(Transport::Tcp)
    };
    let mut running = Running::start(&options);
    let mut stream = connect(running.address());
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    stream.write_all(&templates_only(0)).expect("sent");
    // nobody takes deliveries: some time the exporter cannot write any more
    let (mut messages, mut rest) = (0u32, Vec::new());
    loop {
        let message = ipfix_message(messages * 4000, |message| {
            let records = (0..4000u32).flat_map(|_| {
                let mut record = Vec::new();
                simple_record(&mut record, 1, 1);
                record
            });
            message.records(&simple_template(), |out| out.extend(records)).expect("fits");
        });
        messages += 1;
        assert!(messages < 10_000, "nothing slows the exporter down");
        let mut sent = 0;
        while sent < message.len() {
            match stream.write(&message[sent..]) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        if sent < message.len() {
            rest.extend_from_slice(&message[sent..]);
            break;
        }
    }
    let writer = std::thread::spawn(move || {
        stream.set_write_timeout(None).expect("a timeout");
        stream.write_all(&rest).expect("sent");
    });
    running.until_counted(Counter::RecordsStored, u64::from(messages) * 4000);
    writer.join().expect("written");
    let booked = running.finish();
    assert_eq!(running.rows() as u64, u64::from(messages) * 4000);
    assert_eq!((booked[Counter::QueueDrops as usize], booked[Counter::RecordsLost as usize]), (0, 0));
}

#[test]
fn what_the_kernel_holds_is_read_before_the_end() {
    let mut running = Running::start(&listening(Transport::Tcp));
    let mut streams: Vec<_> = (0..20).map(|_| connect(running.address())).collect();
    for stream in &mut streams {
        stream.write_all(&[templates_only(0), data(0, &[1, 2, 3])].concat()).expect("sent");
    }
    // at once, with connections that may not even be accepted yet
    let booked = running.finish();
    assert_eq!((booked[Counter::RecordsStored as usize], running.rows()), (60, 60));
    assert_eq!(booked[Counter::ConnectionsFailed as usize], 0);
}

#[test]
fn softflowd_exports_over_tcp() {
    let (Some(softflowd), Some(corpus)) = (weir_testkit::program("softflowd"), weir_testkit::corpus()) else { return };
    let mut running = Running::start(&listening(Transport::Tcp));
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(softflowd)
        .args(["-d", "-a", "-P", "tcp", "-v", "10", "-n", &running.address().to_string()])
        .args(["-p", "softflowd.pid", "-c", "softflowd.control", "-r"])
        .arg(corpus.join("seladb+PcapPlusPlus/Tests/Pcap++Test/PcapExamples/example.pcap"))
        .current_dir(&folder)
        .output()
        .expect("softflowd runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let number = |before: &str| {
        let rest = told.split_once(before).map(|(_, rest)| rest).unwrap_or_default();
        rest.split(' ').next().and_then(|number| number.trim().lines().next()?.parse().ok())
    };
    let exported: u64 = number("Flows exported: 136 (").expect("what softflowd says");
    running.until("its flows", |running| running.total(Counter::RecordsStored) >= exported);
    let booked = running.finish();
    assert_eq!((booked[Counter::RecordsStored as usize], exported), (exported, 271), "{told}");
    assert_eq!(Some(running.sum(Column::Packets)), number("Packets processed: "), "{told}");
    // its sequence numbers count the records of the message itself (RFC 7011 section 3.1: those before it), so it
    // seems to lose some
    assert_eq!(booked[Counter::ConnectionsFailed as usize], 0);
}
