//! `weir collect`: from sockets of any transport into an archive.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use tracing::info;
use weir_blocks::sinks::archive::{self, ArchiveSinkOptions, RetentionOptions, SealingOptions};
use weir_blocks::sinks::statistics::{self, StatisticsSinkOptions};
use weir_blocks::sources::collector::options::{
    ConnectionOptions, LimitOptions, ListenOptions, ListenerTlsOptions, RelayingOptions,
};
use weir_blocks::sources::collector::{self, CollectorSourceOptions};
use weir_blocks::sources::ingest;
use weir_blocks::sources::meter::{self, MeterSourceOptions};
use weir_blocks::transforms::enrich::EnrichOptions;
use weir_chain::config::ThreadChoice;
use weir_chain::run::ComponentProgress;
use weir_chain::{Chain, ChainBuilder, NoOptions, Progress, Running, TimeSpan};
use weir_flow::Counter;
use weir_watch::RunnerOptions;

use super::archive_args::ArchiveArg;
use super::books::report_flows_gone;
use super::chain_parts::{EnrichmentArgs, StatisticsArgs, enriched_all, show_or_build};
use super::report::{print_archived, print_books, print_counted};
use super::watch::{ReportArgs, WatchSession, check_named};
use crate::flags::Flags;
use crate::running::Foreground;

/// The component that collects, in the chain of that.
pub(super) const COLLECTOR: &str = "collector";

const EXAMPLES: &str = "\
Examples:
  Collect NetFlow and IPFIX from everywhere, keep 90 days or 500 GB:
    weir collect --listen 0.0.0.0:2055 --archive flows --max-age 90d --max-size 500GB
  IPFIX over TLS from exporters with a certificate of your own authority:
    weir collect --listen tls://0.0.0.0:4740 --tls-cert own.pem --tls-key own.key --tls-ca ca.pem \\
      --archive flows
  Also store flows in Cassandra, three times and for 90 days:
    weir collect --archive flows --max-age 7d \\
      --to 'cassandra://10.0.0.1,10.0.0.2/weir?replication=3&ttl=90d'
  Keep the countries of addresses and the names of interfaces with the flows:
    weir collect --archive flows --geo-mmdb GeoLite2-Country.mmdb --interfaces interfaces.csv
  See the chain that this command is:
    weir collect --archive flows --show-chain";

