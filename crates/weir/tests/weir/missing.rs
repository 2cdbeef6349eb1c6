//! Every flow that an exporter sent is in the archive or in a line of the books, whatever happens to the collector.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{UInt8Type, UInt64Type};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_archive::Snapshot;
use weir_export::{Exporter, ExporterConfig, TemplateRefresh, Version};
use weir_flow::{Counter, Table};
use weir_generate::TrafficModel;
use weir_testkit::ports;

use crate::damage::SmallDisk;
use crate::process::{Collector, run, wait_for, weir};

/// Flows of a batch that is sent at once.
const BATCH: usize = 240;

/// An exporter whose flows have their numbers as octets, and what it has sent: of each datagram with flows the numbers.
struct Numbered {
    socket: UdpSocket,
    exporter: Exporter,
    flows: weir_generate::Flows,
    datagrams: Vec<std::ops::Range<u64>>,
    first: u64,
}

impl Numbered {
    /// Flows of all exporters have numbers of their own: these begin here.
    fn new(version: Version, seed: u64) -> Self {
        let config = ExporterConfig {
            // said once: datagrams without flows would not be known to be missing
            template_refresh: TemplateRefresh { datagrams: u32::MAX, secs: u32::MAX },
            ..ExporterConfig::new(version)
        };
        Self {
            socket: UdpSocket::bind("127.0.0.1:0").expect("a socket"),
            exporter: Exporter::new(config).expect("an exporter"),
            flows: TrafficModel { numbered: true, ..TrafficModel::new(seed) }.flows(1 << 40).expect("a model"),
            datagrams: Vec::new(),
            first: 0,
        }
    }

    fn send(&mut self, to: SocketAddr) {
        let flows = self.flows.next_batch(BATCH).expect("no end");
        // the time at which such flows are sent
        let now_ms = self.flows.clock_ms();
        let Self { socket, exporter, datagrams, first, .. } = self;
        let mut send = |datagram: weir_export::Datagram<'_>| {
            // a collector that is down refuses, which is what this is about
            let _ = socket.send_to(datagram.octets, to);
            if datagram.flows > 0 {
                let end = *first + u64::from(datagram.flows);
                datagrams.push(std::mem::replace(first, end)..end);
            }
        };
        exporter.encode(&flows, now_ms, &mut send);
        exporter.flush(now_ms, &mut send);
    }
}

const VERSIONS: [Version; 3] = [Version::V5, Version::V9, Version::Ipfix];

/// An exporter of each protocol.
fn exporters() -> [Numbered; 3] {
    [(VERSIONS[0], 1), (VERSIONS[1], 2), (VERSIONS[2], 3)].map(|(version, seed)| Numbered::new(version, seed))
}

