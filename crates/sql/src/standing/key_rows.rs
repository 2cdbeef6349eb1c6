//! Rows of history by key, which windows and watches share.
//!
//! What a window found narrows history to some hosts, and the next window finds most of them again. Their rows are kept, by
//! segment, host and hour: a segment never changes, so what is kept of it holds for every snapshot that has it, whatever
//! was appended, merged or removed meanwhile, and hours are read as a whole, so that the range of the next window is among them.
//! Each window reads what is missing (hosts that are new, segments that are new, the hour that has begun) and the tail, which is
//! not kept. What speaks against keeping rows instead of sums of them is memory; but rows serve every statement that
//! reads the same columns, and ranges to the millisecond.
//!
//! A scan is kept from its second time on: one whose conditions are others each time would only drive others out.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{SchemaRef, TimestampMillisecondType};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use futures::{StreamExt, TryStreamExt};
use weir_archive::{Segment, Snapshot};
use weir_filter::{Comparison, Predicate, Test};
use weir_flow::{Column, Table};

use super::keyed_scan::{HOUR_MS, Host, Hours, KeyedScan, ScanKind, SegmentRequest, hours_of, rows_within, schema_of};
use crate::scan::FlowScanExec;

/// Kinds of scans that are kept, and scans that were seen once.
const KINDS_MAX: usize = 100;
const SEEN_MAX: usize = 10_000;
/// How often a scan of a kind whose rows were too many is made without caching them.
const SCANS_UNKEPT: u32 = 100;
/// Hosts of a scan times its segments: with more of them, looking for what is kept takes longer than reading.
const LOOKS_MAX: usize = 1_000_000;
/// Rows of a batch: smaller pieces are put together.
const BATCH_ROWS: usize = 8_192;
/// Octets that a host takes in a segment besides its rows, and a piece of rows besides what is in it, for each column.
const HOST_OCTETS: usize = size_of::<(Host, HostRows)>() + 48;
const COLUMN_OCTETS: usize = 144;

/// The cache of rows of history.
#[derive(Debug)]
pub(crate) struct KeyRows {
    octets_max: usize,
    kept: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    /// Hashes of scans that were made once. Two that are equal by chance are kept from their first time on.
    seen: HashSet<u64>,
    kinds: HashMap<ScanKind, Kind>,
    /// The number of the next kind; none has one that another had.
    next: u64,
    /// By the number of their kind, and their segment.
    pieces: HashMap<(u64, PathBuf), Piece>,
    octets: usize,
    uses: u64,
    scans_kept: u64,
    scans_too_large: u64,
}

/// State of scans that differ in their hosts and times only.
#[derive(Debug)]
struct Kind {
    number: u64,
    /// Held while rows are read, so that several windows do not read the same.
    reading: Arc<tokio::sync::Mutex<()>>,
    unkept: u32,
    used: u64,
}

/// Cached rows of a segment for a kind of scans.
#[derive(Debug, Default)]
struct Piece {
    hosts: HashMap<Host, HostRows>,
    octets: usize,
    used: u64,
}

/// Cached rows of a host in a segment.
#[derive(Debug, Default)]
struct HostRows {
    hours: Hours,
    /// Each in the order of `received`; no two have rows of the same hour.
    rows: Vec<RecordBatch>,
}

/// Hosts and hours of a segment that are to be read.
struct Missing {
    segment: Segment,
    hosts: Vec<Host>,
    hours: Hours,
}

/// A host, and its rows if there are some, in the order of `received`.
type HostRead = (Host, Option<RecordBatch>);

/// Rows that were read from a segment.
struct SegmentRows {
    path: PathBuf,
    hosts: Vec<HostRead>,
    hours: Hours,
    octets: usize,
}

/// Limit of the memory of all rows that are read for one scan.
struct ReadBudget {
    taken: AtomicUsize,
    octets_max: usize,
}

impl ReadBudget {
    /// Takes `octets` from the budget; false when it is exceeded.
    fn take(&self, octets: usize) -> bool {
        self.taken.fetch_add(octets, Ordering::Relaxed).saturating_add(octets) <= self.octets_max
    }
}

