//! The parameters of the block `export`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_chain::{ComponentError, ParameterError, ParameterSpec, ParameterType, Parameters};
use weir_collect::Transport;
use weir_export::{ConfigError, ExporterConfig, TemplateRefresh, Version};
use weir_secure::{TlsClient, TlsClientOptions};

use super::link::Room;
use super::stream::Dialling;
use super::target::{Target, is_remote};

pub(super) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "to",
        parameter_type: ParameterType::Texts,
        default: None,
        doc: "Addresses or names of the collectors with their ports, such as `127.0.0.1:2055`, `[::1]:4739` or \
              `udp://collector.example:2055`; IPFIX also over connections: `tcp://192.0.2.1:4739`, \
              `tls://collector.example:4740`, `sctp://192.0.2.1:4739`. Names are looked up at the start, and for each connection.",
    },
    ParameterSpec {
        key: "distribute",
        parameter_type: ParameterType::Choice(&["all", "in-turn"]),
        default: Some("\"all\""),
        doc: "Whether every collector gets all flows, or collectors get 512 flows each in turn, from an exporter of its \
              own for each.",
    },
    ParameterSpec {
        key: "version",
        parameter_type: ParameterType::Choice(&["5", "9", "ipfix"]),
        default: Some("\"ipfix\""),
        doc: "Protocol: NetFlow v5, NetFlow v9 or IPFIX.",
    },
    ParameterSpec {
        key: "domain",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("0"),
        doc: "Observation Domain, called Source ID in NetFlow v9; in NetFlow v5 engine type * 256 + engine id.",
    },
    ParameterSpec {
        key: "from",
        parameter_type: ParameterType::Text,
        default: Some(""),
        doc: "Address to send from; collectors tell exporters apart by it. Left to the system when it is not given.",
    },
    ParameterSpec {
        key: "clock",
        parameter_type: ParameterType::Choice(&["now", "rows"]),
        default: Some("\"now\""),
        doc: "Time of export: the time it is, or the latest `start` or `end` of the flows so far, for flows of the past \
              that NetFlow v5 and v9 could not tell otherwise.",
    },
    ParameterSpec {
        key: "records_per_second",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("0"),
        doc: "Most flows in a second, also while the chain stops; 0 for no limit.",
    },
    ParameterSpec {
        key: "datagram_octets_max",
        parameter_type: ParameterType::Integer(0, ExporterConfig::OCTETS_LIMIT_MESSAGE as u64),
        default: Some("0"),
        doc: "Longest message, 512 or more, over UDP at most 65507; 0 for 1464 in NetFlow v5, 1400 in the others over \
              UDP, and 8192 where all collectors have connections.",
    },
    ParameterSpec {
        key: "template_refresh_secs",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("60"),
        doc: "Over UDP templates and options are sent again after so many seconds of the clock.",
    },
    ParameterSpec {
        key: "template_refresh_datagrams",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("1000"),
        doc: "Over UDP templates and options are sent again after so many datagrams.",
    },
    ParameterSpec {
        key: "allow_remote",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether flows may go to another machine than this one.",
    },
    ParameterSpec {
        key: "queue_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("1"),
        doc: "Flows that do not fill a message go out after so many seconds at the latest, looked at about once a second; \
              0 for at once.",
    },
    ParameterSpec {
        key: "queue_octets_max",
        parameter_type: ParameterType::Integer(1 << 17, 1 << 32),
        default: Some("67108864"),
        doc: "Octets of messages that wait for a connection, for each collector; flows that find no room are counted in \
              `records_unsent`.",
    },
    ParameterSpec {
        key: "room_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("0"),
        doc: "How long the chain waits for room in a full queue, from when the collector took something last; 0 for not at \
              all. For flows that can wait, such as those of files. While it waits, all that its thread does waits: \
              other collectors are sent what came before, and several that take nothing are waited for at the same \
              time. Who was waited for in vain is not waited for again before it has taken something.",
    },
    ParameterSpec {
        key: "stall_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("30"),
        doc: "A connection whose collector acknowledges or takes nothing for so long is given up and made again.",
    },
    ParameterSpec {
        key: "finish_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("10"),
        doc: "How long connections may take, when the chain ends, to send what waits and to be closed by their collector; a \
              second more at most.",
    },
    ParameterSpec {
        key: "stop_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("10"),
        doc: "How long that may take at most when the chain was stopped before its end, by a signal or because a block \
              failed; as soon ends a wait for room. What is left then is counted in `records_unsent`.",
    },
    ParameterSpec {
        key: "tls_ca",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "PEM file of the authorities that sign the certificates of collectors; those of the system without it.",
    },
    ParameterSpec {
        key: "tls_cert",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "PEM file of the certificate shown to collectors, followed by those of the authorities up to the root.",
    },
    ParameterSpec {
        key: "tls_key",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "PEM file of its private key.",
    },
    ParameterSpec {
        key: "tls_name",
        parameter_type: ParameterType::Text,
        default: Some(""),
        doc: "Name that the certificate of a collector must have, as a DNS name or an address, or as the common name of \
              one without DNS names; without it the name or address in `to`.",
    },
];

