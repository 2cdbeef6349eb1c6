//! The sections of the configuration of `weir serve`, as option structs.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_blocks::sinks::archive::{RetentionOptions, SealingOptions};
use weir_blocks::sinks::statistics::SeriesOptions;
use weir_blocks::sources::collector::CollectorSourceOptions;
use weir_blocks::sources::collector::options::{
    ConnectionOptions, LimitOptions, ListenOptions, ListenerTlsOptions, RelayingOptions,
};
use weir_blocks::sources::meter::MeterSourceOptions;
use weir_blocks::sources::meter::options::{FlowOptions, MeasureOptions, PacketOptions, RouteOptions};
use weir_blocks::transforms::enrich::{AddressFileOptions, ExporterFileOptions, RouteFileOptions};
use weir_chain::options::OptionSpec;
use weir_chain::{ByteSize, Options, TimeSpan, options};
use weir_serve::config::{AccessOptions, RoleOptions, UserOptions};
use weir_serve::{
    AuditOptions, DownloadOptions, FlightOptions, HttpOptions, IngestOptions, PostgresOptions, QuestionOptions,
};
use weir_sql::{EnrichmentFiles, VersionLimits};

/// The sections of a configuration.
pub(in crate::command) const SECTIONS: &[(&str, &str)] = &[
    ("http", "How the service listens, and limits of connections"),
    ("questions", "How much questions may use"),
    ("archive", "Where the archive is, how it is sealed, and what is kept"),
    ("collect", "Where datagrams and connections come in"),
    ("meter", "Interfaces whose packets are metered into the archive"),
    #[cfg(feature = "snmp")]
    ("snmp", "Agents that are asked for names, speeds and counters of interfaces"),
    ("ingest", "How flows that programs push over HTTP are taken into the archive"),
    ("chain", "Chains that run beside the service"),
    ("download", "Files that are fetched over HTTP, for other sections"),
    ("enrichment", "Files whose contents are kept with the flows: countries, labels, names"),
    ("statistics", "What statistics are kept of"),
    ("watch", "Where watches are"),
    ("dashboards", "Where dashboards are"),
    ("postgres", "How the wire of Postgres is spoken"),
    ("flight", "How Flight SQL is spoken"),
    ("audit", "Where it is written down who asked what"),
    ("access", "Where more users and the key of pseudonyms are"),
    ("roles", "Roles of your own: what their users may do and see"),
    ("users", "Who may ask"),
];

/// How often interfaces that have gone away are tried again, unless a section says otherwise.
const INTERFACE_RETRY: TimeSpan = TimeSpan::from_secs(5);
options! {
    /// The section `archive`.
    pub(super) struct ArchiveSection {
        /// Folder of the archive.
        folder: Option<PathBuf>,
    }
    includes {
        /// When tails are sealed.
        sealing: SealingOptions,
        /// What is kept.
        retention: RetentionOptions,
    }
}

options! {
    /// The section `collect`, which has the options of the source `collector`.
    pub(super) struct CollectSection {}
    includes {
        /// Where datagrams and connections come in.
        listening: ListenOptions,
        /// Limits of connections.
        connections: ConnectionOptions,
        /// Certificates.
        tls: ListenerTlsOptions,
        /// Other collectors.
        relaying: RelayingOptions,
        /// Limits of decoders.
        limits: LimitOptions,
    }
}

impl From<CollectSection> for CollectorSourceOptions {
    fn from(section: CollectSection) -> Self {
        let CollectSection { listening, connections, tls, relaying, limits } = section;
        Self { archive: None, listening, connections, tls, relaying, limits }
    }
}

options! {
    /// A section `meter`, which has the options of the source `meter`.
    pub(super) struct MeterSection {
        /// Capture on these interfaces; it takes CAP_NET_RAW. When all of them have gone away they are tried again, as
        /// interface_retry says: those that are not to wait for others have a section of their own.
        interfaces: Vec<String>,
        /// Address of the exporter that flows have.
        exporter: IpAddr = IpAddr::from([127, 0, 0, 1]),
        /// Keep only flows that match, in nfdump's filter language; the others are counted in the books under
        /// records_filtered.
        filter: Option<String>,
    }
    includes {
        /// Which packets.
        packets: PacketOptions,
        /// What a flow is.
        flows: FlowOptions,
        /// What flows have besides their counters.
        measured: MeasureOptions,
        /// What flows have of the networks of their addresses.
        routing: RouteOptions,
    }
}

