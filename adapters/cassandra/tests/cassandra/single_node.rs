//! One node that is killed, paused, or refuses.

use std::time::Duration;

use weir_archive::{ArchiveOptions, Writer};
use weir_cassandra::CassandraUrl;
use weir_chain::{OptionText, TimeSpan};
use weir_flow::Delivery;
use weir_forward::{ForwardError, StoreError};
use weir_testkit::cassandra::{Cassandra, CassandraOptions as NodeOptions};

use crate::cluster::{Background, administer, assert_each_once, forward, numbered, numbers, options, write};

/// Flows of a delivery.
const ROWS: u64 = 2000;

#[test]
fn a_node_that_is_killed_and_paused_under_load_loses_nothing() {
    let Some(cluster) = Cassandra::start(&NodeOptions::default()) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "shards=4&request_timeout=3s");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    let mut append = |at: u64| {
        writer.append(Delivery::from(numbered(at * ROWS..(at + 1) * ROWS))).expect("appended");
        std::thread::sleep(Duration::from_millis(5));
    };
    append(0);
    let forwarding = Background::start(dir.path(), &options);
    (1..50).for_each(&mut append);
    forwarding.wait_for(10 * ROWS);
    cluster.kill(0);
    (50..100).for_each(&mut append);
    cluster.restart(0);
    forwarding.wait_for(60 * ROWS);
    cluster.pause(0);
    (100..150).for_each(&mut append);
    // longer than a request may take
    std::thread::sleep(Duration::from_millis(7500));
    cluster.resume(0);
    (150..200).for_each(&mut append);
    let counts = forwarding.end();
    assert_eq!((counts.rows_forwarded, counts.rows_refused, counts.rows_lost), (200 * ROWS, 0, 0));
    assert!(counts.failures > 0 && counts.retries > 0, "{counts:?}");
    assert_each_once(&options, 200 * ROWS);
}

#[test]
fn a_forwarder_that_is_killed_repeats_rows_and_stores_none_twice() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "shards=4");
    write(dir.path(), (0..40).map(|at| numbered(at * ROWS..(at + 1) * ROWS)));
    let state = dir.path().join("forward/forward");
    // what a crash leaves: a position behind what was written
    let first = forward(dir.path(), &options).expect("forwarded");
    std::fs::remove_file(&state).expect("removed");
    let again = forward(dir.path(), &options).expect("forwarded");
    // how often a busy machine had to be asked again is not always the same
    for counts in [first, again] {
        assert_eq!((counts.rows_forwarded, counts.rows_refused, counts.rows_lost), (40 * ROWS, 0, 0), "{counts:?}");
        assert_eq!((counts.deliveries_forwarded, counts.deliveries_waiting), (40, 0), "{counts:?}");
    }
    assert_each_once(&options, 40 * ROWS);
}

#[test]
fn a_wrong_password_ends_it_and_a_right_one_does_not() {
    let node = NodeOptions { authenticated: true, ..NodeOptions::default() };
    let Some(cluster) = Cassandra::start(&node) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), [numbered(0..100)]);
    let with = |user: &str| {
        let text = format!("cassandra://{user}{}/t?shards=1", cluster.hosts());
        CassandraUrl::parse_text(&text).and_then(|url| url.options()).expect("options")
    };
    for user in ["", "cassandra:wrong@"] {
        let error = forward(dir.path(), &with(user)).expect_err("refused");
        assert!(matches!(error, ForwardError::Store(StoreError::Refused(_))), "{error}");
    }
    let right = with("cassandra:cassandra@");
    assert_eq!(forward(dir.path(), &right).expect("forwarded").rows_forwarded, 100);
    let file = dir.path().join("user");
    std::fs::write(&file, "cassandra:cassandra\n").expect("a file");
    let mut of_file = with("");
    of_file.connection.user_file = Some(file);
    assert!(numbers(&of_file).into_iter().eq(0..100));
}

/// One of two hosts with longer buckets: questions about a time would not find what it has stored.
#[test]
fn buckets_of_another_length_are_refused() {
    let Some(cluster) = Cassandra::shared() else { return };
    let options = options(&cluster, "shards=1");
    let archives = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    write(archives[0].path(), [numbered(0..100)]);
    write(archives[1].path(), [numbered(100..200)]);
    assert_eq!(forward(archives[0].path(), &options).expect("forwarded").rows_forwarded, 100);
    let mut longer = options.clone();
    longer.writing.bucket = TimeSpan::from_secs(3600);
    let error = forward(archives[1].path(), &longer).expect_err("refused");
    assert!(error.to_string().contains("are in buckets of 60 s, not of 3600 s; give bucket=60s"), "{error}");
    assert!(numbers(&options).into_iter().eq(0..100));
    assert_eq!(forward(archives[1].path(), &options).expect("forwarded").rows_forwarded, 100);
    assert!(numbers(&options).into_iter().eq(0..200));
}

/// Somebody drops the table: nothing counts as refused, and all of it is there after the next start.
#[test]
fn a_table_that_is_gone_refuses_no_rows() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "shards=1");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    writer.append(Delivery::from(numbered(0..100))).expect("appended");
    let forwarding = Background::start(dir.path(), &options);
    forwarding.wait_for(100);
    administer(&options, &format!("DROP TABLE {}.flows", options.to.keyspace));
    writer.append(Delivery::from(numbered(100..200))).expect("appended");
    let error = forwarding.ended().expect_err("no table");
    assert!(error.to_string().contains("not all tables of weir any more"), "{error}");
    writer.close().expect("closed");
    let counts = forward(dir.path(), &options).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_refused), (200, 0), "{counts:?}");
    assert!(numbers(&options).into_iter().eq(100..200));
}
