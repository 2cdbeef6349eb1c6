//! Receives export datagrams and hands on their flows with the books.
//!
//! A thin shell around [`weir_collect::Collector`], whose threads receive and decode: the thread of this block only
//! takes what they have ready, so that nothing in the chain can reach back to a socket.

mod kept;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use weir_chain::{
    Built, Burst, ComponentError, ComponentKind, Counter, Opener, Outlet, ParameterError, ParameterSpec, ParameterType,
    Parameters, Pulled, Role, Source,
};
use weir_collect::{
    ClientAuth, Collector, CollectorOptions, Limits, Listener, ListenerInfo, Next, RelayOptions, SessionLimits,
    TlsOptions, Transport,
};

use crate::books_counters::BooksCounters;
use kept::{Kept, filtered_counter};

/// A live collector.
pub const KIND: ComponentKind = ComponentKind {
    name: "collector",
    role: Role::Source,
    inputs: &[],
    doc: "Receives NetFlow v1, v5, v7 and v9, IPFIX and sFlow version 5 over UDP and DTLS, and IPFIX over TCP, TLS and \
          SCTP. It hands on flows, in the order in which each socket received them, together with the lines of the books \
          that account for them. Of UDP and DTLS, what does not fit into its queue is dropped there and counted in \
          queue_drops, what the kernel drops in kernel_drops; an exporter on a connection is slowed down instead. When the \
          chain stops, it hands on what the kernel still holds first. Its counters are those of the books, one for each \
          kind of decoding error, and one for each reason why a connection was refused or closed.",
    parameters: &[
        ParameterSpec {
            key: "listen",
            parameter_type: ParameterType::Texts,
            default: Some("\"127.0.0.1:2055\""),
            doc: "Where to listen: addresses and ports with the transport before them, such as udp://0.0.0.0:2055, \
                  tcp://[::]:4739, tls://0.0.0.0:4740, dtls://0.0.0.0:4740 or sctp://0.0.0.0:4739; without one it is \
                  UDP. Port 0 takes a free one.",
        },
        ParameterSpec {
            key: "sockets",
            parameter_type: ParameterType::Integer(1, 1024),
            default: Some("1"),
            doc: "Sockets that share the port of a UDP listener, each with a thread that receives and one that decodes.",
        },
        ParameterSpec {
            key: "buffer_octets",
            parameter_type: ParameterType::Integer(1, 1 << 40),
            default: Some("67108864"),
            doc: "Receive buffer to ask the kernel for, per socket.",
        },
        ParameterSpec {
            key: "queue_datagram_bursts",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("256"),
            doc: "Bursts of up to 64 datagrams between a socket and its decoder.",
        },
        ParameterSpec {
            key: "queue_deliveries",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("8"),
            doc: "Deliveries of some 32768 flows between the decoders and the chain.",
        },
        ParameterSpec {
            key: "where",
            parameter_type: ParameterType::Text,
            default: Some("\"\""),
            doc: "Flows to hand on, in nfdump's filter language; the others are counted in records_filtered and told in \
                  the books. Empty: all.",
        },
        ParameterSpec {
            key: "connections_max",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("1024"),
            doc: "Most connections and DTLS sessions at a time; more are refused and counted in connections_refused.",
        },
        ParameterSpec {
            key: "connections_per_source_max",
            parameter_type: ParameterType::Integer(1, 1 << 20),
            default: Some("256"),
            doc: "Most of them from one address.",
        },
        ParameterSpec {
            key: "idle_timeout_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("1800"),
            doc: "Connections without a message for so long are closed and counted in connections_failed.",
        },
        ParameterSpec {
            key: "tls_cert",
            parameter_type: ParameterType::Path,
            default: Some(""),
            doc: "PEM file of the certificate for TLS and DTLS, followed by those of the authorities up to the root.",
        },
        ParameterSpec {
            key: "tls_key",
            parameter_type: ParameterType::Path,
            default: Some(""),
            doc: "PEM file of its private key.",
        },
        ParameterSpec {
            key: "tls_ca",
            parameter_type: ParameterType::Path,
            default: Some(""),
            doc: "PEM file of the authorities that sign the certificates of exporters.",
        },
        ParameterSpec {
            key: "tls_client_auth",
            parameter_type: ParameterType::Choice(&["require", "request", "none"]),
            default: Some("\"require\""),
            doc: "Whether exporters must show a certificate; one that is requested is checked when it comes.",
        },
        ParameterSpec {
            key: "tls_peers",
            parameter_type: ParameterType::Texts,
            default: Some(""),
            doc: "Names of which the certificate of an exporter must have one: DNS names, addresses, or common names of \
                  certificates without DNS names. Without it any certificate of the authorities will do.",
        },
        ParameterSpec {
            key: "relay",
            parameter_type: ParameterType::Texts,
            default: Some(""),
            doc: "Other collectors, as host:port, that get every datagram as it came, over UDP. Messages of connections \
                  are relayed up to 1452 octets. What they do not get is counted in relay_drops and relay_failures.",
        },
        ParameterSpec {
            key: "relay_keep_source",
            parameter_type: ParameterType::Boolean,
            default: Some("false"),
            doc: "Whether relayed datagrams have the address of the exporter, for which the system asks CAP_NET_RAW.",
        },
        ParameterSpec {
            key: "relay_sources",
            parameter_type: ParameterType::Texts,
            default: Some(""),
            doc: "Networks of exporters to relay, such as 192.0.2.0/24; without it all are.",
        },
        ParameterSpec {
            key: "state",
            parameter_type: ParameterType::Path,
            default: Some(""),
            doc: "Folder in which templates, samplers and waiting data are kept from one start to the next, so that the \
                  first datagram after a restart is decoded; made when it is not there. Left out: nothing is kept, and data \
                  waits for its template in memory only.",
        },
        ParameterSpec {
            key: "templates_across_ports",
            parameter_type: ParameterType::Boolean,
            default: Some("false"),
            doc: "Whether data may be read by templates that the exporter has sent from another port. For exporters that \
                  send both from different ports; wrong where several exporters share an address.",
        },
        limit(
            "domains_max",
            "65536",
            "Most pairs of transport session and Observation Domain. For a new one the one \
              worth least is forgotten, counted in domains_evicted.",
        ),
        limit(
            "domain_idle_secs",
            "1800",
            "How long an exporter that has sent flows for a while is kept after its last \
              datagram when others want its place.",
        ),
        limit(
            "templates_per_domain_max",
            "4096",
            "Most templates of an Observation Domain; more are counted in \
              templates_refused.",
        ),
        limit(
            "templates_max",
            "131072",
            "Most templates of all exporters. For a new one those of exporters that send \
              nothing are given up, counted in templates_evicted.",
        ),
        limit("template_fields_max", "524288", "Most fields of all templates; the same happens."),
        limit(
            "template_lifetime_secs",
            "1800",
            "How long a template that came over UDP is used when it is not sent \
              again; then it counts in templates_expired. 0: for ever.",
        ),
        limit("samplers_max", "262144", "Most samplers of all exporters; more are counted in samplers_refused."),
        limit(
            "duplicate_datagrams_max",
            "64",
            "Datagrams of an Observation Domain among which one that comes again is known, dropped and counted in \
              datagrams_duplicate; 0 keeps them all.",
        ),
        limit(
            "sources_max",
            "131072",
            "Most sources of sFlow samples of all agents; more are counted in sources_refused.",
        ),
        limit(
            "waiting_octets_max",
            "67108864",
            "Most octets of data that waits for its template in memory. When full, \
              the oldest goes to the state folder or, without one, is given up and counted in sets_expired.",
        ),
        limit(
            "waiting_secs_max",
            "1800",
            "Longest time that data waits for its template; then it counts in \
              sets_expired.",
        ),
        limit(
            "spool_octets_max",
            "1073741824",
            "Most octets of data that waits in the state folder; when full, the \
              oldest is given up and counted in sets_expired.",
        ),
        limit("spool_sets_max", "131072", "Most Data Sets that wait in the state folder; the same happens."),
    ],
    configure,
};

