//! `weir meter`: packets of interfaces and capture files into flows.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tracing::info;
use weir_chain::Progress;
use weir_chain::run::ComponentProgress;
use weir_export::Refusal;
use weir_flow::Column;

use super::{chain_of, seconds, tell_archived, texts};
use crate::octets::Octets;
use crate::running::Foreground;

/// Meter packets of interfaces or capture files into flows
///
/// Flows go into an archive, to collectors as NetFlow v5, v9 or IPFIX, or to standard output as text; any of these at
/// the same time, and without any of them to standard output. Captures (pcap, pcapng, also compressed with gzip or zstd)
/// are merged by the times of their packets. Capturing takes CAP_NET_RAW; reading files takes nothing.
///
/// Every packet is counted, and the counts are printed at the end. The exit status is 1 when not everything could be
/// metered or written, and 3 when it could but flows were not sent to a collector, or perhaps did not arrive: as far as
/// the sender is told, which over UDP it is not. Ctrl-C ends capturing, or reading files, in order; a second one at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Capture files, - for standard input, or names of interfaces
    #[arg(value_name = "FILE|INTERFACE", required_unless_present_any = ["interfaces", "list_interfaces"])]
    sources: Vec<String>,
    /// Interface to capture on; any number of times
    #[arg(short = 'i', long = "interface", value_name = "NAME", conflicts_with = "sources")]
    interfaces: Vec<String>,
    /// Workers, each with a core to itself; one runs the whole way in one thread
    #[arg(short = 'w', long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// Time between lines that tell how it goes while capturing, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    report_secs: u64,
    /// Print the interfaces of this machine and their addresses, and end
    #[arg(long)]
    list_interfaces: bool,
    /// Print the chain that this command is, as a chain file, and end
    #[arg(long)]
    show_chain: bool,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    flows: FlowArgs,
    #[command(flatten)]
    measures: MeasureArgs,
    #[command(flatten)]
    routes: RouteArgs,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Which packets.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Packets")]
struct CaptureArgs {
    /// Packets to meter, in the filter language of libpcap: 'tcp port 443'
    #[arg(short = 'b', long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    /// Receive only what is meant for this machine
    #[arg(long)]
    no_promiscuous: bool,
    /// Octets of each packet to capture; 0 for 256, or 2048 with measures
    #[arg(long, value_name = "OCTETS", default_value_t = 0)]
    snap: u32,
    /// Memory that the system fills with packets, for each interface and worker
    #[arg(long, value_name = "OCTETS", default_value = "64M")]
    buffer: Octets,
    /// Which packets are metered: all, every n-th, each with a chance of 1 in n, or all of one flow in n
    #[arg(long, value_name = "HOW", value_parser = ["none", "count", "random", "flow"], default_value = "none")]
    sampling: String,
    /// The n of --sampling
    #[arg(long, value_name = "N", default_value_t = 1)]
    sampling_interval: u32,
}

/// What a flow is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Flows")]
struct FlowArgs {
    /// Flow Keys, parted by commas: src_addr, dst_addr, src_port, dst_port, protocol, tos, vlan, interface, tunnel
    /// (its kind and identifier), tunnel_endpoints (the addresses of the packet that carries another one)
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        default_value = "src_addr,dst_addr,src_port,dst_port,protocol,tos,vlan,interface"
    )]
    key: Vec<String>,
    /// Which headers of packets in tunnels are metered
    #[arg(long, value_name = "WHICH", value_parser = ["inner", "outer"], default_value = "inner")]
    headers: String,
    /// One flow for both directions (RFC 5103)
    #[arg(long)]
    biflow: bool,
    /// Seconds after which a flow ends though it goes on
    #[arg(short = 'l', long, value_name = "SECS", default_value_t = 1800.0)]
    active_timeout: f64,
    /// Seconds without a packet after which a flow ends
    #[arg(short = 'd', long, value_name = "SECS", default_value_t = 15.0)]
    idle_timeout: f64,
    /// Seconds without a packet after which a flow of few packets ends; 0 for the idle timeout
    #[arg(long, value_name = "SECS", default_value_t = 0.0)]
    fast_timeout: f64,
    /// Most packets of a flow that the fast timeout is for
    #[arg(long, value_name = "PACKETS", default_value_t = 3)]
    fast_packets: u32,
    /// Most flows at the same time; when there are more, those of the fewest packets end first
    #[arg(short = 'm', long, value_name = "FLOWS", default_value_t = 1_000_000)]
    flows_max: u64,
    /// Flows to keep, in nfdump's filter language; the others are dropped and counted
    #[arg(long = "where", value_name = "FILTER", default_value = "")]
    taken: String,
    /// Observation Domain that the flows tell
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    domain: u32,
}

