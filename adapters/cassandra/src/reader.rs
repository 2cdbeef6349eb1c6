//! Flows out of the cluster: partitions in parallel, pages into columns.
//!
//! The table `buckets` names the partitions that a range of time may have. They are read at the same time, so many at most,
//! page by page; a page becomes one batch. Values go from the frame into column builders, without a row or a value of
//! the driver in between. Batches come in no order: whoever wants one sorts.

mod packets;
mod page;
mod predicate;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{self, BoxStream, StreamExt};
use futures::{Stream, TryStreamExt};
use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use weir_flow::{Column, FlowBatch};

use crate::connect::{connect, message, statement_error};
use crate::options::DAY_MS;
use crate::schema::quoted;
use crate::times::{FlowTimes, TimeBound, TimeRange};
use crate::values::Place;
use crate::{CassandraError, CassandraOptions, schema};
use predicate::{Bound, condition};
pub use predicate::{Operand, Operator, Predicate};

/// What to read, by when flows were received: milliseconds since the epoch, the end not included.
pub type ScanRange = Range<i64>;

/// The model that flows are read from.
const FLOWS: &str = "flows";
/// Partitions that are read at the same time, unless it is said otherwise.
const PARTITIONS_MAX: usize = 8;
/// Rows of a page, unless it is said otherwise.
const PAGE_ROWS: i32 = 5000;

/// Reads the table `flows` of a keyspace. Clones share the session.
#[derive(Clone)]
pub struct CassandraReader {
    inner: Arc<Inner>,
    partitions_max: usize,
    page_rows: i32,
}

struct Inner {
    session: Session,
    options: CassandraOptions,
    days: PreparedStatement,
    buckets: PreparedStatement,
    /// When flows of partitions began and ended; a keyspace of layout 1 has no such table.
    times: Option<PreparedStatement>,
    /// Partitions that were read so far.
    partitions_read: AtomicU64,
}

/// A line of `bucket_times`: bucket, shard, first and last start, first and last end.
type TimesLine = (CqlTimestamp, i16, CqlTimestamp, CqlTimestamp, CqlTimestamp, CqlTimestamp);

/// A partition to read.
#[derive(Clone)]
struct Partition {
    place: Place,
    scan: Arc<Scan>,
}

/// What is asked of each partition.
struct Scan {
    statement: PreparedStatement,
    range: ScanRange,
    columns: Vec<Column>,
    bounds: Vec<Bound>,
    /// When flows began and ended.
    times: Vec<TimeBound>,
}

impl CassandraReader {
    /// Connects to a cluster. The tables must be there; nothing is made.
    pub async fn connect(options: CassandraOptions) -> Result<Self, CassandraError> {
        let session = connect(&options).await?;
        let keyspace = &options.to.keyspace;
        let days = format!("SELECT DISTINCT model, day FROM {keyspace}.buckets");
        let buckets = format!("SELECT bucket, shard, width_ms FROM {keyspace}.buckets WHERE model = ? AND day = ?");
        let days = prepare(&session, &options, &days).await?;
        let buckets = prepare(&session, &options, &buckets).await?;
        let times = format!(
            "SELECT bucket, shard, start_first, start_last, end_first, end_last FROM {keyspace}.bucket_times WHERE day = ?"
        );
        let has_times = schema::has_table(&session, &options, "bucket_times").await?;
        let times = if has_times { Some(prepare(&session, &options, &times).await?) } else { None };
        let inner = Arc::new(Inner { session, options, days, buckets, times, partitions_read: AtomicU64::new(0) });
        Ok(Self { inner, partitions_max: PARTITIONS_MAX, page_rows: PAGE_ROWS })
    }

    /// The same with limits of its own: partitions that are read at the same time, and rows of a page. So many pages are in
    /// memory at most.
    #[must_use]
    pub fn with_limits(self, partitions_max: usize, page_rows: u16) -> Self {
        Self { partitions_max: partitions_max.max(1), page_rows: i32::from(page_rows.max(1)), ..self }
    }

    /// Flows that were received in a range of time: these columns of them, or all with `None`. Rows that no predicate can
    /// match may be left out; those that stay need not match, as not everything can be asked of Cassandra.
    ///
    /// Columns that have no value in a batch are absent from it. A row comes once; what is written meanwhile may come or not.
    pub async fn scan(
        &self,
        range: ScanRange,
        columns: Option<&[Column]>,
        predicates: &[Predicate],
    ) -> Result<impl Stream<Item = Result<FlowBatch, CassandraError>> + Send + use<>, CassandraError> {
        self.scan_within(range, &[], columns, predicates).await
    }

