//! Statistics in a table of Cassandra: what is there is what the store of series has, after a node was killed, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt32Type, UInt64Type};
use futures::TryStreamExt;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::CqlTimestamp;
use weir_cassandra::{CassandraOptions, CassandraStatistics, StatisticsReader};
use weir_forward::{StatisticsForwardCounts, StatisticsForwardOptions, StatisticsForwarder};
use weir_series::{
    Coverage, Family, FamilyRows, Metric, Resolution, RowSelection, SeriesStore, StatisticsWriter, StepRows,
    StoreOptions,
};
use weir_testkit::cassandra::{Cassandra, CassandraOptions as NodeOptions};

use crate::cluster::options;

const FIRST: i64 = 1_772_323_200;

fn families(with_peers: bool) -> Vec<Family> {
    let mut hosts = Family { coverage: Coverage::Largest, ..Family::counters("src_addr", &["bytes"]) };
    hosts.metrics.push(Metric::gauge("peers"));
    let total = Family::counters("total", &["bytes"]);
    if with_peers { vec![total, hosts] } else { vec![total] }
}

/// Writes steps of a minute; which hosts have a value follows from the time.
fn write(dir: &Path, families: &[Family], minutes: std::ops::Range<i64>) {
    let resolutions = vec![Resolution { step_secs: 60, keep_secs: 10_000_000 }];
    let options = StoreOptions { resolutions, ..StoreOptions::default() };
    let mut writer = StatisticsWriter::open(dir, &options, families).expect("a writer");
    for minute in minutes {
        let mut step = StepRows::default();
        for family in families {
            let id = writer.family(&family.name).expect("a family");
            let mut rows = FamilyRows::new(family.metrics.len());
            for number in (0..20_u64).filter(|number| (minute as u64 + number).is_multiple_of(3)) {
                // large enough to be negative in a bigint
                rows.push(writer.series(id, &format!("host '{number}'")), &[u64::MAX - number, number]);
            }
            step.families.push((id, rows.sorted()));
        }
        writer.write_step(FIRST + minute * 60, step).expect("written");
    }
    writer.close().expect("closed");
}

/// Rows by their key: known, count, bytes, largest bytes, peers.
type Rows = BTreeMap<(String, String, i64), (u32, u32, Option<u64>, Option<u64>, Option<u64>)>;

/// What the store of series has before a time.
fn stored(dir: &Path, until: i64) -> Rows {
    let series = Arc::new(SeriesStore::open(dir).expect("a store"));
    let resolution = series.resolutions()[0];
    let selection = RowSelection { resolution, families: None, keys: None, from_secs: FIRST, until_secs: until };
    rows_of(series.rows(&selection).expect("rows").map(|batch| batch.expect("rows")))
}

/// What the reader finds, series by series, in steps of a minute.
fn read_back(options: &CassandraOptions, times_ms: &std::ops::Range<i64>) -> Rows {
    let reader = StatisticsReader::connect(options.clone()).expect("connected");
    let partitions = reader.partitions().expect("partitions");
    assert!(partitions.iter().all(|partition| partition.step_secs == 60));
    let batches = reader.rows(&partitions, times_ms).expect("rows");
    assert!(batches.iter().all(|batch| batch.schema() == reader.schema()));
    rows_of(batches.into_iter())
}

fn rows_of(batches: impl Iterator<Item = RecordBatch>) -> Rows {
    let mut found = Rows::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name);
        let text = |name: &str, row| column(name).expect("a column").as_string::<i32>().value(row).to_owned();
        let small = |name: &str, row| column(name).expect("a column").as_primitive::<UInt32Type>().value(row);
        let number = |name: &str, row| {
            let values = column(name)?.as_primitive::<UInt64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        for row in 0..batch.num_rows() {
            let time_ms = column("time").expect("times").as_primitive::<TimestampMillisecondType>().value(row);
            let values = (
                small("known", row),
                small("count", row),
                number("bytes", row),
                number("bytes_max", row),
                number("peers", row),
            );
            found.insert((text("by", row), text("key", row), time_ms), values);
        }
    }
    found
}