/// Receive NetFlow, IPFIX and sFlow and keep the flows in an archive
///
/// SIGINT and SIGTERM end it in order: what the kernel still holds is read, everything is written, synced and sealed,
/// and the books are printed. SIGHUP has it read certificates, revocation lists, files of networks and of enrichment again. What must
/// survive a restart (templates, samplers, waiting data) is kept in the folder collector of the archive, unless
/// --state names another one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// Log progress this often; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    report_interval: TimeSpan,
    /// Print this command as a chain file, and exit
    #[arg(long)]
    show_chain: bool,
    /// Run this watch file, or those of this folder, on what is collected; the option may be repeated
    ///
    /// Reports are printed and kept as weir watch run does it, without reading what was written back. A file of a folder that
    /// is wrong is reported, and neither collecting nor the other watches wait for it.
    #[arg(long = "watch", value_name = "FILE", help_heading = "Watching")]
    watches: Vec<PathBuf>,
    #[command(flatten)]
    reports: ReportArgs,
    /// Also store flows in this cluster and keyspace: cassandra://HOST,HOST:PORT/KEYSPACE
    ///
    /// The archive is where flows wait while the cluster is away; its limits bound how long. Options follow a question mark, as
    /// those of weir forward, which does the same in a process of its own.
    #[cfg(feature = "cassandra")]
    #[arg(long, value_name = "URL", value_parser = super::forward::cluster, help_heading = "Storing elsewhere")]
    to: Option<weir_cassandra::CassandraOptions>,
    #[command(flatten)]
    listening: Flags<ListenOptions>,
    #[command(flatten)]
    tls: Flags<ListenerTlsOptions>,
    #[command(flatten)]
    relaying: Flags<RelayingOptions>,
    #[command(flatten)]
    connections: Flags<ConnectionOptions>,
    #[command(flatten)]
    limits: Flags<LimitOptions>,
    #[command(flatten)]
    sealing: Flags<SealingOptions>,
    #[command(flatten)]
    retention: Flags<RetentionOptions>,
    #[command(flatten)]
    enrichment: EnrichmentArgs,
    #[command(flatten)]
    statistics: StatisticsArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(chain) = show_or_build(args.chain()?, args.show_chain)? else { return Ok(ExitCode::SUCCESS) };
    let every = (!args.report_interval.is_zero()).then(|| args.report_interval.duration());
    if !args.watches.is_empty() {
        check_named(&args.watches)?;
    }
    let watching = args.attended()?.map(WatchThread::new);
    #[cfg(feature = "cassandra")]
    let forwarding = super::forward::ForwardBeside::default();
    let begin = |_: &Running| {
        watching.iter().for_each(WatchThread::begin);
        #[cfg(feature = "cassandra")]
        forwarding.begin(&args.archive.archive, args.to.as_ref(), true);
    };
    let report = |progress: &Progress| {
        log_progress(progress);
        #[cfg(feature = "cassandra")]
        forwarding.counts().iter().for_each(|counts| info!("{counts}"));
    };
    let (progress, ended) = Foreground::new()?.run(chain, every, begin, report)?;
    if let Some(watching) = watching {
        watching.end();
    }
    // what came last gets a moment to be stored; the rest waits in the archive
    #[cfg(feature = "cassandra")]
    let forwarded = forwarding.end(super::forward::after(super::forward::LIVE_GRACE));
    print_books(&progress, "collector");
    print_archived(&progress);
    report_flows_gone(&args.archive.archive);
    print_counted(&progress);
    #[cfg(feature = "cassandra")]
    forwarded?;
    ended.context("collecting ended")?;
    Ok(ExitCode::SUCCESS)
}

/// Watches next to the chain, in a thread that ends after it.
pub(super) struct WatchThread {
    attended: Arc<WatchSession>,
    is_stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WatchThread {
    pub(super) fn new(attended: WatchSession) -> Self {
        Self { attended: Arc::new(attended), is_stopping: Arc::default(), thread: Mutex::default() }
    }

    /// Begins, once the archive is open. Collecting goes on whatever becomes of the watches.
    pub(super) fn begin(&self) {
        let (attended, is_stopping) = (Arc::clone(&self.attended), Arc::clone(&self.is_stopping));
        let run = move || {
            if let Err(error) = attended.run(|| is_stopping.load(Ordering::Relaxed)) {
                eprintln!("error: the watches have ended: {error:#}");
            }
        };
        match thread::Builder::new().name("watch".to_owned()).spawn(run) {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(error) => eprintln!("error: the watches cannot begin: {error}"),
        }
    }

    /// Ends when all closed windows are answered.
    pub(super) fn end(self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.into_inner().unwrap_or_else(PoisonError::into_inner)
            && thread.join().is_err()
        {
            eprintln!("error: the watches have ended by a panic");
        }
    }
}

impl Args {
    /// The watches of these arguments, if any.
    fn attended(&self) -> anyhow::Result<Option<WatchSession>> {
        if self.watches.is_empty() {
            return Ok(None);
        }
        let options = self.reports.applied(RunnerOptions::new(&self.archive.archive))?;
        Ok((!self.watches.is_empty()).then(|| WatchSession {
            options,
            files: self.watches.clone(),
            json: false,
            ends_with_reader: false,
            status: None,
        }))
    }