/// What flows tell beside their counters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measures")]
struct MeasureArgs {
    /// What flows tell beside their counters, parted by commas: application, tcp, mac, mpls, microseconds
    #[arg(long, value_name = "MEASURES", value_delimiter = ',')]
    measure: Vec<String>,
}

/// What flows tell of the networks of their addresses.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Routes")]
struct RouteArgs {
    /// File of routes: an MRT dump, a MaxMind database or lines of prefixes, also compressed; any number of times
    #[arg(long, value_name = "FILE")]
    routes: Vec<String>,
    /// Autonomous systems that flows tell: of the origin of the route, or of the neighbour that it came from
    #[arg(long, value_name = "WHICH", value_parser = ["origin", "peer"], default_value = "origin")]
    route_as: String,
}

/// Where flows go.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Where flows go")]
struct OutArgs {
    /// Folder of an archive; made when it is not there
    #[arg(long, short = 'R', value_name = "DIR")]
    archive: Option<PathBuf>,
    /// A collector, as HOST:PORT or udp://HOST:PORT, for IPFIX also tcp://…, tls://… or sctp://…; or - for standard
    /// output; any number of times
    #[arg(long, short = 'n', value_name = "HOST:PORT|URL|-")]
    to: Vec<String>,
    /// Protocol to collectors
    #[arg(long, value_name = "VERSION", value_parser = ["5", "9", "ipfix"], default_value = "ipfix")]
    export: String,
    /// Whether every collector gets all flows, or each some of them in turn
    #[arg(long, value_name = "HOW", value_parser = ["all", "in-turn"], default_value = "all")]
    distribute: String,
    /// Longest message to collectors; 0 for 1464 in NetFlow v5, 1400 in the others over UDP, 8192 over connections
    #[arg(long, value_name = "OCTETS", default_value_t = 0)]
    datagram_octets: u32,
    /// Seconds after which flows go to collectors that do not fill a message; 0 for at once
    #[arg(short = 'q', long, value_name = "SECS", default_value_t = 1.0)]
    queue_timeout: f64,
    /// Memory for messages that wait for a connection, for each collector; what finds no room is not sent, and counted
    #[arg(long, value_name = "OCTETS", default_value = "64M")]
    queue_octets: Octets,
    /// Seconds that metering waits for room in a full queue, since the collector took something last: everything waits,
    /// other collectors too [default: 30 for files, 0 for interfaces]
    #[arg(long, value_name = "SECS")]
    room_timeout: Option<f64>,
    /// Seconds after which a connection is made again whose collector acknowledges or takes nothing
    #[arg(long, value_name = "SECS", default_value_t = 30.0)]
    stall_timeout: f64,
    /// Seconds that collectors have at the end to take what waits; while files are read, Ctrl-C leaves them one
    /// [default: 30 for files, 10 for interfaces]
    #[arg(long, value_name = "SECS")]
    finish_timeout: Option<f64>,
    /// Format on standard output
    #[arg(long, short = 'o', value_name = "FORMAT", value_parser = ["csv", "json", "ndjson", "table"], default_value = "csv")]
    format: String,
}

