//! Steps of statistics in Cassandra: the table `series`, with the columns that it has in SQL.
//!
//! A partition is one series over 1,440 steps: a day of minutes, so that a graph is read from few partitions. Its rows are
//! ordered by time; the key is in what the row is about, so storing a step again changes nothing. Metrics are columns, which
//! are added when a step has one that the table does not.
//!
//! Rows of a step are of as many partitions as it has series, so there are no batches: each row is a statement, so many at a
//! time.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, TimestampMillisecondType, UInt32Type, UInt64Type};
use futures::stream::{self, StreamExt, TryStreamExt};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, CqlValue, MaybeUnset};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;
use weir_forward::{StatisticsStep, StatisticsStore, StoreError, StoredRows};

use crate::connect::{Agreement, Settled, connect, is_of_row, message, statement_error};
use crate::writer::{prepare, using_ttl};
use crate::{CassandraError, CassandraOptions, schema};

/// Steps of a partition.
pub(crate) const PARTITION_STEPS: i64 = 1_440;
/// Columns of the table before those of metrics, in the order of its statement.
pub(crate) const KEY: [&str; 7] = ["step", "by", "key", "part", "time", "known", "count"];
/// Columns of a row before those of metrics: time, step, by, key, known, count.
const FIRST_METRIC: usize = 6;

/// Stores steps of statistics in a keyspace.
pub struct CassandraStatistics {
    runtime: Runtime,
    options: CassandraOptions,
    connected: Option<Connected>,
}

/// A session, and the statement for rows of one schema.
struct Connected {
    session: Session,
    schema: SchemaRef,
    insert: PreparedStatement,
    settled: Settled,
}

impl std::fmt::Debug for CassandraStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CassandraStatistics").field("to", &self.options.to).finish_non_exhaustive()
    }
}

impl CassandraStatistics {
    /// A store that connects when the first step comes. Fails when the options cannot be used.
    pub fn new(options: CassandraOptions) -> Result<Self, CassandraError> {
        options.check().map_err(|error| CassandraError::Options(error.message))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("weir-cassandra").enable_all().build();
        let runtime = runtime.map_err(|error| CassandraError::Options(format!("no threads: {error}")))?;
        Ok(Self { runtime, options, connected: None })
    }
}

impl StatisticsStore for CassandraStatistics {
    fn store(
        &mut self,
        step: &StatisticsStep,
        _is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        let Self { runtime, options, connected } = self;
        runtime.block_on(store(options, connected, step)).map_err(Into::into)
    }
}

async fn store(
    options: &CassandraOptions,
    connected: &mut Option<Connected>,
    step: &StatisticsStep,
) -> Result<StoredRows, CassandraError> {
    let schema = step.rows.schema();
    if connected.as_ref().is_none_or(|connected| connected.schema != schema) {
        let session = match connected.take() {
            Some(connected) => connected.session,
            None => connect(options).await?,
        };
        let agreement = Agreement::wait(&session).await;
        let made = make(&session, options, &schema).await;
        let insert = agreement.judge(made, &session, options).await?;
        *connected = Some(Connected { session, schema, insert, settled: Settled::default() });
    }
    let Some(Connected { session, insert, schema, settled }) = &*connected else { return Ok(StoredRows::default()) };
    let (before, refusal) = (settled.before().await, &OnceCell::new());
    let sent = stream::iter(rows(step)).map(|values| async move {
        match session.execute_unpaged(insert, values).await {
            Ok(_) => Ok(StoredRows { stored: 1, refused: 0 }),
            Err(error) if is_of_row(&error) => {
                // only the first is told
                let _ = refusal.set(message(&error));
                Ok(StoredRows { stored: 0, refused: 1 })
            }
            Err(error) => Err(statement_error(options, "INSERT INTO series", &error)),
        }
    });
    let sent = sent.buffer_unordered(options.writing.batches_in_flight);
    let stored = sent.try_fold(StoredRows::default(), |mut sum, one| async move {
        sum += one;
        Ok(sum)
    });
    let stored = stored.await?;
    if let Some(refusal) = refusal.get() {
        settled.check(before, session, options, refusal).await?;
        schema::check_statistics_whole(session, options, &metric_names(schema)).await?;
        tracing::warn!("{} rows of statistics cannot be stored, ever; the first of them: {refusal}", stored.refused);
    }
    Ok(stored)
}