    /// As [`scan`](Self::scan), without partitions none of whose flows began or ended within these bounds. Those of predicates
    /// about `start` and `end` are found without being named here.
    pub async fn scan_within(
        &self,
        range: ScanRange,
        times: &[TimeBound],
        columns: Option<&[Column]>,
        predicates: &[Predicate],
    ) -> Result<impl Stream<Item = Result<FlowBatch, CassandraError>> + Send + use<>, CassandraError> {
        let partitions = self.partitions_of(range, times, columns, predicates).await?;
        let reader = self.clone();
        let batches = partitions.map(move |partition| reader.clone().pages_or_error(partition));
        Ok(batches.flatten_unordered(self.partitions_max))
    }

    /// As [`scan`](Self::scan), but partition by partition: by their buckets, then by their shards, and within each by when
    /// flows were received. Slower, as nothing is read at the same time.
    pub async fn scan_in_order(
        &self,
        range: ScanRange,
        columns: Option<&[Column]>,
        predicates: &[Predicate],
    ) -> Result<impl Stream<Item = Result<FlowBatch, CassandraError>> + Send + use<>, CassandraError> {
        let partitions = self.partitions_of(range, &[], columns, predicates).await?;
        let reader = self.clone();
        Ok(partitions.map(move |partition| reader.clone().pages_or_error(partition)).flatten())
    }

    /// Partitions that were read so far, by this reader and its clones.
    pub fn partitions_read(&self) -> u64 {
        self.inner.partitions_read.load(Ordering::Relaxed)
    }

    /// The partitions that a range may have, in order.
    async fn partitions_of(
        &self,
        range: ScanRange,
        times: &[TimeBound],
        columns: Option<&[Column]>,
        predicates: &[Predicate],
    ) -> Result<impl Stream<Item = Result<Partition, CassandraError>> + Send + use<>, CassandraError> {
        let mut scan = self.prepare_scan(range, columns, predicates).await?;
        scan.times.extend_from_slice(times);
        let scan = Arc::new(scan);
        let days = self.days(&scan.range, FLOWS).await?;
        let reader = self.clone();
        let partitions = stream::iter(days).then(move |day_ms| {
            let (reader, scan) = (reader.clone(), Arc::clone(&scan));
            async move { reader.partitions(day_ms, &scan).await }
        });
        Ok(partitions.map_ok(|found| stream::iter(found.into_iter().map(Ok))).try_flatten())
    }

