//! Files that are made, go on and lack nothing.

use std::fs;

use weir_rrdtool::RrdOptions;
use weir_testkit::program;

use crate::files::{FIRST, assert_same, fetched, forward, names, write};

#[test]
fn files_grow_with_the_statistics_and_get_what_was_before_them() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("new/rrd");
    let options = || RrdOptions::new(&folder, dir.path());
    write(dir.path(), 0..40);
    let counts = forward(dir.path(), options(), |_| false);
    // the newest step waits
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (39, 0, 0), "{counts:?}");
    assert_same(&folder, dir.path(), 39);
    assert!(!names(&folder).contains(&"protocol_ESP.rrd".to_owned()));
    // a protocol is new, which had nothing before; then there is a gap, of which nothing is known
    write(dir.path(), (40..70).chain(90..120));
    let counts = forward(dir.path(), options(), |_| false);
    assert_eq!((counts.rows_refused, counts.failures), (0, 0), "{counts:?}");
    assert_same(&folder, dir.path(), 119);
    let late = fetched(&folder.join("protocol_ESP.rrd"), "AVERAGE", 1, 119);
    assert_eq!([1, 80].map(|second| late[&(FIRST + second)][0]), [Some(0.0), None]);
}

/// Blocks of the store have 288 steps: before the first step that is left there is nothing, nor a block.
#[test]
fn the_first_step_may_be_that_of_a_block() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let second = 288 - FIRST % 288;
    write(dir.path(), second..second + 30);
    let counts = forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (29, 0, 0), "{counts:?}");
    assert_same(home.path(), dir.path(), second + 29);
}

#[test]
fn the_largest_values_of_a_file_that_gets_nothing_more_are_there() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    write(dir.path(), 0..100);
    forward(dir.path(), RrdOptions::new(home.path(), dir.path()), |_| false);
    // the last value of host 9 is that of second 32; the twelve steps that begin with second 24 end at 36
    let largest = fetched(&home.path().join("src_addr_192.0.2.9.rrd"), "MAX", 12, 99);
    assert_eq!(largest.get(&(FIRST + 36)), Some(&vec![Some(39.0), Some(9.0)]), "{largest:?}");
    assert!(largest.iter().all(|(time, values)| *time == FIRST + 36 || *values == [None, None]), "{largest:?}");
}

#[test]
fn a_restart_in_the_middle_stores_nothing_twice_and_misses_nothing() {
    let Some(_) = program("rrdtool") else { return };
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let options = || RrdOptions::new(home.path(), dir.path());
    write(dir.path(), 0..120);
    for stop in [1, 17, 60] {
        let counts = forward(dir.path(), options(), |counts| counts.steps_forwarded >= stop);
        assert_eq!((counts.steps_forwarded, counts.rows_refused), (stop, 0), "{counts:?}");
        assert_same(home.path(), dir.path(), stop as i64);
    }
    // how far it was is lost, so that every step comes again
    fs::remove_file(dir.path().join("forward/statistics")).expect("removed");
    let counts = forward(dir.path(), options(), |_| false);
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.failures), (119, 0, 0), "{counts:?}");
    assert_same(home.path(), dir.path(), 119);
    // files that are lost are made again with what is kept, once their series come
    for name in ["protocol_TCP.rrd", "protocol_ESP.rrd", "src_addr_192.0.2.3.rrd"] {
        fs::remove_file(home.path().join(name)).expect("removed");
    }
    write(dir.path(), 120..130);
    let counts = forward(dir.path(), options(), |_| false);
    assert_eq!((counts.rows_refused, counts.failures), (0, 0), "{counts:?}");
    assert_same(home.path(), dir.path(), 129);
}