/// A parameter for one of the limits of each decoder.
const fn limit(key: &'static str, default: &'static str, doc: &'static str) -> ParameterSpec {
    ParameterSpec { key, parameter_type: ParameterType::Integer(0, 1 << 40), default: Some(default), doc }
}

/// The limits of each decoder.
fn limits(parameters: &Parameters) -> Limits {
    let size = |key| parameters.integer(key) as usize;
    let secs = |key| u32::try_from(parameters.integer(key)).unwrap_or(u32::MAX);
    Limits {
        domains_max: size("domains_max"),
        domain_idle_secs: secs("domain_idle_secs"),
        templates_per_domain_max: size("templates_per_domain_max"),
        templates_max: size("templates_max"),
        template_fields_max: size("template_fields_max"),
        template_lifetime_secs: secs("template_lifetime_secs"),
        samplers_max: size("samplers_max"),
        duplicate_datagrams_max: size("duplicate_datagrams_max"),
        sources_max: size("sources_max"),
        waiting_octets_max: size("waiting_octets_max"),
        waiting_secs_max: secs("waiting_secs_max"),
        spool_octets_max: parameters.integer("spool_octets_max"),
        spool_sets_max: size("spool_sets_max"),
    }
}

/// Longest time that the block waits for a delivery.
const WAIT: Duration = Duration::from_millis(100);

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let listeners: Vec<Listener> = parse_all(parameters, "listen")?;
    let Some(first) = listeners.first() else {
        return Err(ParameterError::new("listen", "'listen' names no address"));
    };
    let options = CollectorOptions {
        sockets: parameters.integer("sockets") as usize,
        buffer_octets: parameters.integer("buffer_octets") as usize,
        queue_bursts_max: parameters.integer("queue_datagram_bursts") as usize,
        queue_deliveries_max: parameters.integer("queue_deliveries") as usize,
        limits: limits(parameters),
        state: parameters.path("state"),
        templates_across_ports: parameters.boolean("templates_across_ports"),
        sessions: SessionLimits {
            connections_max: parameters.integer("connections_max") as usize,
            connections_per_source_max: parameters.integer("connections_per_source_max") as usize,
            idle_timeout: parameters.duration("idle_timeout_secs"),
            ..SessionLimits::default()
        },
        tls: tls(parameters, &listeners)?,
        relay: relay(parameters)?,
        ..CollectorOptions::new(first.address)
    };
    let options = CollectorOptions { listeners, ..options };
    let kept = Kept::configure(parameters, "where")?;
    Ok(Box::new(move |context| {
        let collector = Collector::start(&options).map_err(|error| ComponentError::caused("cannot collect", error))?;
        collector.notices().iter().for_each(|notice| eprintln!("{notice}"));
        tell(&collector);
        let (counters, filtered) = (BooksCounters::new(context), filtered_counter(context));
        Ok(Built::Source(Box::new(Live { collector, kept: kept.clone(), counters, filtered })))
    }))
}

