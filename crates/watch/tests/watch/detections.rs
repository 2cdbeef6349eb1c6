//! The watches that come with weir: each finds what was planted for it, and nothing in quiet traffic.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray, UInt8Array, UInt32Array, UInt64Array, new_null_array,
};
use weir_flow::{BooksBatch, BooksRow, Counter, Delivery, SideTables, Table, TableBatch};
use weir_watch::{Backtest, RunnerOptions, WatchError, WatchFile};

use crate::scene::{Flow, NEW_YEAR_MS, Random, archive, lines, writer};

const DAY_MS: i64 = 86_400_000;
/// Length of the scene that is tested.
const HOUR_MS: i64 = 3_600_000;

fn shipped(name: &str) -> WatchFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../watches/{name}.toml"));
    WatchFile::read(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Hosts inside that talk to servers outside, each to its own few, at the same times each day for a week and an hour; and
/// that are answered.
fn quiet() -> Vec<Flow> {
    let mut random = Random::new(5);
    let mut flows = Vec::new();
    for day in 0..8 {
        let begin_ms = NEW_YEAR_MS - (7 - day) * DAY_MS;
        for second in (0..3_600).step_by(4) {
            let host = random.below(20);
            let server = host % 5 + random.below(2);
            let (src, dst) = (format!("10.0.0.{}", host + 1), format!("203.1.114.{}", server + 1));
            let at_ms = begin_ms + second * 1_000 + random.below(4_000) as i64;
            let bytes = 20_000 + random.below(40_000);
            let there = Flow {
                bytes: bytes / 10,
                packets: 12,
                ports: (40_000 + random.below(9_000) as u16, 443),
                ..Flow::new(at_ms, &src, &dst)
            };
            let back = Flow { bytes, packets: 30, ports: (443, there.ports.0), ..Flow::new(at_ms + 1, &dst, &src) };
            flows.extend([there, back]);
        }
    }
    flows
}

/// The keys that a watch reports for the hour after the new year.
fn reported(name: &str, planted: Vec<Flow>) -> BTreeSet<String> {
    reported_with(name, planted, SideTables::default())
}

/// As [`reported`], with rows beside the flows.
fn reported_with(name: &str, planted: Vec<Flow>, side_tables: SideTables) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut flows = quiet();
    flows.extend(planted);
    flows.sort_by_key(|flow| flow.received_ms);
    archive(folder.path(), &flows);
    writer(folder.path()).append(Delivery { flows: None, side_tables }).expect("appended");
    let failed =
        |error: &WatchError| format!("{name}: {:?}", std::error::Error::source(error).map(ToString::to_string));
    let backtest = Backtest::new(shipped(name), &RunnerOptions::new(folder.path()));
    let mut backtest = backtest.unwrap_or_else(|error| panic!("{}", failed(&error)));
    let outcome = backtest.run(Some(NEW_YEAR_MS), Some(NEW_YEAR_MS + HOUR_MS), |_, _| ());
    let outcome = outcome.unwrap_or_else(|error| panic!("{}", failed(&error)));
    let reports = outcome.firings.into_iter().flat_map(|firing| firing.reports);
    reports.map(|report| if report.key.is_empty() { "window".to_owned() } else { report.key }).collect()
}

fn at(minute: i64) -> i64 {
    NEW_YEAR_MS + minute * 60_000
}

fn check(name: &str, planted: Vec<Flow>, expected: &[&str]) {
    assert_eq!(reported(name, Vec::new()), BTreeSet::new(), "{name} in quiet traffic");
    assert_eq!(reported(name, planted), expected.iter().map(|key| (*key).to_owned()).collect(), "{name}");
}

#[test]
fn elephants() {
    let planted = (0..30)
        .map(|second| Flow { bytes: 50_000_000, ..Flow::new(at(20) + second * 1_000, "10.0.0.3", "203.1.114.4") });
    check("elephants", planted.collect(), &["src_addr=10.0.0.3"]);
}

