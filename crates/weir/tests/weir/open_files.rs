//! A process may have only so many files open, and connections leave some of them to the archive.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_archive::Snapshot;
use weir_flow::{Counter, Table};

use crate::process::Exporter;

/// Files that the collector may have open.
const FILES: usize = 80;
/// Connections that are opened and say nothing.
const CONNECTIONS: usize = 120;

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the collector has said, once it is as wished.
fn said<T>(log: &Path, wish: impl Fn(&str) -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        let text = std::fs::read_to_string(log).expect("the log");
        if let Some(found) = wish(&text) {
            return found;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where it listens over a transport; plain UDP is said without its name.
fn listener(log: &str, transport: &str) -> Option<SocketAddr> {
    let places = log.lines().filter_map(|line| line.split_once("listening on ")?.1.split(' ').next());
    let mut addresses = places.filter_map(|place| match place.split_once("://") {
        Some((name, address)) => (name == transport).then_some(address),
        None => (transport == "udp").then_some(place),
    });
    addresses.next()?.parse().ok()
}

/// Whether the other end has closed a connection.
fn is_closed(connection: &mut TcpStream) -> bool {
    match connection.read(&mut [0; 16]) {
        Ok(octets) => octets == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn idle_connections_leave_files_to_the_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, log) = (folder.path().join("archive"), folder.path().join("log"));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {FILES} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_weir"), "collect"]);
    command.args(["--listen", "udp://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", "--archive"]).arg(&archive);
    // a new tail, and segments, every few datagrams
    command.args(["--commit-interval", "20ms", "--segment-rows", "60"]);
    let stderr = File::create(&log).expect("the log");
    let mut collector = Ended(command.env_remove("WEIR_LOG").stderr(stderr).spawn().expect("weir starts"));
    let [udp, tcp] = ["udp", "tcp"].map(|transport| said(&log, |log| listener(log, transport)));
    said(&log, |log| log.contains("fewer than 40 will be accepted").then_some(()));

    let mut connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let connection = TcpStream::connect(tcp).expect("the kernel takes it");
            connection.set_nonblocking(true).expect("set");
            connection
        })
        .collect();
    let until = Instant::now() + Duration::from_mins(2);
    while connections.iter_mut().map(is_closed).filter(|is_closed| *is_closed).count() < CONNECTIONS - FILES / 2 {
        assert!(Instant::now() < until, "they are not refused");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut exporter = Exporter::new(0);
    let until = Instant::now() + Duration::from_mins(1);
    let mut sent = 0;
    // at least, and until tails are sealed
    while sent < 40 || Snapshot::open(&archive).expect("a snapshot").segments(Table::Flows).len() < 6 {
        assert!(Instant::now() < until, "nothing is sealed");
        exporter.send(udp);
        sent += 1;
        std::thread::sleep(Duration::from_millis(25));
    }
    drop(connections);
    kill(Pid::from_raw(collector.0.id() as i32), Signal::SIGTERM).expect("it still runs");
    assert!(collector.0.wait().expect("it ends").success());

    let snapshot = Snapshot::open(&archive).expect("a snapshot");
    assert_eq!(snapshot.flows(), u64::from(exporter.next()), "every flow is stored");
    let books = snapshot.books(i64::MIN, i64::MAX).expect("readable").totals();
    assert!(books[Counter::ConnectionsRefused as usize] >= (CONNECTIONS - FILES / 2) as u64);
    assert_eq!(books[Counter::KernelDrops as usize], 0);
    let text = std::fs::read_to_string(&log).expect("the log");
    let sealed = text.split_once(" flows stored, ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(sealed.is_some_and(|sealed| sealed > 4), "tails were begun and sealed meanwhile: {text}");
    assert_eq!(text.matches("connections_over_file_limit").count(), 1, "{text}");
}
