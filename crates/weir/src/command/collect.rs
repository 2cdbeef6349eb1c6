//! `weir collect`: from UDP sockets into an archive.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tracing::info;
use weir_archive::ArchiveOptions;
use weir_chain::Progress;
use weir_chain::run::BlockProgress;
use weir_flow::Counter;

use super::{chain_of, seconds, tell_archived, tell_books};
use crate::octets::Octets;
use crate::running::Foreground;

/// Receive NetFlow v5, NetFlow v9 and IPFIX over UDP and keep the flows in an archive
///
/// SIGINT and SIGTERM end it in order: what the kernel still holds is read, everything is written, synced and sealed,
/// and the books are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2055")]
    listen: SocketAddr,
    /// Folder of the archive; made when it is not there
    #[arg(long, value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
    /// Sockets that share the port, each with a thread that receives and one that decodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    sockets: usize,
    /// Receive buffer to ask the kernel for, per socket
    #[arg(long, value_name = "OCTETS", default_value = "64M")]
    buffer: Octets,
    /// Longest time that flows stay unsynced, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    commit_interval_ms: u64,
    /// Longest time before the tail is sealed into a segment, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    seal_interval_secs: u64,
    /// Flows after which the tail is sealed into a segment
    #[arg(long, value_name = "ROWS", default_value_t = ArchiveOptions::default().segment_rows_max)]
    segment_rows: usize,
    /// Time between lines that tell how it goes, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    report_secs: u64,
    /// Print the chain that this command is, as a chain file, and end
    #[arg(long)]
    show_chain: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = args.chain();
    if args.show_chain {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let chain = chain_of(&text)?;
    let every = (args.report_secs > 0).then(|| Duration::from_secs(args.report_secs));
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, tell_progress)?;
    tell_books(&progress, "collector");
    tell_archived(&progress);
    ended.context("collecting ended")?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The chain file of these arguments.
    fn chain(&self) -> String {
        format!(
            "name = \"collect\"\n\
             # deliveries stay as the collector makes them, with the books that account for them\n\
             burst_records = 0\n\
             queue_bursts = 8\n\
             \n\
             [blocks.collector]\n\
             type = \"collector\"\n\
             listen = \"{}\"\n\
             sockets = {}\n\
             buffer_octets = {}\n\
             \n\
             [blocks.archive]\n\
             type = \"archive\"\n\
             inputs = [\"collector\"]\n\
             thread = \"own\"\n\
             archive = {}\n\
             commit_interval_secs = {}\n\
             seal_interval_secs = {}\n\
             segment_rows = {}\n",
            self.listen,
            self.sockets,
            self.buffer.0,
            super::quoted(&self.archive),
            seconds(self.commit_interval_ms),
            self.seal_interval_secs,
            self.segment_rows,
        )
    }
}

fn tell_progress(progress: &Progress) {
    let (Some(collector), Some(archive)) = (progress.block("collector"), progress.block("archive")) else { return };
    let of = |block: &BlockProgress, counter: Counter| block.counter(counter.name());
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
