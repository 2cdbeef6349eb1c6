//! What becomes of one delivery.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use weir_forward::{ForwardDelivery, StoredRows};

use super::insert::{Inserts, insert_packet, prepare, using_ttl};
use crate::connect::{Agreement, Settled, connect, is_final, is_of_row, message, statement_error};
use crate::options::{DAY_MS, Model};
use crate::packets::{PartitionPackets, SECOND_MS, packets};
use crate::piece::Piece;
use crate::times::{FlowTimes, insert_times};
use crate::values::{FlowColumns, PartitionRows, Place};
use crate::{CassandraError, CassandraOptions, schema};

/// Partitions that are known to be in the table of buckets.
const BUCKETS_MAX: usize = 65_536;

/// A cluster, once it was reached.
pub(super) struct Cluster {
    options: CassandraOptions,
    session: OnceCell<Arc<Connected>>,
    batches: Semaphore,
}

/// A session, and what was prepared on it.
pub(super) struct Connected {
    session: Session,
    statements: Statements,
    settled: Settled,
    buckets: Mutex<HashSet<Place>>,
    times: Mutex<HashMap<Place, FlowTimes>>,
}

/// What was prepared on a session.
struct Statements {
    inserts: Inserts,
    insert_bucket: PreparedStatement,
    /// In the model of packets.
    insert_packet: Option<PreparedStatement>,
    /// In the model of flows.
    insert_times: Option<PreparedStatement>,
}

impl Statements {
    /// Makes the tables that are missing, and prepares what writes to them.
    async fn make(session: &Session, options: &CassandraOptions) -> Result<Self, CassandraError> {
        schema::prepare(session, options).await?;
        let keyspace = &options.to.keyspace;
        let ttl = options.bucket_ttl_secs();
        let text = format!(
            "INSERT INTO {keyspace}.buckets (model, day, bucket, shard, width_ms) VALUES ('{}', ?, ?, ?, ?){}",
            options.model.word(),
            using_ttl(ttl)
        );
        let insert_bucket = prepare(&text, session, options).await?;
        let of_model = match options.model {
            Model::Flows => insert_times(keyspace, &using_ttl(ttl)),
            Model::Packets => insert_packet(options),
        };
        let of_model = prepare(&of_model, session, options).await?;
        let (insert_times, insert_packet) = match options.model {
            Model::Flows => (Some(of_model), None),
            Model::Packets => (None, Some(of_model)),
        };
        Ok(Self { inserts: Inserts::default(), insert_bucket, insert_packet, insert_times })
    }
}

impl Cluster {
    pub(super) fn new(options: CassandraOptions) -> Self {
        let batches = Semaphore::new(options.writing.batches_in_flight);
        Self { options, session: OnceCell::new(), batches }
    }

    /// The session; connects when there is none yet.
    pub(super) async fn ready(&self) -> Result<Arc<Connected>, CassandraError> {
        let connected = self.session.get_or_try_init(|| async {
            let session = connect(&self.options).await?;
            let agreement = Agreement::wait(&session).await;
            let made = Statements::make(&session, &self.options).await;
            let statements = agreement.judge(made, &session, &self.options).await?;
            let (settled, buckets, times) = (Settled::default(), Mutex::default(), Mutex::default());
            Ok(Arc::new(Connected { session, statements, settled, buckets, times }))
        });
        connected.await.map(Arc::clone)
    }

    /// Stores a delivery: all of its rows, but for those that the server can never take.
    pub(super) async fn store(&self, delivery: ForwardDelivery) -> Result<StoredRows, CassandraError> {
        let connected = self.ready().await?;
        let before = connected.settled.before().await;
        let shard = (delivery.position.position.get() % u64::from(self.options.writing.shards)) as i16;
        let stored = match &connected.statements.insert_packet {
            Some(statement) => self.store_packets(&connected, statement, &delivery, shard).await,
            None => self.store_flows(&connected, &delivery, shard).await,
        };
        if let Err(refusal @ CassandraError::Refused { .. }) = &stored {
            connected.settled.check(before, &connected.session, &self.options, &refusal.to_string()).await?;
        }
        stored
    }

