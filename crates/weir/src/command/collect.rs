//! `weir collect`: from sockets of any transport into an archive.

use std::process::ExitCode;

use anyhow::Context;
use tracing::info;
use weir_blocks::sinks::archive::{self, ArchiveSinkOptions, RetentionOptions, SealingOptions};
use weir_blocks::sources::collector::options::{
    ConnectionOptions, LimitOptions, ListenOptions, ListenerTlsOptions, RelayingOptions,
};
use weir_blocks::sources::collector::{self, CollectorSourceOptions};
use weir_chain::config::ThreadChoice;
use weir_chain::run::ComponentProgress;
use weir_chain::{Chain, ChainBuilder, Progress, TimeSpan};
use weir_flow::Counter;

use super::{ArchiveArg, print_archived, print_books, show_or_build};
use crate::flags::Flags;
use crate::running::Foreground;

const EXAMPLES: &str = "\
Examples:
  Collect NetFlow and IPFIX from everywhere, keep 90 days or 500 GB:
    weir collect --listen 0.0.0.0:2055 --archive flows --max-age 90d --max-size 500GB
  IPFIX over TLS from exporters with a certificate of your own authority:
    weir collect --listen tls://0.0.0.0:4740 --tls-cert own.pem --tls-key own.key --tls-ca ca.pem --archive flows
  See the chain that this command is:
    weir collect --archive flows --show-chain";

/// Receive NetFlow, IPFIX and sFlow and keep the flows in an archive
///
/// SIGINT and SIGTERM end it in order: what the kernel still holds is read, everything is written, synced and sealed,
/// and the books are printed. SIGHUP has it read certificates, revocation lists and files of networks again. What must
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
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(chain) = show_or_build(args.chain(), args.show_chain)? else { return Ok(ExitCode::SUCCESS) };
    let every = (!args.report_interval.is_zero()).then(|| args.report_interval.duration());
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, log_progress)?;
    print_books(&progress, "collector");
    print_archived(&progress);
    ended.context("collecting ended")?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The chain that these arguments describe.
    fn chain(&self) -> ChainBuilder {
        let mut listening = self.listening.0.clone();
        listening.state.get_or_insert_with(|| self.archive.archive.join("collector"));
        let source = CollectorSourceOptions {
            archive: Some(self.archive.archive.clone()),
            listening,
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
        // deliveries stay as the collector makes them, with the books that account for them
        Chain::builder("collect")
            .queues(0, 8)
            .add("collector", &collector::KIND, source, &[], ThreadChoice::Default)
            .add("archive", &archive::KIND, sink, &["collector"], ThreadChoice::Own)
    }
}

fn log_progress(progress: &Progress) {
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
