//! `weir generate`: synthetic flows as export datagrams, onto the network or into a capture file.

use std::fmt::Write;
use std::fs;
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use weir_export::{ExporterConfig, Interface, Sampling, SamplingAnnouncement, Version};
use weir_generate::{RouterPair, SendPlan, Sent, Stream, TrafficModel, send, write_pcap};

use crate::running::Foreground;

/// Address that datagrams of a capture file go to: from the block for documentation (RFC 5737).
const CAPTURE_TARGET: &str = "192.0.2.1:2055";

/// Send synthetic flows as NetFlow v5, NetFlow v9 or IPFIX, or write them to a capture file
///
/// The same seed makes the same flows on every machine. It ends by itself after --records or --seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Collector to send to
    #[arg(long, value_name = "ADDR:PORT", required_unless_present_any = ["write", "routers"])]
    to: Option<SocketAddr>,
    /// Write a pcap file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "rate", "source"])]
    write: Option<PathBuf>,
    /// Write what two routers tell of the same traffic, as the archives router1 and router2 in this folder, and what is
    /// true of them as truth.json
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "write", "rate", "source", "records"])]
    routers: Option<PathBuf>,
    /// Conversations that pass the two routers; each makes three records, about
    #[arg(long, value_name = "N", default_value_t = RouterPair::REFERENCE_CONVERSATIONS, requires = "routers")]
    conversations: u64,
    /// Protocol
    #[arg(long = "version", value_enum, default_value_t = Protocol::Ipfix)]
    protocol: Protocol,
    /// Flows to send
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    records: u64,
    /// Flows a second; 0 for as fast as possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u32,
    /// Longest time to send, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 3600)]
    seconds: u64,
    /// Seed of the flows
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// About how many hosts there are
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    hosts: u32,
    /// Share of IPv6 conversations, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    ipv6_share: f64,
    /// When the flows begin, such as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = weir_nfdump::times::moment, default_value = "2026-01-01T00:00:00Z")]
    start: i64,
    /// Flows in a second of their own time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    density: u32,
    /// Address to send from, any of 127.0.0.0/8 for instance
    #[arg(long, value_name = "ADDR")]
    source: Option<IpAddr>,
    /// Observation Domain
    #[arg(long, value_name = "N", default_value_t = 0)]
    domain: u32,
    /// Tell names of interfaces and a sampling interval of 1 in options, and send elements without a column (IPFIX)
    #[arg(long)]
    options: bool,
    /// Hold templates back until so many datagrams were sent
    #[arg(long, value_name = "DATAGRAMS", default_value_t = 0)]
    late_template: u64,
    /// Longest UDP payload [default: 1464 for NetFlow v5, 1400 for the others]
    #[arg(long, value_name = "OCTETS")]
    datagram_octets: Option<usize>,
    /// Number the flows: bytes is the number of the flow from 0
    #[arg(long)]
    numbered: bool,
    /// Send to another machine than this one
    #[arg(long)]
    allow_remote: bool,
}

/// Export protocols by the names that people give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// NetFlow v5
    #[value(name = "5", alias = "v5")]
    NetFlow5,
    /// NetFlow v9
    #[value(name = "9", alias = "v9")]
    NetFlow9,
    /// IPFIX
    #[value(name = "ipfix", alias = "10")]
    Ipfix,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !(0.0..=1.0).contains(&args.ipv6_share) {
        bail!("--ipv6-share {} is not between 0 and 1", args.ipv6_share);
    }
    if args.protocol == Protocol::NetFlow5 && args.ipv6_share > 0.0 {
        bail!("NetFlow v5 has no IPv6\nhint: use --version 9 or --version ipfix");
    }
    if let Some(folder) = &args.routers {
        return routers(args, folder);
    }
    let model = TrafficModel {
        hosts: args.hosts,
        ipv6_permille: (args.ipv6_share * 1000.0).round() as u16,
        start_ms: args.start,
        flows_per_second: args.density,
        elements: args.options && args.protocol == Protocol::Ipfix,
        numbered: args.numbered,
        ..TrafficModel::new(args.seed)
    };
    let mut flows = model.flows(args.records)?;
    let streams = [Stream { source: args.source, config: config(args) }];
    let sent = match (&args.write, args.to) {
        (Some(path), _) => {
            let std::net::SocketAddr::V4(target) = CAPTURE_TARGET.parse()? else { bail!("not an IPv4 address") };
            write_pcap(path, &mut flows, &streams, target)?
        }
        (None, Some(target)) => {
            if !target.ip().is_loopback() && !args.allow_remote {
                bail!("{target} is not on this machine\nhint: --allow-remote sends there all the same");
            }
            let plan = SendPlan {
                target,
                flows_per_second: (args.rate > 0).then_some(args.rate),
                duration_max: Duration::from_secs(args.seconds),
                stop: None,
            };
            send(&mut flows, &streams, &plan)?
        }
        (None, None) => bail!("either --to or --write is needed"),
    };
    Ok(tell(&sent))
}