    async fn store_flows(
        &self,
        connected: &Connected,
        delivery: &ForwardDelivery,
        shard: i16,
    ) -> Result<StoredRows, CassandraError> {
        let rows = delivery.flows.rows() as u64;
        let Some(columns) = FlowColumns::of(delivery).map(Arc::new) else {
            tracing::warn!("{rows} flows without a time of reception cannot be stored");
            return Ok(StoredRows { stored: 0, refused: rows });
        };
        let statement =
            connected.statements.inserts.of(columns.columns().collect(), &connected.session, &self.options).await?;
        let mut pieces = Vec::new();
        for partition in self.partitions(&columns, shard) {
            self.note_bucket(connected, partition.place, self.options.writing.bucket.millis()).await?;
            self.note_times(connected, partition.place, columns.times(&partition.rows)).await?;
            pieces.extend(partition.cut(self.options.batch_octets()));
        }
        self.send_all(connected, &statement, pieces).await
    }

    async fn store_packets(
        &self,
        connected: &Connected,
        statement: &PreparedStatement,
        delivery: &ForwardDelivery,
        shard: i16,
    ) -> Result<StoredRows, CassandraError> {
        let (seconds, refused) = packets(delivery, usize::from(self.options.writing.packet_flows));
        let mut pieces = Vec::new();
        for (second_ms, packets) in seconds {
            let place = Place { bucket_ms: second_ms, shard };
            self.note_bucket(connected, place, SECOND_MS).await?;
            let range = (0, packets.len());
            let partition = PartitionPackets { packets: packets.into(), place, origin: delivery.origin, range };
            pieces.extend(partition.cut(self.options.batch_octets()));
        }
        if refused > 0 {
            tracing::warn!("{refused} flows cannot be expressed in IPFIX and are not stored");
        }
        let mut stored = self.send_all(connected, statement, pieces).await?;
        stored.refused += refused;
        Ok(stored)
    }

    /// Sends all pieces of a delivery, some at a time.
    async fn send_all<P: Piece>(
        &self,
        connected: &Connected,
        statement: &PreparedStatement,
        pieces: Vec<P>,
    ) -> Result<StoredRows, CassandraError> {
        let (session, before) = (&connected.session, connected.settled.before().await);
        let refusal = OnceCell::new();
        let mut sending = FuturesUnordered::new();
        let mut stored = StoredRows::default();
        for piece in pieces {
            while sending.len() >= self.options.writing.batches_in_flight {
                stored += sending.next().await.transpose()?.unwrap_or_default();
            }
            sending.push(self.send(session, statement, piece, &refusal));
        }
        while let Some(sent) = sending.next().await {
            stored += sent?;
        }
        if let Some(refusal) = refusal.get() {
            // rows were refused for what is in them, unless a table is gone or not known everywhere yet
            connected.settled.check(before, session, &self.options, refusal).await?;
            schema::check_whole(session, &self.options).await?;
            tracing::warn!("{} flows cannot be stored, ever; the first of them: {refusal}", stored.refused);
        }
        Ok(stored)
    }

    /// The rows of a delivery by partition.
    fn partitions(&self, columns: &Arc<FlowColumns>, shard: i16) -> Vec<PartitionRows> {
        let width_ms = self.options.writing.bucket.millis();
        let mut rows: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for row in 0..columns.rows() {
            let bucket_ms = columns.received_ms(row).div_euclid(width_ms) * width_ms;
            rows.entry(bucket_ms).or_default().push(row as u32);
        }
        let partition = |(bucket_ms, rows): (i64, Vec<u32>)| PartitionRows {
            columns: Arc::clone(columns),
            place: Place { bucket_ms, shard },
            range: (0, rows.len()),
            rows: rows.into(),
        };
        rows.into_iter().map(partition).collect()
    }

