//! Files that fail for a while get what they missed, and files of others stay as they are.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_rrdtool::{RrdError, RrdOptions, RrdStore};
use weir_testkit::program;

use crate::files::{FIRST, assert_same, fetched, forward, forward_steps, names, script, write};

/// Options with a program that is rrdtool, but for commands that a `case` of the shell changes in `$line`; `$n` begins with 0.
fn changing(dir: &Path, folder: &Path, home: &Path, case: &str) -> RrdOptions {
    let text = format!(
        "n=0; while IFS= read -r line; do case $line in {case} esac; printf '%s\\n' \"$line\"; done | rrdtool \"$@\" \
         | sed -u \"s/^ERROR: .*locked.rrd.*/ERROR: could not lock RRD/\""
    );
    RrdOptions { program: script(home, &text), ..RrdOptions::new(folder, dir) }
}

/// A case in which updates of the file of TCP with these numbers (from 1 on, a pattern of the shell) are of a file that is not there.
fn failing(numbers: &str, file: &str) -> String {
    let count = "n=$((n+1)); case $n in";
    format!("\"update protocol_TCP.rrd \"*) {count} {numbers}) line='update {file} 1:1';; esac;;")
}

fn rrdtool(tool: &Path, folder: &Path, arguments: &[&str]) {
    let status = Command::new(tool).args(arguments).current_dir(folder).status().expect("rrdtool runs");
    assert!(status.success(), "{arguments:?}");
}

/// Those who read a file lock it, and rrdtool does not wait for them.
#[test]
fn a_file_that_is_locked_is_waited_for() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..40);
    // once for a moment, and once for longer than it is waited within a step
    let case = failing("5|6|7|2[0-9]|[3-7][0-9]", "locked.rrd");
    let counts = forward(dir.path(), changing(dir.path(), &folder, home.path(), &case), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 0, 1), "{counts:?}");
    assert_same(&folder, dir.path(), 39);
}

/// Another program has it open for hours: only its own steps wait.
#[test]
fn a_file_that_stays_locked_does_not_hold_up_the_others() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..40);
    let case = failing("[2-9][0-9]|[1-9][0-9][0-9]*", "locked.rrd");
    let counts = forward(dir.path(), changing(dir.path(), &folder, home.path(), &case), |_| false);
    // nineteen steps came before
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 20, 3), "{counts:?}");
    // the next process finds it open, and it has what it missed
    write(dir.path(), 40..50);
    let counts = forward(dir.path(), RrdOptions::new(&folder, dir.path()), |_| false);
    assert_eq!((counts.rows_refused, counts.failures), (20, 0), "{counts:?}");
    assert_same(&folder, dir.path(), 49);
}

#[test]
fn a_file_that_fails_for_a_step_gets_it_with_the_next() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..40);
    // it is tried twice with each step
    let case = failing("5|6", "gone.rrd");
    let counts = forward(dir.path(), changing(dir.path(), &folder, home.path(), &case), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 1, 0), "{counts:?}");
    assert_same(&folder, dir.path(), 39);
}

#[test]
fn a_new_file_gets_what_was_before_it_also_after_an_interruption() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..100);
    // it ends when it has made the file, which is there when the next one begins
    let text = "sed -u '/^create protocol_ESP/q' | rrdtool \"$@\"";
    let options = RrdOptions { program: script(home.path(), text), ..RrdOptions::new(&folder, dir.path()) };
    let counts = forward(dir.path(), options, |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (99, 0, 1), "{counts:?}");
    assert_same(&folder, dir.path(), 99);
}

#[test]
fn nothing_is_sent_after_a_command_that_failed() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    write(dir.path(), 0..800);
    forward(dir.path(), RrdOptions::new(&folder, dir.path()), |_| false);
    fs::remove_file(folder.join("protocol_TCP.rrd")).expect("removed");
    write(dir.path(), 800..810);
    // the file is made again with four updates, of which the third fails
    let options = changing(dir.path(), &folder, home.path(), &failing("3", "gone.rrd"));
    let counts = forward(dir.path(), options, |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (809, 0, 0), "{counts:?}");
    assert_same(&folder, dir.path(), 809);
}

#[test]
fn files_of_other_steps_are_not_updated() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let options = || RrdOptions::new(home.path(), dir.path());
    write(dir.path(), 0..180);
    forward(dir.path(), options(), |_| false);
    let counts = forward_steps(dir.path(), options(), 60, |_| false);
    assert!(counts.steps_forwarded >= 2 && counts.rows_refused > 0, "{counts:?}");
    assert_eq!((counts.rows_forwarded, counts.failures), (0, 0), "{counts:?}");
    assert_same(home.path(), dir.path(), 179);
}

