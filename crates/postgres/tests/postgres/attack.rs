//! Clients that mean no good, and those that are broken.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;

use weir_chain::{ByteSize, TimeSpan};
use weir_postgres::PostgresOptions;

use crate::Server;
use crate::raw::{Message, Raw, kinds, message, startup};
use crate::service::{FLOWS, PATIENCE, memory_octets, wait_until};

/// Held by tests that take memory and by those that measure it, which run in one process.
static ALONE: Mutex<()> = Mutex::new(());

/// A sequence that is the same each time (Knuth's constants).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn octets(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Sends octets, and reads until the end of the connection.
fn throw(address: SocketAddr, octets: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // it may have been closed already
    let _ = stream.write_all(octets);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Lengths and counts that are not true, and messages out of their order.
fn liars() -> Vec<Vec<u8>> {
    let hello = startup(3 << 16, b"user\0ann\0\0");
    let after = |octets: &[u8]| [hello.as_slice(), octets].concat();
    vec![
        Vec::new(),
        vec![0; 4],
        vec![0xff; 8],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        0x7fff_ffff_u32.to_be_bytes().to_vec(),
        startup(2 << 16, b""),
        startup(3 << 16, b"user"),
        startup(3 << 16, &[b'a'; 20_000]),
        startup(80_877_102, b"\0\0"),
        [startup(80_877_103, b""), startup(80_877_103, b""), startup(80_877_103, b"")].concat(),
        after(b"Q\xff\xff\xff\xff"),
        after(b"Q\0\0\0\x03"),
        after(b"Q\x7f\xff\xff\xffSELECT"),
        after(&message(b'Q', b"no end")),
        after(&message(b'Q', b"\xff\xfe\0")),
        after(&message(b'B', b"\0\0\xff\xff\xff\xff")),
        after(&message(b'P', b"\0SELECT $1\0\xff\xff")),
        after(&message(b'E', b"\0")),
        after(&message(b'd', &[7; 4096])),
        after(&message(b'~', b"what")),
        after(&message(b'p', b"password\0")),
    ]
}

#[test]
fn nothing_that_is_sent_ends_the_service() {
    let server = Server::start();
    for (number, octets) in liars().iter().enumerate() {
        throw(server.address, octets);
        assert_eq!(Raw::logged_in(server.address).value("SELECT 1"), Some("1".to_owned()), "after {number}");
    }
    assert!(server.count("messages_malformed") > 5);
}

/// Trees that a loop of the parser builds, and that are dropped recursively. The service of the test gives a question the stack that
/// threads have, 2 MiB.
#[test]
fn no_statement_overflows_the_stack() {
    let _alone = ALONE.lock();
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let long_name = format!(".{}", "a".repeat(100));
    for (first, part) in [
        ("1", "-1"),
        ("1", " OR 1"),
        ("1", " !"),
        ("1", "!"),
        ("", "NOT "),
        ("", "("),
        ("a", long_name.as_str()),
        ("a", "[1]"),
        ("1", "::int"),
        ("1", " IS NULL"),
        ("1", " NOTNULL"),
        ("'a'", " COLLATE \"C\""),
        ("1", " UNION VALUES (1)"),
        ("1", " EXCEPT TABLE flows"),
        ("CAST(1 AS ", "Nullable("),
        ("CAST(1 AS ", "ARRAY<"),
        ("", "INTERVAL "),
    ] {
        // these words have the statement parsed before the engine gets it
        let begin = "/* pg_ collate */ SELECT";
        let error = raw.refused(&format!("{begin} {first}{}", part.repeat((1 << 16) / part.len())));
        assert_eq!(error[&'C'], "42601", "{part}: {error:?}");
    }
    assert_eq!(raw.refused(&"EXPLAIN ".repeat(1 << 13))[&'C'], "42601");
    assert_eq!(raw.value("SELECT 1"), Some("1".to_owned()));
}

/// Messages that were changed at random places, and octets that were never messages.
#[test]
fn what_is_damaged_at_random_is_refused_or_answered() {
    let server = Server::start();
    let mut noise = Noise(22);
    let whole = [
        startup(3 << 16, b"user\0ann\0database\0flows\0\0"),
        message(b'P', b"s\0SELECT bytes FROM flows WHERE protocol = $1 LIMIT 3\0\0\x01\0\0\0\x15"),
        message(b'D', b"Ss\0"),
        message(b'B', b"p\0s\0\0\x01\0\0\0\x01\0\0\0\x016\0\0"),
        message(b'E', b"p\0\0\0\0\x02"),
        message(b'C', b"Pp\0"),
        message(b'S', b""),
        message(b'Q', b"SELECT 1; SHOW ALL\0"),
    ]
    .concat();
    for _ in 0..300 {
        let mut octets = whole.clone();
        for _ in 0..=noise.next() % 4 {
            let at = noise.next() as usize % octets.len();
            octets[at] = noise.next() as u8;
        }
        octets.truncate(octets.len() - noise.next() as usize % 20);
        throw(server.address, &octets);
    }
    for _ in 0..100 {
        let octets = noise.octets(200);
        throw(server.address, &octets);
    }
    let mut raw = Raw::logged_in(server.address);
    assert_eq!(raw.value("SELECT count(*) FROM flows"), Some(FLOWS.to_string()));
    server.wait_for_open(1);
    server.service.wait_for_running(0);
}

#[test]
fn sizes_and_numbers_have_limits_that_are_counted() {
    let options = PostgresOptions {
        connections_max: 4,
        per_user_max: 2,
        message_max: ByteSize::from_bytes(64 << 10),
        prepared_max: ByteSize::from_bytes(64 << 10),
        rows_max: 100,
        login_timeout: TimeSpan::from_secs(5),
        idle_timeout: TimeSpan::from_secs(15),
        ..PostgresOptions::default()
    };
    let server = Server::start_with(options, false);
    let mut raw = Raw::logged_in(server.address);
    assert_eq!(raw.refused("SELECT bytes FROM flows")[&'M'], "the answer has more rows than it may");
    assert_eq!(server.count("answers_cut"), 1);
    // statements of a connection, together
    let parse = |number: usize| {
        let text = format!("s{number}\0SELECT '{}'\0\0\0", "a".repeat(20_000));
        message(b'P', text.as_bytes())
    };
    raw.say(&[parse(1), parse(2), parse(3), parse(4), message(b'S', b"")].concat());
    let refused = raw.until_ready();
    assert_eq!(refused.iter().find(|message| message.kind == 'E').expect("refused").error()[&'C'], "53200");
    // a message
    raw.say(&message(b'Q', &vec![b' '; 100_000]));
    let mut last = None;
    while let Some(message) = raw.next() {
        last = Some(message);
    }
    assert!(last.expect("an error").error()[&'M'].contains("larger than 65536"));
    server.wait_for_open(0);
    // connections of all: where there are no users, none is of one
    let mut held: Vec<Raw> = (0..3).map(|_| Raw::logged_in(server.address)).collect();
    let _silent = Raw::open(server.address);
    server.wait_for_open(4);
    throw(server.address, b"");
    server.wait_for_count("connections_refused", |count| count >= 1);
    // who says nothing has no place for ever
    server.wait_for_count("logins_late", |count| count == 1);
    server.wait_for_count("connections_idle", |count| count == 3);
    let told = held[0].next().expect("an error");
    assert_eq!(told.error()[&'C'], "57P05");
}

#[test]
fn one_user_has_so_many_connections() {
    let server = Server::start_with(PostgresOptions { per_user_max: 2, ..PostgresOptions::default() }, true);
    let connect = || {
        let mut raw = Raw::open(server.address);
        raw.prove("ann", "pencil");
        let last = std::iter::from_fn(|| raw.next()).find(|message| matches!(message.kind, 'E' | 'Z'));
        (raw, last.expect("an answer"))
    };
    let (mut held, ready): (Vec<Raw>, Vec<Message>) = (0..2).map(|_| connect()).unzip();
    assert_eq!(kinds(&ready), "ZZ");
    let (_third, refused) = connect();
    let error = refused.error();
    assert_eq!((error[&'C'].as_str(), error[&'M'].as_str()), ("53300", "too many connections of 'ann'"));
    assert_eq!(server.count("connections_refused"), 1);
    held.pop();
    server.wait_for_open(1);
    assert_eq!(connect().1.kind, 'Z', "one has ended");
}

/// A thousand connections, some of which ask for everything and read nothing: memory does not grow with what they ask for, they hold
/// no more than the questions that they began, and whoever comes later is answered.
#[test]
fn a_thousand_connections_and_slow_readers_cost_little_memory() {
    let _alone = ALONE.lock();
    let server = Server::start();
    let before = memory_octets();
    let mut many: Vec<TcpStream> = Vec::new();
    for number in 0..1000 {
        let Ok(mut stream) = TcpStream::connect(server.address) else { continue };
        if number % 10 == 0 {
            let everything = b"SELECT * FROM flows a, flows b\0";
            let octets = [startup(3 << 16, b"user\0ann\0\0"), message(b'Q', everything)].concat();
            let _ = stream.write_all(&octets);
        }
        many.push(stream);
    }
    server.wait_for_count("connections_refused", |count| count >= 900);
    wait_until("rows are sent", || server.count("rows") > 1000);
    let grown = memory_octets().saturating_sub(before);
    assert!(grown < 700 << 20, "memory has grown by {} MiB", grown >> 20);
    drop(many);
    server.wait_for_open(0);
    server.service.wait_for_running(0);
    let mut raw = Raw::logged_in(server.address);
    assert_eq!(raw.value("SELECT count(*) FROM flows"), Some(FLOWS.to_string()));
}
