//! `weir generate`: synthetic flows as export datagrams, onto the network or into a capture file.

use std::fs;
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weir_blocks::sinks::archive::{self, ArchiveSinkOptions, SealingOptions};
use weir_blocks::sources::router_generator::{self, RouterGeneratorOptions};
use weir_blocks::sources::traffic::{self, TrafficOptions};
use weir_chain::config::ThreadChoice;
use weir_chain::{ByteSize, Chain, TimeSpan};
use weir_export::{ExporterConfig, Interface, Sampling, SamplingAnnouncement, Version};
use weir_generate::{
    PlantedScene, RouterPair, Scene, SceneKind, SendPlan, Sent, Stream, TrafficModel, send, write_pcap,
};

use crate::running::Foreground;

/// Address that datagrams of a capture file go to: from the block for documentation (RFC 5737).
const CAPTURE_TARGET: &str = "192.0.2.1:2055";

const EXAMPLES: &str = "\
Examples:
  Send 100,000 flows as IPFIX to a collector on this machine:
    weir generate --to 127.0.0.1:2055
  A million flows of NetFlow v9, 20,000 a second:
    weir generate --to 127.0.0.1:2055 --protocol netflow-v9 --records 1000000 --rate 20000
  A capture file of export datagrams:
    weir generate --write flows.pcap --protocol netflow-v5 --records 1000
  Three hours with a port scan after ten minutes and an hour of beaconing, and where they are:
    weir generate --write attacked.pcap --records 54000 --density 5 --hosts 1024 \\
        --scene portscan-vertical@10m,beaconing@1h --truth truth.ndjson
  Two routers that see the same traffic, with the ground truth:
    weir generate --routers simulated --conversations 100000";

/// Send synthetic flows as NetFlow v5, NetFlow v9 or IPFIX, or write them to a capture file
///
/// The same seed makes the same flows on every machine. It ends by itself after --records or --time-limit.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Send to this collector
    #[arg(long, value_name = "ADDR:PORT", required_unless_present_any = ["write", "routers"])]
    to: Option<SocketAddr>,
    /// Write a pcap file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "rate", "source"])]
    write: Option<PathBuf>,
    /// Simulate two routers that see the same traffic: write the archives router1 and router2 into this folder, and the
    /// ground truth as truth.json
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "write", "rate", "source", "records"])]
    routers: Option<PathBuf>,
    /// Conversations that pass the two routers; each makes about three records
    #[arg(long, value_name = "N", default_value_t = RouterPair::REFERENCE_CONVERSATIONS, requires = "routers")]
    conversations: u64,
    /// Protocol of the datagrams
    #[arg(long, value_enum, default_value_t = ProtocolArg::Ipfix)]
    protocol: ProtocolArg,
    /// Send this many flows
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    records: u64,
    /// Send this many flows a second; without it as fast as possible
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Stop sending after this time
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    time_limit: TimeSpan,
    /// Seed of the flows
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulate about this many hosts
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    hosts: u32,
    /// Share of IPv6 conversations, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    ipv6_share: f64,
    /// Let the flows begin at this time, such as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = crate::time_args::moment, default_value = "2026-01-01T00:00:00Z")]
    start: i64,
    /// Flows that end in a second of simulated time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    density: u32,
    /// Send from this address, such as any of 127.0.0.0/8
    #[arg(long, value_name = "ADDR")]
    source: Option<IpAddr>,
    /// Plant attacks and failures into the flows, on top of --records: names with a time since --start, such as
    /// portscan-vertical@10m, or in ISO 8601. Names: portscan-horizontal, portscan-vertical, beaconing,
    /// ddos-amplification, ddos-syn, exfiltration, brute-force, new-service, first-contact, spoofed, exporter-silent,
    /// sampling-changed
    #[arg(long, value_name = "NAME@TIME", value_delimiter = ',', conflicts_with_all = ["routers", "numbered"])]
    scene: Vec<String>,
    /// Write what was planted where into this file, as objects of JSON, one a line
    #[arg(long, value_name = "FILE", requires = "scene")]
    truth: Option<PathBuf>,
    /// Observation Domain
    #[arg(long, value_name = "N", default_value_t = 0)]
    domain: u32,
    /// Send names of interfaces and a sampling interval of 1 as options, and elements without a column (IPFIX)
    #[arg(long)]
    options: bool,
    /// Send templates only after this many datagrams
    #[arg(long, value_name = "N", default_value_t = 0)]
    late_template: u64,
    /// Make UDP payloads at most this long [default: 1464B for NetFlow v5, 1400B for the others]
    #[arg(long, value_name = "SIZE")]
    message_size_max: Option<ByteSize>,
    /// Make the bytes of each flow its number, from 0
    #[arg(long)]
    numbered: bool,
    /// Send to another machine than this one
    #[arg(long)]
    allow_remote: bool,
}

