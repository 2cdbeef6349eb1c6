//! nfcapd receives from the loopback interface, nfdump adds up.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use arrow::datatypes::TimestampMillisecondType;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_export::{ExporterConfig, Version};
use weir_flow::Column;
use weir_generate::{SendPlan, Stream, TrafficModel, send};
use weir_testkit::ports;

/// False, with a message, when there is no nfcapd and none is required.
fn there_is_nfdump() -> bool {
    let found = Command::new("nfdump").arg("-V").output().is_ok() && Command::new("nfcapd").arg("-V").output().is_ok();
    if !found {
        weir_testkit::skip("nfdump", "nfdump or nfcapd is not installed");
    }
    found
}

/// A running nfcapd, ended when it is dropped.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Collector {
    /// Starts it and waits until it waits for datagrams.
    fn start(port: u16, folder: &Path) -> Self {
        let child = Command::new("nfcapd")
            .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-B", "4000000", "-w"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nfcapd");
        let collector = Self(child);
        wait_until("nfcapd listens", || ports::is_waiting_at(collector.0.id(), port));
        collector
    }

    /// Lets it read everything that was sent, then write its file.
    fn finish(mut self, port: u16) {
        wait_until("nfcapd has read all", || ports::is_waiting_at(self.0.id(), port));
        let pid = Pid::from_raw(self.0.id().try_into().expect("a process id"));
        kill(pid, Signal::SIGTERM).expect("nfcapd runs");
        assert!(self.0.wait().expect("its end").success());
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_mins(2), "{what}: not within two minutes");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The number after `name:` in the output of `nfdump -I`.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Flows sent in each test.
const FLOWS: u64 = 20_000;

fn check(version: Version, model: &TrafficModel) {
    if !there_is_nfdump() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let port = ports::free_port();
    let collector = Collector::start(port, folder.path());
    let mut flows = model.flows(FLOWS).expect("a model");
    let plan = SendPlan { flows_per_second: Some(40_000), ..SendPlan::to_loopback(port) };
    let streams = ["127.0.0.2", "127.0.0.3"].map(|source| Stream {
        source: Some(source.parse().expect("an address")),
        config: ExporterConfig::new(version),
    });
    let sent = send(&mut flows, &streams, &plan).expect("sent");
    assert_eq!((sent.flows, sent.datagrams_refused), (FLOWS, 0));
    collector.finish(port);
    let output = Command::new("nfdump").arg("-R").arg(folder.path()).arg("-I").output().expect("nfdump");
    let text = String::from_utf8(output.stdout).expect("text");
    let totals = flows.totals();
    let found = (number(&text, "Flows"), number(&text, "Packets"), number(&text, "Bytes"));
    assert_eq!(found, (totals.flows, totals.packets, totals.bytes), "{version}\n{text}");
    assert_eq!(number(&text, "Sequence failures"), 0, "{version}\n{text}");
    let ms = |secs, msec| (number(&text, secs) * 1000 + number(&text, msec)) as i64;
    assert_eq!((ms("First", "msec_first"), ms("Last", "msec_last")), first_and_last(model), "{version}\n{text}");
}

/// The first start and the last end of the flows sent, in milliseconds since the epoch.
fn first_and_last(model: &TrafficModel) -> (i64, i64) {
    model.flows(FLOWS).expect("a model").fold((i64::MAX, i64::MIN), |(first, last), batch| {
        let times = |column| batch.primitive::<TimestampMillisecondType>(column).expect("times");
        let (starts, ends) = (times(Column::Start), times(Column::End));
        (starts.values().iter().copied().fold(first, i64::min), ends.values().iter().copied().fold(last, i64::max))
    })
}

#[test]
fn version_5() {
    check(Version::V5, &TrafficModel::new(21));
}

#[test]
fn version_9() {
    check(Version::V9, &TrafficModel { ipv6_permille: 300, ..TrafficModel::new(22) });
}

#[test]
fn ipfix() {
    check(Version::Ipfix, &TrafficModel { ipv6_permille: 300, elements: true, ..TrafficModel::new(23) });
}
