//! Reads steps of statistics: the table `series`, into the columns that it has in SQL.
//!
//! Which series there are is asked of the cluster as its partitions, which a query for them alone finds without their rows; a list
//! of series beside the table would be another thing to write and to keep right. What speaks against it is that each node then
//! goes through its partitions, so that a keyspace of very many series takes seconds to list.
//!
//! A step that is not in the table is a gap, as in the store of series.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use futures::stream::{self, StreamExt, TryStreamExt};
use scylla::client::session::Session;
use scylla::deserialize::FrameSlice;
use scylla::deserialize::row::ColumnIterator;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use tokio::runtime::{Builder, Runtime};

use crate::connect::{connect, message, statement_error};
use crate::statistics::{KEY, PARTITION_STEPS};
use crate::writer::prepare;
use crate::{CassandraError, CassandraOptions, schema};

/// Partitions that are read at the same time.
const PARTITIONS_MAX: usize = 16;
/// Rows of a page.
const PAGE_ROWS: i32 = 5000;
/// Ends of the names of a metric's columns, in the order in which the table has them in SQL.
const ENDINGS: [&str; 6] = ["_min", "_max", "_last", "_p50", "_p95", "_p99"];

/// Reads statistics from a keyspace.
pub struct StatisticsReader {
    runtime: Runtime,
    session: Session,
    options: CassandraOptions,
    /// The columns of metrics.
    metrics: Vec<String>,
    select: PreparedStatement,
}

/// 1,440 steps of a series, which are read together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatisticsPartition {
    /// What the series is one of, such as `src_addr`.
    pub by: String,
    /// Its key.
    pub key: String,
    /// Length of the steps in seconds.
    pub step_secs: u32,
    /// When the first of the steps begins, in milliseconds since the epoch.
    pub begin_ms: i64,
}

impl StatisticsPartition {
    /// Whether it may have steps that begin in a range of time, in milliseconds since the epoch.
    pub fn overlaps(&self, times_ms: &Range<i64>) -> bool {
        let end_ms = self.begin_ms.saturating_add(i64::from(self.step_secs) * 1_000 * PARTITION_STEPS);
        self.begin_ms < times_ms.end && times_ms.start < end_ms
    }
}

impl std::fmt::Debug for StatisticsReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatisticsReader").field("from", &self.options.to).finish_non_exhaustive()
    }
}

impl StatisticsReader {
    /// Connects to a cluster. The table must be there; nothing is made.
    pub fn connect(options: CassandraOptions) -> Result<Self, CassandraError> {
        options.check().map_err(|error| CassandraError::Options(error.message))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("weir-cassandra").enable_all().build();
        let runtime = runtime.map_err(|error| CassandraError::Options(format!("no threads: {error}")))?;
        let (session, metrics, select) = runtime.block_on(async {
            let session = connect(&options).await?;
            let metrics = schema::statistics_metrics(&session, &options, &KEY).await?;
            let metrics = in_order(metrics);
            let mut select = prepare(&select_text(&options, &metrics), &session, &options).await?;
            select.set_page_size(PAGE_ROWS);
            Ok::<_, CassandraError>((session, metrics, select))
        })?;
        Ok(Self { runtime, session, options, metrics, select })
    }

    /// The columns of rows: those of the table `series` in SQL, with the metrics that the cluster has.
    pub fn schema(&self) -> SchemaRef {
        let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let mut fields = vec![
            Field::new("time", time, false),
            Field::new("step", DataType::UInt32, false),
            Field::new("by", DataType::Utf8, false),
            Field::new("key", DataType::Utf8, false),
            Field::new("known", DataType::UInt32, false),
            Field::new("count", DataType::UInt32, false),
        ];
        fields.extend(self.metrics.iter().map(|name| Field::new(name, DataType::UInt64, true)));
        Arc::new(Schema::new(fields))
    }

    /// All partitions, by what they are series of, key, step and time. Each node goes through those that it has.
    pub fn partitions(&self) -> Result<Vec<StatisticsPartition>, CassandraError> {
        let keyspace = &self.options.to.keyspace;
        let text = format!("SELECT DISTINCT \"by\", key, step, part FROM {keyspace}.series");
        let found = self.runtime.block_on(async {
            let rows = self.session.query_iter(text, ()).await.map_err(|error| self.failed(&error))?;
            let rows = rows.rows_stream::<(String, String, i32, CqlTimestamp)>();
            let rows = rows.map_err(|error| self.failed(&error))?;
            rows.try_collect::<Vec<_>>().await.map_err(|error| self.failed(&error))
        })?;
        let partition = |(by, key, step, begin): (String, String, i32, CqlTimestamp)| StatisticsPartition {
            by,
            key,
            step_secs: step as u32,
            begin_ms: begin.0,
        };
        let mut partitions: Vec<_> = found.into_iter().map(partition).collect();
        partitions.sort_unstable();
        Ok(partitions)
    }

    /// The steps of partitions that begin in a range of time, in milliseconds since the epoch: a batch for each partition that has
    /// any, in their order. All of them are in memory.
    pub fn rows(
        &self,
        partitions: &[StatisticsPartition],
        times_ms: &Range<i64>,
    ) -> Result<Vec<RecordBatch>, CassandraError> {
        let read = stream::iter(partitions).map(|partition| self.partition_rows(partition, times_ms));
        let batches: Vec<RecordBatch> = self.runtime.block_on(read.buffered(PARTITIONS_MAX).try_collect())?;
        Ok(batches.into_iter().filter(|batch| batch.num_rows() > 0).collect())
    }