/// Sends so many batches of each exporter, no faster than a small machine takes them.
fn send_batches(exporters: &mut [Numbered], to: SocketAddr, batches: usize) {
    for _ in 0..batches {
        for exporter in &mut *exporters {
            exporter.send(to);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Numbers of the flows of one protocol in the archive, in order.
fn stored(archive: &Path, version: Version) -> Vec<u64> {
    let snapshot = Snapshot::open(archive).expect("a snapshot");
    let sealed = snapshot.segments(Table::Flows).iter().flat_map(|segment| segment.read().expect("a whole segment"));
    let mut numbers = Vec::new();
    for batch in sealed.chain(snapshot.tail(Table::Flows).expect("readable")) {
        let versions = batch.column_by_name("export_version").expect("a column");
        let versions = versions.as_primitive::<UInt8Type>();
        let bytes = batch.column_by_name("bytes").expect("a column").as_primitive::<UInt64Type>();
        let of_version =
            versions.values().iter().zip(bytes.values()).filter(|(of, _)| u16::from(**of) == version.number());
        numbers.extend(of_version.map(|(_, number)| *number));
    }
    numbers.sort_unstable();
    numbers
}

fn signal(collector: &Collector, signal: Signal) {
    kill(Pid::from_raw(collector.child.id() as i32), signal).expect("it still runs");
}

/// The books of an archive, summed up by exporter.
struct Booked(RecordBatch);

impl Booked {
    fn of(archive: &Path) -> Self {
        let sums = Snapshot::open(archive).expect("a snapshot").books(i64::MIN, i64::MAX).expect("readable");
        Self(sums.table(Counter::ALL))
    }

    fn count(&self, version: Version, counter: Counter) -> u64 {
        let versions = self.0.column_by_name("export_version").expect("a column").as_primitive::<UInt8Type>();
        let counts = self.0.column_by_name(counter.name()).expect("a column").as_primitive::<UInt64Type>();
        let rows = versions.iter().zip(counts.values());
        rows.filter(|(of, _)| of.map(u16::from) == Some(version.number())).map(|(_, count)| *count).sum()
    }
}

/// What `weir books` prints, and its exit status.
fn books_of(archive: &Path) -> (String, Option<i32>) {
    let output = run(&["books", "--archive", archive.to_str().expect("a path")]);
    let said = [output.stdout, output.stderr].map(|octets| String::from_utf8_lossy(&octets).into_owned());
    (said.concat(), output.status.code())
}

/// All flows of exporters but those after the last one that is there: stored, or missing by the books.
#[track_caller]
fn check(archive: &Path, exporters: &[Numbered], was_down: bool) {
    let booked = Booked::of(archive);
    for (version, exporter) in VERSIONS.into_iter().zip(exporters) {
        let numbers = stored(archive, version);
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{version}: a flow is there twice");
        let has = |number: u64| numbers.binary_search(&number).is_ok();
        // a datagram is there as a whole or not at all, and nothing is known of what came after the last one
        let last = exporter.datagrams.iter().rposition(|flows| has(flows.start)).expect("some are there");
        let mut missing = [0, 0];
        for flows in &exporter.datagrams[..last] {
            let there = flows.clone().filter(|number| has(*number)).count() as u64;
            assert!(there == 0 || there == flows.end - flows.start, "{version}: half a datagram");
            if there == 0 {
                missing[0] += flows.end - flows.start;
                missing[1] += 1;
            }
        }
        let of = |counter| booked.count(version, counter);
        let (lost, late, down, missing) = match version {
            Version::V9 => (Counter::DatagramsLost, Counter::DatagramsLate, Counter::DatagramsLostDown, missing[1]),
            _ => (Counter::RecordsLost, Counter::RecordsLate, Counter::RecordsLostDown, missing[0]),
        };
        assert_eq!((of(lost) - of(late), of(Counter::SequenceResets)), (missing, 0), "{version}");
        assert_eq!(of(down) > 0, was_down, "{version}");
        assert!(of(down) <= missing, "{version}: {} of {missing}", of(down));
    }
}

#[test]
fn every_flow_is_stored_or_booked() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let free = ports::free_address();
    let options = ["--commit-interval", "50ms", "--segment-rows", "20000", "--buffer", "1MiB"];
    let start = || Collector::listen(&archive, &free.to_string(), &options);
    let mut exporters = exporters();
    let send = |length: Duration, exporters: &mut [Numbered]| {
        let until = Instant::now() + length;
        while Instant::now() < until {
            for exporter in &mut *exporters {
                exporter.send(free);
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    };
    let ms = Duration::from_millis;
    let mut collector = start();
    // until they are known
    send(ms(400), &mut exporters);
    let until = Instant::now() + Duration::from_mins(1);
    while !archive.exists() || VERSIONS.iter().any(|version| stored(&archive, *version).is_empty()) {
        assert!(Instant::now() < until, "nothing is stored");
        send(ms(100), &mut exporters);
    }
    for round in 0..12 {
        match round % 4 {
            0 | 2 => collector.kill(),
            1 => collector.stop(),
            _ => {
                signal(&collector, Signal::SIGSTOP);
                send(ms(700), &mut exporters);
                signal(&collector, Signal::SIGCONT);
                send(ms(200), &mut exporters);
                collector.kill();
            }
        }
        send(ms(round * 7919 % 300), &mut exporters);
        collector = start();
        send(ms(100 + round * 104_729 % 400), &mut exporters);
    }
    send(ms(300), &mut exporters);
    collector.stop();

    check(&archive, &exporters, true);
    let (said, status) = books_of(&archive);
    assert!(status == Some(0) && said.contains("missed while the collector was down"), "{said}");
}

/// Whether all flows that were sent are in the archive.
fn has_all(archive: &Path, exporters: &[Numbered]) -> bool {
    VERSIONS
        .into_iter()
        .zip(exporters)
        .all(|(version, exporter)| stored(archive, version).len() as u64 == exporter.first)
}

/// The disk is full until the collector is stopped, and no exporter goes on: sequence numbers tell nothing.
#[test]
fn what_a_full_disk_did_not_take_is_booked() {
    let Some(disk) = SmallDisk::mount("8m") else { return };
    let archive = disk.path().join("archive");
    let options = ["--commit-interval", "50ms", "--segment-rows", "3000", "--no-merge", "--free-space-min", "0"];
    let mut collector = Collector::start(&archive, &options);
    let mut exporters = exporters();
    send_batches(&mut exporters, collector.address, 10);
    wait_for("the first flows are stored", || has_all(&archive, &exporters));
    let ballast = disk.path().join("ballast");
    let mut file = fs::File::create(&ballast).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    drop(file);
    send_batches(&mut exporters, collector.address, 30);
    signal(&collector, Signal::SIGTERM);
    // it says that not all was written
    collector.child.wait().expect("it ends");
    fs::remove_file(&ballast).expect("removed");
    let booked = Booked::of(&archive);
    let mut not_stored = 0;
    for (version, exporter) in VERSIONS.into_iter().zip(&exporters) {
        let of = |counter| booked.count(version, counter);
        let there = stored(&archive, version).len() as u64;
        assert_eq!([Counter::RecordsLost, Counter::DatagramsLost].map(of), [0, 0], "{version}");
        assert_eq!(there + of(Counter::RecordsNotStored), exporter.first, "{version}");
        not_stored += of(Counter::RecordsNotStored);
    }
    assert!(not_stored > 0, "the disk was not full");
    let (said, status) = books_of(&archive);
    assert!(said.contains(&format!("records that came and could not be written: {not_stored}")), "{said}");
    assert_eq!(status, Some(0), "{said}");
}

/// Whoever deletes files of an archive finds it in the books, whatever the collector does meanwhile.
#[test]
fn flows_whose_file_is_gone_are_not_called_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let collector = Collector::start(&archive, &["--commit-interval", "50ms", "--segment-rows", "3000", "--no-merge"]);
    let mut exporters = exporters();
    send_batches(&mut exporters, collector.address, 10);
    let first = || Snapshot::open(&archive).expect("a snapshot").segments(Table::Flows).first().cloned();
    wait_for("a segment", || first().is_some());
    let segment = first().expect("a segment");
    fs::remove_file(segment.path()).expect("removed");
    let gone = format!("{} flows are gone", segment.rows);
    for has_gone_on in [false, true] {
        let (said, status) = books_of(&archive);
        assert!(said.starts_with("incomplete: ") && said.contains(&gone), "{has_gone_on}: {said}");
        assert!(said.contains(segment.path().to_str().expect("a path")), "{has_gone_on}: {said}");
        assert!(!said.contains("the books balance"), "{has_gone_on}: {said}");
        assert_eq!(status, Some(1), "{has_gone_on}: {said}");
        if !has_gone_on {
            send_batches(&mut exporters, collector.address, 5);
            wait_for("the others are stored", || {
                let flows = Snapshot::open(&archive).expect("a snapshot").flows();
                flows == exporters.iter().map(|exporter| exporter.first).sum::<u64>()
            });
        }
    }
    collector.stop();
}

/// The collector itself finds them when it ends: it has stored them, and they are not there.
#[test]
fn a_collector_that_ends_reports_flows_whose_file_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, log) = (folder.path().join("archive"), folder.path().join("log"));
    let mut command = weir();
    command.args(["collect", "--listen", "127.0.0.1:0", "--commit-interval", "50ms", "--segment-rows", "3000"]);
    command.args(["--no-merge", "--archive"]).arg(&archive).stderr(fs::File::create(&log).expect("a file"));
    let child = command.spawn().expect("weir starts");
    let mut collector = Collector { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
    let said = || fs::read_to_string(&log).expect("text");
    let listens_at = || -> Option<SocketAddr> {
        let said = said();
        let place = said.split_once("listening on ")?.1.split_whitespace().next()?;
        place.rsplit_once("//").map_or(place, |(_, address)| address).parse().ok()
    };
    wait_for("it listens", || listens_at().is_some());
    collector.address = listens_at().expect("an address");
    send_batches(&mut exporters(), collector.address, 10);
    let first = || Snapshot::open(&archive).ok()?.segments(Table::Flows).first().cloned();
    wait_for("a segment", || first().is_some());
    let segment = first().expect("a segment");
    fs::remove_file(segment.path()).expect("removed");
    collector.stop();
    let gone = format!("{} flows are gone with their file {}", segment.rows, segment.path().display());
    assert!(said().contains(&gone), "{}", said());
}

/// A file system of its own, in a file, that can be frozen.
struct Freezer {
    folder: tempfile::TempDir,
    /// It is the file of the file system as long as that is mounted.
    _image: tempfile::NamedTempFile,
}

impl Freezer {
    /// `None` where that is not allowed.
    fn mount() -> Option<Self> {
        let is_done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let (folder, image) = (tempfile::tempdir().expect("a folder"), tempfile::NamedTempFile::new().expect("a file"));
        image.as_file().set_len(48 << 20).expect("a sparse file");
        let is_mounted = is_done(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image.path()))
            && is_done(Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(folder.path()));
        let freezer = is_mounted.then(|| Self { folder, _image: image });
        // the one command that nothing else shows to be there
        let freezer = freezer.filter(|freezer| freezer.set("-f") && freezer.set("-u"));
        if freezer.is_none() {
            weir_testkit::skip("root", "freezing a file system needs root, loop devices, mkfs.ext4 and fsfreeze");
        }
        freezer
    }

    fn set(&self, how: &str) -> bool {
        Command::new("fsfreeze").arg(how).arg(self.folder.path()).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // one that stays frozen can never be unmounted
        self.set("-u");
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}

/// While the file system is frozen, whoever writes waits.
#[test]
fn a_frozen_disk_costs_no_flow() {
    let Some(freezer) = Freezer::mount() else { return };
    let archive = freezer.folder.path().join("archive");
    let collector = Collector::start(&archive, &["--commit-interval", "50ms", "--segment-rows", "3000", "--no-merge"]);
    let mut exporters = exporters();
    send_batches(&mut exporters, collector.address, 10);
    wait_for("the first flows are stored", || has_all(&archive, &exporters));
    assert!(freezer.set("-f"), "frozen");
    send_batches(&mut exporters, collector.address, 60);
    assert!(freezer.set("-u"), "thawed");
    send_batches(&mut exporters, collector.address, 10);
    wait_for("all flows are stored", || has_all(&archive, &exporters));
    collector.stop();
    check(&archive, &exporters, false);
    let (said, status) = books_of(&archive);
    assert!(status == Some(0) && said.contains("the books balance"), "{said}");
}