    fn pages_or_error(
        self,
        partition: Result<Partition, CassandraError>,
    ) -> BoxStream<'static, Result<FlowBatch, CassandraError>> {
        match partition {
            Ok(partition) => self.pages(partition),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn prepare_scan(
        &self,
        range: ScanRange,
        columns: Option<&[Column]>,
        predicates: &[Predicate],
    ) -> Result<Scan, CassandraError> {
        let mut columns = columns.unwrap_or(Column::ALL).to_vec();
        columns.sort_unstable();
        columns.dedup();
        let bounds: Vec<_> = predicates.iter().filter_map(Predicate::bound).collect();
        let names: Vec<_> = columns.iter().map(|column| quoted(*column)).collect();
        // the driver cannot read rows of no columns; `received` is in every row
        let names = if names.is_empty() { quoted(Column::Received) } else { names.join(", ") };
        let keyspace = &self.inner.options.to.keyspace;
        let conditions: String = bounds.iter().map(condition).collect();
        let filtering = if bounds.is_empty() { "" } else { " ALLOW FILTERING" };
        let text = format!(
            "SELECT {names} FROM {keyspace}.flows WHERE bucket = ? AND shard = ? AND received >= ? AND received < ?\
             {conditions}{filtering}"
        );
        let mut statement = prepare(&self.inner.session, &self.inner.options, &text).await?;
        statement.set_page_size(self.page_rows);
        let times = predicates.iter().flat_map(Predicate::time_bounds).collect();
        Ok(Scan { statement, range, columns, bounds, times })
    }

    /// The days of the range that have anything.
    async fn days(&self, range: &ScanRange, of_model: &str) -> Result<Vec<i64>, CassandraError> {
        let Inner { session, days, .. } = &*self.inner;
        let rows = session.execute_iter(days.clone(), ()).await.map_err(|error| self.failed(&error))?;
        let rows = rows.rows_stream::<(String, CqlTimestamp)>().map_err(|error| self.failed(&error))?;
        let rows: Vec<_> = rows.try_collect().await.map_err(|error| self.failed(&error))?;
        let is_in_range = |day_ms: &i64| *day_ms < range.end && range.start < day_ms.saturating_add(DAY_MS);
        let days = rows.into_iter().filter(|(model, _)| model == of_model).map(|(_, day)| day.0);
        let mut days: Vec<_> = days.filter(is_in_range).collect();
        days.sort_unstable();
        Ok(days)
    }

    /// The partitions of a day that overlap the range.
    async fn partitions(&self, day_ms: i64, scan: &Arc<Scan>) -> Result<Vec<Partition>, CassandraError> {
        let mut places = self.places(day_ms, &scan.range, FLOWS).await?;
        if !scan.times.is_empty() {
            let times = self.times(day_ms).await?;
            places.retain(|(place, width_ms)| {
                // what has no line may have anything
                let of = |times: &FlowTimes| {
                    scan.times.iter().all(|bound| bound.may_have(times, place.bucket_ms, *width_ms))
                };
                times.get(place).is_none_or(of)
            });
        }
        let partition = |(place, _)| Partition { place, scan: Arc::clone(scan) };
        Ok(places.into_iter().map(partition).collect())
    }

    /// When the flows of the partitions of a day began and ended.
    async fn times(&self, day_ms: i64) -> Result<HashMap<Place, FlowTimes>, CassandraError> {
        let Some(times) = &self.inner.times else { return Ok(HashMap::new()) };
        let rows = self.inner.session.execute_iter(times.clone(), (CqlTimestamp(day_ms),)).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let rows = rows.rows_stream::<TimesLine>().map_err(|error| self.failed(&error))?;
        let lines: Vec<_> = rows.try_collect().await.map_err(|error| self.failed(&error))?;
        let mut found: HashMap<Place, FlowTimes> = HashMap::new();
        for (bucket, shard, start_first, start_last, end_first, end_last) in lines {
            let range = |first: CqlTimestamp, last: CqlTimestamp| TimeRange { first_ms: first.0, last_ms: last.0 };
            let line = FlowTimes { start: range(start_first, start_last), end: range(end_first, end_last) };
            let known = found.entry(Place { bucket_ms: bucket.0, shard }).or_default();
            *known = known.join(line);
        }
        Ok(found)
    }

    /// Where a model has anything of a day within the range, in order, and the widths of the buckets.
    async fn places(&self, day_ms: i64, range: &ScanRange, model: &str) -> Result<Vec<(Place, i64)>, CassandraError> {
        let Inner { session, buckets, .. } = &*self.inner;
        let rows = session.execute_iter(buckets.clone(), (model, CqlTimestamp(day_ms))).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let rows = rows.rows_stream::<(CqlTimestamp, i16, i32)>().map_err(|error| self.failed(&error))?;
        let rows: Vec<_> = rows.try_collect().await.map_err(|error| self.failed(&error))?;
        let is_in_range = |(bucket, _, width): &(CqlTimestamp, i16, i32)| {
            bucket.0 < range.end && range.start < bucket.0.saturating_add(i64::from(*width))
        };
        let place = |(bucket, shard, width_ms): (CqlTimestamp, i16, i32)| {
            (Place { bucket_ms: bucket.0, shard }, i64::from(width_ms))
        };
        Ok(rows.into_iter().filter(is_in_range).map(place).collect())
    }

    /// The pages of a partition.
    fn pages(self, partition: Partition) -> BoxStream<'static, Result<FlowBatch, CassandraError>> {
        self.inner.partitions_read.fetch_add(1, Ordering::Relaxed);
        let pages = stream::try_unfold(Some(PagingState::start()), move |state| {
            let (reader, partition) = (self.clone(), partition.clone());
            async move {
                let Some(state) = state else { return Ok(None) };
                reader.page(&partition, state).await.map(Some)
            }
        });
        pages.try_filter(|batch| std::future::ready(batch.rows() > 0)).boxed()
    }

    async fn page(
        &self,
        partition: &Partition,
        state: PagingState,
    ) -> Result<(FlowBatch, Option<PagingState>), CassandraError> {
        let Partition { place, scan } = partition;
        let values = predicate::PartitionQuery { place: *place, range: &scan.range, bounds: &scan.bounds };
        let sent = self.inner.session.execute_single_page(&scan.statement, values, state).await;
        let (page, next) = sent.map_err(|error| statement_error(&self.inner.options, "SELECT FROM flows", &error))?;
        let rows = page.into_rows_result().map_err(|error| self.failed(&error))?;
        let flows = page::decode(&rows, &scan.columns)?;
        Ok((flows, next.into_paging_control_flow().continue_value()))
    }

    fn failed(&self, error: &dyn std::error::Error) -> CassandraError {
        CassandraError::Unavailable { hosts: self.inner.options.to.hosts_text(), message: message(error) }
    }
}

async fn prepare(
    session: &Session,
    options: &CassandraOptions,
    text: &str,
) -> Result<PreparedStatement, CassandraError> {
    let mut made = session.prepare(text).await.map_err(|error| statement_error(options, text, &error.into()))?;
    made.set_is_idempotent(true);
    Ok(made)
}
