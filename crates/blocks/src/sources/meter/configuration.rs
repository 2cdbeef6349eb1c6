//! The parameters of the block `meter`.

use std::path::PathBuf;
use std::sync::Arc;

use weir_capture::{FileOptions, LiveOptions, PacketSource, SourceError, WarningHandler, open_files, open_live};
use weir_chain::{ParameterError, ParameterSpec, ParameterType, Parameters};
use weir_meter::{FastTimeout, KeyFields, KeyHeaders, Measures, MeterOptions, Selection, Timeouts};
use weir_routes::AsChoice;

use super::routes::RouteFiles;

pub(super) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "files",
        parameter_type: ParameterType::Paths,
        default: Some("[]"),
        doc: "Capture files; - for standard input.",
    },
    ParameterSpec {
        key: "interfaces",
        parameter_type: ParameterType::Texts,
        default: Some("[]"),
        doc: "Names of interfaces to capture on, instead of files; it takes CAP_NET_RAW.",
    },
    ParameterSpec {
        key: "filter",
        parameter_type: ParameterType::Text,
        default: Some(""),
        doc: "Packets to meter, in the filter language of libpcap, such as `tcp port 443`; all when it is empty.",
    },
    ParameterSpec {
        key: "promiscuous",
        parameter_type: ParameterType::Boolean,
        default: Some("true"),
        doc: "Whether interfaces also receive packets that are not meant for them.",
    },
    ParameterSpec {
        key: "snap_octets",
        parameter_type: ParameterType::Integer(0, 262_144),
        default: Some("0"),
        doc: "Octets of each packet that interfaces capture; 0 for 256, or 2048 when `measures` look into the payload.",
    },
    ParameterSpec {
        key: "buffer_octets",
        parameter_type: ParameterType::Integer(1 << 20, 1 << 32),
        default: Some("67108864"),
        doc: "Memory that the system fills with packets, for each interface and worker.",
    },
    ParameterSpec {
        key: "workers",
        parameter_type: ParameterType::Integer(1, 256),
        default: Some("1"),
        doc: "Workers; one alone runs in the thread of the chain, several have threads of their own.",
    },
    ParameterSpec {
        key: "key",
        parameter_type: ParameterType::Texts,
        default: Some(
            "[\"src_addr\", \"dst_addr\", \"src_port\", \"dst_port\", \"protocol\", \"tos\", \"vlan\", \"interface\"]",
        ),
        doc: "Flow Keys: what tells one flow from another, of `src_addr`, `dst_addr`, `src_port`, `dst_port`, \
              `protocol`, `tos`, `vlan`, `interface`, `tunnel` (its kind and identifier: VNI, TEID, key), \
              `tunnel_endpoints` (the addresses of the outermost packet that carries another one, told in \
              `tunnel_src_addr` and `tunnel_dst_addr`; its ports are no part of it). `tos` is none of biflows, whose \
              directions may differ in it.",
    },
    ParameterSpec {
        key: "headers",
        parameter_type: ParameterType::Choice(&["inner", "outer"]),
        default: Some("\"inner\""),
        doc: "Which headers of packets in tunnels are metered: those inside of the innermost tunnel, or the outermost.",
    },
    ParameterSpec {
        key: "biflow",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether both directions make one flow (RFC 5103).",
    },
    ParameterSpec {
        key: "active_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("1800"),
        doc: "A flow ends when it has gone on for so long.",
    },
    ParameterSpec {
        key: "idle_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("15"),
        doc: "A flow ends when no packet came for so long.",
    },
    ParameterSpec {
        key: "fast_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("0"),
        doc: "A flow of few packets ends when none came for so long; 0 for the idle timeout.",
    },
    ParameterSpec {
        key: "fast_packets_max",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("3"),
        doc: "Most packets of a flow that the fast timeout is for.",
    },
    ParameterSpec {
        key: "closed_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("2"),
        doc: "How long a flow that TCP has ended waits for what is still on its way.",
    },
    ParameterSpec {
        key: "flows_max",
        parameter_type: ParameterType::Integer(16, 1 << 31),
        default: Some("1000000"),
        doc: "Most flows at the same time, over all workers; 128 octets each, and 11 to 22 for finding them. When the \
              table is full, flows of the fewest packets end first.",
    },
    ParameterSpec {
        key: "measures",
        parameter_type: ParameterType::Texts,
        default: Some("[]"),
        doc: "What flows tell beside their counters: `application` (its name, and what its first packets tell: TLS and \
              QUIC server names, ALPN, JA4, HTTP hosts, DNS names), `tcp` (round trip times of the handshake, \
              retransmissions, segments out of order, initial window), `mac`, `mpls`, `microseconds`. All but `mac` \
              stand in the column `elements`.",
    },
    ParameterSpec {
        key: "routes",
        parameter_type: ParameterType::Paths,
        default: Some("[]"),
        doc: "Files of routes, by which flows tell `src_as`, `dst_as`, `src_mask`, `dst_mask`, `next_hop` and \
              `bgp_next_hop`: MRT dumps of routing tables (TABLE_DUMP, TABLE_DUMP_V2), MaxMind databases of autonomous \
              systems, or lines of prefixes; also compressed with gzip, bzip2 or zstd, all told by the content. Of the same \
              prefix in several files the last counts. A file without any route is an error; records that cannot be \
              used are counted.",
    },
    ParameterSpec {
        key: "route_as",
        parameter_type: ParameterType::Choice(&["origin", "peer"]),
        default: Some("\"origin\""),
        doc: "Which autonomous system of a path flows tell: the one that the prefix belongs to, or the neighbour that the \
              route came from. Databases know origins only.",
    },
    ParameterSpec {
        key: "routes_reload_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("5"),
        doc: "How often it is looked whether a file of `routes` has changed, while interfaces are metered; one that has, \
              and is the same at two looks, is read again. 0 for never; while files are metered routes stay as they are.",
    },
    ParameterSpec {
        key: "sampling",
        parameter_type: ParameterType::Choice(&["none", "count", "random", "flow"]),
        default: Some("\"none\""),
        doc: "Which packets are metered: all, every n-th, each with the chance of 1 in n, or all packets of one flow \
              in n.",
    },
    ParameterSpec {
        key: "sampling_interval",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("1"),
        doc: "The n of `sampling`.",
    },
    ParameterSpec {
        key: "exporter",
        parameter_type: ParameterType::Text,
        default: Some("\"127.0.0.1\""),
        doc: "Address that flows tell as their exporter.",
    },
    ParameterSpec {
        key: "domain",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("0"),
        doc: "Observation Domain of the flows.",
    },
];