/// Certificates for collectors over TLS.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
struct TlsArgs {
    /// PEM file of the authorities that sign the certificates of collectors; those of the system without it
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file of the certificate shown to collectors, followed by those of the authorities up to the root
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name that the certificate of a collector must have; without it the name or address in --to
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
}

impl TlsArgs {
    /// Lines of the chain file, for what was given.
    fn lines(&self) -> String {
        let mut lines = String::new();
        for (key, path) in [("tls_ca", &self.tls_ca), ("tls_cert", &self.tls_cert), ("tls_key", &self.tls_key)] {
            if let Some(path) = path {
                // writing to a text does not fail
                let _ = writeln!(lines, "{key} = {}", super::quoted(path));
            }
        }
        if let Some(name) = &self.tls_name {
            let _ = writeln!(lines, "tls_name = {}", super::toml_text(name));
        }
        lines
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.list_interfaces {
        list_interfaces()?;
        return Ok(ExitCode::SUCCESS);
    }
    let sources = args.sources()?;
    let text = args.chain(&sources);
    if args.show_chain {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let chain = chain_of(&text)?;
    let is_live = !sources.interfaces.is_empty();
    let every = (is_live && args.report_secs > 0).then(|| Duration::from_secs(args.report_secs));
    let begun = Instant::now();
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, tell_progress)?;
    tell_packets(&progress, begun.elapsed());
    tell_archived(&progress);
    ended.context("metering ended")?;
    let unsent = progress.component("export").and_then(unsent);
    if let Some(unsent) = &unsent {
        eprintln!("error: {unsent}");
    }
    let failed = progress.component(METER).map_or(0, |meter| meter.counter("files_failed"));
    Ok(match (failed, unsent) {
        (0, None) => ExitCode::SUCCESS,
        (0, Some(_)) => ExitCode::from(UNSENT),
        _ => ExitCode::FAILURE,
    })
}

/// Exit status when everything was done but that collectors have not, or perhaps not, got all flows.
const UNSENT: u8 = 3;

/// What is wrong when flows did not reach a collector, or may not have, and what can be done about it.
fn unsent(export: &ComponentProgress) -> Option<String> {
    let [unsent, uncertain] = ["records_unsent", "records_uncertain"].map(|name| export.counter(name));
    let mut what = Vec::new();
    if unsent > 0 {
        what.push(format!("{unsent} flows were not sent to a collector"));
    }
    if uncertain > 0 {
        what.push(format!("it is not known whether {uncertain} flows arrived"));
    }
    let hint = if export.counter("datagrams_failed") > 0 {
        "the system refused datagrams: is there a route to the collector, and does no firewall hold them up?"
    } else if export.counter("connections_made") == 0 {
        "no collector could be connected to: does one listen there?"
    } else {
        "a collector was slow or went away; --room-timeout and --finish-timeout give it more time, --queue-octets more room"
    };
    (!what.is_empty()).then(|| format!("{}\nhint: {hint}", what.join(", and ")))
}

/// Prints the interfaces of this machine: number, name, state, addresses.
fn list_interfaces() -> anyhow::Result<()> {
    let interfaces = weir_capture::list_interfaces().context("interfaces are not known")?;
    let name_width = interfaces.iter().map(|interface| interface.name.len()).max().unwrap_or(0);
    for interface in interfaces {
        let state = if interface.is_up { "up" } else { "down" };
        let addresses: Vec<_> = interface.addresses.iter().map(ToString::to_string).collect();
        let line =
            format!("{:>4}  {:name_width$}  {state:4}  {}", interface.index, interface.name, addresses.join(" "));
        println!("{}", line.trim_end());
    }
    Ok(())
}

/// Name of the source in the chain.
const METER: &str = "meter";

/// Columns that every flow has.
const ALWAYS_TOLD: [Column; 12] = [
    Column::Received,
    Column::Start,
    Column::End,
    Column::Exporter,
    Column::ObservationDomain,
    Column::TcpFlags,
    Column::Tos,
    Column::Packets,
    Column::Bytes,
    Column::MinTtl,
    Column::MaxTtl,
    Column::EndReason,
];

/// What packets come from.
struct Sources {
    files: Vec<String>,
    interfaces: Vec<String>,
}

impl Args {
    /// What is a file and what an interface: a name without a file of that name is an interface when there is one.
    fn sources(&self) -> anyhow::Result<Sources> {
        let is_interface = |name: &String| !Path::new(name).exists() && Path::new("/sys/class/net").join(name).exists();
        let (interfaces, files): (Vec<_>, Vec<_>) = self.sources.iter().cloned().partition(is_interface);
        if let Some(missing) = files.iter().find(|path| *path != "-" && !Path::new(path).exists()) {
            bail!("there is neither a file nor an interface '{missing}'");
        }
        let interfaces = if self.interfaces.is_empty() { interfaces } else { self.interfaces.clone() };
        ensure!(
            files.is_empty() || interfaces.is_empty(),
            "packets come from files or from interfaces, not from both: '{}' is an interface",
            interfaces.first().map_or("", String::as_str)
        );
        Ok(Sources { files, interfaces })
    }

