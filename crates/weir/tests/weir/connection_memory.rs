//! Connections cost memory, and no more than is said: whoever may connect can leave a message unfinished on each.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use crate::process::{Collector, wait_for};

/// Fewer than one address may have, by default.
const CONNECTIONS: usize = 200;
/// More than a connection costs while a message is unfinished, which is some 450 KiB, and the process beside it; builds without
/// optimisation use more of their stacks.
const CONNECTION_KIB_MAX: u64 = if cfg!(debug_assertions) { 1_024 } else { 640 };
/// Octets of a message that are sent, of the 65,535 that it says it has.
const SENT: usize = 65_000;

/// Memory of a process in KiB: a line of its status.
fn kibibytes(process: u32, what: &str) -> u64 {
    let status =
        std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a size");
    line.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().expect("a number")
}

/// Octets that each established connection to an address has in the kernel at its end, not read yet.
fn unread(address: SocketAddr) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel shows connections");
    let connections = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // number, local address and port, those of the other end, state (1 is established), octets to send and to read
        let [_, local, _, "01", queues, ..] = fields[..] else { return None };
        let (_, port) = local.split_once(':')?;
        let (_, to_read) = queues.split_once(':')?;
        let is_there = u16::from_str_radix(port, 16) == Ok(address.port());
        is_there.then(|| u64::from_str_radix(to_read, 16).expect("a number"))
    });
    connections.collect()
}

#[test]
fn unfinished_messages_take_no_more_memory_than_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::listen(&folder.path().join("archive"), "tcp://127.0.0.1:0", &[]);
    let process = collector.child.id();
    let before = kibibytes(process, "VmRSS:");
    // the header of a message of IPFIX (RFC 7011 section 3.1), and less than it says that there is
    let message = [&[0, 10, 0xff, 0xff][..], &vec![0; SENT - 4]].concat();
    let connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = TcpStream::connect(collector.address).expect("the kernel takes it");
            // in pieces, as a slow exporter sends
            message.chunks(9_000).for_each(|piece| connection.write_all(piece).expect("it is read"));
            connection
        })
        .collect();
    wait_for("all of it is read", || unread(collector.address) == [0; CONNECTIONS]);
    let grown = kibibytes(process, "VmHWM:").saturating_sub(before);
    let kept = (CONNECTIONS * SENT / 1024) as u64;
    assert!(grown >= kept, "{grown} KiB are less than what was sent: it is not kept");
    assert!(grown <= CONNECTIONS as u64 * CONNECTION_KIB_MAX, "{} KiB a connection", grown / CONNECTIONS as u64);
    drop(connections);
    collector.stop();
}