/// One packet of a thousand is seen: what it stands for counts, and is far more than the thresholds.
#[test]
fn sampled_flows_count_as_what_they_stand_for() {
    let sampled = |flow: Flow| Flow { bytes: 50_000, packets: 50, sampling_interval: Some(1_000), ..flow };
    let sent = |src: &str| {
        (0..30).map(|second| sampled(Flow::new(at(20) + second * 1_000, src, "203.1.114.4"))).collect::<Vec<_>>()
    };
    check("elephants", sent("10.0.0.3"), &["src_addr=10.0.0.3"]);
    check("mice", sent("10.0.9.9"), &["src_addr=10.0.9.9"]);
    check("exfiltration", sent("10.0.0.11"), &["src_addr=10.0.0.11,dst_addr=203.1.114.4"]);
    let flood = (0..300).map(|n| Flow {
        protocol: 17,
        ports: (123, 80),
        ..sampled(Flow::new(at(30) + n * 5, &format!("198.51.{}.{}", n % 5, n % 250), "10.0.0.2"))
    });
    check("ddos", flood.collect(), &["victim=10.0.0.2,vector=UDP/123"]);
}

/// What is the same each day is nothing new, however much it is.
#[test]
fn traffic_of_each_day_is_as_usual() {
    let of_day = |day: i64| {
        let begin_ms = at(20) - day * DAY_MS;
        (0..30).map(move |second| Flow {
            bytes: 50_000_000,
            ..Flow::new(begin_ms + second * 1_000, "10.0.0.3", "203.1.114.4")
        })
    };
    let planted: Vec<Flow> = (0..8).flat_map(of_day).collect();
    check("elephants", planted.clone(), &[]);
    check("anomalies", planted, &[]);
}

#[test]
fn mice() {
    let planted = (0..30)
        .map(|second| Flow { bytes: 50_000_000, ..Flow::new(at(20) + second * 1_000, "10.0.9.9", "203.1.114.4") });
    check("mice", planted.collect(), &["src_addr=10.0.9.9"]);
}

#[test]
fn portscan() {
    let planted = (0..200).map(|n| Flow {
        packets: 1,
        bytes: 44,
        ports: (50_000, n as u16 + 1),
        ..Flow::new(at(20) + n * 100, "198.51.77.7", &format!("10.0.0.{}", n % 4 + 1))
    });
    check("portscan", planted.collect(), &["src_addr=198.51.77.7"]);
}

/// A host that talks to other servers each day scans; one that asks the same hosts each day does as it does.
#[test]
fn who_talks_to_many_may_be_a_scanner() {
    let mut planted = Vec::new();
    for day in 0..8 {
        let begin_ms = at(20) - day * DAY_MS;
        for n in 0..180 {
            let asked = Flow::new(begin_ms + n * 300, "10.0.0.77", &format!("10.9.0.{}", n + 1));
            planted.push(Flow { packets: 1, protocol: 17, ports: (40_000, 161), ..asked });
        }
        if day > 0 {
            let servers = (0..300).map(|n| format!("198.18.{}.{}", day * 10 + n / 200, n % 200 + 1));
            planted.extend((0..).zip(servers).map(|(n, server)| Flow::new(begin_ms + n * 100, "10.0.0.5", &server)));
        }
    }
    check("portscan", planted.clone(), &[]);
    planted.extend((0..1_000).map(|n| Flow {
        packets: 1,
        ports: (50_000, 445),
        tcp_flags: Some(2),
        ..Flow::new(at(20) + n * 50, "10.0.0.5", &format!("10.1.{}.{}", n / 200, n % 200 + 1))
    }));
    check("portscan", planted, &["src_addr=10.0.0.5"]);
}

