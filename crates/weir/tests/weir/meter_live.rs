//! `weir meter` at an interface, in a network namespace that the test makes: routes that change while it captures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use weir_testkit::namespace::{cable, ip, is_inside};

use crate::process::{run, weir};
use crate::service::{PATIENCE, Service};

/// The program at work, killed when dropped.
struct Metering(Child);

impl Drop for Metering {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that come of a pipe, by a thread of their own.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(pipe).lines().map_while(Result::ok).take_while(|line| sender.send(line.clone()).is_ok()).count()
    });
    lines
}

/// Writes a file whole, as another in its place.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(new, path).expect("moved");
}

/// Sends datagrams, each of a flow of its own, until a flow says that its destination is of this system; all those that
/// come before are told.
fn flows_until(flows: &Receiver<String>, told: &str) -> Vec<String> {
    let until = Instant::now() + Duration::from_mins(1);
    let mut before = Vec::new();
    loop {
        assert!(Instant::now() < until, "no flow has {told}: {before:?}");
        let sender = UdpSocket::bind("10.9.0.1:0").expect("a socket");
        sender.send_to(b"whatever", "10.9.0.2:4739").expect("sent");
        while let Ok(line) = flows.recv_timeout(Duration::from_millis(10)) {
            let flow: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            if flow["dst_addr"] == "10.9.0.2" {
                let system = flow["dst_as"].to_string();
                if system == told {
                    return before;
                }
                before.push(system);
            }
        }
    }
}

#[test]
fn routes_that_change_are_told_by_the_flows_that_end_next() {
    if !is_inside("meter_live::routes_that_change_are_told_by_the_flows_that_end_next") {
        return;
    }
    cable();
    let folder = tempfile::tempdir().expect("a folder");
    let (routes, report) = (folder.path().join("routes"), folder.path().join("report.json"));
    replace(&routes, "10.9.0.0/24,64500\n");
    let arguments =
        ["meter", "-i", "out", "--routes", routes.to_str().expect("UTF-8"), "--idle-timeout", "100ms", "-o", "ndjson"];
    let chain = run(&[&arguments[..], &["--show-chain"]].concat());
    let chain = String::from_utf8(chain.stdout).expect("UTF-8");
    // the command itself looks every 5 s
    let mut command = weir();
    command.args(["chain", "run", "-", "--set", "meter.routes_reload=50ms", "--report"]).arg(&report);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut metering = Metering(command.spawn().expect("weir starts"));
    metering.0.stdin.take().expect("its input").write_all(chain.as_bytes()).expect("written");
    let flows = lines(metering.0.stdout.take().expect("its output"));
    let told = lines(metering.0.stderr.take().expect("its errors"));

    flows_until(&flows, "64500");
    replace(&routes, "10.9.0.0/24,64501\n10.0.0.0/8,64502\n");
    let before = flows_until(&flows, "64501");
    assert!(before.iter().all(|system| system == "64500"), "there is no gap: {before:?}");
    // what cannot be used leaves the routes in force
    replace(&routes, "this is no route\n");
    let until = Duration::from_mins(1);
    while !told.recv_timeout(until).expect("a line").contains("changed routes are not used") {}
    while flows.try_recv().is_ok() {}
    assert_eq!(flows_until(&flows, "64501"), Vec::<String>::new());
    replace(&routes, "10.0.0.0/8,64503\n");
    let before = flows_until(&flows, "64503");
    assert!(before.iter().all(|system| system == "64501"), "there is no gap: {before:?}");

    kill(nix::unistd::Pid::from_raw(metering.0.id() as i32), Signal::SIGINT).expect("it still runs");
    assert!(metering.0.wait().expect("it ends").success());
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).expect("a report")).expect("JSON");
    let meter = report["components"].as_array().and_then(|blocks| blocks.iter().find(|block| block["name"] == "meter"));
    let counters = &meter.expect("the meter")["counters"];
    let counted = ["routes_reloaded", "routes_reloads_failed", "routes_peak"].map(|name| counters[name].as_u64());
    assert_eq!(counted, [Some(2), Some(1), Some(2)], "{counters}");
}