impl KeyRows {
    pub(crate) fn new(octets_max: usize) -> Self {
        Self { octets_max, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, CacheState> {
        // every step under this lock leaves whole values behind
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Octets of the cache, scans that were answered from it, and scans that were too large for it.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let kept = self.kept();
        (kept.octets as u64, kept.scans_kept, kept.scans_too_large)
    }

    /// A plan that gives the rows of a scan, of those that are kept as far as there are some; `None` when it is better read as if
    /// nothing were kept.
    pub(crate) async fn scan(
        &self,
        snapshot: &Arc<Snapshot>,
        asked: &KeyedScan,
        state: &dyn Session,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let wanted: Vec<SegmentRequest<'_>> =
            snapshot.segments(Table::Flows).iter().filter_map(|segment| asked.of_segment(segment)).collect();
        if wanted.len().saturating_mul(asked.hosts.len()) > LOOKS_MAX {
            self.kept().scans_too_large += 1;
            return Ok(None);
        }
        let kind = asked.kind();
        let Some((number, reading)) = self.kept().begin(&kind) else { return Ok(None) };
        let _reading = reading.lock().await;
        let missing = self.kept().missing(number, &wanted, asked);
        if !missing.is_empty() && !self.read(snapshot, number, missing, asked, state).await? {
            self.kept().give_up(&kind);
            return Ok(None);
        }
        let found = self.kept().rows(number, &wanted, asked);
        let Some(found) = found else {
            // not all of it fits into the cache
            self.kept().give_up(&kind);
            return Ok(None);
        };
        self.kept().scans_kept += 1;
        let schema = asked.schema();
        let batches = together(within(&wanted, found), asked, &schema)?;
        let partitions = state.config().target_partitions().max(1);
        let mut shares = vec![Vec::new(); partitions];
        for (number, batch) in batches.into_iter().enumerate() {
            shares[number % partitions].push(batch);
        }
        let kept = MemTable::try_new(schema, shares)?.scan(state, None, &[], None).await?;
        if snapshot.tail_frames().is_empty() {
            return Ok(Some(kept));
        }
        let (columns, condition) = (asked.columns.clone(), asked.condition.clone());
        let tail = FlowScanExec::new(snapshot, Vec::new(), true, condition, columns, 1);
        Ok(Some(UnionExec::try_new(vec![kept, Arc::new(tail)])?))
    }

    /// Reads the missing rows into the cache; false when they are too many.
    async fn read(
        &self,
        snapshot: &Arc<Snapshot>,
        number: u64,
        missing: Vec<Missing>,
        asked: &KeyedScan,
        state: &dyn Session,
    ) -> Result<bool> {
        let (cores, task) = (state.config().target_partitions().max(1), state.task_ctx());
        let budget = Arc::new(ReadBudget { taken: AtomicUsize::new(0), octets_max: self.octets_max / 2 });
        if !budget.take(missing.iter().map(|missing| missing.hosts.len() * HOST_OCTETS).sum()) {
            return Ok(false);
        }
        let asked = Arc::new(asked.clone());
        let reads = futures::stream::iter(missing).map(|missing| {
            let (snapshot, task) = (Arc::clone(snapshot), Arc::clone(&task));
            let (asked, budget) = (Arc::clone(&asked), Arc::clone(&budget));
            async move {
                let read =
                    SpawnedTask::spawn(async move { read_segment(&snapshot, missing, &asked, task, &budget).await });
                read.join().await.map_err(|error| DataFusionError::External(Box::new(error)))?
            }
        });
        let mut reads = std::pin::pin!(reads.buffer_unordered(cores));
        while let Some(read) = reads.next().await {
            let Some(read) = read? else { return Ok(false) };
            self.kept().put(number, read, self.octets_max);
        }
        let there: HashSet<PathBuf> = snapshot.segments(Table::Flows).iter().map(Segment::path).collect();
        self.kept().retain(|(of, path)| *of != number || there.contains(path));
        Ok(true)
    }
}

impl CacheState {
    /// The number of a kind of scans, and the lock of its reading; `None` when its rows are not to be cached this time.
    fn begin(&mut self, kind: &ScanKind) -> Option<(u64, Arc<tokio::sync::Mutex<()>>)> {
        self.uses += 1;
        if let Some(known) = self.kinds.get_mut(kind) {
            known.used = self.uses;
            let is_kept = known.unkept == 0;
            known.unkept = known.unkept.saturating_sub(1);
            self.scans_too_large += u64::from(!is_kept);
            return is_kept.then(|| (known.number, Arc::clone(&known.reading)));
        }
        if self.seen.len() >= SEEN_MAX {
            self.seen.clear();
        }
        if self.seen.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(kind)) {
            return None;
        }
        while self.kinds.len() >= KINDS_MAX {
            let idle = self.kinds.iter().filter(|(_, known)| Arc::strong_count(&known.reading) == 1);
            let oldest = idle.min_by_key(|(_, known)| known.used).map(|(kind, _)| kind.clone())?;
            let gone = self.kinds.remove(&oldest)?.number;
            self.retain(|(of, _)| *of != gone);
        }
        self.next += 1;
        let known = Kind { number: self.next, reading: Arc::default(), unkept: 0, used: self.uses };
        let begun = (known.number, Arc::clone(&known.reading));
        self.kinds.insert(kind.clone(), known);
        Some(begun)
    }

    fn give_up(&mut self, kind: &ScanKind) {
        self.scans_too_large += 1;
        if let Some(known) = self.kinds.get_mut(kind) {
            known.unkept = SCANS_UNKEPT;
            let gone = known.number;
            self.retain(|(of, _)| *of != gone);
        }
    }

    /// Requested rows that are not cached: for each segment the hosts that lack the same hours.
    fn missing(&mut self, number: u64, wanted: &[SegmentRequest<'_>], asked: &KeyedScan) -> Vec<Missing> {
        let mut missing = Vec::new();
        for SegmentRequest { segment, path, hours, .. } in wanted {
            let piece = self.pieces.get_mut(&(number, path.clone()));
            let piece = piece.map(|piece| {
                // rows that are used now must not be evicted by rows that are read now
                piece.used = self.uses;
                &*piece
            });
            let mut by_hours: HashMap<Hours, Vec<Host>> = HashMap::new();
            for host in &asked.hosts {
                let there = piece.and_then(|piece| piece.hosts.get(host)).map_or(0, |rows| rows.hours);
                let lacking = hours & !there;
                if lacking != 0 {
                    by_hours.entry(lacking).or_default().push(host.clone());
                }
            }
            let of_segment =
                by_hours.into_iter().map(|(hours, hosts)| Missing { segment: (*segment).clone(), hosts, hours });
            missing.extend(of_segment);
        }
        missing
    }

    fn put(&mut self, number: u64, read: SegmentRows, octets_max: usize) {
        let used = self.uses;
        let key = (number, read.path);
        while self.octets + read.octets > octets_max {
            let oldest = self.pieces.iter().filter(|(other, _)| **other != key).min_by_key(|(_, piece)| piece.used);
            let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) else { break };
            self.remove(&oldest);
        }
        let piece = self.pieces.entry(key).or_default();
        piece.used = used;
        piece.octets += read.octets;
        self.octets += read.octets;
        for (host, rows) in read.hosts {
            let of_host = piece.hosts.entry(host).or_default();
            if of_host.hours & read.hours == 0 {
                of_host.hours |= read.hours;
                of_host.rows.extend(rows);
            }
        }
    }

    fn remove(&mut self, key: &(u64, PathBuf)) {
        if let Some(piece) = self.pieces.remove(key) {
            self.octets -= piece.octets;
        }
    }

    /// Removes all other pieces.
    fn retain(&mut self, is_kept: impl Fn(&(u64, PathBuf)) -> bool) {
        let gone: Vec<_> = self.pieces.keys().filter(|key| !is_kept(key)).cloned().collect();
        for key in &gone {
            self.remove(key);
        }
    }

    /// Cached rows of the requests, with the index of their request; `None` when some of them were evicted meanwhile.
    fn rows(
        &mut self,
        number: u64,
        wanted: &[SegmentRequest<'_>],
        asked: &KeyedScan,
    ) -> Option<Vec<(usize, RecordBatch)>> {
        let mut found = Vec::new();
        for (place, SegmentRequest { path, hours, .. }) in wanted.iter().enumerate() {
            let piece = self.pieces.get_mut(&(number, path.clone()))?;
            piece.used = self.uses;
            for host in &asked.hosts {
                let of_host = piece.hosts.get(host)?;
                if hours & !of_host.hours != 0 {
                    return None;
                }
                found.extend(of_host.rows.iter().map(|rows| (place, rows.clone())));
            }
        }
        Some(found)
    }
}

/// Rows of hosts that are in the ranges of their segments.
fn within(wanted: &[SegmentRequest<'_>], found: Vec<(usize, RecordBatch)>) -> Vec<RecordBatch> {
    let mut parts = Vec::with_capacity(found.len());
    for (place, batch) in found {
        let received = batch.column(0).as_primitive::<TimestampMillisecondType>();
        let ranges = wanted[place].ranges.iter().map(|range| rows_within(received.values(), range));
        parts.extend(ranges.filter(|rows| !rows.is_empty()).map(|rows| batch.slice(rows.start, rows.len())));
    }
    parts
}

/// The missing rows of a segment, by host; `None` when they exceed the budget.
async fn read_segment(
    snapshot: &Arc<Snapshot>,
    missing: Missing,
    asked: &KeyedScan,
    task: Arc<TaskContext>,
    budget: &ReadBudget,
) -> Result<Option<SegmentRows>> {
    let Missing { segment, hosts, hours } = missing;
    let time = |comparison, ms| Predicate::Test(Test::Time { column: Column::Received, comparison, ms });
    let of_hour = |hour: i64| {
        let first = segment.day * 24 * HOUR_MS + hour * HOUR_MS;
        Predicate::and([time(Comparison::GreaterOrEqual, first), time(Comparison::Less, first + HOUR_MS)])
    };
    let of_hours =
        if hours_of(hours).count() == 24 { Predicate::True } else { Predicate::or(hours_of(hours).map(of_hour)) };
    let of_hosts = if hosts.len() == asked.hosts.len() { asked.of_all.clone() } else { asked.of_hosts(&hosts)? };
    let condition = Predicate::and([of_hosts, of_hours, asked.others.clone()]);
    let path = segment.path();
    let columns = asked.kept_columns();
    let (schema, piece_octets) = (schema_of(&columns), size_of::<RecordBatch>() + columns.len() * COLUMN_OCTETS);
    let scan = FlowScanExec::new(snapshot, vec![segment], false, condition, columns, 1);
    let (mut batches, mut octets) = (Vec::new(), hosts.len() * HOST_OCTETS);
    let mut rows = scan.execute(0, task)?;
    while let Some(batch) = rows.try_next().await? {
        let of_batch = batch.get_array_memory_size();
        if !budget.take(of_batch) {
            return Ok(None);
        }
        octets += of_batch;
        batches.push(batch);
        // a task whose caller has gone ends here
        tokio::task::yield_now().await;
    }
    let rows = concat_batches(&schema, &batches)?;
    drop(batches);
    let hosts = by_host(&rows, hosts)?;
    let of_pieces = hosts.iter().filter(|(_, rows)| rows.is_some()).count() * piece_octets;
    octets += of_pieces;
    Ok(budget.take(of_pieces).then_some(SegmentRows { path, hosts, hours, octets }))
}

/// The rows of each host, in the order of `received`.
fn by_host(rows: &RecordBatch, hosts: Vec<Host>) -> Result<Vec<HostRead>> {
    let received = rows.column(0).as_primitive::<TimestampMillisecondType>();
    let addresses = rows.column(1).as_binary::<i32>();
    let numbers: HashMap<&[u8], u32> = hosts.iter().zip(0..).map(|(host, number)| (&**host, number)).collect();
    let number = |row: u32| numbers.get(addresses.value(row as usize)).copied();
    let mut order: Vec<(u32, i64, u32)> =
        (0..rows.num_rows() as u32).filter_map(|row| Some((number(row)?, received.value(row as usize), row))).collect();
    order.sort_unstable();
    let sorted = take_record_batch(rows, &UInt32Array::from_iter_values(order.iter().map(|(_, _, row)| *row)))?;
    let mut found = Vec::with_capacity(hosts.len());
    let mut begin = 0;
    for (host, number) in hosts.into_iter().zip(0..) {
        let length = order[begin..].partition_point(|(of, _, _)| *of == number);
        found.push((host, (length > 0).then(|| sorted.slice(begin, length))));
        begin += length;
    }
    Ok(found)
}

/// Pieces as batches of a scan's columns, the small ones put together.
fn together(pieces: Vec<RecordBatch>, asked: &KeyedScan, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let positions = asked.positions();
    let kept = schema_of(&asked.kept_columns());
    let (mut batches, mut small, mut rows) = (Vec::new(), Vec::new(), 0);
    let mut take = |batch: RecordBatch| -> Result<()> {
        let projected = batch.project(&positions)?;
        for begin in (0..projected.num_rows()).step_by(BATCH_ROWS) {
            batches.push(projected.slice(begin, BATCH_ROWS.min(projected.num_rows() - begin)));
        }
        Ok(())
    };
    for piece in pieces {
        if piece.num_rows() >= BATCH_ROWS / 2 {
            take(piece)?;
            continue;
        }
        rows += piece.num_rows();
        small.push(piece);
        if rows >= BATCH_ROWS {
            take(concat_batches(&kept, &small)?)?;
            (small, rows) = (Vec::new(), 0);
        }
    }
    if rows > 0 {
        take(concat_batches(&kept, &small)?)?;
    }
    // they have the names of the scan already
    let named = |batch: RecordBatch| {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
    };
    Ok(batches.into_iter().map(named).collect::<Result<_, _>>()?)
}