/// A flow that is tried from one port to another, and what comes back a while later.
fn asked_and_answered(at_ms: i64, hosts: [&str; 2], ports: [u16; 2], protocol: u8, after_ms: i64) -> [Flow; 2] {
    let flow = |at_ms: i64, [src, dst]: [&str; 2], ports: (u16, u16)| Flow {
        packets: 1,
        bytes: 80,
        protocol,
        ports,
        ..Flow::new(at_ms, src, dst)
    };
    let [from, to] = hosts;
    [flow(at_ms, [from, to], (ports[0], ports[1])), flow(at_ms + after_ms, [to, from], (ports[1], ports[0]))]
}

/// Each answer goes to another port, as the tries of a scan do.
#[test]
fn who_answers_is_no_scanner() {
    let mut planted = Vec::new();
    for n in 0..2_000_u16 {
        let (at_ms, client) = (at(20) + i64::from(n) * 50, format!("10.0.1.{}", n % 40 + 1));
        // a resolver, a service at a port that is none of the known ones, and a web server whose connections are short
        planted.extend(asked_and_answered(at_ms, [&client, "10.0.0.53"], [20_000 + n, 53], 17, i64::from(n % 2)));
        planted.extend(asked_and_answered(at_ms, [&client, "10.0.0.54"], [20_000 + n, 8_000], 17, i64::from(n % 2)));
        planted.extend(asked_and_answered(at_ms, [&client, "10.0.0.55"], [20_000 + n, 443], 6, i64::from(n % 2)));
        // questions to another resolver are not seen
        planted.push(asked_and_answered(at_ms, [&client, "10.0.0.56"], [20_000 + n, 53], 17, 1)[1].clone());
    }
    check("portscan", planted.clone(), &[]);
    // one of them is no longer its owner's: it answers 1,200 times a minute
    let with_scan = |services: u16| {
        let scan = (0..services).flat_map(|n| {
            asked_and_answered(at(20) + i64::from(n) * 50, ["10.0.0.54", "203.1.114.1"], [50_000, n + 1], 17, 1)
        });
        planted.iter().cloned().chain(scan).collect()
    };
    check("portscan", with_scan(200), &[]);
    check("portscan", with_scan(400), &["src_addr=10.0.0.54"]);
}

/// The resets of a scanned host go to as many ports as the scan came from.
#[test]
fn who_is_scanned_is_no_scanner() {
    for (syn, after_ms, from) in [(2, 0, 30_000), (2, 3, 30_000), (6, 0, 30_000), (1, 2, 30_000), (1, 0, 0)] {
        let planted = (0..1_000_u16).flat_map(|n| {
            let ports = [from + n, if n % 2 == 0 { n + 1 } else { 60_000 - n }];
            let [mut scan, mut answer] =
                asked_and_answered(at(20) + i64::from(n) * 20, ["198.51.77.7", "10.0.0.1"], ports, 6, after_ms);
            (scan.tcp_flags, answer.tcp_flags) = (Some(syn), Some(20));
            [scan, answer]
        });
        check("portscan", planted.collect(), &["src_addr=198.51.77.7"]);
    }
}

#[test]
fn anomalies() {
    let planted =
        (0..100).map(|n| Flow { bytes: 5_000_000, ..Flow::new(at(21) + n * 1_000, "10.0.0.19", "198.51.77.8") });
    check("anomalies", planted.collect(), &["window"]);
}

#[test]
fn dispersion() {
    let planted = (0..14).map(|n| Flow::new(at(2 + 4 * n), "198.18.7.7", "10.0.0.5"));
    check("dispersion", planted.collect(), &["network=198.18.7.0/24"]);
}

