//! What stopped six people on their first day with weir, as tests.
//!
//! Commands and what they print are in `tests/data/first-day.md`, and run as those of a guide. What needs another program, a
//! signal or a certificate is here.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir_testkit::certificates::{Certificate, Says};
use weir_testkit::{console, pages};

use crate::process::{run, wait_for, weir};

#[test]
fn commands_print_what_they_should() {
    let programs = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let prepare = |folder: &Path| {
        console::prepare(folder);
        let golden = pages::path("crates/routes/golden/country.mmdb");
        std::fs::copy(golden, folder.join("country.mmdb")).expect("copied");
    };
    assert!(console::check("crates/weir/tests/data/first-day.md", programs, prepare) > 30);
}

/// A collector whose log is read.
struct Logged {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Logged {
    fn start(arguments: &[&str]) -> Self {
        let mut child = weir().args(arguments).stderr(Stdio::piped()).spawn().expect("weir starts");
        let mut log = BufReader::new(child.stderr.take().expect("standard error"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).expect("a line") > 0, "the collector ended before it listened");
            if let Some((_, place)) = line.split_once("listening on ") {
                let place = place.split_whitespace().next().expect("an address");
                break place.rsplit_once("//").map_or(place, |(_, address)| address).to_owned();
            }
        };
        Self { child, log, address }
    }

    /// Reads the log up to a line that has this in it.
    fn line_with(&mut self, part: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.log.read_line(&mut line).expect("a line") > 0, "the log has no line with '{part}'");
            if line.contains(part) {
                return line;
            }
        }
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, signal).expect("it still runs");
    }

    /// Ends it in order; what it printed meanwhile.
    fn end(mut self) -> String {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("UTF-8");
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
        rest
    }
}

/// An exporter without a certificate: the log names it, the report at the end and the books count the reason.
#[test]
fn why_a_handshake_failed_is_told_three_times() {
    if weir_testkit::program("openssl").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Certificate::authority("first day");
    authority.write(folder.path(), "ca");
    authority.sign(&Says { dns: &["localhost"], ..Says::name("collector") }).write(folder.path(), "own");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [certificate, key, ca, archive] = ["own.pem", "own.key", "ca.pem", "archive"].map(path);
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &ca];
    let arguments = [&["collect", "--listen", "tls://127.0.0.1:0", "--archive", &archive], &tls[..]].concat();
    let mut collector = Logged::start(&arguments);
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &collector.address, "-CAfile", &ca]);
    client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // TLS 1.3 clients are told after their handshake, so what the client makes of it says nothing
    let _ = client.status().expect("openssl runs");
    let line = collector.line_with("refused or closed");
    assert!(line.contains("127.0.0.1:") && line.contains("handshake_no_certificate"), "{line}");
    let report = collector.end();
    let counted = report.lines().find(|line| line.contains("handshake_no_certificate"));
    assert!(counted.is_some_and(|line| line.contains(" 1 ")), "{report}");
    let books = run(&["books", "--archive", &archive]);
    let said = String::from_utf8_lossy(&books.stderr).into_owned();
    assert!(said.contains("handshakes of TLS and DTLS that failed: 1 (handshake_no_certificate 1)"), "{said}");
    let verdict = String::from_utf8_lossy(&books.stdout).into_owned();
    assert!(verdict.starts_with("no exporter was heard, ") && verdict.contains(": 1 handshakes failed\n"), "{verdict}");
}

/// An exporter that is not allowed: the log names it, and the books say that it was there and claim nothing of its flows.
#[test]
fn a_sender_that_is_not_allowed_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let arguments = ["collect", "--listen", "127.0.0.1:0", "--allow", "192.0.2.0/24", "--archive", &archive];
    let mut collector = Logged::start(&arguments);
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.send_to(&[0; 24], &collector.address).expect("sent");
    let line = collector.line_with("not among the senders");
    assert!(line.contains("127.0.0.1"), "{line}");
    collector.end();
    let books = run(&["books", "--archive", &archive]);
    assert!(books.status.success());
    let verdict = String::from_utf8_lossy(&books.stdout).into_owned();
    let (sentence, table) = verdict.split_once('\n').expect("two parts");
    assert!(sentence.starts_with("no exporter was heard, "), "{verdict}");
    assert!(sentence.ends_with(": 1 datagrams of senders that are not allowed"), "{verdict}");
    assert!(!table.contains('%') && !table.contains("unknown"), "{verdict}");
    let said = String::from_utf8_lossy(&books.stderr).into_owned();
    assert!(said.contains("datagrams of senders that are not allowed: 1\n"), "{said}");
}

/// What a chain consists of is known to who writes chain files, and to nobody else.
#[test]
fn a_collector_that_cannot_begin_names_no_component_and_leaves_no_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = socket.local_addr().expect("an address").to_string();
    let archive = folder.path().join("archive");
    let file = folder.path().join("missing.mmdb");
    let [archive_name, file] = [&archive, &file].map(|path| path.to_str().expect("UTF-8"));
    let no_archive = folder.path().join("file");
    std::fs::write(&no_archive, "").expect("written");
    for (arguments, said) in [
        (vec!["collect", "--archive", archive_name, "--listen", &taken], "cannot listen on udp://"),
        (vec!["collect", "--archive", archive_name, "--listen", "127.0.0.1:0", "--geo-mmdb", file], file),
        (
            vec!["collect", "--archive", archive_name, "--listen", "127.0.0.1:0", "--statistics", "--geo-mmdb", file],
            file,
        ),
        (
            vec!["collect", "--listen", "127.0.0.1:0", "--archive", no_archive.to_str().expect("UTF-8")],
            "cannot write to the archive",
        ),
    ] {
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(said) && !error.contains("component"), "{error}");
        assert!(!archive.exists(), "{arguments:?}");
    }
}

/// SIGHUP has files read again, and ends nothing.
#[test]
fn a_hangup_ends_no_collector() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let mut collector = Logged::start(&["collect", "--listen", "127.0.0.1:0", "--archive", &archive]);
    collector.signal(nix::sys::signal::Signal::SIGHUP);
    collector.line_with("read again");
    collector.end();
}

/// softflowd numbers the records of IPFIX up to and including those of the message: nothing is lost, and that is said.
#[test]
fn softflowd_loses_nothing() {
    let Some(softflowd) = weir_testkit::program("softflowd") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    console::prepare(folder.path());
    let archive = folder.path().join("archive").display().to_string();
    let collector = Logged::start(&["collect", "--listen", "127.0.0.1:0", "--archive", &archive]);
    let (_, port) = collector.address.rsplit_once(':').expect("a port");
    let port: u16 = port.parse().expect("a port");
    let mut exporter = Command::new(softflowd);
    exporter.arg("-r").arg(folder.path().join("trace.pcap")).args(["-a", "-v", "10", "-n", &collector.address]);
    assert!(exporter.output().expect("softflowd runs").status.success());
    wait_for("weir has read all", || weir_testkit::ports::waiting_octets(port) == Some(0));
    collector.end();
    let books = run(&["books", "--archive", &archive]);
    let said = String::from_utf8_lossy(&books.stdout).into_owned();
    assert!(said.starts_with("complete: no loss known"), "{said}");
}
