//! Files of rrdtool that are kept up to date while statistics grow.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_series::{Coverage, Family, FamilyRows, Resolution, StatisticsWriter, StepRows, StoreOptions};

use crate::process::{wait_for, weir};

/// A time at which steps of all lengths begin.
const FIRST: i64 = 1_700_000_000 / 600 * 600;
const BY: [&str; 2] = ["protocol", "src_addr"];

/// Writes steps of a second. From second 130 on there is another protocol, and hosts come and go.
fn write(folder: &Path, seconds: impl IntoIterator<Item = i64>) {
    let resolutions = [(1, 7_200), (60, 86_400)].map(|(step_secs, keep_secs)| Resolution { step_secs, keep_secs });
    let options = StoreOptions { resolutions: resolutions.to_vec(), ..StoreOptions::default() };
    let hosts = Family { coverage: Coverage::Largest, ..Family::counters(BY[1], &["bytes"]) };
    let families = [Family::counters(BY[0], &["flows", "bytes"]), hosts];
    let mut writer = StatisticsWriter::open(&folder.join("statistics"), &options, &families).expect("a writer");
    let [protocol, host] = BY.map(|name| writer.family(name).expect("a family"));
    for second in seconds {
        let (mut protocols, mut hosts) = (FamilyRows::new(2), FamilyRows::new(1));
        for key in ["TCP", "UDP"].into_iter().chain((second >= 130).then_some("ESP")) {
            protocols.push(writer.series(protocol, key), &[second as u64 % 7, second as u64 * 1_000]);
        }
        for number in (0..9).filter(|number| (second + number) % 3 == 0) {
            hosts.push(writer.series(host, &format!("192.0.2.{number}")), &[second as u64 + 7]);
        }
        let rows = StepRows { families: vec![(protocol, protocols.sorted()), (host, hosts.sorted())] };
        writer.write_step(FIRST + second, rows).expect("written");
    }
    writer.close().expect("closed");
}

fn forward(folder: &Path, more: &[&str]) -> Command {
    let mut command = weir();
    command.args(["series", "forward", "--statistics", "statistics", "--step", "1s", "--to", "rrd:live"]);
    command.args(more).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Ends it in order, and says what it printed.
fn ended(child: Child) -> String {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it still runs");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

fn rrdtool(tool: &Path, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).current_dir(folder).output().expect("rrdtool runs");
    String::from_utf8(output.stdout).expect("text")
}

/// Files as the export makes them of the same statistics, without the newest step.
fn exported(tool: &Path, folder: &Path, files: &Path) {
    fs::create_dir(files).expect("a folder");
    for by in BY {
        let mut export = weir();
        export.args(["series", "export", "--by", by, "--step", "1s", "--to", "rrdtool", "--update", "--statistics"]);
        let Output { status, stdout, .. } =
            export.arg(folder.join("statistics")).current_dir(files).output().expect("weir runs");
        assert!(status.success());
        fs::write(folder.join("commands"), stdout).expect("written");
        let commands = fs::File::open(folder.join("commands")).expect("a file");
        let made = Command::new(tool).arg("-").current_dir(files).stdin(commands).output().expect("rrdtool runs");
        assert!(!String::from_utf8_lossy(&made.stdout).contains("ERROR"));
    }
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    let mut names: Vec<String> = files.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort_unstable();
    names
}

#[test]
fn files_are_those_of_the_export_while_statistics_grow() {
    let Some(tool) = weir_testkit::program("rrdtool") else { return };
    let home = tempfile::tempdir().expect("a folder");
    let (folder, live, once) = (home.path(), home.path().join("live"), home.path().join("once"));
    let is_until = |second: i64| {
        wait_for("the files are up to date", || {
            let last = rrdtool(&tool, folder, &["last", "live/protocol_TCP.rrd"]);
            last.trim() == (FIRST + second).to_string()
        });
    };
    write(folder, 0..100);
    let child = forward(folder, &[]).spawn().expect("it starts");
    is_until(99);
    write(folder, (100..200).chain(230..260));
    is_until(259);
    let text = ended(child);
    assert!(text.contains("rrdtool: 229 steps sent, ") && !text.contains("refused"), "{text}");
    // what comes meanwhile is there after it was started again, and nothing twice
    write(folder, 260..300);
    let output = forward(folder, &["--until-end"]).output().expect("weir runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("rrdtool: 40 steps sent, "), "{text}");
    assert!(!text.contains("refused") && !text.contains("failures"), "{text}");

    exported(&tool, folder, &once);
    assert_eq!(names(&live), names(&once));
    assert_eq!(names(&live).len(), 12);
    let [from, until] = [FIRST, FIRST + 288].map(|time| time.to_string());
    for name in names(&live) {
        for (fold, step) in [("AVERAGE", "1"), ("MAX", "12")] {
            let fetch = ["fetch", &name, fold, "-r", step, "-s", &from, "-e", &until];
            let [found, wanted] = [&live, &once].map(|files| rrdtool(&tool, files, &fetch));
            assert!(wanted.lines().count() > 20, "{wanted}");
            assert_eq!(found, wanted, "{name} {fold}");
        }
    }
}

#[test]
fn a_missing_program_and_wrong_options_are_errors_at_the_start() {
    let home = tempfile::tempdir().expect("a folder");
    write(home.path(), 0..10);
    let failed = |command: &mut Command| {
        let output = command.output().expect("weir runs");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let missing = failed(forward(home.path(), &["--until-end"]).env("PATH", home.path()));
    assert!(missing.starts_with("error: cannot run rrdtool, which makes and updates the files: "), "{missing}");
    assert!(missing.contains("\nhint: it is in the package rrdtool"), "{missing}");
    let label = failed(&mut forward(home.path(), &["--label", "a=b"]));
    assert!(label.starts_with("error: --label is of remote write, and 'rrd:live' is a folder\nhint: "), "{label}");
    let mut nowhere = weir();
    nowhere.args(["series", "forward", "--statistics", "statistics", "--to", "rrd:"]).current_dir(home.path());
    let nowhere = failed(&mut nowhere);
    assert_eq!(nowhere, "error: 'rrd:' names no folder\nhint: --to rrd:FOLDER\n");
}