    /// The chain that these arguments describe.
    fn chain(&self) -> anyhow::Result<ChainBuilder> {
        let statistics = self.statistics.options(Some(&self.archive.archive))?;
        let source = CollectorSourceOptions {
            archive: None,
            listening: self.listening.0.clone(),
            connections: self.connections.0.clone(),
            tls: self.tls.0.clone(),
            relaying: self.relaying.0.clone(),
            limits: self.limits.0.clone(),
        };
        let sink = ArchiveSinkOptions {
            archive: self.archive.archive.clone(),
            sealing: self.sealing.0.clone(),
            retention: self.retention.0.clone(),
            ..ArchiveSinkOptions::default()
        };
        let sources = CollectingSources { collector: Some(source), ..CollectingSources::default() };
        Ok(collecting(sources, self.enrichment.options(), sink, statistics))
    }
}

/// Where the flows of a chain that collects come from.
#[derive(Default)]
pub(super) struct CollectingSources {
    /// Datagrams and connections.
    pub(super) collector: Option<CollectorSourceOptions>,
    /// Packets.
    pub(super) meters: Vec<MeterSourceOptions>,
    /// Whether programs push some into this process.
    pub(super) are_pushed: bool,
    /// What agents know about interfaces of exporters, which has no flows.
    #[cfg(feature = "snmp")]
    pub(super) snmp: Vec<weir_snmp::SnmpOptions>,
}

/// The chain that collects and meters into an archive, and keeps statistics where they are asked for. What must survive a restart is kept in
/// the archive unless the source says otherwise.
pub(super) fn collecting(
    from: CollectingSources,
    enrichment: EnrichOptions,
    sink: ArchiveSinkOptions,
    statistics: Option<StatisticsSinkOptions>,
) -> ChainBuilder {
    // deliveries stay as their sources make them, with the books that account for them
    let mut chain = Chain::builder("collect").queues(0, 8);
    let mut sources = Vec::new();
    if let Some(source) = from.collector {
        let mut listening = source.listening;
        listening.state.get_or_insert_with(|| sink.archive.join("collector"));
        let source = CollectorSourceOptions { archive: Some(sink.archive.clone()), listening, ..source };
        chain = chain.add(COLLECTOR, &collector::KIND, source, &[], ThreadChoice::Default);
        sources.push(COLLECTOR.to_owned());
    }
    for (number, options) in (1..).zip(from.meters) {
        let name = if number == 1 { "meter".to_owned() } else { format!("meter-{number}") };
        chain = chain.add(&name, &meter::KIND, options, &[], ThreadChoice::Default);
        sources.push(name);
    }
    if from.are_pushed {
        chain = chain.add("ingest", &ingest::KIND, NoOptions {}, &[], ThreadChoice::Default);
        sources.push("ingest".to_owned());
    }
    #[cfg(feature = "snmp")]
    for (number, options) in (1..).zip(from.snmp) {
        let name = if number == 1 { "snmp".to_owned() } else { format!("snmp-{number}") };
        chain = chain.add(&name, &weir_snmp::source::KIND, options, &[], ThreadChoice::Default);
        sources.push(name);
    }
    let inputs = sources.iter().map(String::as_str).collect();
    let (chain, inputs) = enriched_all(chain, inputs, enrichment);
    let chain = chain.add("archive", &archive::KIND, sink, &inputs, ThreadChoice::Own);
    match statistics {
        Some(options) => chain.add("statistics", &statistics::KIND, options, &inputs, ThreadChoice::Own),
        None => chain,
    }
}

pub(super) fn log_progress(progress: &Progress) {
    let (Some(collector), Some(archive)) = (progress.component("collector"), progress.component("archive")) else {
        return;
    };
    let of = |component: &ComponentProgress, counter: Counter| component.counter(counter.name());
    let drops = [Counter::KernelDrops, Counter::QueueDrops].map(|counter| of(collector, counter));
    info!(
        "{} datagrams, {} flows decoded, {} synced, lost {} (kernel {}, queue {}, sequence {} records and {} datagrams)",
        of(collector, Counter::Datagrams),
        of(collector, Counter::RecordsStored),
        archive.counter("rows_durable"),
        drops[0] + drops[1],
        drops[0],
        drops[1],
        of(collector, Counter::RecordsLost).saturating_sub(of(collector, Counter::RecordsLate)),
        of(collector, Counter::DatagramsLost).saturating_sub(of(collector, Counter::DatagramsLate)),
    );
}
