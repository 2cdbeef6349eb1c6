//! What starts and watches the process: systemd, or whatever speaks as it does.
//!
//! Messages go to the socket that `NOTIFY_SOCKET` names (`sd_notify(3)`); without it nothing is said. Sockets that were
//! opened before the process began (`sd_listen_fds(3)`) are used in place of own ones: they stay open while the process
//! restarts, and the kernel keeps what arrives meanwhile.

use std::env;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use weir_chain::Progress;
use weir_flow::Counter;

/// How long nothing may go on while something waits.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Counters that grow while nothing goes on.
const DROPS: [Counter; 2] = [Counter::KernelDrops, Counter::QueueDrops];

/// Who is told how the process is.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    has_watchdog: bool,
}

impl ServiceManager {
    /// The one that the environment names.
    pub(crate) fn of_environment() -> Self {
        let own = |name: &str| env::var(name).ok().is_none_or(|pid| pid == process::id().to_string());
        Self {
            socket: env::var("NOTIFY_SOCKET").ok().and_then(|name| open(&name)),
            has_watchdog: env::var("WATCHDOG_USEC").is_ok() && own("WATCHDOG_PID"),
        }
    }

    /// Everything that was asked for is open.
    pub(crate) fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    /// The process ends in order.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=what was received is written");
    }

    /// All goes on, or not: the watchdog ends a process that does not say it for too long.
    pub(crate) fn look(&self, liveness: &mut Liveness, progress: &Progress) {
        let is_alive = liveness.look(progress, Instant::now());
        if self.has_watchdog && is_alive {
            self.say("WATCHDOG=1");
        }
    }

    /// The watchdog of a process without a chain, which is alive as long as it gets here.
    pub(crate) fn alive(&self) {
        if self.has_watchdog {
            self.say("WATCHDOG=1");
        }
    }

    fn say(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            // whoever does not listen is not told
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// The socket of a name; one that begins with `@` has no file.
fn open(name: &str) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    Some((UnixDatagram::unbound().ok()?, address.ok()?))
}

/// Sockets that the process began with.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets {
    pub(crate) udp: Vec<UdpSocket>,
    pub(crate) tcp: Vec<TcpListener>,
}

impl InheritedSockets {
    /// Those that the environment counts. Other kinds of sockets are left alone.
    pub(crate) fn of_environment() -> Self {
        let mut given = ListenFd::from_env();
        let mut sockets = Self::default();
        for number in 0..given.len() {
            if let Ok(Some(socket)) = given.take_udp_socket(number) {
                sockets.udp.push(socket);
            } else if let Ok(Some(listener)) = given.take_tcp_listener(number) {
                sockets.tcp.push(listener);
            }
        }
        sockets
    }
}

/// Whether receiving, decoding and writing go on: what is counted changes, or nothing waits. That a full disk is tried again
/// is counted too, so it is no reason to restart.
#[derive(Debug)]
pub(crate) struct Liveness {
    counted: u64,
    drops: u64,
    changed: Instant,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { counted: 0, drops: 0, changed: Instant::now() }
    }
}

impl Liveness {
    fn look(&mut self, progress: &Progress, now: Instant) -> bool {
        let (mut counted, mut drops) = (0_u64, 0_u64);
        for component in &progress.components {
            counted = counted.wrapping_add(component.rows_in).wrapping_add(component.rows_out);
            counted = counted.wrapping_add(component.bursts_in).wrapping_add(u64::from(component.ended));
            for (name, count) in &component.counters {
                let is_drop = DROPS.iter().any(|counter| counter.name() == *name);
                let sum = if is_drop { &mut drops } else { &mut counted };
                *sum = sum.wrapping_add(*count);
            }
        }
        let waits = drops != self.drops || progress.queues.iter().any(|queue| queue.held > 0);
        if counted != self.counted || !waits {
            self.changed = now;
        }
        (self.counted, self.drops) = (counted, drops);
        now.saturating_duration_since(self.changed) < STUCK_AFTER
    }
}

#[cfg(test)]
mod tests {
    use weir_chain::State;
    use weir_chain::config::QueueSpec;
    use weir_chain::run::{ComponentProgress, QueueProgress};

    use super::*;

    fn progress(rows: u64, drops: u64, held: u64) -> Progress {
        let component = ComponentProgress {
            name: "collector".to_owned(),
            kind: "collector",
            thread: 0,
            rows_in: 0,
            rows_out: rows,
            bursts_in: 0,
            rows_discarded: 0,
            busy: Duration::ZERO,
            state: State::default(),
            state_rows_max: 0,
            ended: false,
            counters: vec![("kernel_drops", drops), ("datagrams", rows / 10)],
        };
        let queue = QueueSpec { burst_records: 0, queue_bursts: 8 };
        let queue = QueueProgress { from: 0, to: 0, input: 0, queue, held, bursts: 0, rows, full: Duration::ZERO };
        let (chain, elapsed) = ("collect".to_owned(), Duration::ZERO);
        Progress { chain, elapsed, components: vec![component], queues: vec![queue], threads: Vec::new() }
    }

    #[test]
    fn what_waits_and_does_not_go_on_is_not_alive() {
        let (mut liveness, begin) = (Liveness::default(), Instant::now());
        let mut look = |seconds: u64, rows, drops, held| {
            liveness.look(&progress(rows, drops, held), begin + Duration::from_secs(seconds))
        };
        assert!(look(0, 100, 0, 0));
        assert!(look(100, 100, 0, 0), "nothing comes, and nothing waits");
        assert!(look(105, 100, 0, 8), "something waits, for a moment");
        assert!(look(109, 100, 0, 8));
        assert!(!look(111, 100, 0, 8), "a queue is full, and nobody takes from it");
        assert!(look(112, 200, 0, 8), "it goes on");
        assert!(look(121, 200, 50, 0), "the kernel drops, for a moment");
        assert!(!look(123, 200, 60, 0), "the kernel drops what nobody receives");
        assert!(look(124, 200, 60, 0), "it does not any more");
    }

    #[test]
    fn messages_go_to_the_socket_that_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        let manager = ServiceManager { socket: open(path.to_str().expect("a path")), has_watchdog: true };
        manager.ready("it answers");
        manager.look(&mut Liveness::default(), &progress(1, 0, 0));
        manager.stopping();
        let mut received = Vec::new();
        for _ in 0..3 {
            let mut octets = [0; 200];
            let count = listener.recv(&mut octets).expect("a message");
            received.push(String::from_utf8_lossy(&octets[..count]).into_owned());
        }
        assert_eq!(received[..2], ["READY=1\nSTATUS=it answers", "WATCHDOG=1"]);
        assert!(received[2].starts_with("STOPPING=1\n"));
    }
}