/// Makes the table or the columns that are missing, and prepares what writes to them.
async fn make(
    session: &Session,
    options: &CassandraOptions,
    schema: &SchemaRef,
) -> Result<PreparedStatement, CassandraError> {
    schema::prepare_statistics(session, options, &metric_names(schema)).await?;
    prepare(&insert_text(options, schema), session, options).await
}

/// The names of the columns of metrics.
fn metric_names(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().skip(FIRST_METRIC).map(|field| field.name().clone()).collect()
}

fn insert_text(options: &CassandraOptions, schema: &SchemaRef) -> String {
    let names: Vec<String> = KEY
        .iter()
        .map(|name| (*name).to_owned())
        .chain(metric_names(schema))
        .map(|name| format!("\"{name}\""))
        .collect();
    let marks = vec!["?"; names.len()].join(", ");
    let (keyspace, ttl) = (&options.to.keyspace, using_ttl(options.ttl_secs()));
    format!("INSERT INTO {keyspace}.series ({}) VALUES ({marks}){ttl}", names.join(", "))
}

/// The values of the rows of a step, in the order of the statement.
fn rows(step: &StatisticsStep) -> Vec<Vec<MaybeUnset<CqlValue>>> {
    let RowColumns { time, by, key, small, metrics } = RowColumns::of(&step.rows);
    let width_ms = i64::from(step.step_secs) * 1_000 * PARTITION_STEPS;
    let row = |row: usize| {
        let time_ms = time.value(row);
        let timestamp = |ms| CqlValue::Timestamp(CqlTimestamp(ms));
        let own = [
            CqlValue::Int(step.step_secs as i32),
            CqlValue::Text(by.value(row).to_owned()),
            CqlValue::Text(key.value(row).to_owned()),
            timestamp(time_ms.div_euclid(width_ms) * width_ms),
            timestamp(time_ms),
            CqlValue::Int(small[0].value(row) as i32),
            CqlValue::Int(small[1].value(row) as i32),
        ];
        // what is not known is not set: a null would be a tombstone
        let metric = |values: &&arrow::array::UInt64Array| {
            let is_known = values.is_valid(row);
            if is_known { MaybeUnset::Set(CqlValue::BigInt(values.value(row) as i64)) } else { MaybeUnset::Unset }
        };
        own.into_iter().map(MaybeUnset::Set).chain(metrics.iter().map(metric)).collect()
    };
    (0..step.rows.num_rows()).map(row).collect()
}

/// The columns of rows of the table `series`.
struct RowColumns<'a> {
    time: &'a arrow::array::TimestampMillisecondArray,
    by: &'a arrow::array::StringArray,
    key: &'a arrow::array::StringArray,
    /// `known` and `count`.
    small: [&'a arrow::array::UInt32Array; 2],
    metrics: Vec<&'a arrow::array::UInt64Array>,
}

impl<'a> RowColumns<'a> {
    fn of(rows: &'a RecordBatch) -> Self {
        Self {
            time: rows.column(0).as_primitive::<TimestampMillisecondType>(),
            by: rows.column(2).as_string::<i32>(),
            key: rows.column(3).as_string::<i32>(),
            small: [rows.column(4), rows.column(5)].map(arrow::array::AsArray::as_primitive::<UInt32Type>),
            metrics: rows.columns()[FIRST_METRIC..]
                .iter()
                .map(arrow::array::AsArray::as_primitive::<UInt64Type>)
                .collect(),
        }
    }
}
