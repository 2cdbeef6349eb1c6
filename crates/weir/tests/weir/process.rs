//! Starting `weir` and talking to it.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use weir_testkit::ports;
use weir_wire::fixed::{Header, PacketBuilder};
use weir_wire::netflow5::{FORMAT, field};

/// The program under test.
pub(crate) fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_remove("WEIR_LOG").env_remove("WEIR_ARCHIVE");
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    weir().args(arguments).output().expect("weir runs")
}

/// Runs a command that sends flows, `--to` a collector of nfdump that writes them into a new folder.
pub(crate) fn sent_to_nfcapd(nfcapd: &Path, files: &Path, arguments: &[&str]) {
    std::fs::create_dir(files).expect("a folder");
    let port = ports::free_port();
    let mut collector = Command::new(nfcapd);
    collector.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600", "-B", "4000000", "-w"]).arg(files);
    let mut collector = collector.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nfcapd starts");
    wait_for("nfcapd listens", || ports::is_waiting_at(collector.id(), port));
    let output = run(&[arguments, &["--to", &format!("127.0.0.1:{port}")]].concat());
    // over loopback everything is in the socket by now
    wait_for("nfcapd has read all", || ports::is_waiting_at(collector.id(), port));
    let pid = nix::unistd::Pid::from_raw(collector.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it still runs");
    collector.wait().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_for(what: &str, is_it: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_mins(2);
    while !is_it() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A collector on a free port, killed when dropped.
pub(crate) struct Collector {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Collector {
    pub(crate) fn start(archive: &Path, more: &[&str]) -> Self {
        Self::listen(archive, "127.0.0.1:0", more)
    }

    /// One that listens somewhere else, or over another transport.
    pub(crate) fn listen(archive: &Path, listener: &str, more: &[&str]) -> Self {
        let mut command = weir();
        command.args(["collect", "--listen", listener, "--archive"]).arg(archive).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("weir starts");
        let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let place = line.split_once("listening on ")?.1.split(' ').next()?;
                place.rsplit_once("//").map_or(place, |(_, address)| address).parse().ok()
            })
            .expect("the collector listens");
        // what it says later must go somewhere, or it would wait for a full pipe
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// Ends it in order, with SIGTERM.
    pub(crate) fn stop(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it still runs");
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Ends it at once, with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it still runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An exporter of NetFlow v5 whose flows carry a running number as their octets.
pub(crate) struct Exporter {
    socket: UdpSocket,
    next: u32,
}

impl Exporter {
    pub(crate) fn new(next: u32) -> Self {
        Self { socket: UdpSocket::bind("127.0.0.1:0").expect("a socket"), next }
    }

    /// Flows sent so far by all exporters of this line.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Makes one full datagram that never arrives.
    pub(crate) fn skip(&mut self) {
        self.next += 30;
    }

    /// Sends one full datagram.
    pub(crate) fn send(&mut self, to: SocketAddr) {
        let mut datagram = Vec::new();
        let header = Header {
            count: 0,
            sys_uptime_ms: 1_000_000,
            unix_secs: 1_700_000_000,
            unix_nsecs: 0,
            flow_sequence: self.next,
            engine_type: 0,
            engine_id: 0,
            sampling: 0,
        };
        let mut packet = PacketBuilder::new(&FORMAT, &mut datagram, &header);
        for _ in 0..30 {
            packet.record(&record(self.next)).expect("30 fit");
            self.next += 1;
        }
        packet.finish();
        // a collector that was killed refuses, which is what these tests are about
        let _ = self.socket.send_to(&datagram, to);
    }
}

fn record(number: u32) -> Vec<u8> {
    let number = u64::from(number);
    FORMAT.record(&[
        (field::SRC_ADDR, 0x0a00_0000 | number & 0xffff),
        (field::DST_ADDR, 0xc000_0200 | (number % 7)),
        (field::INPUT, 1),
        (field::OUTPUT, 2),
        (field::PACKETS, 1),
        (field::OCTETS, number),
        (field::FIRST, 990_000),
        (field::LAST, 995_000),
        (field::SRC_PORT, 40_000 + number % 1000),
        (field::DST_PORT, if number.is_multiple_of(50) { 22 } else { 443 }),
        (field::TCP_FLAGS, 0x1b),
        (field::PROTOCOL, 6),
    ])
}