/// The texts of a parameter as what they mean.
fn parse_all<T: FromStr<Err: Display>>(parameters: &Parameters, key: &'static str) -> Result<Vec<T>, ParameterError> {
    let parse = |text: String| {
        text.parse().map_err(|error: T::Err| {
            // errors of the collector have their remedy on a line of its own
            let error = error.to_string();
            match error.split_once("\nhint: ") {
                Some((error, hint)) => ParameterError::new(key, error).with_hint(hint),
                None => ParameterError::new(key, error),
            }
        })
    };
    parameters.texts(key).into_iter().map(parse).collect()
}

/// Certificates, where there is a listener that needs them.
fn tls(parameters: &Parameters, listeners: &[Listener]) -> Result<Option<TlsOptions>, ParameterError> {
    if !listeners.iter().any(|listener| listener.is_secure()) {
        let given = ["tls_cert", "tls_key", "tls_ca"].into_iter().find(|key| parameters.path(key).is_some());
        return match given {
            Some(key) => Err(ParameterError::new(key, format!("'{key}' is of no use: no listener has TLS or DTLS"))
                .with_hint("listen on tls://0.0.0.0:4740 or dtls://0.0.0.0:4740")),
            None => Ok(None),
        };
    }
    let file = |key: &'static str| {
        parameters
            .path(key)
            .ok_or_else(|| ParameterError::new(key, format!("'{key}' must be given for a listener with TLS or DTLS")))
    };
    let client_auth = match parameters.text("tls_client_auth") {
        "none" => ClientAuth::None,
        "request" => ClientAuth::Request,
        _ => ClientAuth::Require,
    };
    Ok(Some(TlsOptions {
        certificate: file("tls_cert")?,
        key: file("tls_key")?,
        authorities: parameters.path("tls_ca"),
        client_auth,
        peers: parameters.texts("tls_peers"),
    }))
}