#[test]
fn beaconing() {
    let call =
        |n: i64, at_ms: i64| Flow { ports: (40_000 + n as u16, 443), ..Flow::new(at_ms, "10.0.0.6", "198.51.77.9") };
    let key = "src_addr=10.0.0.6,dst_addr=198.51.77.9,dst_port=443";
    let once = (0..59).map(|n| call(n, at(n) + n % 3 * 700));
    check("beaconing", once.collect(), &[key]);
    // sleeps a third more or less than a minute, and opens three connections each time
    let mut random = Random::new(7);
    let mut thrice = Vec::new();
    let mut at_ms = at(0);
    for n in 0..45 {
        thrice.extend((0..3).map(|part| call(3 * n + part, at_ms + part * 90)));
        at_ms += 42_000 + random.below(36_000) as i64;
    }
    check("beaconing", thrice, &[key]);
    // over UDP, from the same port
    let datagrams = (0..59).map(|n| Flow { protocol: 17, ..call(0, at(n)) });
    check("beaconing", datagrams.collect(), &[key]);
}

/// An exporter tells a long connection in parts, one each minute.
#[test]
fn parts_of_a_connection_are_no_calls_and_no_tries() {
    let part = |n: i64, protocol: u8, ports: (u16, u16)| Flow {
        protocol,
        ports,
        start_ms: at(n),
        ..Flow::new(at(n + 1) - 200, "10.0.0.6", "198.51.77.9")
    };
    let long = (0..59).flat_map(|n| [part(n, 6, (40_000, 443)), part(n, 17, (40_000, 4_500))]);
    check("beaconing", long.collect(), &[]);
    // eight folders of mail, open all the time
    let folders = (0..59).flat_map(|n| (0..8).map(move |folder| part(n, 6, (50_000 + folder, 993))));
    check("brute-force", folders.collect(), &[]);
}

#[test]
fn new_service() {
    let planted =
        (0..9).map(|n| Flow { ports: (3389, 50_000), ..Flow::new(at(30) + n * 1_000, "10.0.0.8", "203.1.114.4") });
    check("new-service", planted.collect(), &["dst_addr=10.0.0.8,dst_port=3389"]);
    // each port of a scanned host that offers nothing
    let resets = (1..900).map(|port| Flow {
        packets: 2,
        bytes: 80,
        ports: (port, 50_000),
        tcp_flags: Some(20),
        ..Flow::new(at(30) + i64::from(port), "10.0.0.8", "203.1.114.4")
    });
    check("new-service", resets.clone().collect(), &[]);
    // nor is a service known that was scanned a day before it was there
    let scanned = resets.map(|flow| Flow { received_ms: flow.received_ms - DAY_MS, ..flow });
    let offered =
        (0..9).map(|n| Flow { ports: (445, 50_000), ..Flow::new(at(30) + n * 1_000, "10.0.0.8", "203.1.114.4") });
    check("new-service", scanned.chain(offered).collect(), &["dst_addr=10.0.0.8,dst_port=445"]);
    // who looks for names in its network, and who gives addresses there
    let datagrams = |ports| {
        (0..9)
            .map(|n| Flow { protocol: 17, ports, ..Flow::new(at(30) + n * 1_000, "10.0.0.8", "10.0.0.255") })
            .collect()
    };
    check("new-service", datagrams((137, 137)), &[]);
    check("new-service", datagrams((67, 68)), &["dst_addr=10.0.0.8,dst_port=67"]);
}

#[test]
fn first_contact() {
    let planted = (0..9).map(|n| Flow { bytes: 300_000, ..Flow::new(at(30) + n * 1_000, "10.0.0.8", "198.51.77.10") });
    check("first-contact", planted.collect(), &["dst_addr=198.51.77.10"]);
}

