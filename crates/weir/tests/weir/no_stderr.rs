//! Commands whose standard error cannot be written: on a full disk, or with nobody who reads it any more.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_testkit::{ports, write_capture};

use crate::process::{Exporter, run, wait_for, weir};

#[derive(Debug, Clone, Copy)]
enum Unwritable {
    FullDisk,
    ClosedPipe,
}

const ALL: [Unwritable; 2] = [Unwritable::FullDisk, Unwritable::ClosedPipe];

/// Starts a command that can print nothing to standard error.
fn start(command: &mut Command, stderr: Unwritable) -> Child {
    command.stderr(match stderr {
        Unwritable::FullDisk => {
            Stdio::from(OpenOptions::new().write(true).open("/dev/full").expect("the system has it"))
        }
        Unwritable::ClosedPipe => Stdio::piped(),
    });
    let mut child = command.spawn().expect("weir starts");
    drop(child.stderr.take());
    child
}

/// How many flows an archive has, which need not be there yet.
fn flows(archive: &str) -> String {
    let output = run(&["sql", "--archive", archive, "--format", "csv", "SELECT count(*) AS flows FROM flows"]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that collects at a port, sends it 60 flows, and ends it when it has logged what it does.
fn check_collecting(stderr: Unwritable, archive: &str, port: u16, arguments: &[&str]) {
    let mut child = start(weir().args(arguments).stdout(Stdio::null()), stderr);
    wait_for("it listens", || ports::waiting_octets(port) == Some(0));
    let mut exporter = Exporter::new(0);
    // it reports each 100 ms, and a question takes longer
    for expected in ["flows\n30\n", "flows\n60\n"] {
        exporter.send(([127, 0, 0, 1], port).into());
        let stored = || flows(archive) == expected;
        wait_for("the flows are stored, or it has ended", || stored() || has_ended(child.id()));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it still runs");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{stderr:?}: {arguments:?}: {status}");
    assert_eq!(flows(archive), "flows\n60\n");
}

/// Whether a child has ended and waits for being asked for its status.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
}

#[test]
fn collectors_go_on_and_end_in_order() {
    for stderr in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let (collected, served) = (path("collected"), path("served"));
        let port = ports::free_port();
        let listen = format!("127.0.0.1:{port}");
        let arguments = ["collect", "--listen", &listen, "--archive", &collected, "--report-interval", "100ms"];
        check_collecting(stderr, &collected, port, &arguments);
        let port = ports::free_port();
        let collect = format!("127.0.0.1:{port}");
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--collect", &collect, "--archive", &served];
        check_collecting(stderr, &served, port, &arguments);
    }
}

/// An Ethernet frame of UDP over IPv4.
fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 53, 0, 12, 0, 0, 0, 0, 0, 0]);
    frame.resize(60, 0);
    frame
}

#[test]
fn commands_that_end_have_the_status_of_their_work() {
    for stderr in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let [capture, table, metered, imported] = ["packets.pcap", "flows.csv", "metered", "imported"].map(path);
        let frames = (0..7).map(|number| (1_700_000_000_000_000 + number, frame(20_000 + number as u16)));
        write_capture(Path::new(&capture), frames);
        fs::write(&table, "start,src_addr,dst_addr,packets,bytes\n1565635847.958,10.0.0.5,10.0.0.6,1,100\n")
            .expect("written");
        for arguments in [
            &["meter", &capture, "--archive", &metered][..],
            // the first run came to its end and noted that
            &["meter", &capture, "--archive", &metered],
            &["import", &table, "--archive", &imported],
            &["archive", "ls", "--archive", &metered],
            &["archive", "check", "--archive", &metered],
            &["books", "--archive", &metered],
        ] {
            let status = start(weir().args(arguments).stdout(Stdio::null()), stderr).wait().expect("it ends");
            assert!(status.success(), "{stderr:?}: {arguments:?}: {status}");
        }
        assert_eq!([&metered, &imported].map(|archive| flows(archive)), ["flows\n7\n", "flows\n1\n"]);
        // an error is still one
        let status = start(weir().args(["meter", &path("none.pcap")]), stderr).wait().expect("it ends");
        assert_eq!(status.code(), Some(1), "{stderr:?}");
    }
}