#[test]
fn a_service_meters_interfaces_and_collects_into_one_archive() {
    if !is_inside("meter_live::a_service_meters_interfaces_and_collects_into_one_archive") {
        return;
    }
    cable();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    let text = "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n[collect]\nlisten = '127.0.0.1:0'\n\
        [[meter]]\ninterfaces = ['out']\nexporter = '192.0.2.77'\nidle_timeout = '100ms'\n\
        [[meter]]\ninterfaces = ['out']\nexporter = '192.0.2.78'\nidle_timeout = '100ms'\nfilter = 'port 1'\n";
    std::fs::write(&config, text).expect("written");
    let service = Service::of(weir().arg("serve").arg(&config), true);
    let number = |statement: &str| {
        let answer = service.sql(statement);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["rows"][0][0].as_u64().unwrap_or(0)
    };
    let until = Instant::now() + PATIENCE;
    let metered = "SELECT count(*) FROM flows WHERE exporter = '192.0.2.77' AND dst_addr = '10.9.0.2'";
    let left_out = "SELECT sum(records_filtered) FROM exporter_books WHERE exporter = '192.0.2.78'";
    while number(metered) == 0 || number(left_out) == 0 {
        assert!(Instant::now() < until, "nothing was metered");
        let sender = UdpSocket::bind("10.9.0.1:0").expect("a socket");
        sender.send_to(b"whatever", "10.9.0.2:4739").expect("sent");
    }
    assert!(number("SELECT sum(records_stored) FROM exporter_books WHERE exporter = '192.0.2.77'") > 0);
    assert_eq!(number("SELECT count(*) FROM flows WHERE exporter = '192.0.2.78'"), 0);
    let metrics = service.ask("GET", "/metrics", &[], "").body;
    for component in ["collector", "meter", "meter-2"] {
        assert!(metrics.contains(&format!("component=\"{component}\"")), "{component}: {metrics}");
    }
    let counted = "component=\"meter-2\",event=\"records_filtered\"";
    assert!(metrics.contains(counted), "{metrics}");
    service.stop();
}

/// The service answers meanwhile, and meters what comes after.
#[test]
fn an_interface_of_a_service_may_go_away_and_come_back() {
    if !is_inside("meter_live::an_interface_of_a_service_may_go_away_and_come_back") {
        return;
    }
    cable();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    let text = "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n\
        [[meter]]\ninterfaces = ['out']\nexporter = '192.0.2.77'\nidle_timeout = '100ms'\ninterface_retry = '50ms'\n";
    std::fs::write(&config, text).expect("written");
    let service = Service::of(weir().arg("serve").arg(&config), false);
    let until = Instant::now() + PATIENCE;
    let metered = || {
        let answer = service.sql("SELECT count(*) FROM flows WHERE dst_addr = '10.9.0.2'");
        answer.json()["rows"][0][0].as_u64().unwrap_or(0)
    };
    let meter_more_than = |before: u64| {
        while metered() <= before {
            assert!(Instant::now() < until, "nothing was metered");
            let sender = UdpSocket::bind("10.9.0.1:0").expect("a socket");
            sender.send_to(b"whatever", "10.9.0.2:4739").expect("sent");
        }
    };
    let counted = |event: &str| {
        let begin = format!("weir_component_events_total{{component=\"meter\",event=\"{event}\"}} ");
        let metrics = service.ask("GET", "/metrics", &[], "").body;
        metrics.lines().find_map(|line| line.strip_prefix(&begin)?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    meter_more_than(0);
    ip("link del in");
    while counted("interfaces_lost") < 1.0 || counted("interface_retries_failed") < 1.0 {
        assert!(Instant::now() < until, "it is not said that the interface is gone");
    }
    assert_eq!(service.ask("GET", "/readyz", &[], "").status, 200);
    let packets = counted("packets");
    cable();
    // what was on its way when the interface went is in the archive by now, or comes first
    meter_more_than(metered());
    meter_more_than(metered());
    assert!(counted("packets") > packets, "counters go on");
    service.stop();
}
