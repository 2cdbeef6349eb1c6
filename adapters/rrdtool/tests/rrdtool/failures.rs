//! rrdtool ends, is not there or takes no more.

use std::fs;
use std::path::Path;
use std::process::Command;

use weir_rrdtool::{RrdError, RrdOptions, RrdStore};
use weir_testkit::program;

use crate::files::{assert_same, forward, script, write};

fn options(dir: &Path, folder: &Path, script: std::path::PathBuf) -> RrdOptions {
    RrdOptions { program: script, ..RrdOptions::new(folder, dir) }
}

#[test]
fn one_that_is_killed_is_started_again() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    let pids = home.path().join("pids");
    let text = format!("echo $$ >> '{}'; exec rrdtool \"$@\"", pids.display());
    write(dir.path(), 0..100);
    let mut kills = vec![70, 30];
    let counts = forward(dir.path(), options(dir.path(), &folder, script(home.path(), &text)), |counts| {
        if kills.last().is_some_and(|at| counts.steps_forwarded >= *at) {
            kills.pop();
            let pids = fs::read_to_string(&pids).expect("it has started");
            let killed = Command::new("kill").args(["-9", pids.lines().last().expect("a process")]).status();
            assert!(killed.expect("kill runs").success());
        }
        false
    });
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (99, 0, 2), "{counts:?}");
    assert_eq!(fs::read_to_string(&pids).expect("pids").lines().count(), 3);
    assert_same(&folder, dir.path(), 99);
}

/// It ends in the middle of what it was handed, and takes commands with it that it has not done.
#[test]
fn what_it_has_not_confirmed_comes_again() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..100);
    let program = script(home.path(), "sed -u 37q | rrdtool \"$@\"");
    let counts = forward(dir.path(), options(dir.path(), &folder, program), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused), (99, 0), "{counts:?}");
    assert!(counts.failures > 5, "{counts:?}");
    assert_same(&folder, dir.path(), 99);
}

#[test]
fn a_file_over_which_it_crashes_does_not_hold_up_the_others() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..40);
    // a line at a time, up to the one that it ends over
    let program = script(home.path(), "ulimit -c 0; sed -u '/^update protocol_UDP/Q' | rrdtool \"$@\"; kill -SEGV $$");
    let counts = forward(dir.path(), options(dir.path(), &folder, program), |_| false);
    // a row of each step from its first value on
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 38, 3), "{counts:?}");
    // the next process tries it again, and it has what it missed
    write(dir.path(), 40..50);
    forward(dir.path(), RrdOptions::new(&folder, dir.path()), |_| false);
    assert_same(&folder, dir.path(), 49);
}

#[test]
fn a_file_that_is_none_is_counted_and_the_others_go_on() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let spoiled = home.path().join("protocol_TCP.rrd");
    fs::write(&spoiled, "nothing").expect("written");
    write(dir.path(), 0..40);
    let counts = forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 39, 0), "{counts:?}");
    // it is not written over; once it is gone, there is one with all that it missed
    assert_eq!(fs::read_to_string(&spoiled).expect("it is there"), "nothing");
    fs::remove_file(&spoiled).expect("removed");
    write(dir.path(), 40..50);
    let counts = forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |_| false);
    assert_eq!((counts.rows_refused, counts.failures), (39, 0), "{counts:?}");
    assert_same(home.path(), dir.path(), 49);
}

#[test]
fn without_the_program_or_the_folder_it_does_not_begin() {
    let home = tempfile::tempdir().expect("a folder");
    let options = options(home.path(), home.path(), home.path().join("no-rrdtool"));
    let error = RrdStore::new(options).expect_err("there is none");
    assert!(matches!(&error, RrdError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    assert!(error.to_string().ends_with("no-rrdtool, which makes and updates the files"), "{error}");
    fs::write(home.path().join("file"), "").expect("written");
    let error = RrdStore::new(RrdOptions::new(&home.path().join("file"), home.path())).expect_err("it is a file");
    assert!(matches!(error, RrdError::Folder { .. }), "{error}");
}

/// Unmounts what was mounted.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// rrdtool answers OK to a command that makes a file for which there is no space, and the file is not there.
#[test]
fn a_full_disk_is_waited_for() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mount =
        |options: &str| Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(home.path()).output();
    // the files of the first steps, and not all of them
    if !mount("size=900k").is_ok_and(|output| output.status.success()) {
        weir_testkit::skip("root", "a small disk cannot be mounted, so none becomes full");
        return;
    }
    let mounted = Mounted(home.path());
    write(dir.path(), 0..40);
    let mut is_larger = false;
    let counts = forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |counts| {
        if counts.failures > 3 && !is_larger {
            assert!(mount("remount,size=20m").expect("mount runs").status.success());
            is_larger = true;
        }
        false
    });
    assert!(is_larger && counts.failures > 3, "{counts:?}");
    assert_eq!((counts.steps_forwarded, counts.rows_refused), (39, 0), "{counts:?}");
    assert_same(home.path(), dir.path(), 39);
    drop(mounted);
}
