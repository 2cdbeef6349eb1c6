//! Questions about when flows began and ended read the partitions that may have some, and miss none.

use arrow::datatypes::TimestampMillisecondType;
use futures::TryStreamExt;
use weir_cassandra::{CassandraOptions, CassandraReader, Operand, Operator, Predicate, TimeBound};
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_testkit::cassandra::Cassandra;

use crate::cluster::{BEGIN_MS, administer, forward, options, patient, write};

const MINUTE_MS: i64 = 60_000;
const MINUTES: i64 = 60;
const ROWS: i64 = 40;

/// Numbers that look random and are the same each time.
fn dice(seed: i64) -> i64 {
    ((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as i64
}

/// Flows received in a minute: each began up to 5 minutes before, one in a hundred up to an hour; some have no start or end.
fn flows(minute: i64) -> FlowBatch {
    let mut flows = FlowBatchBuilder::new(ROWS as usize);
    for row in 0..ROWS {
        let number = minute * ROWS + row;
        let received = BEGIN_MS + minute * MINUTE_MS + dice(number) % MINUTE_MS;
        let lag = dice(number + 7_000_000) % if number % 100 == 0 { 60 * MINUTE_MS } else { 5 * MINUTE_MS };
        let start = received - lag;
        let end = start + dice(number + 9_000_000) % (lag + 1);
        flows.begin_rows(1);
        flows.time(Column::Received).push(Some(received));
        flows.time(Column::Start).push((number % 13 > 0).then_some(start));
        flows.time(Column::End).push((number % 17 > 0).then_some(end));
        flows.u64(Column::FlowId).push(Some(number as u64));
    }
    flows.finish()
}

/// A flow: received, start, end.
type Times = (i64, Option<i64>, Option<i64>);

fn times(batches: &[FlowBatch]) -> Vec<Times> {
    let mut found = Vec::new();
    for batch in batches {
        let column = |column| batch.primitive::<TimestampMillisecondType>(column);
        let value = |of, row| column(of).and_then(|values| values.iter().nth(row).flatten());
        for row in 0..batch.rows() {
            found.push((
                value(Column::Received, row).expect("received"),
                value(Column::Start, row),
                value(Column::End, row),
            ));
        }
    }
    found.sort_unstable();
    found
}

/// What is read with bounds and predicates, and of how many partitions.
fn read(options: &CassandraOptions, bounds: &[TimeBound], predicates: &[Predicate]) -> (Vec<Times>, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let reader = CassandraReader::connect(patient(options)).await.expect("a reader");
        let columns = [Column::Received, Column::Start, Column::End];
        let batches = reader.scan_within(i64::MIN..i64::MAX, bounds, Some(&columns), predicates).await.expect("a scan");
        let batches: Vec<FlowBatch> = batches.try_collect().await.expect("batches");
        (times(&batches), reader.partitions_read())
    })
}

fn is_wanted(bound: &TimeBound, (received, start, end): &Times) -> bool {
    let time = if bound.is_end { end } else { start };
    let time = time.or(bound.or_received.then_some(*received));
    time.is_some_and(|time| if bound.is_upper { time <= bound.time_ms } else { time >= bound.time_ms })
}

fn wanted(all: &[Times], bounds: &[TimeBound]) -> Vec<Times> {
    all.iter().copied().filter(|flow| bounds.iter().all(|bound| is_wanted(bound, flow))).collect()
}

#[test]
fn partitions_that_cannot_have_a_flow_are_left_out_and_no_flow_is() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "bucket=1m&shards=2");
    write(dir.path(), (0..MINUTES).map(flows));
    forward(dir.path(), &options).expect("forwarded");
    let all = times(&(0..MINUTES).map(flows).collect::<Vec<_>>());
    let (found, partitions) = read(&options, &[], &[]);
    assert_eq!((found, partitions), (all.clone(), MINUTES as u64));

    for round in 0..40 {
        let from = BEGIN_MS + dice(round) % (MINUTES * MINUTE_MS);
        let until = from + dice(round + 500) % (20 * MINUTE_MS);
        let or_received = round % 2 == 0;
        // a window: flows that overlap it
        let bounds = [
            TimeBound { is_end: true, is_upper: false, time_ms: from, or_received },
            TimeBound { is_end: false, is_upper: true, time_ms: until, or_received },
        ];
        let (found, partitions) = read(&options, &bounds, &[]);
        assert_eq!(wanted(&found, &bounds), wanted(&all, &bounds), "round {round}");
        // one flow in a hundred makes some partitions wide
        let window = (until - from) / MINUTE_MS;
        assert!(partitions < (window + 40) as u64, "round {round}: {partitions} partitions for {window} minutes");
    }

    // comparisons of start and end leave out partitions themselves
    let early = |column, operator| {
        let operand = Operand::Number((BEGIN_MS - 5 * MINUTE_MS) as u64);
        Predicate { column, operator, operand }
    };
    let (found, partitions) = read(&options, &[], &[early(Column::Start, Operator::Less)]);
    let bound = TimeBound { is_end: false, is_upper: true, time_ms: BEGIN_MS - 5 * MINUTE_MS - 1, or_received: false };
    assert_eq!(found, wanted(&all, &[bound]));
    assert!(partitions > 0 && partitions < 20, "{partitions}");

    // what a version before has written has no lines, or there is no table for them; it is read
    for change in ["TRUNCATE", "DROP TABLE"] {
        administer(&options, &format!("{change} {}.bucket_times", options.to.keyspace));
        let (found, partitions) = read(&options, &[bound], &[]);
        assert_eq!((wanted(&found, &[bound]), partitions), (wanted(&all, &[bound]), MINUTES as u64));
    }
}

/// A partition that a version before began has more than what is noted when this one goes on with it.
#[test]
fn partitions_of_a_version_before_may_have_any_flow() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "bucket=1h&shards=1");
    let keyspace = options.to.keyspace.clone();
    let early = flows(0);
    write(dir.path(), [early.clone()]);
    forward(dir.path(), &options).expect("forwarded");
    for change in [
        format!("DROP TABLE {keyspace}.bucket_times"),
        format!("INSERT INTO {keyspace}.weir_layout (part, version) VALUES ('tables', 1)"),
    ] {
        administer(&options, &change);
    }
    // a writer of packets that comes first must not take the older layout for the newer one
    let other = tempfile::tempdir().expect("a folder");
    write(other.path(), [flows(1)]);
    let mut packets = crate::cluster::options(&cluster, "model=packets");
    packets.to = options.to.clone();
    forward(other.path(), &packets).expect("forwarded");
    write(dir.path(), [flows(50)]);
    forward(dir.path(), &options).expect("forwarded");
    let until = TimeBound { is_end: false, is_upper: true, time_ms: BEGIN_MS + MINUTE_MS, or_received: false };
    let (found, partitions) = read(&options, &[until], &[]);
    let expected = wanted(&times(&[early, flows(50)]), &[until]);
    assert!(!expected.is_empty());
    assert_eq!((wanted(&found, &[until]), partitions), (expected, 1));
}
