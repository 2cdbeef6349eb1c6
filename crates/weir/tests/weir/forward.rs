//! Flows into a cluster: by a meter with a spool and with an archive, by a collector, and by `weir forward`.

use std::path::Path;
use std::process::{Output, Stdio};

use weir_testkit::cassandra::Cassandra;
use weir_testkit::write_capture;

use crate::process::{Collector, run, wait_for, weir};
use crate::serve_metrics::STATE;

/// Flows of the capture, a packet each.
const FLOWS: u32 = 300;

fn errors(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a capture of UDP from as many ports as there are flows.
fn capture(path: &Path) {
    let frame = |number: u32| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend((1024 + number as u16).to_be_bytes());
        frame.extend([0, 53, 0, 8, 0, 0]);
        frame
    };
    write_capture(path, (0..FLOWS).map(|number| (1_700_000_000_000_000 + i64::from(number) * 1000, frame(number))));
}

/// Number of flows in a cluster, and of their source ports.
fn counted(url: &str) -> String {
    let sql = "SELECT count(*), count(DISTINCT src_port) FROM flows";
    let output = run(&["sql", "-R", url, "-o", "csv", "-q", sql]);
    errors(&output);
    String::from_utf8_lossy(&output.stdout).lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn meters_and_archives_store_each_flow_once() {
    let Some(cluster) = Cassandra::shared() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let url = |keyspace: &str| format!("cassandra://{}/{keyspace}", cluster.hosts());
    let (file, spool, archive) = (path("trace.pcap"), path("spool"), path("flows"));
    capture(Path::new(&file));

    let spooled = errors(&run(&["meter", &file, "--to", &url("spooled"), "--spool", &spool]));
    assert!(spooled.contains("cassandra: 300 flows stored of 300 spooled"), "{spooled}");
    assert_eq!(counted(&url("spooled")), "300,300");

    let beside = errors(&run(&["meter", &file, "--to", &url("beside"), "--archive", &archive]));
    assert!(beside.contains("cassandra: 300 flows stored, 0 deliveries wait"), "{beside}");
    assert_eq!(counted(&url("beside")), "300,300");

    // nothing is left to forward under that name; under another everything is, and changes nothing
    let again = errors(&run(&["forward", "-R", &archive, "--to", &url("beside"), "--until-end"]));
    assert!(again.contains("cassandra: 0 flows stored, 0 deliveries wait"), "{again}");
    let other = ["forward", "-R", &archive, "--to", &url("beside"), "--name", "other", "--until-end"];
    assert!(errors(&run(&other)).contains("cassandra: 300 flows stored"));
    assert_eq!(counted(&url("beside")), "300,300");
}

#[test]
fn books_say_how_far_forwarders_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (file, archive) = (path("trace.pcap"), path("flows"));
    capture(Path::new(&file));
    errors(&run(&["meter", &file, "--archive", &archive]));
    let books = || errors(&run(&["books", "--archive", &archive]));
    assert!(!books().contains("forwarded as"));
    let kept = folder.path().join("flows/forward");
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::write(kept.join("cassandra"), STATE).expect("written");
    std::fs::write(kept.join("spoiled"), STATE.replace("40", "41")).expect("written");
    let found = books();
    assert!(found.contains("forwarded as cassandra: 40 flows stored, 2 refused, 3 lost; "), "{found}");
    assert!(found.contains(" deliveries wait, 1 are lost\n"), "{found}");
    assert!(found.contains("warning: forwarding as spoiled: "), "{found}");
}

#[test]
fn a_collector_stores_what_it_receives() {
    let Some(cluster) = Cassandra::shared() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.pcap");
    capture(&file);
    let url = format!("cassandra://{}/collected", cluster.hosts());
    let collector = Collector::start(&folder.path().join("flows"), &["--to", &url]);
    let to = collector.address.to_string();
    errors(&run(&["meter", file.to_str().expect("UTF-8"), "--to", &to, "--protocol", "ipfix"]));
    // a node that is cold takes its time for tables
    wait_for("there are tables", || run(&["sql", "-R", &url, "-q", "SELECT count(*) FROM flows"]).status.success());
    collector.stop();
    assert_eq!(counted(&url), "300,300");
}

#[test]
fn several_archives_are_forwarded_by_one_process_that_may_be_killed() {
    let Some(cluster) = Cassandra::shared() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let url = format!("cassandra://{}/several", cluster.hosts());
    let (file, archives) = (path("trace.pcap"), ["web", "dns", "late"].map(path));
    capture(Path::new(&file));
    let meter = |archive: &str, observed: &str| {
        errors(&run(&["meter", &file, "--archive", archive, "--domain", observed]));
    };
    let mut forward = vec!["forward", "--to", &url, "--report-interval", "0s"];
    for archive in &archives {
        forward.extend(["-R", archive]);
    }
    meter(&archives[0], "1");
    meter(&archives[1], "2");
    let log = folder.path().join("log");
    let start = || {
        let log = std::fs::File::create(&log).expect("a log");
        weir().args(&forward).stdout(Stdio::null()).stderr(log).spawn().expect("weir starts")
    };
    let is_stored = |count: &str| {
        let answered = run(&["sql", "-R", &url, "-q", "-o", "csv", "SELECT count(*) FROM flows"]);
        String::from_utf8_lossy(&answered.stdout).lines().nth(1) == Some(count)
    };
    let mut child = start();
    wait_for("two archives are stored", || is_stored("600"));
    child.kill().expect("killed");
    child.wait().expect("ended");
    let told = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(told.matches("late is not forwarded: cannot follow the archive").count(), 1, "{told}");

    // killed again at any moment, and then to the end
    meter(&archives[2], "3");
    let mut child = start();
    wait_for("it has begun", || Path::new(&archives[2]).join("forward").exists());
    child.kill().expect("killed");
    child.wait().expect("ended");
    let ended = errors(&run(&[&forward[..], &["--until-end"]].concat()));
    assert_eq!(ended.matches("flows stored, 0 deliveries wait").count(), 3, "{ended}");
    assert!(is_stored("900"), "each flow is stored once");
}

#[test]
fn wrong_addresses_are_explained() {
    for (to, expected) in [
        ("cassandra://host", "names no keyspace"),
        ("cassandra://host/flows?replicas=3", "'replicas' is no option of cassandra"),
        ("cassandra://host/flows?bucket=7s", "of which a day is no multiple"),
    ] {
        let output = run(&["forward", "-R", "nowhere", "--to", to]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(expected), "{told}");
    }
    let output = run(&["forward", "-R", "nowhere", "--to", "cassandra://127.0.0.1:1/flows", "--until-end"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("cannot follow the archive nowhere"), "{told}");
    let nowhere = ["forward", "-R", "nowhere", "-R", "none", "--to", "cassandra://127.0.0.1:1/flows"];
    let output = run(&nowhere);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for archive in ["nowhere", "none"] {
        assert!(
            told.contains(&format!("error: {archive} is not forwarded: cannot follow the archive {archive}")),
            "{told}"
        );
    }
    assert!(!output.status.success(), "when none can be forwarded, it ends");
    let twice = run(&[&nowhere[..], &["-R", "none"]].concat());
    assert!(String::from_utf8_lossy(&twice.stderr).contains("the archive none is given twice"), "{twice:?}");
}