    /// The chain file of these arguments.
    fn chain(&self, sources: &Sources) -> String {
        let mut chain = format!("name = \"meter\"\n\n[components.{METER}]\ntype = \"meter\"\n");
        // writing to a text does not fail
        let mut line = |key: &str, value: String| {
            let _ = writeln!(chain, "{key} = {value}");
        };
        if sources.interfaces.is_empty() {
            line("files", list(&sources.files));
        } else {
            line("interfaces", list(&sources.interfaces));
            line("promiscuous", (!self.capture.no_promiscuous).to_string());
            line("snap_octets", self.capture.snap.to_string());
            line("buffer_octets", self.capture.buffer.0.to_string());
        }
        line("filter", super::toml_text(&self.capture.filter));
        line("sampling", super::toml_text(&self.capture.sampling));
        line("sampling_interval", self.capture.sampling_interval.to_string());
        line("workers", self.workers.to_string());
        self.flows.lines(&mut line);
        line("measures", list(&self.measures.measure));
        if !self.routes.routes.is_empty() {
            line("routes", list(&self.routes.routes));
            line("route_as", super::toml_text(&self.routes.route_as));
        }
        let input = if self.flows.taken.is_empty() {
            METER
        } else {
            let taken = super::toml_text(&self.flows.taken);
            let _ = write!(chain, "\n[components.taken]\ntype = \"filter\"\ninputs = [\"{METER}\"]\nwhere = {taken}\n");
            "taken"
        };
        let is_live = !sources.interfaces.is_empty();
        self.out.blocks(input, is_live, &self.tls.lines(), &self.columns(), &mut chain);
        chain
    }