fn relay(parameters: &Parameters) -> Result<Option<RelayOptions>, ParameterError> {
    let (targets, sources) = (parameters.texts("relay"), parse_all(parameters, "relay_sources")?);
    let keep_source = parameters.boolean("relay_keep_source");
    Ok((!targets.is_empty()).then(|| RelayOptions { keep_source, sources, ..RelayOptions::new(targets) }))
}

/// Scripts wait for this line, whatever is logged.
fn tell(collector: &Collector) {
    let sockets = collector.sockets();
    if let Some(first) = sockets.first() {
        eprintln!(
            "listening on {} with {} sockets, receive buffer {} KiB each",
            first.local,
            sockets.iter().filter(|socket| socket.local == first.local).count(),
            first.buffer_octets_granted / 1024
        );
        if first.buffer_octets_granted < first.buffer_octets_asked {
            eprintln!(
                "asked for a receive buffer of {} KiB\nhint: sysctl -w net.core.rmem_max={}",
                first.buffer_octets_asked / 1024,
                first.buffer_octets_asked
            );
        }
    }
    let udp = |info: &&ListenerInfo| info.transport == Transport::Udp;
    let told = usize::from(!sockets.is_empty());
    let (more, others): (Vec<&ListenerInfo>, Vec<&ListenerInfo>) = collector.listeners().iter().partition(udp);
    for info in more.into_iter().skip(told).chain(others) {
        eprintln!("listening on {}://{}", info.transport.name(), info.local);
    }
}

struct Live {
    collector: Collector,
    kept: Kept,
    counters: BooksCounters,
    filtered: Counter,
}

impl Source for Live {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, ComponentError> {
        let next = self.collector.next(WAIT);
        self.counters.set(&self.collector.statistics());
        if let Some(notice) = self.collector.take_notice() {
            tracing::warn!("{notice}");
        }
        match next {
            Ok(Next::Delivery(delivery)) => {
                out.burst(Burst::from(self.kept.of(delivery, &self.filtered)?));
                Ok(Pulled::More)
            }
            Ok(Next::Nothing) => Ok(Pulled::Nothing),
            Ok(Next::Ended) => Ok(Pulled::Ended),
            Err(error) => Err(ComponentError::caused("collecting ended", error)),
        }
    }