/// Messages of connections: some hundred flows, and room for them in the buffers of collectors that take little.
const CONNECTION_OCTETS: usize = 8192;

/// What the parameters say.
#[derive(Debug)]
pub(super) struct Configuration {
    pub targets: Vec<Target>,
    pub exporter: ExporterConfig,
    pub from: Option<IpAddr>,
    pub is_in_turn: bool,
    pub is_clock_of_rows: bool,
    pub records_per_second: u32,
    pub queue_timeout: Duration,
    pub room: Room,
    pub finish_timeout: Duration,
    pub stop_timeout: Duration,
    stall_timeout: Duration,
    allow_remote: bool,
    tls: Option<TlsClientOptions>,
    tls_name: Option<String>,
}

impl Configuration {
    pub(super) fn of(parameters: &Parameters) -> Result<Self, ParameterError> {
        let allow_remote = parameters.boolean("allow_remote");
        let targets = targets(parameters, allow_remote)?;
        let name = parameters.text("tls_name");
        let stall_timeout = parameters.duration("stall_timeout_secs");
        if stall_timeout < Duration::from_secs(1) {
            return Err(ParameterError::new("stall_timeout_secs", "'stall_timeout_secs' must be 1 or more"));
        }
        Ok(Self {
            exporter: exporter(parameters, &targets)?,
            from: source(parameters, &targets)?,
            is_in_turn: parameters.text("distribute") == "in-turn",
            is_clock_of_rows: parameters.text("clock") == "rows",
            records_per_second: parameters.integer("records_per_second") as u32,
            queue_timeout: parameters.duration("queue_timeout_secs"),
            room: Room {
                octets_max: parameters.integer("queue_octets_max") as usize,
                timeout: parameters.duration("room_timeout_secs"),
            },
            finish_timeout: parameters.duration("finish_timeout_secs"),
            stop_timeout: parameters.duration("stop_timeout_secs"),
            stall_timeout,
            allow_remote,
            tls: tls(parameters, &targets)?,
            tls_name: (!name.is_empty()).then(|| name.to_owned()),
            targets,
        })
    }

    /// The address of a collector that gets datagrams.
    pub(super) fn address(&self, target: &Target) -> Result<SocketAddr, ComponentError> {
        let addresses = self.addresses(target)?;
        addresses.first().copied().ok_or_else(|| ComponentError::new(format!("{target} has no address")))
    }

    /// How a collector with a connection is reached. Its name is looked up, so that a wrong one is told at the start.
    pub(super) fn dialling(&self, target: &Target, tls: Option<&TlsClient>) -> Result<Dialling, ComponentError> {
        self.addresses(target)?;
        let tls = tls.filter(|_| target.transport == Transport::Tls);
        let name = self.tls_name.clone().unwrap_or_else(|| target.host.clone());
        Ok(Dialling {
            target: target.clone(),
            from: self.from,
            tls: tls.map(|tls| (tls.clone(), name)),
            stall_timeout: self.stall_timeout,
        })
    }

    fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, ComponentError> {
        let addresses = target.addresses(self.from)?;
        match addresses.iter().find(|address| is_remote(address)).filter(|_| !self.allow_remote) {
            Some(address) => {
                Err(ComponentError::new(format!("{target} is not on this machine: {address}\nhint: {REMOTE_HINT}")))
            }
            None => Ok(addresses),
        }
    }

