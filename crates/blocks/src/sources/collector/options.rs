//! The options of the source `collector`.

use std::fmt::Display;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use weir_chain::toml::{Table, Value};
use weir_chain::{ByteSize, ComponentError, OptionError, Options, Rate, TimeSpan, choices, options};
use weir_collect::{
    AgentRule, Collector, CollectorOptions, Limits, Listener, Network, RelayOptions, Senders, SessionLimits,
};
use weir_secure::{ClientAuth, TlsServerOptions};

choices! {
    /// Whether exporters must show a certificate.
    pub enum ClientCertificate {
        /// Refuse exporters without one.
        Require = "require",
        /// Check the one that is shown, accept exporters without one.
        Request = "request",
        /// Do not ask for one.
        None = "none",
    }
}

options! {
    /// Options of the source `collector`.
    pub struct CollectorSourceOptions {
        /// Folder of the archive that the flows go to. Sequence numbers go on from where that archive has them: what exporters
        /// sent while the collector was down, and what did not get into the archive, counts as lost. Nothing between this
        /// component and the archive should hold flows back, and nothing else should bring these flows. Without it nothing is
        /// known of the time before the start.
        archive: Option<PathBuf>,
    }
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

impl CollectorSourceOptions {
    /// Who may send by these options, for a collector that runs and began with others, as
    /// [`ask_with`](weir_chain::ReloadSignal::ask_with) gives it to the component: the keys `listen` and `allow`. `None` when
    /// something else is not as it was, the addresses of listeners or their order among it, which takes another collector.
    /// Networks that are none are an error, and so are files of networks or certificates that cannot be used.
    pub fn senders_after(&self, begun_with: &Self) -> Result<Option<Table>, OptionError> {
        if self.without_senders().changed() != begun_with.without_senders().changed() {
            return Ok(None);
        }
        let ListenOptions { listen, allow, .. } = &self.listening;
        Collector::check_certificates(&collector_options(self.clone())?)
            .map_err(|error| OptionError::new("", ComponentError::caused("cannot collect", error).chain()))?;
        let table = [("listen", listen), ("allow", allow)];
        Ok(Some(table.map(|(key, texts)| (key.to_owned(), Value::from(texts.clone()))).into_iter().collect()))
    }

    /// The same options, with which everybody may send.
    fn without_senders(&self) -> Self {
        let mut options = self.clone();
        options.listening.allow.clear();
        for listener in &mut options.listening.listen {
            let end = listener.find('?').unwrap_or(listener.len());
            listener.truncate(end);
        }
        options
    }
}

options! {
    /// Where datagrams and connections come in, and what is kept of them.
    pub struct ListenOptions {
        /// Listen here: an address and port with the transport before them, such as udp://0.0.0.0:2055, tcp://[::]:4739,
        /// tls://0.0.0.0:4740, dtls://0.0.0.0:4740 or sctp://0.0.0.0:4739; without a transport it is UDP. Port 0 takes a
        /// free one. Networks of those who may send there can follow, as in udp://0.0.0.0:2055?allow=192.0.2.0/24,@FILE;
        /// they apply in place of 'allow'.
        listen: Vec<String> = vec!["127.0.0.1:2055".to_owned()],
        /// Keep only flows that match, in nfdump's filter language; the others are counted in the books under
        /// records_filtered.
        filter: Option<String>,
        /// Keep templates, samplers and waiting data in this folder from one start to the next, so that the first datagram
        /// after a restart is decoded; made when missing. Without it nothing is kept, and data waits for its template in
        /// memory only.
        state: Option<PathBuf>,
        /// Take datagrams and connections from these networks only, such as 192.0.2.0/24, or from those in a file, @FILE, with
        /// one in each line; without it from everybody. A listener with networks of its own goes by those. What others send is
        /// counted in datagrams_not_allowed and connections_refused, and not looked at. SIGHUP has files read again.
        allow: Vec<String> = Vec::new(),
        /// Take sFlow only from agents themselves, and from those who may speak for them: each as AGENTS=SOURCES, two networks
        /// or addresses, such as 198.51.100.0/24=192.0.2.7 for a relay. Datagrams of others are counted in
        /// datagrams_not_allowed. `self` alone lets nobody speak for others. Without it whoever may send can speak for any
        /// agent.
        sflow_agents: Vec<String> = Vec::new(),
        /// Take at most this many datagrams a second, over UDP and DTLS, from one address or from one IPv6 network of 64 bits,
        /// such as 50k; without it there is no limit. A source may send ten seconds of that at once, as it does after a stall.
        /// What is more is counted in datagrams_over_rate and not looked at, and the log names the source.
        rate_per_source: Option<Rate>,
        /// Sockets that share the port of a UDP listener, each with a thread that receives and one that decodes.
        sockets: usize = 1 => 1..=1024,
        /// Receive buffer to ask the kernel for, per socket.
        buffer: ByteSize = ByteSize::from_mib(64) => 1..=1 << 40,
        /// Bursts of up to 64 datagrams between a socket and its decoder.
        queue_datagram_bursts: usize = 256 => 1..=1 << 20,
        /// Deliveries of some 32768 flows between the decoders and the chain.
        queue_deliveries: usize = 8 => 1..=1 << 20,
        /// Decode data by templates, and scale it by samplers, that the exporter sent from another port, for exporters that
        /// send them from different ports; wrong where several exporters share an address.
        templates_across_ports: bool = false,
    }
}

options! {
    /// Limits of connections.
    pub struct ConnectionOptions {
        /// Accept at most this many connections and DTLS sessions at a time. When there are more, the oldest connection that never
        /// sent a message is closed; else they are refused and counted in connections_refused.
        connections_max: usize = 1024 => 1..=1 << 20,
        /// Accept at most this many connections from one address, or from one IPv6 network of 64 bits.
        connections_per_source_max: usize = 256 => 1..=1 << 20,
        /// At most this many handshakes of TLS and DTLS at a time; when there are more, the oldest is given up.
        handshakes_max: usize = 128 => 1..=1 << 20,
        /// At most this many handshakes at a time from one address, or from one IPv6 network of 64 bits.
        handshakes_per_source_max: usize = 32 => 1..=1 << 20,
        /// Close connections without a message for this long; they are counted in connections_failed.
        idle_timeout: TimeSpan = TimeSpan::from_secs(1800),
    }
}

options! {
    /// Certificates for TLS and DTLS.
    pub struct ListenerTlsOptions {
        /// PEM file of the certificate for TLS and DTLS, followed by those of the authorities up to the root.
        tls_cert: Option<PathBuf>,
        /// PEM file of the private key of `tls_cert`.
        tls_key: Option<PathBuf>,
        /// PEM file of the authorities that sign the certificates of exporters.
        tls_ca: Option<PathBuf>,
        /// PEM file of revocation lists of these authorities, one of each: what is in them is refused. SIGHUP has this file and
        /// those of certificates read again.
        tls_crl: Option<PathBuf>,
        /// Whether exporters must show a certificate.
        tls_client_auth: ClientCertificate = ClientCertificate::Require,
        /// Accept only exporters whose certificate has one of these names: DNS names, addresses, or common names of
        /// certificates without DNS names. Without it any certificate of the authorities is accepted.
        tls_peers: Vec<String> = Vec::new(),
    }
}

options! {
    /// Other collectors that get every datagram.
    pub struct RelayingOptions {
        /// Send every datagram as it came to this collector as well, HOST:PORT over UDP. Messages of connections are relayed
        /// up to 1452 bytes. What is not sent is counted in relay_drops and relay_failures.
        relay: Vec<String> = Vec::new(),
        /// Send relayed datagrams under the address of the exporter; it takes CAP_NET_RAW.
        relay_keep_source: bool = false,
        /// Relay only exporters of these networks, such as 192.0.2.0/24.
        relay_sources: Vec<String> = Vec::new(),
        /// Hold at most this much that waits to be relayed; what comes then is not relayed, and counted in relay_drops.
        relay_queue_size_max: ByteSize = ByteSize::from_mib(64) => COUNT,
    }
}

/// A large range for limits, small enough to multiply.
const COUNT: std::ops::RangeInclusive<u64> = 0..=1 << 40;

options! {
    /// Limits of each decoder: what whoever sends datagrams can fill.
    pub struct LimitOptions {
        /// Remember at most this many pairs of transport session and Observation Domain. For a new one the one worth least
        /// is forgotten, counted in domains_evicted. One address, or one IPv6 network of 64 bits, has half of them at most, and
        /// more as long as a quarter of all is vacant; beyond that its own are forgotten for its new ones, and when it sends of more
        /// new ones in a second than it has, its datagrams are counted in datagrams_refused.
        domains_max: usize = Limits::default().domains_max => COUNT,
        /// Keep an exporter that has sent flows for a while this long after its last datagram when others want its place.
        domain_idle: TimeSpan = TimeSpan::from_secs(u64::from(Limits::default().domain_idle_secs)),
        /// Remember at most this many templates of an Observation Domain; more are counted in templates_refused.
        templates_per_domain_max: usize = Limits::default().templates_per_domain_max => COUNT,
        /// Remember at most this many templates of all exporters. For a new one those of exporters that send nothing are
        /// dropped, counted in templates_evicted.
        templates_max: usize = Limits::default().templates_max => COUNT,
        /// Remember at most this many fields of all templates; over the limit the same happens.
        template_fields_max: usize = Limits::default().template_fields_max => COUNT,
        /// Use a template that came over UDP this long when it is not sent again; then it counts in templates_expired. 0s:
        /// for ever.
        template_lifetime: TimeSpan = TimeSpan::from_secs(u64::from(Limits::default().template_lifetime_secs)),
        /// Remember at most this many samplers of all exporters; more are counted in samplers_refused.
        samplers_max: usize = Limits::default().samplers_max => COUNT,
        /// Recognise a repeated datagram among this many of an Observation Domain; it is dropped and counted in
        /// datagrams_duplicate. 0 keeps them all.
        duplicate_datagrams_max: usize = Limits::default().duplicate_datagrams_max => COUNT,
        /// Remember at most this many sources of sFlow samples of all agents; more are counted in sources_refused.
        sources_max: usize = Limits::default().sources_max => COUNT,
        /// Hold at most this much data that waits for its template in memory. When full, the oldest goes to the state folder
        /// or, without one, is dropped and counted in sets_expired.
        waiting_size_max: ByteSize = ByteSize::from_bytes(Limits::default().waiting_octets_max as u64) => COUNT,
        /// Hold data that waits for its template at most this long; then it counts in sets_expired.
        waiting_max: TimeSpan = TimeSpan::from_secs(u64::from(Limits::default().waiting_secs_max)),
        /// Hold at most this much waiting data in the state folder; when full, the oldest is dropped and counted in
        /// sets_expired.
        spool_size_max: ByteSize = ByteSize::from_bytes(Limits::default().spool_octets_max) => COUNT,
        /// Hold at most this many Data Sets in the state folder; over the limit the same happens.
        spool_sets_max: usize = Limits::default().spool_sets_max => COUNT,
    }
}

/// The limits of each decoder.
pub(super) fn limits(options: &LimitOptions) -> Limits {
    let secs = |span: TimeSpan| u32::try_from(span.duration().as_secs()).unwrap_or(u32::MAX);
    Limits {
        domains_max: options.domains_max,
        domain_idle_secs: secs(options.domain_idle),
        templates_per_domain_max: options.templates_per_domain_max,
        templates_max: options.templates_max,
        template_fields_max: options.template_fields_max,
        template_lifetime_secs: secs(options.template_lifetime),
        samplers_max: options.samplers_max,
        duplicate_datagrams_max: options.duplicate_datagrams_max,
        sources_max: options.sources_max,
        waiting_octets_max: options.waiting_size_max.bytes() as usize,
        waiting_secs_max: secs(options.waiting_max),
        spool_octets_max: options.spool_size_max.bytes(),
        spool_sets_max: options.spool_sets_max,
    }
}

/// What the options mean to the crate that collects.
pub(super) fn collector_options(options: CollectorSourceOptions) -> Result<CollectorOptions, OptionError> {
    let CollectorSourceOptions { listening, connections, tls, relaying, limits, archive: _ } = options;
    let (listeners, allowed_by_listener) = parse_listeners(&listening.listen)?;
    let Some(first) = listeners.first() else {
        return Err(OptionError::new("listen", "'listen' names no address"));
    };
    Ok(CollectorOptions {
        senders: Senders {
            allowed: parse_networks(&listening.allow, "allow")?,
            allowed_by_listener,
            agent_rules: agent_rules(&listening.sflow_agents)?,
            rate_per_source: rate_per_source(listening.rate_per_source)?,
        },
        sockets: listening.sockets,
        buffer_octets: listening.buffer.bytes() as usize,
        queue_bursts_max: listening.queue_datagram_bursts,
        queue_deliveries_max: listening.queue_deliveries,
        limits: self::limits(&limits),
        state: listening.state,
        templates_across_ports: listening.templates_across_ports,
        sessions: SessionLimits {
            connections_max: connections.connections_max,
            connections_per_source_max: connections.connections_per_source_max,
            handshakes_max: connections.handshakes_max,
            handshakes_per_source_max: connections.handshakes_per_source_max,
            idle_timeout: connections.idle_timeout.duration(),
            ..SessionLimits::default()
        },
        tls: tls_options(tls, &listeners)?,
        relay: relay_options(relaying)?,
        listeners: listeners.clone(),
        ..CollectorOptions::new(first.address)
    })
}

/// Where to listen, and for each listener the networks of those who may send there; none where it goes by `allow`.
fn parse_listeners(texts: &[String]) -> Result<(Vec<Listener>, Vec<Vec<Network>>), OptionError> {
    let (mut addresses, mut networks) = (Vec::new(), Vec::new());
    for text in texts {
        let (address, query) =
            text.split_once('?').map_or((text.as_str(), None), |(address, query)| (address, Some(query)));
        check_port(address)?;
        addresses.push(address.to_owned());
        let Some(query) = query else {
            networks.push(Vec::new());
            continue;
        };
        let wrong = || {
            OptionError::new("listen", format!("'{}' is no option of a listener", query.escape_debug()))
                .with_hint("write the networks of those who may send there: udp://0.0.0.0:2055?allow=192.0.2.0/24")
        };
        let own: Vec<String> = query.strip_prefix("allow=").ok_or_else(wrong)?.split(',').map(str::to_owned).collect();
        networks.push(parse_networks(&own, "listen")?);
    }
    Ok((parse_all(&addresses, "listen")?, networks))
}

/// Refuses a port that is too high, as such: the address is one, and needs no other form.
fn check_port(listener: &str) -> Result<(), OptionError> {
    let address = listener.split_once("://").map_or(listener, |(_, address)| address);
    let Some((host, port)) = address.rsplit_once(':') else { return Ok(()) };
    let is_number = !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit());
    if is_number && port.parse::<u16>().is_err() && format!("{host}:0").parse::<SocketAddr>().is_ok() {
        let message = format!("'{address}' is no address and port: port {port} is above 65535");
        return Err(OptionError::new("listen", message));
    }
    Ok(())
}