    fn stop(&mut self) {
        self.collector.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::UdpSocket;

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use weir_chain::compliance;
    use weir_export::{ExporterConfig, Version};
    use weir_generate::{SendPlan, Stream, TrafficModel, send};

    use super::*;

    /// The compliance test takes a reference that lives as long as the program. It has no end of its own, so the test
    /// of sources cannot read it; what follows asks for the same.
    const COLLECTOR: &ComponentKind = &KIND;

    #[test]
    fn the_defaults_are_those_of_the_collector() {
        let parameters = Parameters::new(KIND.parameters, &"".parse().expect("TOML"), ".").expect("checked");
        assert_eq!(limits(&parameters), Limits::default());
    }

    #[test]
    fn flows_left_out_are_in_the_books() {
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let (Built::Source(mut source), context) =
            compliance::open(COLLECTOR, &format!("listen = '{free}'\nwhere = 'bytes < 300 or bytes > 8999'"))
        else {
            panic!("a source")
        };
        // the octets of numbered flows are their numbers
        let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(9_000).expect("a model");
        let streams =
            [Version::V5, Version::Ipfix].map(|version| Stream { source: None, config: ExporterConfig::new(version) });
        send(&mut flows, &streams, &SendPlan { target: free, ..SendPlan::to_loopback(0) }).expect("sent");
        source.stop();
        let (mut out, mut rows, mut sums) = (Outlet::new(), 0, weir_flow::BooksSums::default());
        let mut ended = false;
        while !ended {
            ended = source.pull(&mut out).expect("no failure") == Pulled::Ended;
            for burst in out.drain() {
                rows += burst.len() as u64;
                burst.side_tables().books.iter().for_each(|books| sums.add(books, i64::MIN, i64::MAX));
            }
        }
        let told = sums.completeness();
        assert_eq!((rows, told.stored, told.filtered), (300, 300, 8_700));
        assert!(told.is_complete(), "{told}");
        assert_eq!(context.counters.counter("records_filtered").get(), 8_700);
    }

    #[test]
    fn what_was_sent_is_handed_on_with_its_books_before_it_ends() {
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let (Built::Source(mut source), context) =
            compliance::open(COLLECTOR, &format!("listen = '{free}'\nsockets = 2"))
        else {
            panic!("a source")
        };
        let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(20_000).expect("a model");
        let streams = [Version::V5, Version::V9, Version::Ipfix]
            .map(|version| Stream { source: None, config: ExporterConfig::new(version) });
        let plan = SendPlan { target: free, ..SendPlan::to_loopback(0) };
        let sent = send(&mut flows, &streams, &plan).expect("sent");
        source.stop();
        let (mut out, mut numbers, mut booked) = (Outlet::new(), Vec::new(), 0);
        let mut ended = false;
        while !ended {
            ended = source.pull(&mut out).expect("no failure") == Pulled::Ended;
            for burst in out.drain() {
                let (rows, side_tables) = burst.into_parts();
                let bytes =
                    rows.column_by_name("bytes").map(|bytes| bytes.as_primitive::<UInt64Type>().values().to_vec());
                numbers.extend(bytes.unwrap_or_default());
                let stored = side_tables.batches().filter_map(|(_, books)| books.column_by_name("records_stored"));
                booked += stored.flat_map(|stored| stored.as_primitive::<UInt64Type>().values()).sum::<u64>();
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20_000).collect::<Vec<_>>());
        let counter = |name| context.counters.counter(name).get();
        assert_eq!((booked, counter("records_stored"), counter("datagrams")), (20_000, 20_000, sent.datagrams));
    }

    #[test]
    fn listeners_of_several_transports() {
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let text = format!("listen = ['tcp://{free}', 'udp://{free}', '[::1]:0']\nrelay_sources = '192.0.2.0/24'");
        let (Built::Source(mut source), context) = compliance::open(COLLECTOR, &text) else { panic!("a source") };
        let mut flows = TrafficModel::new(1).flows(100).expect("a model");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let streams = [Stream { source: None, config: ExporterConfig::new(Version::Ipfix) }];
        let std::net::SocketAddr::V4(target) = free else { unreachable!("IPv4") };
        weir_generate::write_pcap(file.path(), &mut flows, &streams, target).expect("written");
        let mut messages = Vec::new();
        let capture = std::fs::File::open(file.path()).expect("the capture");
        weir_collect::capture::read(capture, |datagram| messages.extend_from_slice(datagram.payload)).1.expect("read");
        std::net::TcpStream::connect(free).and_then(|mut stream| stream.write_all(&messages)).expect("sent");
        source.stop();
        let mut out = Outlet::new();
        while source.pull(&mut out).expect("no failure") != Pulled::Ended {}
        let counter = |name| context.counters.counter(name).get();
        assert_eq!((counter("records_stored"), counter("connections_accepted")), (100, 1));
        assert!(out.drain().next().is_some());
    }

    #[test]
    fn parameters_are_checked() {
        for (text, expected) in [
            ("listen = 'quic://0.0.0.0:1'", "'quic' is no transport"),
            ("listen = ['udp://0.0.0.0:1', 'tcp://nowhere']", "'nowhere' is no address and port"),
            ("listen = []", "'listen' names no address"),
            ("listen = 'tls://127.0.0.1:0'", "'tls_cert' must be given"),
            ("tls_key = 'key.pem'", "'tls_key' is of no use"),
            ("relay_sources = '192.0.2.0/33'", "'192.0.2.0/33' is no network"),
        ] {
            let table = text.parse().expect("parameters");
            let parameters = Parameters::new(KIND.parameters, &table, ".").expect("parameters");
            let error = configure(&parameters).err().expect("an error").message;
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