/// To an archive of an hour everything is new: nothing of that is reported, and why not is said. A flow of last year, which
/// somebody imported, is no past.
#[test]
fn nothing_is_new_in_an_archive_without_a_past() {
    let offered =
        (0..9).map(|n| Flow { ports: (3389, 50_000), ..Flow::new(at(30) + n * 1_000, "10.0.0.8", "203.1.114.4") });
    let sent = (0..30)
        .map(|second| Flow { bytes: 50_000_000, ..Flow::new(at(40) + second * 1_000, "10.0.9.9", "198.51.77.10") });
    let mut flows: Vec<Flow> = quiet().into_iter().filter(|flow| flow.received_ms >= NEW_YEAR_MS).collect();
    flows.extend(offered.chain(sent));
    flows.push(Flow::new(NEW_YEAR_MS - 300 * 86_400_000, "192.0.2.1", "192.0.2.2"));
    flows.sort_by_key(|flow| flow.received_ms);
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &flows);
    for name in ["new-service", "first-contact", "elephants", "mice"] {
        let mut backtest = Backtest::new(shipped(name), &RunnerOptions::new(folder.path())).expect("a watch");
        let outcome = backtest.run(Some(NEW_YEAR_MS), None, |_, _| ()).expect("an outcome");
        assert_eq!(outcome.reports(), 0, "{name}");
        assert!(outcome.windows > 0 && outcome.windows_without_past == outcome.windows, "{name}: {outcome:?}");
        // the flow of 300 days before is in the archive, and does not count
        let lack = outcome.lack.expect("a reason");
        assert!(lack.ends_with(" within the last 14d before the window, and history_min is 7d"), "{name}: {lack}");
        // all of them find something there when they are asked nevertheless
        let mut asked = shipped(name);
        asked.options.reports.history_min = weir_chain::TimeSpan::ZERO;
        let mut backtest = Backtest::new(asked, &RunnerOptions::new(folder.path())).expect("a watch");
        assert!(backtest.run(Some(NEW_YEAR_MS), None, |_, _| ()).expect("an outcome").reports() > 0, "{name}");
    }
}

/// Where services are asked again and again, flows of a scan are aggregated before they are joined, and none is left out.
#[test]
fn a_scan_is_found_among_more_flows_than_are_kept() {
    let mut random = Random::new(9);
    let asked = |number: i64| {
        let (host, server) = (format!("10.0.0.{}", random.below(50)), format!("203.1.114.{}", random.below(10)));
        Flow { packets: 2, ..Flow::new(NEW_YEAR_MS + number / 3, &host, &server) }
    };
    let mut flows: Vec<Flow> = (0..150_000).map(asked).collect();
    flows.extend((1..=400).map(|port| Flow {
        packets: 1,
        ports: (50_000, port),
        tcp_flags: Some(2),
        ..Flow::new(NEW_YEAR_MS + i64::from(port) * 100, "10.0.0.99", "203.1.114.1")
    }));
    flows.sort_by_key(|flow| flow.received_ms);
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &flows);
    let answers = |rows_max: u64| {
        let mut file = shipped("portscan");
        file.options.windows.rows_max = rows_max;
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
        let mut answers = Vec::new();
        let outcome = backtest.run(None, None, |_, answer| answers.extend(lines(answer))).expect("an outcome");
        (answers, outcome.rows_shed)
    };
    let (plain, shed) = answers(10_000_000);
    assert!(plain.len() == 1 && plain[0].ends_with(",400,0,0") && shed == 0, "{plain:?}");
    assert_eq!(answers(100_000), (plain, 0));
}

/// Answers of a service to somebody else's questions.
fn amplified(at_ms: i64, port: u16) -> impl Iterator<Item = Flow> {
    (0..3_000).map(move |n| Flow {
        protocol: 17,
        packets: 1_000,
        bytes: 400_000,
        ports: (port, 80),
        ..Flow::new(at_ms + n * 5, &format!("198.51.{}.{}", n % 5, n % 250), "10.0.0.2")
    })
}

/// Connections of one source or of many.
fn connections(at_ms: i64, flags: u16, is_one: bool) -> impl Iterator<Item = Flow> {
    (0..3_000_u16).map(move |n| Flow {
        packets: 1,
        bytes: 40,
        ports: (n + 1_024, 80),
        tcp_flags: Some(flags),
        ..Flow::new(
            at_ms + i64::from(n),
            &format!("198.51.{}.{}", if is_one { 7 } else { n % 200 }, if is_one { 7 } else { n % 250 }),
            "10.0.0.2",
        )
    })
}

#[test]
fn ddos() {
    check("ddos", amplified(at(30), 123).collect(), &["victim=10.0.0.2,vector=UDP/123"]);
}

