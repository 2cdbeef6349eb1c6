//! What goes out, from where, and what became of it.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_export::{ConfigError, Exported, Exporter, ExporterConfig};

/// An exporter and the address that it sends from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Source address of its datagrams; `None` leaves the choice to the system. On Linux any of 127.0.0.0/8 works,
    /// so that several exporters can be told apart on one machine.
    pub source: Option<IpAddr>,
    /// Its settings.
    pub config: ExporterConfig,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Datagrams that the kernel took, or that are in the file.
    pub datagrams: u64,
    /// Flows in them.
    pub flows: u64,
    /// Octets of UDP payload in them.
    pub octets: u64,
    /// Datagrams that the kernel refused.
    pub datagrams_refused: u64,
    /// Flows in those.
    pub flows_refused: u64,
    /// What the exporters did, all together; its packets and bytes are those of `flows` and `flows_refused`.
    pub exported: Exported,
    /// How long it took.
    pub duration: Duration,
}

/// Why nothing more was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// There is no exporter.
    #[error("at least one exporter is needed")]
    NoStream,
    /// Settings of an exporter.
    #[error("cannot set up an exporter")]
    Config(#[from] ConfigError),
    /// A source address that cannot be bound.
    #[error("cannot send from {address}")]
    Bind {
        /// The address.
        address: IpAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// An IPv6 address where only IPv4 is possible.
    #[error("{address}: packet headers in files are IPv4")]
    NotIpv4 {
        /// The address.
        address: IpAddr,
    },
}

impl Sent {
    /// Adds up what the exporters did.
    pub(crate) fn add_exported<'a>(&mut self, exporters: impl Iterator<Item = &'a Exporter>) {
        for one in exporters.map(Exporter::exported) {
            let sum = &mut self.exported;
            sum.flows += one.flows;
            sum.packets = sum.packets.wrapping_add(one.packets);
            sum.bytes = sum.bytes.wrapping_add(one.bytes);
            sum.datagrams += one.datagrams;
            sum.octets += one.octets;
            sum.templates += one.templates;
            sum.options_records += one.options_records;
            sum.values_left_out += one.values_left_out;
            for (sum, one) in sum.refused.iter_mut().zip(one.refused) {
                *sum += one;
            }
        }
    }
}