    /// Reads certificates, where a collector needs them.
    pub(super) fn tls_client(&self) -> Result<Option<TlsClient>, ComponentError> {
        let client = self.tls.as_ref().map(TlsClient::new).transpose();
        client.map_err(|error| ComponentError::caused("flows cannot be sent over TLS", error))
    }
}

const REMOTE_HINT: &str = "'allow_remote = true' sends there all the same";

fn targets(parameters: &Parameters, allow_remote: bool) -> Result<Vec<Target>, ParameterError> {
    let texts = parameters.texts("to");
    let targets: Vec<Target> = texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if targets.is_empty() {
        return Err(ParameterError::new("to", "at least one address is needed"));
    }
    let mut addresses = targets.iter().filter_map(Target::literal);
    match addresses.find(is_remote).filter(|_| !allow_remote) {
        Some(remote) => {
            Err(ParameterError::new("to", format!("{remote} is not on this machine")).with_hint(REMOTE_HINT))
        }
        None => Ok(targets),
    }
}

/// The address to send from, which must be able to reach all targets.
fn source(parameters: &Parameters, targets: &[Target]) -> Result<Option<IpAddr>, ParameterError> {
    let text = parameters.text("from");
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |what: String| ParameterError::new("from", what);
    let from: IpAddr = text.parse().map_err(|_| wrong(format!("'{text}' is no address")))?;
    let mut addresses = targets.iter().filter_map(Target::literal);
    match addresses.find(|address| address.is_ipv4() != from.is_ipv4()) {
        Some(target) => Err(wrong(format!("nothing can be sent from {from} to {target}"))),
        None => Ok(Some(from)),
    }
}

fn exporter(parameters: &Parameters, targets: &[Target]) -> Result<ExporterConfig, ParameterError> {
    let version = match parameters.text("version") {
        "5" => Version::V5,
        "9" => Version::V9,
        _ => Version::Ipfix,
    };
    if let Some(target) = targets.iter().find(|target| target.is_connection() && version != Version::Ipfix) {
        let error = ParameterError::new("version", format!("{version} goes over UDP alone, not to {target}"));
        return Err(error.with_hint("IPFIX goes over connections: 'version = \"ipfix\"'"));
    }
    let mut config = ExporterConfig {
        domain: parameters.integer("domain") as u32,
        template_refresh: TemplateRefresh {
            datagrams: parameters.integer("template_refresh_datagrams") as u32,
            secs: parameters.integer("template_refresh_secs") as u32,
        },
        announces_apart: true,
        ..ExporterConfig::new(version)
    };
    let has_datagrams = targets.iter().any(|target| !target.is_connection());
    match parameters.integer("datagram_octets_max") as usize {
        0 if !has_datagrams => config.datagram_octets_max = CONNECTION_OCTETS,
        0 => {}
        octets => config.datagram_octets_max = octets,
    }
    let key = |error: &ConfigError| match error {
        ConfigError::DatagramOctets { .. } => "datagram_octets_max",
        ConfigError::Domain { .. } => "domain",
        _ => "version",
    };
    // what is announced apart may be longer than a datagram, unless there is a collector that gets datagrams
    let checked = ExporterConfig { announces_apart: !has_datagrams, ..config.clone() };
    checked.check().map_err(|error| ParameterError::new(key(&error), error.to_string()))?;
    Ok(config)
}

/// Certificates, where there is a collector that is reached over TLS.
fn tls(parameters: &Parameters, targets: &[Target]) -> Result<Option<TlsClientOptions>, ParameterError> {
    let path = |key| parameters.path(key);
    if !targets.iter().any(|target| target.transport == Transport::Tls) {
        let given = ["tls_ca", "tls_cert", "tls_key", "tls_name"].into_iter().find(|key| parameters.has(key));
        return match given {
            Some(key) => {
                Err(ParameterError::new(key, format!("'{key}' is of no use: no collector is reached over TLS"))
                    .with_hint("send to tls://collector.example:4740"))
            }
            None => Ok(None),
        };
    }
    let needs = |key: &str, other: &str| ParameterError::new(key, format!("'{key}' must be given with '{other}'"));
    let identity = match (path("tls_cert"), path("tls_key")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(needs("tls_key", "tls_cert")),
        (None, Some(_)) => return Err(needs("tls_cert", "tls_key")),
    };
    Ok(Some(TlsClientOptions { authorities: path("tls_ca"), identity }))
}
