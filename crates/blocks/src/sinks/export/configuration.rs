//! What the options of the sink `export` mean.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_chain::{ComponentError, OptionError, TimeSpan};
use weir_collect::Transport;
use weir_export::{ConfigError, ExporterConfig, TemplateRefresh, Version};
use weir_secure::{TlsClient, TlsClientOptions};

use super::link::QueueLimits;
use super::options::{Distribution, ExportClock, ExportOptions, ExportTlsOptions};
use super::stream::Dialling;
use super::target::{Target, is_remote};

/// Messages of connections: some hundred flows, and room for them in the buffers of collectors that take little.
const CONNECTION_OCTETS: usize = 8192;
/// Patience with connections at the end.
const FINISH_TIMEOUT: TimeSpan = TimeSpan::from_secs(10);

/// What the options mean.
#[derive(Debug)]
pub(super) struct Configuration {
    pub targets: Vec<Target>,
    pub exporter: ExporterConfig,
    pub from: Option<IpAddr>,
    pub is_in_turn: bool,
    pub is_clock_of_rows: bool,
    pub records_per_second: Option<u32>,
    pub queue_timeout: Duration,
    pub queue_limits: QueueLimits,
    pub finish_timeout: Duration,
    pub stop_timeout: Duration,
    stall_timeout: Duration,
    allow_remote: bool,
    tls: Option<TlsClientOptions>,
    tls_name: Option<String>,
}

impl Configuration {
    pub(super) fn of(options: ExportOptions) -> Result<Self, OptionError> {
        let targets = options.to.clone();
        check_targets(&targets, options.allow_remote)?;
        let patience = &options.patience;
        if patience.stall_timeout < TimeSpan::from_secs(1) {
            return Err(OptionError::new("stall_timeout", "'stall_timeout' must be 1s or more"));
        }
        if options.messages.template_refresh < TimeSpan::from_secs(1) {
            return Err(OptionError::new("template_refresh", "'template_refresh' must be 1s or more"));
        }
        check_source(options.from, &targets)?;
        Ok(Self {
            exporter: exporter(&options, &targets)?,
            from: options.from,
            is_in_turn: options.messages.distribute == Distribution::RoundRobin,
            is_clock_of_rows: options.clock == ExportClock::Rows,
            records_per_second: options.records_per_second,
            queue_timeout: options.messages.queue_timeout.duration(),
            queue_limits: QueueLimits {
                octets_max: patience.queue_size.bytes() as usize,
                timeout: patience.room_timeout.unwrap_or_default().duration(),
            },
            finish_timeout: patience.finish_timeout.unwrap_or(FINISH_TIMEOUT).duration(),
            stop_timeout: patience.stop_timeout.unwrap_or(FINISH_TIMEOUT).duration(),
            stall_timeout: patience.stall_timeout.duration(),
            allow_remote: options.allow_remote,
            tls_name: options.tls.tls_name.clone().filter(|name| !name.is_empty()),
            tls: tls(options.tls, &targets)?,
            targets,
        })
    }

    /// The address of a collector that gets datagrams.
    pub(super) fn address(&self, target: &Target) -> Result<SocketAddr, ComponentError> {
        let addresses = self.addresses(target)?;
        addresses.first().copied().ok_or_else(|| ComponentError::new(format!("{target} has no address")))
    }

    /// How a collector with a connection is reached. Its name is looked up, so that a wrong one is reported at the start.
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

fn check_targets(targets: &[Target], allow_remote: bool) -> Result<(), OptionError> {
    if targets.is_empty() {
        return Err(OptionError::new("to", "at least one address is needed"));
    }
    let mut addresses = targets.iter().filter_map(Target::literal);
    match addresses.find(is_remote).filter(|_| !allow_remote) {
        Some(remote) => Err(OptionError::new("to", format!("{remote} is not on this machine")).with_hint(REMOTE_HINT)),
        None => Ok(()),
    }
}

/// The address to send from must be able to reach all targets.
fn check_source(from: Option<IpAddr>, targets: &[Target]) -> Result<(), OptionError> {
    let Some(from) = from else { return Ok(()) };
    let mut addresses = targets.iter().filter_map(Target::literal);
    match addresses.find(|address| address.is_ipv4() != from.is_ipv4()) {
        Some(target) => Err(OptionError::new("from", format!("nothing can be sent from {from} to {target}"))),
        None => Ok(()),
    }
}

fn exporter(options: &ExportOptions, targets: &[Target]) -> Result<ExporterConfig, OptionError> {
    let messages = &options.messages;
    let version = messages.protocol.version();
    if let Some(target) = targets.iter().find(|target| target.is_connection() && version != Version::Ipfix) {
        let error = OptionError::new("protocol", format!("{version} goes over UDP alone, not to {target}"));
        return Err(error.with_hint("IPFIX goes over connections: 'protocol = \"ipfix\"'"));
    }
    let refresh_secs = messages.template_refresh.duration().as_secs();
    let mut config = ExporterConfig {
        domain: options.domain,
        template_refresh: TemplateRefresh {
            datagrams: messages.template_refresh_datagrams,
            secs: u32::try_from(refresh_secs).unwrap_or(u32::MAX),
        },
        announces_apart: true,
        ..ExporterConfig::new(version)
    };
    let has_datagrams = targets.iter().any(|target| !target.is_connection());
    match messages.message_size_max {
        None if !has_datagrams => config.datagram_octets_max = CONNECTION_OCTETS,
        None => {}
        Some(size) => config.datagram_octets_max = size.bytes() as usize,
    }
    let key = |error: &ConfigError| match error {
        ConfigError::DatagramOctets { .. } => "message_size_max",
        ConfigError::Domain { .. } => "domain",
        _ => "protocol",
    };
    // what is announced apart may be longer than a datagram, unless there is a collector that gets datagrams
    let checked = ExporterConfig { announces_apart: !has_datagrams, ..config.clone() };
    checked.check().map_err(|error| OptionError::new(key(&error), error.to_string()))?;
    Ok(config)
}

/// Certificates, where there is a collector that is reached over TLS.
fn tls(options: ExportTlsOptions, targets: &[Target]) -> Result<Option<TlsClientOptions>, OptionError> {
    if !targets.iter().any(|target| target.transport == Transport::Tls) {
        return match weir_chain::Options::changed(&options).first() {
            Some((key, _)) => {
                Err(OptionError::new(*key, format!("'{key}' has no effect: no collector is reached over TLS"))
                    .with_hint("send to tls://collector.example:4740"))
            }
            None => Ok(None),
        };
    }
    let needs = |key: &str, other: &str| OptionError::new(key, format!("'{key}' must be given with '{other}'"));
    let identity = match (options.tls_cert, options.tls_key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(needs("tls_key", "tls_cert")),
        (None, Some(_)) => return Err(needs("tls_cert", "tls_key")),
    };
    Ok(Some(TlsClientOptions { authorities: options.tls_ca, identity }))
}
