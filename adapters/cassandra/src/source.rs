//! Reads flows from Cassandra, in the order of their partitions.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};
use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Counter, Opener, OptionError, Outlet, PullResult, Role,
    Source, options,
};
use weir_flow::{Column, FlowBatch};

use crate::{CassandraError, CassandraOptions, CassandraReader, ScanRange};

/// Reads from a cluster.
pub const KIND: ComponentKind<CassandraSourceOptions> = ComponentKind {
    name: "cassandra-reader",
    role: Role::Source,
    inputs: &[],
    doc: "Reads flows from Cassandra, those that were received in a range of time. They come by the buckets that they were \
          received in, bucket by bucket in the order of the shards, and within a shard by the time at which they were received; so \
          flows are out of order by the length of a bucket at most. Columns without a value in a burst are left out. It counts \
          rows_read.",
    configure,
};

options! {
    /// Options of the source `cassandra-reader`.
    pub struct CassandraSourceOptions {
        /// Read flows received at this time or later, such as 2026-11-21T08:00:00Z; without it from the first on.
        since: Option<String>,
        /// Read flows received before this time; without it to the last one.
        before: Option<String>,
        /// Read these columns; without it all.
        columns: Option<Vec<String>>,
    }
    includes {
        /// The cluster.
        cassandra: CassandraOptions,
    }
}

/// How long a call of the source waits.
const WAIT: Duration = Duration::from_millis(100);
/// Batches that are read ahead.
const AHEAD: usize = 4;

fn configure(options: CassandraSourceOptions) -> Result<Opener, OptionError> {
    options.cassandra.check()?;
    let since_ms = time("since", options.since.as_deref())?.unwrap_or(i64::MIN);
    let before_ms = time("before", options.before.as_deref())?.unwrap_or(i64::MAX);
    let column = |name: &String| {
        let error = || OptionError::new("columns", format!("'{}' is no column of flows", name.escape_debug()));
        Column::by_name(name).ok_or_else(error)
    };
    let columns = options.columns.as_ref().map(|names| names.iter().map(column).collect::<Result<Vec<_>, _>>());
    let columns = columns.transpose()?;
    let open = move |context: &ComponentContext| {
        let scan = Scan { options: options.cassandra, range: since_ms..before_ms, columns };
        Ok(Built::Source(Box::new(CassandraSource::open(scan, context)?) as Box<dyn Source>))
    };
    Ok(Box::new(open))
}

fn time(key: &str, text: Option<&str>) -> Result<Option<i64>, OptionError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond);
    parsed.map(Some).map_err(|error| {
        let error = OptionError::new(key, format!("'{}' is no time: {error}", text.escape_debug()));
        error.with_hint("write it as 2026-11-21T08:00:00Z")
    })
}

struct Scan {
    options: CassandraOptions,
    range: ScanRange,
    columns: Option<Vec<Column>>,
}

struct CassandraSource {
    /// `None` once it is stopped.
    batches: Option<Receiver<Result<FlowBatch, CassandraError>>>,
    rows_read: Counter,
    /// Ends what is read ahead when it is dropped.
    _runtime: Runtime,
}

impl CassandraSource {
    fn open(scan: Scan, context: &ComponentContext) -> Result<Self, ComponentError> {
        let failed = |error| ComponentError::caused("cannot read from Cassandra", error);
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("weir-cassandra").enable_all().build();
        let runtime = runtime.map_err(|error| ComponentError::caused("there are no threads to read", error))?;
        let (sender, batches) = sync_channel(AHEAD);
        let reader = runtime.block_on(CassandraReader::connect(scan.options.clone())).map_err(failed)?;
        runtime.spawn_blocking(move || read(&reader, &scan, &sender));
        let rows_read = context.counters.counter("rows_read");
        Ok(Self { batches: Some(batches), rows_read, _runtime: runtime })
    }
}

/// Reads until the end, or until nobody takes batches any more.
fn read(reader: &CassandraReader, scan: &Scan, batches: &SyncSender<Result<FlowBatch, CassandraError>>) {
    tokio::runtime::Handle::current().block_on(async {
        let found = match reader.scan_in_order(scan.range.clone(), scan.columns.as_deref(), &[]).await {
            Ok(found) => found,
            Err(error) => return drop(batches.send(Err(error))),
        };
        let mut found = std::pin::pin!(found);
        while let Some(batch) = found.next().await {
            if batches.send(batch).is_err() {
                return;
            }
        }
    });
}

impl Source for CassandraSource {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        let Some(batches) = &self.batches else { return Ok(PullResult::Ended) };
        match batches.recv_timeout(WAIT) {
            Ok(Ok(batch)) => {
                self.rows_read.add(batch.rows() as u64);
                out.flows(batch);
                Ok(PullResult::More)
            }
            Ok(Err(error)) => Err(ComponentError::caused("cannot read from Cassandra", error)),
            Err(RecvTimeoutError::Timeout) => Ok(PullResult::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(PullResult::Ended),
        }
    }

    fn stop(&mut self) {
        self.batches = None;
    }
}