/// Octets that headers take, also in tunnels.
const HEADERS_OCTETS: u32 = 256;
/// Octets in which the first packets of a flow tell what they are.
const PAYLOAD_OCTETS: u32 = 2_048;

/// What a block of this kind was told.
#[derive(Debug, Clone)]
pub(super) struct Configuration {
    pub(super) options: MeterOptions,
    pub(super) workers: usize,
    files: Vec<PathBuf>,
    filter: Option<String>,
    live: Option<LiveOptions>,
    pub(super) routes: Option<RouteFiles>,
}

impl Configuration {
    pub(super) fn of(parameters: &Parameters) -> Result<Self, ParameterError> {
        let (files, interfaces) = (parameters.paths("files"), parameters.texts("interfaces"));
        let wrong = |text: &str| ParameterError::new("files", text.to_owned());
        match (files.is_empty(), interfaces.is_empty()) {
            (true, true) => return Err(wrong("neither 'files' nor 'interfaces' names anything")),
            (false, false) => return Err(wrong("packets come from 'files' or from 'interfaces', not from both")),
            _ => {}
        }
        let workers = parameters.integer("workers") as usize;
        let filter = Some(parameters.text("filter").to_owned()).filter(|text| !text.is_empty());
        let live = (!interfaces.is_empty()).then(|| LiveOptions {
            interfaces,
            promiscuous: parameters.boolean("promiscuous"),
            snap_octets: match parameters.integer("snap_octets") as u32 {
                0 if parameters.texts("measures").is_empty() => HEADERS_OCTETS,
                0 => PAYLOAD_OCTETS,
                octets => octets,
            },
            buffer_octets: parameters.integer("buffer_octets") as usize,
            filter: filter.clone(),
            threads: workers,
        });
        let routes = routes(parameters, live.is_some());
        Ok(Self { options: options(parameters)?, workers, files, filter, live, routes })
    }

    /// Opens what packets come from.
    pub(super) fn open(&self) -> Result<Vec<Box<dyn PacketSource>>, SourceError> {
        let tell: WarningHandler = Arc::new(|line: &str| eprintln!("{line}"));
        if let Some(options) = &self.live {
            return open_live(options, &tell);
        }
        let options = FileOptions { paths: self.files.clone(), filter: self.filter.clone() };
        Ok(vec![open_files(&options, &tell)?])
    }
}