/// The networks of an option, those of files among them.
fn parse_networks(texts: &[String], key: &'static str) -> Result<Vec<Network>, OptionError> {
    parse_all(&with_files(texts, key)?, key)
}

/// Who may speak for agents of sFlow.
fn agent_rules(texts: &[String]) -> Result<Option<Vec<AgentRule>>, OptionError> {
    let rules: Vec<String> = texts.iter().filter(|text| *text != "self").cloned().collect();
    let error = |error: OptionError| error.with_hint("write 198.51.100.0/24=192.0.2.7: agents, then sources");
    let rules = parse_all(&rules, "sflow_agents").map_err(error)?;
    Ok((!texts.is_empty()).then_some(rules))
}

/// The most datagrams a second of one source.
fn rate_per_source(rate: Option<Rate>) -> Result<Option<NonZeroU32>, OptionError> {
    let checked = |rate: Rate| {
        let rate = u32::try_from(rate.per_second()).ok().filter(|rate| *rate <= 1_000_000_000);
        rate.and_then(NonZeroU32::new)
    };
    let wrong = |rate: Rate| {
        OptionError::new("rate_per_source", format!("'{rate}' is no limit on datagrams a second"))
            .with_hint("write a rate from 1 to 1G, such as 50k, or leave the option out for no limit")
    };
    rate.map(|rate| checked(rate).ok_or_else(|| wrong(rate))).transpose()
}