impl From<MeterSection> for MeterSourceOptions {
    fn from(section: MeterSection) -> Self {
        let MeterSection { interfaces, exporter, filter, packets, flows, measured, routing } = section;
        let packets = PacketOptions { interface_retry: packets.interface_retry.or(Some(INTERFACE_RETRY)), ..packets };
        Self { interfaces, exporter, filter, packets, flows, measured, routing, ..Self::default() }
    }
}

options! {
    /// A section `chain`.
    pub(super) struct ChainSection {
        /// The chain file, as weir chain run takes it. The chain begins when the service answers and ends with it; one that ends
        /// before is reported, and the service goes on.
        file: PathBuf,
    }
}

options! {
    /// The section `enrichment`, which has files of the transform `enrich`.
    pub(super) struct EnrichmentSection {
        /// Ask for the names of hosts, and keep them with the flows.
        reverse_dns: bool = false,
        /// Keep at most this many versions of each file, for questions about the time when they were valid; the oldest are
        /// dropped first.
        versions_max: usize = 32 => 1..=10_000,
        /// Keep at most this much of the versions of each file; the newest is kept in any case.
        versions_size_max: ByteSize = ByteSize::from_mib(256) => 1..=1 << 40,
    }
    includes {
        /// What is known of addresses.
        addresses: AddressFileOptions,
        /// What is known of exporters.
        exporters: ExporterFileOptions,
        /// What is known of routes.
        routes: RouteFileOptions,
    }
}

options! {
    /// The section `statistics`, which has the options of the sink `statistics`.
    pub(super) struct StatisticsSection {
        /// Folder of the statistics; the folder statistics of the archive without it.
        folder: Option<PathBuf>,
    }
    includes {
        /// What is counted, and in which steps.
        series: SeriesOptions,
    }
}

options! {
    /// The section `watch`.
    pub(super) struct WatchSection {
        /// Folder of watch files.
        folder: PathBuf,
        /// Keep the flows of windows of all watches in at most this much memory. When it is full, the watch that keeps most of it
        /// leaves out flows, which are counted in `rows_over_memory`.
        memory_max: ByteSize = ByteSize::from_mib(1024) => 1..=1 << 50,
    }
}

options! {
    /// The section `dashboards`.
    pub(super) struct DashboardSection {
        /// Folder of the files of dashboards.
        folder: PathBuf,
    }
}

impl EnrichmentSection {
    /// The files that questions look into: what was collected before they were named has nothing of them.
    pub(super) fn files(self) -> EnrichmentFiles {
        let AddressFileOptions { asn_mmdb, geo_mmdb, labels } = self.addresses;
        let limits = VersionLimits { versions_max: self.versions_max, octets_max: self.versions_size_max.bytes() };
        let (interfaces, routes) = (self.exporters.interfaces, self.routes.routes);
        // the service knows the archive, where versions are
        EnrichmentFiles { asn_mmdb, routes, geo_mmdb, labels, interfaces, versions: None, limits: Some(limits) }
    }
}

/// The options of each section, by its name.
pub(in crate::command) fn specs(section: &str) -> Vec<OptionSpec> {
    match section {
        "http" => HttpOptions::specs(),
        "questions" => QuestionOptions::specs(),
        "archive" => ArchiveSection::specs(),
        "collect" => CollectSection::specs(),
        "meter" => MeterSection::specs(),
        #[cfg(feature = "snmp")]
        "snmp" => weir_snmp::SnmpOptions::specs(),
        "ingest" => IngestOptions::specs(),
        "chain" => ChainSection::specs(),
        "download" => DownloadOptions::specs(),
        "statistics" => StatisticsSection::specs(),
        "watch" => WatchSection::specs(),
        "dashboards" => DashboardSection::specs(),
        "postgres" => PostgresOptions::specs(),
        "flight" => FlightOptions::specs(),
        "enrichment" => EnrichmentSection::specs(),
        "audit" => AuditOptions::specs(),
        "access" => AccessOptions::specs(),
        "roles" => RoleOptions::specs(),
        "users" => UserOptions::specs(),
        _ => Vec::new(),
    }
}