/// Connections that are begun and not gone on with, of one source or of many; and as many that are gone on with.
#[test]
fn floods_of_syn() {
    let of = |flags: u16, is_one: bool| connections(at(30), flags, is_one).collect();
    check("ddos", of(2, false), &["victim=10.0.0.2,vector=TCP-SYN"]);
    check("ddos", of(2, true), &["victim=10.0.0.2,vector=TCP-SYN"]);
    check("ddos", of(0x1b, false), &[]);
}

/// Each vector is reported, however short a while after another one.
#[test]
fn a_flood_does_not_hide_another_one() {
    let planted = amplified(at(30), 389).chain(connections(at(35), 2, false)).chain(amplified(at(38), 53));
    let expected = ["UDP/389", "TCP-SYN", "UDP/53"].map(|vector| format!("victim=10.0.0.2,vector={vector}"));
    check("ddos", planted.collect(), &expected.each_ref().map(String::as_str));
}

#[test]
fn exfiltration() {
    let planted =
        (0..60).map(|n| Flow { bytes: 20_000_000, ..Flow::new(at(20) + n * 1_000, "10.0.0.11", "198.51.77.11") });
    check("exfiltration", planted.collect(), &["src_addr=10.0.0.11,dst_addr=198.51.77.11"]);
    // a server of the web that is asked for as much
    let served = (0..60).map(|n| Flow {
        bytes: 20_000_000,
        ports: (443, 40_000),
        ..Flow::new(at(20) + n * 1_000, "10.0.0.11", "198.51.77.11")
    });
    check("exfiltration", served.clone().collect(), &[]);
    check("first-contact", served.collect(), &[]);
}

#[test]
fn bogons() {
    let planted = (0..60).map(|n| Flow::new(at(20) + n * 100, &format!("240.1.2.{}", n + 1), "10.0.0.11"));
    check("bogons", planted.collect(), &["exporter=198.51.100.1,in_if=,network=240.0.0.0/8"]);
}

#[test]
fn brute_force() {
    let planted = (0..100).map(|n| Flow {
        packets: 14,
        bytes: 2_000 + n as u64 % 9,
        ports: (50_000 + n as u16, 22),
        ..Flow::new(at(20) + n * 900, "198.51.77.12", "10.0.0.2")
    });
    check("brute-force", planted.collect(), &["src_addr=198.51.77.12,dst_port=22"]);
}

#[test]
fn tunnels() {
    let planted = (0..60).map(|n| Flow {
        protocol: 17,
        packets: 2,
        bytes: 2 * 180,
        ports: (50_000 + n as u16, 53),
        ..Flow::new(at(20) + n * 1_000, "10.0.0.6", "198.51.77.53")
    });
    check("tunnels", planted.collect(), &["src_addr=10.0.0.6,dst_addr=198.51.77.53,service=dns"]);
    // as many questions of the usual length
    let usual = (0..60).map(|n| Flow {
        protocol: 17,
        packets: 2,
        bytes: 2 * 70,
        ports: (50_000 + n as u16, 53),
        ..Flow::new(at(20) + n * 1_000, "10.0.0.6", "198.51.77.53")
    });
    check("tunnels", usual.collect(), &[]);
    // what could not be delivered (type 3) comes back with the head of what was sent, and is no tunnel; echo requests are
    let told = |kind: u16| {
        let message = move |n: i64| Flow {
            protocol: 1,
            packets: 2,
            bytes: 2 * 400,
            ports: (0, kind << 8),
            ..Flow::new(at(20) + n * 1_000, "10.0.0.6", "198.51.77.53")
        };
        (0..60).map(message).collect()
    };
    check("tunnels", told(3), &[]);
    check("tunnels", told(8), &["src_addr=10.0.0.6,dst_addr=198.51.77.53,service=icmp"]);
}

