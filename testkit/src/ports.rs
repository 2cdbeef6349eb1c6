//! Ports of the loopback interface, and processes that read from them.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports below those that the kernel gives to whoever asks for any: nobody gets one by chance.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// A port of 127.0.0.1 for a process that is started later, over UDP and TCP.
///
/// # Panics
/// When thousands of ports are in use.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        let on = |ip: &str| TcpListener::bind((ip, *port)).is_ok() && UdpSocket::bind((ip, *port)).is_ok();
        on("127.0.0.1") && on("0.0.0.0")
    };
    let mut candidates = std::iter::repeat_with(|| {
        // tests of other processes begin elsewhere
        let number = std::process::id().wrapping_mul(131).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        (PORTS.start + number % (PORTS.end - PORTS.start)) as u16
    });
    candidates.by_ref().take(5_000).find(is_free).expect("a free port")
}

/// The same with its address.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Octets in the receive buffer of the UDP socket bound to a port, by the kernel's table; `None` when there is none.
pub fn waiting_octets(port: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").ok()?;
    let local = format!(":{port:04X}");
    let line = table.lines().find(|line| line.split_whitespace().nth(1).is_some_and(|text| text.ends_with(&local)))?;
    let (_, octets) = line.split_whitespace().nth(4)?.split_once(':')?;
    u64::from_str_radix(octets, 16).ok()
}

/// Whether a process sleeps in front of the empty UDP socket of a port. An empty socket alone is not enough: what nfcapd has read
/// and not handled yet is lost when it is ended then.
pub fn is_waiting_at(process: u32, port: u16) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let is_sleeping = stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'));
    is_sleeping && waiting_octets(port) == Some(0)
}