/// A row as the driver has it: by, key, step, part, time, known, count, bytes, largest bytes, peers.
type CqlRow = (String, String, i32, CqlTimestamp, CqlTimestamp, i32, i32, Option<i64>, Option<i64>, Option<i64>);

/// What the table has, read by the driver alone.
fn read(options: &CassandraOptions) -> Rows {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let session = SessionBuilder::new().known_nodes(&options.to.hosts).build().await.expect("a session");
        let keyspace = &options.to.keyspace;
        let statement = format!(
            "SELECT \"by\", key, step, part, time, known, count, bytes, bytes_max, peers FROM {keyspace}.series"
        );
        let rows = session.query_iter(statement, ()).await.expect("rows");
        let rows: Vec<CqlRow> = rows.rows_stream().expect("rows").try_collect().await.expect("rows");
        let mut found = Rows::new();
        for (by, key, step, part, time, known, count, bytes, bytes_max, peers) in rows {
            assert_eq!(step, 60);
            assert_eq!(part.0, time.0 / 86_400_000 * 86_400_000, "a partition is a day of minutes");
            let number = |value: Option<i64>| value.map(|value| value as u64);
            let values = (known as u32, count as u32, number(bytes), number(bytes_max), number(peers));
            assert!(found.insert((by, key, time.0), values).is_none(), "a row twice");
        }
        found
    })
}

fn alter(options: &CassandraOptions, change: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let session = SessionBuilder::new().known_nodes(&options.to.hosts).build().await.expect("a session");
        let statement = format!("ALTER TABLE {}.series {change}", options.to.keyspace);
        session.query_unpaged(statement, ()).await.expect("altered");
    });
}

fn forward(
    dir: &Path,
    options: &CassandraOptions,
    is_stopping: impl FnMut(&StatisticsForwardCounts) -> bool,
) -> StatisticsForwardCounts {
    let store = CassandraStatistics::new(options.clone()).expect("a store");
    let forwarder = StatisticsForwarder::open(dir, StatisticsForwardOptions::default(), store);
    forwarder.expect("a forwarder").run(is_stopping, true).expect("forwarded")
}

#[test]
fn every_step_is_there_once_also_when_the_node_was_killed_and_a_metric_came() {
    let Some(cluster) = Cassandra::start(&NodeOptions::default()) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "request_timeout=1s&ttl=90d");
    write(dir.path(), &families(false), 0..30);
    assert_eq!(forward(dir.path(), &options, |_| false).steps_forwarded, 29);
    // a table of another metric gets its columns, and what was there stays
    write(dir.path(), &families(true), 30..80);
    let mut turn = 0;
    let counts = forward(dir.path(), &options, |counts| {
        let is_due = match turn {
            0 => counts.steps_forwarded >= 50,
            1 => counts.failures >= 2,
            _ => false,
        };
        match turn {
            0 if is_due => cluster.kill(0),
            1 if is_due => cluster.restart(0),
            _ => {}
        }
        turn += u32::from(is_due);
        false
    });
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.steps_lost), (79, 0, 0), "{counts:?}");
    assert_eq!(turn, 2, "{counts:?}");
    let wanted = stored(dir.path(), FIRST + 79 * 60);
    assert_eq!(read(&options), wanted);
    assert_eq!(read_back(&options, &(i64::MIN..i64::MAX)), wanted);
    let (from_ms, until_ms) = ((FIRST + 600) * 1_000, (FIRST + 1_200) * 1_000);
    let within = wanted.iter().filter(|((_, _, time), _)| (from_ms..until_ms).contains(time));
    let within: Rows = within.map(|(key, row)| (key.clone(), *row)).collect();
    assert_eq!(read_back(&options, &(from_ms..until_ms)), within);
    // a column that somebody adds is none of weir
    alter(&options, "ADD remark text");
    assert_eq!(read_back(&options, &(from_ms..until_ms)), within);

    // everything again changes nothing
    std::fs::remove_file(dir.path().join("forward/statistics")).expect("removed");
    assert_eq!(forward(dir.path(), &options, |_| false).steps_forwarded, 79);
    assert_eq!(read(&options), wanted);
}
