//! Flows and statistics that a cluster of Cassandra keeps, for questions.

mod series;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::Context;
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};
use weir_cassandra::{CassandraReader, Operand, Operator, Predicate, TimeBound};
use weir_flow::{Column, FlowBatch};
use weir_sql::stored_flows::{
    ComparedValue, Comparison, FlowComparison, FlowSelection, StoredBatches, StoredFlows, WindowBound,
};

pub(crate) use self::series::ClusterSeries;

/// What the address of a cluster begins with.
const SCHEME: &str = "cassandra://";
/// Batches that are read ahead.
const AHEAD: usize = 4;

/// The address of a cluster, when an argument for the folder of an archive is one.
fn address(archive: &Path) -> Option<&str> {
    archive.to_str().filter(|text| text.starts_with(SCHEME))
}

/// The flows of a keyspace.
pub(crate) struct ClusterFlows {
    reader: CassandraReader,
    runtime: Arc<Runtime>,
}

impl std::fmt::Debug for ClusterFlows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterFlows")
    }
}

/// A batch of flows, or why there is none.
type Read = Result<FlowBatch, Box<dyn Error + Send + Sync>>;

impl ClusterFlows {
    /// Connects to the cluster that an argument for the folder of an archive names; `None` when it is a folder.
    pub(crate) fn named(archive: &Path) -> anyhow::Result<Option<Self>> {
        let Some(url) = address(archive) else { return Ok(None) };
        let options = super::forward::cluster(url).map_err(anyhow::Error::msg)?;
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("weir-cassandra").enable_all().build()?;
        let reader = runtime.block_on(CassandraReader::connect(options)).context("cannot read from Cassandra")?;
        Ok(Some(Self { reader, runtime: Arc::new(runtime) }))
    }
}

impl StoredFlows for ClusterFlows {
    fn read(&self, selection: FlowSelection) -> StoredBatches {
        let (sender, batches) = sync_channel(AHEAD);
        let reader = self.reader.clone();
        self.runtime.spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(read(&reader, &selection, &sender));
        });
        Box::new(Batches { batches, _runtime: Arc::clone(&self.runtime) })
    }
}

/// Batches as they come. The threads that read them live as long.
struct Batches {
    batches: Receiver<Read>,
    _runtime: Arc<Runtime>,
}

impl Iterator for Batches {
    type Item = Read;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

/// Reads until the end, or until the question has ended.
async fn read(reader: &CassandraReader, selection: &FlowSelection, batches: &SyncSender<Read>) {
    let predicates: Vec<Predicate> = selection.comparisons.iter().map(predicate).collect();
    let times: Vec<TimeBound> = selection.windows.iter().filter_map(time_bound).collect();
    let (range, columns) = (selection.received_ms.clone(), Some(&*selection.columns));
    let found = match reader.scan_within(range, &times, columns, &predicates).await {
        Ok(found) => found,
        Err(error) => return drop(batches.send(Err(error.into()))),
    };
    let mut found = std::pin::pin!(found);
    while let Some(batch) = found.next().await {
        if batches.send(batch.map_err(Into::into)).is_err() {
            return;
        }
    }
}

/// A bound of a window, by which partitions are left out.
fn time_bound(window: &WindowBound) -> Option<TimeBound> {
    let is_upper = match window.operator {
        Comparison::Less | Comparison::LessOrEqual => true,
        Comparison::Greater | Comparison::GreaterOrEqual => false,
        Comparison::Equal => return None,
    };
    Some(TimeBound { is_end: window.column == Column::End, is_upper, time_ms: window.time_ms, or_received: true })
}

fn predicate(comparison: &FlowComparison) -> Predicate {
    let operator = match comparison.operator {
        Comparison::Equal => Operator::Equal,
        Comparison::Less => Operator::Less,
        Comparison::LessOrEqual => Operator::LessOrEqual,
        Comparison::Greater => Operator::Greater,
        Comparison::GreaterOrEqual => Operator::GreaterOrEqual,
    };
    let operand = match &comparison.value {
        ComparedValue::Number(number) => Operand::Number(*number),
        ComparedValue::Octets(octets) => Operand::Octets(octets.clone()),
    };
    Predicate { column: comparison.column, operator, operand }
}