fn routes(parameters: &Parameters, is_live: bool) -> Option<RouteFiles> {
    let paths = parameters.paths("routes");
    let choice = if parameters.text("route_as") == "peer" { AsChoice::Peer } else { AsChoice::Origin };
    let every = Some(parameters.duration("routes_reload_secs")).filter(|every| is_live && !every.is_zero());
    (!paths.is_empty()).then_some(RouteFiles { paths, choice, every })
}

fn options(parameters: &Parameters) -> Result<MeterOptions, ParameterError> {
    let us = |key: &'static str| i64::try_from(parameters.duration(key).as_micros()).unwrap_or(i64::MAX);
    let fast_us = us("fast_timeout_secs");
    let fast =
        (fast_us > 0).then(|| FastTimeout { idle_us: fast_us, packets_max: parameters.integer("fast_packets_max") });
    let timeouts = Timeouts {
        active_us: us("active_timeout_secs"),
        idle_us: us("idle_timeout_secs"),
        fast,
        closed_us: us("closed_timeout_secs"),
    };
    for (key, timeout_us) in [("active_timeout_secs", timeouts.active_us), ("idle_timeout_secs", timeouts.idle_us)] {
        if timeout_us == 0 {
            return Err(ParameterError::new(key, "a flow would end before its second packet".to_owned()));
        }
    }
    let selection = match parameters.text("sampling") {
        "count" => Some(Selection::CountBased),
        "random" => Some(Selection::Random),
        "flow" => Some(Selection::FlowHash),
        _ => None,
    };
    let exporter = parameters.text("exporter");
    let exporter =
        exporter.parse().map_err(|_| ParameterError::new("exporter", format!("'{exporter}' is no address")))?;
    let is_biflow = parameters.boolean("biflow");
    Ok(MeterOptions {
        fields: fields(parameters, is_biflow)?,
        is_biflow,
        timeouts,
        flows_max: parameters.integer("flows_max") as usize,
        sampling: selection.map(|selection| (selection, parameters.integer("sampling_interval") as u32)),
        measures: measures(parameters)?,
        exporter: Some(exporter),
        observation_domain: parameters.integer("domain") as u32,
        ..MeterOptions::default()
    })
}

fn measures(parameters: &Parameters) -> Result<Measures, ParameterError> {
    let mut measures = Measures::default();
    for name in parameters.texts("measures") {
        match name.as_str() {
            "application" => measures.application = true,
            "tcp" => measures.tcp = true,
            "mac" => measures.macs = true,
            "mpls" => measures.mpls = true,
            "microseconds" => measures.microseconds = true,
            _ => {
                let error = ParameterError::new("measures", format!("'{name}' is no measure"));
                return Err(error.with_hint("there are application, tcp, mac, mpls, microseconds"));
            }
        }
    }
    Ok(measures)
}

fn fields(parameters: &Parameters, is_biflow: bool) -> Result<KeyFields, ParameterError> {
    let mut fields = KeyFields::NONE;
    for name in parameters.texts("key") {
        let field = match name.as_str() {
            "src_addr" => &mut fields.src_addr,
            "dst_addr" => &mut fields.dst_addr,
            "src_port" => &mut fields.src_port,
            "dst_port" => &mut fields.dst_port,
            "protocol" => &mut fields.protocol,
            "tos" => &mut fields.tos,
            "vlan" => &mut fields.vlan,
            "interface" => &mut fields.interface,
            "tunnel" => &mut fields.tunnel,
            "tunnel_endpoints" => &mut fields.tunnel_endpoints,
            _ => {
                let known = "there are src_addr, dst_addr, src_port, dst_port, protocol, tos, vlan, interface, tunnel, \
                             tunnel_endpoints";
                return Err(ParameterError::new("key", format!("'{name}' is no Flow Key")).with_hint(known));
            }
        };
        *field = true;
    }
    if parameters.text("headers") == "outer" {
        fields.headers = KeyHeaders::Outer;
    }
    if fields.tunnel_endpoints && fields.headers == KeyHeaders::Outer {
        let text = "'tunnel_endpoints' tells nothing beside outer headers, whose addresses are those of the flow";
        return Err(ParameterError::new("key", text.to_owned()).with_hint("headers = \"inner\" has both"));
    }
    if is_biflow {
        let pairs = [(fields.src_addr, fields.dst_addr), (fields.src_port, fields.dst_port)];
        if pairs.iter().any(|(source, destination)| source != destination) {
            let text = "both directions make one flow only when source and destination are both keys, or neither";
            return Err(ParameterError::new("key", text.to_owned()));
        }
        fields.tos = false;
    }
    Ok(fields)
}