/// The books of an exporter that flows in each minute of an hour around the new year.
fn books(exporter: u8) -> SideTables {
    let rows: Vec<BooksRow> = (-45..15)
        .map(|minute| {
            let mut counts = [0; Counter::COUNT];
            counts[Counter::RecordsStored as usize] = 10;
            let exporter = Some(vec![198, 51, 100, exporter]);
            BooksRow { minute_ms: at(minute), exporter, observation_domain: Some(0), export_version: Some(10), counts }
        })
        .collect();
    SideTables { books: Some(BooksBatch::from_rows(&rows)), ..SideTables::default() }
}

#[test]
fn exporter_silent() {
    // the quiet traffic is of the exporter that ends in 1; of the one that ends in 9 no flow comes
    assert_eq!(reported_with("exporter-silent", Vec::new(), books(1)), BTreeSet::new());
    let expected = BTreeSet::from(["exporter=198.51.100.9".to_owned()]);
    assert_eq!(reported_with("exporter-silent", Vec::new(), books(9)), expected);
}

#[test]
fn sampling_changed() {
    let planted = (0..9)
        .map(|n| Flow { sampling_interval: Some(512), ..Flow::new(at(30) + n * 1_000, "10.0.0.8", "203.1.114.4") });
    check("sampling-changed", planted.collect(), &["exporter=198.51.100.1,sampling_interval=512"]);
}

/// Two counters samples of an interface that has taken in so many octets between them.
fn interface(octets: u64) -> SideTables {
    let schema = Table::InterfaceCounters.schema();
    let columns = schema.fields().iter().map(|field| -> ArrayRef {
        match field.name().as_str() {
            "received" => Arc::new(TimestampMillisecondArray::from(vec![at(1), at(14)]).with_timezone("UTC")),
            "exporter" => Arc::new(BinaryArray::from(vec![&[198, 51, 100, 1][..]; 2])),
            "if_index" => Arc::new(UInt32Array::from(vec![7, 7])),
            "in_octets" => Arc::new(UInt64Array::from(vec![1_000, 1_000 + octets])),
            _ if field.is_nullable() => new_null_array(field.data_type(), 2),
            _ => arrow::compute::cast(&UInt8Array::from(vec![0, 0]), field.data_type()).expect("a number"),
        }
    });
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("columns of the table");
    let rows = TableBatch::try_new(Table::InterfaceCounters, batch).expect("rows of the table");
    SideTables { others: vec![rows], ..SideTables::default() }
}

#[test]
fn interface_mismatch() {
    // flows of the interface: of the sampled ones each stands for a hundred
    let flows = || (0..100).map(|n| Flow { in_if: Some(7), ..Flow::new(at(2) + n * 1_000, "10.0.0.8", "203.1.114.4") });
    let sampled = || flows().map(|flow| Flow { bytes: 30_000, sampling_interval: Some(100), ..flow }).collect();
    assert_eq!(reported_with("interface-mismatch", sampled(), interface(300_000_000)), BTreeSet::new());
    let expected = BTreeSet::from(["exporter=198.51.100.1,if_index=7".to_owned()]);
    assert_eq!(reported_with("interface-mismatch", flows().collect(), interface(300_000_000)), expected);
}

/// Every shipped watch says how it decides and what it takes for something else.
#[test]
fn every_watch_is_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../watches");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("watches") {
        let path = entry.expect("a file").path();
        let file = WatchFile::read(&path).unwrap_or_else(|error| panic!("{error}"));
        let options = &file.options.reports;
        for (what, text) in [
            ("title", &options.title),
            ("method", &options.method),
            ("pitfalls", &options.pitfalls),
            ("next", &options.next),
        ] {
            assert!(!text.is_empty(), "{} has no {what}", path.display());
        }
        weir_watch::plan(file).unwrap_or_else(|error| {
            panic!("{}: {:?}", path.display(), std::error::Error::source(&error).map(ToString::to_string))
        });
        count += 1;
    }
    assert!(count >= 15, "{count}");
}