/// The texts of an option, and for each `@FILE` the lines of the file; what follows a `#` is a remark.
fn with_files(texts: &[String], key: &'static str) -> Result<Vec<String>, OptionError> {
    let mut all = Vec::new();
    for text in texts {
        let Some(path) = text.strip_prefix('@') else {
            all.push(text.clone());
            continue;
        };
        let lines = std::fs::read_to_string(path)
            .map_err(|error| OptionError::new(key, format!("cannot read the networks in {path}: {error}")))?;
        let before = all.len();
        let lines = lines.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        all.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
        if all.len() == before {
            // no networks at all would let everybody in
            return Err(OptionError::new(key, format!("{path} has no network in it")));
        }
    }
    Ok(all)
}

/// The texts of an option as what they mean.
fn parse_all<T: FromStr<Err: Display>>(texts: &[String], key: &'static str) -> Result<Vec<T>, OptionError> {
    let parse = |text: &String| {
        text.parse().map_err(|error: T::Err| {
            // errors of the collector have their remedy on a line of its own
            let error = error.to_string();
            match error.split_once("\nhint: ") {
                Some((error, hint)) => OptionError::new(key, error).with_hint(hint),
                None => OptionError::new(key, error),
            }
        })
    };
    texts.iter().map(parse).collect()
}