/// Two generators, each into an archive of its own, as a chain.
fn routers(args: &Args, folder: &Path) -> anyhow::Result<ExitCode> {
    let mut text = "name = \"two routers\"\n".to_owned();
    for router in [1, 2] {
        let (conversations, seed, hosts) = (args.conversations, args.seed, args.hosts);
        let archive = super::quoted(&folder.join(format!("router{router}")));
        let _ = write!(
            text,
            "\n[components.router{router}]\ntype = \"router-generator\"\nrouter = {router}\n\
             conversations = {conversations}\nseed = {seed}\nhosts = {hosts}\n\n\
             [components.archive{router}]\ntype = \"archive\"\ninputs = [\"router{router}\"]\narchive = {archive}\n\
             commit_interval_secs = 3600\n"
        );
    }
    let chain = super::chain_of(&text)?;
    let every = std::io::stderr().is_terminal().then_some(Duration::from_secs(1));
    let report = |progress: &weir_chain::Progress| eprintln!("{}", progress.table(None));
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, report)?;
    ended?;
    let pair = RouterPair { hosts: args.hosts, ..RouterPair::new(args.seed) };
    let path = folder.join("truth.json");
    fs::write(&path, pair.truth(args.conversations)?.to_string())
        .with_context(|| format!("cannot write {}", path.display()))?;
    for router in ["router1", "router2"] {
        let records = progress.component(router).map_or(0, |block| block.rows_out);
        println!("{}: {records} records", folder.join(router).display());
    }
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Args) -> ExporterConfig {
    let version = match args.protocol {
        Protocol::NetFlow5 => Version::V5,
        Protocol::NetFlow9 => Version::V9,
        Protocol::Ipfix => Version::Ipfix,
    };
    let mut config = ExporterConfig {
        domain: args.domain,
        templates_after_datagrams: args.late_template,
        ..ExporterConfig::new(version)
    };
    if let Some(octets) = args.datagram_octets {
        config.datagram_octets_max = octets;
    }
    if args.options {
        config.sampling = Some(Sampling { interval: 1, announcement: SamplingAnnouncement::Exporter });
        config.interfaces = (1..=4)
            .map(|index| Interface {
                index,
                name: format!("eth{index}"),
                description: format!("synthetic interface {index}"),
            })
            .collect();
    }
    config
}

fn tell(sent: &Sent) -> ExitCode {
    let seconds = sent.duration.as_secs_f64();
    println!(
        "sent {} datagrams, {} records, {} packets, {} bytes in {seconds:.2} s ({:.0} records/s)",
        sent.datagrams,
        sent.flows,
        sent.exported.packets,
        sent.exported.bytes,
        sent.flows as f64 / seconds.max(1e-9)
    );
    if sent.datagrams_refused > 0 || sent.exported.refused_total() > 0 {
        eprintln!(
            "warning: the system took {} datagrams with {} flows not; the protocol could not tell {} flows",
            sent.datagrams_refused,
            sent.flows_refused,
            sent.exported.refused_total()
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
