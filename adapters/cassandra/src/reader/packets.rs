//! Export packets out of the cluster.

use futures::stream::{self, StreamExt};
use futures::{Stream, TryStreamExt};
use scylla::value::CqlTimestamp;

use super::{CassandraReader, ScanRange, prepare};
use crate::{CassandraError, ExportPacket};

/// A row of `packets`: key, reception, exporter, Observation Domain, number of flows, Message.
type PacketRow = (i64, CqlTimestamp, Option<std::net::IpAddr>, i64, i16, Vec<u8>);

impl CassandraReader {
    /// The export packets of the seconds in a range of time, in milliseconds since the epoch: second by second, those of a
    /// second in no order. Written one after the other their Messages are an IPFIX file (RFC 5655).
    pub async fn packets(
        &self,
        range: ScanRange,
    ) -> Result<impl Stream<Item = Result<ExportPacket, CassandraError>> + Send + use<>, CassandraError> {
        let keyspace = &self.inner.options.to.keyspace;
        let text = format!(
            "SELECT packet, received, exporter, observation_domain, flows, message FROM {keyspace}.packets WHERE second = ? \
             AND shard = ?"
        );
        let statement = prepare(&self.inner.session, &self.inner.options, &text).await?;
        let days = self.days(&range, "packets").await?;
        let reader = self.clone();
        let places = stream::iter(days).then(move |day_ms| {
            let (reader, range) = (reader.clone(), range.clone());
            async move { reader.places(day_ms, &range, "packets").await }
        });
        let places = places.map_ok(|found| stream::iter(found.into_iter().map(Ok))).try_flatten();
        let reader = self.clone();
        let partitions = places.map_ok(move |(place, _)| {
            let (reader, statement) = (reader.clone(), statement.clone());
            async move {
                let values = (CqlTimestamp(place.bucket_ms), place.shard);
                let rows = reader.inner.session.execute_iter(statement, values).await;
                let rows = rows.map_err(|error| reader.failed(&error))?;
                let rows = rows.rows_stream::<PacketRow>().map_err(|error| reader.failed(&error))?;
                rows.map_ok(packet).map_err(|error| reader.failed(&error)).try_collect::<Vec<_>>().await
            }
        });
        let packets = partitions.try_buffered(self.partitions_max);
        Ok(packets.map_ok(|found| stream::iter(found.into_iter().map(Ok))).try_flatten())
    }
}

fn packet((key, received, exporter, domain, flows, message): PacketRow) -> ExportPacket {
    ExportPacket {
        received_ms: received.0,
        exporter: exporter.map(|address| match address {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        }),
        observation_domain: domain as u32,
        flows: flows as u16,
        message,
        key,
    }
}
