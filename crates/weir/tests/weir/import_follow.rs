//! `weir import --follow`: files that a real nfcapd writes, and others that are found beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_testkit::ports;

use crate::process::{run, wait_for, weir};

/// A process that ends with the test.
struct Running(Option<Child>);

impl Running {
    fn end(mut self, signal: Signal) -> Output {
        let child = self.0.take().expect("it runs");
        kill(Pid::from_raw(child.id() as i32), signal).expect("it still runs");
        child.wait_with_output().expect("it ends")
    }
}

impl Running {
    fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// nfcapd with a new file every two seconds, the shortest time that it takes, and its port.
fn nfcapd(program: &Path, files: &Path) -> (Running, u16) {
    let port = ports::free_port();
    let mut command = std::process::Command::new(program);
    command.args(["-t", "2", "-b", "127.0.0.1", "-p", &port.to_string(), "-w"]).arg(files);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nfcapd starts");
    let running = Running(Some(child));
    wait_for("nfcapd listens", || ports::is_waiting_at(running.id(), port));
    (running, port)
}

fn follow(files: &Path, archive: &Path) -> Running {
    let mut command = weir();
    command.arg("import").arg("--follow").arg(files).arg("--archive").arg(archive);
    Running(Some(command.stderr(Stdio::piped()).spawn().expect("weir starts")))
}

fn generate(port: u16, records: u32) {
    let output = run(&["generate", "--records", &records.to_string(), "--to", &format!("127.0.0.1:{port}")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn flows(archive: &Path) -> String {
    let archive = archive.to_str().expect("UTF-8");
    let output = run(&["sql", "--archive", archive, "-o", "csv", "SELECT count(*) AS n FROM flows"]);
    String::from_utf8_lossy(&output.stdout).lines().nth(1).unwrap_or("0").to_owned()
}

/// A complete file of nfcapd in which the first record has a size that cannot be.
fn damaged_copy(files: &Path, to: &Path) {
    /// Header of the file and of the block, and the type of the record.
    const SIZE_AT: usize = 40 + 12 + 2;
    let is_complete = |path: &PathBuf| !path.to_string_lossy().contains("current") && octets(path) > 1000;
    let mut entries = fs::read_dir(files).expect("a folder").map(|entry| entry.expect("an entry").path());
    let source = entries.find(is_complete).expect("a file with flows");
    let mut content = fs::read(source).expect("read");
    content[SIZE_AT..SIZE_AT + 2].copy_from_slice(&[0, 0]);
    fs::write(to, content).expect("written");
}

fn octets(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}

#[test]
fn files_of_a_running_nfcapd_are_imported_once() {
    let Some(program) = weir_testkit::program("nfcapd") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (files, archive) = (folder.path().join("files"), folder.path().join("archive"));
    fs::create_dir(&files).expect("a folder");
    let (collector, port) = nfcapd(&program, &files);
    let following = follow(&files, &archive);
    generate(port, 300);
    wait_for("the flows of the first file", || flows(&archive) == "300");

    fs::write(files.join("readme"), "no flows").expect("written");
    damaged_copy(&files, &files.join("nfcapd.202001010000"));
    let state = archive.join("import/nfcapd-files.tsv");
    let is_known =
        || fs::read_to_string(&state).is_ok_and(|text| text.contains("done") && text.contains("nfcapd.202001010000\n"));
    wait_for("the damaged file is known", is_known);
    let output = following.end(Signal::SIGTERM);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    for part in
        ["readme is not an nfcapd file", "1 file left out: not written by nfcapd", "could not be read", "300 flows"]
    {
        assert!(told.contains(part), "'{part}' is not in: {told}");
    }

    // what came while nobody followed is found, what is known is not read again
    generate(port, 100);
    wait_for("nfcapd has read all", || ports::is_waiting_at(collector.id(), port));
    let output = collector.end(Signal::SIGTERM);
    assert!(output.status.success());
    let following = follow(&files, &archive);
    wait_for("the flows of the other files", || flows(&archive) == "400");
    let output = following.end(Signal::SIGINT);
    assert!(output.status.success() && flows(&archive) == "400", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_be_followed_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let output = run(&["import", "--follow", "nothing", "--archive", archive.to_str().expect("UTF-8")]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("nothing is not a directory"), "{told}");
}