    async fn partition_rows(
        &self,
        partition: &StatisticsPartition,
        times_ms: &Range<i64>,
    ) -> Result<RecordBatch, CassandraError> {
        let StatisticsPartition { by, key, step_secs, begin_ms } = partition;
        let mut steps = StepColumns::new(self.metrics.len());
        let mut next = Some(PagingState::start());
        while let Some(state) = next {
            let times = [*begin_ms, times_ms.start, times_ms.end].map(CqlTimestamp);
            let values = (*step_secs as i32, by, key, times[0], times[1], times[2]);
            let sent = self.session.execute_single_page(&self.select, values, state).await;
            let (page, after) = sent.map_err(|error| statement_error(&self.options, "SELECT FROM series", &error))?;
            let rows = page.into_rows_result().map_err(|error| self.failed(&error))?;
            steps.push_page(&rows, &self.metrics)?;
            next = after.into_paging_control_flow().continue_value();
        }
        steps.finish(partition, self.schema())
    }

    fn failed(&self, error: &dyn std::error::Error) -> CassandraError {
        CassandraError::Unavailable { hosts: self.options.to.hosts_text(), message: message(error) }
    }
}

fn select_text(options: &CassandraOptions, metrics: &[String]) -> String {
    let metrics = metrics.iter().fold(String::new(), |text, name| text + &format!(", \"{name}\""));
    format!(
        "SELECT time, known, count{metrics} FROM {}.series WHERE step = ? AND \"by\" = ? AND key = ? AND part = ? \
         AND time >= ? AND time < ?",
        options.to.keyspace
    )
}

/// The columns of each metric behind each other, its sum first: a cluster has them by their names.
fn in_order(mut metrics: Vec<String>) -> Vec<String> {
    let place = |name: &String| {
        let ending = ENDINGS.iter().position(|ending| name.ends_with(ending));
        let metric = ending.and_then(|place| name.strip_suffix(ENDINGS[place])).unwrap_or(name);
        (metric.to_owned(), ending)
    };
    metrics.sort_by_cached_key(place);
    metrics
}

/// The steps of a partition as they come.
struct StepColumns {
    time: Vec<i64>,
    known: Vec<u32>,
    count: Vec<u32>,
    metrics: Vec<Vec<Option<u64>>>,
}

impl StepColumns {
    fn new(metrics: usize) -> Self {
        Self { time: Vec::new(), known: Vec::new(), count: Vec::new(), metrics: vec![Vec::new(); metrics] }
    }

    /// Adds the rows of a page. Numbers are in signed ones with the same bits, as they were written.
    fn push_page(&mut self, rows: &QueryRowsResult, names: &[String]) -> Result<(), CassandraError> {
        let broken = |error: &dyn std::error::Error| value_error("row", message(error));
        for row in rows.rows::<ColumnIterator<'_, '_>>().map_err(|error| broken(&error))? {
            for (place, value) in row.map_err(|error| broken(&error))?.enumerate() {
                let value = value.map_err(|error| broken(&error))?.slice;
                let octets = value.as_ref().map(FrameSlice::as_slice);
                match place {
                    0 => self.time.push(i64::from_be_bytes(fixed("time", octets.unwrap_or_default())?)),
                    1 => self.known.push(u32::from_be_bytes(fixed("known", octets.unwrap_or_default())?)),
                    2 => self.count.push(u32::from_be_bytes(fixed("count", octets.unwrap_or_default())?)),
                    place => {
                        let Some((name, values)) = names.iter().zip(&mut self.metrics).nth(place - 3) else { continue };
                        let number = octets.map(|octets| fixed(name, octets).map(u64::from_be_bytes)).transpose()?;
                        values.push(number);
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self, of: &StatisticsPartition, schema: SchemaRef) -> Result<RecordBatch, CassandraError> {
        let rows = self.time.len();
        let text =
            |text: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))) };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(self.time).with_timezone("UTC")),
            Arc::new(UInt32Array::from(vec![of.step_secs; rows])),
            text(&of.by),
            text(&of.key),
            Arc::new(UInt32Array::from(self.known)),
            Arc::new(UInt32Array::from(self.count)),
        ];
        columns.extend(self.metrics.into_iter().map(|values| Arc::new(UInt64Array::from(values)) as ArrayRef));
        RecordBatch::try_new(schema, columns).map_err(|error| value_error("row", error.to_string()))
    }
}

fn fixed<const N: usize>(column: &str, octets: &[u8]) -> Result<[u8; N], CassandraError> {
    octets.try_into().map_err(|_| value_error(column, format!("{} octets in place of {N}", octets.len())))
}

fn value_error(column: &str, message: String) -> CassandraError {
    CassandraError::Value { column: column.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_metric_are_together() {
        // as `system_schema.columns` has them
        let names = ["bytes", "bytes_last", "bytes_max", "bytes_min", "bytes_p50", "flows", "flows_max", "flows_min"];
        let found = in_order(names.map(str::to_owned).to_vec());
        let wanted = ["bytes", "bytes_min", "bytes_max", "bytes_last", "bytes_p50", "flows", "flows_min", "flows_max"];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_partition_of_minutes_is_a_day() {
        let day = 86_400_000;
        let partition =
            StatisticsPartition { by: "total".to_owned(), key: "total".to_owned(), step_secs: 60, begin_ms: day };
        for (times_ms, wanted) in
            [(0..day, false), (0..day + 1, true), (2 * day - 1..i64::MAX, true), (2 * day..i64::MAX, false)]
        {
            assert_eq!(partition.overlaps(&times_ms), wanted, "{times_ms:?}");
        }
    }
}
