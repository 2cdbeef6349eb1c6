//! Every flow that an exporter sent is in the archive or in a line of the books, whatever happens to the collector.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::{UInt8Type, UInt64Type};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_archive::Snapshot;
use weir_export::{Exporter, ExporterConfig, TemplateRefresh, Version};
use weir_flow::{Counter, Table};
use weir_generate::TrafficModel;
use weir_testkit::ports;

use crate::process::{Collector, run};

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

#[test]
fn every_flow_is_stored_or_booked() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let free = ports::free_address();
    let options = ["--commit-interval", "50ms", "--segment-rows", "20000", "--buffer", "1MiB"];
    let start = || Collector::listen(&archive, &free.to_string(), &options);
    let versions = [Version::V5, Version::V9, Version::Ipfix];
    let mut exporters = [(versions[0], 1), (versions[1], 2), (versions[2], 3)].map(|(v, seed)| Numbered::new(v, seed));
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
    while !archive.exists() || versions.iter().any(|version| stored(&archive, *version).is_empty()) {
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

    let sums =
        Snapshot::open(&archive).expect("a snapshot").books(i64::MIN, i64::MAX).expect("readable").table(Counter::ALL);
    for (version, exporter) in versions.into_iter().zip(&exporters) {
        let numbers = stored(&archive, version);
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
        let of = |counter: Counter| -> u64 {
            let versions = sums.column_by_name("export_version").expect("a column").as_primitive::<UInt8Type>();
            let counts = sums.column_by_name(counter.name()).expect("a column").as_primitive::<UInt64Type>();
            let rows = versions.iter().zip(counts.values());
            rows.filter(|(of, _)| of.map(u16::from) == Some(version.number())).map(|(_, count)| *count).sum()
        };
        let (lost, late, down, missing) = match version {
            Version::V9 => (Counter::DatagramsLost, Counter::DatagramsLate, Counter::DatagramsLostDown, missing[1]),
            _ => (Counter::RecordsLost, Counter::RecordsLate, Counter::RecordsLostDown, missing[0]),
        };
        assert_eq!((of(lost) - of(late), of(Counter::SequenceResets)), (missing, 0), "{version}");
        assert!(of(down) > 0 && of(down) <= missing, "{version}: {} of {missing}", of(down));
    }
    let output = run(&["books", "--archive", archive.to_str().expect("a path")]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("missed while the collector was down"), "{told}");
}
