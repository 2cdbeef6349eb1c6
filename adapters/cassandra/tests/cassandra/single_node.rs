//! One node that is killed, paused or overloaded, refuses, or lets rows expire.

use std::time::{Duration, Instant};

use weir_archive::{ArchiveOptions, Writer};
use weir_cassandra::{CassandraStore, CassandraUrl};
use weir_chain::{OptionText, TimeSpan};
use weir_flow::{Delivery, FlowBatch};
use weir_forward::{ForwardError, ForwardOptions, ForwardThread, StoreError};
use weir_testkit::cassandra::{Cassandra, CassandraOptions as NodeOptions};

use crate::cluster::{Background, administer, assert_each_once, forward, numbered, numbers, options, read, write};

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

/// Rows of one partition expire while others of it stay; the notes of partitions are there for a day longer.
#[test]
fn rows_that_expire_are_gone_and_what_is_left_is_read() {
    let Some(cluster) = Cassandra::shared() else { return };
    let archives = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let short = options(&cluster, "shards=1&ttl=5s");
    let mut long = short.clone();
    long.schema.ttl = Some(TimeSpan::from_secs(86_400));
    write(archives[0].path(), [numbered(0..3000)]);
    write(archives[1].path(), [numbered(3000..5000)]);
    assert_eq!(forward(archives[0].path(), &short).expect("forwarded").rows_forwarded, 3000);
    assert_eq!(forward(archives[1].path(), &long).expect("forwarded").rows_forwarded, 2000);
    let wait_until_left = |left: std::ops::Range<u64>| {
        let began = Instant::now();
        loop {
            // each answer on the way is whole but for rows that have expired
            let found = numbers(&short);
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "a row is there twice");
            assert!(left.clone().all(|number| found.binary_search(&number).is_ok()), "{} rows", found.len());
            if found.iter().copied().eq(left.clone()) {
                break;
            }
            assert!(
                began.elapsed() < Duration::from_mins(2),
                "{} rows, {:?} to {:?}",
                found.len(),
                found.first(),
                found.last()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    wait_until_left(3000..5000);
    let rows = |batches: Vec<FlowBatch>| batches.iter().map(FlowBatch::rows).sum::<usize>();
    assert_eq!(rows(read(&short, i64::MIN..i64::MAX, None, &[])), 2000, "with all columns");

    // what is forwarded again has the keys of rows that have expired, and is there again
    std::fs::remove_file(archives[0].path().join("forward/forward")).expect("removed");
    assert_eq!(forward(archives[0].path(), &long).expect("forwarded").rows_forwarded, 3000);
    assert!(numbers(&short).into_iter().eq(0..5000));

    // a partition of which nothing is left
    let all_gone = options(&cluster, "shards=1&ttl=1s");
    let archive = tempfile::tempdir().expect("a folder");
    write(archive.path(), [numbered(0..500)]);
    assert_eq!(forward(archive.path(), &all_gone).expect("forwarded").rows_forwarded, 500);
    let began = Instant::now();
    while !numbers(&all_gone).is_empty() {
        assert!(began.elapsed() < Duration::from_mins(2), "{} rows are left", numbers(&all_gone).len());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(rows(read(&all_gone, i64::MIN..i64::MAX, None, &[])), 0);
}

/// A node that gives a write no more time than is usual for one alone gets hundreds at once: most are answered with a timeout,
/// though it may have written them, and may still do so.
#[test]
fn an_overloaded_node_loses_nothing_and_has_nothing_twice() {
    const ROWS: u64 = 200;
    // the shortest time that it takes, and few threads; commits do not wait for the disk
    let more = "write_request_timeout: 10ms\nconcurrent_writes: 2".to_owned();
    let node = NodeOptions { durable: false, more, ..NodeOptions::default() };
    let Some(cluster) = Cassandra::start(&node) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    // a batch of some hundred flows is written in a millisecond or two
    let mut options = options(&cluster, "shards=4&batch_size=8KiB&batches_in_flight=512");
    write(dir.path(), (0..200).map(|at| numbered(at * ROWS..(at + 1) * ROWS)));
    let store = CassandraStore::new(options.clone()).expect("a store");
    let many = ForwardOptions { deliveries_in_flight_max: 256, ..ForwardOptions::default() };
    let overloading = ForwardThread::start(dir.path(), many, store).expect("a thread");
    let began = Instant::now();
    while overloading.counts().failures == 0 {
        assert!(!overloading.has_ended() && began.elapsed() < Duration::from_mins(5), "{:?}", overloading.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
    // it is as it would be after a kill: nobody waits for what is on its way, and how far it came is repeated
    let stopped = overloading.end(|| true).expect("what is away may come back");
    assert_eq!((stopped.rows_refused, stopped.rows_lost), (0, 0), "{stopped:?}");

    options.writing.batches_in_flight = 1;
    let counts = forward(dir.path(), &options).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_refused, counts.rows_lost), (200 * ROWS, 0, 0), "{counts:?}");
    assert_eq!((counts.deliveries_forwarded, counts.deliveries_waiting), (200, 0), "{counts:?}");
    assert_each_once(&options, 200 * ROWS);
}