    /// The columns that flows may have, in the order of the schema. Which of them the first flows have says nothing about
    /// those that come later.
    fn columns(&self) -> Vec<String> {
        let (flows, measures, is_routed) = (&self.flows, &self.measures.measure, !self.routes.routes.is_empty());
        let is_key = |name: &str| flows.key.iter().any(|key| key == name);
        let is_measured = |names: &[&str]| measures.iter().any(|measure| names.contains(&measure.as_str()));
        let is_told = |column: Column| match column {
            Column::SrcAddr | Column::DstAddr | Column::SrcPort | Column::DstPort | Column::Protocol => {
                is_key(column.name())
            }
            Column::SrcVlan => is_key("vlan"),
            Column::InIf => is_key("interface"),
            Column::IcmpType | Column::IcmpCode => is_key("dst_port"),
            Column::TunnelSrcAddr | Column::TunnelDstAddr => is_key("tunnel_endpoints"),
            Column::SrcMac | Column::DstMac => is_measured(&["mac"]),
            Column::Elements => is_measured(&["application", "tcp", "mpls", "microseconds"]),
            Column::SamplingInterval => self.capture.sampling != "none",
            Column::SrcAs
            | Column::DstAs
            | Column::SrcMask
            | Column::DstMask
            | Column::NextHop
            | Column::BgpNextHop => is_routed,
            Column::BytesReverse
            | Column::PacketsReverse
            | Column::TcpFlagsReverse
            | Column::StartReverse
            | Column::EndReverse => flows.biflow,
            _ => ALWAYS_TOLD.contains(&column),
        };
        Column::ALL.iter().copied().filter(|&column| is_told(column)).map(|column| column.name().to_owned()).collect()
    }
}

impl FlowArgs {
    fn lines(&self, line: &mut impl FnMut(&str, String)) {
        line("key", list(&self.key));
        line("headers", super::toml_text(&self.headers));
        line("biflow", self.biflow.to_string());
        let timeouts = [("active", self.active_timeout), ("idle", self.idle_timeout), ("fast", self.fast_timeout)];
        for (name, secs) in timeouts {
            line(&format!("{name}_timeout_secs"), self::secs(secs));
        }
        line("fast_packets_max", self.fast_packets.to_string());
        line("flows_max", self.flows_max.to_string());
        line("domain", self.domain.to_string());
    }
}

impl OutArgs {
    /// Lines of the chain file about time. Flows of files are of the past, and can wait for a slow collector; who
    /// interrupts their reading wants no more of it, while an interface has no other end.
    fn times(&self, is_live: bool) -> String {
        let (clock, room, finish) = if is_live { ("now", 0.0, 10.0) } else { ("rows", 30.0, 30.0) };
        let finish = self.finish_timeout.unwrap_or(finish);
        let stop = if is_live { finish } else { finish.min(1.0) };
        format!(
            "clock = \"{clock}\"\nroom_timeout_secs = {}\nstall_timeout_secs = {}\nfinish_timeout_secs = {}\n\
             stop_timeout_secs = {}\n",
            secs(self.room_timeout.unwrap_or(room)),
            secs(self.stall_timeout),
            secs(finish),
            secs(stop),
        )
    }

    /// The sinks.
    fn blocks(&self, input: &str, is_live: bool, tls: &str, columns: &[String], chain: &mut String) {
        let collectors: Vec<String> = self.to.iter().filter(|to| *to != "-").cloned().collect();
        let to_stdout = self.to.iter().any(|to| to == "-") || (self.archive.is_none() && collectors.is_empty());
        if let Some(folder) = &self.archive {
            let folder = super::quoted(folder);
            let _ = write!(
                chain,
                "\n[components.archive]\ntype = \"archive\"\ninputs = [\"{input}\"]\narchive = {folder}\n"
            );
        }
        if !collectors.is_empty() {
            let times = self.times(is_live);
            let _ = write!(
                chain,
                "\n[components.export]\ntype = \"export\"\ninputs = [\"{input}\"]\nto = {}\nversion = \"{}\"\n\
                 distribute = \"{}\"\ndatagram_octets_max = {}\nqueue_timeout_secs = {}\n{times}\
                 queue_octets_max = {}\nallow_remote = true\n{tls}",
                texts(&collectors),
                self.export,
                self.distribute,
                self.datagram_octets,
                secs(self.queue_timeout),
                self.queue_octets.0,
            );
        }
        if to_stdout {
            let (format, columns) = (&self.format, list(columns));
            let _ = write!(
                chain,
                "\n[components.text]\ntype = \"dumper\"\ninputs = [\"{input}\"]\npath = \"-\"\nformat = \"{format}\"\n\
                 columns = {columns}\n"
            );
        }
    }
}

/// Seconds of a chain file.
fn secs(secs: f64) -> String {
    seconds((secs.max(0.0) * 1000.0) as u64)
}

/// Texts as a list of a chain file.
fn list(texts: &[String]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| super::toml_text(text)).collect();
    format!("[{}]", quoted.join(", "))
}