/// Certificates, where there is a listener that needs them.
fn tls_options(options: ListenerTlsOptions, listeners: &[Listener]) -> Result<Option<TlsServerOptions>, OptionError> {
    let ListenerTlsOptions { tls_cert, tls_key, tls_ca, tls_crl, tls_client_auth, tls_peers } = options;
    if !listeners.iter().any(|listener| listener.is_secure()) {
        let files = [("tls_cert", &tls_cert), ("tls_key", &tls_key), ("tls_ca", &tls_ca), ("tls_crl", &tls_crl)];
        return match files.into_iter().find(|(_, path)| path.is_some()) {
            Some((key, _)) => Err(OptionError::new(key, format!("'{key}' has no effect: no listener has TLS or DTLS"))
                .with_hint("listen on tls://0.0.0.0:4740 or dtls://0.0.0.0:4740")),
            None => Ok(None),
        };
    }
    let file = |key: &str, path: Option<PathBuf>| {
        path.ok_or_else(|| OptionError::new(key, format!("'{key}' must be given for a listener with TLS or DTLS")))
    };
    Ok(Some(TlsServerOptions {
        certificate: file("tls_cert", tls_cert)?,
        key: file("tls_key", tls_key)?,
        authorities: tls_ca,
        revocations: tls_crl,
        client_auth: match tls_client_auth {
            ClientCertificate::Require => ClientAuth::Require,
            ClientCertificate::Request => ClientAuth::Request,
            ClientCertificate::None => ClientAuth::None,
        },
        peers: tls_peers,
    }))
}

fn relay_options(options: RelayingOptions) -> Result<Option<RelayOptions>, OptionError> {
    let RelayingOptions { relay, relay_keep_source: keep_source, relay_sources, relay_queue_size_max } = options;
    let sources = parse_all(&relay_sources, "relay_sources")?;
    Ok((!relay.is_empty()).then(|| RelayOptions {
        keep_source,
        sources,
        queue_octets_max: relay_queue_size_max.bytes() as usize,
        ..RelayOptions::new(relay)
    }))
}