#[test]
fn a_folder_has_one_store() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let open = || RrdStore::new(RrdOptions::new(home.path(), dir.path()));
    let store = open().expect("a store");
    let error = open().expect_err("another one has it");
    assert!(matches!(&error, RrdError::Locked { path } if path == home.path()), "{error}");
    drop(store);
    drop(open().expect("it has ended"));
    assert_eq!(names(home.path()), Vec::<String>::new(), "the lock is no file");
}

/// The clock of the collector was ahead, say: the file takes no step until then.
#[test]
fn steps_that_a_file_cannot_take_any_more_are_refused() {
    let Some(tool) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let options = || RrdOptions::new(home.path(), dir.path());
    write(dir.path(), 0..100);
    forward(dir.path(), options(), |_| false);
    rrdtool(&tool, home.path(), &["update", "protocol_TCP.rrd", &format!("{}:1", FIRST + 50_000)]);
    write(dir.path(), 100..110);
    let counts = forward(dir.path(), options(), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (109, 10, 0), "{counts:?}");
}

/// As a crontab may make one, after it was looked for.
#[test]
fn a_file_that_another_program_makes_meanwhile_is_kept() {
    let Some(tool) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("rrd");
    let (start, file) = ((FIRST - 100).to_string(), folder.join("protocol_TCP.rrd"));
    let source = ["DS:bytes:ABSOLUTE:2:0:U", "RRA:AVERAGE:0.5:1:7200"];
    let create = ["create", "made.rrd", "--start", &start, "--step", "1", source[0], source[1]];
    rrdtool(&tool, home.path(), &create);
    let before = [format!("{}:U", FIRST - 50), format!("{}:77", FIRST - 49)];
    rrdtool(&tool, home.path(), &["update", "made.rrd", &before[0], &before[1]]);
    write(dir.path(), 0..40);
    let made: PathBuf = home.path().join("made.rrd");
    let case = format!(
        "\"create protocol_TCP.rrd \"*) [ -e '{file}' ] || cp '{made}' '{file}';;",
        file = file.display(),
        made = made.display()
    );
    let counts = forward(dir.path(), changing(dir.path(), &folder, home.path(), &case), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 0, 0), "{counts:?}");
    let found = fetched(&file, "AVERAGE", 1, 39);
    assert_eq!([-49, 6].map(|second| found[&(FIRST + second)][0]), [Some(77.0), Some(5_003.0)]);
}

#[test]
fn a_file_that_cannot_be_looked_for_is_not_made_anew() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let link = home.path().join("protocol_TCP.rrd");
    symlink("protocol_TCP.rrd", &link).expect("a link to itself");
    write(dir.path(), 0..40);
    let counts = forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |counts| counts.failures > 2);
    assert_eq!((counts.steps_forwarded, counts.rows_refused), (0, 0), "{counts:?}");
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
}

#[test]
fn a_stop_does_not_wait_until_files_have_everything() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    write(dir.path(), 0..40);
    let mut asked = 0;
    // the first time before the step, and then before what is behind it
    let counts = forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |_| {
        asked += 1;
        asked > 1
    });
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (0, 0, 0), "{counts:?}");
    assert_eq!(names(home.path()), Vec::<String>::new());
}

#[test]
fn a_file_that_cannot_be_made_is_tried_ever_less_often() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (folder, tries) = (home.path().join("rrd"), home.path().join("tries"));
    write(dir.path(), 0..40);
    let case = format!(
        "\"create protocol_TCP.rrd \"*) echo >> '{}'; line='create no/file.rrd DS:a:GAUGE:2:0:U RRA:LAST:0.5:1:9';;",
        tries.display()
    );
    let counts = forward(dir.path(), changing(dir.path(), &folder, home.path(), &case), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 39, 0), "{counts:?}");
    // twice with steps 0, 1, 3, 6, 11, 20 and 37: none, one, two, four steps are left, and so on
    assert_eq!(fs::read_to_string(&tries).expect("tries").lines().count(), 14);
    // once it can be made, it has everything
    write(dir.path(), 40..50);
    forward(dir.path(), RrdOptions::new(&folder, dir.path()), |_| false);
    assert_same(&folder, dir.path(), 49);
}