fn tell_progress(progress: &Progress) {
    let Some(meter) = progress.component(METER) else { return };
    let of = |name| meter.counter(name);
    info!(
        "{} packets, {} in flows, {} dropped by the system; {} flows begun, {} ended, {} of them since the table was full",
        of("packets"),
        of("packets_in_flows"),
        of("kernel_drops"),
        of("flows_begun"),
        of("flows_ended"),
        of("flows_evicted"),
    );
}

/// Counters that are told at the end when they are not zero, and what they count.
const COUNTERS: &[(&str, &str)] = &[
    ("packets_not_ip", "packets that are no IP"),
    ("packets_truncated", "packets cut off before the end of their IP header"),
    ("packets_malformed", "packets of which a header contradicts itself"),
    ("packets_too_deep", "packets with too many tunnels or extension headers"),
    ("packets_not_sampled", "packets that were not selected"),
    ("fragments_without_first", "fragments in flows without ports, since the first one did not come"),
    ("frames_filtered", "frames that the packet filter left out"),
    ("frames_unknown_link", "frames of a link layer that is not known"),
    ("kernel_drops", "packets that the system dropped"),
    ("buffer_overruns", "times that the memory for captured packets was full (--buffer)"),
    ("flows_evicted", "flows that ended early since the table was full"),
    ("tunnel_pairs_forgotten", "ends of tunnels that were forgotten, so that flows may be told in two"),
    ("handshakes_cut", "handshakes too long, or too many at the same time, to be looked at whole"),
    ("payloads_malformed", "payloads of a known protocol that contradict themselves"),
    ("files_failed", "files that could not be read to their end"),
    ("routes_defective", "records of routes that could not be used"),
    ("routes_reloads_failed", "times that changed routes were not used"),
];

fn tell_packets(progress: &Progress, took: Duration) {
    let Some(meter) = progress.component(METER) else { return };
    let packets = meter.counter("packets");
    eprintln!(
        "{packets} packets, {} of them in {} flows, {} octets, {:.0} packets/s",
        meter.counter("packets_in_flows"),
        meter.counter("flows_ended"),
        meter.counter("octets"),
        packets as f64 / took.as_secs_f64().max(1e-3),
    );
    for (name, what) in COUNTERS {
        let count = meter.counter(name);
        if count > 0 {
            eprintln!("  {count:>14}  {what}");
        }
    }
    if let Some(taken) = progress.component("taken") {
        eprintln!("  {:>14}  flows left out by --where", taken.rows_in.saturating_sub(taken.rows_out));
    }
    if let Some(export) = progress.component("export") {
        tell_exported(export);
    }
}

/// Counters of exporting that are told at the end when they are not zero, and what they count.
const EXPORT_COUNTERS: &[(&str, &str)] = &[
    ("records_unsent", "flows not sent to a collector"),
    ("records_uncertain", "flows written into a connection that then failed: whether they arrived is not known"),
    ("datagrams_failed", "datagrams that the system did not take"),
    ("connections_failed", "attempts to connect that came to nothing"),
    ("connections_lost", "connections that were lost"),
    ("options_left_out", "rows about interfaces and samplers that collectors were not told"),
];

fn tell_exported(export: &ComponentProgress) {
    let of = |name: &str| export.counter(name);
    eprintln!(
        "export: {} flows sent to collectors in {} datagrams and {} messages, {} not sent",
        of("records_exported"),
        of("datagrams_sent"),
        of("messages_sent"),
        of("records_unsent") + export.rows_discarded,
    );
    let refused = Refusal::ALL.iter().map(|reason| of(&format!("records_refused_{}", reason.label()))).sum::<u64>();
    if refused > 0 {
        eprintln!("  {refused:>14}  flows that the protocol cannot tell");
    }
    for (name, what) in EXPORT_COUNTERS {
        let count = of(name);
        if count > 0 {
            eprintln!("  {count:>14}  {what}");
        }
    }
}