/// Protocols, named as in `weir meter` and in chain files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    /// NetFlow version 5
    NetflowV5,
    /// NetFlow version 9 (RFC 3954)
    NetflowV9,
    /// IPFIX (RFC 7011)
    Ipfix,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !(0.0..=1.0).contains(&args.ipv6_share) {
        bail!("--ipv6-share {} is not between 0 and 1", args.ipv6_share);
    }
    if args.protocol == ProtocolArg::NetflowV5 && args.ipv6_share > 0.0 {
        bail!("NetFlow v5 has no IPv6\nhint: use --protocol netflow-v9 or --protocol ipfix");
    }
    if let Some(folder) = &args.routers {
        return routers(args, folder);
    }
    let model = TrafficModel {
        hosts: args.hosts,
        ipv6_permille: (args.ipv6_share * 1000.0).round() as u16,
        start_ms: args.start,
        flows_per_second: args.density,
        elements: args.options && args.protocol == ProtocolArg::Ipfix,
        numbered: args.numbered,
        scenes: scenes(args)?,
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
            if target.port() == 0 {
                bail!(
                    "--to {target} names no port\nhint: name the one that the collector listens on, such as {}",
                    SocketAddr::new(target.ip(), 2055)
                );
            }
            if !target.ip().is_loopback() && !args.allow_remote {
                bail!("{target} is not on this machine\nhint: --allow-remote sends there all the same");
            }
            let plan =
                SendPlan { target, flows_per_second: args.rate, duration_max: args.time_limit.duration(), stop: None };
            send(&mut flows, &streams, &plan)?
        }
        (None, None) => bail!("either --to or --write is needed"),
    };
    print_planted(args, &flows.planted())?;
    Ok(print_sent(&sent))
}

/// The scenes to plant, as far as the way that flows take can show them.
fn scenes(args: &Args) -> anyhow::Result<Vec<Scene>> {
    let scenes = traffic::scenes(&args.scene, args.start).map_err(|error| {
        let hint = error.hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        anyhow!("--scene: {}{hint}", error.message)
    })?;
    let has = |kind| scenes.iter().any(|scene| scene.kind == kind);
    if args.to.is_some() && has(SceneKind::ExporterSilent) {
        bail!("exporter-silent is silence in simulated time, which a collector does not see\nhint: use --write");
    }
    if args.protocol == ProtocolArg::NetflowV5 && has(SceneKind::SamplingChanged) {
        bail!(
            "flows of NetFlow v5 have no sampling interval of their own\nhint: use --protocol netflow-v9 or --protocol ipfix"
        );
    }
    Ok(scenes)
}

/// Writes what was planted, and warns of what did not go out whole.
fn print_planted(args: &Args, planted: &[PlantedScene]) -> anyhow::Result<()> {
    for scene in planted.iter().filter(|scene| !scene.is_over) {
        eprintln!(
            "warning: the flows end before the scene {} does: {} of its {} flows were sent\nhint: raise --records",
            scene.scene.kind.name(),
            scene.flows_out,
            scene.flows
        );
    }
    let Some(path) = &args.truth else { return Ok(()) };
    let lines = planted.iter().map(truth_line).collect::<Result<String, _>>()?;
    fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))
}

/// What was planted, as a line of JSON.
fn truth_line(planted: &PlantedScene) -> Result<String, jiff::Error> {
    let time = |ms: i64| Timestamp::from_millisecond(ms).map(|time| format!("{time:.3}"));
    let key: Map<String, Value> =
        planted.key.iter().map(|(column, value)| ((*column).to_owned(), json!(value))).collect();
    let line = json!({
        "scene": planted.scene.kind.name(),
        "watch": planted.scene.kind.watch(),
        "from": time(planted.scene.at_ms)?,
        "until": time(planted.scene.end_ms())?,
        "key": key,
        "flows": planted.flows,
        "flows_sent": planted.flows_out,
    });
    Ok(format!("{line}\n"))
}

/// Two generators, each into an archive of its own, as a chain.
fn routers(args: &Args, folder: &Path) -> anyhow::Result<ExitCode> {
    let mut chain = Chain::builder("two routers");
    for router in [1, 2] {
        let traffic = TrafficOptions { seed: args.seed, hosts: args.hosts, ..TrafficOptions::default() };
        let source = RouterGeneratorOptions {
            router,
            conversations: Some(args.conversations),
            traffic,
            ..RouterGeneratorOptions::default()
        };
        let sink = ArchiveSinkOptions {
            archive: folder.join(format!("router{router}")),
            sealing: SealingOptions { commit_interval: TimeSpan::from_secs(3600), ..SealingOptions::default() },
            ..ArchiveSinkOptions::default()
        };
        let [source_name, sink_name] = [format!("router{router}"), format!("archive{router}")];
        chain = chain.add(&source_name, &router_generator::KIND, source, &[], ThreadChoice::Default);
        chain = chain.add(&sink_name, &archive::KIND, sink, &[&source_name], ThreadChoice::Default);
    }
    let Some(chain) = super::chain_parts::show_or_build(chain, false)? else { return Ok(ExitCode::SUCCESS) };
    let every = std::io::stderr().is_terminal().then_some(Duration::from_secs(1));
    let report = |progress: &weir_chain::Progress| eprintln!("{}", progress.table(None));
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, report)?;
    ended?;
    let pair = RouterPair { hosts: args.hosts, ..RouterPair::new(args.seed) };
    let path = folder.join("truth.json");
    fs::write(&path, pair.truth(args.conversations)?.to_string())
        .with_context(|| format!("cannot write {}", path.display()))?;
    for router in ["router1", "router2"] {
        let records = progress.component(router).map_or(0, |component| component.rows_out);
        println!("{}: {records} records", folder.join(router).display());
    }
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Args) -> ExporterConfig {
    let version = match args.protocol {
        ProtocolArg::NetflowV5 => Version::V5,
        ProtocolArg::NetflowV9 => Version::V9,
        ProtocolArg::Ipfix => Version::Ipfix,
    };
    let mut config = ExporterConfig {
        domain: args.domain,
        templates_after_datagrams: args.late_template,
        ..ExporterConfig::new(version)
    };
    if let Some(size) = args.message_size_max {
        config.datagram_octets_max = size.bytes() as usize;
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

fn print_sent(sent: &Sent) -> ExitCode {
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
            "warning: {} datagrams ({} flows) were not sent; {} flows cannot be expressed in this protocol",
            sent.datagrams_refused,
            sent.flows_refused,
            sent.exported.refused_total()
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
