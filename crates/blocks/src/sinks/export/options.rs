//! The options of the sink `export`.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_chain::{ByteSize, OptionText, Problem, TimeSpan, ValueType, choices, options};
use weir_export::{ExporterConfig, Version};

use super::target::Target;

choices! {
    /// Which collector gets which flows.
    pub enum Distribution {
        /// Every collector gets every flow.
        All = "all",
        /// Collectors get 512 flows each, one after the other, each from an exporter of its own.
        RoundRobin = "round-robin",
    }
}

choices! {
    /// The protocol that flows are sent in.
    pub enum Protocol {
        /// NetFlow version 5: IPv4 only, over UDP.
        NetflowV5 = "netflow-v5",
        /// NetFlow version 9 (RFC 3954), over UDP.
        NetflowV9 = "netflow-v9",
        /// IPFIX (RFC 7011), over UDP, TCP, TLS and SCTP.
        Ipfix = "ipfix",
    }
}

impl Protocol {
    /// The version that messages have.
    pub fn version(self) -> Version {
        match self {
            Self::NetflowV5 => Version::V5,
            Self::NetflowV9 => Version::V9,
            Self::Ipfix => Version::Ipfix,
        }
    }
}

choices! {
    /// The time of export that messages have.
    pub enum ExportClock {
        /// The time it is.
        Now = "now",
        /// The latest `start` or `end` of the flows so far, for flows of the past, whose times NetFlow v5 and v9 could not
        /// express otherwise.
        Rows = "rows",
    }
}

impl OptionText for Target {
    fn value_type() -> ValueType {
        ValueType::Text("HOST:PORT|URL")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        text.parse().map_err(|error: weir_chain::OptionError| Problem::Because(error.message, error.hint))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn unset() -> Self {
        Self::unspecified()
    }
}

options! {
    /// Options of the sink `export`.
    pub struct ExportOptions {
        /// Send to these collectors, each an address or name with its port, such as `127.0.0.1:2055`, `[::1]:4739` or
        /// `udp://collector.example:2055`; IPFIX also over connections: `tcp://192.0.2.1:4739`,
        /// `tls://collector.example:4740`, `sctp://192.0.2.1:4739`. Names are looked up at the start, and for each connection.
        to: Vec<Target>,
        /// Observation Domain, called Source ID in NetFlow v9; in NetFlow v5 engine type * 256 + engine id.
        domain: u32 = 0,
        /// Send from this address, by which collectors distinguish exporters; without it the system chooses.
        from: Option<IpAddr>,
        /// Time of export in the messages.
        clock: ExportClock = ExportClock::Now,
        /// Send at most this many flows in a second, also while the chain stops.
        records_per_second: Option<u32> => 1..=u32::MAX as u64,
        /// Send flows also to other machines than this one.
        allow_remote: bool = false,
    }
    includes {
        /// What is sent.
        messages: MessageOptions,
        /// Patience with collectors.
        patience: PatienceOptions,
        /// Certificates.
        tls: ExportTlsOptions,
    }
}

options! {
    /// What is sent to collectors.
    pub struct MessageOptions {
        /// Protocol of the messages.
        protocol: Protocol = Protocol::Ipfix,
        /// Which collector gets which flows.
        distribute: Distribution = Distribution::All,
        /// Make messages at most this long: 512B or more, over UDP at most 65507B. Without it 1464B in NetFlow v5, 1400B in the
        /// others over UDP, and 8KiB where all collectors have connections.
        message_size_max: Option<ByteSize> => 512..=ExporterConfig::OCTETS_LIMIT_MESSAGE as u64,
        /// Send templates and options over UDP again after this time.
        template_refresh: TimeSpan = TimeSpan::from_secs(60),
        /// Send templates and options over UDP again after this many datagrams.
        template_refresh_datagrams: u32 = 1000 => 1..=u32::MAX as u64,
        /// Send flows that do not fill a message after this time at the latest, checked about once a second; 0s: at once.
        queue_timeout: TimeSpan = TimeSpan::from_secs(1),
    }
}

options! {
    /// Patience with collectors.
    pub struct PatienceOptions {
        /// Hold at most this much in messages that wait for a connection, for each collector; flows over the limit are counted
        /// in `records_unsent`.
        queue_size: ByteSize = ByteSize::from_mib(64) => 1 << 17..=1 << 32,
        /// Wait up to this long for a collector whose queue is full. All collectors of the same thread wait. A collector that
        /// took nothing in this time is not waited for again until it takes something. For flows that can wait, such as those
        /// of files. Without it 0s, and 30s where `weir meter` reads files.
        room_timeout: Option<TimeSpan>,
        /// Drop and remake a connection whose collector acknowledges or takes nothing for this long.
        stall_timeout: TimeSpan = TimeSpan::from_secs(30),
        /// When the chain ends, give connections this long to send what waits and to be closed by their collector, and a second
        /// more at most. Without it 10s, and 30s where `weir meter` reads files.
        finish_timeout: Option<TimeSpan>,
        /// Give connections at most this long when the chain was stopped before its end, by a signal or because a component
        /// failed; this also ends waiting for a full queue. What is left then is counted in `records_unsent`. Without it 10s, and 1s
        /// where `weir meter` reads files.
        stop_timeout: Option<TimeSpan>,
    }
}

options! {
    /// Certificates for TLS.
    pub struct ExportTlsOptions {
        /// PEM file of the authorities that sign the certificates of collectors; without it those of the system.
        tls_ca: Option<PathBuf>,
        /// PEM file of the certificate shown to collectors, followed by those of the authorities up to the root.
        tls_cert: Option<PathBuf>,
        /// PEM file of the private key of `tls_cert`.
        tls_key: Option<PathBuf>,
        /// Accept only collectors whose certificate has this name, as a DNS name or an address, or as the common name of one
        /// without DNS names; without it the name or address in `to`.
        tls_name: Option<String>,
    }
}