    /// Makes readers find a partition, before anything is in it.
    async fn note_bucket(&self, connected: &Connected, place: Place, width_ms: i64) -> Result<(), CassandraError> {
        if connected.buckets.lock().await.contains(&place) {
            return Ok(());
        }
        let day = CqlTimestamp(place.bucket_ms.div_euclid(DAY_MS) * DAY_MS);
        let values = (day, CqlTimestamp(place.bucket_ms), place.shard, width_ms as i32);
        let sent = connected.session.execute_unpaged(&connected.statements.insert_bucket, values).await;
        sent.map_err(|error| statement_error(&self.options, "INSERT INTO buckets", &error))?;
        let mut buckets = connected.buckets.lock().await;
        if buckets.len() >= BUCKETS_MAX {
            buckets.clear();
        }
        buckets.insert(place);
        Ok(())
    }

    /// Makes readers find a partition by when its flows began and ended, before they are in it.
    async fn note_times(&self, connected: &Connected, place: Place, times: FlowTimes) -> Result<(), CassandraError> {
        let Some(statement) = &connected.statements.insert_times else { return Ok(()) };
        let known = connected.times.lock().await.get(&place).copied();
        let joined = known.unwrap_or_default().join(times.rounded());
        if known == Some(joined) {
            return Ok(());
        }
        let day = place.bucket_ms.div_euclid(DAY_MS) * DAY_MS;
        let [day, bucket] = [day, place.bucket_ms].map(CqlTimestamp);
        let FlowTimes { start, end } = joined;
        let [start_first, start_last, end_first, end_last] =
            [start.first_ms, start.last_ms, end.first_ms, end.last_ms].map(CqlTimestamp);
        let values = (day, bucket, place.shard, start_first, start_last, end_first, end_last);
        let sent = connected.session.execute_unpaged(statement, values).await;
        sent.map_err(|error| statement_error(&self.options, "INSERT INTO bucket_times", &error))?;
        let mut times = connected.times.lock().await;
        if times.len() >= BUCKETS_MAX {
            times.clear();
        }
        // another delivery may have noted more meanwhile, and its line is there too
        let known = times.entry(place).or_default();
        *known = known.join(joined);
        Ok(())
    }

    /// Sends rows of one partition; in halves when the server refuses all of them together. What it says of the first row
    /// that it refuses is kept in `refusal`.
    fn send<'a, P: Piece + 'a>(
        &'a self,
        session: &'a Session,
        statement: &'a PreparedStatement,
        rows: P,
        refusal: &'a OnceCell<String>,
    ) -> BoxFuture<'a, Result<StoredRows, CassandraError>> {
        Box::pin(async move {
            let count = rows.len();
            let sent = {
                let _permit = self.batches.acquire().await;
                if count == 1 {
                    // no batch, so no limit of batches
                    session.execute_unpaged(statement, &rows).await
                } else {
                    let mut batch = Batch::new(BatchType::Unlogged);
                    batch.statements = vec![statement.clone().into(); count];
                    batch.set_is_idempotent(true);
                    session.batch(&batch, &rows).await
                }
            };
            let Err(error) = sent else { return Ok(StoredRows { stored: rows.flows(), refused: 0 }) };
            if !is_final(&error) {
                return Err(statement_error(&self.options, "a batch of flows", &error));
            }
            if count == 1 {
                if !is_of_row(&error) {
                    return Err(statement_error(&self.options, "flows", &error));
                }
                // only the first is told
                let _ = refusal.set(message(&error));
                return Ok(StoredRows { stored: 0, refused: rows.flows() });
            }
            let mut stored = StoredRows::default();
            for half in rows.halves() {
                stored += self.send(session, statement, half, refusal).await?;
            }
            Ok(stored)
        })
    }
}
