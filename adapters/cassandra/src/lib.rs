//! Flows and export packets in Cassandra.
//!
//! After Balantrapu, Potluri and Das, "A Novel Approach to Netflow Monitoring in Data Center Networks": whatever sees flows
//! writes them straight into the cluster, and no collector in the middle bounds the rate. Their Open vSwitch hands records to
//! a daemon through shared memory; here a meter or collector appends to an archive and a
//! [`Forwarder`](weir_forward::Forwarder) hands deliveries to a [`CassandraStore`], so a cluster that is away loses nothing
//! that the disk holds.
//!
//! There are two models. In `flows` a flow is a row with a typed column for each column of weir. In `packets`, the paper's, an
//! export packet is a cell: a self-contained IPFIX Message in a row for each second and shard.
//!
//! Statistics go to the table `series` of the same keyspace, and are read from it: see [`statistics`] and [`statistics_reader`].
//!
//! ```text
//! archive ─▶ forwarder ─▶ store ─▶ chunks by partition ─▶ batches ─▶ Cassandra ─▶ partitions ─▶ reader ─▶ flows
//! ```

pub mod options;
pub mod url;

pub mod schema;

mod element_blob;
pub mod packets;
mod piece;
mod values;

pub mod reader;
pub mod writer;

pub mod sink;
pub mod source;

pub mod statistics;
pub mod statistics_reader;

mod times;

mod connect;
mod error;

pub use error::CassandraError;
pub use options::CassandraOptions;
pub use packets::ExportPacket;
pub use reader::{CassandraReader, Operand, Operator, Predicate, ScanRange};
pub use statistics::CassandraStatistics;
pub use statistics_reader::{StatisticsPartition, StatisticsReader};
pub use times::TimeBound;
pub use url::CassandraUrl;
pub use writer::CassandraStore;

use weir_chain::AnyKind;

/// Every kind of component of this crate.
pub fn kinds() -> impl Iterator<Item = &'static dyn AnyKind> {
    let kinds: [&'static dyn AnyKind; 2] = [&sink::KIND, &source::KIND];
    kinds.into_iter()
}
